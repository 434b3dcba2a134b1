/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/settleopt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "base/encoding.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/procid.h"
#include "manager/ops/mountspec.h"
#include "manager/ops/optvalues.h"
#include "manager/ops/params.h"
#include "manager/ops/runopts.h"

/* ---- options that depend on the caller ---- */

/*
 * Returns the path of a source without links, from the heap; sep: the byte that must not be in it,
 * because it ends the path in the option.
 */
static char *real_source(const char *src, size_t n, char sep, struct err *e)
{
	autofree char *given = strndup(src, n), *path = NULL;

	if (!given) {
		err_nomem(e);
		return NULL;
	}
	path = realpath(given, NULL);
	if (!path)
		err_code_sys(e, ERR_NOT_FOUND, "mount source %s", given);
	else if (strchr(path, sep) || strchr(path, '\n'))
		err_set(e, ERR_INVALID, "mount source %.200s is %.200s, which has a '%c' or a line's end in it", given, path, sep);
	else
		return take_ptr(&path);
	return NULL;
}

/* Tells whether words, the options of a mount after the last comma or colon, have "nolinks". */
static int says_nolinks(const char *words)
{
	const size_t n = strlen("nolinks");
	const char *at = words;

	while ((at = strstr(at, "nolinks"))) {
		if (at > words && strchr(":,", at[-1]) && strchr(",", at[n]))
			return 1;
		at += n;
	}
	return 0;
}

/* Settles "SOURCE:..." with a host path as its source. */
static int settle_volume(const char *value, char **ret, struct err *e)
{
	const char *colon = strchr(value, ':');
	autofree char *path = NULL;

	if (!colon || !mountspec_is_path(value, (size_t)(colon - value)) || says_nolinks(colon))
		return 0;
	path = real_source(value, (size_t)(colon - value), ':', e);
	if (!path)
		return -1;
	return asprintf(ret, "%s%s", path, colon) < 0 ? (*ret = NULL, err_nomem(e)) : 0;
}

/* Settles "type=bind,src=SOURCE,..." */
static int settle_mount(const char *value, char **ret, struct err *e)
{
	const char *at = value, *eq;
	autofree char *path = NULL;
	size_t n;

	if (says_nolinks(value) || !strstr(value, "type=bind"))
		return 0;
	for (;; at += n + 1) {
		n = strcspn(at, ",");
		if (!strncmp(at, "src=", 4) || !strncmp(at, "source=", 7))
			break;
		if (!at[n])
			return 0;	/* it has no source, and is refused when it is read */
	}
	eq = strchr(at, '=') + 1;
	path = real_source(eq, n - (size_t)(eq - at), ',', e);
	if (!path)
		return -1;
	return asprintf(ret, "%.*s%s%s", (int)(eq - value), value, path, at + n) < 0 ? (*ret = NULL, err_nomem(e)) : 0;
}

int settleopt(int id, const char *value, char **ret, struct err *e)
{
	*ret = NULL;
	switch (id) {
	case PARAM_VOLUME:
		return settle_volume(value, ret, e);
	case PARAM_MOUNT:
		return settle_mount(value, ret, e);
	case PARAM_ENV:
		*ret = envopts_settle(value, e);
		return *ret ? 0 : -1;
	case PARAM_OWNER_PID:
		*ret = calloc(1, PROCID_SIZE);
		return *ret ? procid_parse(value, *ret, e) : err_nomem(e);
	case PARAM_SECCOMP:
		if (!strchr(value, '/'))
			return 0;
		*ret = realpath(value, NULL);
		return *ret ? 0 : err_code_sys(e, ERR_NOT_FOUND, "file %s", value);
	default:
		return 0;
	}
}

int settleopt_seccomp(const char *path, json_t **ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1 << 20);

	json_decref(*ret);
	*ret = NULL;
	if (!runopts_seccomp_is_file(path))
		return 0;
	if (io_read_file(AT_FDCWD, path, &b, e) < 0)
		return err_wrap(e, "seccomp profile %s", path);
	*ret = json_stringn(b.data ? b.data : "", b.len);
	if (!*ret || memchr(b.data ? b.data : "", 0, b.len))
		return err_set(e, ERR_INVALID, "seccomp profile %s is not text", path);
	return 0;
}

/* ---- the sources of mounts ---- */

/* Upholds S51 of SECURITY.md. */

