/* SPDX-License-Identifier: Apache-2.0 */
/*
 * residentopts - the options of a sandbox that lives: those of run, how long it lives, and
 * what makes it a service.  run takes them with --detach.
 */
#ifndef BERTH_CLI_RUN_RESIDENTOPTS_H
#define BERTH_CLI_RUN_RESIDENTOPTS_H

#include "cli/run/healthopts.h"
#include "cli/run/runopts.h"

enum resident_id {
	RESIDENT_IDLE_TIMEOUT = RUNOPT_FIRST_OWN, RESIDENT_TTL, RESIDENT_AUTO_REMOVE,
	RESIDENT_OWNER_PID, RESIDENT_OWNER_GRACE,
	RESIDENT_SERVICE, RESIDENT_INIT_COMMAND, RESIDENT_STOP_SIGNAL, RESIDENT_STOP_TIMEOUT,
	RESIDENT_RESTART, RESIDENT_BUDGET,
	RESIDENT_FIRST_OWN
};

/* Whether id is of an option that run has only with --detach. */
static inline int residentopts_are(int id)
{
	return (id >= RUNOPT_FIRST_OWN && id < RESIDENT_FIRST_OWN) ||
	       (id >= HEALTHOPT_CMD && id < HEALTHOPT_END);
}

#define RESIDENT_OWN_TABLE \
	{ "idle-timeout", 0, OPT_VALUE, "TIME", \
	  "stop it when nothing has happened in it for so long; 0 is never (default: 3600s)", \
	  RESIDENT_IDLE_TIMEOUT }, \
	{ "ttl", 0, OPT_VALUE, "TIME", \
	  "remove it so long after it was made, whatever it does; 0 is never (default: 0)", \
	  RESIDENT_TTL }, \
	{ "auto-remove", 0, OPT_FLAG, NULL, "remove it once it stops, for whatever reason", \
	  RESIDENT_AUTO_REMOVE }, \
	{ "owner-pid", 0, OPT_VALUE, "PID", \
	  "process it is for: when that ends it is frozen, then removed", RESIDENT_OWNER_PID }, \
	{ "owner-grace", 0, OPT_VALUE, "TIME", \
	  "time it stays paused after its owner's end (default: 10s)", RESIDENT_OWNER_GRACE }, \
	{ "budget", 0, OPT_VALUE, "cpu=TIME,...", \
	  "cpu=TIME,time=TIME,io=SIZE,net=SIZE over its life; then it is paused until " \
	  "berth grant", \
	  RESIDENT_BUDGET }, \
	HEALTHOPTS_TABLE, \
	{ "service", 0, OPT_FLAG, NULL, "run the image's own command as its main command", \
	  RESIDENT_SERVICE }, \
	{ "init-command", 0, OPT_VALUE, "TEXT", \
	  "shell command that must succeed before the main command begins", \
	  RESIDENT_INIT_COMMAND }, \
	{ "stop-signal", 0, OPT_VALUE, "SIGNAL", \
	  "what stop sends to the main command (default: the image's, or TERM)", \
	  RESIDENT_STOP_SIGNAL }, \
	{ "stop-timeout", 0, OPT_VALUE, "TIME", \
	  "from the stop signal to SIGKILL (default: 10s)", RESIDENT_STOP_TIMEOUT }, \
	{ "restart", 0, OPT_VALUE, "WHEN", \
	  "run it again: no, on-failure[:N], always, unless-stopped (default: no)", \
	  RESIDENT_RESTART, COMPLETE_WORDS, "no on-failure always unless-stopped" }

#define RESIDENT_TABLE RUNOPTS_TABLE, RESIDENT_OWN_TABLE

#endif
