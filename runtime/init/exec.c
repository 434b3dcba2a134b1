/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The child is made by clone3 with CLONE_VFORK and CLONE_INTO_CGROUP: born in
 * the cgroup of its command, with a copy of init's memory (it reads hostile
 * files, under the payload's filter that denies by argument, before it executes), while
 * init waits for the exec.  The error comes back through a shared page.
 */
#include "runtime/init/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/init/user.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct command {
	const char *user, *cwd;
	char **argv, **envp;
	const char *path;	/* the part of PATH that is still to be searched; NULL: the program is in
				 * none of its directories */
	const char *whole_path;
	struct sock_fprog filter[INIT_FILTERS];
	uint64_t filter_secret;
	struct user who;
};

/* The blob must hold exactly the strings its header counts. */
static int split_request(const struct init_request *rq, const char *blob, struct command *c, struct err *e)
{
	const char *p = blob, *end = blob + rq->blob_len;
	uint64_t count = 2ULL + rq->argc + rq->envc, i;
	char **v;

	for (i = 0; i < INIT_FILTERS; i++) {
		size_t n = rq->filter_len[i] * sizeof(struct sock_filter);

		if (rq->filter_len[i] > INIT_FILTER_MAX || n > (size_t)(end - p))
			return err_set(e, ERR_INTERNAL, "malformed command request");
		c->filter[i].len = (unsigned short)rq->filter_len[i];
		c->filter[i].filter = (struct sock_filter *)(uintptr_t)p;
		p += n;
	}
	if (!rq->argc || p >= end || count > (size_t)(end - p) || end[-1])
		return err_set(e, ERR_INTERNAL, "malformed command request");
	c->filter_secret = rq->filter_secret;
	v = calloc(count + 4, sizeof(*v));
	if (!v)
		return err_nomem(e);
	c->argv = v;
	c->envp = v + rq->argc + 1;
	for (i = 0; i < count; i++) {
		if (p >= end) {
			free(v);
			return err_set(e, ERR_INTERNAL, "malformed command request");
		}
		if (i == 0)
			c->user = p;
		else if (i == 1)
			c->cwd = p;
		else if (i < 2ULL + rq->argc)
			c->argv[i - 2] = (char *)p;
		else
			c->envp[i - 2 - rq->argc] = (char *)p;
		if (i >= 2ULL + rq->argc && !strncmp(p, "PATH=", 5))
			c->path = p + 5;
		p += strlen(p) + 1;
	}
	if (!c->path || !c->path[0])
		c->path = DEFAULT_PATH;
	c->whole_path = c->path;
	return 0;
}

/* Adds HOME of the user, unless the environment has it. */
static void add_home(const struct init_request *rq, struct command *c)
{
	static char home[sizeof(c->who.home) + 8];
	uint32_t i;

	for (i = 0; i < rq->envc; i++)
		if (!strncmp(c->envp[i], "HOME=", 5))
			return;
	snprintf(home, sizeof(home), "HOME=%s", c->who.home[0] ? c->who.home : c->who.uid ? "/" : "/root");
	c->envp[rq->envc] = home;
}

/* Expands "~" and "~/PATH" to the user's home; a user who has none gets "/". */
static int expand_cwd(struct command *c, struct err *e)
{
	static char cwd[4096];
	const char *home = c->who.home[0] ? c->who.home : c->who.uid ? "/" : "/root";

	if (c->cwd[0] != '~')
		return 0;
	if (c->cwd[1] && c->cwd[1] != '/')
		return err_set(e, ERR_INVALID, "the working directory '%.100s' is of another user's home; hint: ~ is that of the user who runs "
			       "the command", c->cwd);
	if (!c->cwd[1] && access(home, F_OK) < 0)
		home = "/";
	if (snprintf(cwd, sizeof(cwd), "%s%s", home, c->cwd + 1) >= (int)sizeof(cwd))
		return err_set(e, ERR_INVALID, "the working directory is too long");
	c->cwd = cwd;
	return 0;
}

