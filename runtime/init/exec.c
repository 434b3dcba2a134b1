/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The child is made by vfork(2): it borrows init's memory until execve, so it
 * may only make system calls and write to *e.  That spares a pipe for the error
 * and a copy of the page tables for each command.
 */
#include "runtime/init/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/init/user.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct command {
	const char *user, *cwd;
	char **argv, **envp;
	const char *path;	/* the PATH to search */
	struct user who;
};

/* The blob must hold exactly the strings its header counts. */
static int split(const struct init_request *rq, const char *blob, struct command *c, struct err *e)
{
	static char home[sizeof(((struct user *)0)->home) + 8];
	const char *p = blob, *end = blob + rq->blob_len;
	uint64_t count = 2ULL + rq->argc + rq->envc, i;
	int has_home = 0;
	char **v;

	if (!rq->argc || count > rq->blob_len || !rq->blob_len || end[-1])
		return err_set(e, ERR_INTERNAL, "malformed command request");
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
		if (i >= 2ULL + rq->argc) {
			if (!strncmp(p, "PATH=", 5))
				c->path = p + 5;
			if (!strncmp(p, "HOME=", 5))
				has_home = 1;
		}
		p += strlen(p) + 1;
	}
	if (!c->path || !c->path[0])
		c->path = DEFAULT_PATH;
	if (user_lookup(c->user, &c->who, e) < 0) {
		free(v);
		return -1;
	}
	if (!has_home) {
		snprintf(home, sizeof(home), "HOME=%s", c->who.home[0] ? c->who.home : c->who.uid ? "/" : "/root");
		c->envp[rq->envc] = home;
	}
	return 0;
}

/* mkdir -p, inside the sandbox's own root, owned by who will use it. */
static void make_cwd(const char *path, const struct user *who)
{
	char part[4096];
	size_t i, len = strlen(path);

	if (len >= sizeof(part))
		return;
	for (i = 1; i <= len; i++) {
		if (path[i] != '/' && path[i])
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (!mkdir(part, 0755) && lchown(part, who->uid, who->gid) < 0)
			return;
	}
}

static int set_rlimits(const struct rlimits *r, struct err *e)
{
	int i;

	for (i = 0; i < RLIMITS_COUNT; i++) {
		struct rlimit l = { r->v[i].soft, r->v[i].hard };

		if (r->set & 1u << i && setrlimit(i, &l) < 0)
			return err_sys(e, "set resource limit %d", i);
	}
	return 0;
}

static int set_stdio(const struct init_request *rq, const int std[3], struct err *e)
{
	int i;

	if (setsid() < 0)
		return err_sys(e, "start a session");
	/* the three are above 2 in init, so no dup2 clobbers a source */
	for (i = 0; i < 3; i++)
		if (dup2(std[i], i) < 0)
			return err_sys(e, "set up descriptor %d", i);
	if (rq->flags & INIT_TTY && ioctl(0, TIOCSCTTY, 0) < 0)
		return err_sys(e, "take the terminal");
	if (syscall(SYS_close_range, 3, ~0U, 0) < 0)
		return err_sys(e, "close inherited descriptors");
	return 0;
}

static int become(const struct user *who, struct err *e)
{
	if (setgroups((size_t)who->group_count, who->groups) < 0)
		return err_sys(e, "set supplementary groups");
	if (setresgid(who->gid, who->gid, who->gid) < 0)
		return err_sys(e, "become group %u", who->gid);
	if (setresuid(who->uid, who->uid, who->uid) < 0)
		return err_sys(e, "become user %u", who->uid);
	return 0;
}

static int exec_failed(struct err *e, const char *name, int os_errno)
{
	if (os_errno == ENOENT || os_errno == ENOTDIR) {
		err_set(e, ERR_EXEC_NOT_FOUND, "command '%.200s' not found in the sandbox", name);
		if (strchr(name, '/') && !access(name, F_OK))
			err_set(e, ERR_EXEC, "cannot execute '%.200s': its interpreter is missing from the sandbox", name);
		return -1;
	}
	return err_set(e, ERR_EXEC, "cannot execute '%.200s': %s", name, strerror(os_errno));
}

/* execvpe(3) without allocation; the last EACCES wins over ENOENT, as in shells. */
static int try_exec(const struct command *c, struct err *e)
{
	const char *name = c->argv[0], *p = c->path;
	char full[4096];
	int saved = ENOENT;

	if (!name[0])
		return exec_failed(e, name, ENOENT);
	if (strchr(name, '/')) {
		execve(name, c->argv, c->envp);
		return exec_failed(e, name, errno);
	}
	for (;;) {
		size_t n = strcspn(p, ":");
		int len = snprintf(full, sizeof(full), "%.*s%s%s", (int)n, p, n ? "/" : "", name);

		if (len > 0 && (size_t)len < sizeof(full)) {
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
	return exec_failed(e, name, saved);
}

static int in_child(const struct init_request *rq, const struct command *c, const int std[3], struct err *e)
{
	sigset_t none;

	if (set_stdio(rq, std, e) < 0 || set_rlimits(&rq->rlimits, e) < 0 || become(&c->who, e) < 0)
		return -1;
	if (chdir(c->cwd) < 0)
		return err_sys(e, "enter working directory '%.200s' in the sandbox", c->cwd);
	umask(rq->umask);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	return try_exec(c, e);
}

pid_t exec_start(const struct init_request *rq, const char *blob, const int std[3], struct err *e)
{
	struct command c = { 0 };
	volatile int failed = 0;
	pid_t pid;

	if (split(rq, blob, &c, e) < 0)
		return -1;
	if (rq->flags & INIT_MAKE_CWD)
		make_cwd(c.cwd, &c.who);
	pid = vfork();
	if (pid == 0) {
		failed = in_child(rq, &c, std, e) < 0;
		_exit(127);
	}
	free(c.argv);
	if (pid < 0)
		return err_sys(e, "fork the command");
	return failed ? -1 : pid;
}
