/* SPDX-License-Identifier: Apache-2.0 */
/* linux.memoryPolicy: from which NUMA nodes a process gets memory (set_mempolicy(2)). */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/oci/container.h"
#include "runtime/oci/json.h"

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

static int read_flags(struct policy *p, const json_t *list, struct err *e)
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

/* In runc's words, which its tests look for. */
static int read_policy(const json_t *v, struct policy *p, struct err *e)
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
	if (read_flags(p, oci_get(v, "flags"), e) < 0 || read_nodes(p, nodes ? nodes : "", e) < 0)
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

	return v ? read_policy(v, &p, e) : 0;
}

int oci_mempolicy_set(const json_t *linux_part, struct err *e)
{
	const json_t *v = oci_get(linux_part, "memoryPolicy");
	struct policy p;

	if (!v)
		return 0;
	if (read_policy(v, &p, e) < 0)
		return -1;
	if (syscall(SYS_set_mempolicy, p.mode, p.nodes ? p.mask : NULL, p.nodes ? sizeof(p.mask) * 8 : 0) < 0)
		return err_sys(e, "set linux.memoryPolicy");
	return 0;
}
