/* SPDX-License-Identifier: Apache-2.0 */
/* docker create, run, start and attach. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/docker/verbs.h"
#include "cli/live/lifecycle.h"
#include "cli/live/resident.h"
#include "manager/engine/host.h"
#include "manager/engine/id.h"
#include "manager/engine/image.h"
#include "manager/engine/objects.h"
#include "manager/engine/volumes.h"
#include "manager/host/conf.h"
#include "manager/host/registry.h"
#include "manager/host/volume.h"
#include "manager/ops/call.h"

/* ---- make ------------------------------------------------------------------------------------ */

/* [docker] allow and binds are the operator's word for either door; without a file nothing is allowed.  binds has CONF_BINDS_MAX bytes. */
static int rules_of(const struct config *c, char *binds, struct engine_rules *ret, struct err *e)
{
	autofree struct conf *conf = NULL;
	unsigned allow = 0;

	binds[0] = '\0';
	if (c->file[0]) {
		conf = calloc(1, sizeof(*conf));
		if (!conf)
			return err_nomem(e);
		if (conf_load(conf, c, e) < 0)
			return -1;
		allow = engine_host_allow(conf->docker_allow);
		memcpy(binds, conf->docker_binds, CONF_BINDS_MAX);
	}
	engine_host_rules(c, allow, binds, ret);
	return 0;
}

/* As the client of a daemon does: what is missing is fetched, and said on stderr. */
static int have_image(const struct door_args *a, const struct config *c, struct err *e)
{
	const char *image = a->words[0], *pull = door_value(a, "pull");
	const int always = pull && !strcmp(pull, "always"), quiet = door_on(a, "quiet");
	char room[400];
	int r;

	if (pull && !always && strcmp(pull, "missing") && strcmp(pull, "never"))
		return err_set(e, ERR_INVALID,
			       "invalid pull option: '%.40s': must be one of "
			       "\"always\", \"missing\" or \"never\"",
			       pull);
	if (always && strcmp(image, "host"))
		return door_fetch(image, door_value(a, "platform"), quiet, e);
	r = engine_host_image(c, image, e);
	if (r == 0 || e->code != ERR_NOT_FOUND || (pull && !strcmp(pull, "never")))
		return r;
	if (!quiet)
		door_say(0, "Unable to find image '%s' locally",
			 engine_image_tagged(image, room, sizeof(room)));
	return door_fetch(image, door_value(a, "platform"), quiet, e);
}

static void tell_warnings(const struct engine_create *c)
{
	const json_t *one;
	size_t i;

	json_array_foreach (c->warnings, i, one)
		door_say(0, "WARNING: %s", json_string_value(one));
	json_array_foreach (c->unknown, i, one)
		door_say(0, "WARNING: %s means nothing here and was ignored",
			 json_string_value(one));
}

static char **words_of(const json_t *words)
{
	const size_t n = json_array_size(words);
	char **argv = calloc(n + 1, sizeof(*argv));
	size_t i;

	for (i = 0; argv && i < n; i++)
		argv[i] = (char *)(size_t)json_string_value(json_array_get(words, i));
	return argv;
}

/* --cidfile must not be there before, and has the whole id. */
static int write_cidfile(const char *path, const char *id, struct err *e)
{
	autoclose int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		return err_sys(e, "container ID file %s", path);
	return io_write_all(fd, id, strlen(id)) < 0 ? err_sys(e, "write %s", path) : 0;
}

static int check_cidfile(const char *path, struct err *e)
{
	struct stat st;

	return path && !lstat(path, &st) ?
		       err_set(e, ERR_EXISTS,
			       "container ID file found, make sure the other container "
			       "isn't running or delete %.200s",
			       path) :
		       0;
}

struct making {
	const struct door_args *a;
	struct sandbox_ref *s;
	struct engine_create *c;
	json_t *body;
};

