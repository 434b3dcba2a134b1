/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth config: what is in force and where it comes from; whether a file would
 * be accepted.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/program.h"
#include "cli/commands.h"
#include "cli/live/resident.h"
#include "manager/host/conf.h"
#include "manager/host/config.h"
#include "manager/host/hostids.h"
#include "manager/host/tenant.h"

enum { OPT_JSON = 1, OPT_OWN };

static const struct opt show_options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, sizes in bytes and times in milliseconds", OPT_JSON },
};

static int set_config_json(void *ctx, int id, const char *value, struct err *e)
{
	(void)id, (void)value, (void)e;
	*(int *)ctx = 1;
	return 0;
}

/* ---- show ---- */

/* One line of what is in force, of whichever table. */
struct row {
	const char *section;	/* "pool.NAME" */
	const struct config_key *key;
	const void *base;	/* the struct that holds the value */
	const char *source, *env;
};

struct shown {
	struct config c;
	struct conf conf;	/* what only berthd reads */
	json_t *doc;		/* the file, to tell what comes from it */
};

typedef void each_row(void *ctx, const struct row *row);

static void service_rows(const char *section, const char *shown, const json_t *table, const void *base,
			 const struct config_key *keys, size_t n, each_row *each, void *ctx)
{
	size_t i;

	for (i = 0; i < n; i++) {
		struct row row = { shown, &keys[i], base, json_object_get(table, keys[i].name) ? "file" : "default", NULL };

		if (!strcmp(keys[i].section, section))
			each(ctx, &row);
	}
}

static void each_config_row(const struct shown *s, each_row *each, void *ctx)
{
	char section[80];
	size_t i;

	for (i = 0; i < config_key_count; i++) {
		struct row row = { config_keys[i].section, &config_keys[i], &s->c, config_source_name(&s->c, i),
				   s->c.source[i] == CONFIG_FROM_ENV ? config_keys[i].env : NULL };

		each(ctx, &row);
	}
	for (i = 0; i < config_service_section_count; i++)
		service_rows(config_service_sections[i], config_service_sections[i], json_object_get(s->doc, config_service_sections[i]), &s->conf, conf_keys,
			     conf_key_count, each, ctx);
	for (i = 0; i < s->conf.pool_count; i++) {
		const struct conf_pool *p = &s->conf.pools[i];

		snprintf(section, sizeof(section), "pool.%s", p->name);
		service_rows("pool", section, json_object_get(json_object_get(s->doc, "pool"), p->name), p, conf_pool_keys,
			     conf_pool_key_count, each, ctx);
	}
}

/* What holds: a value that no file sets is shown as what it was derived to be. */
static void tenant_rows(const struct shown *s, const char *name, each_row *each, void *ctx)
{
	char section[80];
	struct tenant t;
	struct err ignored;
	size_t i;

	if (tenant_parse(s->doc, &s->c, name, &t, &ignored) < 0)
		return;	/* conf_load() has checked it */
	snprintf(section, sizeof(section), name[0] ? "tenant.%s" : "tenant%s", name);
	for (i = 0; i < tenant_key_count; i++) {
		struct row row = { section, &tenant_keys[i], &t, tenant_source(s->doc, name, tenant_keys[i].name) ? "file" : "default", NULL };

		each(ctx, &row);
	}
}

static void all_rows(const struct shown *s, each_row *each, void *ctx)
{
	const char *name;
	json_t *v;

	each_config_row(s, each, ctx);
	tenant_rows(s, "", each, ctx);
	json_object_foreach(json_object_get(s->doc, "tenant"), name, v)
		if (json_is_object(v))
			tenant_rows(s, name, each, ctx);
}

/* A name may have a dot in it, which would split a bare key. */
static void print_header(const char *section)
{
	const char *dot = strchr(section, '.');

	if (dot)
		printf("\n[%.*s.\"%s\"]\n", (int)(dot - section), section, dot + 1);
	else
		printf("\n[%s]\n", section);
}

static void toml_row(void *ctx, const struct row *row)
{
	char (*section)[80] = ctx, value[CONFIG_TOML_MAX];

	if (strcmp(*section, row->section))
		print_header(row->section);
	snprintf(*section, sizeof(*section), "%s", row->section);
	config_value_toml(row->base, row->key, value, sizeof(value));
	printf("%-17s= %-17s # %s%s%s\n", row->key->name, value, row->source, row->env ? " " : "", row->env ? row->env : "");
}

