/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/devices.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"

#define FILE_MAX (4u << 20)
#define FILES_MAX 256
#define ENV_MAX 1024

struct cdi_file {
	json_t *doc;
	char name[256];		/* name of the file, for errors */
	unsigned dir;		/* number of its directory: a later directory has priority */
	int applied;		/* its edits for all devices were added */
};

struct cdi {
	const struct config *config;
	struct cdi_file files[FILES_MAX];
	size_t count;
	int has_yaml;		/* a YAML file, which is not read */
};

/* ---- names ---- */

static size_t span(const char *p, const char *others)
{
	size_t n = 0;

	while (isalnum((unsigned char)p[n]) || (p[n] && strchr(others, p[n])))
		n++;
	return n;
}

int cdi_is_name(const char *text)
{
	const size_t vendor = span(text, "_-."), kind = strcspn(text, "=");
	const char *class = text + vendor + 1, *device = text + kind + 1;

	if (!isalpha((unsigned char)text[0]) || text[vendor] != '/' || text[kind] != '=')
		return 0;
	if (!isalpha((unsigned char)class[0]) || class + span(class, "_-") != text + kind)
		return 0;
	return isalnum((unsigned char)device[0]) && !device[span(device, "_-.:")] &&
	       strlen(text) < 200;
}

/* ---- the files ---- */

static int read_cdi_file(struct cdi *x, int dir_fd, const char *dir, unsigned which, const char *name,
		     struct err *e)
{
	autobuf struct buf b = BUF_INIT(FILE_MAX);
	struct cdi_file *f = &x->files[x->count];
	autoclose int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	const char *kind = NULL, *version = NULL;
	json_t *devices = NULL;
	struct stat st;

	snprintf(f->name, sizeof(f->name), "%.150s/%.100s", dir, name);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "open %s", f->name);
	if (st.st_uid != geteuid() || st.st_mode & 022)
		return err_set(e, ERR_DENIED, "%s may be written by others than root; hint: chown "
			       "root, and chmod go-w", f->name);
	if (x->count == FILES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d CDI specifications", FILES_MAX);
	if (io_read_all(fd, &b, f->name, e) < 0 ||
	    !(f->doc = json_parse(b.data ? b.data : "", b.len, FILE_MAX, f->name, e)))
		return -1;
	f->dir = which;
	x->count++;
	if (json_get_str(f->doc, "kind", &kind, f->name, e) < 0 ||
	    json_get_str(f->doc, "cdiVersion", &version, f->name, e) < 0 ||
	    json_get_arr(f->doc, "devices", &devices, f->name, e) < 0)
		return -1;
	if (!kind || !version || !devices)
		return err_set(e, ERR_CORRUPT, "%s is not a CDI specification: it lacks kind, "
			       "cdiVersion or devices", f->name);
	return 0;
}

static int has_suffix(const char *name, const char *suffix)
{
	const size_t n = strlen(name), m = strlen(suffix);

	return n > m && !strcmp(name + n - m, suffix);
}

static int read_dir(struct cdi *x, const char *dir, unsigned which, struct err *e)
{
	DIR *d = opendir(dir);
	struct dirent *one;
	int r = 0;

	if (!d)
		return errno == ENOENT ? 0 : err_sys(e, "read %s", dir);
	while (r == 0 && (one = readdir(d))) {
		x->has_yaml |= has_suffix(one->d_name, ".yaml") || has_suffix(one->d_name, ".yml");
		if (one->d_name[0] != '.' && has_suffix(one->d_name, ".json"))
			r = read_cdi_file(x, dirfd(d), dir, which, one->d_name, e);
	}
	closedir(d);
	return r;
}

void cdi_close(struct cdi *x)
{
	size_t i;

	for (i = 0; x && i < x->count; i++)
		json_decref(x->files[i].doc);
	free(x);
}

struct cdi *cdi_open(const struct config *c, struct err *e)
{
	struct cdi *x = calloc(1, sizeof(*x));
	char dirs[sizeof(c->cdi_dirs)], *dir, *save = NULL;
	unsigned which = 0;

	if (!x) {
		err_nomem(e);
		return NULL;
	}
	x->config = c;
	memcpy(dirs, c->cdi_dirs, sizeof(dirs));
	for (dir = strtok_r(dirs, "\n", &save); dir; dir = strtok_r(NULL, "\n", &save))
		if (read_dir(x, dir, which++, e) < 0) {
			cdi_close(x);
			return NULL;
		}
	return x;
}

/* ---- what a device wants ---- */

/* Refuses members that this berth does not know, because one may be what confines the device. */
static int check_cdi_members(const json_t *obj, const char *const *known, size_t n, const char *what,
			 struct err *e)
{
	const char *key;
	json_t *v;
	size_t i;

	json_object_foreach((json_t *)(size_t)obj, key, v) {
		for (i = 0; i < n && strcmp(known[i], key); i++)
			;
		if (i == n && !json_is_null(v))
			return err_set(e, ERR_UNSUPPORTED, "%s wants \"%.40s\", which berth "
				       "does not do", what, key);
	}
	return 0;
}

