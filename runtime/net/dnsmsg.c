/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/dnsmsg.h"

#include <stdio.h>
#include <string.h>

#include "base/encoding.h"

#define HEADER 12
#define LABEL_MAX 63
#define WIRE_MAX 255
#define OPT_BYTES 11	/* bytes of an OPT record without options */

/* Bits of the header's second word. */
#define ANSWER 0x8000U
#define OPCODE 0x7800U
#define AUTHORITATIVE 0x0400U
#define TRUNCATED 0x0200U
#define RECURSION_WANTED 0x0100U
#define RECURSION_OFFERED 0x0080U
#define KEPT (RECURSION_WANTED | 0x0020U | 0x0010U)	/* RD, AD, CD */

#define DNSSEC_OK 0x8000U

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/* ---- reading ----------------------------------------------------------------------------- */

static int is_plain_name_byte(uint8_t c)
{
	return c > ' ' && c < 0x7f && c != '.' && c != '\\';
}

/* Appends one label, which follows its length, to the text. */
static void take_label(struct dnsmsg *m, size_t *at, const uint8_t *p, size_t n)
{
	size_t i;

	if (*at)
		m->name[(*at)++] = '.';
	for (i = 0; i < n; i++) {
		m->odd |= !is_plain_name_byte(p[i]);
		m->name[(*at)++] = (char)(p[i] >= 'A' && p[i] <= 'Z' ? p[i] + 32 : p[i]);
	}
	m->labels++;
}

/* The question's name: where it ends, or 0.  A query has no name before it that it could point to. */
static size_t read_question_name(const uint8_t *p, size_t n, struct dnsmsg *m)
{
	size_t at = HEADER, text = 0;

	while (at < n && p[at]) {
		size_t len = p[at];

		/* a byte for the root has to follow, within the 255 of a name */
		if (len > LABEL_MAX || at + 1 + len >= n || at + 1 + len - HEADER >= WIRE_MAX)
			return 0;
		take_label(m, &text, p + at + 1, len);
		at += 1 + len;
	}
	if (at >= n)
		return 0;
	m->name[m->odd ? 0 : text] = '\0';
	return at + 1;
}

/* Reads the one record that may follow the question. */
static int read_opt(const uint8_t *p, size_t n, struct dnsmsg *m)
{
	uint16_t size;

	if (n < OPT_BYTES || p[0] || get16(p + 1) != DNSMSG_OPT || get16(p + 9) != n - OPT_BYTES)
		return DNSMSG_FORMERR;
	size = get16(p + 3);
	m->edns = 1;
	m->dnssec = (get16(p + 7) & DNSSEC_OK) != 0;
	m->size = size < DNSMSG_SMALL ? DNSMSG_SMALL : size > DNSMSG_LARGE ? DNSMSG_LARGE : size;
	return DNSMSG_OK;
}

int dnsmsg_read(const uint8_t *p, size_t n, struct dnsmsg *ret)
{
	size_t end;

	memset(ret, 0, sizeof(*ret));
	ret->size = DNSMSG_SMALL;
	if (n < HEADER || get16(p + 2) & ANSWER)
		return -1;
	ret->id = get16(p);
	ret->flags = get16(p + 2) & KEPT;
	if (get16(p + 2) & OPCODE)
		return DNSMSG_NOTIMP;
	if (get16(p + 4) != 1 || get16(p + 6) || get16(p + 8) || get16(p + 10) > 1)
		return DNSMSG_FORMERR;
	end = read_question_name(p, n, ret);
	if (!end || n - end < 4)
		return DNSMSG_FORMERR;
	ret->type = get16(p + end);
	ret->class = get16(p + end + 2);
	ret->end = end + 4;
	if (get16(p + 10))
		return read_opt(p + ret->end, n - ret->end, ret);
	return n == ret->end ? DNSMSG_OK : DNSMSG_FORMERR;
}

/* The nibbles of ip6.arpa, the last one first. */
static int reverse6(const char *name, struct netaddr *ret)
{
	int i, digit;

	ret->family = 6;
	for (i = 31; i >= 0; i--, name += 2) {
		digit = hex_digit(name[0]);
		if (digit < 0 || name[1] != '.')
			return 0;
		ret->b[i / 2] |= (uint8_t)(i % 2 ? digit : digit << 4);
	}
	return !strcmp(name, "ip6.arpa");
}

