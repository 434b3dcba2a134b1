/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sshdoor - sandboxes for SSH clients of other hosts ([ssh] listen).  Upholds S64 of SECURITY.md.
 *
 * The user's name is a sandbox, or USER@SANDBOX, and the password a token of berthd: a client
 * reaches what the token's name owns.  A thread for each connection, which starts its berth-ssh
 * and answers its questions (manager/keeper/sshdesk.h); both end together.
 */
#ifndef BERTH_MANAGER_API_SSHDOOR_H
#define BERTH_MANAGER_API_SSHDOOR_H

#include "manager/api/api.h"

struct sshdoor;

/* Starts it if [ssh] listen says so; *ret is NULL if not. */
int sshdoor_start(struct api *a, struct sshdoor **ret, struct err *e);
/* Ends all connections. */
void sshdoor_stop(struct sshdoor *d);
/* Checks the section, for --check-config. */
int sshdoor_check_config(const struct config *c, struct err *e);

#endif
