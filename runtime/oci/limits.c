/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of a process: rlimits, OOM score, I/O priority, scheduler,
 * CPU affinity, memory policy, personality.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/rlimits.h"
#include "runtime/oci/container.h"
#include "runtime/oci/json.h"
#include "runtime/oci/log.h"
#include "runtime/oci/process.h"

static int rlimit_number(const char *type)
{
	char name[32] = "";
	unsigned i;

	if (strncmp(type, "RLIMIT_", 7) != 0)
		return -1;
	for (i = 0; type[7 + i] && i + 1 < sizeof(name); i++)
		name[i] = (char)tolower((unsigned char)type[7 + i]);
	for (i = 0; i < RLIMITS_COUNT; i++)
		if (!strcmp(name, rlimits_name(i)))
			return (int)i;
	return -1;
}

static int set_process_rlimits(const json_t *list, pid_t pid, struct err *e)
{
	const json_t *v;
	unsigned seen = 0;
	size_t i;

	json_array_foreach(list, i, v) {
		const char *type = oci_str(v, "type");
		struct rlimit l = { oci_u64(v, "soft", 0), oci_u64(v, "hard", 0) };
		int n = rlimit_number(type);

		if (n < 0)
			return err_set(e, ERR_INVALID, "process.rlimits[%zu]: invalid rlimit type: %.64s", i, type);
		if (seen >> n & 1)
			return err_set(e, ERR_INVALID, "process.rlimits[%zu]: duplicated type %.64s", i, type);
		seen |= 1u << n;
		if (syscall(SYS_prlimit64, pid, n, &l, NULL) < 0) {
			err_sys(e, "set %s to %llu:%llu", type, (unsigned long long)l.rlim_cur, (unsigned long long)l.rlim_max);
			return e->os_errno == EPERM ? err_hint(e, "the caller has neither CAP_SYS_RESOURCE nor a hard limit as high") : -1;
		}
	}
	return 0;
}

static int set_oom_score(const json_t *process, pid_t pid, int proc_fd, struct err *e)
{
	char path[48], text[16], now[16] = "";
	autoclose int fd = -1;
	int len;

	if (!oci_get(process, "oomScoreAdj"))
		return 0;
	len = snprintf(text, sizeof(text), "%d", (int)oci_i64(process, "oomScoreAdj", 0));
	snprintf(path, sizeof(path), "%d/oom_score_adj", (int)pid);
	fd = openat(proc_fd, path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && write(fd, text, (size_t)len) == len)
		return 0;
	/* it may have this value already, which needs no privilege */
	if (fd >= 0 && pread(fd, now, sizeof(now) - 1, 0) > 0 && atoi(now) == atoi(text))
		return 0;
	return err_sys(e, "write %s to oom_score_adj", text);
}

static int set_io_priority(const json_t *v, pid_t pid, struct err *e)
{
	static const char *const classes[] = { NULL, "IOPRIO_CLASS_RT", "IOPRIO_CLASS_BE", "IOPRIO_CLASS_IDLE" };
	const char *class = oci_str(v, "class");
	int64_t priority = oci_i64(v, "priority", 0);
	unsigned i;

	if (!v)
		return 0;
	for (i = 1; i < ARRAY_LEN(classes); i++)
		if (!strcmp(class, classes[i]))
			break;
	if (i == ARRAY_LEN(classes))
		return err_set(e, ERR_INVALID, "process.ioPriority: '%.64s' is not a class", class);
	if (priority < 0 || priority > 7)
		return err_set(e, ERR_INVALID, "process.ioPriority: priority %lld is not 0 to 7", (long long)priority);
	if (syscall(SYS_ioprio_set, 1 /* IOPRIO_WHO_PROCESS */, pid, (int)(i << IOPRIO_CLASS_SHIFT | (unsigned)priority)) < 0)
		return err_sys(e, "set process.ioPriority");
	return 0;
}