static void show_toml(const struct shown *s)
{
	char section[80] = "";

	printf("# berth %s; file: %s\n", BERTH_VERSION, s->c.file[0] ? s->c.file : "none");
	all_rows(s, toml_row, &section);
}

static json_t *json_list(const char *s)
{
	json_t *list = json_array();
	size_t n;

	for (; *s; s += n + (s[n] == '\n')) {
		n = strcspn(s, "\n");
		json_array_append_new(list, json_stringn(s, n));
	}
	return list;
}

/* The value as it is held: strings, booleans, bytes, ms, thousandths as a fraction. */
static json_t *json_value(const struct row *row)
{
	const struct config_key *k = row->key;
	const void *p = (const char *)row->base + k->offset;
	uint64_t v = 0;

	switch (k->type) {
	case CONFIG_STRING:
		return json_string(p);
	case CONFIG_LIST:
		return json_list(p);
	case CONFIG_BOOL:
		return json_boolean(*(const int *)p);
	case CONFIG_U32:
		return json_integer((json_int_t)*(const uint32_t *)p);
	default:
		memcpy(&v, p, sizeof(v));
		return k->type == CONFIG_CPUS ? json_real((double)v / 1000) : json_integer((json_int_t)v);
	}
}

static void json_row(void *ctx, const struct row *row)
{
	const struct config_key *k = row->key;
	json_t *section = json_object_get(ctx, row->section), *entry = json_object();
	const char *unit = k->type == CONFIG_SIZE ? "bytes" : k->type == CONFIG_DURATION ? "ms" : NULL;

	if (!section) {
		section = json_object();
		json_object_set_new(ctx, row->section, section);
	}
	json_object_set_new(entry, "value", json_value(row));
	if (unit)
		json_object_set_new(entry, "unit", json_string(unit));
	json_object_set_new(entry, "source", json_string(row->source));
	json_object_set_new(section, k->name, entry);
}

/* {"file":..., "sandbox":{"image":{"value":"host","source":"default"},...},..., "pool.base":{...}} */
static int show_config_as_json(const struct shown *s, struct err *e)
{
	autojson json_t *root = json_object();

	json_object_set_new(root, "file", s->c.file[0] ? json_string(s->c.file) : json_null());
	all_rows(s, json_row, root);
	return command_print_json(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(10), e);
}

static int show_config(const struct command *self, int argc, char **argv)
{
	int rest, help = 0, json = 0, result = 0;
	static struct shown s;
	struct err e;

	if (command_options(self, argc, argv, set_config_json, &json, &rest, &help, &e) < 0)
		return command_fail(self, &e, json);
	if (help)
		return 0;
	if (rest < argc) {
		err_set(&e, ERR_USAGE, "unexpected argument '%.80s'; hint: berth config check FILE checks a file",
			argv[rest]);
		return command_fail(self, &e, json);
	}
	if (config_load(&s.c, &e) < 0 || conf_load(&s.conf, &s.c, &e) < 0 || !(s.doc = config_document(&e)) ||
	    (json && show_config_as_json(&s, &e) < 0))
		result = command_fail(self, &e, json);
	else if (!json)
		show_toml(&s);
	json_decref(s.doc);
	return result;
}

const struct command cmd_config_show = {
	.name = "config show",
	.summary = "print the configuration in force",
	.detail = "Each value is followed by where it comes from: default, file or env. The output is itself a\n"
		  "valid berth.toml.",
	.opts = show_options,
	.opt_count = ARRAY_LEN(show_options),
	.run = show_config,
	.flags = COMMAND_ANY_USER,
};

/* ---- check ---- */

static const struct opt check_options[] = {
	{ "own", 0, OPT_FLAG, NULL, "leave out what berthd checks: its tokens, directories, store and storage", OPT_OWN },
	{ "json", 0, OPT_FLAG, NULL, "print the error as JSON", OPT_JSON },
};

struct check_args {
	int json, own;
};

static int set_check_flag(void *ctx, int id, const char *value, struct err *e)
{
	struct check_args *a = ctx;

	(void)value, (void)e;
	*(id == OPT_OWN ? &a->own : &a->json) = 1;
	return 0;
}

/* ---- what berthd would say ---- */

