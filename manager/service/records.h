/* SPDX-License-Identifier: Apache-2.0 */
/* records - the ledger's records of sandboxes: a document, its version, and its state. */
#ifndef BERTH_MANAGER_SERVICE_RECORDS_H
#define BERTH_MANAGER_SERVICE_RECORDS_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "manager/ledger/ledger.h"

struct service;
struct service_who;

#define RECORD_MAX (1u << 20)

struct record {
	json_t *j;
	uint64_t version;
	int over;	/* its key is, or was when it was read, below OVER_PREFIX */
	char name[65];
};

/*
 * The keys of records. A released or replaced record is needed only by requests for its name, for
 * released_ttl. So it moves to another key, and the scan of live records each second does not read
 * it.
 */
#define RECORD_PREFIX "sandbox/"
#define OVER_PREFIX "over/"
/* Calls each for each record, ended ones last. */
int record_scan_all(struct service *s, ledger_each *each, void *ctx, struct err *e);

void record_close(struct record *r);
#define autorecord __attribute__((cleanup(record_close)))
double wall_seconds(void);
/*
 * Loads by name or session id, following redirects if follow; checks the owner (who NULL: no
 * check).
 */
int record_load(struct service *s, const struct service_who *who, const char *identity, int follow, struct record *ret, struct err *e);
/* Writes the record at its version, with more ops in the same batch; its version is then the new one. */
int record_save(struct service *s, struct record *r, const struct ledger_op *more, size_t n, struct err *e);
int record_delete(struct service *s, struct record *r, struct err *e);
/*
 * Loads the record of name, has change() change it (1; 0: leave it as it is; -1), and writes it;
 * repeats that if another process wrote it in between.
 */
int record_change(struct service *s, const char *name, int (*change)(struct record *r, void *ctx, struct err *e), void *ctx, struct err *e);
const char *record_str(const struct record *r, const char *key);	/* "" when absent */
const char *record_own(const struct record *r, const char *key);	/* of "berth" */
uint64_t record_own_u64(const struct record *r, const char *key);
void record_set_own(struct record *r, const char *key, json_t *v);
/*
 * Returns 1 while a failed action must not be tried again; used_ms: the last use, 0 if there cannot
 * be one.
 */
int record_failed_lately(const struct record *r, uint64_t used_ms);
void record_clear_failed(struct record *r);
/*
 * Makes the record what others may see: image beside version, which has the type's name in it, and
 * no secrets.
 */
void record_show(struct record *r);

/* States, and the events that lead from one to the next. */
enum record_state {
	STATE_UNKNOWN, STATE_CREATING, STATE_WARM, STATE_RUNNING, STATE_RECYCLED, STATE_REPLACED,
	STATE_RELEASED, STATE_ERROR, STATES,
};
enum record_event {
	EVENT_POOLED, EVENT_OWNED, EVENT_SPOILED, EVENT_RECYCLED, EVENT_REPLACED, EVENT_RELEASED,
	STATE_EVENTS,
};
/* For STATE_RUNNING: whether the sandbox runs; OTHER: absent, or another word. */
enum run_status { RUN_OTHER, RUN_RUNS, RUN_STOPPED, RUN_ARCHIVED, RUN_STATUSES };

enum record_state record_state(const struct record *r);
const char *record_state_name(enum record_state state);
int record_is(const struct record *r, enum record_state state);
/* Tells whether it is released or replaced. */
int record_is_over(const struct record *r);
/* Applies the event; ERR_INTERNAL if it cannot occur in this state. */
int record_step(struct record *r, enum record_event event, struct err *e);
/* Marks it as changed now, for its clients. */
void record_touch(struct record *r);
enum run_status record_run(const struct record *r);
const char *record_run_name(enum run_status status);
void record_set_run(struct record *r, enum run_status status);

#endif
