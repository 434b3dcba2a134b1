/* SPDX-License-Identifier: Apache-2.0 */
/* birth - the user and the network namespace with which the supervisor clones the child. */
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

/* birth_end() must follow, also after an error. */
int birth_begin(struct birth *b, const struct spec *s, struct err *e);
int birth_end(struct birth *b, struct err *e);

#endif
