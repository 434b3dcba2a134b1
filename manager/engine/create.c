/* SPDX-License-Identifier: Apache-2.0 */
/* The bodies of POST /containers/create and of an exec, and how a client's document is read. */
#include "manager/engine/create.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "manager/engine/name.h"
#include "manager/host/labels.h"
#include "manager/keeper/health.h"
#include "manager/keeper/protocol.h"

/* ---- members of a document ---- */

/* Reads a client's document with the types of Docker's API. */

static int body_member_is_wrong(const char *key, const char *what, struct err *e)
{
	return err_set(e, ERR_INVALID, "invalid JSON: %.80s is not %s", key, what);
}

static json_t *body_member(const json_t *obj, const char *key)
{
	json_t *v = json_object_get(obj, key);

	return json_is_null(v) ? NULL : v;
}

int engine_str(const json_t *obj, const char *key, const char **ret, struct err *e)
{
	const json_t *v = body_member(obj, key);

	if (!v)
		return 0;
	if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
		return body_member_is_wrong(key, "a string", e);
	*ret = json_string_value(v);
	return 0;
}

int engine_int(const json_t *obj, const char *key, json_int_t *ret, struct err *e)
{
	const json_t *v = body_member(obj, key);

	if (!v)
		return 0;
	if (!json_is_integer(v))
		return body_member_is_wrong(key, "an integer", e);
	*ret = json_integer_value(v);
	return 0;
}

int engine_flag(const json_t *obj, const char *key, int *ret, struct err *e)
{
	const json_t *v = body_member(obj, key);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return body_member_is_wrong(key, "a boolean", e);
	*ret = json_is_true(v);
	return 0;
}

int engine_arr(const json_t *obj, const char *key, json_t **ret, struct err *e)
{
	*ret = body_member(obj, key);
	return *ret && !json_is_array(*ret) ? body_member_is_wrong(key, "an array", e) : 0;
}

int engine_obj(const json_t *obj, const char *key, json_t **ret, struct err *e)
{
	*ret = body_member(obj, key);
	return *ret && !json_is_object(*ret) ? body_member_is_wrong(key, "an object", e) : 0;
}

const char *engine_item(const json_t *list, size_t i, const char *key, struct err *e)
{
	const json_t *v = json_array_get(list, i);
	const char *s = json_string_value(v);

	if (!s || strlen(s) != json_string_length(v)) {
		body_member_is_wrong(key, "an array of strings", e);
		return NULL;
	}
	return s;
}

int engine_fold(json_t *obj, const char *const *known, struct err *e)
{
	const char *name;
	json_t *v;
	void *next;

	json_object_foreach_safe (obj, next, name, v) {
		const char *const *k = known;

		while (*k && strcasecmp(*k, name))
			k++;
		if (!*k || !strcmp(*k, name))
			continue;
		if (!json_object_get(obj, *k) && json_object_set(obj, *k, v) < 0)
			return err_nomem(e);
		json_object_del(obj, name);
	}
	return 0;
}

json_t *engine_user_groups(const char *user, const json_t *groups, struct err *e)
{
	json_t *text = json_string(user);
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)groups, i, one) {
		char number[24];
		const char *name = json_string_value(one);
		json_t *longer;

		/* some clients send numbers, which Docker's own would refuse */
		snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(one));
		name = json_is_integer(one) ? number : name;
		if (!name || !name[0] || strchr(name, ',')) {
			json_decref(text);
			body_member_is_wrong("GroupAdd", "an array of groups", e);
			return NULL;
		}
		longer = json_sprintf("%s,%s", json_string_value(text), name);
		json_decref(text);
		text = longer;
	}
	if (!text)
		err_set(e, ERR_INVALID, "a user or a group is not UTF-8");
	return text;
}

static int add_create_text(json_t *to, const char *fmt, va_list ap, struct err *e)
	__attribute__((format(printf, 2, 0)));

static int add_create_text(json_t *to, const char *fmt, va_list ap, struct err *e)
{
	autofree char *text = NULL;

	if (vasprintf(&text, fmt, ap) < 0) {
		text = NULL;
		return err_nomem(e);
	}
	return json_array_append_new(to, json_string(text)) < 0 ? err_nomem(e) : 0;
}

