/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: verbs and their flags, and what is told beside their own output. */
#include "cli/docker/verbs.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/docker/door.h"

/* ---- the table of verbs ---- */

/* The table of verbs, and the words that lead to them: "container ls" is "ps". */

const struct command *const door_verbs[] = {
	&door_run,
	&door_exec,
	&door_ps,
	&door_create,
	&door_start,
	&door_stop,
	&door_kill,
	&door_rm,
	&door_logs,
	&door_inspect,
	&door_wait,
	&door_attach,
	&door_restart,
	&door_pause,
	&door_unpause,
	&door_rename,
	&door_update,
	&door_stats,
	&door_top,
	&door_port,
	&door_cp,
	&door_diff,
	&door_export,
	&door_commit,
	&door_images,
	&door_pull,
	&door_push,
	&door_tag,
	&door_rmi,
	&door_history,
	&door_save,
	&door_load_verb,
	&door_import,
	&door_search,
	&door_login,
	&door_logout,
	&door_build,
	&door_compose,
	&door_events,
	&door_info,
	&door_version,
	&door_container_inspect,
	&door_container_prune,
	&door_image_inspect,
	&door_image_prune,
	&door_network_connect,
	&door_network_create,
	&door_network_disconnect,
	&door_network_inspect,
	&door_network_ls,
	&door_network_prune,
	&door_network_rm,
	&door_volume_create,
	&door_volume_inspect,
	&door_volume_ls,
	&door_volume_prune,
	&door_volume_rm,
	&door_system_df,
	&door_system_prune,
	&door_context_ls,
	&door_context_show,
	&door_context_use,
	&door_buildx,
	&door_builder,
	&door_builder_prune,
	&door_completion_verb,
	NULL,
};

/* Groups: the second word is a verb by another name, or by its own. */
static const struct {
	const char *group, *word, *verb;
} ways[] = {
	{ "container", "ls", "ps" },
	{ "container", "list", "ps" },
	{ "container", "ps", "ps" },
	{ "container", "remove", "rm" },
	{ "container", "attach", NULL },
	{ "container", "commit", NULL },
	{ "container", "cp", NULL },
	{ "container", "create", NULL },
	{ "container", "diff", NULL },
	{ "container", "exec", NULL },
	{ "container", "export", NULL },
	{ "container", "kill", NULL },
	{ "container", "logs", NULL },
	{ "container", "pause", NULL },
	{ "container", "port", NULL },
	{ "container", "rename", NULL },
	{ "container", "restart", NULL },
	{ "container", "rm", NULL },
	{ "container", "run", NULL },
	{ "container", "start", NULL },
	{ "container", "stats", NULL },
	{ "container", "stop", NULL },
	{ "container", "top", NULL },
	{ "container", "unpause", NULL },
	{ "container", "update", NULL },
	{ "container", "wait", NULL },
	{ "image", "ls", "images" },
	{ "image", "list", "images" },
	{ "image", "rm", "rmi" },
	{ "image", "remove", "rmi" },
	{ "image", "build", NULL },
	{ "image", "history", NULL },
	{ "image", "import", NULL },
	{ "image", "load", NULL },
	{ "image", "pull", NULL },
	{ "image", "push", NULL },
	{ "image", "save", NULL },
	{ "image", "tag", NULL },
	{ "system", "events", NULL },
	{ "system", "info", NULL },
	{ "network", "list", "network ls" },
	{ "network", "remove", "network rm" },
	{ "volume", "list", "volume ls" },
	{ "volume", "remove", "volume rm" },
	{ "builder", "build", "build" },
};

static const struct command *find_docker_verb(const char *name)
{
	size_t i;

	for (i = 0; door_verbs[i]; i++)
		if (!strcmp(door_verbs[i]->name, name))
			return door_verbs[i];
	return NULL;
}

const struct command *door_find_verb(int argc, char **argv, int *ret_words)
{
	const struct command *verb;
	char both[80];
	size_t i;

	*ret_words = 1;
	verb = find_docker_verb(argv[0]);
	if (verb || argc < 2) {
		if (!verb)
			*ret_words = 0;
		return verb;
	}
	*ret_words = 2;
	snprintf(both, sizeof(both), "%.38s %.38s", argv[0], argv[1]);
	verb = find_docker_verb(both);
	for (i = 0; i < ARRAY_LEN(ways) && !verb; i++)
		if (!strcmp(ways[i].group, argv[0]) && !strcmp(ways[i].word, argv[1]))
			return find_docker_verb(ways[i].verb ? ways[i].verb : ways[i].word);
	return verb;
}

/* ---- flags ---- */

/* Flags as pflag reads them, docker's own library: -it, -e=A, --rm=false. */

