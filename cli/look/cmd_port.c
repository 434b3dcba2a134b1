/* SPDX-License-Identifier: Apache-2.0 */
/* berth port: which ports of the host lead to a sandbox. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "cli/live/sandbox_status.h"

enum { OPT_JSON = 1 };

static const struct opt port_options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print a JSON array, errors as JSON too", OPT_JSON },
};

/* "80", "53/udp" */
struct wanted {
	uint64_t port;		/* 0: every one */
	const char *protocol;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)id;
	(void)value;
	(void)e;
	*(int *)ctx = 1;
	return 0;
}

static int parse(const char *text, struct wanted *ret, struct err *e)
{
	char number[8] = "";
	const char *slash = strchr(text, '/');
	size_t n = slash ? (size_t)(slash - text) : strlen(text);

	ret->protocol = slash ? slash + 1 : "tcp";
	if (strcmp(ret->protocol, "tcp") && strcmp(ret->protocol, "udp"))
		return err_set(e, ERR_INVALID, "'%.40s' is not a port; hint: such as 80 or 53/udp",
			       text);
	snprintf(number, sizeof(number), "%.*s", n < sizeof(number) ? (int)n : 0, text);
	return num_u64(number, "port of the sandbox", 1, UINT16_MAX, &ret->port, e);
}

/* Those that are wanted: a new reference. */
static json_t *choose(const json_t *all, const struct wanted *w)
{
	json_t *list = json_array(), *one;
	size_t i;

	json_array_foreach(all, i, one)
		if (!w->port ||
		    ((uint64_t)json_integer_value(json_object_get(one, "port")) == w->port &&
		     !strcmp(json_string_value(json_object_get(one, "protocol")), w->protocol)))
			json_array_append(list, one);
	return list;
}

static void print_port(const json_t *one, int alone)
{
	const char *address = json_string_value(json_object_get(one, "address"));

	if (!alone)
		printf("%d/%s -> ", (int)json_integer_value(json_object_get(one, "port")),
		       json_string_value(json_object_get(one, "protocol")));
	printf(strchr(address, ':') ? "[%s]:%d\n" : "%s:%d\n", address,
	       (int)json_integer_value(json_object_get(one, "host_port")));
}

static int show(const char *ref, const struct wanted *w, int json, struct err *e)
{
	autojson json_t *all = NULL, *list = NULL;
	struct sandbox_ref s;
	json_t *one;
	size_t i;

	sandbox_ref_init(&s);
	if (sandbox_ref_connect(&s, ref, 0, e) == 0)
		all = ports_of(&s.registry, s.id, e);
	sandbox_ref_close(&s);
	if (!all)
		return -1;
	list = choose(all, w);
	if (w->port && !json_array_size(list))
		return err_set(e, ERR_NOT_FOUND, "sandbox %.64s publishes no port %llu/%s; hint: "
						 "berth port %.64s lists them",
			       ref, (unsigned long long)w->port, w->protocol, ref);
	if (json)
		return command_print_json(list, JSON_COMPACT, e);
	json_array_foreach(list, i, one)
		print_port(one, w->port != 0);
	return 0;
}

static int port_main(const struct command *self, int argc, char **argv)
{
	struct wanted w = { 0, "tcp" };
	int rest, help = 0, json = 0, r;
	struct err e = { 0 };

	r = command_options(self, argc, argv, set_option, &json, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 1 != argc && rest + 2 != argc)
		r = err_set(&e, ERR_USAGE, "a sandbox is wanted, and perhaps one of its ports; "
					   "hint: berth port ID 80");
	if (r == 0 && rest + 2 == argc)
		r = parse(argv[rest + 1], &w, &e);
	if (r == 0)
		r = show(argv[rest], &w, json, &e);
	return r < 0 ? command_fail(self, &e, json) : 0;
}

const struct command cmd_port = {
	.name = "port",
	.args = "SANDBOX [PORT[/udp]]",
	.summary = "list the ports of the host that lead to a sandbox",
	.opts = port_options,
	.opt_count = ARRAY_LEN(port_options),
	.complete = COMPLETE_SANDBOX,
	.run = port_main,
};
