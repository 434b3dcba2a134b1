/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/rename.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/host/names.h"
#include "manager/host/netclear.h"
#include "manager/host/record.h"

/* Until it is done the sandbox may have two names: names_drop() looks at all then. */
static int begin(int dir, struct err *e)
{
	autoclose int fd = openat(dir, NAMES_CHANGING, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? err_sys(e, "note that the name changes") : 0;
}

/* The record of a running one, which ps reads. */
static int rename_run(struct registry *r, const char *id, const char *name, struct err *e)
{
	autojson json_t *record = NULL;

	if (!path_has(r->sandboxes_fd, id))
		return 0;
	record = record_load_run(r, id, e);
	if (!record)
		return -1;
	record_set_name(record, name);
	return record_replace_run(r, id, record, e);
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
	record = record_load_kept(r, id, e);
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
	record_set_name(record, name);
	if (record_save_kept(r, id, record, e) < 0 || rename_run(r, id, name, e) < 0) {
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
