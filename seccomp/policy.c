/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S6, S24, S56 of SECURITY.md. */
#include "seccomp/policy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/netlink.h>
#include <linux/fs.h>
#include <linux/prctl.h>
#include <linux/shm.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/mem.h"

#define NAMES(...) .names = (const char *const[]){ __VA_ARGS__, NULL }
#define VALUES(...) .count = sizeof((uint32_t[]){ __VA_ARGS__ }) / 4, .value = { __VA_ARGS__ }
#define LOW 0xffffffffU

#define ALLOW SECCOMP_RET_ALLOW
#define EPERM_ POLICY_ERRNO(EPERM)
#define ENOSYS_ POLICY_ERRNO(ENOSYS)
#define ENOMEM_ POLICY_ERRNO(ENOMEM)
#define EAFNOSUPPORT_ POLICY_ERRNO(EAFNOSUPPORT)

#define NOT_DEV (POLICY_STRICT | POLICY_STANDARD | POLICY_BUILDER)
#define NOT_STRICT (POLICY_STANDARD | POLICY_DEV | POLICY_INIT | POLICY_BUILDER)
#define NOT_BUILDER (POLICY_PAYLOADS | POLICY_INIT)
#define DEV_UP (POLICY_DEV | POLICY_INIT)

/* Kernel numbers that some libc headers lack or guard. */
enum {
	OPT_TCP_ULP = 31,
	OPT_ATTACH_FILTER = 26,
	OPT_ATTACH_BPF = 50,
	OPT_ATTACH_REUSEPORT_CBPF = 51,
	OPT_ATTACH_REUSEPORT_EBPF = 52,
	LEVEL_PACKET = 263,
	OPT_PACKET_FANOUT_DATA = 22,
	OPT_XTABLES_BASE = 64,		/* ip_tables 64, arp_tables 96, ebtables 128, mroute 200 */
	OPT_IP6TABLES_LAST = 65,	/* 66 to 78 are ordinary: IPV6_TCLASS is 67 */
	OPT_IPV6_PAST_ORDINARY = 79,
	IOCTL_TIOCSTI = 0x5412,
	IOCTL_TIOCLINUX = 0x541C,
	IOCTL_TIOCCONS = 0x541D,
	IOCTL_TIOCSETD = 0x5423,
	IOCTL_TUNATTACHFILTER = 0x401054d5,
	IOCTL_PPPIOCSACTIVE = 0x40107446,
	IOCTL_PPPIOCSPASS = 0x40107447,
	CMD_FUTEX_CMP_REQUEUE_PI = 12,
	CMD_FUTEX_WAIT_REQUEUE_PI = 11,
	/*
	 * NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.  CLONE_NEWTIME (0x80)
	 * lies in the exit-signal byte of clone(2), where it cannot ask for a namespace.
	 */
	FLAGS_NAMESPACES = 0x7E020000,
	/* As above without NEWNS, NEWUTS, NEWIPC, NEWPID, and with NEWTIME for unshare(2). */
	FLAGS_NO_STEP = 0x52000000,
	FLAG_NEWTIME = 0x80,
	TYPE_MASK = 0xf,		/* SOCK_CLOEXEC and SOCK_NONBLOCK lie above */
	PERSONA_NO_RANDOMIZE = 0x40000,
};

