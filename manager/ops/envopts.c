/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/envopts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "manager/host/config.h"

#define ENV_FILE_MAX (1u << 20)

char *envopts_settle(const char *text, struct err *e)
{
	const char *eq = strchr(text, '='), *value = NULL;
	char *both;

	if (!config_is_env_name(text, eq ? (size_t)(eq - text) : strlen(text))) {
		err_set(e, ERR_INVALID, "'%.80s' is not NAME=VALUE", text);
		return NULL;
	}
	/* the operator names a variable of the caller; an image never can (E14) */
	if (!eq && !(value = getenv(text))) {
		err_set(e, ERR_INVALID, "the caller has no variable %.80s; hint: %.80s=VALUE", text, text);
		return NULL;
	}
	if (asprintf(&both, "%s%s%s", text, eq ? "" : "=", eq ? "" : value) < 0) {
		err_nomem(e);
		return NULL;
	}
	return both;
}

/* The operator's own file: a link or a pipe of a shell will do. */
static int read_operators_file(const char *path, struct buf *b, struct err *e)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open %s", path);
	if (fstat(fd, &st) < 0)
		return err_sys(e, "stat %s", path);
	if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
		return err_set(e, ERR_INVALID, "%s is neither a file nor a pipe", path);
	return io_read_all(fd, b, path, e);
}

int envopts_lines(const char *path, envopts_line *each, void *ctx, struct err *e)
{
	autobuf struct buf b = BUF_INIT(ENV_FILE_MAX);
	char *line, *next;
	unsigned number = 0;

	if (read_operators_file(path, &b, e) < 0)
		return -1;
	if (b.data && strlen(b.data) != b.len)
		return err_set(e, ERR_INVALID, "%s holds a NUL byte", path);
	for (line = b.data; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		number++;
		if (!line[0] || line[0] == '#')
			continue;
		if (each(ctx, line, e) < 0)
			return err_wrap(e, "%s:%u", path, number);
	}
	return 0;
}

struct checked {
	envopts_line *each;
	void *ctx;
};

static int check_line(void *ctx, const char *line, struct err *e)
{
	const struct checked *c = ctx;

	if (!strchr(line, '=') || !config_is_env_name(line, strcspn(line, "=")))
		return err_set(e, ERR_INVALID, "'%.80s' is not NAME=VALUE", line);
	return c->each(c->ctx, line, e);
}

int envopts_file(const char *path, envopts_line *each, void *ctx, struct err *e)
{
	struct checked c = { each, ctx };

	return envopts_lines(path, check_line, &c, e);
}

static int append(void *list, const char *line, struct err *e)
{
	return json_array_append_new(list, json_string(line)) < 0 ? err_set(e, ERR_INVALID, "the value is not valid UTF-8") : 0;
}

int envopts_add(json_t *list, int is_file, const char *value, struct err *e)
{
	autofree char *entry = NULL;

	if (is_file)
		return envopts_file(value, append, list, e);
	entry = envopts_settle(value, e);
	return entry ? append(list, entry, e) : -1;
}
