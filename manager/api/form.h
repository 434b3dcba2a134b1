/* SPDX-License-Identifier: Apache-2.0 */
/* form - a body of multipart/form-data (RFC 7578), whole in memory.  Pure. */
#ifndef BERTH_MANAGER_API_FORM_H
#define BERTH_MANAGER_API_FORM_H

#include "base/buf.h"
#include "base/err.h"

struct form_part {
	char name[64], filename[4096]; /* "" when none is said, or it is too long */
	const char *data;
	size_t n;
};

/* The boundary of its parts, from the field Content-Type (NULL: there is none); ERR_INVALID. */
int form_boundary(const char *type, char ret[80], struct err *e);
/* Calls each() for every part, in order, until it is not 0; ERR_INVALID for what is malformed. */
int form_each(const struct buf *form, const char *boundary,
	      int (*each)(void *ctx, const struct form_part *p, struct err *e), void *ctx,
	      struct err *e);

#endif
