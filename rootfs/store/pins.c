/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/store/pins.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "rootfs/store/digest.h"
#include "rootfs/store/image.h"
#include "rootfs/store/store.h"

#define RECORD_MAX (16u << 20)

typedef int pin_fn(void *ctx, const char *who, const json_t *record, struct err *e);

/* Returns 1 with the record, 0 without one, -1. */
static int read_pin(int dir_fd, const char *file, const char *who, json_t **ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT(RECORD_MAX);
	struct err why = { 0 };
	const char *digest;
	json_t *record;

	if (io_read_file(dir_fd, file, &b, &why) < 0) {
		if (why.code == ERR_NOT_FOUND || why.os_errno == ENOENT || why.os_errno == ENOTDIR)
			return 0;
		*e = why;
		return -1;
	}
	record = json_parse(b.data ? b.data : "", b.len, RECORD_MAX, who, e);
	if (record && json_check_version(record, IMAGE_RECORD_FORMAT, file, e) < 0 && e->code == ERR_UNSUPPORTED) {
		json_decref(record);
		return err_wrap(e, "nothing is removed: of %s, which keeps its image,", who);
	}
	digest = json_string_value(json_object_get(record, "digest"));
	if (record && digest && digest_is_valid(digest)) {
		*ret = record;
		return 1;
	}
	json_decref(record);
	return err_set(e, ERR_CORRUPT, "the record of the image of %s cannot be read, so nothing "
		"is removed; hint: remove it", who);
}

static int each_in(int at, const char *path, const char *what, const char *suffix, pin_fn *fn, void *ctx, struct err *e)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;
	int rc = 0;

	if (!dir)
		return fd < 0 && errno == ENOENT ? 0 : err_sys(e, "read %s", path);
	while (!rc && (d = readdir(dir))) {
		autojson json_t *record = NULL;
		char file[300], who[200];
		size_t n = strlen(d->d_name), m = strlen(suffix);

		if (d->d_name[0] == '.' || (suffix[0] == '.' && (n <= m || strcmp(d->d_name + n - m, suffix))))
			continue;
		if (snprintf(file, sizeof(file), "%s%s", d->d_name, suffix[0] == '.' ? "" : suffix) >= (int)sizeof(file))
			continue;
		snprintf(who, sizeof(who), "%s %.*s", what, suffix[0] == '.' ? (int)(n - m) : (int)n, d->d_name);
		rc = read_pin(dirfd(dir), file, who, &record, e);
		if (rc > 0)
			rc = fn(ctx, who, record, e);
	}
	closedir(dir);
	return rc;
}

int pins_each(int store_fd, pin_fn *fn, void *ctx, struct err *e)
{
	/* sandboxes/ is beside the store, by configuration */
	if (each_in(store_fd, "../sandboxes", "sandbox", "/" IMAGE_PIN, fn, ctx, e) < 0)
		return -1;
	return each_in(store_fd, "pins", "pin", ".json", fn, ctx, e);
}

struct search {
	const char *digest;
	char *who;
};

static int compare_pinned_digest(void *ctx, const char *who, const json_t *record, struct err *e)
{
	struct search *s = ctx;

	(void)e;
	if (!s->who[0] && !strcmp(json_string_value(json_object_get(record, "digest")), s->digest))
		snprintf(s->who, 200, "%s", who);
	return 0;
}

int pins_hold(int store_fd, const char *digest, char ret_who[200], struct err *e)
{
	struct search s = { digest, ret_who };

	ret_who[0] = '\0';
	if (pins_each(store_fd, compare_pinned_digest, &s, e) < 0)
		return -1;
	return ret_who[0] != '\0';
}

static int pin_file_name(const char *word, char ret[PIN_WORD_MAX + 8], struct err *e)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:-";

	if (!*word || word[0] == '.' || word[0] == '-' || strlen(word) > PIN_WORD_MAX || strspn(word, allowed) != strlen(word))
		return err_set(e, ERR_INVALID, "pin '%.80s' is malformed; hint: letters, digits, _ . : - and not more than %d", word,
			       PIN_WORD_MAX);
	snprintf(ret, PIN_WORD_MAX + 8, "%s.json", word);
	return 0;
}

int pins_add(int store_fd, const char *word, const char *ref, struct err *e)
{
	char file[PIN_WORD_MAX + 8];
	struct image im = { 0 };
	autoclose int dir = -1, hold = -1;
	int rc = -1;

	if (pin_file_name(word, file, e) < 0 || image_load(store_fd, ref, &im, e) < 0)
		return -1;
	/* keeps gc away until the pin exists */
	hold = image_hold(store_fd, &im, e);
	if (hold >= 0 && mkdirat(store_fd, "pins", 0700) < 0 && errno != EEXIST) {
		err_sys(e, "make the directory of pins");
	} else if (hold >= 0) {
		dir = openat(store_fd, "pins", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		rc = dir < 0 ? err_sys(e, "open the directory of pins") :
			       io_replace_file(dir, file, im.record, im.record_len, 0600, 1, e);
	}
	image_release(&im);
	return rc;
}

int pins_remove(int store_fd, const char *word, struct err *e)
{
	char file[PIN_WORD_MAX + 8], path[PIN_WORD_MAX + 16];

	if (pin_file_name(word, file, e) < 0)
		return -1;
	snprintf(path, sizeof(path), "pins/%s", file);
	if (unlinkat(store_fd, path, 0) < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "remove pin %.80s", word);
	return 0;
}
