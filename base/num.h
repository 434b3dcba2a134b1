/* SPDX-License-Identifier: Apache-2.0 */
/*
 * num - numbers as people write them, read strictly.
 *
 * No sign, no white space, no hex, no trailing bytes; anything else is
 * ERR_INVALID and the result is untouched.  Nothing is defaulted or clamped.
 */
#ifndef BERTH_BASE_NUM_H
#define BERTH_BASE_NUM_H

#include <stdint.h>

#include "base/err.h"

/* Decimal digits only, min <= value <= max.  what names the value in errors. */
int num_u64(const char *s, const char *what, uint64_t min, uint64_t max, uint64_t *ret_value,
	    struct err *e);
/*
 * Bytes: digits with an optional fraction and an optional unit
 * b, k, m, g, t (powers of 1024; "kb", "mb", "kib", "mib", ... too, any case).
 */
int num_size(const char *s, const char *what, uint64_t min, uint64_t max, uint64_t *ret_bytes,
	     struct err *e);
/*
 * Milliseconds: "300" is seconds; fractions and units ms, s, m, h, d; "1h30m" is a sum. A
 * fraction of a millisecond is refused: cut off, "0.5ms" would be 0, which means none to most
 * callers.
 */
int num_duration_ms(const char *s, const char *what, uint64_t max_ms, uint64_t *ret_ms,
		    struct err *e);
/* CPUs in thousandths: "0.5" is 500.  At most three decimals. */
int num_milli(const char *s, const char *what, uint64_t min, uint64_t max, uint64_t *ret_milli,
	      struct err *e);

#endif
