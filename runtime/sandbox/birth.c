/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sandbox/birth.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

/*
 * Becomes the user that makes the user namespace. The host user that makes a user namespace owns
 * it, and the kernel charges that user for inotify instances, message queues and pending signals.
 * If root made it, one sandbox could use up root's share, and with it that of all the others (S23).
 * So the sandbox's own uid makes it, with the capabilities that this needs.
 */
static int become_birth_owner(struct birth *b, uid_t uid, struct err *e)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };

	b->dumpable = prctl(PR_GET_DUMPABLE);
	/* for this thread alone */
	if (syscall(SYS_capget, &h, b->caps) < 0 || syscall(SYS_setresuid, -1, uid, -1) < 0)
		return err_sys(e, "become the owner of the sandbox's user namespace");
	b->is_other = 1;
	if (syscall(SYS_capset, &h, b->caps) < 0)
		return err_sys(e, "keep capabilities as the owner of the sandbox's user namespace");
	prctl(PR_SET_DUMPABLE, b->dumpable);	/* changed with the uid */
	return 0;
}

static int become_root_again(const struct birth *b, struct err *e)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };

	if (!b->is_other)
		return 0;
	/* the saved uid is root's */
	if (syscall(SYS_setresuid, -1, 0, -1) < 0 || syscall(SYS_capset, &h, b->caps) < 0)
		return err_sys(e, "become root again after the sandbox's user namespace");
	prctl(PR_SET_DUMPABLE, b->dumpable);
	return 0;
}

/*
 * Upholds S20 of SECURITY.md.
 *
 * The child is born in the network namespace that it joins, which it could not enter from its own
 * user namespace: that namespace belongs to the other sandbox's.  So whatever capabilities the
 * child and its payload hold in their own user namespace, they hold none over this network.
 */
static int enter_joined(struct birth *b, const struct spec *s, struct err *e)
{
	if (s->network != NETWORK_JOINED)
		return 0;
	b->own_net_fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (b->own_net_fd < 0 || s->joined.netns_fd < 0 || setns(s->joined.netns_fd, CLONE_NEWNET) < 0)
		return err_sys(e, "enter the network of sandbox %s", s->joined.id);
	return 0;
}

int birth_begin(struct birth *b, const struct spec *s, struct err *e)
{
	return enter_joined(b, s, e) < 0 ? -1 : become_birth_owner(b, s->id_base, e);
}

int birth_end(struct birth *b, struct err *e)
{
	int r = become_root_again(b, e);

	if (b->own_net_fd >= 0 && setns(b->own_net_fd, CLONE_NEWNET) < 0)
		r = err_sys(e, "return to the host's network");
	fd_close(&b->own_net_fd);
	return r;
}

/* ---- inside the namespaces of a zygote ---- */

/*
 * Theory of operation.  We cannot come back from another user namespace, and clone3 makes no pid
 * namespace for a process that has only set the one of its children.  So one helper sets that
 * one, a second is born in it, becomes the owner, enters the user namespace and clones the child.
 * Both share our memory and descriptors while we wait (CLONE_VFORK), and the child is ours by
 * CLONE_PARENT.  Processes of the zygote can see the second helper and the child, but not trace
 * them: this memory is not dumpable, and its user namespace is the host's (ptrace(2)).
 */

#define STACK_BYTES (512 << 10)
#define SHARING (CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD)

struct helper {
	struct nested *n;
	char *stack; /* of the second */
	pid_t second;
	int done;
	struct err *e;
};

/* Becomes its own uid and gid, with all capabilities, and the host root's rights on files: cgroupfs
 * asks for those. */
static int become_zygote_owner(const struct spec_inside *in, struct err *e)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct caps[2];

	if (syscall(SYS_capget, &h, caps) < 0 ||
	    syscall(SYS_setresgid, -1, in->owner_gid, -1) < 0 ||
	    syscall(SYS_setresuid, -1, in->owner_uid, -1) < 0 || syscall(SYS_capset, &h, caps) < 0)
		return err_sys(e, "become the owner of the fork's user namespace");
	syscall(SYS_setfsgid, 0);
	syscall(SYS_setfsuid, 0);
	return 0;
}

/* The child's pid in the procfs that we see. */
static int learn_pid(struct nested *n, struct err *e)
{
	char path[48], text[512];
	autoclose int fd = -1;
	const char *p;
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", n->pidfd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (got < 0)
		return err_sys(e, "read %s", path);
	text[got] = '\0';
	p = strstr(text, "Pid:\t");
	n->pid = p ? (pid_t)strtol(p + 5, NULL, 10) : 0;
	return n->pid > 0 ? 0 : err_set(e, ERR_INTERNAL, "the fork's sandbox has no pid here");
}

/* The kernel takes the map from a process of the parent's namespace, in its ids. */
static int map_nested_ids(const struct nested *n, struct err *e)
{
	static const char *const names[] = {"uid_map", "gid_map"};
	char path[48], map[64];
	size_t i;

	snprintf(map, sizeof(map), "0 %u %u\n", n->spec->inside->id_at, SPEC_IDS);
	for (i = 0; i < ARRAY_LEN(names); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)n->pid, names[i]);
		if (io_write_file(AT_FDCWD, path, map, e) < 0)
			return -1;
	}
	return 0;
}

static int second(void *ctx)
{
	struct helper *h = ctx;
	struct nested *n = h->n;
	struct clone_args a = {
		.flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_PIDFD | CLONE_INTO_CGROUP |
			 CLONE_PARENT,
		.pidfd = (uint64_t)(uintptr_t)&n->pidfd,
		.cgroup = (uint64_t)n->cgroup_fd,
	};
	long pid;

	if (become_zygote_owner(n->spec->inside, h->e) < 0)
		_exit(1);
	if (setns(n->spec->inside->userns_fd, CLONE_NEWUSER) < 0) {
		err_sys(h->e, "enter the zygote's user namespace");
		_exit(1);
	}
	pid = syscall(SYS_clone3, &a, sizeof(a));
	if (pid == 0)
		n->run(n->ctx);
	if (pid < 0)
		err_sys(h->e, "clone the fork's sandbox");
	else if (learn_pid(n, h->e) == 0 && map_nested_ids(n, h->e) == 0)
		h->done = 1;
	_exit(0);
}

static int first(void *ctx)
{
	struct helper *h = ctx;

	if (setns(h->n->spec->inside->pidns_fd, CLONE_NEWPID) < 0)
		err_sys(h->e, "enter the zygote's pid namespace");
	else if ((h->second = clone(second, h->stack + STACK_BYTES, SHARING | CLONE_PARENT, h)) < 0)
		err_sys(h->e, "clone a helper in the zygote's pid namespace");
	_exit(0);
}

static void reap_nested_helper(pid_t pid)
{
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

int nested_clone(struct nested *n, struct err *e)
{
	char *stacks = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	struct helper h = {.n = n, .stack = stacks, .e = e};
	pid_t pid;

	if (stacks == MAP_FAILED)
		return err_nomem(e);
	n->pidfd = -1;
	n->pid = 0;
	if (prctl(PR_SET_DUMPABLE, 0) < 0) {
		err_sys(e, "forbid being traced");
	} else {
		pid = clone(first, stacks + 2 * STACK_BYTES, SHARING, &h);
		if (pid < 0)
			err_sys(e, "clone a helper for the fork's sandbox");
		reap_nested_helper(pid);
		reap_nested_helper(h.second);
	}
	munmap(stacks, 2 * STACK_BYTES);
	return h.done ? 0 : -1;
}
