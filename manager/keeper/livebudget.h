/* SPDX-License-Identifier: Apache-2.0 */
/*
 * livebudget - bounds the use of a sandbox over its life: CPU time, time, block I/O, network
 * traffic.
 *
 * Pure.  One table names each kind, in the text of --budget and berth grant and in JSON.
 */
#ifndef BERTH_MANAGER_KEEPER_LIVEBUDGET_H
#define BERTH_MANAGER_KEEPER_LIVEBUDGET_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

enum livebudget_kind {
	LIVEBUDGET_CPU,		/* ms of CPU time */
	LIVEBUDGET_TIME,	/* ms of running, not counting a freeze by a budget */
	LIVEBUDGET_IO,		/* bytes read and written, of every disk */
	LIVEBUDGET_NET,		/* bytes in and out */
	LIVEBUDGET_KINDS
};

/* An amount of each kind; 0: no budget, or nothing used. */
struct livebudget {
	uint64_t v[LIVEBUDGET_KINDS];
};

/* The state of a running sandbox's budgets. */
struct livebudget_state {
	uint64_t look_ms;	/* when to look at it next; 0: now */
	struct livebudget run;	/* what this run had used at the last look */
	uint64_t began_ms;	/* when it was first looked at */
	uint64_t over_ms;	/* since when the sandbox is frozen for more; 0: it is not */
	uint64_t stood_ms;	/* how long it was frozen so before */
	size_t kind;		/* the kind for which it is frozen */
};

struct livebudget_row {
	const char *word;	/* "cpu" */
	int is_time;		/* its value is a time, in ms; else a size, in bytes */
	const char *limit, *used;	/* its keys in an answer */
	void (*keep)(json_t *record, uint64_t v), (*keep_used)(json_t *record, uint64_t v);
	int64_t (*used_of)(const json_t *record);
	const char *sample;	/* a value, for hints */
};

extern const struct livebudget_row livebudget_rows[LIVEBUDGET_KINDS];

/* Parses "cpu=60s,net=+1g": each kind once, none of 0. ERR_INVALID. */
int livebudget_parse(const char *text, struct livebudget *ret, struct err *e);
/* Formats a budget that has at least one kind in the same way: a new string, or NULL without memory. */
json_t *livebudget_text(const struct livebudget *b);
/* Adds more to kinds that b has: ERR_INVALID for another kind, and above the highest value. */
int livebudget_add(struct livebudget *b, const struct livebudget *more, const char *id,
		   struct err *e);
int livebudget_is_set(const struct livebudget *b);
/* Returns {"cpu_ms":..., "cpu_used_ms":...} for the kinds that b has. */
json_t *livebudget_json(const struct livebudget *b, const struct livebudget *used);
/* Write both into a record; and read from it what earlier runs used. */
void livebudget_tell(const struct livebudget *b, const struct livebudget *used, json_t *record);
struct livebudget livebudget_used_of(const json_t *record);

#endif
