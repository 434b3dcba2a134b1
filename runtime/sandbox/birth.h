/* SPDX-License-Identifier: Apache-2.0 */
/* birth - makes the user and the network namespace with which the supervisor clones the child. */
#ifndef BERTH_RUNTIME_SANDBOX_BIRTH_H
#define BERTH_RUNTIME_SANDBOX_BIRTH_H

#include <linux/capability.h>

#include "runtime/sandbox/spec.h"

struct birth {
	struct __user_cap_data_struct caps[2];
	int dumpable, is_other;
	int own_net_fd;	/* the supervisor's network namespace while it is in another; else -1 */
};

#define BIRTH_NONE { .own_net_fd = -1 }

/* Makes them for s; birth_end() must follow, also after an error. */
int birth_begin(struct birth *b, const struct spec *s, struct err *e);
int birth_end(struct birth *b, struct err *e);

/* ---- inside the namespaces of a zygote ---- */

/*
 * nested - makes a sandbox inside the user and pid namespaces of another, the zygote.
 *
 * A fork of the zygote's process can enter only namespaces below its own (user_namespaces(7),
 * setns(2)). So the sandbox that will take the fork is made there: its ids are ids that the
 * zygote's user namespace maps, and from outside it looks like any other.
 */

struct nested {
	const struct spec *spec;
	int cgroup_fd; /* it is born in */
	int pidfd;     /* set by nested_clone(): a pidfd of the child, which is a child of ours */
	pid_t pid;     /* set by nested_clone(): the child's pid as we see it */
	/* runs in the child, in a copy of our memory, and does not return */
	void (*run)(void *ctx);
	void *ctx;
};

/* Makes the child in a new user and pid namespace, and maps its ids. */
int nested_clone(struct nested *n, struct err *e);

#endif
