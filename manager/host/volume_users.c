/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/volume_users.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/record.h"
#include "manager/host/volume_name.h"

#define SPEC_BYTES_MAX (8u << 20)	/* as registry_load() takes */

struct users {
	struct registry *r;
	json_t *all;		/* what volume_users() answers */
	char unread[65];	/* a lasting sandbox with unreadable options */
	struct err why;
	struct err *e;
};

static int add(struct users *u, const char *name, const char *tenant, json_t *user)
{
	char key[VOLUME_KEY_MAX];
	struct err ignored;
	json_t *list;

	if (volume_key(name, tenant, key, &ignored) < 0)
		return 0;
	list = json_object_get(u->all, key);
	if (!list && (json_object_set_new(u->all, key, json_array()) < 0 ||
		      !(list = json_object_get(u->all, key))))
		return err_nomem(u->e);
	/* one sandbox may have it in two places */
	if (json_array_size(list) && json_array_get(list, json_array_size(list) - 1) == user)
		return 0;
	return json_array_append(list, user) < 0 ? err_nomem(u->e) : 0;
}

/* A lasting one: by the options it was made with, which its next start reads again. */
/* Its users, for volume inspect and the refusal of a removal; NULL without memory. */
static json_t *describe(struct registry *r, const char *id)
{
	struct err ignored;
	autojson json_t *record = record_load_kept(r, id, &ignored);

	return json_pack("{s:s,s:s,s:s}", "id", id, "name", record_name(record), "status",
			 path_has(r->sandboxes_fd, id) ? "running" : "stopped");
}

/* Also for a newer berth, whose options are only looked at here. */
static json_t *load_spec(struct users *u, const char *id)
{
	autobuf struct buf b = BUF_INIT(SPEC_BYTES_MAX);
	json_t *spec = NULL;
	struct err why;
	char path[100];

	snprintf(path, sizeof(path), "%s/spec.json", id);
	if (io_read_file(u->r->kept_fd, path, &b, &why) == 0)
		spec = json_parse(b.data ? b.data : "", b.len, SPEC_BYTES_MAX, "spec.json", &why);
	if (!spec && why.os_errno != ENOENT) {
		snprintf(u->unread, sizeof(u->unread), "%s", id);
		u->why = why;
	}
	return spec;
}

/* A lasting one: by the options it was made with, which its next start reads again. */
static int add_lasting(void *ctx, const char *id)
{
	struct users *u = ctx;
	struct err ignored;
	autojson json_t *spec = load_spec(u, id), *owner = NULL, *user = NULL;
	char name[VOLUME_NAME_MAX + 1];
	const char *tenant;
	json_t *pair;
	size_t i;

	json_array_foreach(json_object_get(spec, "options"), i, pair) {
		const char *option = json_string_value(json_array_get(pair, 0));
		const char *value = json_string_value(json_array_get(pair, 1));

		if (!option || !value || !volume_of_option(option, value, name))
			continue;
		if (!user) {
			owner = registry_load(u->r, id, REGISTRY_OWNER, &ignored);
			user = describe(u->r, id);
		}
		if (!user)
			return err_nomem(u->e);
		tenant = json_string_value(json_object_get(owner, "name"));
		if (add(u, name, tenant ? tenant : "", user) < 0)
			return -1;
	}
	return 0;
}

/*
 * A sandbox of berth run, by its record. It has none until its command runs; until then the lock
 * of the volume shows it.
 */
static int add_run(void *ctx, const char *id)
{
	struct users *u = ctx;
	struct err ignored;
	autojson json_t *record = NULL, *user = NULL;
	json_t *mount;
	size_t i;

	if (path_has(u->r->kept_fd, id) ||
	    record_read(u->r->sandboxes_fd, id, &record, &ignored) <= 0)
		return 0;
	user = json_pack("{s:s,s:O?,s:s}", "id", id, "name", json_object_get(record, "name"),
			 "status", "running");
	if (!user)
		return err_nomem(u->e);
	json_array_foreach(record_mounts(record), i, mount) {
		const char *name = json_string_value(json_object_get(mount, "volume"));

		if (name && add(u, name, "", user) < 0)
			return -1;
	}
	return 0;
}

static json_t *gather(struct users *u)
{
	u->all = json_object();
	if (!u->all) {
		err_nomem(u->e);
		return NULL;
	}
	if (registry_each(u->r->kept_fd, add_lasting, u, u->e) < 0 ||
	    registry_each(u->r->sandboxes_fd, add_run, u, u->e) < 0) {
		json_decref(u->all);
		return NULL;
	}
	return u->all;
}

json_t *volume_users(struct registry *r, struct err *e)
{
	struct users u = { .r = r, .e = e };

	return gather(&u);
}

int volume_users_check(struct registry *r, const char *key, struct err *e)
{
	struct users u = { .r = r, .e = e };
	autojson json_t *all = gather(&u);
	const json_t *list = json_object_get(all, key), *user = json_array_get(list, 0);
	const char *name = json_string_value(json_object_get(user, "name")),
		   *id = json_string_value(json_object_get(user, "id"));
	const char *status = json_string_value(json_object_get(user, "status"));
	size_t more = json_array_size(list) - 1;

	/* a sandbox with unreadable options may use any volume */
	if (all && !user && u.unread[0]) {
		err_set(e, ERR_BUSY, "volume %s may be used by sandbox %s: %.200s", key, u.unread,
			u.why.msg);
		return err_hint(e, "berth rm --force %s", u.unread);
	}
	if (!all)
		return -1;
	if (!user)
		return 0;
	err_set(e, ERR_BUSY, "volume %s is used by sandbox %s, which is %s", key,
		name && name[0] ? name : id, status);
	if (more)
		err_set(e, ERR_BUSY, "volume %s is used by sandbox %s, which is %s, and %zu more",
			key, name && name[0] ? name : id, status, more);
	return err_hint(e, "berth rm --force %s", name && name[0] ? name : id);
}
