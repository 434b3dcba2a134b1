/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/shellscript.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/sandbox/mountplan.h"

/* ---- what the shell is told ---- */

#define OUTSIDE "[ -p /proc/$$/fd/9 ]"
#define LEAVE_BASH OUTSIDE " || { trap \"[ -p /proc/\\$\\$/fd/9 ] && trap - DEBUG || return 130\" DEBUG; return 130; }"
/*
 * The signal is raised in the expansion, so that the shell takes it after the return (bash loses it there at
 * times). The question is asked twice. A trap that is taken while another runs leaves the $? from before both as
 * the status of the command that it interrupts, and one status cannot be non-zero for the first question and
 * zero for the second.
 */
#define LEAVE_SH OUTSIDE " || { [ ! -p /proc/$$/fd/9 ] && return $(kill -" STRINGIFY(LEAVE_SIGNAL) " $$)130; }"
/*
 * The first function runs after each command, so it is short; the second does the rest and keeps $?
 * too.
 */
#define STATUS_FUNCTIONS \
	"__berth() { printf '%s %s %s\\n' \"$1\" \"$2\" \"$-\" >&9; return \"$2\"; }\n" \
	"__berth_do() { eval \"$2\"; return \"$1\"; }\n"
#define FIRST_LINES(leave) "exec 8<&-\nunset PS1 PS2 PROMPT_COMMAND\ntrap : INT\n" STATUS_FUNCTIONS \
	"trap 'case $? in 130) " leave ";; esac' " STRINGIFY(INTERRUPTED_SIGNAL) "\n" \
	"trap '" leave "' " STRINGIFY(LEAVE_SIGNAL) "\ntrap 'return 130' " STRINGIFY(LEAVE_ONE_SIGNAL) "\n"

/* $0 from bash 5.0 on; an older one keeps the name of its script. */
static const char first_lines_bash[] = FIRST_LINES(LEAVE_BASH) "shopt -s expand_aliases\nBASH_ARGV0=bash\n";
static const char first_lines_sh[] = FIRST_LINES(LEAVE_SH);

/*
 * The word after -c's text is $0. A shell that reads all of a script before it runs the first
 * line, as bash does with a sourced file, must read ours as its own.
 */
#define READ_SCRIPT "case ${BASH_VERSION-} in '') . /proc/self/fd/8;; *) exec sh /proc/self/fd/8;; esac"

const char *const *shellscript_argv(int is_bash, size_t *ret_count)
{
	static const char *const bash[] = { "bash", "--noprofile", "--norc", "/proc/self/fd/8" };
	static const char *const sh[] = { "sh", "-c", READ_SCRIPT, "sh" };

	*ret_count = is_bash ? ARRAY_LEN(bash) : ARRAY_LEN(sh);
	return is_bash ? bash : sh;
}

const char *shellscript_first(int is_bash)
{
	return is_bash ? first_lines_bash : first_lines_sh;
}

#define TRACES_OFF "__berth_do \"$?\" 'set +xv' && :; }"

void shellscript_lines(const struct shelltext *t, char ret[SHELLSCRIPT_LINES])
{
	const char *sh = t->is_bash ? "" : "command ", *traps = t->traps ? "__berth_do \"$?\" 'trap >&9' && :\n" : "";
	char restore[48] = "", end[160], text[sizeof(MOUNTPLAN_CONTROL) + 80];

	if (t->restore_trap)
		snprintf(restore, sizeof(restore), "__berth_do %u 'trap : INT' && :\n", t->last_status);
	snprintf(end, sizeof(end), "%s__berth %s \"$?\" && :\n", traps, t->nonce);
	snprintf(text, sizeof(text), "%s. " MOUNTPLAN_CONTROL "/%s 9>&-", sh, t->session);
	/*
	 * one compound, because set -v shows a line when it is read; the second line is for an
	 * error that dropped the rest of the first
	 */
	if (t->traces)
		snprintf(ret, SHELLSCRIPT_LINES, "%s%s; { %s" TRACES_OFF " 2>&9\n{ %s" TRACES_OFF " 2>&9\n", restore, text, end, end);
	else
		snprintf(ret, SHELLSCRIPT_LINES, "%s%s\n%s", restore, text, end);
}

/*
 * The question runs at the top level, because a function has other parameters and local
 * declarations. The answer begins with a line with the nonce, and ends as a text does. It is one
 * compound, whose output is dropped: a trap of the session may be on DEBUG, or set -x on by a file
 * that it sourced.
 */
#define STATE_FILE "%s. " MOUNTPLAN_CONTROL "/+%s || :; "
#define UNSEEN "} >/dev/null 2>&1"

void shellscript_ask(const char *session, const char *nonce, int is_bash,
		     char ret[SHELLSCRIPT_LINES])
{
	snprintf(ret, SHELLSCRIPT_LINES,
		 "{ __berth_s=$?; __berth %s 0; " STATE_FILE
		 "__berth_do \"$__berth_s\" 'unset __berth_s' && :\n"
		 "__berth %s \"$?\" && :; " UNSEEN " && :\n",
		 nonce, is_bash ? "" : "command ", session, nonce);
}

/* The script may have functions of ours, from an older berth. */
void shellscript_restore(const char *session, int is_bash, unsigned status,
			 char ret[SHELLSCRIPT_LINES])
{
	snprintf(ret, SHELLSCRIPT_LINES,
		 "{ " STATE_FILE "%s__berth_do %u : && :; " UNSEEN " 9>&- && :\n",
		 is_bash ? "" : "command ", session, STATUS_FUNCTIONS, status);
}

int shellscript_may_trace(const char *text)
{
	const char *p;

	if (strstr(text, "xtrace") || strstr(text, "verbose"))
		return 1;
	for (p = text; (p = strstr(p, "set ")); ) {
		const char *end;

		p += strlen("set");
		end = p + strcspn(p, "\n;&|");
		/* each word of it that begins with - */
		for (; (p += strspn(p, " \t")) < end; p += strcspn(p, " \t\n;&|"))
			if (*p == '-' && p + strcspn(p, "xv") < p + strcspn(p, " \t\n;&|"))
				return 1;
	}
	return 0;
}

int shellscript_is_interrupt_trap(const char *line)
{
	size_t n = strlen(line);

	return (n > 5 && !strcmp(line + n - 5, "' INT")) || (n > 8 && !strcmp(line + n - 8, "' SIGINT"));
}
