/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/timens.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

int timens_unshare(int flags)
{
	if (unshare(flags | CLONE_NEWTIME) == 0)
		return 0;
	/* before Linux 5.6, or without CONFIG_TIME_NS, there is no time namespace */
	return errno != EINVAL || !access("/proc/self/ns/time", F_OK) ? -1 : unshare(flags);
}

int timens_zero(struct err *e)
{
	const struct timespec mono = clock_now(CLOCK_MONOTONIC), boot = clock_now(CLOCK_BOOTTIME);
	char text[96];
	autoclose int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open timens_offsets");
	snprintf(text, sizeof(text), "monotonic -%lld 0\nboottime -%lld 0\n", (long long)mono.tv_sec,
		 (long long)boot.tv_sec);
	return io_write_all(fd, text, strlen(text)) < 0 ? err_sys(e, "set the clocks of a time namespace") : 0;
}
