/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks S45 of SECURITY.md. */
/*
 * What a member of a network sends to its resolver.  What is read fits, and what is made of it is
 * read again as the same question.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/net/dnsmsg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(const uint8_t *p, size_t size)
{
	uint8_t out[DNSMSG_SMALL], asked[DNSMSG_QUERY];
	struct dnsmsg q, again;
	struct netaddr a;
	size_t n;
	int code = dnsmsg_read(p, size, &q);

	if (code < 0)
		return;
	if (!memchr(q.name, 0, sizeof(q.name)) || q.end > size)
		abort();
	n = dnsmsg_reply(&q, p, (enum dnsmsg_code)code, 0, out);
	dnsmsg_add(out, &n, DNSMSG_AAAA, "0123456789abcdef", 16);
	dnsmsg_add_opt(&q, out, &n);
	if (n > sizeof(out))
		abort();
	if (code != DNSMSG_OK)
		return;
	dnsmsg_reverse(q.name, &a);
	n = dnsmsg_ask(&q, p, q.id, asked);
	if (n > sizeof(asked) || dnsmsg_read(asked, n, &again) != DNSMSG_OK ||
	    strcmp(q.name, again.name) || q.type != again.type || q.end != again.end)
		abort();
	dnsmsg_answers(asked, q.end, p, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *p = malloc(size ? size : 1);	/* a block of its own: a byte too many is seen */

	if (!p)
		abort();
	memcpy(p, data, size);
	look(p, size);
	free(p);
	return 0;
}
