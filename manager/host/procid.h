/* SPDX-License-Identifier: Apache-2.0 */
/*
 * procid - the name of a process that no other process ever has.
 *
 * A pid is given again; with the time when the process started, and the boot that this counts from,
 * it names one process for ever: "PID START BOOT".
 */
#ifndef BERTH_MANAGER_HOST_PROCID_H
#define BERTH_MANAGER_HOST_PROCID_H

#include "base/err.h"

#define PROCID_SIZE 64

/* ERR_INVALID when pid is no living process. */
int procid_name(int pid, char ret[PROCID_SIZE], struct err *e);
/* A name as above, or a pid, of which it becomes the name: what an option takes. */
int procid_parse(const char *text, char ret[PROCID_SIZE], struct err *e);
/* The process of that name: a pidfd, -1 when it has ended, -2 with e. */
int procid_open(const char *name, struct err *e);
/* Whether it has certainly ended. */
int procid_has_ended(const char *name);

#endif
