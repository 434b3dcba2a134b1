/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/create.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/engine/name.h"
#include "manager/host/labels.h"
#include "manager/keeper/health.h"

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
		.called = "",
	};
	return c->words && c->warnings && c->unknown && c->directories && c->ports && c->volumes &&
			       c->anonymous && c->targets && c->joins && c->shared ?
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

static int add_env(struct engine_create *c, const json_t *config, struct err *e)
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
		if (!strchr(item, '='))
			continue;
		if (item[0] == '=')
			return err_set(e, ERR_INVALID, "invalid environment variable: %.80s", item);
		if (engine_word(c, e, "--env=%s", item) < 0)
			return -1;
	}
	return 0;
}

static int add_labels(struct engine_create *c, const json_t *config, struct err *e)
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

static int add_duration(struct engine_create *c, const json_t *health, const char *key,
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
		return add_duration(c, health, key, option, e);
	if (engine_warn(c, e, "Healthcheck.%s is %d ms: berth looks no more often", key, HEALTH_EVERY_MIN_MS) < 0)
		return -1;
	return engine_word(c, e, "--%s=%dms", option, HEALTH_EVERY_MIN_MS);
}

static int check_health(const json_t *health, struct err *e)
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
	if (strcmp(kind, "CMD"))
		return err_set(e, ERR_INVALID, "unknown type of Healthcheck.Test: %.40s", kind);
	argv = json_copy((json_t *)(size_t)test);
	json_array_remove(argv, 0);
	dump = json_dumps(argv, JSON_COMPACT);
	return dump ? engine_word(c, e, "--health-exec=%s", dump) : err_nomem(e);
}

static int add_health(struct engine_create *c, const json_t *config, struct err *e)
{
	json_int_t retries = 0;
	json_t *health, *test;

	if (engine_obj(config, "Healthcheck", &health, e) < 0 ||
	    engine_arr(health, "Test", &test, e) < 0)
		return -1;
	if (check_health(health, e) < 0)
		return -1;
	if (!json_array_size(test))
		return json_object_size(health) ? tell_untested(c, health, e) : 0;
	if (add_test(c, test, e) < 0)
		return -1;
	if (!strcmp(json_string_value(json_array_get(test, 0)), "NONE"))
		return 0;
	if (add_interval(c, health, "Interval", "health-interval", e) < 0 ||
	    add_duration(c, health, "Timeout", "health-timeout", e) < 0 ||
	    add_duration(c, health, "StartPeriod", "health-start-period", e) < 0 ||
	    add_interval(c, health, "StartInterval", "health-start-interval", e) < 0 ||
	    engine_int(health, "Retries", &retries, e) < 0)
		return -1;
	return retries > 0 ? engine_word(c, e, "--health-retries=%" JSON_INTEGER_FORMAT, retries)
			   : 0;
}

/* ---- what runs ---- */

/* A program and its arguments as Docker counts them: an entrypoint of the body takes the image's
 * command away, too. */
static int add_command(struct engine_create *c, const json_t *config, const char *image,
		       struct err *e)
{
	json_t *entry, *cmd;
	const char *word;
	size_t i;

	/* one string stands for a list of one */
	entry = json_object_get(config, "Entrypoint");
	cmd = json_object_get(config, "Cmd");
	if (entry && json_is_string(entry))
		return err_set(e, ERR_INVALID, "invalid JSON: Entrypoint is not an array");
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

static int add_text(struct engine_create *c, const json_t *config, const char *key,
		    const char *option, struct err *e)
{
	const char *v = "";

	if (engine_str(config, key, &v, e) < 0)
		return -1;
	return v[0] ? engine_word(c, e, "--%s=%s", option, v) : 0;
}

static int add_flag(struct engine_create *c, const json_t *config, const char *key,
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
	const char *name = "", *mode = "";

	if (engine_str(body, "Hostname", &name, e) < 0 ||
	    engine_str(host, "NetworkMode", &mode, e) < 0)
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

static const char *const known[] = {
	"AttachStderr",
	"AttachStdin",
	"AttachStdout",
	"Cmd",
	"Entrypoint",
	"Env",
	"ExposedPorts",
	"Healthcheck",
	"HostConfig",
	"Hostname",
	"Image",
	"Labels",
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
	static const char *const outer[] = { "Domainname", "MacAddress", NULL };

	return engine_fold(body, known, e) < 0 || engine_fold(body, outer, e) < 0 ? -1 :
	       engine_host_fold(json_object_get(body, "HostConfig"), e);
}

int engine_create_read(struct engine_create *c, const json_t *body, struct err *e)
{
	const char *image = "";
	json_t *host;

	if (engine_str(body, "Image", &image, e) < 0 ||
	    engine_obj(body, "HostConfig", &host, e) < 0)
		return -1;
	if (!image[0])
		return err_set(e, ERR_INVALID, "no image specified");
	if (engine_note_unknown(c, body, known, "", e) < 0 || add_env(c, body, e) < 0 ||
	    add_labels(c, body, e) < 0 || add_hostname(c, body, host, e) < 0 ||
	    add_user(c, body, host, image, e) < 0 ||
	    add_text(c, body, "WorkingDir", "workdir", e) < 0 ||
	    add_text(c, body, "StopSignal", "stop-signal", e) < 0 ||
	    add_flag(c, body, "Tty", "tty", e) < 0 ||
	    add_flag(c, body, "OpenStdin", "interactive", e) < 0 ||
	    add_stop_timeout(c, body, e) < 0 || add_health(c, body, e) < 0)
		return -1;
	/* Docker shows the image's files there, and the files copied there before a start */
	if (strcmp(image, "host") && engine_word(c, e, "--no-tmpfs") < 0)
		return -1;
	/* a container stays until a client removes it, used or not */
	if (engine_word(c, e, "--idle-timeout=0") < 0 || engine_create_host(c, host, e) < 0 ||
	    engine_create_mounts(c, body, host, e) < 0 ||
	    engine_create_network(c, body, host, e) < 0)
		return -1;
	return add_command(c, body, image, e);
}
