/* SPDX-License-Identifier: Apache-2.0 */
/* port, network, volume: what a sandbox publishes there, and the objects that outlive sandboxes. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/look/networks.h"
#include "cli/remote/remote.h"

#define PATH_BUF BUF_INIT(65536)

static int is_about(const struct remote *r, const char *object)
{
	return !strncmp(r->command->name, object, strlen(object));
}

/* "networks" or "volumes", as the command says. */
static const char *remote_objects_kind(const struct remote *r)
{
	return is_about(r, "network") ? "networks" : "volumes";
}

/* "/v1/networks/NAME" and rest, with NAME escaped. */
static int object_path(struct buf *path, const struct remote *r, const char *name, const char *rest,
		       struct err *e)
{
	return buf_addf(path, e, "/v1/%s/", remote_objects_kind(r)) < 0 ||
			       remote_escape(path, name, e) < 0 || buf_adds(path, rest, e) < 0 ?
		       -1 : 0;
}

static const char *remote_object_text(const json_t *j, const char *key, char *out, size_t n)
{
	const char *s = json_string_value(json_object_get(j, key));

	log_clean(out, n, s ? s : "-", 0);
	return out;
}

/* ---- port -------------------------------------------------------------------------------- */

static void print_remote_port(const json_t *one, int alone)
{
	char address[64], protocol[16];

	remote_object_text(one, "address", address, sizeof(address));
	remote_object_text(one, "protocol", protocol, sizeof(protocol));
	if (!alone)
		printf("%d/%s -> ", (int)json_integer_value(json_object_get(one, "port")),
		       protocol);
	printf(strchr(address, ':') ? "[%s]:%d\n" : "%s:%d\n", address,
	       (int)json_integer_value(json_object_get(one, "host_port")));
}

/* "80" or "53/udp" */
static int is_port(const json_t *one, const char *wanted)
{
	char text[40], protocol[16];
	int port = (int)json_integer_value(json_object_get(one, "port"));

	remote_object_text(one, "protocol", protocol, sizeof(protocol));
	snprintf(text, sizeof(text), "%d/%s", port, protocol);
	if (!strcmp(text, wanted))
		return 1;
	snprintf(text, sizeof(text), "%d", port);
	return !strcmp(text, wanted) && !strcmp(protocol, "tcp");
}

int remote_port(struct remote *r, struct err *e)
{
	const char *wanted = r->count > 1 ? r->words[1] : NULL;
	autojson json_t *answer = NULL, *list = json_array();
	autobuf struct buf path = PATH_BUF;
	json_t *one;
	size_t i;

	if (remote_path(&path, r->words[0], "/network", e) < 0)
		return -1;
	answer = remote_call(r, "GET", path.data, NULL, e);
	if (!answer)
		return -1;
	json_array_foreach(json_object_get(answer, "ports"), i, one)
		if (!wanted || is_port(one, wanted))
			json_array_append(list, one);
	if (wanted && !json_array_size(list))
		return err_set(e, ERR_NOT_FOUND,
			       "sandbox %.64s publishes no port %.20s; hint: berth port %.64s "
			       "lists them",
			       r->words[0], wanted, r->words[0]);
	if (r->json)
		return remote_print(json_incref(list), e);
	json_array_foreach(list, i, one)
		print_remote_port(one, wanted != NULL);
	return 0;
}

/* ---- network, volume: create, ls, inspect, rm, prune ---- */

static json_t *remote_objects_list(struct remote *r, struct err *e)
{
	const char *what = remote_objects_kind(r);
	autojson json_t *answer = remote_call(
		r, "GET", is_about(r, "network") ? "/v1/networks?named=true" : "/v1/volumes", NULL,
		e);

	return answer ? json_incref(json_object_get(answer, what)) : NULL;
}

int remote_object_ls(struct remote *r, struct err *e)
{
	autojson json_t *list = remote_objects_list(r, e);
	char name[140];
	json_t *one;
	size_t i;

	if (!list)
		return -1;
	if (!r->json && is_about(r, "network"))
		return networks_print(list), 0;
	if (r->json || !remote_flag(r, "quiet"))
		return remote_tell(r, json_incref(list), e);
	json_array_foreach(list, i, one)
		puts(remote_object_text(one, "name", name, sizeof(name)));
	return 0;
}

/* The answer, or the name that was given. */
static int tell_done(const struct remote *r, json_t *answer, struct err *e)
{
	if (!answer)
		return -1;
	if (r->json)
		return remote_print(json_incref(answer), e);
	puts(r->words[0]);
	return 0;
}

static void set_rules(const struct remote *r, json_t *body)
{
	static const char *const lists[] = { "allow-host", "deny-host", "allow-net", "deny-net",
					     "dns" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(lists); i++)
		remote_set_list(r, body, lists[i], lists[i]);
	remote_set_string(r, body, "network-bytes", "network-bytes");
	remote_set_string(r, body, "network-connections", "network-connections");
}