int dnsmsg_reverse(const char *name, struct netaddr *ret)
{
	unsigned b[4];
	char rest[16];

	memset(ret, 0, sizeof(*ret));
	if (strlen(name) == 72)
		return reverse6(name, ret);
	if (strlen(name) > 28 || sscanf(name, "%3u.%3u.%3u.%3u.%15s", &b[3], &b[2], &b[1], &b[0],
					rest) != 5)
		return 0;
	if (strcmp(rest, "in-addr.arpa") || (b[0] | b[1] | b[2] | b[3]) > 255)
		return 0;
	*ret = (struct netaddr){ 4, { (uint8_t)b[0], (uint8_t)b[1], (uint8_t)b[2], (uint8_t)b[3] } };
	return 1;
}

/* ---- writing ----------------------------------------------------------------------------- */

size_t dnsmsg_reply(const struct dnsmsg *q, const uint8_t *p, enum dnsmsg_code code, int ours,
		    uint8_t *out)
{
	size_t n = q->end ? q->end : HEADER;

	memset(out, 0, HEADER);
	if (q->end)
		memcpy(out + HEADER, p + HEADER, q->end - HEADER);
	put16(out, q->id);
	put16(out + 2, ANSWER | (ours ? AUTHORITATIVE : 0) | RECURSION_OFFERED |
		       (q->flags & RECURSION_WANTED) | (unsigned)code);
	put16(out + 4, q->end != 0);
	return n;
}

void dnsmsg_add(uint8_t *out, size_t *len, uint16_t type, const void *data, size_t n)
{
	uint8_t *p = out + *len;

	if (*len + 12 + n + OPT_BYTES > DNSMSG_SMALL)
		return;
	memset(p, 0, 12);
	put16(p, 0xc000 | HEADER);	/* the question's name */
	put16(p + 2, type);
	put16(p + 4, 1);
	put16(p + 10, (unsigned)n);
	memcpy(p + 12, data, n);
	*len += 12 + n;
	put16(out + 6, get16(out + 6) + 1U);
}

static void add_opt(uint8_t *out, size_t *len, unsigned size, int dnssec)
{
	uint8_t *p = out + *len;

	memset(p, 0, OPT_BYTES);
	put16(p + 1, DNSMSG_OPT);
	put16(p + 3, size);
	put16(p + 7, dnssec ? DNSSEC_OK : 0);
	*len += OPT_BYTES;
	put16(out + 10, 1);
}

void dnsmsg_add_opt(const struct dnsmsg *q, uint8_t *out, size_t *len)
{
	if (q->edns)
		add_opt(out, len, DNSMSG_LARGE, q->dnssec);
}

size_t dnsmsg_name(const char *text, uint8_t out[256])
{
	size_t at = 0;

	while (*text) {
		size_t n = strcspn(text, ".");

		if (!n || n > LABEL_MAX || at + 1 + n >= WIRE_MAX)
			return 0;
		out[at++] = (uint8_t)n;
		memcpy(out + at, text, n);
		at += n;
		text += n + (text[n] == '.');
	}
	out[at++] = 0;
	return at;
}

size_t dnsmsg_ask(const struct dnsmsg *q, const uint8_t *p, uint16_t id, uint8_t out[DNSMSG_QUERY])
{
	size_t n = q->end;

	memset(out, 0, HEADER);
	memcpy(out + HEADER, p + HEADER, n - HEADER);
	put16(out, id);
	put16(out + 2, q->flags);
	put16(out + 4, 1);
	if (q->edns)
		add_opt(out, &n, q->size, q->dnssec);
	return n;
}

int dnsmsg_answers(const uint8_t *asked, size_t end, const uint8_t *p, size_t n)
{
	return n >= end && get16(p) == get16(asked) && (get16(p + 2) & (ANSWER | OPCODE)) == ANSWER &&
	       get16(p + 4) == 1 && !memcmp(p + HEADER, asked + HEADER, end - HEADER);
}

size_t dnsmsg_shorten(uint8_t *p, size_t n, size_t end, size_t max)
{
	if (n <= max)
		return n;
	put16(p + 2, get16(p + 2) | TRUNCATED);
	memset(p + 6, 0, 6);
	return end;
}
