/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preview - addresses in the web for servers in sandboxes: PORT-ID.DOMAIN, or a name of one's own.
 * Upholds S61 of SECURITY.md.
 *
 * berth-preview (runtime/preview/preview.h) speaks with browsers, and asks here for each request.
 * Here it is decided whose sandbox the address names, and whether what came as a token gives access;
 * a sandbox that sleeps by a policy is woken, and a socket of its port handed over.  What an owner
 * has said is in preview.json beside the sandbox's record; a name is a link in state_dir/previews.
 *
 * A token is an expiry and a code of it, the port, the sandbox and its generation, which only the
 * holder of berthd's secret can make; nothing is kept for one.
 */
#ifndef BERTH_MANAGER_API_PREVIEW_H
#define BERTH_MANAGER_API_PREVIEW_H

#include <stdint.h>

#include "manager/api/api.h"

#define PREVIEW_FILE "preview.json"	/* {"generation","public":[PORT...],"names":{NAME:PORT},"all_public"} */
#define PREVIEW_ALL "all_public"	/* a flag, which Daytona's clients set: every port is public */
#define PREVIEW_NAMES_MAX 16		/* of a sandbox */
#define PREVIEW_PUBLIC_MAX 64
#define PREVIEW_TOKEN_SIZE 96

struct preview_server;

/* Starts it if [preview] listen says so; *ret is NULL if not. */
int preview_start(struct api *a, struct preview_server **ret, struct err *e);
/* The configuration was read again: another certificate. */
void preview_reload(struct preview_server *p);
void preview_stop(struct preview_server *p);
/* Checks the section, for --check-config. */
int preview_check_config(const struct config *c, struct err *e);

/* "https://8000-ID.DOMAIN:PORT", without a path: a new string; NULL with ERR_UNSUPPORTED if there are no previews. */
char *preview_url(const struct preview_server *p, const char *label, struct err *e);
/* What stands behind "PORT-ID." in an address, with the port; NULL: there are no previews. */
const char *preview_domain(const struct preview_server *p, char *out, size_t n);
/* What the owner has said of the sandbox, a new reference; {} if nothing. */
json_t *preview_rules(struct registry *r, const char *id, struct err *e);
/* Its place in the list of public ports, counted from 1, or 0. */
int preview_is_public(const json_t *rules, unsigned port);
/* Whether it is public: by that list, or because all ports are. */
int preview_is_open(const json_t *rules, unsigned port);
int preview_token(const unsigned char secret[32], const char *id, unsigned port, const json_t *rules, uint64_t expires_s,
		  char ret[PREVIEW_TOKEN_SIZE], struct err *e);
/* Until when (seconds of Unix time) it gives access, or 0. */
uint64_t preview_token_holds(const unsigned char secret[32], const char *id, unsigned port, const json_t *rules, const char *token);
/* The secret, made when it is first needed (e2b_key.c): 1; 0: without make, there is none; -1. */
int api_box_secret(struct api *a, struct registry *r, int make, unsigned char ret[32], struct err *e);

/*
 * An address of the port and a token for it, {"url","token","expires","signed_url",...}: a new reference, or NULL.
 * ttl_ms 0 is the preset.  ERR_UNSUPPORTED if there are no previews.  b was found.
 */
json_t *preview_grant(struct box *b, unsigned port, uint64_t ttl_ms, struct err *e);
/* A name as a label of DNS that is no PORT-ID. */
int preview_name_is_good(const char *name);
/* Gives the name to port of the sandbox: ERR_EXISTS if another has it.  drop: takes it away, if it is its. */
int preview_name_take(struct registry *r, const char *name, const char *id, unsigned port, struct err *e);
void preview_name_drop(struct registry *r, const char *name, const char *id);

#endif
