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

static void completion_fish(void);

/* The completion of a value or an operand, as a call in the script. */
static void bash_value_action(enum opt_complete how, const char *words)
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
		bash_value_action(o->complete, o->words);
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
		bash_value_action(commands[i]->complete, commands[i]->words);
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
			bash_value_action(commands[i]->complete, commands[i]->words);
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

static int completion_has_no_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)ctx, (void)id, (void)value, (void)e;
	return 0;
}

static int run_completion(const struct command *self, int argc, char **argv)
{
	int rest, help = 0;
	struct err e;
	size_t i;

	if (command_options(self, argc, argv, completion_has_no_option, NULL, &rest, &help, &e) < 0)
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
	.run = run_completion,
	.flags = COMMAND_ANY_USER,
};

/* ---- The script for fish ---- */

/*
 * berth completion fish: a script made from the table of commands.
 *
 * fish shows a description beside each word, so the script holds the summaries of the commands and the help of the options.
 * Those are texts of ours: fish_quote() escapes the two characters that end or change a text in single quotes.
 */

static void fish_quote(const char *s)
{
	putchar('\'');
	for (; *s; s++) {
		if (*s == '\'' || *s == '\\')
			putchar('\\');
		putchar(*s);
	}
	putchar('\'');
}

/* What completes a value or an operand, as fish's -a. */
static void arguments(enum opt_complete how, const char *words)
{
	switch (how) {
	case COMPLETE_FILE:
		printf(" -F");
		break;
	case COMPLETE_DIR:
		printf(" -x -a '(__fish_complete_directories (commandline -ct))'");
		break;
	case COMPLETE_IMAGE:
		printf(" -x -a '(__berth_images)'");
		break;
	case COMPLETE_SANDBOX:
		printf(" -x -a '(__berth_sandboxes)'");
		break;
	case COMPLETE_VOLUME:
		printf(" -x -a '(__berth_volumes)'");
		break;
	case COMPLETE_NETWORK:
		printf(" -x -a '(__berth_networks) %s'", words ? words : "");
		break;
	case COMPLETE_ZYGOTE:
		printf(" -x -a '(__berth_zygotes)'");
		break;
	case COMPLETE_WORDS:
		printf(" -x -a ");
		fish_quote(words ? words : "");
		break;
	case COMPLETE_NONE:
		printf(" -x");
		break;
	}
}

static const char head[] =
	"# fish completion for berth; generated by 'berth completion fish'\n"
	"function __berth_images\n\techo host\n\tberth image ls --quiet 2>/dev/null\n\t__fish_complete_directories (commandline -ct)\nend\n"
	"function __berth_sandboxes\n\tberth ps --all --format '{{or .name .id}}' 2>/dev/null\nend\n"
	"function __berth_volumes\n\tberth volume ls --quiet 2>/dev/null\nend\n"
	"function __berth_networks\n\tberth network ls --named --quiet 2>/dev/null\nend\n"
	"function __berth_zygotes\n\tberth zygote ls --quiet 2>/dev/null\nend\n"
	"# the words before the cursor are berth and these, and then others\n"
	"function __berth_is\n\tset -q argv[1]; or return 0\n\tset -l w (commandline -opc)\n\tset -l n (math (count $argv) + 1)\n"
	"\ttest (count $w) -ge $n; and test \"$w[2..$n]\" = \"$argv\"\nend\n"
	"# they are berth and these, and no more\n"
	"function __berth_next\n\tset -l w (commandline -opc)\n\ttest (count $w) -eq (math (count $argv) + 1); and __berth_is $argv\nend\n"
	"complete -c berth -f\n"
	"complete -c berth -n __berth_next -l version -d 'print the version'\n";

/* 1 when an earlier command begins with the same first word. */
static int is_fish_word_seen(size_t i, size_t len)
{
	size_t j;

	for (j = 0; j < i; j++)
		if (!strncmp(commands[j]->name, commands[i]->name, len) && strchr(" ", commands[j]->name[len]))
			return 1;
	return 0;
}

static void fish_command_names(const struct command *c, size_t i)
{
	size_t len = strcspn(c->name, " ");

	if (!is_fish_word_seen(i, len))
		printf("complete -c berth -n __berth_next -a %.*s -d ", (int)len, c->name), fish_quote(c->name[len] ? "" : c->summary), putchar('\n');
	if (c->name[len])
		printf("complete -c berth -n '__berth_next %.*s' -a %s -d ", (int)len, c->name, c->name + len + 1), fish_quote(c->summary), putchar('\n');
}

static void fish_command_options(const struct command *c)
{
	const struct opt *o;

	printf("complete -c berth -n '__berth_is %s' -l help -d 'print help'\n", c->name);
	COMMAND_EACH_OPTION(c, o) {
		if (command_hides(c, o))
			continue;
		printf("complete -c berth -n '__berth_is %s' -l %s", c->name, o->name);
		if (o->letter)
			printf(" -s %c", o->letter);
		if (o->kind != OPT_FLAG)
			arguments(o->complete, o->words);
		printf(" -d ");
		fish_quote(o->help ? o->help : "");
		putchar('\n');
	}
}

static void completion_fish(void)
{
	size_t i;

	printf("%s", head);
	for (i = 0; commands[i]; i++) {
		if (commands[i]->flags & COMMAND_HIDDEN)
			continue;
		fish_command_names(commands[i], i);
		fish_command_options(commands[i]);
		if (commands[i]->complete != COMPLETE_NONE) {
			printf("complete -c berth -n '__berth_is %s'", commands[i]->name);
			arguments(commands[i]->complete, commands[i]->words);
			putchar('\n');
		}
	}
}
