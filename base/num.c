/* SPDX-License-Identifier: Apache-2.0 */
#include "base/num.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

/* Holds any uint64_t in thousandths times any unit, so that no step below can overflow. */
typedef unsigned __int128 wide;

/*
 * A decimal fixed-point number: digits, and with frac_digits a dot and up to
 * that many decimals.  Returns the first byte after it, or NULL when there is
 * no digit where one must be, or when the whole part is over 64 bits.
 */
static const char *fixed(const char *s, unsigned frac_digits, wide *ret_scaled)
{
	uint64_t v = 0, scale = 1;
	wide scaled;
	unsigned i;

	for (i = 0; i < frac_digits; i++)
		scale *= 10;
	if (!isdigit((unsigned char)*s))
		return NULL;
	for (; isdigit((unsigned char)*s); s++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
			return NULL;
	scaled = (wide)v * scale;
	if (*s == '.' && frac_digits) {
		s++;
		if (!isdigit((unsigned char)*s))
			return NULL;
		for (i = 0; i < frac_digits && isdigit((unsigned char)*s); i++, s++) {
			scale /= 10;
			scaled += (uint64_t)(*s - '0') * scale;
		}
		if (isdigit((unsigned char)*s))
			return NULL;
	}
	*ret_scaled = scaled;
	return s;
}

int num_u64(const char *s, const char *what, uint64_t min, uint64_t max, uint64_t *ret_value,
	    struct err *e)
{
	const char *end;
	wide v;

	end = fixed(s, 0, &v);
	if (!end || *end)
		return err_set(e, ERR_INVALID, "%s '%.80s' is not a whole number; hint: digits only, %"
			       PRIu64 " to %" PRIu64, what, s, min, max);
	if (v < min || v > max)
		return err_set(e, ERR_INVALID, "%s '%.80s' is out of range; hint: %" PRIu64 " to %" PRIu64,
			       what, s, min, max);
	*ret_value = (uint64_t)v;
	return 0;
}

static int unit_shift(const char *u)
{
	static const char letters[] = "bkmgt";
	const char *p;

	if (!*u)
		return 0;
	p = strchr(letters, tolower((unsigned char)*u));
	if (!p)
		return -1;
	if (u[1] && strcasecmp(u + 1, "b") && strcasecmp(u + 1, "ib"))
		return -1;
	if (p == letters && u[1])
		return -1;
	return (int)(p - letters) * 10;
}

struct unit {
	uint64_t size;
	const char *name;
};

/* Formats v in the largest unit that divides it ("512m"); the last unit has no size. */
static const char *in_units(uint64_t v, const struct unit *u, char out[24])
{
	while (u->size && (v < u->size || v % u->size))
		u++;
	snprintf(out, 24, "%" PRIu64 "%s", u->size ? v / u->size : v, u->name);
	return out;
}

static const char *size_in_units(uint64_t v, char out[24])
{
	static const struct unit units[] = {
		{ 1ULL << 40, "t" }, { 1ULL << 30, "g" }, { 1ULL << 20, "m" },
		{ 1ULL << 10, "k" }, { 0, "" },
	};

	return in_units(v, units, out);
}

static const char *time_in_units(uint64_t v, char out[24])
{
	static const struct unit units[] = {
		{ 86400000, "d" }, { 3600000, "h" }, { 60000, "m" }, { 1000, "s" }, { 0, "ms" },
	};

	return in_units(v, units, out);
}

int num_size(const char *s, const char *what, uint64_t min, uint64_t max, uint64_t *ret_bytes,
	     struct err *e)
{
	const char *end;
	char low[24], high[24];
	wide v;
	int shift;

	end = fixed(s, 3, &v);
	shift = end ? unit_shift(end) : -1;
	if (shift < 0)
		return err_set(e, ERR_INVALID, "%s '%.80s' is not a size; hint: bytes, or a number with "
			       "k, m, g or t, such as 512m", what, s);
	v = (v << shift) / 1000;
	if (v < min || v > max)
		return err_set(e, ERR_INVALID, "%s '%.80s' is out of range; hint: %s to %s",
			       what, s, size_in_units(min, low), size_in_units(max, high));
	*ret_bytes = (uint64_t)v;
	return 0;
}

int num_duration_ms(const char *s, const char *what, uint64_t max_ms, uint64_t *ret_ms,
		    struct err *e)
{
	/* longest first, so that "ms" is not read as "m" */
	static const struct { const char *name; uint64_t ms; } units[] = {
		{ "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 },
	};
	const char *p = s;
	uint64_t total = 0, last = UINT64_MAX;
	char most[24];

	if (!*p)
		goto bad;
	while (*p) {
		wide v, part;
		uint64_t ms = 0;
		const char *end = fixed(p, 3, &v);
		size_t i;

		if (!end)
			goto bad;
		if (!*end && p == s) {
			ms = 1000;	/* a bare number is seconds */
		} else {
			for (i = 0; i < ARRAY_LEN(units) && !ms; i++) {
				size_t n = strlen(units[i].name);

				if (!strncmp(end, units[i].name, n) && !isalpha((unsigned char)end[n])) {
					ms = units[i].ms;
					end += n;
				}
			}
		}
		if (!ms || ms >= last)	/* units must go down: 1h30m, never 30m1h */
			goto bad;
		last = ms;
		/* finer than a millisecond: cut off, the time could become 0, which means none */
		if (v * ms % 1000)
			goto bad;
		part = v * ms / 1000;
		if (part + total > max_ms)
			return err_set(e, ERR_INVALID, "%s '%.80s' is out of range; hint: at most %s",
				       what, s, time_in_units(max_ms, most));
		total += (uint64_t)part;
		p = end;
	}
	*ret_ms = total;
	return 0;
bad:
	return err_set(e, ERR_INVALID, "%s '%.80s' is not a duration; hint: seconds, or a number with "
		       "ms (the finest), s, m, h or d, such as 300, 1.5s, 5m or 1h30m", what, s);
}

int num_milli(const char *s, const char *what, uint64_t min, uint64_t max, uint64_t *ret_milli,
	      struct err *e)
{
	const char *end;
	wide v;

	end = fixed(s, 3, &v);
	if (!end || *end)
		return err_set(e, ERR_INVALID, "%s '%.80s' is not a number; hint: such as 0.5, 1 or 2.25", what, s);
	if (v < min || v > max)
		return err_set(e, ERR_INVALID, "%s '%.80s' is out of range; hint: %" PRIu64 ".%03" PRIu64 " to %" PRIu64,
			       what, s, min / 1000, min % 1000, max / 1000);
	*ret_milli = (uint64_t)v;
	return 0;
}