int engine_word(struct engine_create *c, struct err *e, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = add_create_text(c->words, fmt, ap, e);
	va_end(ap);
	return r;
}

int engine_warn(struct engine_create *c, struct err *e, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = add_create_text(c->warnings, fmt, ap, e);
	va_end(ap);
	return r;
}

/* The values with which a client leaves a member unset: null, "", 0, false, [], {}. */
static int holds_nothing(const json_t *v)
{
	return json_is_null(v) || json_is_false(v) ||
	       (json_is_string(v) && !json_string_length(v)) ||
	       (json_is_integer(v) && !json_integer_value(v)) ||
	       (json_is_array(v) && !json_array_size(v)) ||
	       (json_is_object(v) && !json_object_size(v));
}

#define UNKNOWN_MAX 32

int engine_note_unknown(struct engine_create *c, const json_t *obj, const char *const *known,
			const char *where, struct err *e)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(size_t)obj, name, v) {
		const char *const *k = known;

		while (*k && strcmp(*k, name))
			k++;
		if (*k || holds_nothing(v) || json_array_size(c->unknown) == UNKNOWN_MAX)
			continue;
		if (json_array_append_new(c->unknown, json_sprintf("%s%.60s", where, name)) < 0)
			return err_nomem(e);
		if (engine_warn(c, e, "%s%.60s is not supported here and was ignored", where, name) < 0)
			return -1;
	}
	return 0;
}

/* ---- the body of a create ---- */

int engine_create_init(struct engine_create *c, const struct engine_rules *rules, struct err *e)
{
	*c = (struct engine_create){
		.rules = rules,
		.words = json_array(),
		.warnings = json_array(),
		.unknown = json_array(),
		.directories = json_array(),
		.ports = json_object(),
		.volumes = json_object(),
		.anonymous = json_object(),
		.targets = json_object(),
		.joins = json_array(),
		.shared = json_array(),
		.linked = json_array(),
		.called = "",
	};
	return c->words && c->warnings && c->unknown && c->directories && c->ports && c->volumes &&
			       c->anonymous && c->targets && c->joins && c->shared && c->linked ?
		       0 :
		       err_nomem(e);
}

void engine_create_release(struct engine_create *c)
{
	json_decref(c->words);
	json_decref(c->warnings);
	json_decref(c->unknown);
	json_decref(c->directories);
	json_decref(c->ports);
	json_decref(c->volumes);
	json_decref(c->anonymous);
	json_decref(c->targets);
	json_decref(c->joins);
	json_decref(c->shared);
	json_decref(c->linked);
	*c = (struct engine_create){ 0 };
}

int engine_check_name(const char *name, struct err *e)
{
	char mapped[ENGINE_NAME];

	if (strlen(name) >= 2 && engine_name_map(name, mapped) >= 0)
		return 0;
	return err_set(e, ERR_INVALID,
		       "Invalid container name (%.80s), only [a-zA-Z0-9][a-zA-Z0-9_.-] are "
		       "allowed, 2 to %d of them",
		       name, ENGINE_NAME_MAX);
}

int engine_create_name(struct engine_create *c, const char *name, struct err *e)
{
	name += *name == '/';
	if (!name[0])
		return 0;
	if (engine_check_name(name, e) < 0)
		return -1;
	c->called = name;
	if (engine_name_box(name, c->name) > 0)
		return engine_word(c, e, "--mark=" ENGINE_NAME_LABEL "=%s", name);
	return 0;
}

/* ---- lists of Config ---- */