struct parse {
	struct door_args *a;
	int argc, i;
	char **argv;
};

static int tell_flag_error(struct door_args *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int tell_flag_error(struct door_args *a, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	a->status = door_say(DOOR_USAGE,
			     "%s\n\nUsage:  docker %s %s\n\nRun 'docker %s --help' for more "
			     "information",
			     text, a->verb->name, a->verb->args, a->verb->name);
	return 0;
}

static const struct opt *find_docker_flag(const struct command *c, const char *name, size_t len, char letter)
{
	size_t i;

	for (i = 0; i < c->opt_count; i++)
		if (letter ? c->opts[i].letter == letter :
			     strlen(c->opts[i].name) == len && !memcmp(c->opts[i].name, name, len))
			return &c->opts[i];
	return NULL;
}

/* strconv.ParseBool of Go: 1, 0, or -1 for any other word. */
static int truth(const char *word)
{
	static const char *const yes[] = { "1", "t", "T", "TRUE", "true", "True" }, *const no[] = {
		"0", "f", "F", "FALSE", "false", "False"
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(yes); i++)
		if (!strcmp(word, yes[i]) || !strcmp(word, no[i]))
			return !strcmp(word, yes[i]);
	return -1;
}

static int set_on_off_flag(struct door_args *a, const struct opt *o, const char *value)
{
	int on = value ? truth(value) : 1;

	if (on >= 0)
		return json_object_set_new(a->o, o->name, json_boolean(on)) == 0;
	return tell_flag_error(a,
		     "invalid argument \"%.60s\" for \"--%.40s\" flag: strconv.ParseBool: "
		     "parsing \"%.60s\": invalid syntax",
		     value, o->name, value);
}

static int set_docker_flag(struct door_args *a, const struct opt *o, const char *value)
{
	json_t *list, *v;

	if (o->kind == OPT_FLAG)
		return set_on_off_flag(a, o, value);
	v = json_string(value);
	if (!v)
		return tell_flag_error(a, "the value of --%s is not UTF-8", o->name);
	if (o->kind == OPT_VALUE)
		return json_object_set_new(a->o, o->name, v) == 0;
	list = json_object_get(a->o, o->name);
	if (!list) {
		list = json_array();
		json_object_set_new(a->o, o->name, list);
	}
	return json_array_append_new(list, v) == 0;
}

/* A feature that berth lacks is refused, not weakened. */
static int check_flag_is_served(struct door_args *a, const struct opt *o)
{
	if (o->id != DOOR_REFUSED)
		return 1;
	a->status = door_say(DOOR_USAGE, "docker: --%s is refused: %s (berth-docker(1))", o->name,
			     o->words);
	return 0;
}

static int parse_long_flag(struct parse *p)
{
	const char *name = p->argv[p->i] + 2, *eq = strchr(name, '=');
	size_t len = eq ? (size_t)(eq - name) : strlen(name);
	const struct opt *o = find_docker_flag(p->a->verb, name, len, 0);
	char typed[80];

	if (!o && len == 4 && !memcmp(name, "help", 4)) {
		door_help(p->a->verb, 0);
		p->a->status = 0;
		return 0;
	}
	snprintf(typed, sizeof(typed), "%.*s", (int)(len < 70 ? len : 70), name);
	if (!o)
		return tell_flag_error(p->a, "unknown flag: --%s", typed);
	if (!check_flag_is_served(p->a, o))
		return 0;
	if (o->kind == OPT_FLAG || eq)
		return set_docker_flag(p->a, o, eq ? eq + 1 : NULL);
	if (p->i + 1 >= p->argc)
		return tell_flag_error(p->a, "flag needs an argument: --%s", typed);
	return set_docker_flag(p->a, o, p->argv[++p->i]);
}

/* "-it", "-e A", "-eA", "-e=A", "-t=false" */
static int parse_flag_letters(struct parse *p)
{
	const char *word = p->argv[p->i], *s = word + 1;
	char text[120];

	for (; *s; s++) {
		const struct opt *o = find_docker_flag(p->a->verb, NULL, 0, *s);

		if (!o && *s == 'h') {
			door_help(p->a->verb, 0);
			p->a->status = 0;
			return 0;
		}
		snprintf(text, sizeof(text), "'%c' in %.80s", *s, word);
		if (!o)
			return tell_flag_error(p->a, "unknown shorthand flag: %s", text);
		if (!check_flag_is_served(p->a, o))
			return 0;
		if (s[1] == '=')
			return set_docker_flag(p->a, o, s + 2);
		if (o->kind == OPT_FLAG) {
			if (!set_docker_flag(p->a, o, NULL))
				return 0;
			continue;
		}
		if (s[1])
			return set_docker_flag(p->a, o, s + 1);
		if (p->i + 1 >= p->argc)
			return tell_flag_error(p->a, "flag needs an argument: %s", text);
		return set_docker_flag(p->a, o, p->argv[++p->i]);
	}
	return 1;
}

static int count_words(struct door_args *a, int least, int most)
{
	const char *plural = (a->count < least ? least : most) == 1 ? "" : "s";
	char what[80];

	if (a->count >= least && (most < 0 || a->count <= most))
		return 1;
	if (!most)
		snprintf(what, sizeof(what), "accepts no arguments");
	else if (least == most)
		snprintf(what, sizeof(what), "requires %d argument%s", least, plural);
	else if (a->count < least)
		snprintf(what, sizeof(what), "requires at least %d argument%s", least, plural);
	else
		snprintf(what, sizeof(what), "requires at most %d argument%s", most, plural);
	a->status = door_say(1,
			     "docker: 'docker %s' %s\n\nUsage:  docker %s %s\n\nSee 'docker %s "
			     "--help' for more information",
			     a->verb->name, what, a->verb->name, a->verb->args, a->verb->name);
	return 0;
}

int door_parse(struct door_args *a, const struct command *verb, int argc, char **argv, int least,
	       int most)
{
	struct parse p = { .a = a, .argc = argc, .argv = argv, .i = 1 };
	const int first = verb->flags & DOOR_FLAGS_FIRST;
	int words = 0;

	*a = (struct door_args){ .verb = verb, .o = json_object(), .words = argv };
	for (; p.i < argc; p.i++) {
		const char *w = argv[p.i];

		if (w[0] != '-' || !w[1]) {
			if (first)
				break;
			argv[words++] = argv[p.i]; /* over flags that are done with */
			continue;
		}
		if (w[1] == '-' && !w[2]) {
			p.i++;
			break;
		}
		if (!(w[1] == '-' ? parse_long_flag(&p) : parse_flag_letters(&p)))
			return 0;
	}
	while (p.i < argc)
		argv[words++] = argv[p.i++];
	argv[words] = NULL;
	a->count = words;
	return count_words(a, least, most);
}

void door_release(struct door_args *a)
{
	json_decref(a->o);
	a->o = NULL;
}

int door_on(const struct door_args *a, const char *flag)
{
	return json_is_true(json_object_get(a->o, flag));
}

const char *door_value(const struct door_args *a, const char *flag)
{
	return json_string_value(json_object_get(a->o, flag));
}

const json_t *door_list(const struct door_args *a, const char *flag)
{
	return json_object_get(a->o, flag);
}

/* ---- errors, help, completion ---- */

/* What is told beside a verb's own output: errors, help, completion. */

#define COLUMNS 80

int door_say(int status, const char *fmt, ...)
{
	char text[1600], clean[2 * sizeof(text)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_clean(clean, sizeof(clean), text, 1);
	fflush(stdout);
	dprintf(STDERR_FILENO, "%s\n", clean);
	return status;
}

int door_error(const struct err *e)
{
	const char *hint = strstr(e->msg, "; hint: ");

	if (!strncmp(e->msg, "Error", 5) || !strncmp(e->msg, "template", 8))
		return door_say(1, "%s", e->msg);
	if (hint)
		return door_say(1, "Error response from daemon: %.*s (remedy: %s)",
				(int)(hint - e->msg), e->msg, hint + 8);
	return door_say(1, "Error response from daemon: %s", e->msg);
}

/* ---- help ---------------------------------------------------------------------------------- */

static void wrap_help_text(FILE *out, const char *text, int indent, int at)
{
	while (*text) {
		int len = (int)strcspn(text, " \n");

		if (at > indent && at + 1 + len > COLUMNS) {
			fputc('\n', out);
			at = 0;
		}
		if (at < indent)
			at += fprintf(out, "%*s", indent - at, "");
		else if (at > indent)
			at += fprintf(out, " ");
		at += fprintf(out, "%.*s", len, text);
		text += len;
		text += strspn(text, " \n");
	}
	fputc('\n', out);
}

static int help_flag_column(const struct opt *o, char *ret, size_t n)
{
	char letter[8] = "    ";

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	return snprintf(ret, n, "  %s--%s%s%s", letter, o->name, o->arg ? " " : "",
			o->arg ? o->arg : "");
}

static void print_docker_flags(FILE *out, const struct command *verb)
{
	static const char *const fate[] = { "", " (accepted and ignored)", " (refused)" };
	char left[120], text[400];
	int column = 0, n;
	size_t i;

	for (i = 0; i < verb->opt_count; i++) {
		n = help_flag_column(&verb->opts[i], left, sizeof(left)) + 3;
		column = n > column ? n : column;
	}
	fprintf(out, "\nOptions:\n");
	for (i = 0; i < verb->opt_count; i++) {
		n = help_flag_column(&verb->opts[i], left, sizeof(left));
		fprintf(out, "%s", left);
		snprintf(text, sizeof(text), "%s%s", verb->opts[i].help, fate[verb->opts[i].id]);
		wrap_help_text(out, text, column, n);
	}
}

void door_help(const struct command *verb, int on_stderr)
{
	FILE *out = on_stderr ? stderr : stdout;

	fprintf(out, "Usage:  docker %s %s\n\n%s\n", verb->name, verb->args, verb->summary);
	if (verb->detail)
		fprintf(out, "\n%s\n", verb->detail);
	if (verb->opt_count)
		print_docker_flags(out, verb);
}

void door_overview(void)
{
	size_t i;

	printf("Usage:  docker [OPTIONS] COMMAND\n\n"
	       "docker's command line on sandboxes of berth, without a daemon\n\nCommands:\n");
	for (i = 0; door_verbs[i]; i++) {
		if (door_verbs[i]->flags & COMMAND_HIDDEN)
			continue;
		printf("  %-18s", door_verbs[i]->name);
		wrap_help_text(stdout, door_verbs[i]->summary, 20, 20);
	}
	printf("\nGlobal Options:\n"
	       "  -H, --host list       only the engine of this host; others are the real "
	       "client's\n"
	       "  -c, --context string  only \"default\"\n"
	       "      --config string   accepted and ignored: passwords are berth login's\n"
	       "  -D, --debug           accepted and ignored\n"
	       "  -l, --log-level string accepted and ignored\n"
	       "  -v, --version         Print version information and quit\n\n"
	       "Run 'docker COMMAND --help' for more information on a command.\n");
}

/* ---- completion ---------------------------------------------------------------------------- */

static void print_words(const char *prefix)
{
	size_t i, n = strlen(prefix);

	for (i = 0; door_verbs[i]; i++) {
		const char *name = door_verbs[i]->name;

		if (door_verbs[i]->flags & COMMAND_HIDDEN || strncmp(name, prefix, n))
			continue;
		if (!strchr(name + n, ' ') || !n)
			printf("%.*s ", (int)strcspn(name + n, " "), name + n);
	}
}

static const char *operands_of(const struct command *verb)
{
	switch (verb->complete) {
	case COMPLETE_SANDBOX:
		return "$(docker ps -a --format '{{.ID}} {{.Names}}' 2>/dev/null)";
	case COMPLETE_IMAGE:
		return "$(docker images --format '{{.Repository}}:{{.Tag}}' 2>/dev/null)";
	case COMPLETE_VOLUME:
		return "$(docker volume ls -q 2>/dev/null)";
	case COMPLETE_WORDS:
		return verb->words;
	default:
		return "";
	}
}

static void print_case(const struct command *verb)
{
	size_t i;

	printf("\t'%s') flags='--help", verb->name);
	for (i = 0; i < verb->opt_count; i++)
		printf(" --%s", verb->opts[i].name);
	printf("' words=\"%s\" ;;\n", operands_of(verb));
}

int door_completion(const char *shell)
{
	static const char *const groups[] = { "container ", "image ",  "network ",
					      "volume ",    "system ", "context " };
	size_t i;

	if (strcmp(shell, "bash") && strcmp(shell, "zsh"))
		return door_say(1, "unknown shell \"%s\": bash and zsh are known", shell);
	if (!strcmp(shell, "zsh"))
		printf("#compdef docker\nautoload -U +X bashcompinit && bashcompinit\n");
	printf("_berth_docker() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} cmd=${COMP_WORDS[1]} "
	       "at=2 flags= words=\n\tCOMPREPLY=()\n\tcase $cmd in\n");
	for (i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		printf("\t%s) ((COMP_CWORD == 2)) && { COMPREPLY=($(compgen -W '", groups[i]);
		print_words(groups[i]);
		printf("' -- \"$cur\")); return; }; cmd+=\" ${COMP_WORDS[2]}\" at=3 ;;\n");
	}
	printf("\tesac\n\tif ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W '");
	print_words("");
	printf("' -- \"$cur\")); return; fi\n\tcase $cmd in\n");
	for (i = 0; door_verbs[i]; i++)
		if (!(door_verbs[i]->flags & COMMAND_HIDDEN))
			print_case(door_verbs[i]);
	printf("\tesac\n\t[[ $cur == -* ]] && words=$flags\n"
	       "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	       "\t[[ $words || $cur == -* ]] || COMPREPLY=($(compgen -f -- \"$cur\"))\n}\n"
	       "complete -F _berth_docker docker berth-docker\n");
	return 0;
}
