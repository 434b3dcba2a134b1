/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/command.h"

enum { FLAG = 1, NUMBER, LIST, SWITCH, VERBOSE };

static const struct opt opts[] = {
	{ "flag", 'f', OPT_FLAG, NULL, "a flag", FLAG },
	{ "number", 'n', OPT_VALUE, "N", "a number (default: 1)", NUMBER },
	{ "list", 0, OPT_LIST, "X", "a list", LIST },
	{ "switch", 's', OPT_FLAG, NULL, "a switch", SWITCH },
};

static int nothing(const struct command *self, int argc, char **argv)
{
	(void)self, (void)argc, (void)argv;
	return 0;
}

static const struct command cmd = {
	.name = "test", .args = "FILE [COMMAND...]", .summary = "a test", .opts = opts, .opt_count = ARRAY_LEN(opts), .run = nothing,
};

struct seen {
	char text[512];
};

/* Writes "id=value " per call; value "bad" is refused. */
static int note(void *ctx, int id, const char *value, struct err *e)
{
	struct seen *s = ctx;
	size_t n = strlen(s->text);

	if (value && !strcmp(value, "bad"))
		return err_set(e, ERR_INVALID, "'bad' is bad");
	snprintf(s->text + n, sizeof(s->text) - n, "%d=%s ", id, value ? value : "-");
	return 0;
}

#define ARGS(...) ((char *[]){ (char *)"test", __VA_ARGS__ __VA_OPT__(,) NULL })

static int count(char **argv)
{
	int n = 0;

	while (argv[n])
		n++;
	return n;
}

static void good(char **argv, const char *seen, int rest)
{
	struct seen s = { "" };
	struct err e = { 0 };
	int got = -1, help = -1, r = command_options(&cmd, count(argv), argv, note, &s, &got, &help, &e);

	cr_expect_eq(r, 0, "%s", e.msg);
	cr_expect_str_eq(s.text, seen);
	cr_expect_eq(got, rest, "rest %d instead of %d after %s", got, rest, seen);
	cr_expect_eq(help, 0);
}

static void bad(char **argv, int code, const char *message)
{
	struct seen s = { "" };
	struct err e = { 0 };
	int rest, help = 0, r = command_options(&cmd, count(argv), argv, note, &s, &rest, &help, &e);

	cr_expect_eq(r, -1);
	cr_expect_eq(e.code, code);
	cr_expect_str_eq(e.msg, message);
}

Test(command, options_in_all_their_forms)
{
	good(ARGS(), "", 1);
	good(ARGS("--flag"), "1=- ", 2);
	good(ARGS("--number", "5"), "2=5 ", 3);
	good(ARGS("--number=5"), "2=5 ", 2);
	good(ARGS("--number="), "2= ", 2);
	good(ARGS("--number=a=b"), "2=a=b ", 2);
	good(ARGS("--number", "--flag"), "2=--flag ", 3);
	good(ARGS("-n", "5"), "2=5 ", 3);
	good(ARGS("-n5"), "2=5 ", 2);
	good(ARGS("-fs"), "1=- 4=- ", 2);
	good(ARGS("-fn5"), "1=- 2=5 ", 2);
	good(ARGS("-fsn", "5"), "1=- 4=- 2=5 ", 3);
	good(ARGS("--list", "a", "--list=b"), "3=a 3=b ", 4);
	good(ARGS("--number", "1", "-n2"), "2=1 2=2 ", 4);
}

Test(command, options_end_at_the_first_operand)
{
	good(ARGS("x", "--flag"), "", 1);
	good(ARGS("--flag", "x", "--nonsense"), "1=- ", 2);
	good(ARGS("--", "--flag"), "", 2);
	good(ARGS("-f", "--", "x"), "1=- ", 3);
	good(ARGS("-"), "", 1);
	good(ARGS("-f", "-", "-f"), "1=- ", 2);
	good(ARGS(""), "", 1);
}

