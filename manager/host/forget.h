/* SPDX-License-Identifier: Apache-2.0 */
/* forget - the removal of a stopped sandbox's files while nobody else, in whatever process, works on them. */
#ifndef BERTH_MANAGER_HOST_FORGET_H
#define BERTH_MANAGER_HOST_FORGET_H

#include "manager/host/registry.h"

/*
 * A stopped sandbox for oneself: nobody starts, copies, archives or removes it until registry_release().  Waits a
 * while for who does so now.  ERR_BUSY when it was started or that takes long, ERR_NOT_FOUND when it went.
 */
int forget_claim(struct registry *r, const char *id, struct claim *ret, struct err *e);
/* registry_forget() in that state; one whose record is damaged goes all the same, and one that is gone is no error. */
int forget_alone(struct registry *r, const char *id, struct err *e);

#endif