static int add_config_env(struct engine_create *c, const json_t *config, struct err *e)
{
	const char *item;
	json_t *list;
	size_t i;

	if (engine_arr(config, "Env", &list, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(list); i++) {
		item = engine_item(list, i, "Env", e);
		if (!item)
			return -1;
		/* a name alone takes the variable away; berth's "--env NAME" would take the
		 * daemon's */
		if (!item[0])
			return err_set(e, ERR_INVALID, "invalid environment variable: ");
		/* an empty home is that of the user, which the runtime finds */
		if (!strchr(item, '=') || !strcmp(item, "HOME="))
			continue;
		if (item[0] == '=')
			return err_set(e, ERR_INVALID, "invalid environment variable: %.80s", item);
		if (engine_word(c, e, "--env=%s", item) < 0)
			return -1;
	}
	return 0;
}

static int add_config_labels(struct engine_create *c, const json_t *config, struct err *e)
{
	json_t *labels, *v;
	const char *name;

	if (engine_obj(config, "Labels", &labels, e) < 0 ||
	    engine_word(c, e, "--mark=" LABEL_FACE "=docker") < 0)
		return -1;
	json_object_foreach(labels, name, v) {
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID, "invalid JSON: label %.80s is not a string",
				       name);
		if (labels_are_own(name)) {
			if (engine_warn(c, e, "label %.80s was left out: it is one of berth's own", name) < 0)
				return -1;
			continue;
		}
		if (engine_word(c, e, "--label=%s=%s", name, json_string_value(v)) < 0)
			return -1;
	}
	return 0;
}

/* ---- the health check ---- */

static int add_health_duration(struct engine_create *c, const json_t *health, const char *key,
			const char *option, struct err *e)
{
	json_int_t ns = 0;

	if (engine_int(health, key, &ns, e) < 0)
		return -1;
	return ns ? engine_word(c, e, "--%s=%" JSON_INTEGER_FORMAT "ms", option, ns / 1000000) : 0;
}

/* How often a check may come has a floor in berth: no limit of the sandbox covers what a check costs the host. */
static int add_interval(struct engine_create *c, const json_t *health, const char *key, const char *option, struct err *e)
{
	json_int_t ns = 0;

	if (engine_int(health, key, &ns, e) < 0)
		return -1;
	if (!ns || ns / 1000000 >= HEALTH_EVERY_MIN_MS)
		return add_health_duration(c, health, key, option, e);
	if (engine_warn(c, e, "Healthcheck.%s is %d ms: berth looks no more often", key, HEALTH_EVERY_MIN_MS) < 0)
		return -1;
	return engine_word(c, e, "--%s=%dms", option, HEALTH_EVERY_MIN_MS);
}

static int check_health_command(const json_t *health, struct err *e)
{
	static const char *const keys[] = { "Interval", "Timeout", "StartPeriod", "StartInterval" };
	json_int_t v;
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++) {
		v = 0;
		if (engine_int(health, keys[i], &v, e) < 0)
			return -1;
		if (v && v < 1000000)
			return err_set(e, ERR_INVALID, "%s in Healthcheck cannot be less than 1ms", keys[i]);
	}
	v = 0;
	if (engine_int(health, "Retries", &v, e) < 0)
		return -1;
	return v < 0 ? err_set(e, ERR_INVALID, "Retries in Healthcheck cannot be negative") : 0;
}

/* The test is the image's own then, with the image's times. */
static int tell_untested(struct engine_create *c, const json_t *health, struct err *e)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(size_t)health, key, v)
		if (json_integer_value(v))
			return engine_warn(c, e, "Healthcheck.%.40s was ignored: only a test of the client's own has times of its own", key);
	return 0;
}

static int is_probe(const char *kind)
{
	return !strcmp(kind, "CMD") || !strcmp(kind, "CMD-SHELL");
}

/* A kind that is none of Docker's is no check with dockerd either, which tells it to its log alone. */
static int add_test(struct engine_create *c, const json_t *test, struct err *e)
{
	const char *kind = engine_item(test, 0, "Healthcheck.Test", e), *text;
	autojson json_t *argv = NULL;
	autofree char *dump = NULL;

	if (!kind)
		return -1;
	if (!strcmp(kind, "NONE"))
		return engine_word(c, e, "--no-health");
	if (!strcmp(kind, "CMD-SHELL")) {
		text = engine_item(test, 1, "Healthcheck.Test", e);
		return text ? engine_word(c, e, "--health-cmd=%s", text) : -1;
	}
	if (!is_probe(kind))
		return engine_warn(c, e, "the container has no health check: Healthcheck.Test begins with %.40s, and not with CMD or CMD-SHELL", kind) < 0 ?
			       -1 : engine_word(c, e, "--no-health");
	argv = json_copy((json_t *)(size_t)test);
	json_array_remove(argv, 0);
	dump = json_dumps(argv, JSON_COMPACT);
	return dump ? engine_word(c, e, "--health-exec=%s", dump) : err_nomem(e);
}

