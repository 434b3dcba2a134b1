/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/zygote/list.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/record.h"
#include "manager/zygote/wire.h"

/* ---- the zygotes of this host ---- */

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

/* ---- which tenant they belong to ---- */

/* Upholds S19 and S41 of SECURITY.md. */

#define OWNER_BYTES 4096

/* What is beside the zygote: {"name","forks"}, or NULL. */
static json_t *read_owner(struct registry *r, const char *id)
{
	autobuf struct buf b = BUF_INIT(OWNER_BYTES);
	struct err ignored;
	char path[96];

	snprintf(path, sizeof(path), "%s/" REGISTRY_OWNER, id);
	if (!path_has(r->sandboxes_fd, path) ||
	    io_read_file(r->sandboxes_fd, path, &b, &ignored) < 0 || !b.data)
		return NULL;
	return json_parse(b.data, b.len, b.len, REGISTRY_OWNER, &ignored);
}

static int is_name_of(const json_t *owner, const char *tenant)
{
	const char *name = json_string_value(json_object_get(owner, "name"));

	return name && !strcmp(name, tenant);
}

struct count {
	struct registry *registry;
	const struct tenant *tenant;
	uint64_t zygotes, forks;
};

static int add_up(void *ctx, const char *id)
{
	struct count *c = ctx;
	autojson json_t *owner = read_owner(c->registry, id);

	if (!is_name_of(owner, c->tenant->name))
		return 0;
	c->zygotes++;
	c->forks += (uint64_t)json_integer_value(json_object_get(owner, "forks"));
	return 0;
}

static int check_zygote_limits(struct registry *r, const struct tenant *t, unsigned forks, struct err *e)
{
	struct count c = {.registry = r, .tenant = t};

	if (registry_each(r->sandboxes_fd, add_up, &c, e) < 0)
		return -1;
	if (c.zygotes >= t->zygotes)
		return err_set(e, ERR_LIMIT,
			       "tenant %s has %" PRIu64 " zygotes and may have %" PRIu64
			       "; hint: remove one, or [tenant] zygotes in berth.toml",
			       t->name, c.zygotes, t->zygotes);
	if (c.forks + forks > t->zygote_forks)
		return err_set(e, ERR_LIMIT,
			       "%u forks and the %" PRIu64 " of other zygotes are more than the "
			       "%" PRIu64 " of tenant %s; hint: fewer --forks, or [tenant] "
			       "zygote_forks in berth.toml",
			       forks, c.forks, t->zygote_forks, t->name);
	return 0;
}

static int own(struct registry *r, const struct claim *c, const struct tenant *t, unsigned forks,
	       struct err *e)
{
	autojson json_t *owner = json_pack("{s:s,s:i}", "name", t->name, "forks", (int)forks);
	autofree char *text = owner ? json_dumps(owner, JSON_COMPACT) : NULL;
	int result;

	if (!text)
		return err_nomem(e);
	if (registry_lock(r, e) < 0)
		return -1;
	result = check_zygote_limits(r, t, forks, e);
	if (result == 0)
		result = io_replace_file(c->dir_fd, REGISTRY_OWNER, text, strlen(text), 0600, 0, e);
	registry_unlock(r);
	return result;
}

int zygote_own(struct registry *r, const struct claim *c, const struct tenant *t, unsigned forks,
	       struct err *e)
{
	struct err ignored;
	unsigned cleared;

	if (own(r, c, t, forks, e) == 0)
		return 0;
	/* what dead supervisors left counts no longer */
	if (e->code != ERR_LIMIT || registry_gc(r, &cleared, &ignored) < 0 || !cleared)
		return -1;
	return own(r, c, t, forks, e);
}

json_t *zygote_owner(struct registry *r, const char *id)
{
	autojson json_t *owner = read_owner(r, id);

	return json_incref(json_object_get(owner, "name"));
}

int zygote_is_meant(struct registry *r, const char *ref, const char *id)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/" REGISTRY_OWNER, id);
	return !strncmp(id, ref, strlen(ref)) || !path_has(r->sandboxes_fd, path);
}

int zygote_is_of(struct registry *r, const char *id, const char *tenant)
{
	autojson json_t *owner = NULL;
	char path[96];

	snprintf(path, sizeof(path), "%s/" ZYGOTE_FILE, id);
	if (!path_has(r->sandboxes_fd, path))
		return 0;
	if (!tenant)
		return 1;
	owner = read_owner(r, id);
	return is_name_of(owner, tenant);
}
