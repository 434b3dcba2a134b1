/* SPDX-License-Identifier: Apache-2.0 */
/* The documents of the registry: records and specifications of sandboxes, each with the version of its format. */
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

#define RECORD "record.json"
#define SPEC "spec.json"
#define RECORD_MAX (1u << 20)

/* ERR_UNSUPPORTED, with the remedy, when file of sandbox id is of a newer format. */
static int check_version(const json_t *doc, const char *id, const char *file, struct err *e)
{
	char what[128];

	snprintf(what, sizeof(what), "%s of sandbox %s", file, id);
	if (json_check_version(doc, REGISTRY_FORMAT, what, e) == 0)
		return 0;
	return e->code == ERR_UNSUPPORTED ? err_hint(e, "use that berth again; berth rm --force %s removes the sandbox", id) : -1;
}

/* What can be told of a sandbox whose record is of a newer format: that it is there, and the name it holds. */
static json_t *stand_in(const char *id, const json_t *record, const struct err *why)
{
	const char *name = json_string_value(json_object_get(record, "name"));

	return json_pack("{s:O,s:s,s:s,s:s,s:s,s:s,s:s,s:[]}", "version", json_object_get(record, "version"), "id", id, "name",
			 name && path_is_name(name) ? name : "", "image", "", "status", REGISTRY_NEWER, "created", "",
			 "error", why->msg, "command");
}

/* Most records are small: they are read at once, without a question for their size. */
static json_t *read_record(int dirfd, const char *path, struct err *e)
{
	autobuf struct buf b = BUF_INIT(RECORD_MAX);
	autoclose int fd = openat(dirfd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	char text[4096];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (n < 0)
		return err_sys(e, "read %s", path), NULL;
	if ((size_t)n < sizeof(text))
		return json_parse(text, (size_t)n, RECORD_MAX, path, e);
	return io_read_file(dirfd, path, &b, e) < 0 ? NULL :
	       json_parse(b.data ? b.data : "", b.len, RECORD_MAX, path, e);
}

static int take_record(int dirfd, const char *path, const char *id, json_t **ret, struct err *e)
{
	autojson json_t *record = NULL;

	*e = (struct err){ 0 };
	record = read_record(dirfd, path, e);
	if (!record)
		return e->code == ERR_NOMEM || (e->os_errno && e->os_errno != ENOENT) ? -1 : 0;
	if (check_version(record, id, RECORD, e) == 0)
		*ret = take_ptr(&record);
	else if (e->code != ERR_UNSUPPORTED)
		return 0;
	else
		*ret = stand_in(id, record, e);
	return *ret ? 1 : err_nomem(e);
}

int registry_read_record(int dirfd, const char *id, json_t **ret, struct err *e)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/" RECORD, id);
	return take_record(dirfd, path, id, ret, e);
}

int registry_read_record_in(int dirfd, const char *id, json_t **ret, struct err *e)
{
	return take_record(dirfd, RECORD, id, ret, e);
}

int registry_check_format(struct registry *r, const char *id, struct err *e)
{
	const int dirs[] = { r->sandboxes_fd, r->kept_fd };
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++) {
		autojson json_t *record = NULL;
		struct err ignored;

		if (registry_read_record(dirs[i], id, &record, &ignored) > 0 && check_version(record, id, RECORD, e) < 0)
			return -1;
	}
	return 0;
}

int registry_keep_dir(struct registry *r, const char *id, struct err *e)
{
	return path_make_dir(r->kept_fd, id, e);
}

int registry_save(struct registry *r, const char *id, const char *file, const json_t *j, struct err *e)
{
	autoclose int dir = openat(r->kept_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autofree char *text = json_dumps(j, JSON_COMPACT);

	/* not made here: somebody may have removed it since its content was read */
	if (dir < 0)
		return err_sys(e, "open the directory of sandbox %s", id);
	return text ? io_replace_file(dir, file, text, strlen(text), 0600, 1, e) : err_nomem(e);
}

static int has_version(const char *file)
{
	return !strcmp(file, RECORD) || !strcmp(file, SPEC);
}

json_t *registry_load(struct registry *r, const char *id, const char *file, struct err *e)
{
	autobuf struct buf b = BUF_INIT(RECORD_MAX * 8);
	autojson json_t *doc = NULL;
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", id, file);
	if (io_read_file(r->kept_fd, path, &b, e) < 0)
		return NULL;
	doc = json_parse(b.data ? b.data : "", b.len, RECORD_MAX * 8, path, e);
	if (!doc || (has_version(file) && check_version(doc, id, file, e) < 0))
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

int registry_keep_record(struct registry *r, const char *id, const json_t *record, struct err *e)
{
	autoclose int dir = registry_keep_dir(r, id, e);

	return dir < 0 ? -1 : registry_save(r, id, RECORD, record, e);
}