static int add_config_health(struct engine_create *c, const json_t *config, struct err *e)
{
	json_int_t retries = 0;
	json_t *health, *test;

	if (engine_obj(config, "Healthcheck", &health, e) < 0 ||
	    engine_arr(health, "Test", &test, e) < 0)
		return -1;
	if (check_health_command(health, e) < 0)
		return -1;
	if (!json_array_size(test))
		return json_object_size(health) ? tell_untested(c, health, e) : 0;
	if (add_test(c, test, e) < 0)
		return -1;
	if (!is_probe(json_string_value(json_array_get(test, 0))))
		return 0;
	if (add_interval(c, health, "Interval", "health-interval", e) < 0 ||
	    add_health_duration(c, health, "Timeout", "health-timeout", e) < 0 ||
	    add_health_duration(c, health, "StartPeriod", "health-start-period", e) < 0 ||
	    add_interval(c, health, "StartInterval", "health-start-interval", e) < 0 ||
	    engine_int(health, "Retries", &retries, e) < 0)
		return -1;
	return retries > 0 ? engine_word(c, e, "--health-retries=%" JSON_INTEGER_FORMAT, retries)
			   : 0;
}

/* ---- what runs ---- */

/* One string stands for a list of one, as in Docker's own StrSlice. */
static void make_word_lists(json_t *config)
{
	static const char *const keys[] = { "Entrypoint", "Cmd" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++)
		if (json_is_string(json_object_get(config, keys[i])))
			json_object_set_new(config, keys[i], json_pack("[O]", json_object_get(config, keys[i])));
}

/* A program and its arguments as Docker counts them: an entrypoint of the body takes the image's
 * command away, too. */
static int add_config_command(struct engine_create *c, const json_t *config, const char *image,
		       struct err *e)
{
	json_t *entry, *cmd;
	const char *word;
	size_t i;

	if (engine_arr(config, "Entrypoint", &entry, e) < 0 ||
	    engine_arr(config, "Cmd", &cmd, e) < 0)
		return -1;
	if (entry && engine_word(c, e, "--entrypoint=") < 0)
		return -1;
	if (engine_word(c, e, "--service") < 0 || engine_word(c, e, "--") < 0 ||
	    engine_word(c, e, "%s", image) < 0)
		return -1;
	for (i = 0; i < json_array_size(entry); i++) {
		word = engine_item(entry, i, "Entrypoint", e);
		/* [""] is Docker's way to say none */
		if (!word || ((word[0] || i) && engine_word(c, e, "%s", word) < 0))
			return -1;
	}
	for (i = 0; i < json_array_size(cmd); i++) {
		word = engine_item(cmd, i, "Cmd", e);
		if (!word || engine_word(c, e, "%s", word) < 0)
			return -1;
	}
	return 0;
}

static int add_config_text(struct engine_create *c, const json_t *config, const char *key,
		    const char *option, struct err *e)
{
	const char *v = "";

	if (engine_str(config, key, &v, e) < 0)
		return -1;
	return v[0] ? engine_word(c, e, "--%s=%s", option, v) : 0;
}

static int add_config_flag(struct engine_create *c, const json_t *config, const char *key,
		    const char *option, struct err *e)
{
	int on = 0;

	if (engine_flag(config, key, &on, e) < 0)
		return -1;
	return on ? engine_word(c, e, "--%s", option) : 0;
}

