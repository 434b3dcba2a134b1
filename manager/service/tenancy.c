/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of tenants in the manager. Upholds S41 of SECURITY.md.
 *
 * The promises are written where those of all sandboxes are (manager/host/promise.h): a tenant's sandboxes of the
 * manager and those of POST /v1/sandboxes are one sum.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/host/promise.h"
#include "manager/host/tenant.h"
#include "manager/service/dlog.h"
#include "manager/service/service.h"
#include "manager/service/state.h"
#include "rootfs/store/image.h"
#include "runtime/kernel/quota.h"

/* ---- promises and views ---- */

int tenancy_is_tenant(const struct service_who *who)
{
	return who && !who->admin && who->name && who->name[0];
}

void tenancy_blunt(const struct service_who *who, struct err *e)
{
	if (tenancy_is_tenant(who) && e->code == ERR_LIMIT)
		err_set(e, ERR_LIMIT, "this host has no room for the sandbox now; hint: ask for less, or again later; the operator's keys "
			"are [admission] and [manager] max_sandboxes in berth.toml");
}

int tenancy_open(struct service *s, struct config *c, struct registry *ret, struct err *e)
{
	*c = s->config;
	c->admit_memory_bytes = c->admit_cpu_milli = c->disk_overcommit_milli = 0;
	*ret = s->registry;
	ret->config = c;
	/* of the lock: threads that share a descriptor share its lock, too */
	ret->sandboxes_fd = openat(s->registry.sandboxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return ret->sandboxes_fd < 0 ? err_sys(e, "open the registry of sandboxes") : 0;
}

void tenancy_close(struct registry *r)
{
	fd_close(&r->sandboxes_fd);
}

int tenancy_check(struct service *s, const struct service_who *who, const json_t *args, uint64_t memory_bytes, uint64_t cpu_milli,
		  struct err *e)
{
	struct promise p;
	struct registry reg;
	struct config c;
	struct tenant t;
	int r;

	if (!tenancy_is_tenant(who))
		return 0;
	if (tenant_load(&t, &s->config, who->name, e) < 0)
		return -1;
	/* values from the type itself are the operator's choice */
	if ((json_object_get(args, "memory") && tenant_check_memory(&t, memory_bytes, e) < 0) ||
	    (json_object_get(args, "cpus") && tenant_check_cpus(&t, cpu_milli, e) < 0))
		return -1;
	/* which sandbox it becomes is not known yet: its disk counts in tenancy_promise() */
	p = tenant_promise(&t, memory_bytes, cpu_milli, 0);
	if (tenancy_open(s, &c, &reg, e) < 0)
		return -1;
	r = registry_lock(&reg, e);
	if (r == 0)
		r = promise_fits(&reg, &p, NULL, e);
	tenancy_close(&reg);
	return r;
}

/* The tenant sees and uses the sandbox by every route, as what it made itself. */
static int save_record_owner(struct registry *reg, const struct record *r, const char *tenant, struct err *e)
{
	autojson json_t *owner = json_pack("{s:s}", "name", tenant);

	return owner ? registry_save(reg, record_str(r, "container_id"), REGISTRY_OWNER, owner, e) : err_nomem(e);
}

int tenancy_promise(struct service *s, const struct service_who *who, const struct record *r, uint64_t memory_bytes, uint64_t cpu_milli,
		    struct err *e)
{
	struct promise p = { .memory_bytes = memory_bytes, .cpu_milli = cpu_milli, .disk_bytes = PROMISE_SAME };
	struct registry reg;
	struct config c;
	struct tenant t;
	int result;

	/* another berthd of this machine has a registry of its own, and counts its own sandboxes */
	if (strcmp(record_own(r, "state_dir"), s->config.state_dir))
		return 0;
	if (tenancy_is_tenant(who)) {
		if (tenant_load(&t, &s->config, who->name, e) < 0)
			return -1;
		p = tenant_promise(&t, memory_bytes, cpu_milli, PROMISE_SAME);
	}
	if (tenancy_open(s, &c, &reg, e) < 0)
		return -1;
	result = promise_change(&reg, record_str(r, "container_id"), &p, 0, NULL, e);
	if (result == 0 && p.tenant[0])
		result = save_record_owner(&reg, r, p.tenant, e);
	tenancy_close(&reg);
	return result;
}

int tenancy_of_record(struct service *s, const struct record *r, struct promise *ret, struct err *e)
{
	struct tenant t;

	*ret = (struct promise){ .memory_bytes = record_own_u64(r, "memory_bytes"), .cpu_milli = record_own_u64(r, "cpu_milli"),
				 .disk_bytes = PROMISE_SAME };
	if (!tenancy_is_tenants(r))
		return 0;
	if (tenant_load(&t, &s->config, record_own(r, "owner"), e) < 0)
		return -1;
	*ret = tenant_promise(&t, ret->memory_bytes, ret->cpu_milli, PROMISE_SAME);
	return 0;
}

int tenancy_is_tenants(const struct record *r)
{
	return json_is_true(json_object_get(json_object_get(r->j, "berth"), "tenant"));
}

int tenancy_find_image(const struct tenant *t, const struct config *c, const char *ref,
		       char ret[REF_NAME_MAX + 1], struct err *e)
{
	const struct image_view v = tenant_view(t, c);
	char path[sizeof(c->state_dir) + 8];
	autojson json_t *record = NULL;
	autoclose int store = -1;
	const char *name;

	snprintf(path, sizeof(path), "%s/store", c->state_dir);
	store = store_open(path, e);
	record = store < 0 ? NULL : image_record_seen(store, &v, ref, e);
	name = json_string_value(json_object_get(record, "name"));
	if (!name)
		return record ? image_not_found(ref, e) : -1;
	snprintf(ret, REF_NAME_MAX + 1, "%s", name);
	return 0;
}

/* ---- archives ---- */

/*
 * The number of archived sandboxes that a tenant may have. Upholds S41 of SECURITY.md.
 *
 * An archived sandbox has no promise of the host's memory any more, but it keeps bytes of the
 * storage and, on the host that made it, a range of ids. Archives under way count.
 */

#define RECORD_BYTES_MAX (1u << 20)

struct tally {
	const char *owner;
	uint64_t count;
};

static int tally_archived_record(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct tally *t = ctx;
	autorecord struct record r = { .version = version };
	struct err ignored;

	/* most are not: that is seen before it is parsed */
	if (!strstr(value, "archived"))
		return 0;
	r.j = json_parse(value, strlen(value), RECORD_BYTES_MAX, key, &ignored);
	if (r.j && tenancy_is_tenants(&r) && record_run(&r) == RUN_ARCHIVED &&
	    !strcmp(record_own(&r, "owner"), t->owner) && !record_is_over(&r))
		t->count++;
	return 0;
}

/* Counts archives under way; the lock is held. */
static uint64_t under_way(const struct service *s, const char *owner)
{
	const struct archive_turn *t;
	uint64_t n = 0;

	for (t = s->archive_turns; t; t = t->next)
		n += !strcmp(t->owner, owner);
	return n;
}

void archive_share_leave(struct service *s, struct archive_turn *t)
{
	struct archive_turn **at;

	pthread_mutex_lock(&s->lock);
	for (at = &s->archive_turns; *at; at = &(*at)->next)
		if (*at == t) {
			*at = t->next;
			break;
		}
	pthread_mutex_unlock(&s->lock);
}

/*
 * The turn is taken before the records are counted, so of two that come at once each sees
 * the other; an archive that has just ended may count twice for a moment.
 */
int archive_share_enter(struct service *s, const struct record *r, struct archive_turn *t,
			struct err *e)
{
	struct tally n = { .owner = record_own(r, "owner") };
	struct tenant tenant;

	*t = (struct archive_turn){ .next = NULL };
	if (!tenancy_is_tenants(r) || record_run(r) == RUN_ARCHIVED)
		return 0;
	if (tenant_load(&tenant, &s->config, n.owner, e) < 0)
		return -1;
	snprintf(t->owner, sizeof(t->owner), "%s", n.owner);
	pthread_mutex_lock(&s->lock);
	t->next = s->archive_turns;
	s->archive_turns = t;
	n.count = under_way(s, n.owner);
	pthread_mutex_unlock(&s->lock);
	if (ledger_scan(s->ledger, RECORD_PREFIX, tally_archived_record, &n, e) < 0) {
		archive_share_leave(s, t);
		return -1;
	}
	if (n.count <= tenant.archives)
		return 0;
	archive_share_leave(s, t);
	return err_set(e, ERR_LIMIT, "tenant %s has %" PRIu64 " archived sandboxes, which is the "
		       "most; hint: start or release some, or [tenant] archives in berth.toml",
		       t->owner, tenant.archives);
}

/* ---- bytes of workspaces ---- */

/*
 * The bytes of a tenant's workspaces. Upholds S41 of SECURITY.md.
 *
 * All workspaces of a tenant belong to one project of their file system
 * (runtime/kernel/quota.h). Beside them the empty directory .tenants/NAME belongs to that
 * project too, and so remembers its number. The limit is set again whenever a workspace is made,
 * so a changed maximum applies from the next one on.
 */

#define TENANTS ".tenants"	/* no session id begins with a dot */
#define SHARE 10		/* a tenth of the file system, where no file says more */
#define BYTES_AN_INODE 16384
#define INODES_MIN 64

/* The tenant's maximum: 0 if none is set and the file system could not enforce one. */
static int most(struct service *s, const struct tenant *t, int above, uint64_t *ret, struct err *e)
{
	struct statvfs fs;
	struct err why;

	*ret = t->workspace_bytes;
	if (*ret)
		return 0;
	if (quota_check(above, &why) < 0) {
		if (!atomic_exchange(&s->told_unbounded, 1))
			dlog_note(DLOG_WARNING, "nothing but the file system of session."
				  "default_mount_dir bounds the workspaces of tenants: %s",
				  why.msg);
		return 0;
	}
	if (fstatvfs(above, &fs) < 0)
		return err_sys(e, "look at the file system of the workspaces");
	*ret = (uint64_t)fs.f_blocks * fs.f_frsize / SHARE;
	return 0;
}

/* The directory that has the tenant's project, with its limits set. */
static int open_share(int above, const char *tenant, uint64_t bytes, struct err *e)
{
	autoclose int top = path_make_dir(above, TENANTS, e), share = -1;
	uint64_t inodes = bytes / BYTES_AN_INODE;

	if (inodes < INODES_MIN)
		inodes = INODES_MIN;
	if (top < 0)
		return -1;
	/* two processes at once would choose two projects; the lock ends with the descriptor */
	while (flock(top, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock %s", TENANTS);
	share = path_make_dir(top, tenant, e);
	if (share < 0 || quota_bound(share, bytes, inodes, e) < 0)
		return -1;
	return take_fd(&share);
}

int workspace_bound(struct service *s, const struct record *r, struct err *e)
{
	const json_t *own = json_object_get(r->j, "berth");
	autoclose int above = -1, dir = -1, share = -1;
	const char *name;
	struct tenant t;
	uint64_t bytes;

	if (!tenancy_is_tenants(r) || !json_is_true(json_object_get(own, "own_workspace")))
		return 0;
	if (tenant_load(&t, &s->config, record_own(r, "owner"), e) < 0)
		return -1;
	above = workspace_open_above(r, &name, e);
	if (above < 0 || most(s, &t, above, &bytes, e) < 0)
		return -1;
	if (!bytes)
		return 0;
	dir = workspace_open(r, e);
	share = dir < 0 ? -1 : open_share(above, t.name, bytes, e);
	if (share < 0 || quota_join(dir, share, e) < 0)
		return err_wrap(e, "[tenant] workspace_bytes of %s", t.name);
	return 0;
}

/* The nearest existing directory: new directories below it are on its file system. */
static int open_nearest(const char *path, struct err *e)
{
	char at[512];
	int fd;

	snprintf(at, sizeof(at), "%s", path);
	while ((fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 && errno == ENOENT &&
	       strrchr(at, '/') != at)
		*strrchr(at, '/') = '\0';
	if (fd < 0 && errno == ENOENT)
		fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open %.200s", path) : fd;
}

int workspace_check_bound(const struct conf *conf, struct err *e)
{
	autojson json_t *doc = config_document(e);
	autoclose int dir = -1;
	struct err why;

	if (!doc)
		return -1;
	if (!tenant_any_workspace_bytes(doc))
		return 0;
	dir = open_nearest(conf->mount_dir, e);
	if (dir < 0)
		return -1;
	if (quota_check(dir, &why) == 0)
		return 0;
	why.msg[strcspn(why.msg, ";")] = '\0';
	return err_set(e, ERR_UNSUPPORTED, "[tenant] workspace_bytes cannot be enforced in %.120s: "
		       "%.120s; hint: mount its file system with prjquota, or set session."
		       "default_mount_dir to a directory on one that is", conf->mount_dir, why.msg);
}
