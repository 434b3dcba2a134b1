/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filter - the KEY=VALUE terms of --filter, which select records of a list.
 *
 * A record must match the terms of every key. Of several terms with one key, one match is
 * enough, but labels must all match, as in docker. KEY!=VALUE matches when KEY=VALUE does not. A
 * table has the keys of a list, so that sandboxes, volumes and networks share this. Pure but for
 * the clock, which until=10m needs. Terms borrow their text.
 */
#ifndef BERTH_MANAGER_HOST_FILTER_H
#define BERTH_MANAGER_HOST_FILTER_H

#include <stddef.h>

#include "base/err.h"
#include "base/json.h"
#include "manager/host/journal.h"

#define FILTER_TERMS_MAX 32

enum filter_kind {
	FILTER_GLOB, /* the member is a string, which the value matches as a shell pattern */
	FILTER_LABEL, /* the member is an object of strings; the value is KEY or KEY=VALUE */
	FILTER_UNTIL, /* the member is a time before the value, as journal_since() takes it */
	FILTER_ID, /* the member is an id, which begins with the value; a pattern is allowed */
	FILTER_NAMED, /* as above, or the member "name" matches the value as a shell pattern */
};

struct filter_key {
	const char *name;
	enum filter_kind kind;
	const char *member; /* member of the record; "network.mode" is a member of a member */
};

struct filter_term {
	const struct filter_key *key;
	int negated;
	const char *value;
	char time[JOURNAL_TIME]; /* for FILTER_UNTIL */
};

struct filter {
	const struct filter_key *keys; /* up to one with a NULL name */
	struct filter_term terms[FILTER_TERMS_MAX];
	size_t count;
};

#define FILTER_HELP "only those of that name=, label=, status= ...; may be repeated"

/* The keys of sandboxes, by their records. */
extern const struct filter_key filter_sandbox_keys[];

/*
 * Adds a term. ERR_INVALID, with the known keys, if text is not a term; ERR_LIMIT after
 * FILTER_TERMS_MAX. text must outlive f.
 */
int filter_add(struct filter *f, const char *text, struct err *e);
/* Adds the term "label=" with text. */
int filter_add_label(struct filter *f, const char *text, struct err *e);
int filter_matches(const struct filter *f, const json_t *record);
/* Tells whether some term has that key, so that callers look up its value only if it is needed. */
int filter_has(const struct filter *f, const char *key);

#endif
