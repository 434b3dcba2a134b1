/* SPDX-License-Identifier: Apache-2.0 */
/* The list of sandboxes, each once. */
#include "manager/host/list.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/host/record.h"
#include "manager/host/sweep.h"

struct lister {
	struct registry *r;
	int sweeps;	/* what dead ones left is cleared, and they are not listed */
	list_each *each;
	void *ctx;
	json_t *listed;	/* ids of those that live */
	struct err *e;
};

/* The start time of a living sandbox; 0 too if it is dead, and swept. */
static int read_live(struct lister *l, const char *id, json_t **ret)
{
	autoclose int dir = openat(l->r->sandboxes_fd, id,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0)
		return errno == ENOENT ? 0 : err_sys(l->e, "open the record of sandbox %s", id);
	if (l->sweeps && flock(dir, LOCK_SH | LOCK_NB) == 0) {
		fd_close(&dir);
		sweep_one(l->r, id);
		return 0;
	}
	return record_read_in(dir, id, ret, l->e);
}

static int list_live(void *ctx, const char *id)
{
	struct lister *l = ctx;
	autojson json_t *record = NULL;
	int got = read_live(l, id, &record);

	if (got > 0 && json_object_set_new(l->listed, id, json_true()) < 0)
		return err_nomem(l->e);
	return got > 0 ? l->each(l->ctx, id, 0, record) : got;
}

static int list_kept(void *ctx, const char *id)
{
	struct lister *l = ctx;
	autojson json_t *record = NULL;
	int kept = 1, got;

	/* each sandbox once, even if it starts or stops meanwhile */
	if (json_object_get(l->listed, id))
		return 0;
	/*
	 * it may have been started since; a sandbox that is being started has no record there
	 * yet
	 */
	got = record_read(l->r->sandboxes_fd, id, &record, l->e);
	if (got > 0)
		kept = 0;
	else if (got == 0)
		got = record_read(l->r->kept_fd, id, &record, l->e);
	if (got == 0 && l->sweeps)
		sweep_kept(l->r, id);
	return got > 0 ? l->each(l->ctx, id, kept, record) : got;
}

static int sweep_unlisted(void *ctx, const char *id)
{
	struct lister *l = ctx;

	if (!json_object_get(l->listed, id))
		sweep_kept(l->r, id);
	return 0;
}

static int list(struct registry *r, int all, int sweeps, list_each *each, void *ctx, struct err *e)
{
	autojson json_t *listed = json_object();
	struct lister l = { r, sweeps, each, ctx, listed, e };

	if (!listed)
		return err_nomem(e);
	if (registry_each(r->sandboxes_fd, list_live, &l, e) < 0)
		return -1;
	return all ? registry_each(r->kept_fd, list_kept, &l, e) :
	       sweeps ? registry_each(r->kept_fd, sweep_unlisted, &l, e) : 0;
}

int registry_list(struct registry *r, int all, list_each *each, void *ctx, struct err *e)
{
	return list(r, all, 0, each, ctx, e);
}

int registry_sweep_list(struct registry *r, int all, list_each *each, void *ctx, struct err *e)
{
	return list(r, all, 1, each, ctx, e);
}

int registry_list_one(struct registry *r, const char *id, list_each *each, void *ctx, struct err *e)
{
	autojson json_t *listed = json_object();
	struct lister l = { r, 0, each, ctx, listed, e };

	return listed ? list_kept(&l, id) : err_nomem(e);
}
