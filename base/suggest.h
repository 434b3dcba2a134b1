/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suggest - "did you mean ...?": the known word nearest to an unknown one.
 *
 * Pure.  The caller offers candidates one by one; the nearest is kept by
 * reference.  Distance counts insertions, deletions, substitutions and swaps
 * of neighbours (optimal string alignment); words over 63 bytes never match.
 */
#ifndef BERTH_BASE_SUGGEST_H
#define BERTH_BASE_SUGGEST_H

#include <stddef.h>

struct suggest {
	const char *word;	/* the typed word; borrowed */
	const char *best;	/* the nearest candidate so far, or NULL; borrowed */
	size_t distance;	/* of best */
};

#define SUGGEST_INIT(typed) ((struct suggest){ .word = (typed) })

/* Considers candidate, unless it differs too much to be a typing error. */
void suggest_offer(struct suggest *s, const char *candidate);
/* The distance itself, or (size_t)-1 when either is over 63 bytes. */
size_t suggest_distance(const char *a, const char *b);

#endif
