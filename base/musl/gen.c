/* SPDX-License-Identifier: Apache-2.0 */
/* Prints glibc's names and texts of errors and signals as C, for musl.c; runs at build time. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define ERRORS 256	/* above the last, EHWPOISON, on every Linux but MIPS and SPARC */

static void table(const char *name, const char *(*get)(int), int n)
{
	int i;

	printf("const char *const %s[] = {\n", name);
	for (i = 0; i < n; i++)
		if (get(i))
			printf("\t[%d] = \"%s\",\n", i, get(i));
	printf("\t[%d] = 0,\n};\n", n - 1);
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
