/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp/collect.h"

#include <string.h>

#include "base/encoding.h"

void collect_init(struct collect *c, size_t max_bytes)
{
	*c = (struct collect){ .max_bytes = max_bytes, .kept = BUF_INIT(3 * max_bytes + 65536) };
}

void collect_release(struct collect *c)
{
	buf_release(&c->kept);
}

/* Leaves the first and the last halves of max_bytes. */
static void shrink(struct collect *c)
{
	size_t head = c->max_bytes / 2, tail = c->max_bytes - head, over;

	if (c->kept.len <= c->max_bytes)
		return;
	over = c->kept.len - head - tail;
	memmove(c->kept.data + head, c->kept.data + c->kept.len - tail, tail);
	c->kept.len = head + tail;
	c->gap = head;
	c->dropped_bytes += over;
}

int collect_add(struct collect *c, const char *p, size_t n, struct err *e)
{
	c->total_bytes += n;
	while (n) {
		size_t some = n < 65536 ? n : 65536;

		if (buf_add(&c->kept, p, some, e) < 0)
			return -1;
		if (c->kept.len > 3 * c->max_bytes)
			shrink(c);
		p += some;
		n -= some;
	}
	return 0;
}

int collect_text(struct collect *c, struct buf *text, struct err *e)
{
	size_t first;

	shrink(c);
	first = c->dropped_bytes ? c->gap : c->kept.len;
	if (utf8_add(text, c->kept.data, first, e) < 0)
		return -1;
	if (!c->dropped_bytes)
		return 0;
	if (buf_addf(text, e, "\n[... %llu bytes left out ...]\n",
		     (unsigned long long)c->dropped_bytes) < 0)
		return -1;
	return utf8_add(text, c->kept.data + first, c->kept.len - first, e);
}
