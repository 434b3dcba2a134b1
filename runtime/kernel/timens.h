/* SPDX-License-Identifier: Apache-2.0 */
/* timens - a time namespace whose clocks hide the host's uptime (K15, time_namespaces(7)). */
#ifndef BERTH_RUNTIME_KERNEL_TIMENS_H
#define BERTH_RUNTIME_KERNEL_TIMENS_H

#include "base/err.h"

/*
 * unshare(flags) with a time namespace for our children and our next program, which kernels before
 * 5.6 do not have.  -1 with errno.
 */
int timens_unshare(int flags);
/* Makes its clocks start near zero, before anybody is in it. */
int timens_zero(struct err *e);

#endif
