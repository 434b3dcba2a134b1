/* SPDX-License-Identifier: Apache-2.0 */
/* Layers of checkpoints: copies, the undo that puts one in its place, and notes about the layer in
 * use. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "manager/host/checkpoint_shells.h"
#include "runtime/kernel/fileclone.h"
#include "runtime/kernel/loopdev.h"
#include "runtime/sandbox/layerhome.h"
#include "runtime/sandbox/writable.h"

#define UNDO_NEW CHECKPOINT_UNDO "new"
#define PENDING "pending"
#define RESTORED "restored"
#define LOOKED "looked"
#define FROZEN "frozen"
#define LOOP_MAJOR 7

int checkpoint_copy(const struct checkpoints *c, const char *id, int to_dir, const char *to_name,
		    struct err *e)
{
	char file[CHECKPOINT_ID + 8];
	autoclose int from = -1, to = -1;

	snprintf(file, sizeof(file), "%s.img", id);
	from = openat(c->data_fd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0)
		return err_sys(e, "open checkpoint %s", id);
	to = openat(to_dir, to_name, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (to < 0)
		return err_sys(e, "make the file of a writable layer");
	if (fileclone(from, to, NULL, NULL, e) >= 0 && fsync(to) == 0)
		return 0;
	if (e->code == ERR_NONE)
		err_sys(e, "write the file of a writable layer");
	unlinkat(to_dir, to_name, 0);
	return -1;
}

int checkpoint_give(const struct checkpoints *c, const char *id, int to_dir, const char *to_name,
		    struct err *e)
{
	char file[CHECKPOINT_ID + 8];
	autoclose int fd = -1;

	snprintf(file, sizeof(file), "%s.img", id);
	if (renameat(c->data_fd, file, to_dir, to_name) < 0)
		return errno == EXDEV ? checkpoint_copy(c, id, to_dir, to_name, e) :
					err_sys(e, "take the layer of checkpoint %s", id);
	/* nobody waited for the disk when it was made */
	fd = openat(to_dir, to_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && fsync(fd) == 0)
		return 0;
	err_sys(e, "write the file of a writable layer");
	unlinkat(to_dir, to_name, 0);
	return -1;
}

