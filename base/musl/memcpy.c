/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memcpy(3) and memmove(3) instead of musl's, which begin and end each copy with string moves of
 * the CPU. Those cost 30 to 40 cycles on a CPU without fast string moves (tests/bench/NOTES.md,
 * section 15), and JSON is read and written a byte at a time.
 *
 * A copy of less than 32 bytes is read whole before any of it is written. For a longer copy, the
 * last (or first) 16 bytes are read first and the rest in order, so source and destination may
 * overlap.
 */
#include <stddef.h>
#include <stdint.h>

#define LARGE 1024	/* from this length on a string move is as fast as any loop */

typedef unsigned char vec __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t word __attribute__((aligned(1), may_alias));
typedef uint32_t half __attribute__((aligned(1), may_alias));
typedef uint16_t pair __attribute__((aligned(1), may_alias));

#define ENDS(type) do { const type a_ = *(const type *)s, z_ = *(const type *)(s + n - sizeof(type)); \
	*(type *)d = a_; *(type *)(d + n - sizeof(type)) = z_; } while (0)

#ifndef NAME	/* a test defines another name */
#define NAME(name) __asm__(name)
#endif

void *musl_memcpy(void *to, const void *from, size_t n) NAME("memcpy");
void *musl_memmove(void *to, const void *from, size_t n) NAME("memmove");

static void copy_short(char *d, const char *s, size_t n)
{
	if (n >= 16)
		ENDS(vec);
	else if (n >= 8)
		ENDS(word);
	else if (n >= 4)
		ENDS(half);
	else if (n >= 2)
		ENDS(pair);
	else if (n)
		*d = *s;
}

/* d is before s, or they do not overlap */
static void copy_forwards(char *d, const char *s, size_t n)
{
	const vec last = *(const vec *)(s + n - 16);
	size_t i;

	for (i = 0; i + 16 < n; i += 16)
		*(vec *)(d + i) = *(const vec *)(s + i);
	*(vec *)(d + n - 16) = last;
}

static void copy_down(char *d, const char *s, size_t n)
{
	const vec first = *(const vec *)s;
	size_t i;

	for (i = n; i > 16; i -= 16)
		*(vec *)(d + i - 16) = *(const vec *)(s + i - 16);
	*(vec *)d = first;
}

static void copy_disjoint(void *d, const void *s, size_t n)
{
#ifdef __x86_64__
	if (n >= LARGE) {
		__asm__ volatile("rep movsb" : "+D"(d), "+S"(s), "+c"(n) : : "memory");
		return;
	}
#endif
	copy_forwards(d, s, n);
}

void *musl_memcpy(void *to, const void *from, size_t n)
{
	if (n < 32)
		copy_short(to, from, n);
	else
		copy_disjoint(to, from, n);
	return to;
}

void *musl_memmove(void *to, const void *from, size_t n)
{
	const size_t after = (size_t)((char *)to - (const char *)from);

	if (n < 32)
		copy_short(to, from, n);
	else if (after < n)
		copy_down(to, from, n);
	else if ((size_t)0 - after < n)
		copy_forwards(to, from, n);
	else
		copy_disjoint(to, from, n);
	return to;
}
