/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --mount, --volume and --tmpfs, one spec a line, then the plan of them all.
 * Whatever the spelling, no user mount in a plan lies on what berth itself
 * mounts, has a "." or ".." in its target, or lacks nosuid and nodev.
 */
#include <linux/mount.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "manager/ops/mountspec.h"
#include "runtime/sandbox/mountplan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LINES_MAX 96

static int is_below(const char *t, const char *dir)
{
	size_t n = strlen(dir);

	return !strncmp(t, dir, n) && (!t[n] || t[n] == '/');
}

static void check(const struct mountplan *p)
{
	size_t i;

	for (i = 0; i < p->count; i++) {
		const struct mount_op *op = &p->ops[i];
		const char *t = op->target;

		if (op->kind != MOUNT_BIND && op->kind != MOUNT_TMPFS)
			continue;
		if (t[0] != '/' || !t[1] || strstr(t, "//") || strstr(t, "/./") || strstr(t, "/../") || t[strlen(t) - 1] == '/')
			abort();
		if (is_below(t, "/proc") || is_below(t, "/sys") || (is_below(t, "/dev") && strcmp(t, "/dev/shm")))
			abort();
		if ((op->attr & (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)) != (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV))
			abort();
		if (op->kind == MOUNT_TMPFS && (!op->size_bytes || !op->inodes || op->mode > 01777))
			abort();
		if (op->kind == MOUNT_BIND && op->source[0] != '/')
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int (*const read[])(struct spec *s, const char *text, char **ret_owned, struct err *e) = {
		mountspec_mount, mountspec_volume, mountspec_tmpfs,
	};
	static struct mountplan plan;
	static struct spec s;
	char *text = malloc(size + 1), *list = text, *line, *owned[LINES_MAX];
	struct buf b = BUF_INIT(1 << 20);
	struct err e = { 0 };
	size_t n = 0, lines = 0;

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = '\0';
	memset(&s, 0, sizeof(s));
	while ((line = strsep(&list, "\n")) && lines++ < LINES_MAX) {
		size_t before = s.mount_count;
		int kind = line[0] == 'v' ? 1 : line[0] == 't' ? 2 : 0;

		owned[n] = NULL;
		e.msg[0] = '\0';
		if (read[kind](&s, line[0] ? line + 1 : line, &owned[n], &e) < 0) {
			if (owned[n] || s.mount_count != before || !e.msg[0])
				abort();
		} else {
			if (!owned[n] || s.mount_count != before + 1)
				abort();
			n++;
		}
	}
	s.tmp_bytes = s.shm_bytes = 4096;
	s.resident = size & 1;
	if (mountplan_build(&plan, &s, NULL, &e) == 0) {
		check(&plan);
		if (mountplan_print(&plan, &b, &e) < 0 && e.code != ERR_LIMIT)
			abort();
	}
	buf_release(&b);
	while (n)
		free(owned[--n]);
	free(text);
	return 0;
}
