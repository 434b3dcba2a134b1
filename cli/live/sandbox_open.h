/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_open - what commands on an existing sandbox begin with: load the
 * configuration, open the registry, find the sandbox, connect to its keeper.
 */
#ifndef BERTH_CLI_LIVE_SANDBOX_OPEN_H
#define BERTH_CLI_LIVE_SANDBOX_OPEN_H

#include "manager/keeper/keeper.h"

struct sandbox_ref {
	struct config config;
	struct registry registry;
	char id[65];
	int kept;	/* it exists on disk but does not run */
	int sock;	/* to its keeper, or -1 */
	int for_files;	/* that keeper is one for files only, and ends with us */
};

/* Empty storage that sandbox_ref_close() accepts. */
void sandbox_ref_init(struct sandbox_ref *s);
/* Configuration and registry only. */
int sandbox_ref_registry(struct sandbox_ref *s, struct err *e);
int sandbox_ref_find(struct sandbox_ref *s, const char *ref, struct err *e);
/* Finds and connects; with start, a stopped sandbox is started first. */
int sandbox_ref_connect(struct sandbox_ref *s, const char *ref, int start, struct err *e);
/*
 * The same for work on its files, which is also possible while the sandbox does not run: without
 * start it stays stopped for everybody else (resident_start_files()).
 */
int sandbox_ref_connect_files(struct sandbox_ref *s, const char *ref, int start, struct err *e);
/*
 * Connects to s->id, found before; between two runs of a service with a restart policy it waits
 * for the next, until until_ms (clock_ms(); 0: no end). 1: connected. 0: it does not run, and no
 * start is pending. ERR_TIMEOUT.
 */
int sandbox_ref_await_run(struct sandbox_ref *s, uint64_t until_ms, struct err *e);
void sandbox_ref_close(struct sandbox_ref *s);

/* cli/live/resident.c: starts a lasting sandbox of this id from its spec.json. */
int resident_start(struct registry *r, const char *id, struct err *e);
/* What is particular about a start; zeroed: nothing. */
struct resident_again {
	unsigned restarts;	/* by its restart policy: those so far, with this one */
	uint64_t backoff_ms;	/* waited before it */
	unsigned awaited;	/* as in struct keeper_service */
	int accept_sources;	/* takes what is at the paths of its mount sources now */
};

int resident_start_again(struct registry *r, const char *id, const struct resident_again *how, struct err *e);
/*
 * Makes a keeper through which clients work on the files of a sandbox that does not run.  It
 * serves no other operation, and ends with its last client; a start waits for that.
 */
int resident_start_files(struct registry *r, const char *id, struct err *e);
/*
 * Asks the keeper to stop and waits until nothing of it runs: the stop signal, and what lives after
 * the grace dies with its cgroup.  With a grace of 0 it dies at once, and a keeper that does not
 * answer is ended, too.  ERR_NOT_FOUND when it does not run.
 */
int resident_stop(struct registry *r, const char *id, const struct stop_request *how, struct err *e);

#endif