/* The groups of HostConfig go behind the user, the image's where the client names none. */
static int add_user(struct engine_create *c, const json_t *body, const json_t *host, const char *image, struct err *e)
{
	autojson json_t *config = NULL, *text = NULL;
	const char *user = "";
	json_t *groups;
	uint64_t room;

	if (engine_str(body, "User", &user, e) < 0 || engine_arr(host, "GroupAdd", &groups, e) < 0)
		return -1;
	if (!json_array_size(groups))
		return user[0] ? engine_word(c, e, "--user=%s", user) : 0;
	if (!user[0] && c->rules->config && (config = c->rules->config(c->rules->ctx, image, &room)))
		engine_str(config, "User", &user, e);
	text = engine_user_groups(user, groups, e);
	return text ? engine_word(c, e, "--user=%s", json_string_value(text)) : -1;
}

/* The short id, unless the client names one or the name is that of another container. */
static int add_hostname(struct engine_create *c, const json_t *body, const json_t *host,
			struct err *e)
{
	const char *name = "", *domain = "", *mode = "";

	if (engine_str(body, "Hostname", &name, e) < 0 ||
	    engine_str(host, "NetworkMode", &mode, e) < 0)
		return -1;
	if (engine_str(body, "Domainname", &domain, e) < 0 || (domain[0] && engine_word(c, e, "--domainname=%s", domain) < 0))
		return -1;
	if (name[0])
		return engine_word(c, e, "--hostname=%s", name);
	return strncmp(mode, "container:", 10) ? engine_word(c, e, "--hostname=@id") : 0;
}

static int add_stop_timeout(struct engine_create *c, const json_t *config, struct err *e)
{
	json_int_t s = -1;

	if (engine_int(config, "StopTimeout", &s, e) < 0)
		return -1;
	return s >= 0 ? engine_word(c, e, "--stop-timeout=%" JSON_INTEGER_FORMAT "s", s) : 0;
}

/* [ROWS, COLUMNS] of HostConfig, which is [0, 0] where the client has none. */
static int add_console_size(struct engine_create *c, const json_t *body, const json_t *host, struct err *e)
{
	json_int_t size[2] = { 0, 0 };
	json_t *list, *one;
	int tty = 0;
	size_t i;

	if (engine_flag(body, "Tty", &tty, e) < 0 || engine_arr(host, "ConsoleSize", &list, e) < 0)
		return -1;
	json_array_foreach (list, i, one) {
		if (i >= ARRAY_LEN(size) || !json_is_integer(one) || json_integer_value(one) < 0)
			return err_set(e, ERR_INVALID, "invalid JSON: ConsoleSize is not two numbers, rows and columns");
		size[i] = json_integer_value(one);
	}
	if (!tty || !size[0] || !size[1])
		return 0;
	return engine_word(c, e, "--terminal-size=%" JSON_INTEGER_FORMAT "x%" JSON_INTEGER_FORMAT, size[0], size[1]);
}

static const char *const known_config[] = {
	"AttachStderr",
	"AttachStdin",
	"AttachStdout",
	"Cmd",
	"Domainname",
	"Entrypoint",
	"Env",
	"ExposedPorts",
	"Healthcheck",
	"HostConfig",
	"Hostname",
	"Image",
	"Labels",
	"MacAddress",
	"NetworkingConfig",
	"OpenStdin",
	"StdinOnce",
	"StopSignal",
	"StopTimeout",
	"Tty",
	"User",
	"Volumes",
	"WorkingDir",
	NULL,
};

int engine_create_fold(json_t *body, struct err *e)
{
	if (engine_fold(body, known_config, e) < 0)
		return -1;
	make_word_lists(body);
	return engine_host_fold(json_object_get(body, "HostConfig"), e);
}

