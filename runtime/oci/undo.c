/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/undo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/kernel/cgroup.h"

#define CONTENT_MAX 65536

/* Files with one line for each interface or adapter; those for devices are known by MAJOR:MINOR. */
static int has_lines(const char *file, const char *text)
{
	const size_t n = strcspn(text, " ");

	return memchr(text, ':', n) || (text[n] && (!strcmp(file, "net_prio.ifpriomap") || !strcmp(file, "rdma.max")));
}

/* The value for a line that does not exist. */
static const char *nothing(const char *file)
{
	if (!strcmp(file, "io.max"))
		return "rbps=max wbps=max riops=max wiops=max";
	if (!strcmp(file, "rdma.max"))
		return "hca_handle=max hca_object=max";
	return strncmp(file, "io.", 3) ? "0" : "default";
}

/* The line of content that begins with the first word of text; else that word, and nothing. */
static char *line_of(char *content, const char *file, const char *text)
{
	const size_t n = strcspn(text, " ");
	char *line, *save = NULL, *out = NULL;

	for (line = strtok_r(content, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (!strncmp(line, text, n) && line[n] == ' ')
			return strdup(line);
	return asprintf(&out, "%.*s %s", (int)n, text, nothing(file)) < 0 ? NULL : out;
}

static char *before(char *content, const char *file, const char *text)
{
	const char *disabled;

	if (has_lines(file, text))
		return line_of(content, file, text);
	/* it is read as three lines and written as one number */
	if (!strcmp(file, "memory.oom_control")) {
		disabled = strstr(content, "oom_kill_disable ");
		return strdup(disabled && disabled[17] == '1' ? "1" : "0");
	}
	content[strcspn(content, "\n")] = '\0';
	/* an empty list of CPUs; no bytes at all would be no write(2) to speak of */
	return strdup(*content ? content : "\n");
}

int oci_undo_note(struct oci_undo *u, int dir_fd, const char *file, const char *text, struct err *e)
{
	struct oci_undo_entry *more = reallocarray(u->list, u->count + 1, sizeof(*more)), *one;
	autofree char *content = malloc(CONTENT_MAX);

	if (more)
		u->list = more;
	if (!more || !content)
		return err_nomem(e);
	one = &u->list[u->count];
	*one = (struct oci_undo_entry){ .dir_fd = dir_fd, .file = strdup(file) };
	if (one->file && cgroup_read(dir_fd, file, content, CONTENT_MAX) >= 0)
		one->text = before(content, file, text);
	u->count++;
	return one->file ? 0 : err_nomem(e);
}

static void release(struct oci_undo_entry *one)
{
	free(one->file);
	free(one->text);
}

void oci_undo_drop(struct oci_undo *u)
{
	if (u->count)
		release(&u->list[--u->count]);
}

int oci_undo_restore(const struct oci_undo *u, struct err *e)
{
	size_t i = u->count;
	int r = 0;

	while (i-- > 0) {
		const struct oci_undo_entry *one = &u->list[i];

		if (!one->text || cgroup_write(one->dir_fd, one->file, one->text) == 0 || r < 0)
			continue;
		r = err_sys(e, "write '%s' back to cgroup file %s", one->text, one->file);
	}
	return r;
}

void oci_undo_release(struct oci_undo *u)
{
	while (u->count)
		oci_undo_drop(u);
	free(u->list);
	u->list = NULL;
}
