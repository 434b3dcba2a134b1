/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe - 147 forbidden things, tried from inside a sandbox.
 *
 *	probe [--host NAME=INODE]... [ID...]
 *
 * Knows nothing of berth: it asks the kernel.  One line a check,
 * "ID name blocked|OPEN|n/a detail", then "extra B/A" for checks that are
 * beyond the 147, and last "score B/A": blocked of applicable.  With IDs it
 * runs these alone.  --host gives the inode of the caller's namespaces
 * (user=4026531837 ...): without it an N row has nothing to compare with, n/a.
 *
 * Rows (SECURITY-NOTES 4.1): N namespaces 12, C capabilities 18, B privilege
 * bits 6, S syscalls 51, A other ABIs 2, K sockets 27, F files 26, R resources 5.
 * R01 kills the whole sandbox where it is blocked (memory.oom.group), so it runs
 * only when named; elsewhere it is n/a.  X rows are the extra ones.
 *
 * When is it blocked?  A check either wants an effect (a namespace, a node, an
 * open file) and is OPEN when it got it, or wants to reach the kernel's code behind
 * a system call and is OPEN unless the answer is one that a filter or a missing
 * capability gives: then it uses arguments that can do no harm even for root on
 * the host (bad pointers, absent paths, unknown flags).
 *
 * Each check is a child process: SIGSYS or any other death is "blocked".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <syscall.h>
#include <termios.h>
#include <unistd.h>

enum verdict { DIED, BLOCKED, OPEN, NOT_APPLICABLE };

struct answer {
	enum verdict verdict;
	char detail[120];
};

struct check {
	const char *id;
	const char *name;
	void (*fn)(long arg);
	long arg;
	const char *path;
};

static struct answer *answer;		/* shared with the child */
static const struct check *self;	/* the one that runs */
static struct { const char *name; unsigned long inode; } host_ns[16];

/* ---- saying what was found, in the child ---------------------------------- */

__attribute__((format(printf, 2, 3), noreturn)) static void say(enum verdict v, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(answer->detail, sizeof(answer->detail), fmt, ap);
	va_end(ap);
	answer->verdict = v;
	_exit(0);
}

static const char *errname(int e)
{
	const char *name = strerrorname_np(e);

	return name ? name : "?";
}

/* OPEN when the call succeeded. */
__attribute__((noreturn)) static void effect(long r)
{
	if (r >= 0)
		say(OPEN, "succeeded");
	say(BLOCKED, "%s", errname(errno));
}

/* OPEN when the kernel's own code answered: anything but a refusal. */
__attribute__((noreturn)) static void reach(long r)
{
	if (r >= 0)
		say(OPEN, "succeeded");
	if (errno == EPERM || errno == EACCES || errno == ENOSYS)
		say(BLOCKED, "%s", errname(errno));
	say(OPEN, "reached: %s", errname(errno));
}

/* A line "Key:\tvalue" of /proc/self/status; 0 when absent. */
static int status_line(const char *key, char *value, size_t size)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[512];
	size_t n = strlen(key);

	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, n) == 0 && line[n] == ':') {
			snprintf(value, size, "%s", line + n + 1 + strspn(line + n + 1, " \t"));
			value[strcspn(value, "\n")] = 0;
			fclose(f);
			return 1;
		}
	}
	if (f)
		fclose(f);
	return 0;
}

static unsigned long long status_hex(const char *key)
{
	char v[64];

	if (!status_line(key, v, sizeof(v)))
		say(NOT_APPLICABLE, "no %s in /proc/self/status", key);
	return strtoull(v, NULL, 16);
}

/* ---- N: namespaces --------------------------------------------------------- */

static void check_ns(long unused)
{
	char path[64];
	struct stat st;

	(void)unused;
	snprintf(path, sizeof(path), "/proc/self/ns/%s", self->path);
	for (int i = 0; host_ns[i].name; i++) {
		if (strcmp(host_ns[i].name, self->path) != 0)
			continue;
		if (stat(path, &st))
			say(BLOCKED, "%s: %s", path, errname(errno));
		if (st.st_ino == host_ns[i].inode)
			say(OPEN, "the host's: %lu", (unsigned long)st.st_ino);
		say(BLOCKED, "%lu", (unsigned long)st.st_ino);
	}
	say(NOT_APPLICABLE, "the host's inode was not given");
}

/* No id of ours is the host's id 0, in uid_map or gid_map. */
static void check_idmap(long unused)
{
	FILE *f = fopen(self->path, "re");
	unsigned long in, out, n;
	int lines = 0;

	(void)unused;
	if (!f)
		say(NOT_APPLICABLE, "%s: %s", self->path, errname(errno));
	while (fscanf(f, "%lu %lu %lu", &in, &out, &n) == 3) {
		lines++;
		if (out == 0)
			say(OPEN, "%lu %lu %lu", in, out, n);
	}
	say(lines ? BLOCKED : OPEN, "%d ranges, last %lu %lu %lu", lines, in, out, n);
}

static void check_pids(long unused)
{
	char comm[64] = "";
	int fd = open("/proc/1/comm", O_RDONLY | O_CLOEXEC);

	(void)unused;
	if (fd >= 0 && read(fd, comm, sizeof(comm) - 1) < 0)
		comm[0] = 0;
	comm[strcspn(comm, "\n")] = 0;
	/* the machine's own kernel threads are children of pid 2 */
	if (access("/proc/2/comm", F_OK) == 0) {
		char link[64];

		if (readlink("/proc/2/exe", link, sizeof(link)) < 0 && errno == ENOENT)
			say(OPEN, "kernel threads are visible; pid 1 is %s", comm);
	}
	say(BLOCKED, "pid 1 is %s", comm[0] ? comm : "hidden");
}

static void check_interfaces(long unused)
{
	struct if_nameindex *list = if_nameindex();
	char others[64] = "";

	(void)unused;
	for (struct if_nameindex *i = list; i && i->if_index; i++) {
		if (strcmp(i->if_name, "lo") != 0)
			snprintf(others, sizeof(others), "%.30s", i->if_name);
	}
	if (!list) {
		FILE *f = fopen("/proc/net/dev", "re");
		char line[256];

		while (f && fgets(line, sizeof(line), f)) {
			if (strchr(line, ':') && !strstr(line, "lo:"))
				snprintf(others, sizeof(others), "%.30s", line);
		}
	}
	say(others[0] ? OPEN : BLOCKED, "%s", others[0] ? others : "lo alone");
}