int remote_object_create(struct remote *r, struct err *e)
{
	autojson json_t *body = json_pack("{s:s}", "name", r->words[0]), *answer = NULL;
	char path[40];

	snprintf(path, sizeof(path), "/v1/%s", remote_objects_kind(r));
	if (!body)
		return err_set(e, ERR_INVALID, "the name is not valid UTF-8");
	if (remote_flag(r, "internal"))
		json_object_set_new(body, "internal", json_true());
	remote_set_string(r, body, "size", "size");
	remote_set_list(r, body, "subnet", "subnet");
	remote_set_list(r, body, "label", "label");
	remote_set_string(r, body, "network-rate", "network-rate");
	set_rules(r, body);
	answer = remote_call(r, "POST", path, body, e);
	return tell_done(r, answer, e);
}

int remote_object_inspect(struct remote *r, struct err *e)
{
	autobuf struct buf path = PATH_BUF;
	autojson json_t *answer = NULL;

	if (object_path(&path, r, r->words[0], "", e) < 0)
		return -1;
	answer = remote_call(r, "GET", path.data, NULL, e);
	/* as at home: what is not a network may be a sandbox */
	if (!answer && is_about(r, "network") &&
	    (e->code == ERR_NOT_FOUND || e->code == ERR_DENIED)) {
		buf_release(&path);
		path = (struct buf)PATH_BUF;
		if (remote_path(&path, r->words[0], "/network", e) < 0)
			return -1;
		answer = remote_call(r, "GET", path.data, NULL, e);
	}
	return answer ? command_print_json(answer, r->json ? JSON_COMPACT : JSON_INDENT(2), e) : -1;
}

/* 1: removed; 0: it is not there, or in use, and that is no error. */
static int remove_remote_object(struct remote *r, const char *name, int prunes, struct err *e)
{
	autobuf struct buf path = PATH_BUF;
	autojson json_t *answer = NULL;

	if (object_path(&path, r, name, "", e) < 0)
		return -1;
	answer = remote_call(r, "DELETE", path.data, NULL, e);
	if (answer)
		return 1;
	if (e->code == ERR_NOT_FOUND && (prunes || remote_flag(r, "force")))
		return 0;
	return e->code == ERR_BUSY && prunes ? 0 : -1;
}

static int tell_remote_objects(struct remote *r, const char *key, json_t *names, struct err *e)
{
	json_t *one;
	size_t i;

	if (r->json)
		return remote_print(json_pack("{s:O}", key, names), e);
	json_array_foreach(names, i, one)
		puts(json_string_value(one));
	return 0;
}

int remote_object_rm(struct remote *r, struct err *e)
{
	autojson json_t *removed = json_array();
	int i, got;

	for (i = 0; i < r->count; i++) {
		got = remove_remote_object(r, r->words[i], 0, e);
		if (got < 0)
			return -1;
		if (got)
			json_array_append_new(removed, json_string(r->words[i]));
	}
	return tell_remote_objects(r, "removed", removed, e);
}

/* berthd refuses to remove what is in use: so one that is joined meanwhile stays. */
int remote_object_prune(struct remote *r, struct err *e)
{
	const char *const users = is_about(r, "network") ? "members" : "used_by";
	const int dry = remote_flag(r, "dry-run");
	autojson json_t *list = remote_objects_list(r, e), *removed = json_array();
	json_t *one;
	size_t i;

	if (!list)
		return -1;
	json_array_foreach(list, i, one) {
		json_t *name = json_object_get(one, "name");
		int got = json_array_size(json_object_get(one, users)) ? 0 : 1;

		if (got && !dry)
			got = remove_remote_object(r, json_string_value(name), 1, e);
		if (got < 0)
			return -1;
		if (got)
			json_array_append(removed, name);
	}
	return tell_remote_objects(r, dry ? "would_remove" : "removed", removed, e);
}

/* ---- network update, connect, disconnect ---- */

int remote_network_update(struct remote *r, struct err *e)
{
	autojson json_t *body = json_object(), *answer = NULL;
	autobuf struct buf path = PATH_BUF;

	set_rules(r, body);
	if (object_path(&path, r, r->words[0], "", e) < 0)
		return -1;
	answer = remote_call(r, "PATCH", path.data, body, e);
	return tell_done(r, answer, e);
}

int remote_network_change(struct remote *r, struct err *e)
{
	const char *verb = r->command->name + strlen("network ");
	autojson json_t *body = json_pack("{s:s}", "sandbox", r->words[1]), *answer = NULL;
	autobuf struct buf path = PATH_BUF;
	char rest[20];

	snprintf(rest, sizeof(rest), "/%s", verb);
	if (!body)
		return err_set(e, ERR_INVALID, "the name of the sandbox is not valid UTF-8");
	remote_set_list(r, body, "alias", "alias");
	if (object_path(&path, r, r->words[0], rest, e) < 0)
		return -1;
	answer = remote_call(r, "POST", path.data, body, e);
	return !answer ? -1 : r->json ? remote_print(json_incref(answer), e) : 0;
}
