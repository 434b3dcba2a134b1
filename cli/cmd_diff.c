/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth diff: what a sandbox changed against its image.
 *
 * The keeper hands out the writable layer and the image's layers as directory
 * descriptors.  What is in the first is hostile and may change while we look:
 * it is only listed and described, through no link, nothing is opened but
 * directories.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/resident.h"
#include "manager/fileclient.h"
#include "runtime/spec.h"

#define CHANGES_MAX 1000000
#define DEPTH_MAX 512

enum { OPT_JSON = 1 };

static const struct opt options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object; errors too", OPT_JSON },
};

struct change {
	char kind;	/* A, C or D */
	char *path;
};

struct diff {
	int json;
	int upper;
	int layer[SPEC_LAYERS_MAX];
	int layers;
	char workdir[4096];
	struct change *list;
	size_t count, cap;
	int depth;
	char path[4097];
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)id;
	(void)value;
	(void)e;
	((struct diff *)ctx)->json = 1;
	return 0;
}

static int is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static int is_opaque(int fd)
{
	char v[2];

	return fgetxattr(fd, "trusted.overlay.opaque", v, sizeof(v)) == 1 && v[0] == 'y';
}

static int add(struct diff *d, char kind, struct err *e)
{
	struct change *more;

	if (d->count == CHANGES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d changes", CHANGES_MAX);
	if (d->count == d->cap) {
		d->cap = d->cap ? 2 * d->cap : 256;
		more = reallocarray(d->list, d->cap, sizeof(*more));
		if (!more)
			return err_nomem(e);
		d->list = more;
	}
	d->list[d->count] = (struct change){ kind, strdup(d->path) };
	if (!d->list[d->count].path)
		return err_nomem(e);
	d->count++;
	return 0;
}

/* Path (absolute) in one layer: 1 found, 0 not here but perhaps below, -1 hidden from the layers below. */
static int in_layer(int layer, const char *path, struct stat *ret)
{
	char part[256];
	int at = fcntl(layer, F_DUPFD_CLOEXEC, 3), next, opaque = 0, result = 0;

	while (at >= 0 && *path) {
		size_t n = strcspn(++path, "/");

		if (n >= sizeof(part))
			break;
		memcpy(part, path, n);
		part[n] = '\0';
		path += n;
		if (fstatat(at, part, ret, AT_SYMLINK_NOFOLLOW) < 0) {
			result = opaque ? -1 : 0;
			break;
		}
		if (is_whiteout(ret) || (*path && !S_ISDIR(ret->st_mode))) {
			result = -1;
			break;
		}
		if (!*path) {
			result = 1;
			break;
		}
		next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		fd_close(&at);
		at = next;
		opaque |= at >= 0 && is_opaque(at);
	}
	fd_close(&at);
	return result;
}

static int in_image(const struct diff *d, const char *path, struct stat *ret)
{
	int i, r = 0;

	for (i = 0; i < d->layers && r == 0; i++)
		r = in_layer(d->layer[i], path, ret);
	return r == 1;
}

/* What berth itself puts into the writable layer before anything runs. */
static int is_ours(const struct diff *d, const struct stat *st, int empty)
{
	static const char *const files[] = { "/etc/hosts", "/etc/hostname", "/etc/resolv.conf" };
	static const char *const dirs[] = { "/proc", "/sys", "/dev", "/tmp", "/run", "/etc" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(files); i++)
		if (S_ISREG(st->st_mode) && !strcmp(d->path, files[i]))
			return 1;
	for (i = 0; i < ARRAY_LEN(dirs); i++)
		if (S_ISDIR(st->st_mode) && empty && !strcmp(d->path, dirs[i]))
			return 1;
	return S_ISDIR(st->st_mode) && empty && !strcmp(d->path, d->workdir);
}

static int walk(struct diff *d, int fd, struct err *e);

static int look_at(struct diff *d, int dirfd, const char *name, struct err *e)
{
	size_t before = d->count;
	struct stat st, old;
	int lower, next;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;	/* gone meanwhile */
	lower = in_image(d, d->path, &old);
	if (is_whiteout(&st))
		return lower ? add(d, 'D', e) : 0;
	if (!S_ISDIR(st.st_mode))
		return is_ours(d, &st, 0) ? 0 : add(d, lower ? 'C' : 'A', e);
	next = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (next < 0)
		return 0;
	if (walk(d, next, e) < 0)
		return -1;
	if (is_ours(d, &st, d->count == before))
		return 0;
	if (!lower || !S_ISDIR(old.st_mode))
		return add(d, lower ? 'C' : 'A', e);
	/* copied up for what is below it, or itself changed */
	return d->count > before || st.st_mode != old.st_mode ? add(d, 'C', e) : 0;
}

/* Takes over fd. */
static int walk(struct diff *d, int fd, struct err *e)
{
	DIR *dir = fdopendir(fd);
	size_t len = strlen(d->path);
	struct dirent *de;
	int r = 0;

	if (!dir) {
		close(fd);
		return err_sys(e, "list %.200s", d->path);
	}
	if (++d->depth > DEPTH_MAX)
		r = err_set(e, ERR_LIMIT, "more than %d directories within each other", DEPTH_MAX);
	while (r == 0 && (de = readdir(dir))) {
		size_t n = strlen(de->d_name);

		if (!strcmp(de->d_name, ".") || !strcmp(de->d_name, "..") || len + 1 + n >= sizeof(d->path))
			continue;
		d->path[len] = '/';
		memcpy(d->path + len + 1, de->d_name, n + 1);
		r = look_at(d, dirfd(dir), de->d_name, e);
		d->path[len] = '\0';
	}
	d->depth--;
	closedir(dir);
	return r;
}

static int get_layer(struct diff *d, int sock, int index, int *ret_count, struct err *e)
{
	autojson json_t *rq = json_pack("{s:s,s:i}", "op", "layers", "index", index);
	autojson json_t *answer = NULL;
	const char *workdir;
	int fd = -1;

	answer = keeper_call(sock, rq, NULL, 0, &fd, e);
	if (!answer)
		return -1;
	*ret_count = (int)json_integer_value(json_object_get(answer, "count"));
	workdir = json_string_value(json_object_get(answer, "workdir"));
	snprintf(d->workdir, sizeof(d->workdir), "%s", workdir ? workdir : "");
	return fd < 0 || *ret_count > SPEC_LAYERS_MAX ? err_set(e, ERR_INTERNAL, "the keeper handed out no layer") : fd;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct change *)a)->path, ((const struct change *)b)->path);
}