static void check_propagation(long unused)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;

	(void)unused;
	if (!f)
		say(BLOCKED, "no mountinfo");
	while (getline(&line, &size, f) > 0) {
		if (strstr(line, " shared:") || strstr(line, " master:"))
			say(OPEN, "%.100s", line);
	}
	say(BLOCKED, "no shared or slave mount");
}

/* ---- C, B: capabilities and privilege bits --------------------------------- */

static void check_cap(long cap)
{
	unsigned long long set = status_hex("CapBnd") | status_hex("CapEff") | status_hex("CapPrm");

	say(set >> cap & 1 ? OPEN : BLOCKED, "bounding set %016llx", status_hex("CapBnd"));
}

static void check_nnp(long unused)
{
	(void)unused;
	int r = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);

	say(r == 1 ? BLOCKED : OPEN, "no_new_privs %d", r);
}

static void check_seccomp_mode(long unused)
{
	char v[32] = "absent";

	(void)unused;
	status_line("Seccomp", v, sizeof(v));
	say(strcmp(v, "2") == 0 ? BLOCKED : OPEN, "Seccomp %s", v);
}

static void check_inherited_caps(long unused)
{
	(void)unused;
	unsigned long long inh = status_hex("CapInh"), amb = status_hex("CapAmb");

	say(inh | amb ? OPEN : BLOCKED, "CapInh %llx CapAmb %llx", inh, amb);
}

/*
 * A setuid copy of ourselves, run by another uid, does not change its euid.
 * Told by execution, since nosuid and no_new_privs both stop it.
 */
static void check_setuid(long unused)
{
	static const char *const dirs[] = { "/tmp", "/var/tmp", "/workspace", "/dev/shm", "/run", "/", NULL };
	int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), made = 0;

	(void)unused;
	if (in < 0)
		say(NOT_APPLICABLE, "/proc/self/exe: %s", errname(errno));
	for (int i = 0; dirs[i]; i++) {
		char path[64], buf[65536];
		ssize_t n;
		int out, status;

		snprintf(path, sizeof(path), "%s/.probe-suid-%d", dirs[i], getpid());
		out = open(path, O_CREAT | O_EXCL | O_WRONLY, 0755);
		if (out < 0)
			continue;
		lseek(in, 0, SEEK_SET);
		while ((n = read(in, buf, sizeof(buf))) > 0 && write(out, buf, (size_t)n) == n)
			;
		if (fchmod(out, 04755)) {
			close(out);
			unlink(path);
			continue;
		}
		close(out);
		made++;
		pid_t pid = fork();
		if (pid == 0) {
			/* as root, become another uid, so that the bit has something to give */
			if (geteuid() == 0 && setresuid(1, 1, 1))
				_exit(98);
			execl(path, path, "--euid", (char *)NULL);
			_exit(99);
		}
		waitpid(pid, &status, 0);
		unlink(path);
		/* --euid ends with 50 + (euid != uid) */
		if (WIFEXITED(status) && WEXITSTATUS(status) == 51)
			say(OPEN, "%s changed the euid", path);
	}
	say(made ? BLOCKED : NOT_APPLICABLE, "%d setuid copies gave nothing", made);
}

static void check_root_flag(long flag)
{
	struct statvfs v;

	if (statvfs("/", &v))
		say(NOT_APPLICABLE, "statvfs: %s", errname(errno));
	say(v.f_flag & (unsigned long)flag ? BLOCKED : OPEN, "flags of / are %lx", v.f_flag);
}

/* ---- S: system calls ------------------------------------------------------- */

#ifndef SYS_futex_requeue
#define SYS_futex_requeue 456
#endif
#ifndef SYS_statmount
#define SYS_statmount 457
#define SYS_listmount 458
#endif
#ifndef SYS_lsm_list_modules
#define SYS_lsm_list_modules 461
#endif
#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_map_shadow_stack
#define SYS_map_shadow_stack 453
#endif

#define BAD ((void *)8)
#define ABSENT "/nonexistent-probe/x"

/* struct clone_args, its first version */
struct clone3_args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

static void check_clone(long flags)
{
	long pid = syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		_exit(0);
	effect(pid);
}

static void check_clone3(long flags)
{
	struct clone3_args a = { .flags = (uint64_t)flags, .exit_signal = SIGCHLD };
	long pid = syscall(SYS_clone3, &a, sizeof(a));

	if (pid == 0)
		_exit(0);
	effect(pid);
}

static void check_unshare(long flags)
{
	effect(unshare((int)flags));
}