#define FAMILY(...) { .what = "family", .arg = 0, .op = POLICY_IN, .mask = LOW, VALUES(__VA_ARGS__) }
#define TYPE(...) { .what = "type", .arg = 1, .op = POLICY_IN, .mask = TYPE_MASK, VALUES(__VA_ARGS__) }
#define PROTOCOL(...) { .what = "protocol", .arg = 2, .op = POLICY_IN, .mask = LOW, VALUES(__VA_ARGS__) }
#define LEVEL(v) { .what = "level", .arg = 1, .op = POLICY_IN, .mask = LOW, VALUES(v) }
#define OPTION(...) { .what = "option", .arg = 2, .op = POLICY_IN, .mask = LOW, VALUES(__VA_ARGS__) }
#define OPTION_FROM(v) { .what = "option", .arg = 2, .op = POLICY_AT_LEAST, .mask = LOW, VALUES(v) }
#define PROT(bit) { .what = "prot", .arg = 2, .op = POLICY_ANY_BIT, .mask = (bit) }
#define DEVICE(n) { .what = "mode", .arg = (n), .op = POLICY_IN, .mask = S_IFMT, VALUES(S_IFCHR, S_IFBLK) }
#define PERSONA(...) { .what = "persona", .arg = 0, .op = POLICY_IN, .mask = LOW, VALUES(__VA_ARGS__) }
#define SET_ID(n) { .what = "mode", .arg = (n), .op = POLICY_ANY_BIT, .mask = S_ISUID | S_ISGID }
#define CREATES(n) { .what = "flags", .arg = (n), .op = POLICY_ANY_BIT, .mask = O_CREAT | (O_TMPFILE & ~O_DIRECTORY) }
#define FILE_TYPE(n) { .what = "mode", .arg = (n), .op = POLICY_IN, .mask = S_IFMT, \
		       VALUES(0, S_IFREG, S_IFIFO, S_IFSOCK) }

const struct policy_name policy_profiles[POLICY_PROFILE_COUNT] = {
	{ "strict", POLICY_STRICT },
	{ "standard", POLICY_STANDARD },
	{ "dev", POLICY_DEV },
	{ "init", POLICY_INIT },
	{ "nosetid", POLICY_NOSETID },
	{ "keeper", POLICY_KEEPER },
	{ "builder", POLICY_BUILDER },
};

