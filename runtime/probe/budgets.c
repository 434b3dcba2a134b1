/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/probe/budgets.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/sandbox/filterwatch.h"

#define FILE_BYTES 256	/* bytes of memory that an open file takes at least (struct file, its slot in the
			 * table) */
#define PTYS 64		/* max= of the sandbox's devpts */
#define PAGE 4096

static uint64_t bounded_product(uint64_t a, uint64_t b)
{
	return a && b > BUDGET_UNLIMITED / a ? BUDGET_UNLIMITED : a * b;
}

static uint64_t jit(const struct budget_limits *l)
{
	uint64_t by_tasks = bounded_product(l->pids, FILTERWATCH_TASK_BYTES);

	return by_tasks < l->filter_bytes ? by_tasks : l->filter_bytes;
}

static uint64_t files(const struct budget_limits *l)
{
	uint64_t by_tasks = bounded_product(l->pids, l->files), by_memory = l->memory_bytes / FILE_BYTES;

	return by_tasks < by_memory ? by_tasks : by_memory;
}

static uint64_t flows(const struct budget_limits *l)
{
	return l->flows;
}

/*
 * Returns the use on a bridge: 32 fragments at once and 3 a second, for the 60 s that they wait
 * (ruleset.c).
 */
static uint64_t parts(const struct budget_limits *l)
{
	return l->flows ? (32 + 3 * 60) * 4608 : 0;
}

static uint64_t pids(const struct budget_limits *l)
{
	return l->pids;
}

static uint64_t ptys(const struct budget_limits *l)
{
	return bounded_product(l->sandboxes, PTYS);
}

static uint64_t budget_one_each(const struct budget_limits *l)
{
	return l->sandboxes;
}

static uint64_t none(const struct budget_limits *l)
{
	(void)l;
	return 0;
}

static uint64_t budget_of_memory(const struct budget_limits *l)
{
	return l->memory_bytes;
}

static uint64_t disk(const struct budget_limits *l)
{
	return l->disk_bytes;
}

static uint64_t memory_pages(const struct budget_limits *l)
{
	return l->memory_bytes / PAGE;
}

#define HERE "tests/attack/test_budgets.py"
#define K18 "tests/attack/test_kernel.py (K18)"
#define PROBE "tests/attack/test_probe.py"
#define LIMITS "tests/attack/test_limits.py"

