/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "manager/keeper/shellstate.h"

static struct shellfuncs of(const char *text)
{
	struct shellfuncs f = { 0 };
	struct err e;

	cr_assert_eq(shellfuncs_add(&f, text, strlen(text), &e), 0);
	return f;
}

/* The one function of the text is want. */
static void finds(const char *text, const char *name, const char *want)
{
	struct shellfuncs f = of(text);

	cr_assert_eq(f.count, 1, "%zu in %s", f.count, text);
	cr_assert_str_eq(f.list[0].name, name);
	cr_assert_str_eq(f.list[0].text, want, "got: %s", f.list[0].text);
	shellfuncs_release(&f);
}

Test(shellfunc, a_definition_is_found_with_all_of_its_body)
{
	finds("f() { echo a; }; f", "f", "f() { echo a; }");
	finds("x=1; f () ( echo a; (b) ) && g", "f", "f () ( echo a; (b) )");
	finds("f()\n{\n\techo '}' \"}\" \\} }\n}\necho", "f", "f()\n{\n\techo '}' \"}\" \\} }\n}");
	finds("f() { case $1 in a) echo }; ;; b|c) { x; };; esac; if a; then b; fi }", "f",
	      "f() { case $1 in a) echo }; ;; b|c) { x; };; esac; if a; then b; fi }");
	finds("f() { for i in a b; do while :; do break; done; done; }", "f",
	      "f() { for i in a b; do while :; do break; done; done; }");
	finds("f() { cat <<E\n} not yet $(x)\nE\n}; echo", "f",
	      "f() { cat <<E\n} not yet $(x)\nE\n}");
	finds("if true; then f() { a; }; fi", "f", "f() { a; }");
	finds("f() { a; }\nf() { b; }", "f", "f() { b; }");
	finds("# g() { x; }\nf() { a; # }\n}", "f", "f() { a; # }\n}");
}

Test(shellfunc, what_defines_nothing_is_no_function)
{
	static const char *const none[] = { "",           "echo 'f() { a; }'", "x=$(f() { a; })",
					    "f() { a;",   "f() echo",          "f(",
					    "f()",        "a-b() { x; }",      "((1))",
					    "arr=(a b)",  "echo f()",          ")",
					    "} f() { a; " };
	size_t i;

	for (i = 0; i < sizeof(none) / sizeof(*none); i++) {
		struct shellfuncs f = of(none[i]);

		cr_assert_eq(f.count, 0, "%s", none[i]);
		shellfuncs_release(&f);
	}
}

Test(shellfunc, more_than_the_limits_are_refused)
{
	struct shellfuncs f = { 0 };
	struct err e;
	char text[40];
	int i;

	for (i = 0; i < SHELLFUNCS_MAX; i++) {
		snprintf(text, sizeof(text), "f%d() { a; }", i);
		cr_assert_eq(shellfuncs_add(&f, text, strlen(text), &e), 0);
	}
	cr_assert_eq(shellfuncs_add(&f, "g() { a; }", 10, &e), -1);
	cr_assert_eq(e.code, ERR_LIMIT);
	cr_assert_eq(shellfuncs_add(&f, "f1() { b; }", 11, &e), 0, "one in the place of another");
	shellfuncs_release(&f);
}

#define N "\0"

static char *script_of(int is_bash, const char *dump, size_t n, struct buf *b, struct err *e)
{
	static const char *const env[] = { "PATH=/bin", "A-B=1", "TERM=x" };
	struct shellfuncs f = of("f() { a; }; g() { b; }");
	int r;

	*b = BUF_INIT(SHELLSTATE_MAX);
	r = shellstate_script(is_bash, dump, n, env, 3, &f, b, e);
	shellfuncs_release(&f);
	return r < 0 ? NULL : b->data;
}

Test(shellstate, a_dump_of_bash_becomes_its_script)
{
	static const char dump[] =
		"0022\n" N "declare -x PWD=\"/a\"\ndeclare -ir PPID=\"1\"\ndeclare -- "
		"none\ndeclare -a list=([0]=\"x\n"
		"declare -- UID=5\")\ndeclare -- q=$'a\\'\\nb'\ndeclare -- __berth_s=\"0\"\n" N N N
		"shopt -s extglob\n" N "set -o errexit\nset -o xtrace\nset +o noexec\n" N
		"trap -- ':' SIGINT\ntrap -- 'x\ntrap -- y' EXIT\ntrap -- 'return 130' "
		"SIGRTMAX-1\n" N "f () \n{ \n    echo a\n}\n" N "alias ll='ls -l'\n" N "p1" N
		"it's" N;
	struct err e = { 0 };
	struct buf b;

	cr_assert_str_eq(script_of(1, dump, sizeof(dump) - 1, &b, &e),
			 "umask 0022\nunset PATH\nunset TERM\ndeclare -x PWD=\"/a\"\ncd -- "
			 "\"$PWD\" || cd .\n"
			 "declare -a list=([0]=\"x\ndeclare -- UID=5\")\ndeclare -- "
			 "q=$'a\\'\\nb'\nshopt -s extglob\n"
			 "f () \n{ \n    echo a\n}\nset -- 'p1' 'it'\\''s'\ntrap -- ':' "
			 "SIGINT\ntrap -- 'x\ntrap -- y' EXIT\n"
			 "set -o errexit\nalias ll='ls -l'\n");
	buf_release(&b);
}

Test(shellstate, a_dump_of_sh_becomes_its_script)
{
	static const char dump[] =
		"0027\n" N
		"PPID='1'\nPWD='/a'\nx='it'\"'\"'s\nPPID=2'\nnot an assignment\n_='z'\n" N
		"export PWD='/a'\nexport x='it'\"'\"'s\nPPID=2'\n" N "readonly x='1'\n" N N
		"set -o noglob\nset +o stdin\n" N "trap -- 'a' 47\ntrap -- 'b' USR1\n" N
		"f is a shell function\nh is a shell function\ng: not found\n" N "ll='ls'\n" N;
	struct err e = { 0 };
	struct buf b;

	cr_assert_str_eq(script_of(0, dump, sizeof(dump) - 1, &b, &e),
			 "umask 0027\nunset PATH\nunset TERM\nPWD='/a'\ncd -- \"$PWD\" || cd "
			 ".\nx='it'\"'\"'s\nPPID=2'\n"
			 "export x='it'\"'\"'s\nPPID=2'\nreadonly x='1'\nf() { a; }\nset --\ntrap "
			 "-- 'b' USR1\nset -o noglob\n"
			 "alias ll='ls'\n");
	buf_release(&b);
}

Test(shellstate, what_is_no_dump_is_refused)
{
	static const char *const bad[] = { "", "0022\n", "0022\n" N N N N N N N N };
	static const char mask[] = "x" N N N N N N N N N;
	struct err e = { 0 };
	struct buf b;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		cr_assert_null(script_of(1, bad[i], i == 2 ? 13 : strlen(bad[i]), &b, &e));
		cr_assert_eq(e.code, ERR_INVALID);
		buf_release(&b);
	}
	cr_assert_null(script_of(0, mask, sizeof(mask) - 1, &b, &e));
	cr_assert_eq(e.code, ERR_INVALID);
	buf_release(&b);
}
