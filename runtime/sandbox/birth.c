/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sandbox/birth.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

/*
 * The host user that makes a user namespace owns it, and the kernel charges that user for
 * inotify instances, message queues and pending signals. If root made it, one sandbox could use
 * up root's share, and with it that of all the others (S23). So the sandbox's own uid makes it,
 * with the capabilities that this needs.
 */
static int become_owner(struct birth *b, uid_t uid, struct err *e)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };

	b->dumpable = prctl(PR_GET_DUMPABLE);
	/* of this thread alone, as all of them are */
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
	return enter_joined(b, s, e) < 0 ? -1 : become_owner(b, s->id_base, e);
}

int birth_end(struct birth *b, struct err *e)
{
	int r = become_root_again(b, e);

	if (b->own_net_fd >= 0 && setns(b->own_net_fd, CLONE_NEWNET) < 0)
		r = err_sys(e, "return to the host's network");
	fd_close(&b->own_net_fd);
	return r;
}
