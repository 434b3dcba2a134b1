/* SPDX-License-Identifier: Apache-2.0 */
/*
 * livebudget - what a sandbox may use over its life: CPU time, time, block I/O, network traffic.
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
	LIVEBUDGET_TIME,	/* ms that it runs, not while a budget holds it */
	LIVEBUDGET_IO,		/* bytes read and written, of every disk */
	LIVEBUDGET_NET,		/* bytes in and out */
	LIVEBUDGET_KINDS
};

/* Of each kind; 0: no budget, or nothing used. */
struct livebudget {
	uint64_t v[LIVEBUDGET_KINDS];
};

/* How a running sandbox stands with it. */
struct livebudget_state {
	uint64_t look_ms;	/* when to look at it next; 0: now */
	struct livebudget run;	/* what this run had used at the last look */
	uint64_t began_ms;	/* when it was first looked at */
	uint64_t over_ms;	/* since when it stands still for more; 0: it does not */
	uint64_t stood_ms;	/* how long it stood so before */
	size_t kind;		/* that which it stands still for */
};

struct livebudget_row {
	const char *word;	/* "cpu" */
	int is_time;		/* its value is a time, in ms; else a size, in bytes */
	const char *limit, *used;	/* keys of an answer */
	void (*keep)(json_t *record, uint64_t v), (*keep_used)(json_t *record, uint64_t v);
	int64_t (*used_of)(const json_t *record);
	const char *sample;	/* a value, for hints */
};

extern const struct livebudget_row livebudget_rows[LIVEBUDGET_KINDS];

/* "cpu=60s,net=+1g": each kind once, none of 0.  ERR_INVALID. */
int livebudget_parse(const char *text, struct livebudget *ret, struct err *e);
/* The same text of a budget that has one kind at least: a new string, or NULL without memory. */
json_t *livebudget_text(const struct livebudget *b);
/* Adds more to kinds that b has: ERR_INVALID for another one, and above the highest value. */
int livebudget_add(struct livebudget *b, const struct livebudget *more, const char *id,
		   struct err *e);
int livebudget_is_set(const struct livebudget *b);
/* {"cpu_ms":..., "cpu_used_ms":...} of the kinds that b has. */
json_t *livebudget_json(const struct livebudget *b, const struct livebudget *used);
/* Both into a record; and what earlier runs used, of that. */
void livebudget_tell(const struct livebudget *b, const struct livebudget *used, json_t *record);
struct livebudget livebudget_used_of(const json_t *record);

#endif
