/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"

/* ---- the directories of the registry ---- */

int registry_open(struct registry *r, const struct config *c, struct err *e)
{
	*r = (struct registry)REGISTRY_INIT;
	r->config = c;
	r->run_fd = path_open_private_dir(c->run_dir, e);
	if (r->run_fd < 0)
		return -1;
	r->state_fd = path_open_private_dir(c->state_dir, e);
	if (r->state_fd < 0 || (r->sandboxes_fd = path_make_dir(r->run_fd, "sandboxes", e)) < 0 ||
	    (r->names_fd = path_make_dir(r->state_fd, "names", e)) < 0 ||
	    (r->kept_fd = path_make_dir(r->state_fd, "sandboxes", e)) < 0 ||
	    (r->ids_fd = path_make_dir(r->state_fd, "ids", e)) < 0) {
		registry_close(r);
		return -1;
	}
	return 0;
}

void registry_close(struct registry *r)
{
	fd_close(&r->run_fd);
	fd_close(&r->state_fd);
	fd_close(&r->sandboxes_fd);
	fd_close(&r->names_fd);
	fd_close(&r->kept_fd);
	fd_close(&r->ids_fd);
	fd_close(&r->pool_fd);
}

int registry_lock(struct registry *r, struct err *e)
{
	while (flock(r->sandboxes_fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the registry of sandboxes");
	return 0;
}

void registry_unlock(struct registry *r)
{
	flock(r->sandboxes_fd, LOCK_UN);
}

struct named {
	int (*each)(void *ctx, const char *name);
	void *ctx;
};

static int only_named(void *ctx, const char *name)
{
	const struct named *n = ctx;

	return path_is_name(name) ? n->each(n->ctx, name) : 0;
}

int registry_each(int dirfd, int (*each)(void *ctx, const char *name), void *ctx, struct err *e)
{
	struct named n = { each, ctx };
	autoclose int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int failed = 0, r = fd < 0 ? -1 : path_each_entry(fd, only_named, &n, &failed);

	return fd < 0 || failed ? err_sys(e, "read a directory of the registry") : r;
}

/* ---- documents of a lasting sandbox ---- */

/* The documents in the directory of a lasting sandbox. */

#define SPEC "spec.json"
#define DOC_MAX (8u << 20)

int registry_check_version(const json_t *doc, const char *id, const char *file, struct err *e)
{
	char what[128];

	snprintf(what, sizeof(what), "%s of sandbox %s", file, id);
	if (json_check_version(doc, REGISTRY_FORMAT, what, e) == 0)
		return 0;
	return e->code == ERR_UNSUPPORTED ? err_hint(e, "use that berth again; berth rm --force %s removes the sandbox", id) : -1;
}

int registry_keep_dir(struct registry *r, const char *id, struct err *e)
{
	return path_make_dir(r->kept_fd, id, e);
}

int registry_kept_dir(struct registry *r, const char *id)
{
	return openat(r->kept_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int save_document(struct registry *r, const char *id, const char *file, const json_t *j, int durable,
		struct err *e)
{
	autoclose int dir = openat(r->kept_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autofree char *text = json_dumps(j, JSON_COMPACT);

	/* not made here: another process may have removed it since its content was read, or does so now */
	if (dir < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open the directory of sandbox %s", id);
	if (!text)
		return err_nomem(e);
	if (io_replace_file(dir, file, text, strlen(text), 0600, durable, e) == 0)
		return 0;
	if (e->os_errno == ENOENT)
		e->code = ERR_NOT_FOUND;
	return -1;
}

int registry_save(struct registry *r, const char *id, const char *file, const json_t *j,
		  struct err *e)
{
	return save_document(r, id, file, j, IO_DURABLE, e);
}

int registry_save_ahead(struct registry *r, const char *id, const char *file, const json_t *j,
			struct err *e)
{
	return save_document(r, id, file, j, IO_DURABLE_DATA, e);
}

int registry_save_passing(struct registry *r, const char *id, const char *file, const json_t *j,
			  struct err *e)
{
	return save_document(r, id, file, j, IO_PASSING, e);
}

json_t *registry_load(struct registry *r, const char *id, const char *file, struct err *e)
{
	autobuf struct buf b = BUF_INIT(DOC_MAX);
	autojson json_t *doc = NULL;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", id, file);
	if (io_read_file(r->kept_fd, path, &b, e) < 0)
		return NULL;
	doc = json_parse(b.data ? b.data : "", b.len, DOC_MAX, path, e);
	if (!doc || (!strcmp(file, SPEC) && registry_check_version(doc, id, file, e) < 0))
		return NULL;
	return take_ptr(&doc);
}

int registry_check_spec_format(struct registry *r, const char *id, struct err *e)
{
	struct err why = { 0 };
	autojson json_t *spec = registry_load(r, id, SPEC, &why);

	if (spec || why.code != ERR_UNSUPPORTED)
		return 0;
	*e = why;
	return -1;
}