#define SOURCES "sources"	/* in spec.json: path -> identity */
#define HANDLE_MAX 64
#define IDENTITY_SIZE (192 + 2 * HANDLE_MAX)
#ifndef AT_HANDLE_FID
#define AT_HANDLE_FID 0x200	/* Linux 6.5: to compare, not to open */
#endif

/*
 * The identity of the file at a path: in spec.json "BOOT KIND DEVICE:INODE UID:GID FSID:HANDLE";
 * KIND: dir, file, socket, other.
 */
struct identity {
	char boot[PROCID_BOOT_SIZE];
	char kind[8];
	unsigned long long device, inode;
	unsigned uid, gid;
	int has_owner;	/* 0: an older berth noted only the parts above, and for a file only that it is one */
	unsigned long long fsid;	/* of the file system, independent of its device number; 0: none */
	char handle[2 * HANDLE_MAX + 1];	/* tells an inode from a later one with its number; "-":
						 * none */
};

/*
 * Tells whether handles last as long as the inode: overlayfs and FUSE may give an inode another
 * one. Those of other file systems are not compared.
 */
static int has_lasting_handles(const struct statfs *fs)
{
	static const unsigned kinds[] = { EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC, TMPFS_MAGIC };
	size_t i;

	for (i = 0; i < ARRAY_LEN(kinds); i++)
		if ((unsigned)fs->f_type == kinds[i])
			return 1;
	return 0;
}

static void handle_of(int fd, char ret[2 * HANDLE_MAX + 1])
{
	union {
		struct file_handle h;
		char room[sizeof(struct file_handle) + HANDLE_MAX];
	} u;
	int mount, r, tries;

	for (tries = 0; tries < 2; tries++) {
		memset(&u, 0, sizeof(u));
		u.h.handle_bytes = HANDLE_MAX - 1;	/* one byte is for its type */
		r = name_to_handle_at(fd, "", &u.h, &mount, AT_EMPTY_PATH | (tries ? 0 : AT_HANDLE_FID));
		if (r == 0 || errno != EINVAL)
			break;
	}
	snprintf(ret, 2 * HANDLE_MAX + 1, "-");
	if (r < 0 || u.h.handle_bytes >= HANDLE_MAX)
		return;
	u.h.f_handle[u.h.handle_bytes] = (unsigned char)u.h.handle_type;
	hex_format(ret, u.h.f_handle, u.h.handle_bytes + 1);
}

/*
 * Returns the id of a file system. XFS and others make it from the device number, which may change;
 * then it tells no more than that.
 */
static unsigned long long fsid_of(const struct statfs *fs, dev_t device)
{
	const unsigned long long of_device = (minor(device) & 0xff) | major(device) << 8 | (unsigned long long)(minor(device) & ~0xffU) << 12;
	unsigned part[2];

	memcpy(part, &fs->f_fsid, sizeof(part));
	return ((unsigned long long)part[1] << 32 | part[0]) == of_device ? 0 : (unsigned long long)part[1] << 32 | part[0];
}

static int identity_of(int fd, struct identity *ret, struct err *e)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return err_sys(e, "look at a mount source");
	*ret = (struct identity){ .device = st.st_dev, .inode = st.st_ino, .uid = st.st_uid, .gid = st.st_gid, .has_owner = 1,
				  .fsid = fsid_of(&fs, st.st_dev), .handle = "-" };
	procid_boot(ret->boot);
	snprintf(ret->kind, sizeof(ret->kind), "%s", S_ISDIR(st.st_mode) ? "dir" : S_ISREG(st.st_mode) ? "file" :
						     S_ISSOCK(st.st_mode) ? "socket" : "other");
	if (has_lasting_handles(&fs))
		handle_of(fd, ret->handle);
	return 0;
}

/* Parses an identity; 0: it is malformed. */
static int parse_identity(const char *text, struct identity *ret)
{
	int n;

	*ret = (struct identity){ .handle = "-" };
	n = sscanf(text, "%8s %7s %llu:%llu %u:%u %llx:%128s", ret->boot, ret->kind, &ret->device, &ret->inode, &ret->uid, &ret->gid,
		   &ret->fsid, ret->handle);
	ret->has_owner = n >= 6;
	return n >= 4 || (n == 2 && !strcmp(ret->kind, "file"));
}

/*
 * Tells whether it is the same inode, also on a file system that was mounted anew and now has
 * another device number.
 */
