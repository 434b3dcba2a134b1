/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth completion: a script made from the table of commands.  zsh reads bash's, by its own bashcompinit.
 *
 * All words of ours are of [A-Za-z0-9_./+-], so nothing in them means anything to
 * the shell; a unit test of the table holds them to it.  Names of images and
 * sandboxes are asked for only when one is being completed.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/completion.h"

/* The completion of a value or an operand, as a call in the script. */
static void action(enum opt_complete how, const char *words)
{
	switch (how) {
	case COMPLETE_FILE:
		printf("_berth_files");
		break;
	case COMPLETE_DIR:
		printf("_berth_dirs");
		break;
	case COMPLETE_IMAGE:
		printf("_berth_images");
		break;
	case COMPLETE_SANDBOX:
		printf("_berth_sandboxes");
		break;
	case COMPLETE_VOLUME:
		printf("_berth_volumes");
		break;
	case COMPLETE_NETWORK:
		printf("_berth_networks '%s'", words ? words : "");
		break;
	case COMPLETE_ZYGOTE:
		printf("_berth_zygotes");
		break;
	case COMPLETE_WORDS:
		printf("_berth_words '%s'", words ? words : "");
		break;
	case COMPLETE_NONE:
		printf("COMPREPLY=()");
		break;
	}
}

/* case "$word": which options take a value, and what completes it */
static void value_cases(const struct command *c)
{
	const struct opt *o;

	COMMAND_EACH_OPTION(c, o) {
		if (o->kind == OPT_FLAG)
			continue;
		printf("\t'%s --%s'", c->name, o->name);
		if (o->letter)
			printf("|'%s -%c'", c->name, o->letter);
		printf(") ");
		action(o->complete, o->words);
		printf("; return 0 ;;\n");
	}
}

static void option_words(const struct command *c)
{
	const struct opt *o;

	printf("\t'%s') _berth_words '--help", c->name);
	COMMAND_EACH_OPTION(c, o)
		if (!command_hides(c, o))
			printf(" --%s", o->name);
	printf("' ;;\n");
}

static void second_words(void)
{
	size_t i, j;

	for (i = 0; commands[i]; i++) {
		const char *space = strchr(commands[i]->name, ' ');
		int len = space ? (int)(space - commands[i]->name) : 0, seen = 0;

		for (j = 0; j < i && space; j++)
			seen |= !strncmp(commands[j]->name, commands[i]->name, (size_t)len + 1);
		if (!space || seen || (commands[i]->flags & COMMAND_HIDDEN))
			continue;
		printf("\t%.*s) _berth_words '", len, commands[i]->name);
		for (j = i; commands[j]; j++)
			if (!strncmp(commands[j]->name, commands[i]->name, (size_t)len + 1))
				printf("%s%s", j > i ? " " : "", commands[j]->name + len + 1);
		printf("' ;;\n");
	}
}

static void first_words(void)
{
	size_t i, j;

	for (i = 0; commands[i]; i++) {
		const char *name = commands[i]->name;
		size_t len = strcspn(name, " ");
		int seen = 0;

		for (j = 0; j < i; j++)
			seen |= !strncmp(commands[j]->name, name, len) && strchr(" ", commands[j]->name[len]);
		if (!seen && !(commands[i]->flags & COMMAND_HIDDEN))
			printf("%.*s ", (int)len, name);
	}
	printf("help --help --version");
}

static const char helpers[] =
	"_berth_words() { COMPREPLY=($(compgen -W \"$1\" -- \"$cur\")); }\n"
	"_berth_files() { compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$cur\")); }\n"
	"_berth_dirs() { compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- \"$cur\")); }\n"
	"_berth_images() {\n"
	"\tcase $cur in */*) _berth_dirs; return ;; esac\n"
	"\t_berth_words \"host $(\"${COMP_WORDS[0]}\" image ls --quiet 2>/dev/null)\"\n"
	"}\n"
	"_berth_sandboxes() {\n"
	"\t_berth_words \"$(\"${COMP_WORDS[0]}\" ps --all --format '{{or .name .id}}' 2>/dev/null)\"\n"
	"\tif [ ${#COMPREPLY[@]} = 0 ]; then _berth_words \"$(\"${COMP_WORDS[0]}\" ps --all --quiet 2>/dev/null)\"; fi\n"
	"}\n"
	"_berth_volumes() {\n"
	"\t_berth_words \"$(\"${COMP_WORDS[0]}\" volume ls --quiet 2>/dev/null)\"\n"
	"}\n"
	"_berth_networks() {\n"
	"\t_berth_words \"$1 $(\"${COMP_WORDS[0]}\" network ls --named --quiet 2>/dev/null)\"\n"
	"}\n"
	"_berth_zygotes() {\n"
	"\t_berth_words \"$(\"${COMP_WORDS[0]}\" zygote ls --quiet 2>/dev/null)\"\n"
	"}\n";

