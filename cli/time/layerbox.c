/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/time/layerbox.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/live/resident.h"
#include "manager/host/record.h"
#include "runtime/kernel/fileclone.h"
#include "runtime/sandbox/writable.h"

void layerbox_init(struct layerbox *b)
{
	memset(b, 0, sizeof(*b));
	sandbox_ref_init(&b->s);
	b->dir_fd = -1;
}

void layerbox_release(struct layerbox *b)
{
	struct err ignored;

	if (b->claimed)
		registry_release(&b->s.registry, &b->claim, &ignored);
	b->claimed = 0;
}

void layerbox_close(struct layerbox *b)
{
	layerbox_release(b);
	fd_close(&b->dir_fd);
	sandbox_ref_close(&b->s);
}

int layerbox_find(struct layerbox *b, const char *ref, struct err *e)
{
	if (sandbox_ref_find(&b->s, ref, e) < 0)
		return -1;
	b->dir_fd = registry_keep_dir(&b->s.registry, b->s.id, e);
	if (b->dir_fd < 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "sandbox %s ends with its command, and has no checkpoints; "
			       "hint: berth create makes sandboxes that last",
			       b->s.id);
	return record_check_format(&b->s.registry, b->s.id, e);
}

int layerbox_claim(struct layerbox *b, struct err *e)
{
	if (resident_claim(&b->s.registry, b->s.id, NULL, &b->claim, e) < 0)
		return -1;
	b->claimed = 1;
	return 0;
}

/* On disk before it counts. */
static int copy_layer(int layer, int file, struct err *e)
{
	int shared = fileclone(layer, file, NULL, NULL, e);

	if (shared < 0)
		return -1;
	return fsync(file) < 0 ? err_sys(e, "write a checkpoint") : shared;
}

int layerbox_checkpoint(struct layerbox *b, const char *name, json_t *members, unsigned keep,
			char ret_id[CHECKPOINT_ID], struct err *e)
{
	const struct checkpoint_bounds bounds = checkpoint_bounds(&b->s.config, keep);
	struct checkpoints all = CHECKPOINTS_NONE;
	autoclose int layer = -1, file = -1;
	int result = -1;

	/* a directory becomes a file here, and stays one */
	if (writable_to_file(b->dir_fd, e) == 0 && checkpoints_open(b->dir_fd, 1, &all, e) == 0) {
		layer = openat(all.home_fd, WRITABLE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (layer < 0)
			err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS,
				     "open the writable layer");
		else if (!name[0] || checkpoints_check_name(&all, name, e) == 0)
			file = checkpoint_begin(&all, layer, &bounds, ret_id, e);
		if (file >= 0)
			result = copy_layer(layer, file, e);
		if (file >= 0 && result < 0)
			checkpoint_cancel(&all, ret_id);
	}
	if (result >= 0)
		result = checkpoint_commit(&all, ret_id, json_incref(members), &bounds, e);
	json_decref(members);
	checkpoints_close(&all);
	return result;
}
