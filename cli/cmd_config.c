/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth config: what is in force and where it comes from; whether a file would
 * be accepted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "manager/config.h"

enum { OPT_JSON = 1 };

static const struct opt show_options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object, sizes in bytes and times in milliseconds", OPT_JSON },
};

static int set_flag(void *ctx, int id, const char *value, struct err *e)
{
	(void)id, (void)value, (void)e;
	*(int *)ctx = 1;
	return 0;
}

/* ---- show ---- */

static void show_toml(const struct config *c)
{
	const char *section = "";
	char value[sizeof(c->work_dir) * 2 + 8];
	size_t i;

	printf("# berth %s; file: %s\n", BERTH_VERSION, c->file[0] ? c->file : "none");
	for (i = 0; i < config_key_count; i++) {
		const struct config_key *k = &config_keys[i];
		const char *by = c->source[i] == CONFIG_FROM_ENV ? k->env : "";

		if (strcmp(section, k->section))
			printf("\n[%s]\n", k->section);
		section = k->section;
		config_value_toml(c, i, value, sizeof(value));
		printf("%-17s= %-17s # %s%s%s\n", k->name, value, config_source_name(c, i), *by ? " " : "", by);
	}
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
static json_t *json_value(const struct config *c, size_t i)
{
	const struct config_key *k = &config_keys[i];
	const void *p = (const char *)c + k->offset;
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

/* {"file":..., "sandbox":{"image":{"value":"host","source":"default"},...},...} */
static int show_json(const struct config *c, struct err *e)
{
	autojson json_t *root = json_object();
	autofree char *text = NULL;
	size_t i;

	json_object_set_new(root, "file", c->file[0] ? json_string(c->file) : json_null());
	for (i = 0; i < config_key_count; i++) {
		const struct config_key *k = &config_keys[i];
		json_t *section = json_object_get(root, k->section);
		const char *unit = k->type == CONFIG_SIZE ? "bytes" : k->type == CONFIG_DURATION ? "ms" : NULL;
		json_t *entry = json_object();

		if (!section) {
			section = json_object();
			json_object_set_new(root, k->section, section);
		}
		json_object_set_new(entry, "value", json_value(c, i));
		if (unit)
			json_object_set_new(entry, "unit", json_string(unit));
		json_object_set_new(entry, "source", json_string(config_source_name(c, i)));
		json_object_set_new(section, k->name, entry);
	}
	text = json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(10));
	if (!text)
		return err_nomem(e);
	puts(text);
	return 0;
}

static int show(const struct command *self, int argc, char **argv)
{
	int rest, help = 0, json = 0;
	static struct config c;
	struct err e;

	if (command_options(self, argc, argv, set_flag, &json, &rest, &help, &e) < 0)
		return command_fail(self, &e, json);
	if (help)
		return 0;
	if (rest < argc) {
		err_set(&e, ERR_USAGE, "unexpected argument '%.80s'; hint: berth config check FILE checks a file",
			argv[rest]);
		return command_fail(self, &e, json);
	}
	if (config_load(&c, &e) < 0 || (json && show_json(&c, &e) < 0))
		return command_fail(self, &e, json);
	if (!json)
		show_toml(&c);
	return 0;
}

const struct command cmd_config_show = {
	.name = "config show",
	.summary = "print the configuration in force",
	.detail = "Each value is followed by where it comes from: default, file or env. The output is itself a\n"
		  "valid berth.toml.",
	.opts = show_options,
	.opt_count = ARRAY_LEN(show_options),
	.run = show,
	.flags = COMMAND_ANY_USER,
};

/* ---- check ---- */

static const struct opt check_options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print the error as JSON", OPT_JSON },
};

static int check(const struct command *self, int argc, char **argv)
{
	int rest, help = 0, json = 0, result;
	static struct config c;
	struct err e;

	if (command_options(self, argc, argv, set_flag, &json, &rest, &help, &e) < 0)
		return command_fail(self, &e, json);
	if (help)
		return 0;
	if (argc - rest > 1) {
		err_set(&e, ERR_USAGE, "unexpected argument '%.80s'; hint: one file at a time", argv[rest + 1]);
		return command_fail(self, &e, json);
	}
	result = rest < argc ? config_load_file(argv[rest], &c, &e) : config_load(&c, &e);
	if (result < 0)
		return command_fail(self, &e, json);
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
		  "sections, keys and values. Exit status 0 when it is accepted, 125 when not.",
	.opts = check_options,
	.opt_count = ARRAY_LEN(check_options),
	.complete = COMPLETE_FILE,
	.run = check,
	.flags = COMMAND_ANY_USER,
};