/* Finds command and place: cmd is the command's name, at the index of its last word. */
static const char walk[] =
	"_berth() {\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} cmd=${COMP_WORDS[1]} at=1 i w\n"
	"\tlocal IFS=$' \\t\\n'\n"
	"\tCOMPREPLY=()\n"
	"\tif ((COMP_CWORD == 1)); then _berth_commands; return 0; fi\n"
	"\tif [[ $cmd == help ]]; then\n"
	"\t\tif ((COMP_CWORD == 2)); then _berth_commands; else cmd=${COMP_WORDS[2]}; _berth_second; fi\n"
	"\t\treturn 0\n"
	"\tfi\n"
	"\tif ((COMP_CWORD == 2)) && _berth_second; then return 0; fi\n"
	"\tif _berth_is_group; then cmd+=\" ${COMP_WORDS[2]}\" at=2; fi\n"
	"\t# bash splits at =: '--memory = 5' is one option and its value\n"
	"\tif [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
	"\tfor ((i = at + 1; i < COMP_CWORD; i++)); do\n"
	"\t\tw=${COMP_WORDS[i]}\n"
	"\t\tif [[ $w == -- || $w != -* ]]; then _berth_operand $i; return 0; fi\n"
	"\t\tif _berth_takes_value; then\n"
	"\t\t\t((++i)); [[ ${COMP_WORDS[i]} == = ]] && ((++i))\n"
	"\t\t\tif ((i >= COMP_CWORD)); then _berth_value \"$w\"; return 0; fi\n"
	"\t\tfi\n"
	"\tdone\n"
	"\tif [[ $cur == -* ]]; then _berth_options; else _berth_operand $COMP_CWORD; fi\n"
	"}\n"
	"_berth_takes_value() { local COMPREPLY=() cur=; _berth_is_option \"$w\"; }\n";

static void print_operands(void)
{
	size_t i;

	printf("_berth_operand() {\n\tif (($1 < COMP_CWORD)) && [[ ${COMP_WORDS[$1]} != -- ]]; then "
	       "_berth_more_operands; return 0; fi\n\tcase \"$cmd\" in\n");
	for (i = 0; commands[i]; i++) {
		if (commands[i]->complete == COMPLETE_NONE)
			continue;
		printf("\t'%s') ", commands[i]->name);
		action(commands[i]->complete, commands[i]->words);
		printf(" ;;\n");
	}
	printf("\tesac\n}\n");
	/* after the first: more of the same where the command takes several, else files */
	printf("_berth_more_operands() {\n\tcase \"$cmd\" in\n");
	for (i = 0; commands[i]; i++) {
		const char *args = commands[i]->args;
		size_t n = args ? strlen(args) : 0;

		if (commands[i]->complete == COMPLETE_NONE || n < 3)
			continue;
		if (!strcmp(args + n - 3, "...") && !strchr(args, ' ')) {
			printf("\t'%s') ", commands[i]->name);
			action(commands[i]->complete, commands[i]->words);
			printf(" ;;\n");
		} else if (strstr(args, "...")) {
			printf("\t'%s') _berth_files ;;\n", commands[i]->name);
		}
	}
	printf("\tesac\n}\n");
}

static void option_cases(const struct command *c)
{
	const struct opt *o;

	COMMAND_EACH_OPTION(c, o) {
		if (o->kind == OPT_FLAG)
			continue;
		printf("\t'%s --%s'", c->name, o->name);
		if (o->letter)
			printf("|'%s -%c'", c->name, o->letter);
		printf(") return 0 ;;\n");
	}
}

static void for_each(void (*print)(const struct command *c))
{
	size_t i;

	for (i = 0; commands[i]; i++)
		if (!(commands[i]->flags & COMMAND_HIDDEN))
			print(commands[i]);
}

static void print_bash(void)
{
	printf("# bash completion for berth; generated by 'berth completion bash'\n");
	printf("%s_berth_commands() { _berth_words '", helpers);
	first_words();
	printf("'; }\n_berth_second() {\n\tcase \"$cmd\" in\n");
	second_words();
	printf("\t*) return 1 ;;\n\tesac\n}\n_berth_is_group() { local COMPREPLY=() cur=; _berth_second; }\n");
	printf("_berth_options() {\n\tcase \"$cmd\" in\n");
	for_each(option_words);
	printf("\tesac\n}\n_berth_value() {\n\tcase \"$cmd $1\" in\n");
	for_each(value_cases);
	printf("\tesac\n\treturn 1\n}\n_berth_is_option() {\n\tcase \"$cmd $1\" in\n");
	for_each(option_cases);
	printf("\tesac\n\treturn 1\n}\n");
	print_operands();
	printf("%scomplete -F _berth berth\n", walk);
}

/* bashcompinit(1): see zshcompsys(1).  As a file in fpath the script is found by its first line. */
static void print_zsh(void)
{
	printf("#compdef berth\n# zsh completion for berth; generated by 'berth completion zsh'\n"
	       "autoload -U +X compinit bashcompinit\n(( $+functions[compdef] )) || compinit\nbashcompinit\n");
	print_bash();
}

static const struct {
	const char *shell;
	void (*print)(void);
} scripts[] = { { "bash", print_bash }, { "zsh", print_zsh }, { "fish", completion_fish } };

static int no_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)ctx, (void)id, (void)value, (void)e;
	return 0;
}

static int run(const struct command *self, int argc, char **argv)
{
	int rest, help = 0;
	struct err e;
	size_t i;

	if (command_options(self, argc, argv, no_option, NULL, &rest, &help, &e) < 0)
		return command_fail(self, &e, 0);
	if (help)
		return 0;
	for (i = 0; rest + 1 == argc && i < ARRAY_LEN(scripts); i++)
		if (!strcmp(argv[rest], scripts[i].shell))
			return scripts[i].print(), 0;
	err_set(&e, ERR_USAGE, "which shell? hint: berth completion bash, zsh or fish");
	return command_fail(self, &e, 0);
}

const struct command cmd_completion = {
	.name = "completion",
	.args = "bash|zsh|fish",
	.summary = "print a completion script for the shell",
	.detail = "To use it in the running shell:\n  source <(berth completion bash)        (zsh: the same)\n  berth completion fish | source",
	.complete = COMPLETE_WORDS,
	.words = "bash zsh fish",
	.run = run,
	.flags = COMMAND_ANY_USER,
};