static void check_setns(long unused)
{
	(void)unused;
	int fd = open("/proc/self/ns/uts", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		reach(setns(-1, 0));
	reach(setns(fd, 0));
}

static void check_syscall(long nr);

static void check_vhangup(long unused)
{
	(void)unused;
	/* a new session without a terminal, so that no terminal is hung up */
	if (setsid() < 0)
		say(NOT_APPLICABLE, "setsid: %s", errname(errno));
	effect(vhangup());
}

static void check_ptrace(long unused)
{
	(void)unused;
	effect(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static void check_personality(long unused)
{
	(void)unused;
	effect(personality(ADDR_NO_RANDOMIZE));
}

/* A pty whose slave is our controlling terminal; returns the slave. */
static int own_tty(void)
{
	char path[32];
	unsigned int n = 0;
	int lock = 0, fd, master = open("/dev/ptmx", O_RDWR | O_NOCTTY);

	if (master < 0 || ioctl(master, TIOCSPTLCK, &lock) || ioctl(master, TIOCGPTN, &n))
		say(NOT_APPLICABLE, "no pty: %s", errname(errno));
	snprintf(path, sizeof(path), "/dev/pts/%u", n);
	if (setsid() < 0 || (fd = open(path, O_RDWR)) < 0)
		say(NOT_APPLICABLE, "%s: %s", path, errname(errno));
	ioctl(fd, TIOCSCTTY, 0);
	return fd;
}

/* TIOCSTI types a byte; with dev.tty.legacy_tiocsti=0 the kernel itself says EIO. */
static void check_tiocsti(long high)
{
	int fd = own_tty();
	long r = syscall(SYS_ioctl, fd, (unsigned long)high << 32 | 0x5412, "x");

	if (r >= 0)
		say(OPEN, "succeeded");
	if (errno == ENOTTY || errno == EINVAL || errno == EFAULT)
		say(OPEN, "reached: %s", errname(errno));
	say(BLOCKED, "%s", errname(errno));
}

static void check_tty_ioctl(long request)
{
	int fd = own_tty(), zero = 0;
	long r = syscall(SYS_ioctl, fd, (unsigned long)request, &zero);

	/* N_TTY set again, or TIOCLINUX on what is no console (ENOTTY): the filter let it by */
	if (r >= 0)
		say(OPEN, "succeeded");
	if (errno == EPERM || errno == EACCES || errno == EIO || errno == ENOSYS)
		say(BLOCKED, "%s", errname(errno));
	say(OPEN, "reached: %s", errname(errno));
}

/*
 * The arguments that reach the kernel's code and do nothing, for each number.
 * Where a check of the caller's capability comes first in the kernel, that is
 * a refusal too.
 */
static void check_syscall(long nr)
{
	static char page[4096] __attribute__((aligned(4096)));
	struct iovec mine = { page, 1 }, theirs = { page + 64, 1 };
	struct timespec bad_time = { 0, -1 };
	unsigned int word[16] = { 0 };
	long a[6] = { 0, 0, 0, 0, 0, 0 };

	switch (nr) {
	case SYS_mount: reach(syscall(nr, "none", ABSENT, "tmpfs", 0, NULL));
	case SYS_umount2: reach(syscall(nr, ABSENT, 0));
	case SYS_pivot_root: reach(syscall(nr, ABSENT, ABSENT));
	case SYS_chroot: reach(syscall(nr, "/"));
	case SYS_open_tree: reach(syscall(nr, AT_FDCWD, "/", 1 /* OPEN_TREE_CLONE */));
	case SYS_move_mount: reach(syscall(nr, AT_FDCWD, ABSENT, AT_FDCWD, ABSENT, 0));
	case SYS_fsopen: reach(syscall(nr, "tmpfs", 0));
	case SYS_mount_setattr: reach(syscall(nr, AT_FDCWD, ABSENT, 0, page, 32));
	case SYS_statmount: reach(syscall(nr, NULL, page, sizeof(page), 0));
	case SYS_keyctl: reach(syscall(nr, 0 /* GET_KEYRING_ID */, -3, 0));
	case SYS_add_key: reach(syscall(nr, BAD, BAD, BAD, 1, -2));
	case SYS_request_key: reach(syscall(nr, BAD, BAD, NULL, 0));
	case SYS_bpf: reach(syscall(nr, 9999, page, 8));
	case SYS_perf_event_open: reach(syscall(nr, BAD, 0, -1, -1, ~0UL));
	case SYS_userfaultfd: reach(syscall(nr, ~0));
	case SYS_io_uring_setup: reach(syscall(nr, 1, BAD));
	case SYS_process_vm_readv: reach(syscall(nr, getpid(), &mine, 1, &theirs, 1, 0));
	case SYS_process_vm_writev: reach(syscall(nr, getpid(), &mine, 1, &theirs, 1, 0));
	case SYS_kcmp: reach(syscall(nr, getpid(), getpid(), 1, 0, 0));
	case SYS_pidfd_getfd: reach(syscall(nr, -1, 0, 0));
	case SYS_modify_ldt: reach(syscall(nr, 0, page, sizeof(page)));
	case SYS_remap_file_pages: reach(syscall(nr, page, 0, 1, 0, 0));
	case SYS_mbind: reach(syscall(nr, page, 4096, 99, NULL, 0, 0));
	case SYS_set_mempolicy: reach(syscall(nr, 99, NULL, 0));
	case SYS_move_pages: reach(syscall(nr, 0, 1, BAD, BAD, BAD, 0x80));
	case SYS_kexec_load: reach(syscall(nr, 0, 1000000, BAD, ~0UL));
	case SYS_init_module: reach(syscall(nr, BAD, 0, BAD));
	case SYS_finit_module: reach(syscall(nr, -1, "", 0));
	case SYS_delete_module: reach(syscall(nr, "nonexistent_probe", O_NONBLOCK));
	case SYS_swapon: reach(syscall(nr, ABSENT, 0));
	case SYS_quotactl: reach(syscall(nr, 0xffffff00, ABSENT, 0, NULL));
	case SYS_acct: reach(syscall(nr, ABSENT));
	case SYS_syslog: reach(syscall(nr, 10 /* SIZE_BUFFER */, NULL, 0));
	case SYS_fanotify_init: reach(syscall(nr, ~0, ~0));
	case SYS_name_to_handle_at: reach(syscall(nr, AT_FDCWD, "/", page, word, 0));
	case SYS_open_by_handle_at:
		word[0] = 8;
		word[1] = 1;
		reach(syscall(nr, AT_FDCWD, word, 0));
	case SYS_memfd_secret: reach(syscall(nr, ~0));
	case SYS_lsm_list_modules: reach(syscall(nr, BAD, BAD, 0));
	case SYS_vmsplice: reach(syscall(nr, -1, &mine, 1, 0));
	case SYS_clock_settime: reach(syscall(nr, 0, &bad_time));
	case SYS_clock_adjtime: reach(syscall(nr, 0, BAD));
	case SYS_iopl: reach(syscall(nr, 99));
	case SYS_ioperm: reach(syscall(nr, 1UL << 40, 1, 1));
	case SYS_reboot: reach(syscall(nr, 0, 0, 0, NULL));
	case SYS_sethostname: reach(syscall(nr, BAD, -1));
	case SYS_futex: reach(syscall(nr, word, 12 /* CMP_REQUEUE_PI */, 1, 0, word + 1, 1));
	case SYS_futex_requeue: reach(syscall(nr, NULL, ~0, 0, 0));
	case SYS_ustat: {
		struct stat st;

		if (stat("/", &st))
			st.st_dev = 0;
		reach(syscall(nr, st.st_dev, page));
	}
	case SYS_sysfs: reach(syscall(nr, 3));
	case SYS_process_madvise: reach(syscall(nr, -1, &mine, 1, 0, 0));
	case SYS_migrate_pages: reach(syscall(nr, 0, 1, BAD, BAD));
	case SYS_map_shadow_stack: reach(syscall(nr, 1, 0, ~0));
	case SYS_swapoff: reach(syscall(nr, ABSENT));
	case SYS_setdomainname: reach(syscall(nr, BAD, -1));
	case SYS_kexec_file_load: reach(syscall(nr, -1, -1, 0, NULL, ~0UL));
	case SYS_listmount: reach(syscall(nr, BAD, page, 1, ~0));
	case SYS_lookup_dcookie: reach(syscall(nr, 0, page, sizeof(page)));
	case SYS_settimeofday: reach(syscall(nr, BAD, NULL));
	case SYS_fspick: reach(syscall(nr, AT_FDCWD, ABSENT, 0));
	case SYS_fsmount: reach(syscall(nr, -1, 0, 0));
	case SYS_io_uring_register: reach(syscall(nr, -1, 0, NULL, 0));
	default: reach(syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]));
	}
}

/* ---- A: the other system call tables --------------------------------------- */

static void check_i386(long unused)
{
	long r = -ENOSYS;

	(void)unused;
#ifdef __x86_64__
	/* getpid of i386; without CONFIG_IA32_EMULATION a SIGSEGV */
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
#else
	say(NOT_APPLICABLE, "not x86-64");
#endif
	if (r > 0)
		say(OPEN, "int 0x80 answered %ld", r);
	say(BLOCKED, "%s", errname((int)-r));
}

static void check_x32(long unused)
{
	(void)unused;
#ifndef __x86_64__
	say(NOT_APPLICABLE, "not x86-64");
#endif
	/* reach(): a kernel without x32 says ENOSYS, as a filter may */
	reach(syscall(0x40000000L | 39));
}

/* ---- K: sockets ------------------------------------------------------------ */

#define SOCK(domain, type, protocol) ((long)(domain) << 32 | (long)(type) << 16 | (protocol))

/*
 * By family: an impossible type (15) is EINVAL from the kernel whether or not
 * the family's module is there, so EAFNOSUPPORT is the filter's.
 */
static void check_family(long family)
{
	for (int type = SOCK_STREAM; type <= SOCK_PACKET; type++) {
		int fd = socket((int)family, type, 0);

		if (fd >= 0)
			say(OPEN, "type %d opened", type);
	}
	if (socket((int)family, 15, 0) < 0 && errno == EINVAL)
		say(OPEN, "the call passes, the module is absent");
	say(BLOCKED, "%s", errname(errno));
}

/* By type and protocol of a family that exists: what an absent module answers is a pass. */
static void check_socket(long what)
{
	int fd = socket((int)(what >> 32), (int)(what >> 16 & 0xffff), (int)(what & 0xffff));

	if (fd >= 0)
		say(OPEN, "opened");
	if (errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT || errno == EPROTOTYPE || errno == EINVAL)
		say(OPEN, "the call passes: %s", errname(errno));
	say(BLOCKED, "%s", errname(errno));
}

static void check_sockopt(long what)
{
	int level = (int)(what >> 16), opt = (int)(what & 0xffff), minus = -1;
	int fd = socket(AF_INET, level == SOL_SOCKET || level == IPPROTO_IP ? SOCK_DGRAM : SOCK_STREAM, 0);
	char tables[128] = "";

	if (fd < 0)
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd < 0)
		say(BLOCKED, "no socket: %s", errname(errno));
	if (level == IPPROTO_TCP)
		reach(setsockopt(fd, level, opt, "tls", 3));
	if (level == IPPROTO_IP)
		reach(setsockopt(fd, level, opt, tables, sizeof(tables)));
	reach(setsockopt(fd, level, opt, &minus, sizeof(minus)));
}

