/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request for a sandbox: its arguments and permissions, a warm sandbox or a new one, its name
 * and its owner.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/objects/storage.h"
#include "manager/service/dlog.h"
#include "manager/service/state.h"

/*
 * A mount_dir that is not allowed counts as none, as agentscope's clients expect: they get a
 * workspace of their own.
 */
static int read_mount_dir(struct service *s, const struct service_who *who, struct making *m, struct err *e)
{
	int allowed;

	pthread_rwlock_rdlock(&s->conf_lock);
	allowed = s->conf.allow_mount_dir && who->admin;
	pthread_rwlock_unlock(&s->conf_lock);
	if (m->mount_dir && m->mount_dir[0] && !allowed)
		dlog_note(DLOG_WARNING, "%s asks for mount_dir %.200s, which is not allowed, and gets the default; hint: [session] "
			  "allow_mount_dir, and an administrator's token", who->name, m->mount_dir);
	if (!m->mount_dir || !m->mount_dir[0] || !allowed) {
		m->mount_dir = NULL;
		return 0;
	}
	if (m->mount_dir[0] != '/' || strchr(m->mount_dir, ':') || strlen(m->mount_dir) > 500)
		return err_set(e, ERR_INVALID, "mount_dir is not an absolute path without a colon");
	return 0;
}

static int is_own_path(const char *path)
{
	static const char *const own[] = { "archives", "checkpoints" };
	size_t i, n;

	for (i = 0; i < ARRAY_LEN(own); i++) {
		n = strlen(own[i]);
		if (!strncmp(path, own[i], n) && (!path[n] || path[n] == '/'))
			return 1;
	}
	return 0;
}

static int read_args(struct service *s, const struct service_who *who, const json_t *args, struct making *m, struct err *e)
{
	json_t *meta = NULL;

	if (json_get_obj(args, "meta", &meta, "request", e) < 0 || json_get_str(args, "mount_dir", &m->mount_dir, "request", e) < 0 ||
	    json_get_str(args, "storage_path", &m->storage_path, "request", e) < 0 ||
	    (meta && json_get_str(meta, "session_ctx_id", &m->ctx, "request's meta", e) < 0))
		return -1;
	if (m->ctx && !m->ctx[0])
		m->ctx = NULL;
	if ((m->ctx && session_check_ctx(m->ctx, e) < 0) || interval_check(args, e) < 0)
		return -1;
	if (read_mount_dir(s, who, m, e) < 0)
		return -1;
	if (m->storage_path && !m->storage_path[0])
		m->storage_path = NULL;
	if (m->storage_path && !s->storage)
		return err_set(e, ERR_INVALID, "storage_path is given, but there is no storage; hint: [storage] url in berth.toml");
	if (m->storage_path && storage_check_path(m->storage_path, e) < 0)
		return -1;
	if (m->storage_path && !who->admin) {
		/* each tenant has a tree of its own, and cannot name another's folder */
		snprintf(m->tenants_path, sizeof(m->tenants_path), "tenants/%s/%s", who->name, m->storage_path);
		m->storage_path = m->tenants_path;
		return storage_check_path(m->storage_path, e);
	}
	if (m->storage_path && is_own_path(m->storage_path))
		return err_set(e, ERR_INVALID,
			       "storage_path archives/ and checkpoints/ are berthd's own");
	return 0;
}

/* Copies the stored folder into the workspace that a warm sandbox has already. */
static int fill_claimed(struct service *s, const struct service_who *who, struct record *r, const char *storage_path, struct err *e)
{
	struct err ignored;

	if (workspace_download(s, storage_path, record_str(r, "mount_dir"), e) == 0 && service_check_asker(who, e) == 0) {
		json_object_set_new(r->j, "storage_path", json_string(storage_path));
		if (record_save(s, r, NULL, 0, e) == 0)
			return 0;
	}
	/*
	 * its record names no storage_path, so a half-finished download is not stored over the
	 * folder
	 */
	service_release_record(s, r, 0, &ignored);
	return -1;
}

int service_create(struct service *s, const struct service_who *who, const json_t *args, int from_pool, char ret_name[65],
		   struct err *e)
{
	struct making m = { .who = who, .args = args, .wait = 1 };
	const char *type = NULL, *name = NULL;
	autorecord struct record r = { .j = NULL };
	struct conf_pool pool;
	char owner[64], session[SESSION_MAX + 1];
	uint64_t pid = 0;
	int got = 0;

	if (json_get_str(args, "sandbox_type", &type, "request", e) < 0 || json_get_str(args, "name", &name, "request", e) < 0 ||
	    json_get_u64(args, "owner_pid", &pid, "request", e) < 0 || conf_pool_copy(s, type, &pool, NULL, e) < 0 ||
	    read_args(s, who, args, &m, e) < 0) {
		/* a corrupt value is the caller's fault here */
		e->code = e->code == ERR_CORRUPT ? ERR_INVALID : e->code;
		return -1;
	}
	if (name && !path_is_name(name))
		return err_set(e, ERR_INVALID, "name '%.80s' is malformed", name);
	if (pid && (!who->admin || !m.ctx))
		return err_set(e, ERR_INVALID, "owner_pid needs an administrator and a session");
	if (pid && owner_name(pid > INT32_MAX ? INT32_MAX : (int)pid, owner, e) < 0)
		return -1;
	if (chosen_read(&m, &pool, e) < 0)
		return -1;
	if (from_pool && !m.chosen)
		got = pool_claim(s, &m, &r, e);
	if (got < 0 || (got && m.storage_path && fill_claimed(s, who, &r, m.storage_path, e) < 0))
		return -1;
	if (!got) {
		s->claim_missed += from_pool != 0;
		if (service_make(s, &m, &r, e) < 0)
			return -1;
	}
	if (name && given_take(s, &r, name, NULL, e) < 0) {
		struct err ignored;

		service_release_record(s, &r, 0, &ignored);
		return -1;
	}
	if (m.ctx && (session_name(session, who->name, m.ctx, e) < 0 || session_touch(s, session, e) < 0))
		return -1;
	if (pid && owner_watch(s, session, owner, e) < 0)
		return -1;
	memcpy(ret_name, r.name, sizeof(r.name));
	return 0;
}
