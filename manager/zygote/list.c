/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/zygote/list.h"

#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/host/record.h"
#include "manager/zygote/wire.h"

struct forks {
	struct registry *registry;
	const char *zygote; /* id */
	json_t *ids;
};

static int add_fork(void *ctx, const char *id)
{
	struct forks *f = ctx;
	struct err ignored;
	json_t *record = NULL;
	const char *of;

	if (record_read(f->registry->sandboxes_fd, id, &record, &ignored) < 1)
		return 0;
	of = json_string_value(json_object_get(record_labels(record), ZYGOTE_LABEL));
	if (of && !strcmp(of, f->zygote))
		json_array_append_new(f->ids, json_string(id));
	json_decref(record);
	return 0;
}

json_t *zygote_describe(struct registry *r, const char *id, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	struct forks f = {r, id, NULL};
	char path[96];
	json_t *j;

	snprintf(path, sizeof(path), "%s/" ZYGOTE_FILE, id);
	if (io_read_file(r->sandboxes_fd, path, &b, e) < 0)
		return NULL;
	j = json_parse(b.data ? b.data : "", b.len, b.len, ZYGOTE_FILE, e);
	if (!j)
		return NULL;
	f.ids = json_array();
	json_object_set_new(j, "alive", f.ids);
	if (registry_each(r->sandboxes_fd, add_fork, &f, e) < 0) {
		json_decref(j);
		return NULL;
	}
	return j;
}

struct zygotes {
	struct registry *registry;
	json_t *list;
};

static int add_zygote(void *ctx, const char *id)
{
	struct zygotes *z = ctx;
	struct err ignored;
	json_t *j = zygote_describe(z->registry, id, &ignored);

	if (j) /* else it is another sandbox, or one that just ends */
		json_array_append_new(z->list, j);
	return 0;
}

json_t *zygote_list(struct registry *r, struct err *e)
{
	struct zygotes z = {r, json_array()};

	if (registry_each(r->sandboxes_fd, add_zygote, &z, e) == 0)
		return z.list;
	json_decref(z.list);
	return NULL;
}
