/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokens - the clients that may speak to berthd over TCP.
 *
 * A file of lines "NAME TOKEN [admin]", of mode 0600, where TOKEN is the token itself (at least
 * 22 characters, which hold 128 bits) or "sha256:" and its hash in hexadecimal. An admin may do
 * everything; another token makes and sees only sandboxes of its own NAME. Only hashes stay in
 * memory.
 */
#ifndef BERTH_MANAGER_API_TOKENS_H
#define BERTH_MANAGER_API_TOKENS_H

#include "manager/api/http.h"

struct tokens;

/* Reads path.  NULL with ERR_CONFIG that names the line; never with a token in it. */
struct tokens *tokens_load(const char *path, struct err *e);
void tokens_free(struct tokens *t);
size_t tokens_count(const struct tokens *t);
/* 1 with *ret, or 0.  As long for every token, good or bad: no digest is compared but in whole. */
int tokens_check(const struct tokens *t, const char *token, struct http_who *ret);

/* Whether the token of who is still there, in its role; without one, any token of that name and role. */
int tokens_holds(const struct tokens *t, const struct http_who *who);
/* Whether that name has a token. */
int tokens_has(const struct tokens *t, const char *name);

#endif