static int get_id(const json_t *obj, const char *key, int64_t max, int64_t *ret, const char *what,
		  struct err *e)
{
	uint64_t v;
	const int r = json_get_u64(obj, key, &v, what, e);

	if (r == 1 && v > (uint64_t)max)
		return err_set(e, ERR_CORRUPT, "%s: \"%s\" is too large", what, key);
	if (r == 1)
		*ret = (int64_t)v;
	return r < 0 ? -1 : 0;
}

/* Checks that the numbers in a specification are those of the existing node. */
static int check_numbers(const json_t *j, const char *path, const char *what, struct err *e)
{
	const char *type = NULL;
	int64_t ma = -1, mi = -1;
	struct stat st;

	if (json_get_str(j, "type", &type, what, e) < 0 ||
	    get_id(j, "major", UINT32_MAX, &ma, what, e) < 0 ||
	    get_id(j, "minor", UINT32_MAX, &mi, what, e) < 0)
		return -1;
	if (stat(path, &st) < 0)
		return 0;	/* a missing node is reported where it is added */
	if ((type && strcmp(type, S_ISBLK(st.st_mode) ? "b" : "c") && strcmp(type, "u")) ||
	    (ma >= 0 && ma != major(st.st_rdev)) || (mi >= 0 && mi != minor(st.st_rdev)))
		return err_set(e, ERR_CORRUPT, "%s: %.150s is another device on this host", what,
			       path);
	return 0;
}

static int add_node(struct cdi *x, const json_t *j, struct devices *d, const char *what,
		    struct err *e)
{
	static const char *const known[] = { "path", "hostPath", "type", "major", "minor",
					     "fileMode", "permissions", "uid", "gid" };
	struct device_node n = { NULL, NULL, 0, -1, -1, -1 };
	const char *access = "rwm";

	if (check_cdi_members(j, known, ARRAY_LEN(known), what, e) < 0 ||
	    json_get_str(j, "path", &n.target, what, e) < 0 ||
	    json_get_str(j, "hostPath", &n.path, what, e) < 0 ||
	    json_get_str(j, "permissions", &access, what, e) < 0 ||
	    get_id(j, "fileMode", 07777, &n.mode, what, e) < 0 ||
	    get_id(j, "uid", SPEC_IDS - 1, &n.uid, what, e) < 0 ||
	    get_id(j, "gid", SPEC_IDS - 1, &n.gid, what, e) < 0)
		return -1;
	if (!n.target)
		return err_set(e, ERR_CORRUPT, "%s: a device node has no path", what);
	if (!n.path || !n.path[0])
		n.path = n.target;
	if (devices_access(access[0] ? access : "rwm", &n.access, e) < 0 ||
	    check_numbers(j, n.path, what, e) < 0 || devices_add_node(d, x->config, &n, e) < 0)
		return err_wrap(e, "%s", what);
	return 0;
}

static int set_cdi_mount_option(struct spec_mount *m, const char *option, const char *what, struct err *e)
{
	static const char *const plain[] = { "ro", "bind", "rbind", "nosuid", "nodev", "private",
					     "rprivate", "slave", "rslave", "exec", "" };
	size_t i;

	if (!strcmp(option, "rw"))
		return m->writable = 1, 0;
	if (!strcmp(option, "noexec"))
		return m->exec = 0, 0;
	for (i = 0; i < ARRAY_LEN(plain); i++)
		if (!strcmp(plain[i], option))
			return 0;
	return err_set(e, ERR_UNSUPPORTED, "%s: mount option '%.40s'", what, option);
}

