/* SPDX-License-Identifier: Apache-2.0 */
/* What --help prints, from the table of commands: in 80 columns, or in those of a narrower terminal. */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/command.h"
#include "manager/ops/params.h"

#define COLUMNS 80
#define COLUMNS_MIN 30	/* of fewer, the terminal breaks the lines */
#define LEFT_MAX 30	/* a longer left part puts its text on the next line */

static int help_columns(void)
{
	struct winsize w;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_col == 0 || w.ws_col > COLUMNS)
		return COLUMNS;
	return w.ws_col < COLUMNS_MIN ? COLUMNS_MIN : w.ws_col;
}

/* Where the texts begin beside left parts of this width. */
static int help_text_column(int wanted)
{
	int half = help_columns() / 2;

	return wanted < half ? wanted : half;
}

void command_print_filled(const char *text, int indent, int at, int columns)
{
	while (*text) {
		int len = (int)strcspn(text, " \n");

		if (at > indent && at + 1 + len > columns) {
			printf("\n");
			at = 0;
		}
		if (at < indent) {
			printf("%*s", indent - at, "");
			at = indent;
		} else if (at > indent) {
			printf(" ");
			at++;
		}
		printf("%.*s", len, text);
		at += len;
		text += len;
		text += strspn(text, " \n");
	}
	printf("\n");
}

static void print_help_wrapped(const char *text, int indent, int at)
{
	command_print_filled(text, indent, at, help_columns());
}

/* Paragraphs are filled; lines that begin with a blank are examples and stay as they are. */
static void print_help_detail(const char *text)
{
	while (*text) {
		char para[2048];
		size_t len = 0;

		if (*text == ' ' || *text == '\n') {
			len = strcspn(text, "\n");
			printf("%.*s\n", (int)len, text);
		} else {
			do
				len += strcspn(text + len, "\n") + 1;
			while (text[len - 1] && text[len] && text[len] != ' ' && text[len] != '\n');
			len--;
			snprintf(para, sizeof(para), "%.*s", (int)len, text);
			print_help_wrapped(para, 0, 0);
		}
		text += len;
		text += *text == '\n';
	}
}

/* Whether text has every one of words. */
static int names_all(const char *text, const char *words)
{
	char word[64];

	while (*words) {
		size_t n = strcspn(words, " ");

		snprintf(word, sizeof(word), "%.*s", (int)n, words);
		if (!strstr(text, word))
			return 0;
		words += n;
		words += strspn(words, " ");
	}
	return 1;
}

static int help_left_part(const struct opt *o, char *out, size_t n)
{
	char letter[8] = "    ";

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	return snprintf(out, n, "  %s--%s%s%s", letter, o->name, o->arg ? " " : "", o->arg ? o->arg : "");
}

/* changes: what holds without the option is what held before, so no default is told. */
static void option(const struct opt *o, int changes, int column)
{
	char left[128], text[1024];
	size_t len, i;
	int at;

	at = help_left_part(o, left, sizeof(left));
	printf("%s", left);
	if (at + 2 > column) {
		printf("\n");
		at = 0;
	}
	len = (size_t)snprintf(text, sizeof(text), "%s", o->help);
	if (o->complete == COMPLETE_WORDS && o->words && len < sizeof(text) / 2 &&
	    !names_all(o->help, o->words)) {
		len += (size_t)snprintf(text + len, sizeof(text) - len, " (one of: ");
		for (i = 0; o->words[i] && len + 4 < sizeof(text); i++) {
			if (o->words[i] == ' ')
				text[len++] = ',';
			text[len++] = o->words[i];
		}
		text[len++] = ')';
		text[len] = '\0';
	}
	if (o->preset && !changes)
		snprintf(text + len, sizeof(text) - len, " (default: %s)", o->preset);
	print_help_wrapped(text, column, at);
}

static void print_help_options(const struct command *c)
{
	static const struct opt help = { .name = "help", .letter = 'h', .help = "show this help" };
	static const struct opt long_help = { .name = "help", .help = "show this help" };
	int column = 0, taken = 0;
	const struct opt *o;
	char left[128];

	COMMAND_EACH_OPTION(c, o) {
		int n = help_left_part(o, left, sizeof(left)) + 2;

		if (n <= LEFT_MAX && n > column)
			column = n;
		taken |= o->letter == 'h';
	}
	column = help_text_column(column < 14 ? 14 : column);
	printf("\nOptions:\n");
	COMMAND_EACH_OPTION(c, o)
		if (!command_hides(c, o))
			option(o, c->params & PARAM_OF_UPDATE, column);
	option(taken ? &long_help : &help, 0, column);
}

