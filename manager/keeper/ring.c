/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/ring.h"

#include <stdlib.h>
#include <string.h>

void ring_init(struct ring *r, size_t head_max, size_t tail_max)
{
	*r = (struct ring){ .head_max = head_max, .tail_max = tail_max };
}

void ring_release(struct ring *r)
{
	free(r->head);
	free(r->tail);
	*r = (struct ring){ .head_max = r->head_max, .tail_max = r->tail_max };
}

static int grow_ring(char **p, size_t *cap, size_t need, size_t max, struct err *e)
{
	size_t n = *cap ? *cap : 1024;
	char *q;

	if (need <= *cap)
		return 0;
	while (n < need)
		n *= 2;
	if (n > max)
		n = max;
	q = realloc(*p, n);
	if (!q)
		return err_nomem(e);
	*p = q;
	*cap = n;
	return 0;
}

/* The circle only turns once it has its full size; until then tail_at is 0. */
static void add_tail(struct ring *r, const char *p, size_t n)
{
	size_t room, part;

	if (n >= r->tail_max) {
		p += n - r->tail_max;
		n = r->tail_max;
	}
	room = r->tail_max - r->tail_len;
	if (n > room) {
		r->tail_at = (r->tail_at + (n - room)) % r->tail_max;
		r->tail_len -= n - room;
	}
	while (n) {
		size_t at = (r->tail_at + r->tail_len) % r->tail_max;

		part = r->tail_max - at < n ? r->tail_max - at : n;
		memcpy(r->tail + at, p, part);
		r->tail_len += part;
		p += part;
		n -= part;
	}
}

int ring_add(struct ring *r, const void *data, size_t n, struct err *e)
{
	const char *p = data;
	size_t head = r->head_max - r->head_len < n ? r->head_max - r->head_len : n;
	size_t rest = n - head, want = r->tail_len + rest;

	if (want > r->tail_max)
		want = r->tail_max;
	if (grow_ring(&r->head, &r->head_cap, r->head_len + head, r->head_max, e) < 0 ||
	    (rest && grow_ring(&r->tail, &r->tail_cap, want, r->tail_max, e) < 0))
		return -1;
	if (head)
		memcpy(r->head + r->head_len, p, head);
	r->head_len += head;
	r->total += n;
	if (rest && r->tail_max)
		add_tail(r, p + head, rest);
	return 0;
}

size_t ring_held(const struct ring *r)
{
	return r->head_cap + r->tail_cap;
}

/*
 * Keeps the last n bytes of the tail, in storage of that size; without memory for a copy, drops
 * all of it.
 */
static void shrink_tail(struct ring *r, size_t n)
{
	char *small = n ? malloc(n) : NULL;
	size_t skip = small ? r->tail_len - n : r->tail_len, i;

	for (i = 0; i < r->tail_len - skip; i++)
		small[i] = r->tail[(r->tail_at + skip + i) % r->tail_max];
	free(r->tail);
	r->tail = small;
	r->tail_len = r->tail_cap = small ? n : 0;
	r->tail_at = 0;
}

void ring_shrink(struct ring *r, size_t max)
{
	size_t head = r->head_len < max / 2 ? r->head_len : max / 2;
	char *small;

	if (ring_held(r) <= max)
		return;
	if (r->head_cap > head) {
		/* bytes after a gap belong in the tail */
		if (r->head_len > head || r->total > r->head_len)
			r->head_max = head;
		r->head_len = head;
		small = realloc(r->head, head ? head : 1);
		r->head = small ? small : r->head;
		r->head_cap = small ? head : r->head_cap;
	}
	if (r->tail_cap > max - head)
		shrink_tail(r, r->tail_len < max - head ? r->tail_len : max - head);
}

uint64_t ring_dropped(const struct ring *r)
{
	return r->total - r->head_len - r->tail_len;
}

/* The tail's bytes from skip on, in order: one part, or two where they go round. */
static size_t tail_parts(const struct ring *r, size_t skip, size_t n, struct iovec *part)
{
	size_t at = (r->tail_at + skip) % r->tail_max;
	size_t first = r->tail_max - at < n ? r->tail_max - at : n;

	part[0] = (struct iovec){ r->tail + at, first };
	part[1] = (struct iovec){ r->tail, n - first };
	return n > first ? 2 : 1;
}

int ring_parts(const struct ring *r, uint64_t from, size_t max, struct iovec part[RING_PARTS], uint64_t *ret_from,
	       uint64_t *ret_next, struct err *e)
{
	uint64_t tail_start = r->total - r->tail_len;
	size_t n, m;

	if (from > r->total)
		return err_set(e, ERR_INVALID, "offset %llu is beyond the output's end at %llu",
			       (unsigned long long)from, (unsigned long long)r->total);
	if (from < r->head_len) {
		n = r->head_len - (size_t)from;
		n = n < max ? n : max;
		*ret_from = from;
		*ret_next = from + n;
		part[0] = (struct iovec){ r->head + from, n };
		/* on into the tail only when nothing is missing in between */
		if (*ret_next != r->head_len || ring_dropped(r) != 0 || n == max || !r->tail_len)
			return 1;
		m = r->tail_len < max - n ? r->tail_len : max - n;
		*ret_next += m;
		return 1 + (int)tail_parts(r, 0, m, part + 1);
	}
	if (from < tail_start)
		from = tail_start;
	n = (size_t)(r->total - from);
	n = n < max ? n : max;
	*ret_from = from;
	*ret_next = from + n;
	return n ? (int)tail_parts(r, (size_t)(from - tail_start), n, part) : 0;
}

int ring_read(const struct ring *r, uint64_t from, size_t max, struct buf *out, uint64_t *ret_from,
	      uint64_t *ret_next, struct err *e)
{
	struct iovec part[RING_PARTS];
	int i, n = ring_parts(r, from, max, part, ret_from, ret_next, e);

	for (i = 0; i < n; i++)
		if (buf_add(out, part[i].iov_base, part[i].iov_len, e) < 0)
			return -1;
	return n < 0 ? -1 : 0;
}
