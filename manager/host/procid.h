/* SPDX-License-Identifier: Apache-2.0 */
/*
 * procid - the name of a process that no other process ever has.
 *
 * A pid is reused; together with the start time of the process, and the boot from which that
 * counts, it names one process for ever: "PID START BOOT".
 */
#ifndef BERTH_MANAGER_HOST_PROCID_H
#define BERTH_MANAGER_HOST_PROCID_H

#include "base/err.h"

#define PROCID_SIZE 64
#define PROCID_BOOT_SIZE 9 /* a part of the boot's id, enough to tell one boot from the next */

/* Gives the id of this boot, or "" if the kernel does not report it. */
void procid_boot(char ret[PROCID_BOOT_SIZE]);
/* Makes the name of a process; ERR_INVALID if no process has this pid. */
int procid_name(int pid, char ret[PROCID_SIZE], struct err *e);
/* Parses the argument of an option: a name as above, or a pid, which it turns into the name. */
int procid_parse(const char *text, char ret[PROCID_SIZE], struct err *e);
/* Opens the process of that name: a pidfd, -1 if it has ended, -2 with e. */
int procid_open(const char *name, struct err *e);
/* Tells whether the process has certainly ended. */
int procid_has_ended(const char *name);

#endif
