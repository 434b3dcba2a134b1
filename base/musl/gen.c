/* SPDX-License-Identifier: Apache-2.0 */
/* Prints glibc's names and texts of errors and signals as C, for musl.c; runs at build time. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define ERRORS 256	/* above the last, EHWPOISON, on every Linux but MIPS and SPARC */

/*
 * One text with a NUL behind each entry, and where each begins: no pointer, which the start of a
 * position-independent program would have to write (and each process to hold) for each entry.
 */
static void table(const char *name, const char *(*get)(int), int n)
{
	unsigned at = 1;
	int i;

	/* place 0 is that of an entry that is not there */
	printf("const char %s_text[] = \"\\0\"\n", name);
	for (i = 0; i < n; i++)
		if (get(i))
			printf("\t\"%s\\0\"\n", get(i));
	printf("\t;\nconst unsigned short %s[%d] = {\n", name, n);
	for (i = 0; i < n; i++)
		if (get(i)) {
			printf("\t[%d] = %u,\n", i, at);
			at += (unsigned)strlen(get(i)) + 1;
		}
	printf("};\n");
}

int main(void)
{
	printf("/* made by base/musl/gen.c */\n");
	table("libc_error_names", strerrorname_np, ERRORS);
	table("libc_error_texts", strerrordesc_np, ERRORS);
	table("libc_signal_names", sigabbrev_np, NSIG);
	printf("const unsigned libc_errors = %d, libc_signals = %d;\n", ERRORS, NSIG);
	return ferror(stdout) || fclose(stdout) ? 1 : 0;
}