static int show(struct diff *d, struct err *e)
{
	json_t *list = json_array(), *one;
	char path[4200];
	size_t i;

	if (d->count)
		qsort(d->list, d->count, sizeof(*d->list), by_path);
	for (i = 0; i < d->count; i++) {
		if (!d->json) {
			log_clean(path, sizeof(path), d->list[i].path, 0);
			printf("%c %s\n", d->list[i].kind, path);
			continue;
		}
		one = json_pack("{s:s}", "change", d->list[i].kind == 'A' ? "added" : d->list[i].kind == 'C' ? "changed" : "deleted");
		fileclient_set_bytes(one, "path", d->list[i].path, strlen(d->list[i].path));
		json_array_append_new(list, one);
	}
	if (d->json)
		return fileclient_print(json_pack("{s:o}", "changes", list), e);
	json_decref(list);
	return 0;
}

static int compare(struct diff *d, int sock, struct err *e)
{
	int count = 0, i, upper;

	upper = get_layer(d, sock, 0, &count, e);
	if (upper < 0)
		return -1;
	for (i = 0; i < count; i++) {
		d->layer[i] = get_layer(d, sock, i + 1, &count, e);
		if (d->layer[i] < 0) {
			close(upper);
			return -1;
		}
		d->layers++;
	}
	return walk(d, upper, e) < 0 ? -1 : show(d, e);
}

/* A stopped sandbox's layers are opened here, where no keeper holds them. */
static int compare_stopped(struct diff *d, struct registry *r, const char *id, struct err *e)
{
	struct resident_layers l;
	int result = resident_open_layers(r, id, &l, e), i, upper;

	if (result == 0) {
		snprintf(d->workdir, sizeof(d->workdir), "%s", l.workdir);
		for (i = 0; i < l.count; i++)
			d->layer[i] = l.layer_fd[i];
		d->layers = l.count;
		upper = take_fd(&l.upper_fd);
		result = walk(d, upper, e) < 0 ? -1 : show(d, e);
		d->layers = 0;	/* they are l's */
	}
	resident_close_layers(r, &l);
	return result;
}

static int diff_main(const struct command *self, int argc, char **argv)
{
	struct diff *d = calloc(1, sizeof(*d));
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, status = 0, result, as_json;

	sandbox_ref_init(&s);
	result = d ? command_options(self, argc, argv, set_option, d, &rest, &help, &e) : err_nomem(&e);
	if (result == 0 && !help) {
		result = argc - rest == 1 ? sandbox_ref_find(&s, argv[rest], &e) :
			 err_set(&e, ERR_USAGE, "one sandbox is wanted; hint: berth diff ID");
		if (result == 0 && s.kept)
			result = compare_stopped(d, &s.registry, s.id, &e);
		else if (result == 0 && (result = sandbox_ref_connect(&s, argv[rest], 0, &e)) == 0)
			result = compare(d, s.sock, &e);
	}
	as_json = d && d->json;
	while (d && d->layers)
		close(d->layer[--d->layers]);
	while (d && d->count)
		free(d->list[--d->count].path);
	free(d ? d->list : NULL);
	free(d);
	if (result < 0)
		status = command_fail(self, &e, as_json);
	sandbox_ref_close(&s);
	return status;
}

const struct command cmd_diff = {
	.name = "diff",
	.args = "SANDBOX",
	.summary = "what a sandbox changed against its image",
	.detail = "A line per path: A added, C changed, D deleted.  What berth itself makes (/etc/hosts, mount points)\n"
		  "is left out, and so is what is not in the writable layer: /tmp, /run, volumes.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = diff_main,
};
