/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sandbox/filterwatch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/fdpass.h"
#include "seccomp/watch.h"

#define SHARE 64	/* part of the host's limit; a tenant has 50 sandboxes by default */
#define LOADS_MIN 16
#define LOADS_MAX 4096
#define LOADS_UNKNOWN 64
#define TASK_LOADS (FILTERWATCH_TASK_BYTES / FILTERWATCH_LOAD_BYTES)
#define LOOK_EVERY_MS 100	/* a look at 500 processes takes 15 ms */
#define CGROUP_DEPTH 4

unsigned filterwatch_max(uint64_t jit_limit)
{
	uint64_t n = jit_limit / SHARE / FILTERWATCH_LOAD_BYTES;

	if (!jit_limit)
		return LOADS_UNKNOWN;
	return n < LOADS_MIN ? LOADS_MIN : n > LOADS_MAX ? LOADS_MAX : (unsigned)n;
}

uint64_t filterwatch_jit_limit(void)
{
	char text[32];

	if (cgroup_read(AT_FDCWD, "/proc/sys/net/core/bpf_jit_limit", text, sizeof(text)) <= 0)
		return 0;
	return strtoull(text, NULL, 10);
}

void filterwatch_init(struct filterwatch *w)
{
	*w = (struct filterwatch){ .fd = -1 };
}

int filterwatch_prepare(struct filterwatch *w, const struct spec *s, struct err *e)
{
	if (s->unconfined_seccomp)
		return 0;
	if (getrandom(&w->secret, sizeof(w->secret), 0) != (ssize_t)sizeof(w->secret))
		return err_sys(e, "make a secret for the sandbox's filters");
	w->ours = 1u + !!spec_writes_host(s) + !!s->seccomp->a.len + !!s->seccomp->b.len;
	w->awaited = 1;
	return 0;
}

void filterwatch_close(struct filterwatch *w)
{
	fd_close(&w->fd);
	free(w->loader);
	w->loader = NULL;
}

/* ---- the child's half ------------------------------------------------------------ */

static long load_watched_filter(const struct filterwatch *w, const struct spec *s, unsigned flags, uint32_t action,
		 struct err *e)
{
	struct sock_filter insns[SECCOMP_WATCH_MAX];
	const struct seccomp_filter *init = &seccomp_builtin("init")->b;
	struct sock_fprog prog = { .filter = insns };
	int n = seccomp_watch(spec_init_filtered(s) ? init : NULL, w->secret, action, insns, e);
	long r;

	if (n < 0)
		return -1;
	prog.len = (unsigned short)n;
	r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
	return r < 0 ? err_filter(e, "a seccomp filter", prog.len) : r;
}

/*
 * Loads the filter. A call that the supervisor has received waits for it even if a signal comes
 * (Linux 5.19), else the program would see EINTR. If a container manager around berth listens
 * already (EBUSY), berth cannot count: then the payload can load no filters.
 */
int filterwatch_enter(const struct filterwatch *w, const struct spec *s, int sock, struct err *e)
{
	const unsigned flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
	uint32_t tag = FILTERWATCH_TAG;
	autoclose int fd = (int)load_watched_filter(w, s, flags | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
				     SECCOMP_RET_USER_NOTIF, e);
	int sent;

	if (fd < 0 && e->os_errno == EINVAL)
		fd = (int)load_watched_filter(w, s, flags, SECCOMP_RET_USER_NOTIF, e);
	if (fd < 0 && (e->os_errno != EBUSY || load_watched_filter(w, s, 0, SECCOMP_RET_ERRNO | ENOMEM, e) < 0))
		return -1;
	sent = fdpass_send(sock, &tag, sizeof(tag), &fd, fd >= 0);
	return sent < 0 ? err_sys(e, "hand over the listener of filters") : 0;
}

/* ---- the supervisor's half --------------------------------------------------------- */

static unsigned long status_number(const char *status, const char *name, unsigned long otherwise)
{
	const char *p = strstr(status, name);

	return p ? strtoul(p + strlen(name), NULL, 10) : otherwise;
}

/* Reads the process's status; 0: the process is gone. */
static int read_filter_status(pid_t pid, struct buf *b)
{
	char path[40];
	struct err ignored;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	return io_read_file(AT_FDCWD, path, b, &ignored) == 0 && b->len;
}

static struct filterwatch_loader *loader_of(struct filterwatch *w, pid_t pid)
{
	unsigned i;

	for (i = 0; i < w->loaders; i++)
		if (w->loader[i].pid == pid)
			return &w->loader[i];
	return NULL;
}

static unsigned long least_filters(unsigned long a, unsigned long b)
{
	return a < b ? a : b;
}

/*
 * The largest number of loads that a listed process can have. If the kernel refused loads after
 * all, the inherited part looks smaller, but those loads count themselves. A process that has
 * ended since may have left its filters to a child that is not on the list.
 */