const struct budget budgets[] = {
	{ "compiled filters", BUDGET_BOUNDED, "net/core/bpf_jit_limit",
	  jit, "the sandbox's supervisor, each load as the largest there is",
	  "programs on sockets and filters with a listener are refused; filters of a "
	  "sandbox's own, while a process holds them, are 1/64 of the limit, then seccomp(2) "
	  "says ENOMEM",
	  HERE " (D11)" },
	{ "open files", BUDGET_BOUNDED, "fs/file-max",
	  files, "memory of the sandbox, and each process's own limit",
	  "the hard limit of open files times --pids, and 256 bytes of memory each", HERE " (D14)" },
	{ "processes", BUDGET_BOUNDED, "kernel/pid_max kernel/threads-max",
	  pids, "the sandbox's pids cgroup",
	  "--pids", LIMITS " (D01)" },
	{ "terminals", BUDGET_BOUNDED, "kernel/pty/max kernel/pty/reserve",
	  ptys, "the sandbox's devpts",
	  "max=64 of its mount", HERE " (S24)" },
	{ "user namespaces", BUDGET_BOUNDED, "user/max_user_namespaces",
	  budget_one_each, "the sandbox's own uid",
	  "each sandbox is one, and can make none", K18 },
	{ "other namespaces", BUDGET_BOUNDED, "user/max_mnt_namespaces user/max_*_namespaces",
	  budget_one_each, "the sandbox's own uid",
	  "each sandbox has one of a kind, and can make none", K18 },
	{ "loop devices", BUDGET_BOUNDED, "", budget_one_each, "[manager] max_sandboxes",
	  "one, for a writable layer that is a file", HERE " (S24)" },
	{ "dentries and inodes", BUDGET_BOUNDED, "", budget_of_memory, "memory of the sandbox (kmem)",
	  "--memory; fs/dentry-state and fs/inode-nr only count", LIMITS " (D02)" },
	{ "page cache to be written", BUDGET_OPEN, "",
	  disk, "memory of the sandbox; on cgroup v2 write-back too",
	  "vm.dirty_ratio is one for the host: on v1 a sandbox that writes its whole --disk makes "
	  "other writers wait",
	  "" },
	{ "socket memory", BUDGET_BOUNDED, "net/ipv4/tcp_mem net/ipv4/udp_mem",
	  memory_pages, "memory of the sandbox",
	  "--memory, on cgroup v1 once more the same", LIMITS " (D02)" },
	{ "netlink sockets", BUDGET_OPEN, "", NULL, "memory of the sandbox, 1.3 KiB each",
	  "many that ask for notices slow those of the whole machine; profile strict has none",
	  HERE " (S24)" },
	{ "connections followed", BUDGET_BOUNDED, "net/netfilter/nf_conntrack_max "
	  "net/nf_conntrack_max",
	  flows, "nftables, per sandbox",
	  "none without a bridge; with one 4,096, or a sixteenth of the table (S29)",
	  "tests/attack/test_network_bridge.py (D12)" },
	{ "packet fragments", BUDGET_BOUNDED, "net/ipv4/ipfrag_high_thresh "
	  "net/ipv6/ip6frag_high_thresh net/netfilter/nf_conntrack_frag6_high_thresh",
	  parts, "nftables, per bridge",
	  "none without a bridge; with one 32 at once and 3 a second in each family, for all of "
	  "its sandboxes together",
	  "tests/attack/test_network_ipv6.py (D12)" },
	{ "neighbours", BUDGET_BOUNDED, "net/ipv4/neigh/default/gc_thresh3 "
	  "net/ipv6/neigh/default/gc_thresh3",
	  budget_one_each, "the kernel, for all network namespaces",
	  "its gateway: on a bridge its addresses are /32 and /128, and the entry is a fixed one",
	  "tests/attack/test_network_bridge.py (S20)" },
	{ "orphaned connections", BUDGET_BOUNDED, "net/ipv4/tcp_max_orphans",
	  NULL, "the kernel, for all network namespaces",
	  "they hold socket memory of the sandbox, and end with its network namespace",
	  LIMITS " (D02)" },
	{ "asynchronous I/O", BUDGET_UNREACHABLE, "fs/aio-max-nr", none, "nobody but this limit",
	  "io_setup(2) is refused but in profile dev", K18 },
	{ "keys", BUDGET_UNREACHABLE, "kernel/keys/*", none, "the sandbox's uid",
	  "keyctl(2), add_key(2) and request_key(2) are refused",
	  "tests/attack/test_kernel.py (K08)" },
	{ "audit records", BUDGET_UNREACHABLE, "kernel/printk_ratelimit "
	  "kernel/printk_ratelimit_burst kernel/seccomp/actions_logged",
	  none, "the kernel's rate limit",
	  "NETLINK_AUDIT is refused and berth's filters log nothing; a filter of the payload's own "
	  "may log, at the rate that is set here", "tests/attack/test_kernel.py (K04)" },
	{ "performance counters", BUDGET_UNREACHABLE, "kernel/perf_*", none, "the user",
	  "perf_event_open(2) is refused", PROBE },
	{ "fanotify", BUDGET_UNREACHABLE, "fs/fanotify/* user/max_fanotify_*", none, "the user",
	  "fanotify_init(2) is refused", PROBE },
	{ "io_uring, BPF, userfaultfd", BUDGET_UNREACHABLE, "kernel/io_uring_* "
	  "kernel/unprivileged_bpf_disabled kernel/bpf_stats_enabled "
	  "fs/fuse/*", none, "-", "the calls, and /dev/fuse, are not there", PROBE },
	{ "inotify", BUDGET_IRRELEVANT, "user/max_inotify_* fs/inotify/*",
	  NULL, "the sandbox's own uid",
	  "no other user has that uid (S23)", K18 },
	{ "of the sandbox's own user", BUDGET_IRRELEVANT, "fs/epoll/* fs/pipe-* fs/mqueue/*",
	  NULL, "the sandbox's own uid",
	  "no other user has that uid (S23)", K18 },
	{ "of its ipc namespace", BUDGET_IRRELEVANT, "kernel/sem* kernel/shm* kernel/msg* "
	  "kernel/auto_msgmni",
	  NULL, "the sandbox's ipc namespace",
	  "and its memory", LIMITS " (D02)" },
	{ "of its mount namespace", BUDGET_IRRELEVANT, "fs/mount-max",
	  NULL, "the sandbox's mount namespace",
	  "it can mount nothing",
	  "tests/attack/test_kernel.py (K21)" },
	{ "of its network namespace", BUDGET_IRRELEVANT, "net/ipv4/* net/ipv6/* net/unix/* "
	  "net/mptcp/* net/netfilter/* net/bridge/* "
	  "net/sctp/* net/core/somaxconn net/core/*mem_* net/core/optmem_max net/core/txrehash "
	  "net/core/xfrm_*", NULL,
	  "the sandbox's network namespace, or each socket",
	  "what of these is one for all has a row above",
	  "tests/attack/test_kernel.py (K20)" },
	{ "settings of the host's network",
	  BUDGET_IRRELEVANT, "net/core/bpf_jit_* net/core/busy_* net/core/default_qdisc "
	  "net/core/dev* "
	  "net/core/fb_tunnels_only_for_init_net net/core/flow_limit_* net/core/gro_normal_batch "
	  "net/core/high_order_alloc_disable "
	  "net/core/max_skb_frags net/core/message_* net/core/netdev_* net/core/rps_* "
	  "net/core/skb_defer_max net/core/tstamp_* "
	  "net/core/warnings net/vsock/* net/rds/* net/tipc/* net/llc/* net/appletalk/* net/ax25/* "
	  "net/x25/* net/smc/* net/ieee802154/* net/dccp/*",
	  NULL, "-", "how packets are handled; families that no sandbox has", PROBE },
	{ "the most that a limit may be",
	  BUDGET_IRRELEVANT, "fs/nr_open kernel/ngroups_max kernel/cap_last_cap "
	  "kernel/max_lock_depth", NULL, "each process",
	  "an upper bound of a limit that sandboxes have", "" },
	{ "counters", BUDGET_IRRELEVANT, "fs/*-nr fs/*-state fs/quota/* fs/dentry-negative "
	  "kernel/pty/nr kernel/ns_last_pid kernel/hung_task_* "
	  "kernel/tainted kernel/random/* kernel/version kernel/os* kernel/arch kernel/bootloader_* "
	  "kernel/seccomp/actions_avail", NULL, "-",
	  "no limits: they tell", "tests/attack/test_kernel.py (K23)" },
	{ "settings of file systems", BUDGET_IRRELEVANT, "fs/binfmt_misc/* fs/dir-notify-enable "
	  "fs/lease* fs/overflow* fs/protected_* fs/suid_dumpable "
	  "fs/xfs/* fs/nfs/* fs/cifs/* fs/ntfs/* fs/verity/*", NULL, "-",
	  "no limits: what is allowed and how it works", "tests/attack/test_kernel.py (K14)" },
	{ "settings of the kernel", BUDGET_IRRELEVANT, "kernel/acct kernel/acpi_* kernel/apparmor_* "
	  "kernel/cad_pid kernel/core_* kernel/ctrl-alt-del "
	  "kernel/dmesg_restrict kernel/domainname kernel/firmware_config/* kernel/ftrace_* "
	  "kernel/hardlockup_* kernel/hostname "
	  "kernel/hotplug kernel/init_private* kernel/io_delay_type kernel/kexec_* "
	  "kernel/kptr_restrict kernel/latencytop "
	  "kernel/max_rcu_stall_to_panic kernel/modprobe kernel/modules_disabled kernel/nmi_watchdog "
	  "kernel/numa_* kernel/oops_* "
	  "kernel/overflow* kernel/panic* kernel/poweroff_cmd kernel/print-fatal-signals "
	  "kernel/printk kernel/printk_delay "
	  "kernel/printk_devkmsg kernel/randomize_va_space kernel/real-root-dev kernel/sched_* "
	  "kernel/sg-big-buff kernel/soft* "
	  "kernel/spl/* kernel/stack_erasing kernel/split_lock_mitigate kernel/stack_tracer_enabled "
	  "kernel/sysctl_writes_strict kernel/sysrq "
	  "kernel/task_delayacct kernel/timer_migration kernel/traceoff_on_warning "
	  "kernel/tracepoint_printk "
	  "kernel/unknown_nmi_panic kernel/unprivileged_userns_* kernel/user_events_max "
	  "kernel/usermodehelper/* kernel/warn_limit "
	  "kernel/watchdog* kernel/yama/* kernel/ignore-unaligned-usertrap kernel/unaligned-trap",
	  NULL, "-",
	  "no limits: what is allowed and how it works", "tests/attack/test_kernel.py (K14)" },
};
const size_t budget_count = ARRAY_LEN(budgets);

