/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tbf - the kernel's token buckets that bound the rate of a sandbox on a bridge (tc-tbf(8)).
 *
 * The one on our end of the pair bounds what the sandbox receives, the one on its end what it
 * sends.  The latter is in the sandbox's network namespace, where changing it takes CAP_NET_ADMIN.
 */
#ifndef BERTH_RUNTIME_NET_TBF_H
#define BERTH_RUNTIME_NET_TBF_H

#include <stdint.h>

#include "base/err.h"

/*
 * Sets the rate, bytes a second (0: none), of the interface port here and of inside in netns_fd.
 * In place of another rate it applies at once.
 */
int tbf_set(const char *port, int netns_fd, const char *inside, uint64_t rate, struct err *e);

#endif
