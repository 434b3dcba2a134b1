/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/subnets.h"

#include <stdio.h>
#include <string.h>

int subnets_add(struct subnets *t, const struct netcidr *c, struct err *e)
{
	if (t->count == SUBNETS_TAKEN)
		return err_set(e, ERR_LIMIT, "this host has more than %d ranges of addresses",
			       SUBNETS_TAKEN);
	t->list[t->count++] = *c;
	return 0;
}

const struct netcidr *subnets_overlap(const struct subnets *t, const struct netcidr *c)
{
	size_t i;

	for (i = 0; i < t->count; i++)
		if (netcidr_holds(&t->list[i], &c->net) || netcidr_holds(c, &t->list[i].net))
			return &t->list[i];
	return NULL;
}

int subnets_choose(const struct subnets *t, const struct netcidr *base, struct netcidr *ret)
{
	const unsigned bits = base->bits > SUBNETS_BITS ? base->bits : SUBNETS_BITS;
	const uint64_t count = 1ULL << (bits - base->bits), size = 1ULL << (32 - bits);
	uint64_t i;

	for (i = 0; i < count; i++) {
		struct netcidr c = { .bits = bits };

		if (netcidr_nth(base, i * size, &c.net) == 0 && !subnets_overlap(t, &c)) {
			*ret = c;
			return 0;
		}
	}
	return -1;
}

void subnets_text(const struct netcidr *c, char out[NETADDR_TEXT + 5])
{
	char text[NETADDR_TEXT];

	snprintf(out, NETADDR_TEXT + 5, "%s/%u", netaddr_text(&c->net, text), c->bits);
}
