/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/caps.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/oci/container.h"
#include "runtime/oci/json.h"
#include "runtime/oci/log.h"

#define PASSWD_MAX (1u << 20)

/* ---- environment and program -------------------------------------------------- */

static const char *env_get(char **env, const char *name)
{
	size_t n = strlen(name);

	for (; *env; env++)
		if (!strncmp(*env, name, n) && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

/* The home directory of uid in the image's /etc/passwd, into out; "/" if there is none. */
static void find_home(uint32_t uid, char *out, size_t size)
{
	autobuf struct buf b = BUF_INIT(PASSWD_MAX);
	autoclose int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
	char *line, *save = NULL;
	struct err ignored;
	struct stat st;

	snprintf(out, size, "/");
	if (root < 0)
		return;
	/* a link within the image is fine; a FIFO or device must not make us wait */
	fd = path_open_in_root(root, "/etc/passwd", O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > PASSWD_MAX ||
	    io_read_all(fd, &b, "/etc/passwd", &ignored) < 0 || !b.data)
		return;
	for (line = strtok_r(b.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *field[7] = { line }, *p = line, *end;
		int n = 1;

		while (n < 7 && (p = strchr(p, ':'))) {
			*p++ = '\0';
			field[n++] = p;
		}
		if (n < 7 || field[2][0] < '0' || field[2][0] > '9' || strtoull(field[2], &end, 10) != uid || *end)
			continue;
		if (field[5][0] == '/' && strlen(field[5]) < size)
			snprintf(out, size, "%s", field[5]);
		return;
	}
}

static int build_oci_env(struct oci_process *p, struct err *e)
{
	const json_t *list = oci_get(p->doc, "env");
	size_t n = json_array_size(list), i, used = 0;
	static char home[PATH_MAX + 8], fds[40], pid[40], names[512];

	p->env = calloc(n + 8, sizeof(*p->env));
	if (!p->env)
		return err_nomem(e);
	for (i = 0; i < n; i++) {
		char *s = (char *)json_string_value(json_array_get(list, i));
		size_t name = strcspn(s, "=");

		if (!name)
			return err_set(e, ERR_INVALID, "process.env[%zu]: '%.64s' has no name", i, s);
		/*
		 * of several values of a name the last counts, as in a shell, and only that one is
		 * passed on
		 */
		if (s[name]) {
			size_t j;

			for (j = 0; j < used; j++)
				if (!strncmp(p->env[j], s, name + 1))
					break;
			p->env[j] = s;
			used += j == used;
		} else {
			p->env[used++] = s;
		}
	}
	if (!env_get(p->env, "HOME") || !*env_get(p->env, "HOME")) {
		memcpy(home, "HOME=", 5);
		find_home((uint32_t)oci_u64(oci_get(p->doc, "user"), "uid", 0), home + 5, sizeof(home) - 5);
		for (i = 0; i < used && strncmp(p->env[i], "HOME=", 5) != 0; i++)
			;
		p->env[i] = home;
		used += i == used;
	}
	if (p->listen_fds > 0) {
		snprintf(fds, sizeof(fds), "LISTEN_FDS=%d", p->listen_fds);
		snprintf(pid, sizeof(pid), "LISTEN_PID=%d", (int)getpid());
		p->env[used++] = fds;
		p->env[used++] = pid;
		if (getenv("LISTEN_FDNAMES")) {
			snprintf(names, sizeof(names), "LISTEN_FDNAMES=%.480s", getenv("LISTEN_FDNAMES"));
			p->env[used++] = names;
		}
	}
	return 0;
}

/* Returns 0 if path is a file that may be executed; else errno. */
static int executable(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno;
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	/*
	 * checked by the mode bits, too: root's access(2) does not ask the file system (execve
	 * finds noexec)
	 */
	if (!S_ISREG(st.st_mode) || !(st.st_mode & 0111) || access(path, X_OK) < 0)
		return EACCES;
	return 0;
}

/*
 * Refuses in the words of Go's runtime library, which the engines look for: "permission denied",
 * "no such file or directory".
 */
static int refuse_oci_program(const char *name, int os_errno, struct err *e)
{
	char why[64];

	snprintf(why, sizeof(why), "%s", strerror(os_errno == EISDIR ? EACCES : os_errno));
	why[0] = (char)(why[0] >= 'A' && why[0] <= 'Z' ? why[0] + 32 : why[0]);
	if (os_errno == ENOENT || os_errno == ENOTDIR)
		return err_set(e, ERR_EXEC_NOT_FOUND, "exec: \"%.200s\": stat %.200s: %s", name, name, why);
	return err_set(e, ERR_EXEC, "exec: \"%.200s\": %s", name, why);
}

static int find_oci_program(struct oci_process *p, struct err *e)
{
	const char *name = p->argv[0], *path = env_get(p->env, "PATH"), *dir;
	int worst = ENOENT, r;

	if (strchr(name, '/')) {
		r = executable(name);
		if ((size_t)snprintf(p->path, sizeof(p->path), "%s", name) >= sizeof(p->path))
			r = ENAMETOOLONG;
		return r ? refuse_oci_program(name, r, e) : 0;
	}
	if (!path || !*path)
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	for (dir = path; *name;) {
		size_t n = strcspn(dir, ":");

		if (n && (size_t)snprintf(p->path, sizeof(p->path), "%.*s/%s", (int)n, dir, name) < sizeof(p->path)) {
			r = executable(p->path);
			if (r == 0)
				return 0;
			if (r == EACCES)
				worst = EACCES;
		}
		dir += n;
		if (!*dir++)
			break;
	}
	if (worst != ENOENT)
		return refuse_oci_program(name, worst, e);
	return err_set(e, ERR_EXEC_NOT_FOUND, "exec: \"%.200s\": executable file not found in $PATH", name);
}

int oci_process_prepare(struct oci_process *p, struct err *e)
{
	const json_t *args = oci_get(p->doc, "args");
	size_t n = json_array_size(args), i;

	if (!n)
		return err_set(e, ERR_INVALID, "process.args is empty: nothing to execute");
	p->argv = calloc(n + 1, sizeof(*p->argv));
	if (!p->argv)
		return err_nomem(e);
	for (i = 0; i < n; i++)
		p->argv[i] = (char *)json_string_value(json_array_get(args, i));
	if (build_oci_env(p, e) < 0)
		return -1;
	return find_oci_program(p, e);
}

/* ---- working directory ----------------------------------------------------------- */

/* Outside of the root, getcwd() begins with "(unreachable)" (CVE-2024-21626, E03). */
static int check_cwd(const char *cwd, struct err *e)
{
	char real[PATH_MAX];

	if (syscall(SYS_getcwd, real, sizeof(real)) < 0)
		return err_sys(e, "process.cwd '%.200s': current working directory is outside of container mount namespace root", cwd);
	if (real[0] != '/')
		return err_set(e, ERR_DENIED, "process.cwd '%.200s': current working directory is outside of container "
			       "mount namespace root -- possible container breakout detected", cwd);
	return 0;
}

/*
 * Changes the directory as the user, if root could not. The filter may be loaded already, and an
 * older profile may know nothing newer than chdir(2): check_cwd() finds out whether a magic link
 * led outside.
 */
static int chdir_late(const struct oci_process *p, struct err *e)
{
	const char *cwd = oci_str(p->doc, "cwd");

	if (p->in_cwd)
		return 0;
	if (chdir(cwd) < 0)
		return err_sys(e, "chdir to process.cwd '%.200s'", cwd);
	return check_cwd(cwd, e);
}

int oci_process_chdir(struct oci_process *p, struct err *e)
{
	autoclose int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
	const char *cwd = oci_str(p->doc, "cwd");

	if (cwd[0] != '/')
		return err_set(e, ERR_INVALID, "process.cwd '%.200s' is not an absolute path", cwd);
	if (root < 0)
		return err_sys(e, "open the container's root");
	/* no magic links: /proc/self/fd/N would lead out */
	fd = path_open_in_root(root, cwd, O_PATH | O_DIRECTORY, 0);
	if (fd < 0 || fchdir(fd) < 0)
		return err_sys(e, "chdir to process.cwd '%.200s'", cwd);
	if (check_cwd(cwd, e) < 0)
		return -1;
	p->in_cwd = 1;
	return 0;
}

/* ---- ids and capabilities --------------------------------------------------------- */

static int cap_set(const json_t *caps, const char *which, uint64_t *ret, struct err *e)
{
	const json_t *list = oci_get(caps, which), *v;
	size_t i;

	*ret = 0;
	json_array_foreach(list, i, v) {
		const char *name = json_string_value(v);
		uint64_t bit;
		struct err ignored;

		(void)e;
		/* config.md: values that cannot be mapped MUST be logged as a warning, MUST NOT be an error */
		if (strncmp(name, "CAP_", 4) != 0 || caps_parse(name, &bit, &ignored) < 0) {
			oci_log(OCI_WARNING, "ignoring unknown capability %.64s of process.capabilities.%s", name, which);
			continue;
		}
		*ret |= bit;
	}
	return 0;
}

struct cap_sets {
	uint64_t bounding, effective, inheritable, permitted, ambient;
};

static int read_caps(const struct oci_process *p, struct cap_sets *s, struct err *e)
{
	const json_t *caps = oci_get(p->doc, "capabilities");

	return cap_set(caps, "bounding", &s->bounding, e) < 0 || cap_set(caps, "effective", &s->effective, e) < 0 ||
	       cap_set(caps, "inheritable", &s->inheritable, e) < 0 || cap_set(caps, "permitted", &s->permitted, e) < 0 ||
	       cap_set(caps, "ambient", &s->ambient, e) < 0 ? -1 : 0;
}

static int drop_bounding(uint64_t keep, struct err *e)
{
	unsigned i;

	for (i = 0; i < 64; i++) {
		if (keep >> i & 1)
			continue;
		if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0) {
			if (errno == EINVAL)
				return 0;	/* past the kernel's last */
			return err_sys(e, "drop capability %u from the bounding set", i);
		}
	}
	return 0;
}

static void warn_lost(uint64_t lost)
{
	char text[1200];
	size_t n = 0;
	unsigned i;

	for (i = 0; i <= CAPS_LAST; i++)
		if (lost >> i & 1)
			n += (size_t)snprintf(text + n, sizeof(text) - n, " %s", caps_name(i));
	if (lost)
		oci_log(OCI_WARNING, "the caller does not hold, so the container does not get:%s", text);
}

/*
 * Sets all five. A capability that we do not hold cannot be granted: a warning, as config.md
 * says.
 */
static int set_oci_caps(struct cap_sets *s, struct err *e)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2];
	uint64_t have;
	unsigned i;

	if (syscall(SYS_capget, &h, d) < 0)
		return err_sys(e, "read capabilities");
	have = (uint64_t)d[1].permitted << 32 | d[0].permitted;
	warn_lost((s->permitted | s->effective) & ~have);
	s->permitted &= have;
	s->effective &= s->permitted;
	s->inheritable &= s->bounding & have;
	for (i = 0; i < 2; i++) {
		d[i].permitted = (uint32_t)(s->permitted >> (32 * i));
		d[i].effective = (uint32_t)(s->effective >> (32 * i));
		d[i].inheritable = (uint32_t)(s->inheritable >> (32 * i));
	}
	if (syscall(SYS_capset, &h, d) < 0)
		return err_sys(e, "set capabilities");
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 && errno != EINVAL)
		return err_sys(e, "clear ambient capabilities");
	for (i = 0; i <= CAPS_LAST; i++)
		if (s->ambient >> i & 1 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, i, 0, 0) < 0)
			oci_log(OCI_WARNING, "can't raise ambient capability %s: it is not both permitted and inheritable",
				caps_name(i));
	return 0;
}