static int open_image(int box_fd, const char *word, char id[CHECKPOINT_ID], struct err *e)
{
	struct checkpoints c = CHECKPOINTS_NONE;
	char file[CHECKPOINT_ID + 8];
	const json_t *one;
	int fd = -1;

	if (checkpoints_open(box_fd, 0, &c, e) < 0)
		return -1;
	one = checkpoints_find(&c, word, e);
	if (one) {
		snprintf(id, CHECKPOINT_ID, "%s", json_string_value(json_object_get(one, "id")));
		snprintf(file, sizeof(file), "%s.img", id);
		fd = openat(c.data_fd, file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			err_sys(e, "open checkpoint %s", id);
	}
	checkpoints_close(&c);
	return fd;
}

/*
 * A file system that must be written to before it can be read is mounted in a copy: its own file is
 * not written to, as others may look at it, too.
 */
static int mount_copy(int box_fd, int file, struct err *e)
{
	struct checkpoints c = CHECKPOINTS_NONE;
	autoclose int copy = -1, loop = -1;

	if (checkpoints_open(box_fd, 0, &c, e) < 0)
		return -1;
	copy = c.data_fd < 0 ? -1 : openat(c.data_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (copy < 0)
		err_sys(e, "make a file to look at a checkpoint with");
	checkpoints_close(&c);
	if (copy < 0 || fileclone(file, copy, NULL, NULL, e) < 0)
		return -1;
	loop = loopdev_attach(copy, NULL, e);
	return loop < 0 ? -1 : loopdev_mount_passing(loop, e);
}

int checkpoint_mount(int box_fd, const char *word, char ret_id[CHECKPOINT_ID], struct err *e)
{
	char id[CHECKPOINT_ID];
	autoclose int file = open_image(box_fd, word, id, e);
	autoclose int loop = file < 0 ? -1 : loopdev_attach(file, NULL, e);
	int mnt = loop < 0 ? -1 : loopdev_mount_readonly(loop, e);

	if (file < 0)
		return -1;
	if (mnt < 0 && loop >= 0 && e->os_errno == EROFS)
		mnt = mount_copy(box_fd, file, e);
	if (mnt < 0)
		return err_wrap(e, "mount checkpoint %s", id);
	if (ret_id)
		memcpy(ret_id, id, sizeof(id));
	return writable_map(box_fd, mnt, e);
}

/* Each undo has its own: another one, to another checkpoint, may be prepared at the same time. */
static const char *undo_name(char name[CHECKPOINT_ID + 16], const char *id)
{
	snprintf(name, CHECKPOINT_ID + 16, CHECKPOINT_UNDO "%s.img", id);
	return name;
}

int checkpoint_prepare(struct checkpoints *c, const char *id, struct err *e)
{
	char name[CHECKPOINT_ID + 16];

	*e = (struct err){ 0 };
	if (checkpoint_copy(c, id, c->data_fd, UNDO_NEW, e) < 0)
		return -1;
	/* under its name it is whole */
	return renameat(c->data_fd, UNDO_NEW, c->data_fd, undo_name(name, id)) < 0 ?
		       err_sys(e, "name the copy of a layer") :
		       0;
}

/* A small file with the id of a checkpoint: 1, or 0 when there is none. */
static int read_note(int dir_fd, const char *name, char ret_id[CHECKPOINT_ID])
{
	autobuf struct buf b = BUF_INIT(CHECKPOINT_ID - 1);
	struct err ignored;

	if (io_read_file(dir_fd, name, &b, &ignored) < 0 || !b.len)
		return 0;
	snprintf(ret_id, CHECKPOINT_ID, "%.*s", (int)b.len, b.data);
	return 1;
}

static int complete(struct checkpoints *c, const char *id, struct err *e)
{
	autofree char *text = NULL;
	char name[CHECKPOINT_ID + 16];

	/* the second time it may be there already */
	if (path_has(c->data_fd, undo_name(name, id)) &&
	    renameat(c->data_fd, name, c->home_fd, WRITABLE_FILE) < 0)
		return err_sys(e, "put the layer of checkpoint %s in its place", id);
	if (json_object_set_new(c->doc, "head", json_string(id)) < 0)
		return err_nomem(e);
	text = json_dumps(c->doc, JSON_COMPACT);
	if (!text)
		return err_nomem(e);
	if (fsync(c->home_fd) < 0)
		return err_sys(e, "write the layer of checkpoint %s", id);
	if (io_replace_file(c->dir_fd, "list.json", text, strlen(text), 0600, 1, e) < 0 ||
	    (unlinkat(c->dir_fd, LOOKED, 0) < 0 && errno != ENOENT && err_sys(e, "complete an undo") < 0) ||
	    io_replace_file(c->dir_fd, RESTORED, id, strlen(id), 0600, 0, e) < 0 ||
	    checkpoint_shells_begin(c->dir_fd, id, e) < 0)
		return -1;
	return unlinkat(c->dir_fd, PENDING, 0) < 0 ? err_sys(e, "complete an undo") : 0;
}

int checkpoint_undo(struct checkpoints *c, const char *id, struct err *e)
{
	char name[CHECKPOINT_ID + 16];

	/* a checkpoint made since the copy has removed it as one that nobody decided on */
	if (!path_has(c->data_fd, undo_name(name, id)) &&
	    (!checkpoints_find(c, id, e) || checkpoint_prepare(c, id, e) < 0))
		return -1;
	if (io_replace_file(c->dir_fd, PENDING, id, strlen(id), 0600, 1, e) < 0)
		return -1;
	return complete(c, id, e);
}

int checkpoint_settle(int box_fd, struct err *e)
{
	struct checkpoints c = CHECKPOINTS_NONE;
	char id[CHECKPOINT_ID];
	int result = 0;

	if (!path_has(box_fd, CHECKPOINTS_DIR "/" PENDING))
		return 0;
	if (checkpoints_open(box_fd, 1, &c, e) < 0)
		return -1;
	if (read_note(c.dir_fd, PENDING, id))
		result = complete(&c, id, e);
	checkpoints_close(&c);
	return result;
}

int checkpoint_restored(int box_fd, char ret_id[CHECKPOINT_ID])
{
	return read_note(box_fd, CHECKPOINTS_DIR "/" RESTORED, ret_id);
}

int checkpoint_looked(int box_fd, char ret_id[CHECKPOINT_ID])
{
	return read_note(box_fd, CHECKPOINTS_DIR "/" LOOKED, ret_id);
}

void checkpoint_touched(int box_fd)
{
	/* a failure leaves "restored", and the next command tries again */
	if (renameat(box_fd, CHECKPOINTS_DIR "/" RESTORED, box_fd, CHECKPOINTS_DIR "/" LOOKED) < 0 && errno != ENOENT)
		unlinkat(box_fd, CHECKPOINTS_DIR "/" RESTORED, 0);
}

void checkpoint_moved_on(int box_fd)
{
	unlinkat(box_fd, CHECKPOINTS_DIR "/" RESTORED, 0);
	unlinkat(box_fd, CHECKPOINTS_DIR "/" LOOKED, 0);
}

/* ---- a layer that stands still ------------------------------------------------ */

int checkpoint_note_frozen(int dir_fd, int mnt_fd, struct err *e)
{
	char text[16];
	struct stat st;
	int n;

	if (fstat(mnt_fd, &st) < 0)
		return err_sys(e, "look at the writable layer");
	if (major(st.st_dev) != LOOP_MAJOR)
		return err_set(e, ERR_INTERNAL, "the writable layer is on no loop device");
	n = snprintf(text, sizeof(text), "%u", minor(st.st_dev));
	/* not for a boot to outlive: that thaws everything */
	return io_replace_file(dir_fd, FROZEN, text, (size_t)n, 0600, 0, e);
}

void checkpoint_note_thawed(int dir_fd)
{
	unlinkat(dir_fd, FROZEN, 0);
}

int checkpoint_copies(int kept_fd, const char *id)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/" CHECKPOINTS_DIR "/" FROZEN, id);
	return path_has(kept_fd, path);
}

void checkpoint_thaw_left(int box_fd)
{
	autobuf struct buf b = BUF_INIT(16);
	autoclose int home = -1, file = -1, loop = -1, mnt = -1;
	uint64_t number;
	struct err ignored;

	if (io_read_file(box_fd, CHECKPOINTS_DIR "/" FROZEN, &b, &ignored) < 0 ||
	    buf_add(&b, "", 1, &ignored) < 0 ||
	    num_u64(b.data, "loop", 0, 1u << 20, &number, &ignored) < 0)
		return;
	home = layerhome_open(box_fd, &ignored);
	file = home < 0 ? -1 : openat(home, WRITABLE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	loop = file < 0 ? -1 : loopdev_find(file, (unsigned)number);
	mnt = loop < 0 ? -1 : loopdev_mount(loop, &ignored);
	if (mnt >= 0)
		fsfreeze_thaw(mnt, &ignored);
	unlinkat(box_fd, CHECKPOINTS_DIR "/" FROZEN, 0);
}