int engine_create_read(struct engine_create *c, const json_t *body, struct err *e)
{
	const char *image = "";
	json_t *host;

	if (engine_str(body, "Image", &image, e) < 0 ||
	    engine_obj(body, "HostConfig", &host, e) < 0)
		return -1;
	if (!json_object_size(body))
		return err_set(e, ERR_INVALID, "config cannot be empty in order to create a container");
	if (!image[0])
		return err_set(e, ERR_INVALID, "%s", json_array_size(json_object_get(body, "Cmd")) || json_array_size(json_object_get(body, "Entrypoint")) ?
			       "no image specified" : "no command specified");
	if (engine_note_unknown(c, body, known_config, "", e) < 0 || add_config_env(c, body, e) < 0 ||
	    add_config_labels(c, body, e) < 0 || add_hostname(c, body, host, e) < 0 ||
	    add_user(c, body, host, image, e) < 0 ||
	    add_config_text(c, body, "WorkingDir", "workdir", e) < 0 ||
	    add_config_text(c, body, "StopSignal", "stop-signal", e) < 0 ||
	    add_config_flag(c, body, "Tty", "tty", e) < 0 ||
	    add_console_size(c, body, host, e) < 0 || add_config_flag(c, body, "OpenStdin", "interactive", e) < 0 ||
	    add_stop_timeout(c, body, e) < 0 || add_config_health(c, body, e) < 0)
		return -1;
	if (engine_word(c, e, "--cgroup-files") < 0)
		return -1;
	/* Docker shows the image's files there, and the files copied there before a start */
	if (strcmp(image, "host") && engine_word(c, e, "--no-tmpfs") < 0)
		return -1;
	/* a container stays until a client removes it, used or not */
	if (engine_word(c, e, "--idle-timeout=0") < 0 || engine_create_host(c, host, e) < 0 ||
	    engine_create_mounts(c, body, host, e) < 0 ||
	    engine_create_network(c, body, host, e) < 0)
		return -1;
	return add_config_command(c, body, image, e);
}

/* ---- the body of an exec ---- */

int engine_exec_check(json_t *body, struct err *e)
{
	static const char *const known[] = { "AttachStdin", "AttachStdout", "AttachStderr", "Cmd", "ConsoleSize", "Detach",
					     "DetachKeys", "Env", "Privileged", "Tty", "User", "WorkingDir", NULL };
	const char *text = "";
	json_t *argv, *env;
	int on = 0;
	size_t i;

	if (engine_fold(body, known, e) < 0 || engine_arr(body, "Cmd", &argv, e) < 0 || engine_arr(body, "Env", &env, e) < 0 ||
	    engine_str(body, "User", &text, e) < 0 ||
	    engine_str(body, "WorkingDir", &text, e) < 0 || engine_flag(body, "Tty", &on, e) < 0 ||
	    engine_flag(body, "AttachStdin", &on, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(argv); i++)
		if (!engine_item(argv, i, "Cmd", e))
			return -1;
	for (i = 0; i < json_array_size(env); i++)
		if (!engine_item(env, i, "Env", e))
			return -1;
	return json_array_size(argv) ? 0 : err_set(e, ERR_INVALID, "No exec command specified");
}

/* A name alone takes a variable away that the client does not have: it is in no environment. */
static json_t *with_values(const json_t *env)
{
	json_t *all = json_array(), *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)env, i, one)
		if (strchr(json_string_value(one), '='))
			json_array_append(all, one);
	return all;
}

json_t *engine_exec_request(const json_t *body)
{
	json_t *ask = protocol_request(OP_exec);
	const char *user = json_string_value(json_object_get(body, "User"));
	const char *dir = json_string_value(json_object_get(body, "WorkingDir"));
	json_t *env = json_object_get(body, "Env");
	autojson json_t *whole = NULL;
	struct err ignored;

	request_set_argv(ask, json_deep_copy(json_object_get(body, "Cmd")));
	request_set_detach(ask, 1);
	request_set_unruled(ask, 1);
	request_set_timeout_ms(ask, 0);
	if (json_array_size(env))
		request_set_env(ask, with_values(env));
	whole = engine_user_groups(user ? user : "", json_object_get(body, ENGINE_EXEC_GROUPS), &ignored);
	if (user && user[0])
		request_set_user(ask, whole ? json_string_value(whole) : user);
	if (dir && dir[0])
		request_set_workdir(ask, dir);
	if (json_is_true(json_object_get(body, "Tty")))
		request_set_tty(ask, 1);
	return ask;
}
