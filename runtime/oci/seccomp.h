/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_seccomp - compiles and loads linux.seccomp (config-linux.md, "Seccomp").
 *
 * Compiled by the runtime while the container's process mounts its file
 * systems; that process only loads it.  Unlike `berth run --seccomp`, the
 * document is followed as runc and crun do: every architecture it lists, its
 * flags, notification.
 */
#ifndef BERTH_RUNTIME_OCI_SECCOMP_H
#define BERTH_RUNTIME_OCI_SECCOMP_H

#include <jansson.h>
#include <linux/filter.h>
#include <stddef.h>

#include "base/err.h"

struct oci_seccomp {
	struct sock_filter *insns;	/* NULL: no filter */
	unsigned short count;
	unsigned flags;	/* SECCOMP_FILTER_FLAG_* */
	int notify;	/* a listener must be notified */
};

/* Compiles the configuration's linux.seccomp; without it there is no filter. ret is zeroed storage. */
int oci_seccomp_compile(struct oci_seccomp *ret, const json_t *config, struct err *e);
void oci_seccomp_release(struct oci_seccomp *s);
/* Loads the filter, in the container's process. *ret_listener is the notification descriptor, or -1. */
int oci_seccomp_load(const struct oci_seccomp *s, int *ret_listener, struct err *e);
/* Connects to the listener and sends it the descriptor with the container process state (JSON). */
int oci_seccomp_tell(const char *socket_path, int listener_fd, const json_t *message, struct err *e);

/* Lists the words that this build knows, for `features`; NULL at the end. */
extern const char *const oci_seccomp_actions[], *const oci_seccomp_operators[], *const oci_seccomp_archs[],
	*const oci_seccomp_flags[];

#endif
