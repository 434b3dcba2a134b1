/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/guardian.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"
#include "manager/host/restart.h"

#define WORDS_MAX 8

/* By its path: after an upgrade that is the new program.  Where it is gone the old one does. */
void guardian_exec(const char *word, ...)
{
	static const char self[] = "/proc/self/exe", deleted[] = " (deleted)";
	const char *words[WORDS_MAX + 3] = { "berth", RESTART_VERB, word };
	char path[4096], *end;
	ssize_t n = readlink(self, path, sizeof(path) - 1);
	size_t i = 3;
	va_list ap;

	va_start(ap, word);
	while (i < WORDS_MAX + 2 && (words[i] = va_arg(ap, const char *)))
		i++;
	va_end(ap);
	path[n > 0 ? n : 0] = '\0';
	end = n > (ssize_t)sizeof(deleted) ? path + n - (sizeof(deleted) - 1) : NULL;
	if (end && !strcmp(end, deleted))
		*end = '\0';
	execv(path, (char *const *)words);
	execv(self, (char *const *)words);
}

void guardian_become(const char *id, uint64_t backoff_ms, int go_fd)
{
	char word, last[24];
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	(void)!chdir("/");
	prctl(PR_SET_NAME, "berth-guard");
	if (io_read_exact(go_fd, &word, 1) != 1)
		_exit(0);
	snprintf(last, sizeof(last), "%" PRIu64, backoff_ms);
	syscall(SYS_close_range, 0, ~0U, 0);
	guardian_exec(id, last, (char *)NULL);
	_exit(125);
}