struct attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
	uint32_t util_min, util_max;
};

#define SCHED_DEADLINE_POLICY 6		/* SCHED_DEADLINE, which not every C library names */
#define DEADLINE_MIN 1024ULL		/* sched(7), "Deadline scheduling" */
#define DEADLINE_MAX (1ULL << 63)

static int check_span(const char *key, uint64_t ns, struct err *e)
{
	if (ns >= DEADLINE_MIN && ns <= DEADLINE_MAX)
		return 0;
	return err_set(e, ERR_INVALID,
		       "sched_setattr: `SCHED_DEADLINE` %s (%llu) must be between %llu and %llu",
		       key, (unsigned long long)ns, DEADLINE_MIN, DEADLINE_MAX);
}

/*
 * The kernel refuses each of these as an invalid argument. In crun's words, which its tests
 * look for.
 */
static int check_deadline(const json_t *v, const struct attr *a, struct err *e)
{
	static const char *const keys[] = { "runtime", "deadline" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++) {
		if (!oci_get(v, keys[i]))
			return err_set(e, ERR_INVALID,
				       "sched_setattr: `SCHED_DEADLINE` requires `%s`", keys[i]);
		if (!oci_u64(v, keys[i], 0))
			return err_set(e, ERR_INVALID,
				       "sched_setattr: `SCHED_DEADLINE` %s must be greater than 0",
				       keys[i]);
	}
	if (a->runtime > a->deadline)
		return err_set(e, ERR_INVALID,
			       "sched_setattr: `SCHED_DEADLINE` runtime (%llu) must be <= deadline (%llu)",
			       (unsigned long long)a->runtime, (unsigned long long)a->deadline);
	/* a period of 0 is the deadline */
	if (a->period && a->deadline > a->period)
		return err_set(e, ERR_INVALID,
			       "sched_setattr: `SCHED_DEADLINE` deadline (%llu) must be <= period (%llu)",
			       (unsigned long long)a->deadline, (unsigned long long)a->period);
	if (check_span("runtime", a->runtime, e) < 0 || check_span("deadline", a->deadline, e) < 0)
		return -1;
	return a->period ? check_span("period", a->period, e) : 0;
}

static int set_scheduler(const json_t *v, pid_t pid, struct err *e)
{
	static const struct { const char *word; uint32_t policy; } policies[] = {
		{ "SCHED_OTHER", SCHED_OTHER }, { "SCHED_FIFO", SCHED_FIFO }, { "SCHED_RR", SCHED_RR },
		{ "SCHED_BATCH", SCHED_BATCH }, { "SCHED_ISO", 4 }, { "SCHED_IDLE", SCHED_IDLE },
		{ "SCHED_DEADLINE", SCHED_DEADLINE_POLICY },
	};
	static const struct { const char *word; uint64_t flag; } flags[] = {
		{ "SCHED_FLAG_RESET_ON_FORK", 1 }, { "SCHED_FLAG_RECLAIM", 2 }, { "SCHED_FLAG_DL_OVERRUN", 4 },
		{ "SCHED_FLAG_KEEP_POLICY", 8 }, { "SCHED_FLAG_KEEP_PARAMS", 16 }, { "SCHED_FLAG_UTIL_CLAMP_MIN", 32 },
		{ "SCHED_FLAG_UTIL_CLAMP_MAX", 64 },
	};
	struct attr a = { .size = sizeof(a), .nice = (int32_t)oci_i64(v, "nice", 0),
			  .priority = (uint32_t)oci_i64(v, "priority", 0), .runtime = oci_u64(v, "runtime", 0),
			  .deadline = oci_u64(v, "deadline", 0), .period = oci_u64(v, "period", 0) };
	const char *word = oci_str(v, "policy");
	const json_t *f;
	size_t i, j;

	if (!v)
		return 0;
	for (i = 0; i < ARRAY_LEN(policies); i++)
		if (!strcmp(word, policies[i].word))
			break;
	if (i == ARRAY_LEN(policies))
		return err_set(e, ERR_INVALID, "process.scheduler: '%.64s' is not a policy", word);
	a.policy = policies[i].policy;
	json_array_foreach(oci_get(v, "flags"), i, f) {
		for (j = 0; j < ARRAY_LEN(flags); j++)
			if (!strcmp(json_string_value(f), flags[j].word))
				break;
		if (j == ARRAY_LEN(flags))
			return err_set(e, ERR_INVALID, "process.scheduler: '%.64s' is not a flag", json_string_value(f));
		a.flags |= flags[j].flag;
	}
	if (a.policy == SCHED_DEADLINE_POLICY && check_deadline(v, &a, e) < 0)
		return -1;
	if (syscall(SYS_sched_setattr, pid, &a, 0) < 0)
		return err_sys(e, "set process.scheduler to %s", word);
	return 0;
}

