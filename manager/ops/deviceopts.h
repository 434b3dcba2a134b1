/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deviceopts - --device and --gpus.
 *
 * A value that begins with / is the path of a node, any other the name of a device in a CDI
 * specification (cdi.h).  The text is checked when the option is read; what it means on this host
 * is found out at each start, as numbers of devices change.
 */
#ifndef BERTH_MANAGER_OPS_DEVICEOPTS_H
#define BERTH_MANAGER_OPS_DEVICEOPTS_H

#include "manager/ops/devices.h"

/* PATH[:TARGET][:rwm], or VENDOR/CLASS=NAME.  ERR_INVALID. */
int deviceopts_check(const char *value, struct err *e);
/* all, a number of GPUs, or device=NAME,...: calls each with VENDOR/CLASS=NAME.  ERR_INVALID. */
int deviceopts_gpus(const char *value, int (*each)(void *ctx, const char *device, struct err *e),
		    void *ctx, struct err *e);
/*
 * Resolves the values on this host now. ERR_NOT_FOUND, ERR_DENIED for a device that is as good
 * as root, ERR_UNSUPPORTED for requests of a specification that berth does not support.
 */
int deviceopts_resolve(struct devices *d, const struct config *c, const char *const *values,
		       size_t n, struct err *e);

#endif
