/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shellscript - the lines that a session's shell reads, and its report of the end of a text.
 *
 * Pure: texts and lines only; keeper_text.c and keeper_shell.c write and read them.
 *
 * Framing is out of band.  The shell reads its script from a pipe (descriptor
 * 8, closed by the first line of it once the shell has it open by itself).  For
 * a command we write its text to a file that the sandbox can only read and put
 * two lines into the pipe:
 * 	. FILE 9>&-
 * 	__berth NONCE "$?" && :
 * where the function writes "NONCE STATUS FLAGS" to the status pipe and returns
 * STATUS, so that the next text finds it in $?, at no process's cost (&&: to set -e
 * it is no failure).
 * So the command's text is never mixed with ours, an unfinished quote or
 * heredoc ends with the file, the command's processes have no descriptor 9 to
 * forge a status on, and nothing is parsed out of the terminal's stream.  sh gets
 * `command . FILE`: an error in a special built-in would end it (POSIX 2.8.1).
 *
 * set -x and -v show the text's lines and none of ours: the trace of the lines after the text goes
 * to the status pipe, where we ignore it, and these lines turn tracing off; the next text's file
 * turns it on again. That costs descriptors, so it is done only once a text has used them. In the
 * same way, once a text has the word trap in it, each end reports the present traps, and ours for
 * INT is set again if it is gone.
 *
 * The shell is not interactive (no prompts, no job notes in the output) but has
 * job control: each command line's processes are a process group of their own,
 * so that an interrupt from the terminal reaches them and not the shell.
 *
 * To leave the text, whatever loop or depth of functions the shell itself is in, there are traps on
 * unused real-time signals. A trap can return from one level only. So in bash it sets a DEBUG trap,
 * which returns before every command of the levels above; elsewhere it raises its signal again, for
 * the shell to take before the caller's next command. Either ends once descriptor 9 is the status
 * pipe: that is our own script again.
 */
#ifndef BERTH_MANAGER_KEEPER_SHELLSCRIPT_H
#define BERTH_MANAGER_KEEPER_SHELLSCRIPT_H

#include <stddef.h>

/* The signals that the shell has traps for. */
#define LEAVE_SIGNAL 48		/* leave the text, all levels */
#define INTERRUPTED_SIGNAL 47	/* as above, if the process that just ended died of an interrupt */
#define LEAVE_ONE_SIGNAL 63	/* leave one level, even where the text has a pipe of its own as descriptor
				 * 9 */

#define SHELLSCRIPT_LINES 640

/* A text to run. */
struct shelltext {
	const char *session, *nonce;
	int is_bash;
	int traps;		/* its end reports the traps */
	int traces;		/* set -x or -v may be on */
	int restore_trap;	/* our trap for INT is gone */
	unsigned last_status;
};

/* Returns the shell's command line: bash's, or that of an image's sh. */
const char *const *shellscript_argv(int is_bash, size_t *ret_count);
/* Returns the first lines of its script. */
const char *shellscript_first(int is_bash);
/* Writes the lines that run the session's file and report its end. */
void shellscript_lines(const struct shelltext *t, char ret[SHELLSCRIPT_LINES]);
/* Writes the lines that make the shell answer the question in its state file (shellstate.h). */
void shellscript_ask(const char *session, const char *nonce, int is_bash,
		     char ret[SHELLSCRIPT_LINES]);
/* Writes the lines that make a new shell read the script in its state file; $? is then status. */
void shellscript_restore(const char *session, int is_bash, unsigned status,
			 char ret[SHELLSCRIPT_LINES]);
/*
 * Tells whether the text may turn on set -x or -v. A text that hides that in a file it sources sees
 * our lines, too.
 */
int shellscript_may_trace(const char *text);
/* Tells whether it is the line of `trap` for INT, which bash calls SIGINT. */
int shellscript_is_interrupt_trap(const char *line);

/* ---- the name of the shell in its messages ---- */

/*
 * shellname - puts the shell's name into its messages, in place of our file's.
 *
 * A shell writes the name of the file that it reads before its messages, and the file is ours:
 * "/run/.berth/main: line 1: foo: command not found" from bash, "sh: 1: /run/.berth/main: foo: not
 * found" from dash. In a user's script these are "bash: line 1: ..." and "sh: 1: ...", and so the
 * messages are changed to that. Bash cannot be given another name: it prefers BASH_SOURCE, which
 * cannot be assigned, to $0.
 *
 * Pure: it gets pieces of output, and passes all other bytes on unchanged.
 */

#define SHELLNAME_MAX 96

struct shellname {
	/* the text to replace: the file's name, a colon, a blank; "": none */
	char file[SHELLNAME_MAX];
	size_t len, held;		/* held: how many of its bytes came last */
	const char *name;		/* by what */
};

/*
 * Sets it up. file: absolute, of at most SHELLNAME_MAX - 3 bytes; name: with colon and blank, or
 * "", borrowed.
 */
void shellname_init(struct shellname *s, const char *file, const char *name);
/* Passes n bytes at p on to put(), except an end that may be the name's beginning. */
void shellname_feed(struct shellname *s, const char *p, size_t n, void (*put)(void *ctx, const char *p, size_t n), void *ctx);
/* Passes on the held bytes, because no more come, or not for now. */
void shellname_flush(struct shellname *s, void (*put)(void *ctx, const char *p, size_t n), void *ctx);

#endif