/* ---- F: files -------------------------------------------------------------- */

/* The path can be opened for writing (nothing is written). */
static void check_write(long unused)
{
	(void)unused;
	effect(open(self->path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
}

/* The path says something when read (a masked one is absent, empty or refused). */
static void check_read(long unused)
{
	char bytes[8];
	int fd = open(self->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	(void)unused;
	if (fd < 0)
		say(BLOCKED, "%s", errname(errno));
	ssize_t n = read(fd, bytes, sizeof(bytes));
	if (n > 0)
		say(OPEN, "has bytes");
	/* kmsg and the like: that it can be opened is enough */
	if (n < 0 && errno == EAGAIN)
		say(OPEN, "opened");
	say(BLOCKED, "%s", n ? errname(errno) : "empty");
}

/* The directory has entries. */
static void check_dir(long unused)
{
	char buf[2048];
	int fd = open(self->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)unused;
	if (fd < 0)
		say(BLOCKED, "%s", errname(errno));
	long n = syscall(SYS_getdents64, fd, buf, sizeof(buf));
	/* . and .. take 24 bytes each */
	say(n > 48 ? OPEN : BLOCKED, n > 48 ? "has entries" : "empty");
}

/* A device node of a disk or of kernel memory, in any place that takes one. */
static void check_mknod(long mode)
{
	static const char *const dirs[] = { "/tmp", "/dev", "/dev/shm", "/run", "/workspace", "/var/tmp", "/root", "", NULL };
	int last = 0;

	for (int i = 0; dirs[i]; i++) {
		char path[64];

		snprintf(path, sizeof(path), "%s/.probe-node-%d", dirs[i], getpid());
		if (mknod(path, (mode_t)mode | 0600, mode == S_IFBLK ? makedev(254, 0) : makedev(1, 1)) == 0) {
			unlink(path);
			say(OPEN, "made in %s/", dirs[i]);
		}
		last = errno;
	}
	say(BLOCKED, "%s", errname(last));
}

static int is_harmless(const struct stat *st)
{
	unsigned int major = major(st->st_rdev), minor = minor(st->st_rdev);

	if (S_ISBLK(st->st_mode))
		return 0;
	return (major == 1 && (minor == 3 || minor == 5 || minor == 7 || minor == 8 || minor == 9)) ||
	       (major == 5 && (minor == 0 || minor == 1 || minor == 2)) || (major >= 136 && major <= 143);
}

/* Nodes below /dev other than null zero full random urandom tty console ptmx pts. */
static void look_for_devices(const char *dir, int depth, char *found, size_t size)
{
	char buf[8192];
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;

	while (fd >= 0 && (n = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (long i = 0; i < n;) {
			unsigned short len;
			const char *name = buf + i + 19;
			char path[512];
			struct stat st;

			memcpy(&len, buf + i + 16, sizeof(len));
			i += len;
			if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
				continue;
			snprintf(path, sizeof(path), "%s/%s", dir, name);
			if (lstat(path, &st))
				continue;
			if (S_ISDIR(st.st_mode) && depth < 3)
				look_for_devices(path, depth + 1, found, size);
			else if ((S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) && !is_harmless(&st))
				snprintf(found, size, "%.80s", path);
		}
	}
	if (fd >= 0)
		close(fd);
}

static void check_devices(long unused)
{
	char found[100] = "";

	(void)unused;
	look_for_devices("/dev", 0, found, sizeof(found));
	say(found[0] ? OPEN : BLOCKED, "%s", found[0] ? found : "only the six, ptmx, console and pts");
}

/* A cgroup can be made, or its knobs written, in any cgroup file system that is visible. */
static void check_cgroup_write(long unused)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;
	int seen = 0;

	(void)unused;
	while (f && getline(&line, &size, f) > 0) {
		char mount[256], path[320];
		const char *dash = strstr(line, " - ");

		if (!dash || strncmp(dash + 3, "cgroup", 6) != 0 || sscanf(line, "%*s %*s %*s %*s %255s", mount) != 1)
			continue;
		seen++;
		snprintf(path, sizeof(path), "%s/.probe-%d", mount, getpid());
		if (mkdir(path, 0700) == 0) {
			rmdir(path);
			say(OPEN, "made %s", path);
		}
		snprintf(path, sizeof(path), "%s/cgroup.procs", mount);
		int fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			say(OPEN, "%s opens for writing", path);
	}
	say(BLOCKED, "%d cgroup mounts, none writable", seen);
}

static void check_release_agent(long unused)
{
	static const char *const dirs[] = { "", "/memory", "/cpu", "/pids", "/devices", "/systemd", "/freezer", NULL };

	(void)unused;
	for (int i = 0; dirs[i]; i++) {
		char path[128];

		snprintf(path, sizeof(path), "/sys/fs/cgroup%s/release_agent", dirs[i]);
		if (open(path, O_WRONLY | O_CLOEXEC) >= 0)
			say(OPEN, "%s opens for writing", path);
	}
	say(BLOCKED, "none");
}

/* The host's paths shown as mount sources: a bind of the host's own file system. */
static void check_mountinfo(long unused)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;

	(void)unused;
	while (f && getline(&line, &size, f) > 0) {
		/* a path of two components or more names a place on the host */
		for (const char *dir = line; (dir = strstr(dir, "dir")) != NULL; dir += 3) {
			const char *path = dir + 3 + strspn(dir + 3, "+");

			if (path[0] == '=' && path[1] == '/' && strcspn(path + 2, "/") < strcspn(path + 2, ",: \n"))
				say(OPEN, "overlay shows %.60s", path);
		}
		if (strstr(line, " /var/lib/") || strstr(line, "/overlay2/"))
			say(OPEN, "%.100s", line);
	}
	/* the host itself: its own disk is / */
	if (f && access("/dev/vda", F_OK) == 0)
		say(OPEN, "the host's disk is mounted");
	struct stat a;
	if (stat("/proc/1/root/", &a) == 0 && stat("/proc/self/ns/mnt", &a) == 0) {
		for (int i = 0; host_ns[i].name; i++) {
			if (strcmp(host_ns[i].name, "mnt") == 0 && host_ns[i].inode == a.st_ino)
				say(OPEN, "the host's own mount table");
		}
	}
	say(BLOCKED, "no host path");
}

/* ---- R: resources ---------------------------------------------------------- */

/* 768 MiB can be touched.  Where a limit holds, we are killed, perhaps with all the sandbox. */
static void check_memory(long bytes)
{
	char *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		say(BLOCKED, "%s", errname(errno));
	for (long i = 0; i < bytes; i += 4096)
		p[i] = 1;
	say(OPEN, "touched %ld MiB", bytes >> 20);
}

/* More than 1100 processes at once. */
static void check_processes(long wanted)
{
	int hold[2], n = 0, failed = 0;

	if (pipe2(hold, O_CLOEXEC))
		say(NOT_APPLICABLE, "pipe: %s", errname(errno));
	for (; n < wanted; n++) {
		pid_t pid = fork();

		if (pid < 0) {
			failed = errno;
			break;
		}
		if (pid == 0) {
			char byte;

			close(hold[1]);
			_exit(read(hold[0], &byte, 1) != 0);
		}
	}
	close(hold[1]);
	while (waitpid(-1, NULL, 0) > 0)
		;
	say(failed ? BLOCKED : OPEN, "%d processes%s%s", n, failed ? ", then " : "", failed ? errname(failed) : "");
}

static void check_rlimit(long what)
{
	struct rlimit r;

	if (getrlimit((__rlimit_resource_t)(what >> 32), &r))
		say(NOT_APPLICABLE, "getrlimit: %s", errname(errno));
	say(r.rlim_max <= (rlim_t)(what & 0xffffffff) ? BLOCKED : OPEN, "hard limit %lld", (long long)r.rlim_max);
}

/*
 * Every file system that takes a file from us is bounded in bytes (below 64 GiB)
 * and in inodes.
 */
static void check_disk(long unused)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t size = 0;
	int writable = 0;

	(void)unused;
	if (!f)
		say(NOT_APPLICABLE, "no mountinfo");
	while (getline(&line, &size, f) > 0) {
		char mount[256], path[320];
		struct statvfs v;

		/* message queues are bounded by RLIMIT_MSGQUEUE */
		if (sscanf(line, "%*s %*s %*s %*s %255s", mount) != 1 || strstr(line, " - mqueue "))
			continue;
		snprintf(path, sizeof(path), "%s/.probe-write-%d", mount, getpid());
		int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0)
			continue;
		writable++;
		int r = fstatvfs(fd, &v);
		unlink(path);
		if (r == 0 && (uint64_t)v.f_blocks * v.f_frsize > 64ULL << 30)
			say(OPEN, "%s has %llu GiB", mount, (unsigned long long)v.f_blocks * v.f_frsize >> 30);
		if (r == 0 && (v.f_files == 0 || v.f_files > 4000000))
			say(OPEN, "%s has %llu inodes", mount, (unsigned long long)v.f_files);
	}
	say(BLOCKED, "%d writable mounts, all bounded", writable);
}