int oci_process_limits(const json_t *process, pid_t pid, int proc_fd, struct err *e)
{
	return set_oom_score(process, pid, proc_fd, e) < 0 || set_process_rlimits(oci_get(process, "rlimits"), pid, e) < 0 ||
	       set_io_priority(oci_get(process, "ioPriority"), pid, e) < 0 ||
	       set_scheduler(oci_get(process, "scheduler"), pid, e) < 0 ? -1 : 0;
}

int oci_process_affinity(const char *list, struct err *e)
{
	cpu_set_t set;
	const char *s = list;

	CPU_ZERO(&set);
	while (*s) {
		char *end;
		unsigned long from, to;

		s += strspn(s, " ,");
		if (!*s)
			break;
		from = to = isdigit((unsigned char)*s) ? strtoul(s, &end, 10) : CPU_SETSIZE;
		if (from < CPU_SETSIZE && *end == '-' && isdigit((unsigned char)end[1]))
			to = strtoul(end + 1, &end, 10);
		if (from >= CPU_SETSIZE || to >= CPU_SETSIZE || from > to || (*end && !strchr(" ,", *end)))
			return err_set(e, ERR_INVALID, "execCPUAffinity: '%.64s' is not a list such as 0-2,5", list);
		for (; from <= to; from++)
			CPU_SET(from, &set);
		s = end;
	}
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		return err_sys(e, "set the CPU affinity to %s", list);
	return 0;
}

void oci_process_affinity_all(void)
{
	unsigned char mask[1024];	/* 8192 CPUs, more than any kernel is built for */

	memset(mask, 0xff, sizeof(mask));
	/* the kernel takes the CPUs that the cpuset allows; without that, our affinity stays */
	syscall(SYS_sched_setaffinity, 0, sizeof(mask), mask);
}

/* ---- memory policy ---- */

/* linux.memoryPolicy: from which NUMA nodes a process gets memory (set_mempolicy(2)). */

#define NODES_MAX 1024

static const struct mode { const char *word; int mode, nodes; } modes[] = {
	/* nodes: -1 none are allowed, 1 some are needed, 0 either */
	{ "MPOL_DEFAULT", 0, -1 }, { "MPOL_PREFERRED", 1, 0 }, { "MPOL_BIND", 2, 1 },
	{ "MPOL_INTERLEAVE", 3, 1 },
	{ "MPOL_LOCAL", 4, -1 }, { "MPOL_PREFERRED_MANY", 5, 1 },
	{ "MPOL_WEIGHTED_INTERLEAVE", 6, 1 },
};

static const struct { const char *word; int flag; } flags[] = {
	{ "MPOL_F_NUMA_BALANCING", 1 << 13 }, { "MPOL_F_RELATIVE_NODES", 1 << 14 },
	{ "MPOL_F_STATIC_NODES", 1 << 15 },
};

const char *oci_mempolicy_mode(size_t i)
{
	return i < ARRAY_LEN(modes) ? modes[i].word : NULL;
}

