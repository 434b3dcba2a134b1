/* SPDX-License-Identifier: Apache-2.0 */
/*
 * createargs - turns the body of a request for a sandbox into a call of berth create.
 *
 * Each face of berthd that makes sandboxes has these members in its body, or translates its own to
 * them: "image", "pull", "options" (those of berth create by their long names) and "command". This
 * is the one place that reads them and decides what a tenant may request (S19).
 */
#ifndef BERTH_MANAGER_SERVICE_CREATEARGS_H
#define BERTH_MANAGER_SERVICE_CREATEARGS_H

#include "base/err.h"
#include "base/json.h"

struct createargs {
	const char *image, *pull;  /* defaults, which the body replaces */
	const char *zygote;        /* a zygote in place of the image; "" or NULL: none */
	const char *tenant;        /* the tenant that asks; NULL: an administrator */
	const json_t *own;		/* options that berthd itself adds, unchecked; or NULL */
	json_t *options, *command; /* borrowed from the body; NULL: none */
};

/*
 * Reads body, which may be NULL. ERR_INVALID: a member has the wrong type; ERR_DENIED: it needs an
 * administrator. c->pull is "never" for a tenant.
 */
int createargs_read(struct createargs *c, const json_t *body, struct err *e);
/* Tells whether the body of a request sets any of these members. */
int createargs_are_given(const json_t *body);
/*
 * Makes the call of berth create: a new reference, or NULL. ERR_INVALID: an option is unknown, or
 * has a value of the wrong type.
 */
json_t *createargs_call(const struct createargs *c, struct err *e);

/* The members of a request's body that choose what is made, besides its type. */
#define CREATEARGS_MEMBERS 4
extern const char *const createargs_members[CREATEARGS_MEMBERS];

#endif