Test(command, what_is_wrong_is_named_with_the_remedy)
{
	bad(ARGS("--nubmer", "5"), ERR_USAGE, "unknown option --nubmer; hint: did you mean --number?");
	bad(ARGS("--nubmer=5"), ERR_USAGE, "unknown option --nubmer; hint: did you mean --number?");
	bad(ARGS("--numb=5"), ERR_USAGE, "unknown option --numb; hint: did you mean --number?");
	bad(ARGS("--fla"), ERR_USAGE, "unknown option --fla; hint: did you mean --flag?");
	bad(ARGS("--privileged"), ERR_USAGE, "unknown option --privileged; hint: berth test --help lists the options");
	bad(ARGS("--=x"), ERR_USAGE, "unknown option --; hint: berth test --help lists the options");
	bad(ARGS("-x"), ERR_USAGE, "unknown option -x; hint: berth test --help lists the options");
	bad(ARGS("-fx"), ERR_USAGE, "unknown option -x; hint: berth test --help lists the options");
	bad(ARGS("-flag"), ERR_USAGE, "unknown option -l; hint: berth test --help lists the options");
	bad(ARGS("--number"), ERR_USAGE, "option --number needs a value; hint: --number N");
	bad(ARGS("-n"), ERR_USAGE, "option --number needs a value; hint: --number N");
	bad(ARGS("--flag=1"), ERR_USAGE, "option --flag takes no value; hint: --flag alone");
	bad(ARGS("--help=1"), ERR_USAGE, "option --help takes no value; hint: --help alone");
	bad(ARGS("-n", "bad"), ERR_INVALID, "option --number: 'bad' is bad");
}

Test(command, long_and_hostile_words_are_cut)
{
	char word[5000];
	struct seen s = { "" };
	struct err e = { 0 };
	int rest, help;
	char *argv[] = { (char *)"test", word, NULL };

	memset(word, 'a', sizeof(word) - 1);
	word[0] = word[1] = '-';
	word[sizeof(word) - 1] = '\0';
	cr_expect_eq(command_options(&cmd, 2, argv, note, &s, &rest, &help, &e), -1);
	cr_expect_lt(strlen(e.msg), 200);
}

Test(command, help_is_asked_for_and_printed, .init = cr_redirect_stdout)
{
	struct seen s = { "" };
	struct err e;
	int rest, help = 0;
	char **argv = ARGS("-f", "--help", "--nonsense");

	cr_expect_eq(command_options(&cmd, count(argv), argv, note, &s, &rest, &help, &e), 0);
	cr_expect_eq(help, 1);
	fflush(stdout);
	cr_assert_stdout_eq_str("Usage: berth test [options] FILE [COMMAND...]\n\nA test.\n\nOptions:\n"
				"  -f, --flag      a flag\n"
				"  -n, --number N  a number (default: 1)\n"
				"      --list X    a list\n"
				"  -s, --switch    a switch\n"
				"  -h, --help      show this help\n");
}

Test(command, errors_are_one_line_or_one_json_object, .init = cr_redirect_stderr)
{
	struct err e;

	err_set(&e, ERR_INVALID, "a \"b\" \\ \x1b[31m\nc");
	cr_expect_eq(command_fail(&cmd, &e, 0), 2);
	cr_expect_eq(command_fail(&cmd, &e, 1), 2);
	err_set(&e, ERR_NOT_FOUND, "no image x");
	cr_expect_eq(command_fail(NULL, &e, 0), 125);
	cr_assert_stderr_eq_str("berth test: a \"b\" \\ ?[31m?c\n"
				"{\"error\":{\"code\":\"invalid\",\"message\":\"a \\\"b\\\" \\\\ ?[31m?c\",\"exit_status\":2}}\n"
				"berth: no image x\n");
}

