/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/rename.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/host/names.h"
#include "manager/host/netclear.h"

/* Until it is done the sandbox may have two names: names_drop() looks at all then. */
static int begin(int dir, struct err *e)
{
	autoclose int fd = openat(dir, NAMES_CHANGING, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? err_sys(e, "note that the name changes") : 0;
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
	autoclose int dir = -1;
	struct err ignored;
	int held;

	if (registry_check_name(name, e) < 0)
		return -1;
	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		return err_sys(e, "lock the list of sandboxes");
	record = registry_load(r, id, "record.json", e);
	if (!record)
		return e->code == ERR_NOT_FOUND ? err_set(e, ERR_INVALID, "sandbox %s does not last and cannot be renamed", id) : -1;
	dir = openat(r->kept_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_sys(e, "open the directory of sandbox %s", id);
	held = names_holder(r, name, id, e);
	if (held < 0 || begin(dir, e) < 0)
		return -1;
	if (!held && symlinkat(id, r->names_fd, name) < 0)
		return err_sys(e, "record the name %s", name);
	json_object_set_new(record, "name", json_string(name));
	if (registry_save(r, id, "record.json", record, e) < 0 || record_running(r, id, name, e) < 0) {
		if (!held)
			unlinkat(r->names_fd, name, 0);
		return -1;
	}
	if (names_drop_others(r, id, name, &ignored) == 0)
		unlinkat(dir, NAMES_CHANGING, 0);
	if (netclear_rename(r, id, name, e) < 0)
		return err_wrap(e, "sandbox %s is %s now, but not for its networks", id, name);
	return 0;
}