/* What is beside the sandbox is there before anybody can see it, or it runs. */
static int put_beside(void *ctx, const struct claim *claim, struct err *e)
{
	const struct making *m = ctx;
	const char *cidfile = door_value(m->a, "cidfile");
	char id[ENGINE_ID];

	if (engine_host_write(&m->s->registry, claim->id, m->c, m->body, e) < 0)
		return -1;
	tell_warnings(m->c);
	if (!cidfile)
		return 0;
	engine_id(claim->id, id);
	return write_cidfile(cidfile, id, e);
}

/* On its other networks before it starts; else nothing of it is left. */
static int join_networks(struct sandbox_ref *s, const struct engine_create *c, struct err *e)
{
	struct err ignored;
	json_t *join;
	size_t i;

	json_array_foreach (c->joins, i, join) {
		json_t *call = json_deep_copy(join);
		autojson json_t *said = NULL;

		call_operand(call, s->id);
		said = door_ask(call, e);
		if (!said) {
			lifecycle_remove(&s->registry, s->id, 1, &ignored);
			return -1;
		}
	}
	return 0;
}

static int make(struct making *m, int starts, struct err *e)
{
	const struct engine_berth asker = door_berth(NULL);
	const char *name = door_value(m->a, "name");
	struct resident_whose whose = {
		.tenant = "",
		.no_start = 1,
		.awaited = !door_on(m->a, "detach"),
		.fill = put_beside,
		.ctx = m,
	};
	autofree char **words = NULL;
	int r;

	/* the image comes first: its volumes and its directory are read, too */
	if (engine_create_name(m->c, name ? name : "", e) < 0 ||
	    have_image(m->a, &m->s->config, e) < 0 || engine_create_read(m->c, m->body, e) < 0 ||
	    engine_host_directories(m->c->directories, e) < 0 ||
	    engine_volumes_make(&asker, m->c->volumes, 0, e) < 0 ||
	    engine_volumes_make(&asker, m->c->anonymous, 1, e) < 0)
		return -1;
	words = words_of(m->c->words);
	if (!words)
		return err_nomem(e);
	whose.name = m->c->name;
	whose.no_start = !starts || json_array_size(m->c->joins);
	r = lifecycle_create(m->s, &whose, words, e);
	if (r == 0)
		r = join_networks(m->s, m->c, e);
	else if (m->c->called[0] && e->code == ERR_EXISTS)
		return engine_host_name_taken(&m->s->registry, m->c->called, e);
	if (r < 0)
		engine_network_missing(e);
	return r;
}

/* starts: nothing is left of it if it cannot be started. */
static int create(const struct door_args *a, struct sandbox_ref *s, int starts, json_t **ret_body,
		  struct err *e)
{
	const struct engine_berth asker = door_berth(NULL);
	struct engine_create c = { 0 };
	struct making m = { a, s, &c, NULL };
	char binds[CONF_BINDS_MAX];
	autojson json_t *others = NULL;
	struct engine_rules rules;
	int r;

	m.body = *ret_body = door_body(a, e);
	if (!*ret_body || check_cidfile(door_value(a, "cidfile"), e) < 0 ||
	    sandbox_ref_registry(s, e) < 0 || rules_of(&s->config, binds, &rules, e) < 0)
		return -1;
	others = engine_load_others(&s->registry, *ret_body, e);
	r = others ? engine_create_init(&c, &rules, e) : -1;
	c.others = others;
	/* nothing is left of a container that could not be made */
	if (r == 0 && (r = make(&m, starts, e)) < 0)
		engine_volumes_drop(&asker, c.anonymous);
	engine_create_release(&c);
	return r;
}

/* ---- run ------------------------------------------------------------------------------------- */

static int said_to(const struct door_args *a, const char *stream)
{
	const json_t *list = door_list(a, "attach"), *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, one)
		if (!strcasecmp(json_string_value(one), stream))
			return 1;
	return 0;
}

static struct door_join join_of(const struct door_args *a)
{
	const json_t *asked = door_list(a, "attach");
	const int some = json_array_size(asked) > 0;
	struct door_join j = {
		.in = door_on(a, "interactive") && (!some || said_to(a, "stdin")),
		.out = !some || said_to(a, "stdout"),
		.err = !some || said_to(a, "stderr"),
		.keys = door_value(a, "detach-keys"),
		.ends = 1,
		.all = 1,
	};

