/* SPDX-License-Identifier: Apache-2.0 */
/* What is told beside a verb's own output: errors, help, completion. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "cli/docker/door.h"

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

static void wrap(FILE *out, const char *text, int indent, int at)
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

static int left_part(const struct opt *o, char *ret, size_t n)
{
	char letter[8] = "    ";

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	return snprintf(ret, n, "  %s--%s%s%s", letter, o->name, o->arg ? " " : "",
			o->arg ? o->arg : "");
}

static void print_options(FILE *out, const struct command *verb)
{
	static const char *const fate[] = { "", " (accepted and ignored)", " (refused)" };
	char left[120], text[400];
	int column = 0, n;
	size_t i;

	for (i = 0; i < verb->opt_count; i++) {
		n = left_part(&verb->opts[i], left, sizeof(left)) + 3;
		column = n > column ? n : column;
	}
	fprintf(out, "\nOptions:\n");
	for (i = 0; i < verb->opt_count; i++) {
		n = left_part(&verb->opts[i], left, sizeof(left));
		fprintf(out, "%s", left);
		snprintf(text, sizeof(text), "%s%s", verb->opts[i].help, fate[verb->opts[i].id]);
		wrap(out, text, column, n);
	}
}

void door_help(const struct command *verb, int on_stderr)
{
	FILE *out = on_stderr ? stderr : stdout;

	fprintf(out, "Usage:  docker %s %s\n\n%s\n", verb->name, verb->args, verb->summary);
	if (verb->detail)
		fprintf(out, "\n%s\n", verb->detail);
	if (verb->opt_count)
		print_options(out, verb);
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
		wrap(stdout, door_verbs[i]->summary, 20, 20);
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
