/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S45 of SECURITY.md. */
#include "runtime/net/namezone.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define ANSWERS 12	/* addresses in an answer: it fits DNSMSG_SMALL */
#define TYPE_ANY 255

int namezone_open(struct namezone *z, const struct namezone_place *at, struct err *e)
{
	snprintf(z->network, sizeof(z->network), "%s", at->network);
	z->pool = *at->pool;
	z->pool6 = *at->pool6;
	z->with6 = at->with6;
	return nametable_map(&z->table, at->fd, e);
}

void namezone_close(struct namezone *z)
{
	nametable_close(&z->table);
}

/* Of its name, the part that members say: without the tenant whose it is. */
static size_t domain(const struct namezone *z)
{
	return strcspn(z->network, "@");
}

static size_t find(const struct namezone *z, const struct dnsmsg *q, uint32_t *ret)
{
	const size_t n = strlen(q->name), m = domain(z);
	char bare[DNSMSG_NAME];
	uint32_t from = 0;
	size_t found;

	if (getrandom(&from, sizeof(from), GRND_NONBLOCK) < 0)
		from = 0;	/* the first of them, then */
	found = nametable_find(&z->table, q->name, from, ret, ANSWERS);
	if (found || n <= m + 1 || q->name[n - m - 1] != '.' ||
	    strncmp(q->name + n - m, z->network, m))
		return found;
	/* NAME.NETWORK */
	snprintf(bare, sizeof(bare), "%.*s", (int)(n - m - 1), q->name);
	return nametable_find(&z->table, bare, from, ret, ANSWERS);
}

static void add_addresses(const struct namezone *z, const struct dnsmsg *q, const uint32_t *numbers,
			  size_t count, uint8_t *out, size_t *len)
{
	struct netaddr a;
	size_t i;

	for (i = 0; i < count; i++)
		if (q->type == DNSMSG_A && netcidr_nth(&z->pool, numbers[i], &a) == 0)
			dnsmsg_add(out, len, DNSMSG_A, a.b, 4);
		else if (q->type == DNSMSG_AAAA && z->with6 &&
			 netcidr_nth(&z->pool6, numbers[i], &a) == 0)
			dnsmsg_add(out, len, DNSMSG_AAAA, a.b, 16);
}

/* The number of an address of the network. */
static uint32_t number_of(const struct netcidr *c, const struct netaddr *a)
{
	const size_t len = a->family == 4 ? 4 : 16;
	uint32_t n = 0;
	size_t i;

	for (i = len - 4; i < len; i++)
		n = n << 8 | (a->b[i] & (uint8_t)~c->net.b[i]);
	return n;
}

/* The owner of an address of the network; servers answer for other addresses. */
static int reverse(const struct namezone *z, const struct dnsmsg *q, const uint8_t *p,
			  uint8_t *out, size_t *len)
{
	const struct netcidr *c;
	char name[NAMETABLE_NAME], full[2 * NAMETABLE_NAME + 1];
	uint8_t wire[256];
	struct netaddr a, same;
	uint32_t number;
	int known;

	if (!dnsmsg_reverse(q->name, &a))
		return 0;
	c = a.family == 4 ? &z->pool : &z->pool6;
	if (!netcidr_holds(c, &a))
		return 0;
	number = number_of(c, &a);
	known = netcidr_nth(c, number, &same) == 0 && netaddr_equal(&a, &same) &&
		nametable_name(&z->table, number, name);
	*len = dnsmsg_reply(q, p, known ? DNSMSG_OK : DNSMSG_NXDOMAIN, 1, out);
	if (known && (q->type == DNSMSG_PTR || q->type == TYPE_ANY)) {
		snprintf(full, sizeof(full), "%s.%.*s", name, (int)domain(z), z->network);
		dnsmsg_add(out, len, DNSMSG_PTR, wire, dnsmsg_name(full, wire));
	}
	return 1;
}

int namezone_answer(const struct namezone *z, const struct dnsmsg *q, const uint8_t *p,
		    uint8_t *out, size_t *len)
{
	uint32_t numbers[ANSWERS];
	size_t n;

	if (q->odd || !q->labels)
		return 0;
	n = find(z, q, numbers);
	if (!n)
		return reverse(z, q, p, out, len);
	*len = dnsmsg_reply(q, p, DNSMSG_OK, 1, out);
	add_addresses(z, q, numbers, n, out, len);
	return 1;
}