	j.no_signals = json_is_false(json_object_get(a->o, "sig-proxy"));
	return j;
}

static int run_error(const struct err *e)
{
	const char *hint = strstr(e->msg, "; hint: ");
	char text[600];

	if (e->code == ERR_EXEC || e->code == ERR_EXEC_NOT_FOUND)
		return door_exec_failed("docker: Error response from daemon: failed to create task "
					"for container",
					e);
	snprintf(text, sizeof(text), "%.*s", hint ? (int)(hint - e->msg) : 504, e->msg);
	return door_say(DOOR_USAGE,
			"docker: Error response from daemon: %s%s%s%s\n\nRun 'docker "
			"run --help' for more information",
			text, hint ? " (remedy: " : "", hint ? hint + 8 : "", hint ? ")" : "");
}

/* One with --rm goes when its start fails, as it would at its end. */
static int start_it(const struct door_args *a, struct sandbox_ref *s, unsigned awaited,
		    struct err *e)
{
	struct err ignored;

	if (!s->kept || door_start_it(s, awaited, e) == 0)
		return 0;
	if (door_on(a, "rm"))
		lifecycle_remove(&s->registry, s->id, 1, &ignored);
	return -1;
}

static int run_joined(const struct door_args *a, struct sandbox_ref *s, int *ret_status,
		      struct err *e)
{
	const struct door_join j = join_of(a);

	if (start_it(a, s, 1, e) < 0 || door_join(s, &j, ret_status, e) < 0)
		return -1;
	if (door_on(a, "rm") && *ret_status >= 0)
		door_await_removal(s);
	else if (*ret_status >= 0 && !door_value(a, "restart"))
		door_await_end(s);
	/* left running by the detach keys */
	*ret_status = *ret_status < 0 ? 0 : *ret_status;
	return 0;
}

static int run_detached(const struct door_args *a, struct sandbox_ref *s, struct err *e)
{
	char id[ENGINE_ID];

	engine_id(s->id, id);
	/* if it cannot be started it stays, as docker's does: then its id is of use, too */
	if (!door_on(a, "rm"))
		printf("%s\n", id);
	if (start_it(a, s, 0, e) < 0)
		return -1;
	if (door_on(a, "rm"))
		printf("%s\n", id);
	return 0;
}

int door_run_main(const struct command *self, int argc, char **argv)
{
	struct err e = { 0 };
	struct door_args a;
	struct sandbox_ref s;
	json_t *body = NULL;
	int status = 0, r;

	sandbox_ref_init(&s);
	if (!door_parse(&a, self, argc, argv, 1, -1)) {
		status = a.status;
	} else if (door_on(&a, "tty") && door_on(&a, "interactive") && !door_on(&a, "detach") &&
		   !isatty(STDIN_FILENO)) {
		status = door_say(1, "the input device is not a TTY");
	} else {
		r = create(&a, &s, door_on(&a, "rm"), &body, &e);
		if (r == 0)
			r = door_on(&a, "detach") ? run_detached(&a, &s, &e) :
						    run_joined(&a, &s, &status, &e);
		if (r < 0)
			status = run_error(&e);
		if (s.registry.run_fd >= 0)
			/* the leftovers of others */
			registry_gc_some(&s.registry);
	}
	json_decref(body);
	sandbox_ref_close(&s);
	door_release(&a);
	return status;
}

int door_create_main(const struct command *self, int argc, char **argv)
{
	struct err e = { 0 };
	struct door_args a;
	struct sandbox_ref s;
	json_t *body = NULL;
	char id[ENGINE_ID];
	int status = 0;

	sandbox_ref_init(&s);
	if (!door_parse(&a, self, argc, argv, 1, -1)) {
		status = a.status;
	} else if (create(&a, &s, 0, &body, &e) < 0) {
		status = door_error(&e);
	} else {
		engine_id(s.id, id);
		printf("%s\n", id);
	}
	json_decref(body);
	sandbox_ref_close(&s);
	door_release(&a);
	return status;
}