static int is_same_source(const struct identity *was, const struct identity *now)
{
	const int told = strcmp(was->handle, "-") != 0 && strcmp(now->handle, "-") != 0;

	if (strcmp(was->kind, now->kind) != 0 || was->inode != now->inode || (told && strcmp(was->handle, now->handle) != 0))
		return 0;
	return was->device == now->device || (was->fsid && was->fsid == now->fsid);
}

static int open_mount_source(const char *path, struct err *e)
{
	int fd = path_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);

	if (fd >= 0)
		return fd;
	if (errno == ELOOP) {
		err_set(e, ERR_DENIED, "mount source %.200s: a symbolic link is in the place of a directory "
			"or file of that path", path);
		return err_hint(e, "put the directory back, or make the sandbox anew with the "
			"intended path");
	}
	return err_code_sys(e, errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND : ERR_SYS, "mount source %s", path);
}

static int note_source(json_t *sources, const char *path, const struct identity *i, struct err *e)
{
	char text[IDENTITY_SIZE];

	snprintf(text, sizeof(text), "%s %s %llu:%llu %u:%u %llx:%s", i->boot, i->kind, i->device, i->inode, i->uid, i->gid, i->fsid,
		 i->handle);
	return json_object_set_new(sources, path, json_string(text)) < 0 ?
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
	struct identity now;

	if (json_object_get(sources, path))
		return 0;
	fd = open_mount_source(path, e);
	return fd < 0 || identity_of(fd, &now, e) < 0 ? -1 : note_source(sources, path, &now, e);
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

/* Replaces the source of an option by its present path without links. */
static int resolve_source(json_t *pair, struct err *e)
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
		if (resolve_source(pair, e) < 0)
			return -1;
	return sources_note(spec, e) < 0 ? -1 : 1;
}

#define ACCEPT_HINT "put it back, or berth start --accept-sources takes what is there now; a zygote is made anew"

/*
 * Checks the owner: with owner=auto the source's owner has the sandbox's rights, so a source with
 * another owner would give it rights that nobody granted, after a boot and for a file, too.
 */
static int check_source_owner(const char *path, const struct identity *was, const struct identity *now, struct err *e)
{
	if (!was->has_owner || (was->uid == now->uid && was->gid == now->gid))
		return 0;
	err_set(e, ERR_DENIED, "mount source %.200s was replaced by a file that belongs to %u:%u "
			       "and not to %u:%u, whose rights the "
		"sandbox has there", path, now->uid, now->gid, was->uid, was->gid);
	return err_hint(e, ACCEPT_HINT);
}

/* Checks the kind: a file may not become the socket of a service; an older berth called both a file. */
static int is_of_kind(const struct identity *was, const struct identity *now)
{
	return was->has_owner ? !strcmp(was->kind, now->kind) : !strcmp(was->kind, "dir") == !strcmp(now->kind, "dir");
}

/*
 * Verifies a source: 1 if it was noted anew, because it is another file, or the machine was booted
 * or the file system mounted meanwhile.
 */
static int verify_source(json_t *sources, const struct spec_mount *m, struct err *e)
{
	const char *text = json_string_value(json_object_get(sources, m->source));
	struct identity was, now;
	int same;

	if (identity_of(m->source_fd, &now, e) < 0)
		return -1;
	if (text && parse_identity(text, &was) && is_of_kind(&was, &now)) {
		same = is_same_source(&was, &now);
		if (!same && m->owner_auto && check_source_owner(m->source, &was, &now, e) < 0)
			return -1;
		if (same || strcmp(was.kind, "dir") != 0 || strcmp(was.boot, now.boot) != 0) {
			if (same && was.has_owner && was.device == now.device && !strcmp(was.boot, now.boot))
				return 0;
			return note_source(sources, m->source, &now, e) < 0 ? -1 : 1;
		}
	}
	err_set(e, ERR_DENIED, "mount source %.200s is not what was there when the sandbox was made", m->source);
	return err_hint(e, ACCEPT_HINT);
}

int sources_open(json_t *spec, struct spec *s, struct err *e)
{
	json_t *sources = json_object_get(spec, SOURCES);
	int changed = 0, r;
	size_t i;

	for (i = 0; i < s->mount_count; i++) {
		struct spec_mount *m = &s->mounts[i];

		if (m->kind != SPEC_BIND)
			continue;
		m->source_fd = open_mount_source(m->source, e);
		r = m->source_fd < 0 ? -1 : m->replaceable ? 0 : verify_source(sources, m, e);
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