const struct policy_rule policy_rules[] = {
	/* ---- filter a: decided by argument ------------------------------------- */
	{ NAMES("ioctl"), POLICY_ALL, 1, POLICY_ERRNO(EIO),
	  "K11 terminals: types into, hijacks or reprograms a terminal (CVE-2017-5226, CVE-2023-28100)",
	  { { "request", 1, POLICY_IN, .mask = LOW,
	      VALUES(IOCTL_TIOCSTI, IOCTL_TIOCLINUX, IOCTL_TIOCCONS, IOCTL_TIOCSETD) } } },
	{ NAMES("ioctl"), POLICY_ALL, 1, EPERM_, "K05 D11 filters of tun and ppp: compiled code that no memory limit counts",
	  { { "request", 1, POLICY_IN, .mask = LOW,
	      VALUES(IOCTL_TUNATTACHFILTER, IOCTL_PPPIOCSACTIVE, IOCTL_PPPIOCSPASS) } } },
	{ NAMES("ioctl"), POLICY_ALL, 0, ALLOW, "device and file control" },

	{ NAMES("setsockopt"), POLICY_ALL, 1, EPERM_, "K05 kTLS: 8 of 100 kernel bugs",
	  { LEVEL(IPPROTO_TCP), OPTION(OPT_TCP_ULP) } },
	{ NAMES("setsockopt"), POLICY_ALL, 1, EPERM_, "K05 ip_tables, arp_tables, ebtables, multicast routing",
	  { LEVEL(IPPROTO_IP), OPTION_FROM(OPT_XTABLES_BASE) } },
	{ NAMES("setsockopt"), POLICY_ALL, 1, EPERM_, "K05 ip6_tables",
	  { LEVEL(IPPROTO_IPV6), OPTION(OPT_XTABLES_BASE, OPT_IP6TABLES_LAST) } },
	{ NAMES("setsockopt"), POLICY_ALL, 1, EPERM_, "K05 ip6 multicast routing",
	  { LEVEL(IPPROTO_IPV6), OPTION_FROM(OPT_IPV6_PAST_ORDINARY) } },
	{ NAMES("setsockopt"), POLICY_ALL, 1, EPERM_,
	  "K05 K09 D11 programs on sockets: no memory limit counts their compiled code, and all of the host share bpf_jit_limit",
	  { LEVEL(SOL_SOCKET), OPTION(OPT_ATTACH_FILTER, OPT_ATTACH_BPF, OPT_ATTACH_REUSEPORT_CBPF,
				      OPT_ATTACH_REUSEPORT_EBPF) } },
	{ NAMES("setsockopt"), POLICY_ALL, 1, EPERM_, "K05 D11 the same for a packet socket from elsewhere",
	  { LEVEL(LEVEL_PACKET), OPTION(OPT_PACKET_FANOUT_DATA) } },
	{ NAMES("setsockopt"), POLICY_ALL, 0, ALLOW, "socket options" },

	{ NAMES("futex"), POLICY_ALL, 1, ENOSYS_, "K06 futex requeue-PI (CVE-2026-43499)",
	  { { "op", 1, POLICY_IN, .mask = 0x7f,
	      VALUES(CMD_FUTEX_WAIT_REQUEUE_PI, CMD_FUTEX_CMP_REQUEUE_PI) } } },
	{ NAMES("futex"), POLICY_ALL, 0, ALLOW, "threads" },

	{ NAMES("clone"), NOT_BUILDER, 1, EPERM_, "K01 namespaces: 58 of 100 kernel bugs need a nested one",
	  { { "flags", 0, POLICY_ANY_BIT, .mask = FLAGS_NAMESPACES } } },
	{ NAMES("clone"), POLICY_BUILDER, 1, EPERM_, "K01 namespaces other than the mount, pid, ipc and uts ones of a RUN",
	  { { "flags", 0, POLICY_ANY_BIT, .mask = FLAGS_NO_STEP } } },
	{ NAMES("clone"), POLICY_ALL, 0, ALLOW, "processes and threads" },
	/*
	 * It is in filter a although it has no test: its flags are in memory, out of a filter's
	 * reach.
	 */
	{ NAMES("clone3"), POLICY_INIT, 0, ALLOW, "init: CLONE_INTO_CGROUP for each command; it holds no capability to make namespaces" },
	{ NAMES("clone3"), POLICY_PAYLOADS | POLICY_BUILDER, 1, ENOSYS_, "K01 namespaces: flags cannot be filtered; libc falls back to clone" },

	{ NAMES("personality"), POLICY_ALL, 1, ALLOW, "query, PER_LINUX, PER_LINUX32, UNAME26",
	  { PERSONA(0, 8, 0x20000, 0x20008, LOW) } },
	{ NAMES("personality"), DEV_UP, 1, ALLOW, "dev: ADDR_NO_RANDOMIZE for debuggers",
	  { PERSONA(PERSONA_NO_RANDOMIZE, PERSONA_NO_RANDOMIZE | 8, PERSONA_NO_RANDOMIZE | 0x20000,
		    PERSONA_NO_RANDOMIZE | 0x20008) } },
	{ NAMES("personality"), POLICY_ALL, 1, EPERM_, "K09 rare execution domains, no address randomisation" },

	{ NAMES("mknod"), POLICY_ALL, 1, ALLOW, "regular files, FIFOs, sockets", { FILE_TYPE(1) } },
	{ NAMES("mknodat"), POLICY_ALL, 1, ALLOW, "regular files, FIFOs, sockets", { FILE_TYPE(2) } },
	{ NAMES("mknod"), POLICY_BUILDER, 1, ALLOW, "builder: whiteouts, which the kernel lets everybody make",
	  { { "mode", 1, POLICY_IN, .mask = S_IFMT, VALUES(S_IFCHR) }, { "dev", 2, POLICY_IN, .mask = LOW, VALUES(0) } } },
	{ NAMES("mknodat"), POLICY_BUILDER, 1, ALLOW, "builder: whiteouts, which the kernel lets everybody make",
	  { { "mode", 2, POLICY_IN, .mask = S_IFMT, VALUES(S_IFCHR) }, { "dev", 3, POLICY_IN, .mask = LOW, VALUES(0) } } },
	{ NAMES("mknod", "mknodat"), POLICY_ALL, 1, EPERM_, "K12 device nodes" },
	{ NAMES("renameat2"), NOT_BUILDER, 1, EPERM_, "K12 RENAME_WHITEOUT leaves a device node, 0:0, in the old name's place",
	  { { "flags", 4, POLICY_ANY_BIT, .mask = RENAME_WHITEOUT } } },
	{ NAMES("renameat2"), POLICY_ALL, 0, ALLOW, "names and directories" },

	{ NAMES("prctl"), POLICY_ALL, 1, EPERM_, "K09 rewrites the process's own memory map",
	  { { "option", 0, POLICY_IN, .mask = LOW, VALUES(PR_SET_MM) } } },
	{ NAMES("prctl"), POLICY_ALL, 0, ALLOW, "process attributes" },

	/* The answer of a kernel that does not know the flag, which libseccomp expects here. */
	{ NAMES("seccomp"), POLICY_ALL, 1, POLICY_ERRNO(EINVAL),
	  "D11 a listener keeps the filters of a task that has ended, as many as there are descriptors",
	  { { "op", 0, POLICY_IN, .mask = LOW, VALUES(SECCOMP_SET_MODE_FILTER) },
	    { "flags", 1, POLICY_ANY_BIT, .mask = SECCOMP_FILTER_FLAG_NEW_LISTENER } } },
	{ NAMES("seccomp"), POLICY_ALL, 0, ALLOW, "filters of its own on top" },

	{ NAMES("socket", "socketpair"), POLICY_ALL, 1, ALLOW, "unix sockets", { FAMILY(AF_UNIX) } },
	{ NAMES("socket", "socketpair"), NOT_STRICT, 1, ALLOW, "TCP",
	  { FAMILY(AF_INET, AF_INET6), TYPE(SOCK_STREAM), PROTOCOL(0, IPPROTO_TCP) } },
	{ NAMES("socket", "socketpair"), NOT_STRICT, 1, ALLOW, "UDP and unprivileged ping",
	  { FAMILY(AF_INET, AF_INET6), TYPE(SOCK_DGRAM),
	    PROTOCOL(0, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6) } },
	{ NAMES("socket", "socketpair"), NOT_STRICT, 1, ALLOW, "list interfaces, addresses and routes",
	  { FAMILY(AF_NETLINK), PROTOCOL(NETLINK_ROUTE) } },
	{ NAMES("socket"), NOT_STRICT, 1, EPERM_,
	  "K04 raw IP: as the kernel answers without the right, after which a ping takes a datagram",
	  { FAMILY(AF_INET, AF_INET6), TYPE(SOCK_RAW) } },
	{ NAMES("socket", "socketpair"), POLICY_ALL, 1, EAFNOSUPPORT_,
	  "K03 K04 ALG, PACKET, VSOCK, RXRPC, NETLINK_*, raw, SCTP, MPTCP and the like: modules loaded on demand" },

	/* ---- nosetid: a writable host directory keeps what is written there ------- */
	{ NAMES("chmod", "fchmod", "creat", "mkdir", "mknod"), POLICY_NOSETID, 1, EPERM_,
	  "K16 a set-id file on the host would outlive the sandbox", { SET_ID(1) } },
	{ NAMES("fchmodat", "fchmodat2", "mkdirat", "mknodat"), POLICY_NOSETID, 1, EPERM_,
	  "K16 a set-id file on the host would outlive the sandbox", { SET_ID(2) } },
	{ NAMES("open"), POLICY_NOSETID, 1, EPERM_, "K16 a set-id file on the host would outlive the sandbox",
	  { CREATES(1), SET_ID(2) } },
	{ NAMES("openat"), POLICY_NOSETID, 1, EPERM_, "K16 a set-id file on the host would outlive the sandbox",
	  { CREATES(2), SET_ID(3) } },
	{ NAMES("openat2"), POLICY_NOSETID, 1, ENOSYS_, "K16 its mode is in memory, out of a filter's reach" },

	/*
	 * ---- keeper: a process of berth's own on the host, which reads hostile bytes (S56).  Its children inherit it.
	 */
	{ NAMES("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load"),
	  POLICY_KEEPER, 1, EPERM_, "S56 replaces the kernel's code" },
	{ NAMES("iopl", "ioperm", "modify_ldt", "vm86", "vm86old"), POLICY_KEEPER, 1, EPERM_,
	  "S56 the machine's ports, and segments of 16 bits" },
	{ NAMES("swapon", "swapoff", "acct", "nfsservctl", "_sysctl", "uselib", "lookup_dcookie", "sysfs",
		"ustat"), POLICY_KEEPER, 1, EPERM_, "S56 the host's administration, and calls that nobody needs any more" },
	{ NAMES("settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "stime"), POLICY_KEEPER, 1, EPERM_,
	  "S56 the host's clock" },
	{ NAMES("reboot", "syslog", "quotactl", "sethostname", "setdomainname", "vhangup", "pivot_root",
		"personality"), POLICY_KEEPER, 1, EPERM_, "S56 the host's administration: no verb needs it" },
	{ NAMES("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd",
		"move_pages", "migrate_pages"), POLICY_KEEPER, 1, EPERM_,
	  "S56 another process's memory and descriptors; only the supervisors of zygotes trace" },
	{ NAMES("bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register",
		"add_key", "request_key", "keyctl", "fanotify_init", "fanotify_mark"), POLICY_KEEPER, 1, EPERM_,
	  "S56 where the kernel's bugs are; devices are settled before the keeper serves" },
	{ NAMES("open_by_handle_at", "name_to_handle_at"), POLICY_KEEPER, 1, EPERM_,
	  "S56 opens any file of a file system, past every directory" },
	{ NAMES("mknod"), POLICY_KEEPER, 1, EPERM_, "S56 a node is a device of the host", { DEVICE(1) } },
	{ NAMES("mknodat"), POLICY_KEEPER, 1, EPERM_, "S56 a node is a device of the host", { DEVICE(2) } },
	{ NAMES("mprotect", "pkey_mprotect"), POLICY_KEEPER, 1, EPERM_, "S56 no page becomes code",
	  { PROT(PROT_EXEC) } },
	{ NAMES("mmap"), POLICY_KEEPER, 1, EPERM_, "S56 no page becomes code", { PROT(PROT_WRITE), PROT(PROT_EXEC) } },
	{ NAMES("socket", "socketpair"), POLICY_KEEPER, 1, ALLOW, "clients, and the kernel's counters and networks",
	  { FAMILY(AF_UNIX, AF_NETLINK) } },
	{ NAMES("socket", "socketpair"), POLICY_KEEPER, 1, ALLOW, "berth-net and its peers",
	  { FAMILY(AF_INET, AF_INET6), TYPE(SOCK_STREAM, SOCK_DGRAM) } },
	{ NAMES("socket", "socketpair"), POLICY_KEEPER, 1, EAFNOSUPPORT_, "S56 packets as they are on the host's wires" },

	/* ---- filter b: denied, and why ------------------------------------------ */
	{ NAMES("io_setup"), NOT_DEV, 1, ENOSYS_, "K18 fs.aio-max-nr is one for the whole host; programs do without" },
	{ NAMES("mmap"), POLICY_PAYLOADS | POLICY_BUILDER, 1, ENOMEM_, "D02 huge pages that the host reserved are not counted as memory",
	  { { "flags", 3, POLICY_ANY_BIT, .mask = MAP_HUGETLB } } },
	{ NAMES("memfd_create"), POLICY_PAYLOADS | POLICY_BUILDER, 1, ENOMEM_, "D02 huge pages that the host reserved are not counted as memory",
	  { { "flags", 1, POLICY_ANY_BIT, .mask = MFD_HUGETLB } } },
	{ NAMES("shmget"), POLICY_PAYLOADS | POLICY_BUILDER, 1, ENOMEM_, "D02 huge pages that the host reserved are not counted as memory",
	  { { "shmflg", 2, POLICY_ANY_BIT, .mask = SHM_HUGETLB } } },
	{ NAMES("io_uring_setup", "io_uring_enter", "io_uring_register"), POLICY_ALL, 0, ENOSYS_,
	  "K02 io_uring: 10 of 100 kernel bugs, and it makes sockets past the filter" },
	{ NAMES("futex_requeue"), POLICY_ALL, 0, ENOSYS_, "K06 futex requeue-PI (CVE-2026-43499)" },
	{ NAMES("statmount", "listmount"), POLICY_ALL, 0, ENOSYS_, "K09 K15 mount details; libc falls back" },

	{ NAMES("unshare"), POLICY_BUILDER, 1, EPERM_, "K01 namespaces other than the mount, pid, ipc and uts ones of a RUN",
	  { { "flags", 0, POLICY_ANY_BIT, .mask = FLAGS_NO_STEP | FLAG_NEWTIME } } },
	{ NAMES("unshare"), POLICY_BUILDER, 0, ALLOW, "builder: unpacks layers and makes RUN's root in mount namespaces" },
	{ NAMES("mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen",
		"fsconfig", "fsmount", "fspick", "mount_setattr", "sethostname", "setdomainname"), POLICY_BUILDER, 0, ALLOW,
	  "builder: layers, and the root of a RUN, in its own user namespace" },
	{ NAMES("setns"), POLICY_ALL, 0, EPERM_, "K01 namespaces: 58 of 100 kernel bugs need a nested one" },
	{ NAMES("unshare"), NOT_BUILDER, 0, EPERM_, "K01 namespaces: 58 of 100 kernel bugs need a nested one" },
	{ NAMES("mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen",
		"fsconfig", "fsmount", "fspick", "mount_setattr"), NOT_BUILDER, 0, EPERM_,
	  "K01 mounts: CVE-2022-0185, CVE-2021-33909" },
	{ NAMES("keyctl", "add_key", "request_key"), POLICY_ALL, 0, EPERM_,
	  "K08 keyrings are not namespaced (CVE-2016-0728)" },
	{ NAMES("ptrace", "process_vm_readv", "process_vm_writev", "kcmp"), DEV_UP, 0, ALLOW,
	  "dev: debuggers and tracers of the sandbox's own processes" },
	{ NAMES("ptrace", "process_vm_readv", "process_vm_writev", "kcmp"), NOT_DEV, 0, EPERM_,
	  "K09 reads and steers other processes (CVE-2019-13272); profile dev allows it" },
	{ NAMES("pidfd_getfd", "process_madvise"), POLICY_ALL, 0, EPERM_, "K09 reaches into other processes" },
	{ NAMES("bpf", "perf_event_open", "userfaultfd"), POLICY_ALL, 0, EPERM_,
	  "K09 favourite tools and targets of kernel exploits" },
	{ NAMES("init_module", "finit_module", "delete_module", "create_module", "query_module",
		"get_kernel_syms", "kexec_load", "kexec_file_load", "reboot"), POLICY_ALL, 0, EPERM_,
	  "K09 modules and kernels" },
	{ NAMES("swapon", "swapoff", "quotactl", "quotactl_fd", "acct", "syslog", "vhangup"),
	  POLICY_ALL, 0, EPERM_, "K09 host administration" },
	{ NAMES("adjtimex", "clock_adjtime", "clock_settime", "settimeofday"), POLICY_ALL, 0, EPERM_,
	  "K14 the host's clock" },
	{ NAMES("sethostname", "setdomainname"), NOT_BUILDER, 0, EPERM_, "K14 set by berth before the start" },
	{ NAMES("name_to_handle_at", "open_by_handle_at"), POLICY_ALL, 0, EPERM_,
	  "K09 opens files by number, past the root directory (Shocker)" },
	{ NAMES("fanotify_init", "fanotify_mark", "lookup_dcookie"), POLICY_ALL, 0, EPERM_,
	  "K09 watches whole filesystems" },
	{ NAMES("lsm_get_self_attr", "lsm_set_self_attr", "lsm_list_modules"), POLICY_ALL, 0, EPERM_,
	  "K09 new and rarely used" },
	{ NAMES("memfd_secret", "map_shadow_stack", "remap_file_pages", "modify_ldt"),
	  POLICY_ALL, 0, EPERM_, "K09 rare memory interfaces" },
	{ NAMES("mbind", "get_mempolicy", "set_mempolicy", "set_mempolicy_home_node",
		"migrate_pages", "move_pages"), POLICY_ALL, 0, EPERM_, "K09 NUMA placement, a source of bugs" },
	{ NAMES("vmsplice"), POLICY_ALL, 0, EPERM_, "K07 page-cache writes (Dirty Pipe and its kin)" },
	{ NAMES("splice", "tee"), POLICY_STRICT, 0, EPERM_, "K07 page-cache writes (CVE-2022-0847, CVE-2026-31431)" },
	{ NAMES("splice", "tee"), NOT_STRICT, 0, ALLOW, "copies between pipes and files" },
	{ NAMES("ioperm", "iopl"), POLICY_ALL, 0, EPERM_, "K09 I/O ports" },
	{ NAMES("_sysctl", "afs_syscall", "getpmsg", "nfsservctl", "putpmsg", "security", "sysfs",
		"tuxcall", "uselib", "ustat", "vserver"), POLICY_ALL, 0, EPERM_, "K09 obsolete" },

	/* ---- filter b: allowed --------------------------------------------------- */
	{ NAMES("read", "write", "readv", "writev", "pread64", "pwrite64", "preadv", "pwritev", "preadv2",
		"pwritev2", "sendfile", "copy_file_range", "lseek", "readahead", "fadvise64",
		"fallocate", "ftruncate", "truncate", "fsync", "fdatasync", "sync", "syncfs",
		"sync_file_range", "cachestat", "flock", "fcntl", "dup", "dup2", "dup3", "pipe", "pipe2",
		"close", "close_range"), POLICY_ALL, 0, ALLOW, "file input and output" },
	{ NAMES("open", "openat", "openat2", "creat", "access", "faccessat", "faccessat2", "stat", "lstat",
		"fstat", "newfstatat", "statx", "statfs", "fstatfs", "getcwd", "chdir", "fchdir",
		"mkdir", "mkdirat", "rmdir", "rename", "renameat", "link", "linkat",
		"symlink", "symlinkat", "readlink", "readlinkat", "unlink", "unlinkat", "getdents",
		"getdents64", "umask"), POLICY_ALL, 0, ALLOW, "names and directories" },
	{ NAMES("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat",
		"utime", "utimes", "utimensat", "futimesat", "getxattr", "lgetxattr", "fgetxattr",
		"getxattrat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "listxattr",
		"llistxattr", "flistxattr", "listxattrat", "removexattr", "lremovexattr",
		"fremovexattr", "removexattrat"), POLICY_ALL, 0, ALLOW, "file attributes" },
	{ NAMES("poll", "ppoll", "select", "pselect6", "epoll_create", "epoll_create1", "epoll_ctl",
		"epoll_ctl_old", "epoll_wait", "epoll_wait_old", "epoll_pwait", "epoll_pwait2",
		"eventfd", "eventfd2", "signalfd", "signalfd4", "inotify_init", "inotify_init1",
		"inotify_add_watch", "inotify_rm_watch"), POLICY_ALL, 0, ALLOW, "waiting for events" },
	{ NAMES("io_setup", "io_destroy", "io_submit", "io_cancel", "io_getevents", "io_pgetevents"),
	  DEV_UP, 0, ALLOW, "dev: Linux asynchronous I/O, used by databases" },
	{ NAMES("brk", "mmap", "munmap", "mremap", "mprotect", "msync", "madvise", "mincore", "mlock",
		"mlock2", "munlock", "mlockall", "munlockall", "mseal", "memfd_create", "membarrier",
		"pkey_alloc", "pkey_free", "pkey_mprotect"), POLICY_ALL, 0, ALLOW, "the process's own memory" },
	{ NAMES("fork", "vfork", "execve", "execveat", "exit", "exit_group", "wait4", "waitid", "getpid",
		"getppid", "gettid", "getpgid", "getpgrp", "getsid", "setpgid", "setsid", "pidfd_open",
		"set_tid_address", "arch_prctl", "set_thread_area", "get_thread_area",
		"get_robust_list", "set_robust_list", "rseq", "futex_wait", "futex_wake",
		"futex_waitv", "restart_syscall"), POLICY_ALL, 0, ALLOW, "processes and threads" },
	{ NAMES("kill", "tkill", "tgkill", "pidfd_send_signal", "process_mrelease", "pause", "alarm",
		"rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
		"rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "sigaltstack"),
	  POLICY_ALL, 0, ALLOW, "signals, within the pid namespace" },
	/*
	 * Probes call them from the traced program, since Linux 6.18 and 6.11; denied, that program
	 * dies.  From 6.18 and 6.14 on the kernel asks no filter.
	 */
	{ NAMES("uprobe", "uretprobe"), POLICY_ALL, 0, ALLOW, "a traced function's call and return; refuse other callers themselves" },
	{ NAMES("getuid", "geteuid", "getgid", "getegid", "getresuid", "getresgid", "getgroups", "setuid",
		"setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid",
		"setgroups", "capget", "capset", "landlock_create_ruleset",
		"landlock_add_rule", "landlock_restrict_self"), POLICY_ALL, 0, ALLOW,
	  "identity within the user namespace, and laying rights down" },
	{ NAMES("time", "gettimeofday", "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep",
		"times", "getitimer", "setitimer", "timer_create", "timer_delete", "timer_getoverrun",
		"timer_gettime", "timer_settime", "timerfd_create", "timerfd_gettime",
		"timerfd_settime"), POLICY_ALL, 0, ALLOW, "time and timers" },
	{ NAMES("getpriority", "setpriority", "ioprio_get", "ioprio_set", "sched_yield",
		"sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity",
		"sched_setaffinity", "sched_getattr", "sched_setattr", "sched_getparam",
		"sched_setparam", "sched_getscheduler", "sched_setscheduler",
		"sched_rr_get_interval", "getcpu", "getrlimit", "setrlimit", "prlimit64", "getrusage",
		"sysinfo", "uname", "getrandom"), POLICY_ALL, 0, ALLOW, "scheduling, limits, facts about the system" },
	{ NAMES("bind", "connect", "listen", "accept", "accept4", "shutdown", "getsockname", "getpeername",
		"getsockopt", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg", "recvmmsg"),
	  POLICY_ALL, 0, ALLOW, "sockets, of the families socket lets through" },
	{ NAMES("shmget", "shmat", "shmdt", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget",
		"msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink", "mq_timedsend",
		"mq_timedreceive", "mq_notify", "mq_getsetattr"), POLICY_ALL, 0, ALLOW,
	  "IPC, within the ipc namespace" },
};

const size_t policy_rule_count = ARRAY_LEN(policy_rules);

static int test_text(const struct policy_test *t, struct buf *b, struct err *e)
{
	unsigned i;

	if (buf_adds(b, t->what, e) < 0)
		return -1;
	if (t->op == POLICY_ANY_BIT)
		return buf_addf(b, e, " has any bit of 0x%x", t->mask);
	if (t->mask != LOW && buf_addf(b, e, " & 0x%x", t->mask) < 0)
		return -1;
	if (t->op == POLICY_AT_LEAST)
		return buf_addf(b, e, " >= %u", t->value[0]);
	for (i = 0; i < t->count; i++)
		if (buf_addf(b, e, t->value[i] < 300 ? "%s%u" : "%s0x%x",
			     i ? " or " : " is ", t->value[i]) < 0)
			return -1;
	return 0;
}

int policy_condition(const struct policy_rule *r, struct buf *b, struct err *e)
{
	unsigned i;

	for (i = 0; i < POLICY_TEST_MAX && r->test[i].what; i++) {
		if (i && buf_adds(b, ", ", e) < 0)
			return -1;
		if (test_text(&r->test[i], b, e) < 0)
			return -1;
	}
	return 0;
}

const char *policy_action(uint32_t action)
{
	switch (action & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
		return "allow";
	case SECCOMP_RET_ERRNO:
		return strerrorname_np((int)(action & SECCOMP_RET_DATA));
	case SECCOMP_RET_KILL_PROCESS:
		return "kill";
	}
	return NULL;
}