/* ---- the table ------------------------------------------------------------- */

#define SYSCALL(id, nr) { id, #nr, check_syscall, SYS_##nr, NULL }
#define CAP(id, cap) { id, #cap, check_cap, cap, NULL }

static const struct check checks[] = {
	{ "N01", "user namespace", check_ns, 0, "user" },
	{ "N02", "mount namespace", check_ns, 0, "mnt" },
	{ "N03", "pid namespace", check_ns, 0, "pid" },
	{ "N04", "network namespace", check_ns, 0, "net" },
	{ "N05", "IPC namespace", check_ns, 0, "ipc" },
	{ "N06", "UTS namespace", check_ns, 0, "uts" },
	{ "N07", "cgroup namespace", check_ns, 0, "cgroup" },
	{ "N08", "no uid is the host's root", check_idmap, 0, "/proc/self/uid_map" },
	{ "N09", "no gid is the host's root", check_idmap, 0, "/proc/self/gid_map" },
	{ "N10", "processes of the host unseen", check_pids, 0, NULL },
	{ "N11", "no interface but lo", check_interfaces, 0, NULL },
	{ "N12", "mounts do not propagate", check_propagation, 0, NULL },

	CAP("C01", CAP_SYS_ADMIN), CAP("C02", CAP_NET_ADMIN), CAP("C03", CAP_NET_RAW),
	CAP("C04", CAP_SYS_MODULE), CAP("C05", CAP_SYS_RAWIO), CAP("C06", CAP_SYS_PTRACE),
	CAP("C07", CAP_SYS_BOOT), CAP("C08", CAP_SYS_TIME), CAP("C09", CAP_SYSLOG),
	CAP("C10", CAP_MKNOD), CAP("C11", CAP_DAC_READ_SEARCH), CAP("C12", CAP_DAC_OVERRIDE),
	CAP("C13", CAP_SYS_CHROOT), CAP("C14", CAP_SYS_NICE), CAP("C15", CAP_SETFCAP),
	CAP("C16", CAP_BPF), CAP("C17", CAP_PERFMON), CAP("C18", CAP_AUDIT_WRITE),

	{ "B01", "no_new_privs is set", check_nnp, 0, NULL },
	{ "B02", "a seccomp filter is on", check_seccomp_mode, 0, NULL },
	{ "B03", "no inheritable or ambient capability", check_inherited_caps, 0, NULL },
	{ "B04", "setuid programs gain nothing", check_setuid, 0, NULL },
	{ "B05", "/ is nosuid", check_root_flag, ST_NOSUID, NULL },
	{ "B06", "/ is nodev", check_root_flag, ST_NODEV, NULL },

	{ "S01", "unshare(NEWUSER)", check_unshare, CLONE_NEWUSER, NULL },
	{ "S02", "clone(NEWUSER)", check_clone, CLONE_NEWUSER, NULL },
	{ "S03", "clone3(NEWUSER)", check_clone3, CLONE_NEWUSER, NULL },
	{ "S04", "unshare(NEWNS)", check_unshare, CLONE_NEWNS, NULL },
	{ "S05", "setns", check_setns, 0, NULL },
	SYSCALL("S06", mount), SYSCALL("S07", umount2), SYSCALL("S08", pivot_root),
	SYSCALL("S09", chroot), SYSCALL("S10", open_tree), SYSCALL("S11", move_mount),
	SYSCALL("S12", fsopen), SYSCALL("S13", mount_setattr), SYSCALL("S14", statmount),
	SYSCALL("S15", keyctl), SYSCALL("S16", add_key), SYSCALL("S17", request_key),
	SYSCALL("S18", bpf), SYSCALL("S19", perf_event_open), SYSCALL("S20", userfaultfd),
	SYSCALL("S21", io_uring_setup),
	{ "S22", "ptrace", check_ptrace, 0, NULL },
	SYSCALL("S23", process_vm_readv), SYSCALL("S24", process_vm_writev), SYSCALL("S25", kcmp),
	SYSCALL("S26", pidfd_getfd),
	{ "S27", "personality(ADDR_NO_RANDOMIZE)", check_personality, 0, NULL },
	SYSCALL("S28", modify_ldt), SYSCALL("S29", remap_file_pages), SYSCALL("S30", mbind),
	SYSCALL("S31", set_mempolicy), SYSCALL("S32", move_pages), SYSCALL("S33", kexec_load),
	SYSCALL("S34", init_module), SYSCALL("S35", finit_module), SYSCALL("S36", delete_module),
	SYSCALL("S37", swapon), SYSCALL("S38", quotactl), SYSCALL("S39", acct), SYSCALL("S40", syslog),
	SYSCALL("S41", fanotify_init), SYSCALL("S42", name_to_handle_at), SYSCALL("S43", open_by_handle_at),
	SYSCALL("S44", vmsplice), SYSCALL("S45", clock_settime), SYSCALL("S46", iopl),
	SYSCALL("S47", reboot), SYSCALL("S48", sethostname),
	{ "S49", "ioctl(TIOCSTI)", check_tiocsti, 0, NULL },
	{ "S50", "futex(CMP_REQUEUE_PI)", check_syscall, SYS_futex, NULL },
	SYSCALL("S51", futex_requeue),

	{ "A01", "i386 by int 0x80", check_i386, 0, NULL },
	{ "A02", "x32", check_x32, 0, NULL },

	{ "K01", "AF_ALG", check_family, 38, NULL }, { "K02", "AF_VSOCK", check_family, 40, NULL },
	{ "K03", "AF_PACKET", check_family, 17, NULL }, { "K04", "AF_KEY", check_family, 15, NULL },
	{ "K05", "AF_BLUETOOTH", check_family, 31, NULL }, { "K06", "AF_CAN", check_family, 29, NULL },
	{ "K07", "AF_TIPC", check_family, 30, NULL }, { "K08", "AF_RDS", check_family, 21, NULL },
	{ "K09", "AF_SMC", check_family, 43, NULL }, { "K10", "AF_NFC", check_family, 39, NULL },
	{ "K11", "AF_QIPCRTR", check_family, 42, NULL }, { "K12", "AF_PPPOX", check_family, 24, NULL },
	{ "K13", "AF_XDP", check_family, 44, NULL }, { "K14", "AF_RXRPC", check_family, 33, NULL },
	{ "K15", "NETLINK_XFRM", check_socket, SOCK(AF_NETLINK, SOCK_RAW, 6), NULL },
	{ "K16", "NETLINK_NETFILTER", check_socket, SOCK(AF_NETLINK, SOCK_RAW, 12), NULL },
	{ "K17", "NETLINK_GENERIC", check_socket, SOCK(AF_NETLINK, SOCK_RAW, 16), NULL },
	{ "K18", "NETLINK_AUDIT", check_socket, SOCK(AF_NETLINK, SOCK_RAW, 9), NULL },
	{ "K19", "NETLINK_KOBJECT_UEVENT", check_socket, SOCK(AF_NETLINK, SOCK_RAW, 15), NULL },
	{ "K20", "SCTP", check_socket, SOCK(AF_INET, SOCK_STREAM, 132), NULL },
	{ "K21", "MPTCP", check_socket, SOCK(AF_INET, SOCK_STREAM, 262), NULL },
	{ "K22", "UDPLITE", check_socket, SOCK(AF_INET, SOCK_DGRAM, 136), NULL },
	{ "K23", "DCCP", check_socket, SOCK(AF_INET, 6, 33), NULL },
	{ "K24", "raw IP", check_socket, SOCK(AF_INET, SOCK_RAW, 1), NULL },
	{ "K25", "kTLS", check_sockopt, (long)IPPROTO_TCP << 16 | 31, NULL },
	{ "K26", "xtables by setsockopt", check_sockopt, (long)IPPROTO_IP << 16 | 64, NULL },
	{ "K27", "SO_ATTACH_BPF", check_sockopt, (long)SOL_SOCKET << 16 | 50, NULL },

	{ "F01", "write core_pattern", check_write, 0, "/proc/sys/kernel/core_pattern" },
	{ "F02", "write modprobe", check_write, 0, "/proc/sys/kernel/modprobe" },
	{ "F03", "write sysrq-trigger", check_write, 0, "/proc/sysrq-trigger" },
	{ "F04", "write binfmt_misc", check_write, 0, "/proc/sys/fs/binfmt_misc/register" },
	{ "F05", "write uevent_helper", check_write, 0, "/sys/kernel/uevent_helper" },
	{ "F06", "write vm.overcommit_memory", check_write, 0, "/proc/sys/vm/overcommit_memory" },
	{ "F07", "write vm.drop_caches", check_write, 0, "/proc/sys/vm/drop_caches" },
	{ "F08", "write irq affinity", check_write, 0, "/proc/irq/default_smp_affinity" },
	{ "F09", "read kcore", check_read, 0, "/proc/kcore" },
	{ "F10", "read kmsg", check_read, 0, "/proc/kmsg" },
	{ "F11", "read kallsyms", check_read, 0, "/proc/kallsyms" },
	{ "F12", "read keys", check_read, 0, "/proc/keys" },
	{ "F13", "read timer_list", check_read, 0, "/proc/timer_list" },
	{ "F14", "read interrupts", check_read, 0, "/proc/interrupts" },
	{ "F15", "read slabinfo", check_read, 0, "/proc/slabinfo" },
	{ "F16", "read kpageflags", check_read, 0, "/proc/kpageflags" },
	{ "F17", "read iomem", check_read, 0, "/proc/iomem" },
	{ "F18", "read modules", check_read, 0, "/proc/modules" },
	{ "F19", "read vmallocinfo", check_read, 0, "/proc/vmallocinfo" },
	{ "F20", "write a cgroup", check_cgroup_write, 0, NULL },
	{ "F21", "write release_agent", check_release_agent, 0, NULL },
	{ "F22", "list /sys/firmware, /sys/class", check_dir, 0, "/sys/class" },
	{ "F23", "make a block device", check_mknod, S_IFBLK, NULL },
	{ "F24", "make a character device", check_mknod, S_IFCHR, NULL },
	{ "F25", "devices beyond the harmless", check_devices, 0, NULL },
	{ "F26", "mountinfo shows host paths", check_mountinfo, 0, NULL },

	{ "R01", "memory is bounded", check_memory, 768L << 20, NULL },
	{ "R02", "processes are bounded", check_processes, 1100, NULL },
	{ "R03", "open files are bounded", check_rlimit, (long)RLIMIT_NOFILE << 32 | 65536, NULL },
	{ "R04", "core files are off", check_rlimit, (long)RLIMIT_CORE << 32 | 1, NULL },
	{ "R05", "writable file systems are bounded", check_disk, 0, NULL },

	/* beyond the 147 */
	{ "X01", "ioctl(TIOCSTI) with high bits", check_tiocsti, 1, NULL },
	{ "X02", "ioctl(TIOCLINUX)", check_tty_ioctl, 0x541C, NULL },
	{ "X03", "ioctl(TIOCSETD)", check_tty_ioctl, 0x5423, NULL },
	{ "X04", "clone(NEWNET)", check_clone, CLONE_NEWNET, NULL },
	{ "X05", "clone(NEWUSER|NEWNET)", check_clone, CLONE_NEWUSER | CLONE_NEWNET, NULL },
	{ "X06", "unshare(NEWUSER|NEWNS|NEWNET)", check_unshare, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET, NULL },
	SYSCALL("X07", ustat), SYSCALL("X08", sysfs), SYSCALL("X09", process_madvise),
	SYSCALL("X10", migrate_pages), SYSCALL("X11", map_shadow_stack), SYSCALL("X12", swapoff),
	SYSCALL("X13", setdomainname), SYSCALL("X14", kexec_file_load), SYSCALL("X15", listmount),
	SYSCALL("X16", lookup_dcookie), SYSCALL("X17", settimeofday), SYSCALL("X18", fspick),
	SYSCALL("X19", fsmount), SYSCALL("X20", io_uring_register), SYSCALL("X21", memfd_secret),
	SYSCALL("X22", lsm_list_modules), SYSCALL("X23", clock_adjtime), SYSCALL("X24", ioperm),
	{ "X25", "vhangup", check_vhangup, 0, NULL },
	{ "X26", "SO_ATTACH_REUSEPORT_EBPF", check_sockopt, (long)SOL_SOCKET << 16 | 52, NULL },
	{ "X42", "SO_ATTACH_FILTER", check_sockopt, (long)SOL_SOCKET << 16 | 26, NULL },
	{ "X43", "SO_ATTACH_REUSEPORT_CBPF", check_sockopt, (long)SOL_SOCKET << 16 | 51, NULL },
	{ "X27", "NETLINK_SOCK_DIAG", check_socket, SOCK(AF_NETLINK, SOCK_RAW, 4), NULL },
	{ "X28", "time namespace", check_ns, 0, "time" },
	{ "X29", "read softirqs", check_read, 0, "/proc/softirqs" },
	{ "X30", "read zoneinfo", check_read, 0, "/proc/zoneinfo" },
	{ "X31", "read schedstat", check_read, 0, "/proc/schedstat" },
	{ "X32", "read /dev/mem", check_read, 0, "/dev/mem" },
	{ "X33", "read config.gz", check_read, 0, "/proc/config.gz" },
	{ "X34", "list /sys/firmware", check_dir, 0, "/sys/firmware" },
	{ "X35", "list /sys/kernel", check_dir, 0, "/sys/kernel" },
	{ "X36", "list /proc/acpi", check_dir, 0, "/proc/acpi" },
	{ "X37", "write vm.panic_on_oom", check_write, 0, "/proc/sys/vm/panic_on_oom" },
	{ "X38", "write kernel.panic", check_write, 0, "/proc/sys/kernel/panic" },
	{ "X39", "write fs.file-max", check_write, 0, "/proc/sys/fs/file-max" },
	{ "X40", "write kernel.hostname", check_write, 0, "/proc/sys/kernel/hostname" },
	{ "X41", "raise user namespaces' limit", check_write, 0, "/proc/sys/user/max_user_namespaces" },
};

