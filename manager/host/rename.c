/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/rename.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"

/* 1 when name is of id, 0 when of nobody, -1 with ERR_EXISTS. */
static int holder_of(struct registry *r, const char *name, const char *id, struct err *e)
{
	char holder[65];
	ssize_t n = readlinkat(r->names_fd, name, holder, sizeof(holder) - 1);

	if (n <= 0)
		return 0;
	holder[n] = '\0';
	if (!strcmp(holder, id))
		return 1;
	if (path_has(r->sandboxes_fd, holder) ||
	    path_has(r->kept_fd, holder))
		return err_set(e, ERR_EXISTS, "the name %s is taken by sandbox %s", name, holder);
	unlinkat(r->names_fd, name, 0);	/* left over from a crash */
	return 0;
}

static void drop_others(struct registry *r, const char *id, const char *name)
{
	int fd = openat(r->names_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	struct err ignored;

	while (d && (entry = readdir(d)))
		if (path_is_name(entry->d_name) && strcmp(entry->d_name, name) && holder_of(r, entry->d_name, id, &ignored) == 1)
			unlinkat(r->names_fd, entry->d_name, 0);
	if (d)
		closedir(d);
	else
		fd_close(&fd);
}

/* The record of a running one, which ps reads. */
static int record_running(struct registry *r, const char *id, const char *name, struct err *e)
{
	autoclose int dir = openat(r->sandboxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autobuf struct buf b = BUF_INIT(1 << 20);
	autojson json_t *record = NULL;
	autofree char *text = NULL;

	if (dir < 0)
		return 0;
	if (io_read_file(dir, "record.json", &b, e) < 0)
		return -1;
	record = json_parse(b.data ? b.data : "", b.len, 1 << 20, "record.json", e);
	if (!record)
		return -1;
	json_object_set_new(record, "name", json_string(name));
	text = json_dumps(record, JSON_COMPACT);
	return text ? io_replace_file(dir, "record.json", text, strlen(text), 0600, 0, e) : err_nomem(e);
}

int registry_rename(struct registry *r, const char *id, const char *name, struct err *e)
{
	autoclose int lock = openat(r->sandboxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autojson json_t *record = NULL;
	int held;

	if (registry_check_name(name, e) < 0)
		return -1;
	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		return err_sys(e, "lock the list of sandboxes");
	record = registry_load(r, id, "record.json", e);
	if (!record)
		return e->code == ERR_NOT_FOUND ? err_set(e, ERR_INVALID, "sandbox %s does not last and cannot be renamed", id) : -1;
	held = holder_of(r, name, id, e);
	if (held < 0)
		return -1;
	if (!held && symlinkat(id, r->names_fd, name) < 0)
		return err_sys(e, "record the name %s", name);
	json_object_set_new(record, "name", json_string(name));
	if (registry_save(r, id, "record.json", record, e) < 0 || record_running(r, id, name, e) < 0) {
		if (!held)
			unlinkat(r->names_fd, name, 0);
		return -1;
	}
	drop_others(r, id, name);
	return 0;
}
