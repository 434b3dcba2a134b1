/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/time/layerbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/treewalk.h"
#include "cli/live/resident.h"
#include "manager/host/copyturn.h"
#include "manager/host/procid.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
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
	b->dir_fd = registry_kept_dir(&b->s.registry, b->s.id);
	if (b->dir_fd < 0 || (!b->s.kept && keeper_is_run(&b->s.registry, b->s.id)))
		return err_set(e, ERR_UNSUPPORTED,
			       "sandbox %s does not last, and has no checkpoints; "
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
static int copy_mounted_layer(int layer, int file, struct err *e)
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
	autoclose int layer = -1, file = -1, turn = -1;
	int result = -1;

	/* a directory becomes a file here, and stays one */
	if (copyturn_take(&b->s.registry, b->s.id, &turn, e) == 0 &&
	    writable_to_file(b->dir_fd, e) == 0 && checkpoints_open(b->dir_fd, 1, &all, e) == 0) {
		layer = openat(all.home_fd, WRITABLE_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (layer < 0)
			err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS,
				     "open the writable layer");
		else if (!name[0] || checkpoints_check_name(&all, name, e) == 0)
			file = checkpoint_begin(&all, layer, &bounds, ret_id, e);
		if (file >= 0)
			result = copy_mounted_layer(layer, file, e);
		if (file >= 0 && result < 0)
			checkpoint_cancel(&all, ret_id);
	}
	if (result >= 0)
		result = checkpoint_commit(&all, ret_id, json_incref(members), &bounds, e);
	json_decref(members);
	checkpoints_close(&all);
	return result;
}

/* ---- a checkpoint for this process alone ------------------------------------------- */

int layerbox_now_ask(struct layerbox *b, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_checkpoint);
	char us[PROCID_SIZE];

	if (procid_name(getpid(), us, e) < 0)
		return -1;
	b->s.sock = keeper_connect(&b->s.registry, b->s.id, e);
	if (b->s.sock < 0)
		return -1;
	request_set_owner(rq, us);
	return wire_request(b->s.sock, rq, NULL, 0, e);
}

int layerbox_now_take(struct layerbox *b, char ret_id[CHECKPOINT_ID], struct err *e)
{
	autojson json_t *answer = keeper_take_answer(b->s.sock, NULL, e);
	const char *id = json_string_value(json_object_get(answer, "checkpoint"));

	fd_close(&b->s.sock);
	if (!answer)
		return -1;
	if (!id)
		return err_set(e, ERR_INTERNAL, "the keeper told no checkpoint");
	snprintf(ret_id, CHECKPOINT_ID, "%s", id);
	return 0;
}

int layerbox_now(struct layerbox *b, char ret_id[CHECKPOINT_ID], struct err *e)
{
	char us[PROCID_SIZE];
	int result;

	if (!b->s.kept)
		return layerbox_now_ask(b, e) < 0 ? -1 : layerbox_now_take(b, ret_id, e);
	if (procid_name(getpid(), us, e) < 0 || layerbox_claim(b, e) < 0)
		return -1;
	result = layerbox_checkpoint(b, "", json_pack("{s:s}", "owner", us), 0, ret_id, e);
	layerbox_release(b);
	return result;
}

void layerbox_drop(struct layerbox *b, const char *id)
{
	struct checkpoints all = CHECKPOINTS_NONE;
	struct err ignored;
	autoclose int box = -1;

	if (!id[0])
		return;
	box = registry_keep_dir(&b->s.registry, b->s.id, &ignored);
	if (box < 0 || checkpoints_open(box, 1, &all, &ignored) < 0)
		return;
	if (checkpoints_find(&all, id, &ignored))
		checkpoint_remove(&all, id, &ignored);
	else /* its layer was given away */
		checkpoints_note_use(&all);
	checkpoints_close(&all);
}

/* ---- what is not in it -------------------------------------------------------------- */

int layerbox_is_mount(const json_t *option)
{
	const char *name = json_string_value(json_array_get(option, 0));

	return name && (!strcmp(name, "volume") || !strcmp(name, "mount"));
}

void layerbox_note_mounts(struct layerbox *b, const char *command, const char *what)
{
	struct err ignored;
	autojson json_t *spec = registry_load(&b->s.registry, b->s.id, SPEC_FILE, &ignored);
	const json_t *one;
	size_t i;

	json_array_foreach (json_object_get(spec, "options"), i, one)
		if (layerbox_is_mount(one)) {
			fprintf(stderr, "berth %s: volumes and mounts of the host %s\n", command, what);
			return;
		}
}

/* Whether the directory of a running sandbox is a tmpfs with a file in it; root_fd is hostile. */
static int has_memory_in(int root_fd, const char *path)
{
	autoclose int fd = path_open_beneath(root_fd, path, O_PATH | O_DIRECTORY, 0);
	struct statfs fs;

	return fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC && fs.f_blocks > fs.f_bfree;
}