const char *oci_mempolicy_flag(size_t i)
{
	return i < ARRAY_LEN(flags) ? flags[i].word : NULL;
}

struct policy {
	int mode, nodes;
	unsigned long mask[NODES_MAX / (8 * sizeof(unsigned long))];
};

static int read_nodes(struct policy *p, const char *list, struct err *e)
{
	const size_t bits = 8 * sizeof(*p->mask);
	const char *s;

	for (s = list; *s;) {
		char *end;
		unsigned long from = strtoul(s, &end, 10), to = from;

		if (end != s && *end == '-')
			to = strtoul(end + 1, &end, 10);
		if (end == s || s[0] == '-' || from > to || to >= NODES_MAX || (*end &&
		    *end != ','))
			return err_set(e, ERR_INVALID,
				       "invalid memory policy node: linux.memoryPolicy.nodes '%.64s' is not a list "
				       "such as 0-1 of numbers below %d", list, NODES_MAX);
		for (; from <= to; from++) {
			p->nodes += !(p->mask[from / bits] >> from % bits & 1);
			p->mask[from / bits] |= 1UL << from % bits;
		}
		s = end + (*end == ',');
	}
	return 0;
}

static int read_mempolicy_flags(struct policy *p, const json_t *list, struct err *e)
{
	const json_t *v;
	size_t i, j;

	json_array_foreach(list, i, v) {
		for (j = 0; j < ARRAY_LEN(flags); j++)
			if (!strcmp(json_string_value(v), flags[j].word))
				break;
		if (j == ARRAY_LEN(flags))
			return err_set(e, ERR_INVALID,
				       "invalid memory policy flag: linux.memoryPolicy.flags has '%.32s'",
				       json_string_value(v));
		p->mode |= flags[j].flag;
	}
	return 0;
}

/* Reads the policy; errors are in runc's words, which its tests look for. */
static int read_mempolicy(const json_t *v, struct policy *p, struct err *e)
{
	const char *word = oci_str(v, "mode"), *nodes = oci_str(v, "nodes");
	const struct mode *m;

	memset(p, 0, sizeof(*p));
	for (m = modes; m < modes + ARRAY_LEN(modes); m++)
		if (word && !strcmp(word, m->word))
			break;
	if (m == modes + ARRAY_LEN(modes))
		return err_set(e, ERR_INVALID,
			       "invalid memory policy mode: linux.memoryPolicy.mode is '%.32s'",
			       word ? word : "");
	p->mode = m->mode;
	if (read_mempolicy_flags(p, oci_get(v, "flags"), e) < 0 || read_nodes(p, nodes ? nodes : "", e) < 0)
		return -1;
	if (m->nodes < 0 && p->nodes)
		return err_set(e, ERR_INVALID,
			       "invalid memory policy: %s mode requires 0 nodes but got %d",
			       m->word, p->nodes);
	if (m->nodes > 0 && !p->nodes)
		return err_set(e, ERR_INVALID,
			       "invalid memory policy: %s mode requires at least one node",
			       m->word);
	return 0;
}

int oci_mempolicy_check(const json_t *linux_part, struct err *e)
{
	const json_t *v = oci_get(linux_part, "memoryPolicy");
	struct policy p;

	return v ? read_mempolicy(v, &p, e) : 0;
}

int oci_mempolicy_set(const json_t *linux_part, struct err *e)
{
	const json_t *v = oci_get(linux_part, "memoryPolicy");
	struct policy p;

	if (!v)
		return 0;
	if (read_mempolicy(v, &p, e) < 0)
		return -1;
	if (syscall(SYS_set_mempolicy, p.mode, p.nodes ? p.mask : NULL, p.nodes ? sizeof(p.mask) * 8 : 0) < 0)
		return err_sys(e, "set linux.memoryPolicy");
	return 0;
}
