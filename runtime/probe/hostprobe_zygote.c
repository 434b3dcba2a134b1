/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostprobe_zygote - the requirements of zygotes (runtime/sandbox/graft.h): a process under the
 * filters of the standard profile is stopped, makes calls of ours without them, one of which is a
 * clone, and has them again.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "runtime/kernel/inject.h"
#include "runtime/probe/hostprobe.h"

#ifdef __x86_64__
#define PROBE_MS 5000
#define PATH_AT 64

static void tracee(struct host_finding *f)
{
	struct err e;

	(void)f;
	if (host_load_standard(&e) < 0)
		return; /* host_probe_seccomp() tells why */
	for (;;)
		syscall(SYS_pause);
}

/* What umount2(2) of a file that does not exist returns: EPERM is the filters' answer. */
static int try_umount(struct inject *t, int want, struct err *e)
{
	static const char path[] = "/nonexistent/berth-doctor";
	struct inject_call c = {.nr = SYS_umount2, .arg = {inject_room(t, PATH_AT)}};

	if (inject_put(t, PATH_AT, path, sizeof(path), e) < 0 ||
	    inject_batch(t, &c, 1, NULL, e) < 0)
		return -1;
	if (c.result == -want)
		return 0;
	return err_set(e, ERR_UNSUPPORTED,
		       want == EPERM ? "the filters of a traced process stay suspended" :
				       "the filters of a traced process were not suspended");
}

static int try_getfd(const struct inject *t, struct err *e)
{
	autoclose int pidfd = (int)syscall(SYS_pidfd_open, t->pid, 0);
	autoclose int fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, 0, 0);

	return fd < 0 ? err_sys(e, "take a descriptor of a traced process") : 0;
}

/* The steps of graft_fork(), in its order. */
static int try(struct inject *t, pid_t pid, struct inject *child, struct err *e)
{
	struct inject_call map = {.nr = SYS_mmap,
				  .arg = {0, INJECT_PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
					  MAP_PRIVATE | MAP_ANONYMOUS, (uint64_t)-1, 0},
				  .what = "map a page in a traced process"};
	struct inject_call clone = {.nr = SYS_clone,
				    .arg = {CLONE_VM | CLONE_PARENT},
				    .what = "clone a traced process"};
	struct user_regs_struct r;
	uint64_t rseq[3];

	if (inject_seize(t, pid, clock_ms() + PROBE_MS, e) < 0)
		return -1;
	do
		if (inject_next_entry(t, &r, e) < 0)
			return -1;
	while (r.orig_rax != SYS_pause);
	if (inject_unfilter(t, 1, e) < 0 || inject_rseq(t, rseq, e) < 0 ||
	    inject_replace(t, &map, e) < 0 || inject_map(t, (uint64_t)map.result, e) < 0 ||
	    try_umount(t, ENOENT, e) < 0 || try_getfd(t, e) < 0 ||
	    inject_batch(t, &clone, 1, child, e) < 0)
		return -1;
	inject_end(child);
	return inject_unfilter(t, 0, e) < 0 ? -1 : try_umount(t, EPERM, e);
}

void host_probe_zygote(const struct hostinfo_place *p, const struct host_probe *probe,
		       struct host_finding *f)
{
	struct inject t = {.pid = 0}, child = {.pid = 0};
	struct host_inner in;
	sigset_t chld;
	struct err e;

	(void)probe;
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL); /* inject_seize() wants it so */
	if (host_inner_start(&in, p, CLONE_NEWUSER | CLONE_NEWNS, tracee, f) < 0)
		return;
	fd_close(&in.go_fd);
	if (try(&t, in.pid, &child, &e) < 0)
		host_err(f, &e);
	else
		host_say(f, HOST_OK,
			 "a traced process made calls of ours with its filters suspended, and has "
			 "them again");
	inject_end(&child);
	kill(in.pid, SIGKILL); /* seized or not; whoever reaps it */
	inject_end(&t);
	host_inner_end(&in);
}
#else
void host_probe_zygote(const struct hostinfo_place *p, const struct host_probe *probe,
		       struct host_finding *f)
{
	struct err e;

	(void)p, (void)probe;
	(void)inject_available(&e);
	host_err(f, &e);
}
#endif
