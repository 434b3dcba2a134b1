/* SPDX-License-Identifier: Apache-2.0 */
/* The documents in the directory of a lasting sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/registry.h"

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

static int save(struct registry *r, const char *id, const char *file, const json_t *j, int durable,
		struct err *e)
{
	autoclose int dir = openat(r->kept_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autofree char *text = json_dumps(j, JSON_COMPACT);

	/* not made here: somebody may have removed it since its content was read */
	if (dir < 0)
		return err_sys(e, "open the directory of sandbox %s", id);
	return text ? io_replace_file(dir, file, text, strlen(text), 0600, durable, e) :
		      err_nomem(e);
}

int registry_save(struct registry *r, const char *id, const char *file, const json_t *j,
		  struct err *e)
{
	return save(r, id, file, j, IO_DURABLE, e);
}

int registry_save_ahead(struct registry *r, const char *id, const char *file, const json_t *j,
			struct err *e)
{
	return save(r, id, file, j, IO_DURABLE_DATA, e);
}

int registry_save_passing(struct registry *r, const char *id, const char *file, const json_t *j,
			  struct err *e)
{
	return save(r, id, file, j, IO_PASSING, e);
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
