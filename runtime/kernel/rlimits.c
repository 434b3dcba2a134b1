/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/rlimits.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "base/num.h"

static const char *const names[] = {
	[RLIMIT_CPU] = "cpu", [RLIMIT_FSIZE] = "fsize", [RLIMIT_DATA] = "data", [RLIMIT_STACK] = "stack",
	[RLIMIT_CORE] = "core", [RLIMIT_RSS] = "rss", [RLIMIT_NPROC] = "nproc", [RLIMIT_NOFILE] = "nofile",
	[RLIMIT_MEMLOCK] = "memlock", [RLIMIT_AS] = "as", [RLIMIT_LOCKS] = "locks",
	[RLIMIT_SIGPENDING] = "sigpending", [RLIMIT_MSGQUEUE] = "msgqueue", [RLIMIT_NICE] = "nice",
	[RLIMIT_RTPRIO] = "rtprio", [RLIMIT_RTTIME] = "rttime",
};
_Static_assert(sizeof(names) / sizeof(names[0]) == RLIMITS_COUNT, "one name per limit");

static void set_rlimit_entry(struct rlimits *r, unsigned i, uint64_t soft, uint64_t hard)
{
	r->set |= 1u << i;
	r->v[i].soft = soft;
	r->v[i].hard = hard;
}

void rlimits_default(struct rlimits *r)
{
	memset(r, 0, sizeof(*r));
	/* 1, not 0: a piped core_pattern ignores 0, and fs/coredump.c gives up at exactly 1 (K17) */
	set_rlimit_entry(r, RLIMIT_CORE, 1, 1);
	/* times the default --pids this stays below the fs.file-max of a small host, which all share (D14) */
	set_rlimit_entry(r, RLIMIT_NOFILE, 1024, 4096);
	set_rlimit_entry(r, RLIMIT_MEMLOCK, 64 << 10, 64 << 10);
	set_rlimit_entry(r, RLIMIT_MSGQUEUE, 819200, 819200);
	set_rlimit_entry(r, RLIMIT_SIGPENDING, 4096, 4096);
	set_rlimit_entry(r, RLIMIT_RTPRIO, 0, 0);
	set_rlimit_entry(r, RLIMIT_NICE, 0, 0);
}

const char *rlimits_name(unsigned i)
{
	return i < RLIMITS_COUNT ? names[i] : NULL;
}

static int parse_rlimit_value(const char *s, size_t n, const char *what, uint64_t *ret, struct err *e)
{
	char copy[32];

	if (n >= sizeof(copy))
		return err_set(e, ERR_INVALID, "limit '%.40s' is too long", s);
	memcpy(copy, s, n);
	copy[n] = '\0';
	if (!strcasecmp(copy, "unlimited") || !strcmp(copy, "-1")) {
		*ret = RLIMITS_INFINITY;
		return 0;
	}
	return num_u64(copy, what, 0, INT64_MAX, ret, e);
}

int rlimits_parse(struct rlimits *r, const char *text, struct err *e)
{
	const char *eq = strchr(text, '='), *colon;
	uint64_t soft, hard;
	unsigned i;

	if (!eq)
		return err_set(e, ERR_INVALID, "'%.60s' has no '='; hint: NAME=SOFT[:HARD], such as nofile=1024:4096", text);
	for (i = 0; i < RLIMITS_COUNT; i++)
		if (strlen(names[i]) == (size_t)(eq - text) && !strncasecmp(text, names[i], (size_t)(eq - text)))
			break;
	if (i == RLIMITS_COUNT)
		return err_set(e, ERR_INVALID, "'%.*s' is not a resource limit; hint: one of cpu fsize data stack core "
			       "rss nproc nofile memlock as locks sigpending msgqueue nice rtprio rttime",
			       (int)(eq - text > 40 ? 40 : eq - text), text);
	colon = strchr(eq + 1, ':');
	if (parse_rlimit_value(eq + 1, colon ? (size_t)(colon - eq - 1) : strlen(eq + 1), names[i], &soft, e) < 0)
		return -1;
	hard = soft;
	if (colon && parse_rlimit_value(colon + 1, strlen(colon + 1), names[i], &hard, e) < 0)
		return -1;
	if (soft > hard)
		return err_set(e, ERR_INVALID, "'%.60s': the soft limit is above the hard limit", text);
	set_rlimit_entry(r, i, soft, hard);
	return 0;
}

int rlimits_fit(struct rlimits *r, uint32_t asked, struct err *e)
{
	unsigned i;

	for (i = 0; i < RLIMITS_COUNT; i++) {
		struct rlimit have;

		if (!(r->set & 1u << i))
			continue;
		if (getrlimit((int)i, &have) < 0)
			return err_sys(e, "read the limit %s", names[i]);
		if (have.rlim_max == RLIM_INFINITY || r->v[i].hard <= have.rlim_max)
			continue;
		if (asked & 1u << i)
			return err_set(e, ERR_UNSUPPORTED, "limit %s: %llu is above this process's own hard limit %llu; "
				       "hint: raise it for berth's caller (ulimit -H), or ask for less", names[i],
				       (unsigned long long)r->v[i].hard, (unsigned long long)have.rlim_max);
		r->v[i].hard = have.rlim_max;
		if (r->v[i].soft > r->v[i].hard)
			r->v[i].soft = r->v[i].hard;
	}
	return 0;
}