/*
 * Tells whether setgroups is denied, as in a user namespace whose map was written without
 * privilege: then there is nothing to drop.
 */
static int setgroups_denied(const struct oci_process *p)
{
	char text[16] = "";
	autoclose int fd = openat(p->proc_fd, "self/setgroups", O_RDONLY | O_CLOEXEC);

	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && !strncmp(text, "deny", 4);
}

static int set_ids(const struct oci_process *p, struct err *e)
{
	const json_t *user = oci_get(p->doc, "user"), *gids = oci_get(user, "additionalGids");
	const uid_t uid = (uid_t)oci_u64(user, "uid", 0);
	const gid_t gid = (gid_t)oci_u64(user, "gid", 0);
	size_t n = json_array_size(gids), i;
	autofree gid_t *list = calloc(n + 1, sizeof(*list));

	if (!list)
		return err_nomem(e);
	for (i = 0; i < n; i++)
		list[i] = (gid_t)oci_u64_value(json_array_get(gids, i));
	umask((mode_t)oci_u64(user, "umask", 022));
	if (!p->keep_groups && setgroups(n, list) < 0 && (n || errno != EPERM || !p->setgroups_denied))
		return err_sys(e, "set the supplementary groups");
	if (setresgid(gid, gid, gid) < 0)
		return err_sys(e, "setgid to %u%s", gid, errno == EINVAL ? ": not in the user namespace's map" : "");
	if (setresuid(uid, uid, uid) < 0)
		return err_sys(e, "setuid to %u%s", uid, errno == EINVAL ? ": not in the user namespace's map" : "");
	return 0;
}