/* Adds a mount: read-only unless it says rw; never with set-id files or devices. */
static int add_cdi_mount(const json_t *j, struct devices *d, const char *what, struct err *e)
{
	static const char *const known[] = { "hostPath", "containerPath", "options", "type" };
	struct spec_mount m = { .kind = SPEC_BIND, .source_fd = -1, .links = 1, .exec = 1 };
	const char *type = "bind";
	json_t *options = NULL, *option;
	size_t i;

	if (check_cdi_members(j, known, ARRAY_LEN(known), what, e) < 0 ||
	    json_get_str(j, "hostPath", &m.source, what, e) < 0 ||
	    json_get_str(j, "containerPath", &m.target, what, e) < 0 ||
	    json_get_str(j, "type", &type, what, e) < 0 ||
	    json_get_arr(j, "options", &options, what, e) < 0)
		return -1;
	if (!m.source || m.source[0] != '/' || !m.target || m.target[0] != '/')
		return err_set(e, ERR_CORRUPT, "%s: a mount has no absolute hostPath or "
			       "containerPath", what);
	if (type[0] && strcmp(type, "bind") && strcmp(type, "none"))
		return err_set(e, ERR_UNSUPPORTED, "%s: a mount of type '%.40s'", what, type);
	json_array_foreach(options, i, option) {
		const char *word = json_string_value(option);

		if (set_cdi_mount_option(&m, word ? word : "?", what, e) < 0)
			return -1;
	}
	for (i = 0; i < d->mount_count; i++)
		if (!strcmp(d->mounts[i].target, m.target) &&
		    !strcmp(d->mounts[i].source, m.source))
			return 0;
	if (d->mount_count == SPEC_MOUNTS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d mounts", SPEC_MOUNTS_MAX);
	m.source = devices_keep(d, m.source, e);
	m.target = m.source ? devices_keep(d, m.target, e) : NULL;
	if (!m.target)
		return -1;
	d->mounts[d->mount_count++] = m;
	return 0;
}

static int add_cdi_env(const json_t *v, struct devices *d, const char *what, struct err *e)
{
	const char *text = json_string_value(v);
	const char **more;

	if (!text || !strchr(text, '=') || !config_is_env_name(text, strcspn(text, "=")))
		return err_set(e, ERR_CORRUPT, "%s: \"env\" holds something else than NAME=VALUE",
			       what);
	more = d->env_count < ENV_MAX ? realloc(d->env, (d->env_count + 1) * sizeof(*more)) : NULL;
	if (!more)
		return d->env_count < ENV_MAX ? err_nomem(e) :
		       err_set(e, ERR_LIMIT, "more than %d variables", ENV_MAX);
	d->env = more;
	text = devices_keep(d, text, e);
	if (!text)
		return -1;
	d->env[d->env_count++] = text;
	return 0;
}

static int check_hooks(const struct cdi *x, const json_t *edits, const char *what, struct err *e)
{
	json_t *hooks = NULL;

	if (json_get_arr(edits, "hooks", &hooks, what, e) < 0)
		return -1;
	if (!json_array_size(hooks) || !strcmp(x->config->cdi_hooks, "skip"))
		return 0;
	return err_set(e, ERR_DENIED, "%s wants hooks, which are programs that would run as root "
		       "on the host; hint: cdi_hooks = \"skip\", section devices of berth.toml, "
		       "makes the device without them", what);
}

static int add_edits(struct cdi *x, const json_t *of, struct devices *d, const char *what,
		     struct err *e)
{
	static const char *const known[] = { "env", "deviceNodes", "mounts", "hooks" };
	json_t *edits = NULL, *env = NULL, *nodes = NULL, *mounts = NULL, *one;
	size_t i;

	if (json_get_obj(of, "containerEdits", &edits, what, e) < 0)
		return -1;
	if (!edits)
		return 0;
	if (check_cdi_members(edits, known, ARRAY_LEN(known), what, e) < 0 ||
	    check_hooks(x, edits, what, e) < 0 || json_get_arr(edits, "env", &env, what, e) < 0 ||
	    json_get_arr(edits, "deviceNodes", &nodes, what, e) < 0 ||
	    json_get_arr(edits, "mounts", &mounts, what, e) < 0)
		return -1;
	json_array_foreach(env, i, one)
		if (add_cdi_env(one, d, what, e) < 0)
			return -1;
	json_array_foreach(nodes, i, one)
		if (add_node(x, one, d, what, e) < 0)
			return -1;
	json_array_foreach(mounts, i, one)
		if (add_cdi_mount(one, d, what, e) < 0)
			return -1;
	return 0;
}

/* ---- finding it ---- */

static const json_t *device_of(const struct cdi_file *f, const char *kind, size_t n,
			       const char *device)
{
	const char *has = json_string_value(json_object_get(f->doc, "kind")), *name;
	const json_t *one;
	size_t i;

	if (!has || strlen(has) != n || strncmp(has, kind, n))
		return NULL;
	json_array_foreach(json_object_get(f->doc, "devices"), i, one) {
		name = json_string_value(json_object_get(one, "name"));
		if (name && !strcmp(name, device))
			return one;
	}
	return NULL;
}

int cdi_add(struct cdi *x, const char *name, struct devices *d, struct err *e)
{
	const size_t n = strcspn(name, "=");
	const json_t *found = NULL, *one;
	struct cdi_file *in = NULL;
	size_t i;

	for (i = 0; i < x->count; i++) {
		one = device_of(&x->files[i], name, n, name + n + 1);
		if (one && in && in->dir == x->files[i].dir)
			return err_set(e, ERR_CORRUPT, "device %s is described by both %s and %s",
				       name, in->name, x->files[i].name);
		if (one) {
			in = &x->files[i];
			found = one;
		}
	}
	if (!found)
		return err_set(e, ERR_NOT_FOUND, "no CDI specification describes device %s%s; "
			       "hint: berth config show names them", name,
			       x->has_yaml ? " (YAML is not read, JSON is)" : "");
	if (!in->applied && add_edits(x, in->doc, d, in->name, e) < 0)
		return -1;
	in->applied = 1;
	return add_edits(x, found, d, in->name, e) < 0 ? err_wrap(e, "device %s", name) : 0;
}