void command_help(const struct command *c)
{
	char usage[512];

	snprintf(usage, sizeof(usage), "[options]%s%s", c->args ? " " : "", c->args ? c->args : "");
	printf("Usage: berth %s ", c->name);
	print_help_wrapped(usage, (int)strlen("Usage: berth ") + (int)strlen(c->name) + 1,
			   (int)strlen("Usage: berth ") + (int)strlen(c->name) + 1);
	printf("\n%c%s.\n", c->summary[0] >= 'a' && c->summary[0] <= 'z' ? c->summary[0] - 32 : c->summary[0],
	       c->summary + 1);
	if (c->detail) {
		printf("\n");
		print_help_detail(c->detail);
	}
	print_help_options(c);
}

/* A row of a list of commands. */
static void print_help_row(const char *name, const char *summary)
{
	const int column = help_text_column(20);
	int at = printf("  %-*s", column - 4, name);

	if (at + 2 > column && at > 18) {
		printf("\n");
		at = 0;
	}
	print_help_wrapped(summary, column, at);
}

int command_group_help(const char *word)
{
	size_t i, len = strlen(word);
	int n = 0;

	for (i = 0; commands[i]; i++)
		if (!strcmp(commands[i]->name, word))
			return 0;	/* it is a command as well, whose help is its own */
	for (i = 0; commands[i]; i++) {
		const char *name = commands[i]->name;

		if ((commands[i]->flags & COMMAND_HIDDEN) || strncmp(name, word, len) || name[len] != ' ')
			continue;
		if (!n++) {
			printf("Usage: berth %s ", word);
			print_help_wrapped("COMMAND [options] [arguments]", 14 + (int)len, 14 + (int)len);
			printf("\nCommands:\n");
		}
		print_help_row(name + len + 1, commands[i]->summary);
	}
	if (n) {
		printf("\n'berth %s ", word);
		print_help_wrapped("COMMAND --help' lists the options of a command.", 0, 8 + (int)len);
	}
	return n;
}

void command_overview(void)
{
	const struct command_group *g = command_groups;
	size_t i;

	printf("Usage: berth ");
	print_help_wrapped("COMMAND [options] [arguments]", 13, 13);
	printf("\n");
	print_help_wrapped("Runs commands in hardened sandboxes made straight from the kernel.", 0, 0);
	for (i = 0; commands[i]; i++) {
		if (commands[i] == g->first)
			printf("\n%s:\n", g++->title);
		if (!(commands[i]->flags & COMMAND_HIDDEN))
			print_help_row(commands[i]->name, commands[i]->summary);
	}
	printf("\nHelp:\n");
	print_help_row("help [COMMAND]", "show the help of a command");
	print_help_row("version", "print the version and the C library");
	printf("\n");
	print_help_wrapped("'berth COMMAND --help' lists the options of a command; --json after help or version prints an object.", 0, 0);
}

/* ---- the same as documents ---- */

static json_t *option_json(const struct opt *o)
{
	const char letter[] = { o->letter, '\0' };

	return json_pack("{s:s,s:s*,s:s*,s:s,s:s*,s:b}", "name", o->name, "letter", o->letter ? letter : NULL, "value", o->arg, "help",
			 o->help, "default", o->preset, "repeats", o->kind == OPT_LIST);
}

json_t *command_json(const struct command *c)
{
	json_t *j = json_pack("{s:s,s:s,s:s,s:b}", "name", c->name, "arguments", c->args ? c->args : "", "summary", c->summary, "root",
			      !(c->flags & COMMAND_ANY_USER));
	json_t *list;
	const struct opt *o;

	if (!j || c->flags & COMMAND_EXTERNAL)
		return j;
	list = json_array();
	COMMAND_EACH_OPTION(c, o)
		if (!command_hides(c, o))
			json_array_append_new(list, option_json(o));
	json_object_set_new(j, "options", list);
	return j;
}

json_t *command_overview_json(void)
{
	const struct command_group *g = command_groups;
	json_t *groups = json_array(), *list = NULL;
	size_t i;

	for (i = 0; commands[i]; i++) {
		if (commands[i] == g->first) {
			list = json_array();
			json_array_append_new(groups, json_pack("{s:s,s:o}", "title", g++->title, "commands", list));
		}
		if (!(commands[i]->flags & COMMAND_HIDDEN))
			json_array_append_new(list, json_pack("{s:s,s:s,s:s}", "name", commands[i]->name, "arguments",
							      commands[i]->args ? commands[i]->args : "", "summary",
							      commands[i]->summary));
	}
	return json_pack("{s:s,s:o}", "version", BERTH_VERSION, "groups", groups);
}