Test(command, commands_of_one_and_two_words_are_found)
{
	struct err e = { 0 };
	int words = 0;
	const struct command *c = command_find(2, (char *[]){ (char *)"run", (char *)"x" }, &words, &e);

	cr_expect(c && !strcmp(c->name, "run") && words == 1);
	c = command_find(3, (char *[]){ (char *)"config", (char *)"show", (char *)"x" }, &words, &e);
	cr_expect(c && !strcmp(c->name, "config show") && words == 2);
	cr_expect_null(command_find(1, (char *[]){ (char *)"config" }, &words, &e));
	cr_expect_str_eq(e.msg, "config needs a second word; hint: berth config --help lists them");
	cr_expect_null(command_find(2, (char *[]){ (char *)"config", (char *)"shwo" }, &words, &e));
	cr_expect_str_eq(e.msg, "unknown command 'config shwo'; hint: did you mean 'config show'?");
	cr_expect_null(command_find(1, (char *[]){ (char *)"rnu" }, &words, &e));
	cr_expect_str_eq(e.msg, "unknown command 'rnu'; hint: did you mean 'run'?");
	cr_expect_null(command_find(1, (char *[]){ (char *)"zzzzzz" }, &words, &e));
	cr_expect_str_eq(e.msg, "unknown command 'zzzzzz'; hint: berth help lists the commands");
	cr_expect_null(command_find(1, (char *[]){ (char *)"" }, &words, &e));
	cr_expect_eq(e.code, ERR_USAGE);
}

/* Completion prints these unquoted; help and man pages show them. */
static int plain(const char *s, const char *also)
{
	for (; *s; s++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+", *s) && !strchr(also, *s))
			return 0;
	return 1;
}

static int is_another_word_for(const struct opt *o, const char *name)
{
	static const char says[] = "the same as --";

	return !strncmp(o->help, says, strlen(says)) && !strcmp(o->help + strlen(says), name);
}

Test(command, every_row_of_the_tables_is_well_formed)
{
	size_t i, j, k;

	for (i = 0; commands[i]; i++) {
		const struct command *c = commands[i];

		cr_expect(c->name && plain(c->name, " ") && c->run && c->summary[0] >= 'a' && c->summary[0] <= 'z', "%s", c->name);
		cr_expect(c->summary[strlen(c->summary) - 1] != '.', "%s", c->name);
		cr_expect_eq(c->complete == COMPLETE_WORDS, c->words != NULL, "%s", c->name);
		cr_expect(!c->words || plain(c->words, " "), "%s", c->name);
		for (j = 0; commands[j]; j++)
			cr_expect(i == j || strcmp(c->name, commands[j]->name), "%s stands twice", c->name);
		for (j = 0; j < c->opt_count; j++) {
			const struct opt *o = &c->opts[j];

			cr_expect(plain(o->name, "") && (!o->words || plain(o->words, " ")), "%s --%s", c->name, o->name);
			cr_expect_eq(o->kind == OPT_FLAG, o->arg == NULL, "%s --%s", c->name, o->name);
			cr_expect_eq(o->complete == COMPLETE_WORDS, o->words != NULL, "%s --%s", c->name, o->name);
			cr_expect(o->help && o->help[0] && o->help[strlen(o->help) - 1] != '.', "%s --%s", c->name, o->name);
			cr_expect(strcmp(o->name, "help"), "%s --help is built in", c->name);
			for (k = 0; k < j; k++) {
				cr_expect(strcmp(c->opts[k].name, o->name), "%s --%s stands twice", c->name, o->name);
				cr_expect(!o->letter || c->opts[k].letter != o->letter, "%s -%c stands twice", c->name, o->letter);
				cr_expect(c->opts[k].id != o->id || is_another_word_for(o, c->opts[k].name),
					  "%s --%s and --%s share an id", c->name, o->name, c->opts[k].name);
			}
		}
	}
}

/* A command that runs no other one takes its options anywhere. */
Test(command, options_may_follow_operands)
{
	struct command plain = cmd;
	struct seen s = { "" };
	struct err e = { 0 };
	char *argv[] = { (char *)"test", (char *)"a", (char *)"-f", (char *)"b", (char *)"--number", (char *)"7", (char *)"--",
			 (char *)"-c", NULL };
	int rest, help;

	plain.args = "FILE...";
	cr_assert_eq(command_options(&plain, 8, argv, note, &s, &rest, &help, &e), 0, "%s", e.msg);
	cr_expect_eq(8 - rest, 3);
	cr_expect_str_eq(argv[rest], "a");
	cr_expect_str_eq(argv[rest + 1], "b");
	cr_expect_str_eq(argv[rest + 2], "-c");
}
