/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy - the built-in profiles as one table: call, condition, who, answer, why.
 *
 * Rows are tried in order; the first whose profile bit is set and whose tests
 * all hold decides.  A call named by no row gets POLICY_UNKNOWN.  From this
 * table come both filters (seccomp/compile.c), the printed rules (seccomp/gen.c)
 * and the manual's claims.  It is needed at build time only.
 *
 * Tests look at the low 32 bits of an argument: all tested arguments are int or
 * flag words the kernel itself truncates, and comparing 64 bits lets
 * ioctl(fd, 0x100005412) through (K11).
 */
#ifndef BERTH_SECCOMP_POLICY_H
#define BERTH_SECCOMP_POLICY_H

#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum policy_profile {
	POLICY_STRICT = 1,
	POLICY_STANDARD = 2,
	POLICY_DEV = 4,
	POLICY_INIT = 8,	/* berth's own pid 1: every call any payload may make, and clone3 */
	POLICY_NOSETID = 16,	/* loaded on top of another profile where the sandbox can write a host
				 * directory: no set-id files */
	POLICY_KEEPER = 32,	/* a keeper that serves, and the children it starts; filter a only */
	POLICY_BUILDER = 64,	/* buildah in its room: every call any payload may make, and the mounts of a
				 * build */
	POLICY_PAYLOADS = 7,
	POLICY_ALL = 15 | POLICY_BUILDER,
};

enum policy_op {
	POLICY_IN,		/* (arg & mask) is one of value[] */
	POLICY_ANY_BIT,		/* (arg & mask) is not zero */
	POLICY_AT_LEAST,	/* (arg & mask) >= value[0], unsigned */
};

#define POLICY_VALUE_MAX 6
#define POLICY_TEST_MAX 3

struct policy_test {
	const char *what;	/* the argument's name */
	uint8_t arg;		/* 0 to 5 */
	uint8_t op;		/* enum policy_op */
	uint8_t count;		/* of value[] */
	uint32_t mask;
	uint32_t value[POLICY_VALUE_MAX];
};

struct policy_rule {
	const char *const *names;	/* ends with NULL; a name an architecture lacks is skipped there */
	uint8_t profiles;		/* enum policy_profile bits */
	uint8_t in_a;			/* belongs in filter a even without a test */
	uint32_t action;		/* SECCOMP_RET_* */
	const char *reason;
	struct policy_test test[POLICY_TEST_MAX];	/* up to one with a NULL name */
};

extern const struct policy_rule policy_rules[];
extern const size_t policy_rule_count;

struct policy_name {
	const char *name;
	uint8_t bit;
};
#define POLICY_PROFILE_COUNT 7
extern const struct policy_name policy_profiles[POLICY_PROFILE_COUNT];

#define POLICY_ERRNO(n) (SECCOMP_RET_ERRNO | (n))
/*
 * The answer for numbers that no row names: newer than this table, or never assigned. libc falls
 * back on ENOSYS.
 */
#define POLICY_UNKNOWN POLICY_ERRNO(ENOSYS)
/* The answer for another architecture's table, x32 included: numbers mean nothing there (K10). */
#define POLICY_BAD_ARCH SECCOMP_RET_KILL_PROCESS

/* Appends the tests of r as text: "family is 2 or 10, type & 0xf is 1". */
int policy_condition(const struct policy_rule *r, struct buf *b, struct err *e);
/* "allow", "kill", or the errno's name. */
const char *policy_action(uint32_t action);

#endif
