/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shellscript - what a session's shell is told, and how it tells the end of a text.
 *
 * Pure: texts and lines only; keeper_text.c and keeper_shell.c write and read them.
 *
 * Framing is out of band.  The shell reads its script from a pipe (descriptor
 * 8, closed by the first line of it once the shell has it open by itself).  For
 * a command we write its text to a file that the sandbox can only read and put
 * two lines into the pipe:
 *	. FILE 9>&-
 *	__berth NONCE "$?" && :
 * where the function writes "NONCE STATUS FLAGS" to the status pipe and returns
 * STATUS, so that the next text finds it in $?, at no process's cost (&&: to set -e
 * it is no failure).
 * So the command's text is never mixed with ours, an unfinished quote or
 * heredoc ends with the file, the command's processes have no descriptor 9 to
 * forge a status on, and nothing is parsed out of the terminal's stream.  sh gets
 * `command . FILE`: an error in a special built-in would end it (POSIX 2.8.1).
 *
 * set -x and -v show the text's lines and none of ours: what follows the text is
 * sent to the status pipe, where it says nothing to us, and turns them off, and the
 * next text's file turns them on again.  That costs descriptors, so it is done only
 * once a text has asked for them.  In the same way, once a text has the word trap in
 * it, each end tells the traps there are, and ours for INT is set again if it is gone.
 *
 * The shell is not interactive (no prompts, no job notes in the output) but has
 * job control: each command line's processes are a process group of their own,
 * so that an interrupt from the terminal reaches them and not the shell.
 *
 * To leave the text, whatever loop or depth of functions the shell itself is in,
 * there are traps on real-time signals nobody uses.  A trap can return from one
 * level only.  So in bash it sets a DEBUG trap, which returns before every command
 * of the levels above; elsewhere it raises its signal again, for the shell to take
 * before the caller's next command.  Either ends once descriptor 9 is the status
 * pipe: that is our own script again.
 */
#ifndef BERTH_MANAGER_KEEPER_SHELLSCRIPT_H
#define BERTH_MANAGER_KEEPER_SHELLSCRIPT_H

#include <stddef.h>

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

/* The shell's command line: bash's, or that of an image's sh. */
const char *const *shellscript_argv(int is_bash, size_t *ret_count);
/* The first lines of its script. */
const char *shellscript_first(int is_bash);
/* The lines that run the session's file and report its end. */
void shellscript_lines(const struct shelltext *t, char ret[SHELLSCRIPT_LINES]);
/* The lines that have the shell answer the question in its state file (shellstate.h). */
void shellscript_ask(const char *session, const char *nonce, int is_bash,
		     char ret[SHELLSCRIPT_LINES]);
/* The lines that have a new shell read the script in its state file; $? is status then. */
void shellscript_restore(const char *session, int is_bash, unsigned status,
			 char ret[SHELLSCRIPT_LINES]);
/* May the text turn on set -x or -v?  What hides that in a file it sources, is not hidden from it. */
int shellscript_may_trace(const char *text);
/* Is it the line of `trap` for INT?  bash calls it SIGINT. */
int shellscript_is_interrupt_trap(const char *line);

#endif
