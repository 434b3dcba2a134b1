/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/pressure.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/kernel/cgroup.h"

static const char *const names[] = { "cpu", "memory", "io" };
_Static_assert(ARRAY_LEN(names) == PRESSURE_COUNT, "each kind has a name");

const char *pressure_name(enum pressure_kind kind)
{
	return names[kind];
}

/* "some avg10=0.00 avg60=0.00 avg300=0.00 total=0" */
static int parse_line(const char *line, const char *word, struct pressure_line *ret)
{
	unsigned whole[3], part[3];
	const size_t n = strlen(word);
	uint64_t total;

	if (strncmp(line, word, n) || line[n] != ' ')
		return 0;
	if (sscanf(line + n, " avg10=%u.%2u avg60=%u.%2u avg300=%u.%2u total=%" SCNu64, &whole[0],
		   &part[0], &whole[1], &part[1], &whole[2], &part[2], &total) != 7)
		return 0;
	*ret = (struct pressure_line){ whole[0] * 100 + part[0], whole[1] * 100 + part[1],
				       whole[2] * 100 + part[2], total };
	return 1;
}

int pressure_parse(const char *text, struct pressure *ret)
{
	const char *second = strchr(text, '\n');
	struct pressure p = { { 0 }, { 0 } };

	if (!parse_line(text, "some", &p.some))
		return 0;
	/* before Linux 5.13 nothing was said of all tasks and the CPU */
	if (second && second[1] && !parse_line(second + 1, "full", &p.full))
		return 0;
	*ret = p;
	return 1;
}

int pressure_read(int dirfd, enum pressure_kind kind, struct pressure *ret)
{
	char file[32], text[512];

	snprintf(file, sizeof(file), "%s.pressure", names[kind]);
	return cgroup_read(dirfd, file, text, sizeof(text)) > 0 && pressure_parse(text, ret);
}