/*
 * Makes the working directory as mkdir -p does, inside the sandbox's own root; new directories
 * belong to the user. Returns 0, or the error number of what could not be made; whether that
 * matters tells chdir().
 */
static int make_command_cwd(const char *path, const struct user *who)
{
	char part[4096];
	size_t i, len = strlen(path);
	int why = 0;

	if (len >= sizeof(part))
		return ENAMETOOLONG;
	for (i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i])
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, 0755) == 0)
			why = lchown(part, who->uid, who->gid) < 0 ? errno : why;
		else if (errno != EEXIST)
			why = errno;
	}
	return why;
}

static int enter_command_cwd(const char *path, int not_made, struct err *e)
{
	if (chdir(path) == 0)
		return 0;
	if (errno != ENOENT || !not_made)
		return err_sys(e, "enter working directory '%.200s' in the sandbox", path);
	errno = not_made;
	err_sys(e, "make working directory '%.200s' in the sandbox", path);
	if (not_made == ENOSPC)
		return err_hint(e, "the sandbox's disk is full; --workdir / needs no directory to remove files");
	return -1;
}

static int set_command_rlimits(const struct rlimits *r, struct err *e)
{
	int i;

	for (i = 0; i < RLIMITS_COUNT; i++) {
		struct rlimit l = { r->v[i].soft, r->v[i].hard };

		if (r->set & 1u << i && setrlimit(i, &l) < 0)
			return err_sys(e, "set resource limit %d", i);
	}
	return 0;
}

/* Upholds S5 of SECURITY.md. */
static int set_stdio(const struct init_request *rq, const struct exec_fds *fds, struct err *e)
{
	int i;

	if (setsid() < 0)
		return err_sys(e, "start a session");
	/* the three are above 2 in init, so no dup2 clobbers a source */
	for (i = 0; i < 3; i++)
		if (dup2(fds->std[i], i) < 0)
			return err_sys(e, "set up descriptor %d", i);
	if (rq->flags & INIT_TTY && ioctl(0, TIOCSCTTY, 0) < 0)
		return err_sys(e, "take the terminal");
	if (rq->flags & INIT_SHELL) {
		/* moved out of each other's way first */
		int script = fcntl(fds->shell[0], F_DUPFD, 16), status = fcntl(fds->shell[1], F_DUPFD, 16);

		if (dup2(script, INIT_SCRIPT_FD) < 0 || dup2(status, INIT_STATUS_FD) < 0 ||
		    syscall(SYS_close_range, 3, INIT_SCRIPT_FD - 1, 0) < 0 ||
		    syscall(SYS_close_range, INIT_STATUS_FD + 1, ~0U, 0) < 0)
			return err_sys(e, "set up the shell's descriptors");
	} else if (fds->program >= 0) {
		/* above 3, which is init's own socket; close-on-exec, so the program does not see it */
		if (syscall(SYS_close_range, 3, fds->program - 1, 0) < 0 ||
		    syscall(SYS_close_range, fds->program + 1, ~0U, 0) < 0)
			return err_sys(e, "close inherited descriptors");
	} else if (syscall(SYS_close_range, 3, ~0U, 0) < 0) {
		return err_sys(e, "close inherited descriptors");
	}
	return 0;
}

/*
 * Makes the calls directly: musl's functions first block signals, five calls each, to reach threads
 * that init does not have.
 */
/* Whether the kernel gave these, in whatever order (S1). */
static int has_groups(const gid_t *wanted, size_t n)
{
	gid_t given[USER_GROUPS_MAX + 1];
	const long got = syscall(SYS_getgroups, USER_GROUPS_MAX + 1, given);
	size_t i, at;

	if (got < 0 || (size_t)got != n)
		return 0;
	for (i = 0; i < n; i++) {
		for (at = 0; at < n && given[at] != wanted[i]; at++)
			;
		if (at == n)
			return 0;
	}
	return 1;
}

