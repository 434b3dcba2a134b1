/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S51 of SECURITY.md. */
#include "manager/ops/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/procid.h"
#include "manager/ops/mountspec.h"
#include "manager/ops/params.h"
#include "manager/ops/runopts.h"
#include "manager/ops/settleopt.h"

#define SOURCES "sources"	/* in spec.json: path -> identity */
#define IDENTITY_SIZE 128

/* "BOOT dir DEVICE:INODE", or "BOOT file". */
static int identity_of(int fd, char ret[IDENTITY_SIZE], struct err *e)
{
	char boot[PROCID_BOOT_SIZE];
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at a mount source");
	procid_boot(boot);
	if (S_ISDIR(st.st_mode))
		snprintf(ret, IDENTITY_SIZE, "%s dir %llu:%llu", boot, (unsigned long long)st.st_dev,
			 (unsigned long long)st.st_ino);
	else
		snprintf(ret, IDENTITY_SIZE, "%s file", boot);
	return 0;
}

static int open_source(const char *path, struct err *e)
{
	int fd = path_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);

	if (fd >= 0)
		return fd;
	if (errno == ELOOP) {
		err_set(e, ERR_DENIED, "mount source %.200s: a symbolic link is in the place of a directory "
			"or file of that path", path);
		return err_hint(e, "put the directory back, or make the sandbox anew with the path that is meant");
	}
	return err_code_sys(e, errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_SYS, "mount source %s", path);
}

static int note(json_t *sources, const char *path, int fd, struct err *e)
{
	char now[IDENTITY_SIZE];

	if (identity_of(fd, now, e) < 0)
		return -1;
	return json_object_set_new(sources, path, json_string(now)) < 0 ?
		       err_set(e, ERR_INVALID, "mount source %.200s is not valid UTF-8", path) : 0;
}

/* Calls each with the source of every option that mounts one. */
static int each_source(const json_t *spec, int (*each)(void *ctx, const char *path, struct err *e), void *ctx,
		       struct err *e)
{
	autofree struct spec *room = calloc(1, sizeof(*room));
	const json_t *pair;
	size_t i;
	int r = 0;

	if (!room)
		return err_nomem(e);
	room->sources_resolved = 1;
	json_array_foreach (json_object_get(spec, "options"), i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));
		const char *text = json_string_value(json_array_get(pair, 1));
		autofree char *owned = NULL;

		if (!name || !text || (strcmp(name, "volume") && strcmp(name, "mount")))
			continue;
		r = !strcmp(name, "mount") ? mountspec_mount(room, text, &owned, e) :
					     mountspec_volume(room, text, &owned, e);
		if (r == 0 && room->mounts[room->mount_count - 1].kind == SPEC_BIND)
			r = each(ctx, room->mounts[room->mount_count - 1].source, e);
		if (r < 0)
			return err_wrap(e, "option --%s", name);
		room->mount_count = 0;
	}
	return 0;
}

static int note_new(void *sources, const char *path, struct err *e)
{
	autoclose int fd = -1;

	if (json_object_get(sources, path))
		return 0;
	fd = open_source(path, e);
	return fd < 0 ? -1 : note(sources, path, fd, e);
}

int sources_note(json_t *spec, struct err *e)
{
	json_t *sources = json_object_get(spec, SOURCES);

	if (!sources) {
		sources = json_object();
		json_object_set_new(spec, SOURCES, sources);
	}
	return sources ? each_source(spec, note_new, sources, e) : err_nomem(e);
}

/* An option with the path of its source as it is now. */
static int resolve(json_t *pair, struct err *e)
{
	const char *name = json_string_value(json_array_get(pair, 0));
	const char *text = json_string_value(json_array_get(pair, 1));
	const struct param *p = name ? param_named(name) : NULL;
	autofree char *settled = NULL;

	if (!p || !text || (p->opt.id != PARAM_VOLUME && p->opt.id != PARAM_MOUNT))
		return 0;
	if (settleopt(p->opt.id, text, &settled, e) < 0)
		return -1;
	return settled && json_array_set_new(pair, 1, json_string(settled)) < 0 ? err_nomem(e) : 0;
}

int sources_adopt(json_t *spec, struct err *e)
{
	json_t *pair;
	size_t i;

	if (json_object_get(spec, SOURCES))
		return 0;
	json_array_foreach (json_object_get(spec, "options"), i, pair)
		if (resolve(pair, e) < 0)
			return -1;
	return sources_note(spec, e) < 0 ? -1 : 1;
}

/* 1: noted anew, as the machine was booted meanwhile. */
static int check(json_t *sources, const char *path, int fd, struct err *e)
{
	const char *was = json_string_value(json_object_get(sources, path));
	char now[IDENTITY_SIZE];

	if (identity_of(fd, now, e) < 0)
		return -1;
	if (was && !strcmp(was, now))
		return 0;
	if (was && strncmp(was, now, strcspn(now, " ") + 1))
		return note(sources, path, fd, e) < 0 ? -1 : 1;
	err_set(e, ERR_DENIED, "mount source %.200s is not what was there when the sandbox was made", path);
	return err_hint(e, "berth start --accept-sources takes what is there now");
}

int sources_open(json_t *spec, struct runopts *o, struct err *e)
{
	json_t *sources = json_object_get(spec, SOURCES);
	int changed = 0, r;
	size_t i;

	for (i = 0; i < o->spec.mount_count; i++) {
		struct spec_mount *m = &o->spec.mounts[i];

		if (m->kind != SPEC_BIND)
			continue;
		m->source_fd = open_source(m->source, e);
		r = m->source_fd < 0 ? -1 : m->replaceable ? 0 : check(sources, m->source, m->source_fd, e);
		if (r < 0)
			return -1;
		changed |= r;
	}
	return changed;
}

void sources_forget(json_t *spec)
{
	json_object_del(spec, SOURCES);
}
