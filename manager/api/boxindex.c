/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/boxindex.h"

#include <stdlib.h>
#include <string.h>

struct boxindex *boxindex_new(struct err *e)
{
	struct boxindex *x = calloc(1, sizeof(*x));

	if (!x)
		err_nomem(e);
	else
		pthread_mutex_init(&x->lock, NULL);
	return x;
}

void boxindex_free(struct boxindex *x)
{
	size_t i;

	for (i = 0; x && i < BOXINDEX_BUCKETS; i++)
		while (x->buckets[i]) {
			struct boxindex_entry *n = x->buckets[i];

			x->buckets[i] = n->next;
			free(n);
		}
	if (x)
		pthread_mutex_destroy(&x->lock);
	free(x);
}

struct boxindex_entry **boxindex_place(struct boxindex *x, const char *id)
{
	struct boxindex_entry **p;
	unsigned h = 5381;
	const char *c;

	for (c = id; *c; c++)
		h = h * 33 + (unsigned char)*c;
	for (p = &x->buckets[h % BOXINDEX_BUCKETS]; *p && strcmp((*p)->id, id) != 0; p = &(*p)->next)
		;
	return p;
}

void boxindex_drop_unused(struct boxindex *x, uint64_t now, uint64_t age_ms)
{
	size_t i;

	pthread_mutex_lock(&x->lock);
	for (i = 0; i < BOXINDEX_BUCKETS; i++) {
		struct boxindex_entry **p = &x->buckets[i];

		while (*p) {
			struct boxindex_entry *n = *p;

			if (now - n->used_ms < age_ms) {
				p = &n->next;
				continue;
			}
			*p = n->next;
			free(n);
		}
	}
	pthread_mutex_unlock(&x->lock);
}
