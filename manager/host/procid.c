/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/procid.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"

/* Field 22 of /proc/PID/stat; 0: no such process, or a zombie. */
static uint64_t process_start_time(int pid)
{
	autobuf struct buf b = BUF_INIT(4096);
	char path[40], *p;
	struct err ignored;
	int i;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (io_read_file(AT_FDCWD, path, &b, &ignored) < 0 || !b.data ||
	    !(p = strrchr(b.data, ')')))
		return 0;
	if (!strncmp(p, ") Z", 3) || !strncmp(p, ") X", 3))
		return 0;
	for (i = 0; i < 20 && p; i++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p + 1, NULL, 10) : 0;
}

void procid_boot(char ret[PROCID_BOOT_SIZE])
{
	autobuf struct buf b = BUF_INIT(128);
	struct err ignored;

	ret[0] = '\0';
	if (io_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", &b, &ignored) == 0 && b.data)
		snprintf(ret, PROCID_BOOT_SIZE, "%.8s", b.data);
}

int procid_name(int pid, char ret[PROCID_SIZE], struct err *e)
{
	uint64_t start = process_start_time(pid);
	char boot[PROCID_BOOT_SIZE];

	if (!start)
		return err_set(e, ERR_INVALID, "process %d is not a living process of this host", pid);
	procid_boot(boot);
	snprintf(ret, PROCID_SIZE, "%d %llu %s", pid, (unsigned long long)start, boot);
	return 0;
}

int procid_parse(const char *text, char ret[PROCID_SIZE], struct err *e)
{
	uint64_t pid;

	if (strchr(text, ' ') && strlen(text) < PROCID_SIZE) {
		snprintf(ret, PROCID_SIZE, "%s", text);
		return 0;
	}
	return num_u64(text, "pid", 1, 1 << 30, &pid, e) < 0 ? -1 : procid_name((int)pid, ret, e);
}

int procid_open(const char *name, struct err *e)
{
	char boot[PROCID_BOOT_SIZE], *end;
	long pid = strtol(name, &end, 10);
	uint64_t start = strtoull(end, &end, 10);
	int fd = pid > 0 && start ? (int)syscall(SYS_pidfd_open, (pid_t)pid, 0) : -1;

	if (fd < 0 && pid > 0 && errno != ESRCH && errno != EINVAL) {
		err_sys(e, "watch process %ld", pid);
		return -2;
	}
	/* read after the pidfd was opened: it describes the process of the pidfd, or none */
	if (fd >= 0 && process_start_time((int)pid) != start)
		fd_close(&fd);
	procid_boot(boot);
	if (fd >= 0 && *end == ' ' && end[1] && boot[0] && strcmp(end + 1, boot))
		fd_close(&fd);
	return fd;
}

int procid_has_ended(const char *name)
{
	struct err ignored;
	int fd = procid_open(name, &ignored);

	if (fd >= 0)
		close(fd);
	return fd == -1;
}
