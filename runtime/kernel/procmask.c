/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/procmask.h"

#include <stddef.h>

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
