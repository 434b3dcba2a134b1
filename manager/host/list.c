/* SPDX-License-Identifier: Apache-2.0 */
/* The list of sandboxes, each once. */
#include "base/mem.h"
#include "manager/host/registry.h"

struct lister {
	int dirfd;
	int kept;
	int (*each)(void *ctx, const char *id, int kept, const json_t *record);
	void *ctx;
	int live_fd;	/* kept ones: where they are while they live */
	json_t *listed;	/* ids, or NULL when nobody asks */
	struct err *e;
};

static int list_one(void *ctx, const char *id)
{
	struct lister *l = ctx;
	autojson json_t *record = NULL;
	int kept = l->kept, got = 0;

	if (l->kept && json_object_get(l->listed, id))
		return 0;
	/* it may have been started since we looked at those that live; one that is about to be has no record there yet */
	if (l->kept && (got = registry_read_record(l->live_fd, id, &record, l->e)) > 0)
		kept = 0;
	if (got == 0)
		got = registry_read_record(l->dirfd, id, &record, l->e);
	if (got <= 0)
		return got;
	if (l->listed && json_object_set_new(l->listed, id, json_true()) < 0)
		return err_nomem(l->e);
	return l->each(l->ctx, id, kept, record);
}

int registry_list(struct registry *r, int all, int (*each)(void *ctx, const char *id, int kept, const json_t *record),
		  void *ctx, struct err *e)
{
	autojson json_t *listed = all ? json_object() : NULL;
	struct lister l = { r->sandboxes_fd, 0, each, ctx, -1, listed, e };

	if (all && !listed)
		return err_nomem(e);
	if (registry_each(r->sandboxes_fd, list_one, &l, e) < 0)
		return -1;
	if (!all)
		return 0;
	/* each once, whatever starts or stops meanwhile */
	l = (struct lister){ r->kept_fd, 1, each, ctx, r->sandboxes_fd, listed, e };
	return registry_each(r->kept_fd, list_one, &l, e);
}