/* ---- labels --------------------------------------------------------------------------- */

static const char *apparmor_label(const struct oci_process *p)
{
	const char *label = oci_str(p->doc, "apparmorProfile");

	return label && *label ? label : NULL;
}

static const char *selinux_label(const struct oci_process *p)
{
	const char *label = oci_str(p->doc, "selinuxLabel");

	return label && *label ? label : NULL;
}

static int open_attr(const struct oci_process *p, const char *file, const char *what, struct err *e)
{
	int fd = openat(p->proc_fd, file, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? err_sys(e, "%s: open /proc/%s", what, file) : fd;
}

int oci_process_look(struct oci_process *p, struct err *e)
{
	const int stacked = faccessat(p->proc_fd, "self/attr/apparmor/exec", F_OK, 0) == 0;

	p->apparmor_fd = p->selinux_fd = -1;
	p->setgroups_denied = setgroups_denied(p);
	if (apparmor_label(p)) {
		p->apparmor_fd = open_attr(p, stacked ? "self/attr/apparmor/exec" : "self/attr/exec", "process.apparmorProfile", e);
		if (p->apparmor_fd < 0)
			return err_hint(e, "AppArmor is not enabled on this host: leave apparmorProfile out");
	}
	if (selinux_label(p)) {
		p->selinux_fd = open_attr(p, "self/attr/exec", "process.selinuxLabel", e);
		if (p->selinux_fd < 0)
			return err_hint(e, "SELinux is not enabled on this host: leave selinuxLabel out");
	}
	return 0;
}

static int write_attr(int *fd, const char *label, const char *what, struct err *e)
{
	if (write(*fd, label, strlen(label)) < 0)
		return err_sys(e, "%s: write '%.100s' to /proc/self/attr", what, label);
	fd_close(fd);
	return 0;
}

static int set_labels(struct oci_process *p, struct err *e)
{
	char text[600];

	if (p->apparmor_fd >= 0) {
		snprintf(text, sizeof(text), "exec %.500s", apparmor_label(p));
		if (write_attr(&p->apparmor_fd, text, "process.apparmorProfile", e) < 0)
			return err_hint(e, "AppArmor is not enabled on this host, or has no such profile");
	}
	if (p->selinux_fd >= 0 && write_attr(&p->selinux_fd, selinux_label(p), "process.selinuxLabel", e) < 0)
		return err_hint(e, "SELinux is not enabled on this host: leave selinuxLabel out");
	return 0;
}

/* ---- the order ----------------------------------------------------------------------------- */

/*
 * Loads the filter. After that an agent may be asked about every call, including ours: it must get
 * the filter before the next call.
 */
static int filter_on(const struct oci_seccomp *filter, int sock, struct err *e)
{
	int listener;

	if (!filter)
		return 0;
	return oci_seccomp_load(filter, &listener, e) < 0 ? -1 : oci_tell_listener(sock, listener, e);
}

int oci_process_become(struct oci_process *p, const struct oci_seccomp *filter, int sock, struct err *e)
{
	const int nnp = oci_true(p->doc, "noNewPrivileges");
	const int has_caps = oci_get(p->doc, "capabilities") != NULL;
	struct cap_sets caps;

	if (read_caps(p, &caps, e) < 0 || set_labels(p, e) < 0)
		return -1;
	/* without no_new_privs the filter needs CAP_SYS_ADMIN; with it, it comes last, so that it may be strictest */
	if (!nnp && filter_on(filter, sock, e) < 0)
		return -1;
	if (drop_bounding(caps.bounding, e) < 0)
		return -1;
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		return err_sys(e, "keep capabilities through setuid");
	if (set_ids(p, e) < 0)
		return -1;
	if (chdir_late(p, e) < 0)
		return -1;
	if (prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) < 0)
		return err_sys(e, "keep capabilities no further");
	if (!has_caps)
		oci_log(OCI_DEBUG, "no process.capabilities: the container gets none");
	if (set_oci_caps(&caps, e) < 0)
		return -1;
	if (nnp && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
	if (nnp && filter_on(filter, sock, e) < 0)
		return -1;
	return 0;
}

int oci_process_exec(const struct oci_process *p, struct err *e)
{
	char why[64];
	int saved;

	execve(p->path, p->argv, p->env);
	saved = errno;
	snprintf(why, sizeof(why), "%s", strerror(saved));
	why[0] = (char)(why[0] >= 'A' && why[0] <= 'Z' ? why[0] + 32 : why[0]);
	return err_set(e, saved == ENOENT ? ERR_EXEC_NOT_FOUND : ERR_EXEC, "exec %s: %s", p->path, why);
}

/* ---- messages to the runtime, and the last steps ---- */

/*
 * Shared by the container's first process and the processes of `exec`: their messages to the
 * runtime, and the last steps before execve.
 */

#define FILTER_MAX 4096	/* BPF_MAXINSNS */

int oci_message_send(int sock, enum oci_message_kind kind, int value)
{
	struct oci_message m = { .kind = kind, .value = value };

	return fdpass_send(sock, &m, sizeof(m), NULL, 0);
}

int oci_message_recv(int sock, struct oci_message *ret, int *ret_fd)
{
	int fds[1] = { -1 };
	size_t n = 0;
	ssize_t r = fdpass_recv(sock, ret, sizeof(*ret), fds, 1, &n);

	if (ret_fd)
		*ret_fd = n ? fds[0] : -1;
	else if (n)
		close(fds[0]);
	if (r < 0 && errno == ECONNRESET)
		return 0;
	return r == 0 ? 0 : r == (ssize_t)sizeof(*ret) ? 1 : -1;
}

/* _exit() even if the filter is loaded: it ends the process under any filter */
static void __attribute__((noreturn)) end(int status)
{
	syscall(SYS_exit_group, status);
	syscall(SYS_exit, status);
	/* the filter refuses both; libc would ask for ever */
	__builtin_trap();
}

void oci_message_fail(int sock, const struct err *e, int in_hook)
{
	struct oci_message m = { .kind = OCI_FAILED, .value = in_hook, .err = *e };

	/* a filter may know nothing of sendmsg(2), but write(2); with neither, the runtime sees that nothing was executed */
	if (fdpass_send(sock, &m, sizeof(m), NULL, 0) < 0 && errno != EPIPE && write(sock, &m, sizeof(m)) < 0)
		end(1);
	end(1);
}

int oci_filter_send(int sock, const struct oci_seccomp *f, struct err *e)
{
	struct oci_filter_head head = { OCI_GO, f->insns ? f->count : 0, f->flags, (uint32_t)f->notify };

	if (fdpass_send2(sock, &head, sizeof(head), f->insns, head.count * sizeof(*f->insns), NULL, 0) < 0)
		return err_sys(e, "send the filter to the container");
	return 0;
}

int oci_filter_recv(int sock, struct oci_seccomp *f, struct err *e)
{
	struct { struct oci_filter_head head; struct sock_filter insns[FILTER_MAX]; } *m = malloc(sizeof(*m));
	size_t none;
	ssize_t r;

	if (!m)
		return err_nomem(e);
	r = fdpass_recv(sock, m, sizeof(*m), NULL, 0, &none);
	/* the runtime is gone: so are we */
	if (r < (ssize_t)sizeof(m->head) || m->head.kind != OCI_GO ||
	    (size_t)r != sizeof(m->head) + m->head.count * sizeof(m->insns[0]))
		_exit(1);
	f->flags = m->head.flags;
	f->notify = (int)m->head.notify;
	f->count = (unsigned short)m->head.count;
	f->insns = f->count ? m->insns : NULL;
	return 0;
}

int oci_keep_only(int preserve_fds, const int *list, size_t n, struct err *e)
{
	unsigned from = (unsigned)(3 + preserve_fds);

	for (;;) {
		int next = -1;
		size_t i;

		for (i = 0; i < n; i++)
			if (list[i] >= (int)from && (next < 0 || list[i] < next))
				next = list[i];
		if (next != (int)from && syscall(SYS_close_range, from, next < 0 ? ~0U : (unsigned)next - 1, 0) < 0)
			return err_sys(e, "close descriptors");
		if (next < 0)
			return 0;
		from = (unsigned)next + 1;
	}
}

int oci_tell_listener(int sock, int listener, struct err *e)
{
	struct oci_message m = { .kind = OCI_LISTENER, .value = listener };

	if (listener < 0)
		return 0;
	/* write(2) alone: the filter is loaded, and no profile may ask a listener about that */
	if (write(sock, &m, sizeof(m)) != (ssize_t)sizeof(m))
		return err_sys(e, "hand over the seccomp listener");
	/* execve closes our end: not before the other end has its copy */
	if (read(sock, &m, sizeof(m)) == 0)
		end(1);
	return 0;
}

void oci_reset_signals(void)
{
	sigset_t none;
	int i;

	for (i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The user must be able to reopen what it was given (/dev/stdout); the host's /dev/null is not given away. */
void oci_process_own_stdio(const json_t *process)
{
	const uid_t uid = (uid_t)oci_u64(oci_get(process, "user"), "uid", 0);
	struct stat st;
	int i;

	for (i = 0; i < 3; i++) {
		if (fstat(i, &st) < 0 || st.st_uid == uid || (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)))
			continue;
		/* unmapped, or on a read-only file system: it stays another's, as in runc */
		if (fchown(i, uid, (gid_t)-1) < 0)
			continue;
	}
}
