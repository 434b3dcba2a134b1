/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/procmask.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/cgroup.h"

/* procfs directories and files that turn the host's knobs (K14): visible, not writable. */
const char *const procmask_rdonly[] = {
	"/proc/sys", "/proc/sysrq-trigger", NULL,
};

/*
 * procfs entries that reveal the host, its memory or its other tenants (K15); "d" before a
 * directory. Anybody may make a trigger in /proc/pressure, and the kernel needs 5 ms to end
 * each: thousands of them outlive SIGKILL by minutes (L02). The list includes counters for the
 * whole host (K23), through which one sandbox could see what another writes, locks or opens.
 */
const char *const procmask_hidden[] = {
	"d/proc/acpi", "d/proc/asound", "/proc/bootconfig", "/proc/buddyinfo", "d/proc/bus", "/proc/cmdline",
	"/proc/config.gz", "/proc/crypto", "/proc/diskstats", "d/proc/fs", "/proc/interrupts",
	"/proc/iomem", "/proc/ioports", "d/proc/irq",
	"/proc/kallsyms", "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/kmsg", "/proc/kpagecgroup",
	"/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats", "/proc/locks", "/proc/mdstat", "/proc/modules",
	"/proc/pagetypeinfo", "/proc/partitions", "d/proc/pressure", "/proc/sched_debug", "/proc/schedstat", "d/proc/scsi",
	"/proc/slabinfo", "/proc/softirqs", "/proc/sys/fs/aio-nr", "/proc/sys/fs/dentry-state", "/proc/sys/fs/file-nr",
	"/proc/sys/fs/inode-nr", "/proc/sys/fs/inode-state", "d/proc/sys/fs/quota", "/proc/sys/kernel/pty/nr",
	"/proc/timer_list", "/proc/timer_stats", "/proc/vmallocinfo", "/proc/vmstat", "/proc/zoneinfo", NULL,
};

/* ---- files in the place of sysfs ---- */

int sysfiles_make(int dirfd, struct err *e)
{
	static const char *const dirs[] = { "devices", "devices/system", "devices/system/cpu", "fs", "fs/cgroup" };
	static const char *const files[] = { "online", "possible", "present" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(dirfd, dirs[i], 0755) < 0)
			return err_sys(e, "make /sys/%s", dirs[i]);
	for (i = 0; i < ARRAY_LEN(files); i++) {
		char path[64], text[256];
		autoclose int fd = -1;
		int n;

		snprintf(path, sizeof(path), "/sys/devices/system/cpu/%s", files[i]);
		n = cgroup_read(AT_FDCWD, path, text, sizeof(text));
		if (n < 0)
			continue;
		fd = openat(dirfd, path + strlen("/sys/"), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
		if (fd < 0 || io_write_all(fd, text, (size_t)n) < 0)
			return err_sys(e, "write %s of the sandbox", path);
	}
	return 0;
}