static int become_user(const struct user *who, struct err *e)
{
	/* the main group among the others, too: a program that takes another keeps it, and what is denied to it (CVE-2022-36109) */
	gid_t groups[USER_GROUPS_MAX + 1] = { who->gid };
	size_t n = 1;
	int i;

	for (i = 0; i < who->group_count; i++)
		if (who->groups[i] != who->gid)
			groups[n++] = who->groups[i];
	if (syscall(SYS_setgroups, n, groups) < 0)
		return err_sys(e, "set supplementary groups");
	if (!has_groups(groups, n))
		return err_set(e, ERR_INTERNAL, "the kernel did not set the supplementary groups");
	if (syscall(SYS_setresgid, who->gid, who->gid, who->gid) < 0)
		return err_sys(e, "become group %u", who->gid);
	if (syscall(SYS_setresuid, who->uid, who->uid, who->uid) < 0)
		return err_sys(e, "become user %u", who->uid);
	return 0;
}

static int exec_failed(struct err *e, const struct command *c, int os_errno)
{
	const char *name = c->argv[0];

	if (os_errno == ENOENT || os_errno == ENOTDIR) {
		if (name[0] && !strchr(name, '/'))
			return err_set(e, ERR_EXEC_NOT_FOUND, "command '%.200s' not found in the sandbox, PATH is %.250s", name, c->whole_path);
		err_set(e, ERR_EXEC_NOT_FOUND, "command '%.200s' not found in the sandbox", name);
		if (name[0] && !access(name, F_OK))
			err_set(e, ERR_EXEC, "cannot execute '%.200s': its interpreter is missing from the sandbox", name);
		return -1;
	}
	return err_set(e, ERR_EXEC, "cannot execute '%.200s': %s%s", name, strerror(os_errno),
		       os_errno == E2BIG ? "; hint: one argument or variable has at most 128 KiB, all together a quarter of the stack "
					   "limit (--ulimit stack=): give more by a file or by stdin" : "");
}

/*
 * Gives the program in the first directory of a PATH, "" if the name is too long; returns the
 * length of that directory's name.
 */
static size_t candidate(const char *path, const char *name, char full[4096])
{
	size_t n = strcspn(path, ":");

	if (snprintf(full, 4096, "%.*s%s%s", (int)n, path, n ? "/" : "", name) >= 4096)
		full[0] = '\0';
	return n;
}

/*
 * Skips directories of PATH without the program, before the last filter is loaded: learning it from
 * execve(2) costs several times as much.
 */
static void skip_path(struct command *c)
{
	char full[4096];

	if (!c->argv[0][0] || strchr(c->argv[0], '/'))
		return;
	while (c->path) {
		size_t n = candidate(c->path, c->argv[0], full);

		if (full[0] && (access(full, F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR)))
			return;
		c->path = c->path[n] ? c->path + n + 1 : NULL;
	}
}

/* execvpe(3) without allocation; the last EACCES wins over ENOENT, as in shells. */
static int try_exec(const struct command *c, int program, struct err *e)
{
	const char *name = c->argv[0], *p = c->path;
	char full[4096];
	int saved = ENOENT;

	if (!name[0])
		return exec_failed(e, c, ENOENT);
	if (program >= 0) {
		syscall(SYS_execveat, program, "", c->argv, c->envp, AT_EMPTY_PATH);
		return exec_failed(e, c, errno);
	}
	if (strchr(name, '/')) {
		execve(name, c->argv, c->envp);
		return exec_failed(e, c, errno);
	}
	while (p) {
		size_t n = candidate(p, name, full);

		if (full[0]) {
			execve(full, c->argv, c->envp);
			if (errno != ENOENT && errno != ENOTDIR)
				saved = errno;
			if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
				break;
		}
		if (!p[n])
			break;
		p += n + 1;
	}
	return exec_failed(e, c, saved);
}