#define CHECKS (sizeof(checks) / sizeof(checks[0]))
#define SCORED 147

/* ---- running it ------------------------------------------------------------ */

static enum verdict try_one(const struct check *c)
{
	int status = 0;

	memset(answer, 0, sizeof(*answer));
	self = c;
	fflush(stdout);
	pid_t pid = fork();
	if (pid < 0) {
		snprintf(answer->detail, sizeof(answer->detail), "fork: %s", errname(errno));
		return NOT_APPLICABLE;
	}
	if (pid == 0) {
		struct rlimit no_core = { 0, 0 };

		if (c->fn != check_rlimit)
			setrlimit(RLIMIT_CORE, &no_core);
		alarm(10);
		c->fn(c->arg);
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (answer->verdict == DIED) {
		snprintf(answer->detail, sizeof(answer->detail), "killed by %s",
			 WIFSIGNALED(status) ? sigabbrev_np(WTERMSIG(status)) : "nothing: a bug of the probe");
		return WIFSIGNALED(status) ? BLOCKED : OPEN;
	}
	return answer->verdict;
}

static int named(const struct check *c, char **ids)
{
	for (int i = 0; ids[i]; i++) {
		if (strcmp(ids[i], c->id) == 0)
			return 1;
	}
	return 0;
}

static void add_host(char *text)
{
	char *eq = strchr(text, '=');
	int i = 0;

	while (host_ns[i].name)
		i++;
	if (!eq || i >= 15)
		exit(2);
	*eq = 0;
	host_ns[i].name = text;
	host_ns[i].inode = strtoul(eq + 1, NULL, 10);
}

int main(int argc, char **argv)
{
	static const char *const words[] = { "?", "blocked", "OPEN", "n/a" };
	int first = 1, blocked[2] = { 0, 0 }, applicable[2] = { 0, 0 };
	unsigned int scored = 0;

	if (argc == 2 && strcmp(argv[1], "--euid") == 0)
		return 50 + (geteuid() != getuid());
	while (first + 1 < argc && strcmp(argv[first], "--host") == 0) {
		add_host(argv[first + 1]);
		first += 2;
	}
	for (size_t i = 0; i < CHECKS; i++)
		scored += checks[i].id[0] != 'X';
	if (scored != SCORED) {
		fprintf(stderr, "the table has %u rows, not %d\n", scored, SCORED);
		return 2;
	}
	answer = mmap(NULL, sizeof(*answer), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (answer == MAP_FAILED)
		return 2;
	for (size_t i = 0; i < CHECKS; i++) {
		const struct check *c = &checks[i];
		int extra = c->id[0] == 'X';
		enum verdict v = NOT_APPLICABLE;

		if (argv[first] && !named(c, argv + first))
			continue;
		if (c->fn == check_memory && !argv[first])
			snprintf(answer->detail, sizeof(answer->detail), "runs only when named");
		else
			v = try_one(c);
		for (char *p = answer->detail; *p; p++) {
			if (*p < ' ')
				*p = ' ';
		}
		printf("%s %s %s %s\n", c->id, c->name, words[v], answer->detail);
		blocked[extra] += v == BLOCKED;
		applicable[extra] += v == BLOCKED || v == OPEN;
	}
	printf("extra %d/%d\nscore %d/%d\n", blocked[1], applicable[1], blocked[0], applicable[0]);
	return 0;
}