void layerbox_see_memory(struct layerbox *b)
{
	static const char *const dirs[] = { "/tmp", "/run", "/dev/shm" };
	struct err ignored;
	autojson json_t *record = b->s.kept ? NULL : record_load_run(&b->s.registry, b->s.id, &ignored);
	char path[48];
	autoclose int root = -1;
	size_t i, n = 0;

	if (!record || record_init_pid(record) < 2)
		return;
	snprintf(path, sizeof(path), "/proc/%llu/root", (unsigned long long)record_init_pid(record));
	root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (i = 0; root >= 0 && i < ARRAY_LEN(dirs); i++)
		if (has_memory_in(root, dirs[i] + 1))
			n += (size_t)snprintf(b->memory + n, sizeof(b->memory) - n, "%s%s", n ? ", " : "", dirs[i]);
}

void layerbox_note_memory(const struct layerbox *b, const char *command, const char *what)
{
	if (b->memory[0])
		fprintf(stderr, "berth %s: what is in memory %s: %s\n", command, what, b->memory);
}

/* ---- looking at one ---------------------------------------------------------------- */

int layerbox_view(struct layerbox *b, const char *word, struct err *e)
{
	autoclose int mnt = checkpoint_mount(b->dir_fd, word, NULL, e);
	int upper;

	if (mnt < 0)
		return -1;
	upper = openat(mnt, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return upper < 0 ? err_sys(e, "open the layer of a checkpoint") : upper;
}

/* ---- whether it has changed ----------------------------------------------------------- */

/* The sum of a tree, in the order of its directories, which a copy of the blocks has, too. */
struct sum {
	uint64_t value;
	unsigned depth;
	int in_etc; /* where each start writes files anew */
};

static void add_to_layer_sum(struct sum *s, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;

	for (; n; n--)
		s->value = (s->value ^ *p++) * 0x100000001b3ULL; /* FNV-1a */
}

static void add_inode(struct sum *s, const char *name, const struct stat *st, int is_berths)
{
	const uint64_t same[] = { st->st_ino, st->st_mode, st->st_uid, st->st_gid, st->st_nlink, st->st_rdev, s->depth },
		       changes[] = { (uint64_t)st->st_size, (uint64_t)st->st_ctim.tv_sec, (uint64_t)st->st_ctim.tv_nsec };

	add_to_layer_sum(s, name, strlen(name) + 1);
	add_to_layer_sum(s, same, sizeof(same));
	if (!is_berths)
		add_to_layer_sum(s, changes, sizeof(changes));
}

static int sum_entry(void *ctx, int dir_fd, const char *name, const struct stat *st, struct err *e)
{
	struct sum *s = ctx;

	(void)dir_fd, (void)e;
	add_inode(s, name, st, s->in_etc && s->depth == 1 &&
		  (!strcmp(name, "hosts") || !strcmp(name, "hostname") || !strcmp(name, "resolv.conf")));
	return 0;
}

static int sum_enter(void *ctx, int dir_fd, const char *name, const struct stat *st, struct err *e)
{
	const int is_etc = !((struct sum *)ctx)->depth && !strcmp(name, "etc");
	struct sum *s = ctx;

	(void)dir_fd, (void)e;
	add_inode(s, name, st, is_etc);
	s->in_etc |= is_etc;
	s->depth++;
	return 0;
}

static int sum_leave(void *ctx, int fd, struct err *e)
{
	struct sum *s = ctx;

	(void)fd, (void)e;
	add_to_layer_sum(s, "", 1);
	s->in_etc &= --s->depth > 0;
	return 0;
}

static int sum_of_layer(struct layerbox *b, const char *word, uint64_t *ret, struct err *e)
{
	static const struct treewalk does = { sum_entry, sum_enter, sum_leave };
	struct sum s = { .value = 0xcbf29ce484222325ULL };
	autoclose int upper = layerbox_view(b, word, e);
	struct stat st;

	if (upper < 0)
		return -1;
	if (fstat(upper, &st) < 0)
		return err_sys(e, "look at the layer of a checkpoint");
	add_inode(&s, "", &st, 1);
	if (treewalk(upper, &does, &s, e) < 0)
		return -1;
	*ret = s.value;
	return 0;
}

int layerbox_is_still(struct layerbox *b, const char *word, struct err *e)
{
	char now[CHECKPOINT_ID] = "";
	uint64_t was = 0, is = 0;
	int r;

	if (sum_of_layer(b, word, &was, e) < 0 || layerbox_now(b, now, e) < 0)
		return -1;
	r = sum_of_layer(b, now, &is, e);
	layerbox_drop(b, now);
	return r < 0 ? -1 : was == is;
}