const char *budget_kind_name(enum budget_kind k)
{
	static const char *const names[] = { [BUDGET_BOUNDED] = "bounded",
					     [BUDGET_OVERCOMMITTED] = "overcommitted",
					     [BUDGET_OPEN] = "open",
					     [BUDGET_UNREACHABLE] = "unreachable",
	  [BUDGET_IRRELEVANT] = "irrelevant" };

	return names[k];
}

uint64_t budgets_filter_bytes(void)
{
	return filterwatch_max(filterwatch_jit_limit()) * (uint64_t)FILTERWATCH_LOAD_BYTES;
}

uint64_t budgets_knob(const struct budget *b)
{
	size_t n = strcspn(b->knobs, " ");
	const char *last;
	char path[128], text[128];

	snprintf(path, sizeof(path), "/proc/sys/%.*s", (int)n, b->knobs);
	if (!n || cgroup_read(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return 0;
	text[strcspn(text, "\n")] = '\0';
	/* of three, as in tcp_mem, the last is the limit */
	last = strrchr(text, '\t');
	return strtoull(last ? last + 1 : text, NULL, 10);
}

uint64_t budgets_share(uint64_t takes, uint64_t host)
{
	if (!host || takes == BUDGET_UNLIMITED)
		return BUDGET_UNLIMITED;
	return (uint64_t)((long double)takes * 10000 / (long double)host);
}
