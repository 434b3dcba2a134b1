/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/volumes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/host/tenant.h"
#include "manager/host/volume.h"
#include "runtime/kernel/quota.h"
#include "runtime/sandbox/mountplan.h"

#define BYTES_AN_INODE 4096

struct seeding {
	const struct spec *spec;
	const char *target, *scratch;
};

static int seed(void *ctx, int root_fd, struct err *e)
{
	const struct seeding *x = ctx;

	return volume_seed_from(x->spec, x->target, x->scratch, root_fd, e);
}

/* Others may work in the volume meanwhile: wherever it leads, it is below the volume's top. */
static int open_sub(struct spec_mount *m, const struct volume *v, int *ret_fd, struct err *e)
{
	*ret_fd = path_open_beneath(v->root_fd, m->sub, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
	if (*ret_fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOT_FOUND, "volume %s has no directory %s; "
			       "hint: berth run --volume %s:/v host mkdir -p /v/%s",
			       m->source, m->sub, m->source, m->sub);
	if (*ret_fd < 0)
		return err_code_sys(e, ERR_INVALID, "open %s of volume %s (links are not followed)",
				    m->sub, m->source);
	m->source_fd = *ret_fd;
	m->source_is_mount = 0;
	return 0;
}

static int open_named_volume(struct volumes *u, struct registry *r, const struct spec *s,
			     struct spec_mount *m, const char *tenant, const char *scratch, struct err *e)
{
	struct volume_wish w = { .name = m->source, .tenant = tenant };
	struct seeding x = { s, m->target, scratch };
	struct volume *v = &u->v[u->count];
	struct tenant t;

	if (tenant[0]) {
		if (tenant_load(&t, r->config, tenant, e) < 0)
			return -1;
		w.tenant_max = t.volumes;
	}
	if (volume_open(r, &w, m->sub ? NULL : seed, &x, v, e) < 0)
		return -1;
	u->sub_fd[u->count++] = -1;
	m->source_fd = v->root_fd;
	m->source_is_mount = v->is_mount;
	return m->sub ? open_sub(m, v, &u->sub_fd[u->count - 1], e) : 0;
}

/* A directory of the operator's. */
static int bound_mount_source(const struct spec_mount *m, struct err *e)
{
	autoclose int fd = m->source_fd >= 0 ? openat(m->source_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) :
			   path_openat2(AT_FDCWD, m->source, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS);

	if (fd < 0)
		return err_code_sys(e, errno == ENOTDIR ? ERR_INVALID : ERR_SYS,
				    "open %s, which is to have a quota", m->source);
	if (quota_bound(fd, m->quota_bytes, m->quota_bytes / BYTES_AN_INODE, e) < 0)
		return err_wrap(e, "quota of %s", m->source);
	return 0;
}

int volumes_open(struct volumes *u, struct registry *r, struct spec *s, const char *tenant,
		 const char *scratch, struct err *e)
{
	size_t i;

	/* a sandbox that is refused makes no volume */
	if (mountplan_check_targets(s, e) < 0)
		return -1;
	for (i = 0; i < s->mount_count; i++)
		if ((s->mounts[i].quota_bytes && bound_mount_source(&s->mounts[i], e) < 0) ||
		    (s->mounts[i].kind == SPEC_VOLUME &&
		     open_named_volume(u, r, s, &s->mounts[i], tenant, scratch, e) < 0))
			return -1;
	return 0;
}

void volumes_close(struct volumes *u)
{
	while (u->count) {
		fd_close(&u->sub_fd[--u->count]);
		volume_close(&u->v[u->count]);
	}
}