/* In the child: berthd, with both outputs to fd. */
static void become_berthd(int program, int fd)
{
	char *argv[] = { (char[]){ "berthd" }, (char[]){ "--check-config" }, NULL };

	if (dup2(fd, STDOUT_FILENO) == STDOUT_FILENO && dup2(fd, STDERR_FILENO) == STDERR_FILENO)
		execveat(program, "", argv, environ, AT_EMPTY_PATH);
	dprintf(fd, "berthd: execute it: %s\n", strerror(errno));
	_exit(127);
}

/* It exits with 0, or its one line is the error. */
static int ask_berthd(int program, struct err *e)
{
	static const char name[] = "berthd: ";
	autobuf struct buf said = BUF_INIT(65536);
	autoclose int from = -1;
	int fds[2], status = -1;
	const char *line;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	from = fds[0];
	pid = fork();
	if (pid == 0)
		become_berthd(program, fds[1]);
	close(fds[1]);
	if (pid < 0)
		return err_sys(e, "start berthd");
	if (io_read_all(from, &said, "what berthd says", e) < 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	line = said.data && !strncmp(said.data, name, sizeof(name) - 1) ? said.data + sizeof(name) - 1 : NULL;
	return line ? err_set(e, ERR_CONFIG, "%.*s", (int)strcspn(line, "\n"), line) :
		      err_set(e, ERR_CONFIG, "berthd --check-config ended without a word; hint: run it by itself");
}

/* berthd needs root, and is not on every host that has berth. */
static int check_by_berthd(struct err *e)
{
	struct err absent;
	autoclose int program = program_open("berthd", &absent);

	if (program < 0)
		return absent.code == ERR_NOT_FOUND ? 0 : err_set(e, absent.code, "%s", absent.msg);
	if (geteuid() == 0)
		return ask_berthd(program, e);
	log_note("berth config check", "not as root, berthd's tokens, directories, store and storage are not checked; hint: sudo berth config check");
	return 0;
}

/* ---- */

static int check_config_use(const struct config *c, const struct conf *conf, struct err *e)
{
	char what[100];
	size_t i;

	if (resident_check_config(c, e) < 0)
		return err_wrap(e, "%.200s", c->file);
	for (i = 0; i < conf->pool_count; i++) {
		snprintf(what, sizeof(what), "pool.%s.options", conf->pools[i].name);
		if (resident_check_options(c, conf->pools[i].options, what, e) < 0)
			return err_wrap(e, "%.200s", c->file);
	}
	return 0;
}

static int check_config_file(const struct command *self, int argc, char **argv)
{
	struct check_args a = { 0, 0 };
	int rest, help = 0, result;
	static struct config c;
	static struct conf conf;
	char overlap[240];
	struct err e;

	if (command_options(self, argc, argv, set_check_flag, &a, &rest, &help, &e) < 0)
		return command_fail(self, &e, a.json);
	if (help)
		return 0;
	if (argc - rest > 1) {
		err_set(&e, ERR_USAGE, "unexpected argument '%.80s'; hint: one file at a time", argv[rest + 1]);
		return command_fail(self, &e, a.json);
	}
	/* the file in force, if none is named */
	if (rest < argc)
		setenv("BERTH_CONFIG", argv[rest], 1);
	result = rest < argc ? config_load_file(argv[rest], &c, &e) : config_load(&c, &e);
	if (result == 0)
		result = conf_load(&conf, &c, &e);
	if (result == 0)
		result = check_config_use(&c, &conf, &e);
	if (result == 0 && !a.own)
		result = check_by_berthd(&e);
	if (result < 0)
		return command_fail(self, &e, a.json);
	if (hostids_overlap(&c, overlap, sizeof(overlap), &e) > 0)
		log_note(self->name, "warning: %s; hint: " HOSTIDS_REMEDY, overlap);
	if (c.file[0])
		printf("%s: ok\n", c.file);
	else
		printf("%s: absent, defaults apply\n", CONFIG_PATH);
	return 0;
}

const struct command cmd_config_check = {
	.name = "config check",
	.args = "[FILE]",
	.summary = "check a configuration file",
	.detail = "Reads FILE, or the file in force, as every command does: its owner and mode, its syntax, its\n"
		  "sections, keys and values, the options of pools too. Where berthd is installed, root has berthd check\n"
		  "its tokens, directories, store and storage as well. Exit status 0 when it is accepted, 125 when not.",
	.opts = check_options,
	.opt_count = ARRAY_LEN(check_options),
	.complete = COMPLETE_FILE,
	.run = check_config_file,
	.flags = COMMAND_ANY_USER,
};