/* Upholds S6 of SECURITY.md. */
/* Deny-by-argument first, then the allow-list: the kernel takes the stricter answer (S6). */
static int load_command_filters(const struct command *c, int first, int end, struct err *e)
{
	int i;

	/* the kernel takes three arguments, its filters see six: the fourth lets ours through */
	for (i = first; i < end; i++)
		if (c->filter[i].len &&
		    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &c->filter[i],
			    c->filter_secret) < 0)
			return err_filter(e, "a seccomp filter", c->filter[i].len);
	return 0;
}

static int join_tasks(const struct exec_fds *fds, struct err *e)
{
	uint32_t i;

	for (i = 0; i < fds->task_count; i++)
		if (write(fds->tasks[i], "0", 1) != 1)
			return err_sys(e, "join the command's cgroup");
	return 0;
}

/*
 * A terminal becomes the user's, as login(1) does, and so does a pipe of the keeper's, which the
 * program may open once more as /dev/stdout.  A pipe of a caller has an owner outside and stays
 * as it is; without all of it the command still runs.
 */
static void own_stdio(const struct init_request *rq, const struct user *who)
{
	struct stat st;
	int i;

	if (rq->flags & INIT_TTY)
		(void)!fchown(0, who->uid, (gid_t)-1);
	for (i = 0; who->uid && i < 3; i++)
		if (fstat(i, &st) == 0 && S_ISFIFO(st.st_mode) && st.st_uid == 0)
			(void)!fchown(i, who->uid, (gid_t)-1);
}

static int run_in_command_child(const struct init_request *rq, struct command *c, const struct exec_fds *fds, struct err *e)
{
	sigset_t none;
	int not_made = 0;

	/*
	 * Steps that read files of the sandbox come after the deny-by-argument filters. The
	 * allow-list comes last, because one from a file may refuse the steps before it.
	 */
	if (join_tasks(fds, e) < 0 || set_stdio(rq, fds, e) < 0 || set_command_rlimits(&rq->rlimits, e) < 0 ||
	    load_command_filters(c, 0, INIT_FILTERS - 1, e) < 0 || user_lookup(c->user, &c->who, e) < 0)
		return -1;
	add_home(rq, c);
	if (expand_cwd(c, e) < 0)
		return -1;
	if (rq->flags & INIT_MAKE_CWD)
		not_made = make_command_cwd(c->cwd, &c->who);
	own_stdio(rq, &c->who);
	if (become_user(&c->who, e) < 0)
		return -1;
	if (enter_command_cwd(c->cwd, not_made, e) < 0)
		return -1;
	umask(rq->umask);
	sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		return err_sys(e, "unblock the signals");
	if (fds->program < 0)
		skip_path(c);
	if (load_command_filters(c, INIT_FILTERS - 1, INIT_FILTERS, e) < 0)
		return -1;
	return try_exec(c, fds->program, e);
}

static pid_t clone_command(const struct exec_fds *fds)
{
	struct clone_args a = { .flags = CLONE_VFORK, .exit_signal = SIGCHLD };

	if (fds->cgroup >= 0) {
		a.flags |= CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)fds->cgroup;
	}
	return (pid_t)syscall(SYS_clone3, &a, sizeof(a));
}

pid_t exec_start(const struct init_request *rq, const char *blob, const struct exec_fds *fds, struct err *e)
{
	static struct err *shared;
	struct command c = { 0 };
	pid_t pid;

	if (!shared) {
		shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (shared == MAP_FAILED) {
			shared = NULL;
			return err_sys(e, "share a page with the command");
		}
	}
	if (split_request(rq, blob, &c, e) < 0)
		return -1;
	shared->code = ERR_NONE;
	pid = clone_command(fds);
	if (pid == 0) {
		run_in_command_child(rq, &c, fds, shared);
		_exit(127);
	}
	free(c.argv);
	if (pid < 0)
		return err_sys(e, "fork the command");
	if (shared->code == ERR_NONE)
		return pid;
	*e = *shared;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return -1;
}
