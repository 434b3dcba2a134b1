/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth-remote - the program of --host and BERTH_HOST.
 *
 * It reads berth's command line with the same tables; cli/remote/ does the work.
 */
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/remote/remote.h"
#include "manager/ops/optvalues.h"
#include "manager/ops/params.h"

static json_t *remote_option_list(struct remote *r, const char *name)
{
	json_t *list = json_object_get(r->options, name);

	if (!list) {
		list = json_array();
		json_object_set_new(r->options, name, list);
	}
	return list;
}

static int note_option(void *ctx, int id, const char *value, struct err *e)
{
	struct remote *r = ctx;
	const struct opt *o = command_option(r->command, id);
	const char *name = o->name, *arg = o->arg;
	json_t *list;

	if (!strcmp(name, "json")) {
		r->json = 1;
		return 0;
	}
	/* settled here, in their order: our environment and our files are not berthd's */
	if (!strcmp(name, "env-file") || (!strcmp(name, "env") && !strcmp(arg, "NAME[=VALUE]")))
		return envopts_add(remote_option_list(r, "env"), !strcmp(name, "env-file"), value, e);
	list = remote_option_list(r, name);
	return json_array_append_new(list, value ? json_string(value) : json_true()) < 0 ?
		err_set(e, ERR_INVALID, "the value is not valid UTF-8") : 0;
}

const char *remote_value(const struct remote *r, const char *name)
{
	const json_t *list = json_object_get(r->options, name);

	return json_string_value(json_array_get(list, json_array_size(list) - 1));
}

int remote_flag(const struct remote *r, const char *name)
{
	return json_object_get(r->options, name) != NULL;
}

int remote_set_string(const struct remote *r, json_t *body, const char *key, const char *name)
{
	const char *v = remote_value(r, name);

	return v ? json_object_set_new(body, key, json_string(v)) : 0;
}

int remote_set_ms(const struct remote *r, json_t *body, const char *key, const char *name, struct err *e)
{
	const char *v = remote_value(r, name);
	uint64_t ms;

	if (!v)
		return 0;
	if (num_duration_ms(v, name, 366ULL * 86400000, &ms, e) < 0)
		return -1;
	return json_object_set_new(body, key, json_integer((json_int_t)ms));
}

int remote_set_list(const struct remote *r, json_t *body, const char *key, const char *name)
{
	json_t *list = json_object_get(r->options, name);

	return list ? json_object_set(body, key, list) : 0;
}

int remote_print(json_t *j, struct err *e)
{
	autofree char *text = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY);

	json_decref(j);
	return !text || puts(text) < 0 || fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

int remote_tell(const struct remote *r, json_t *j, struct err *e)
{
	if (r->json || !r->command->print)
		return remote_print(j, e);
	r->command->print(j);
	json_decref(j);
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

static const struct remote_verb *remote_verb_of(const struct command *c, struct err *e)
{
	const struct remote_verb *v;

	for (v = remote_verbs; v->name; v++)
		if (!strcmp(v->name, c->name))
			return v;
	err_set(e, ERR_UNSUPPORTED, "berth %s works on its own host only; hint: without --host and BERTH_HOST, or over ssh", c->name);
	return NULL;
}

static int check_remote_use(const struct remote *r, const struct remote_verb *v, struct err *e)
{
	const char *name;
	char word[64];
	json_t *list;

	json_object_foreach(r->options, name, list) {
		const struct param *p = param_named(name);

		snprintf(word, sizeof(word), " %s ", name);
		if ((p && p->rights & PARAM_HERE) ||
		    (strcmp(v->options, "*") != 0 && !strstr(v->options, word) && !(p && p->of & v->of)))
			return err_set(e, ERR_UNSUPPORTED, "option --%s works on the sandbox's own host only", name);
	}
	if (r->count < v->min || r->count > v->max)
		return err_set(e, ERR_USAGE, "wanted are: %s; hint: berth %s --help", r->command->args, r->command->name);
	return 0;
}

static int drop_json(struct remote *r, int *argc, char **argv)
{
	int i, n = 1;

	for (i = 1; i < *argc; i++)
		if (!strcmp(argv[i], "--json"))
			r->json = 1;
		else
			argv[n++] = argv[i];
	*argc = n;
	return 1;
}

/* That program shows its options here as it does without --host. */
static int asks_for_help(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			return 1;
	return 0;
}

static int run_remote_command(struct remote *r, const char *url, int argc, char **argv, struct err *e)
{
	const struct remote_verb *v;
	int words, rest, help = 0;

	r->command = command_find(argc, argv, &words, e);
	if (!r->command)
		return -1;
	argc -= words - 1;
	argv += words - 1;
	v = remote_verb_of(r->command, e);
	if (!v)
		return -1;
	if (r->command->flags & COMMAND_EXTERNAL && asks_for_help(argc, argv))
		return r->command->run(r->command, argc, argv) ? err_set(e, ERR_INTERNAL, "the help could not be shown") : 0;
	if (r->command->flags & COMMAND_EXTERNAL)
		rest = drop_json(r, &argc, argv);	/* its options are in another program's table */
	else if (command_options(r->command, argc, argv, note_option, r, &rest, &help, e) < 0)
		return -1;
	if (help)
		return 0;
	r->words = argv + rest;
	r->count = argc - rest;
	return check_remote_use(r, v, e) < 0 || remote_open(r, url, e) < 0 ? -1 : v->run(r, e);
}

int main(int argc, char **argv)
{
	struct remote r = { .options = json_object() };
	const char *url = getenv("BERTH_HOST");
	struct err e = { 0 };
	int result;

	signal(SIGPIPE, SIG_IGN);
	if (argc > 2 && !strcmp(argv[1], "--host")) {
		url = argv[2];
		argc -= 2;
		argv += 2;
	} else if (argc > 1 && !strncmp(argv[1], "--host=", 7)) {
		url = argv[1] + 7;
		argc--;
		argv++;
	}
	if (argc < 2 || !url) {
		err_set(&e, ERR_USAGE, argc < 2 ? "no command given; hint: berth help lists them" : "no host given; hint: --host or BERTH_HOST");
		return command_fail(NULL, &e, 0);
	}
	curl_global_init(CURL_GLOBAL_DEFAULT);
	result = run_remote_command(&r, url, argc - 1, argv + 1, &e);
	if (result == 0 && fflush(stdout))
		result = err_sys(&e, "write to stdout");
	if (result < 0)
		r.status = command_fail(r.command, &e, r.json);
	/* a thread may still wait for our stdin: nothing is taken apart under it */
	_exit(r.status);
}