static unsigned long loads_of(struct filterwatch *w, pid_t pid)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	const struct filterwatch_loader *l = loader_of(w, pid);
	unsigned long own, born, threads;

	if (!read_filter_status(pid, &b))
		return TASK_LOADS + (l ? l->loads : 0);
	own = status_number(b.data, "\nSeccomp_filters:\t", w->ours + TASK_LOADS);
	own = own > w->ours ? own - w->ours : 0;
	born = l ? own - least_filters(own, l->leader_loads) : own;
	/* for a first thread that has ended the kernel reports no filters */
	if (strstr(b.data, "\nState:\tZ"))
		born = TASK_LOADS;
	threads = status_number(b.data, "\nThreads:\t", LOADS_MAX);
	return least_filters(least_filters(born, TASK_LOADS) + (l ? l->loads : 0), threads * TASK_LOADS);
}

struct look {
	struct filterwatch *w;
	unsigned long loads;
	unsigned char *seen;	/* flags for w->loader[] */
};

static void find_filters_of_pids(struct look *k, const char *pids)
{
	char *end;

	for (; *pids; pids = end + strspn(end, "\n")) {
		long pid = strtol(pids, &end, 10);
		struct filterwatch_loader *l;

		if (end == pids)
			return;
		k->loads += loads_of(k->w, (pid_t)pid);
		if ((l = loader_of(k->w, (pid_t)pid)))
			k->seen[l - k->w->loader] = 1;
	}
}

/* A cgroup and those below it: each command of a resident sandbox has one. */
static int find_filters_below(struct look *k, int dir_fd, int depth)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	autoclose int fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct err ignored;
	struct dirent *d;

	if (!dir) {
		fd_close(&copy);
		return -1;
	}
	if (fd < 0 || io_read_all(fd, &b, "cgroup.procs", &ignored) < 0 || !depth)
		r = -1;
	else if (b.len)
		find_filters_of_pids(k, b.data);
	while (r == 0 && (d = readdir(dir))) {
		autoclose int sub = -1;

		if (d->d_type != DT_DIR || d->d_name[0] == '.')
			continue;
		sub = openat(dir_fd, d->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		/* a cgroup that was removed meanwhile was empty */
		if (sub >= 0)
			r = find_filters_below(k, sub, depth - 1);
		else if (errno != ENOENT)
			r = -1;
	}
	closedir(dir);
	return r;
}

/* Lowers `used` to what the living can have, and forgets loaders that ended. */
static void recount_filters(struct filterwatch *w, int cgroup_fd)
{
	struct look k = { .w = w, .seen = calloc(w->max, 1) };
	unsigned i, n = 0;

	if (k.seen && find_filters_below(&k, cgroup_fd, CGROUP_DEPTH) == 0) {
		if (k.loads < w->used)
			w->used = (unsigned)k.loads;
		for (i = 0; i < w->loaders; i++)
			if (k.seen[i])
				w->loader[n++] = w->loader[i];
		w->loaders = n;
	}
	free(k.seen);
	if (w->used >= w->max)
		w->look_after_ms = clock_ms() + LOOK_EVERY_MS;
}

/* Counts one load of the task, unless the budget is used up. */
static int admit(struct filterwatch *w, pid_t task, int cgroup_fd)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	struct filterwatch_loader *l;
	pid_t pid;

	if (!w->max)
		w->max = filterwatch_max(filterwatch_jit_limit());
	if (!w->loader && !(w->loader = calloc(w->max, sizeof(*w->loader))))
		return 0;
	if (w->used >= w->max && clock_ms() >= w->look_after_ms)
		recount_filters(w, cgroup_fd);
	if (w->used >= w->max || !read_filter_status(task, &b))
		return 0;
	pid = (pid_t)status_number(b.data, "\nTgid:\t", (unsigned long)task);
	l = loader_of(w, pid);
	if (!l) {
		if (w->loaders >= w->max)
			return 0;
		l = &w->loader[w->loaders++];
		*l = (struct filterwatch_loader){ .pid = pid };
	}
	w->used++;
	l->loads++;
	l->leader_loads += pid == task;
	return 1;
}

/*
 * Serves the listener. This is its only reader, and an abandoned call still makes it readable: then
 * receiving fails at once with ENOENT (seccomp_notify_recv()).
 */
void filterwatch_serve(struct filterwatch *w, int cgroup_fd)
{
	struct pollfd p = { .fd = w->fd, .events = POLLIN };
	struct seccomp_notif call;
	struct seccomp_notif_resp answer = { 0 };

	if (w->fd < 0 || poll(&p, 1, 0) != 1)
		return;
	if (!(p.revents & POLLIN)) {
		fd_close(&w->fd);	/* no process has the filter any more */
		return;
	}
	memset(&call, 0, sizeof(call));
	if (ioctl(w->fd, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
		return;
	answer.id = call.id;
	if (admit(w, (pid_t)call.pid, cgroup_fd))
		answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	else
		answer.error = -ENOMEM;
	/* ENOENT: the task was killed meanwhile; its load counts until the next look */
	(void)!ioctl(w->fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
}
