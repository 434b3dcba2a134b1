/* SPDX-License-Identifier: Apache-2.0 */
/* The hot path: records in, images out, on a store made by hand. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/path.h"
#include "rootfs/store/image.h"

#define D1 "1111111111111111111111111111111111111111111111111111111111111111"
#define D2 "1111111111112222222222222222222222222222222222222222222222222222"
#define C1 "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
#define V "\"version\":1,"
#define LAYERS "\"layers\":[{\"chain_id\":\"sha256:" C1 "\"}]"
#define RECORD(d) "{\"version\":1,\"digest\":\"sha256:" d "\"," LAYERS ",\"env\":[\"A=1\",\"B=\"],\"cmd\":[\"/bin/sh\"]," \
	"\"user\":\"7\",\"workdir\":\"/w\",\"layerless\":null}"

static char dir[64];
static int store = -1;

static void put(const char *name, const char *text)
{
	int fd = openat(store, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert(fd >= 0 && !io_write_all(fd, text, strlen(text)));
	close(fd);
}

static void setup(void)
{
	struct err e = { 0 };

	strcpy(dir, "/tmp/berth-store-XXXXXX");
	cr_assert(mkdtemp(dir));
	store = store_open(dir, &e);
	cr_assert(store >= 0, "%s", e.msg);
	cr_assert(!mkdirat(store, "images", 0700) && !mkdirat(store, "layers", 0700) && !mkdirat(store, "holds", 0700) &&
		  !mkdirat(store, "layers/" C1, 0755));
	put("images/one:latest.json", RECORD(D1));
	put("images/team%two:2.json", RECORD(D2));
	put("holds/" D1, C1 "\n");
}

static void teardown(void)
{
	close(store);
	path_remove_tree(AT_FDCWD, dir, NULL);
}

TestSuite(rootfs_image, .init = setup, .fini = teardown);

static int load(const char *ref, struct err *e)
{
	struct image im;
	int r = image_load(store, ref, &im, e);

	if (!r)
		image_release(&im);
	return r;
}

Test(rootfs_image, everything_in_the_record_is_there)
{
	struct err e = { 0 };
	struct image im;
	int fd;

	cr_assert_eq(image_load(store, "docker.io/library/one", &im, &e), 0, "%s", e.msg);
	cr_expect_str_eq(im.name, "docker.io/library/one");
	cr_expect_str_eq(im.digest, "sha256:" D1);
	cr_expect_eq(im.env_count, 2);
	cr_expect_str_eq(im.env[1], "B=");
	cr_expect_null(im.env[2]);
	cr_expect_eq(im.entrypoint_count, 0);
	cr_expect_eq(im.cmd_count, 1);
	cr_expect_str_eq(im.user, "7");
	cr_expect_str_eq(im.workdir, "/w");
	cr_expect_eq(im.layer_count, 1);
	cr_expect_str_eq(im.layers[0], C1);
	fd = image_layer_open(store, &im, 0, &e);
	cr_expect(fd >= 0, "%s", e.msg);
	close(fd);
	image_release(&im);
	image_release(&im);
	image_release(NULL);
}

Test(rootfs_image, is_found_by_name_and_by_digest)
{
	static const char *const good[] = {
		"one", "one:latest", "one@sha256:" D1, "one:latest@sha256:" D1, "sha256:" D1, D1, "1111111111111",
		"team/two:2", "team/two@sha256:" D2, "sha256:1111111111112",
	};
	static const struct { const char *ref; int code; } bad[] = {
		{ "two", ERR_NOT_FOUND }, { "one:1", ERR_NOT_FOUND }, { "one@sha256:" D2, ERR_NOT_FOUND },
		{ "one:latest@sha256:" D2, ERR_NOT_FOUND }, { "team/two", ERR_NOT_FOUND }, { "sha256:" C1, ERR_NOT_FOUND },
		{ "sha256:111111111111", ERR_INVALID }, { "111111111111", ERR_INVALID }, { "sha256:1111", ERR_INVALID },
		{ "11111111111", ERR_NOT_FOUND }, { "../one", ERR_INVALID }, { "", ERR_INVALID }, { "images/x/../one", ERR_INVALID },
	};
	size_t i;

	for (i = 0; i < sizeof(good) / sizeof(*good); i++) {
		struct err e = { 0 };

		cr_expect_eq(load(good[i], &e), 0, "%s: %s", good[i], e.msg);
	}
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct err e = { 0 };

		cr_expect_eq(load(bad[i].ref, &e), -1, "%s", bad[i].ref);
		cr_expect_eq(e.code, bad[i].code, "%s: %s", bad[i].ref, e.msg);
	}
}

Test(rootfs_image, what_is_missing_comes_with_a_hint)
{
	struct err e = { 0 };

	cr_expect_eq(load("nothing", &e), -1);
	cr_expect(strstr(e.msg, "hint: berth pull nothing, or berth image import"), "%s", e.msg);
}

Test(rootfs_image, damaged_records_are_corrupt)
{
	static const char *const rows[] = {
		"", "[]", "{}", "{" V "\"digest\":\"sha256:" D1 "\"}", "{" V LAYERS "}", "{" V "\"digest\":7," LAYERS "}",
		"{" V "\"digest\":\"sha256:" D1 "\",\"layers\":[]}", "{" V "\"digest\":\"sha256:" D1 "\",\"layers\":[7]}",
		"{" V "\"digest\":\"sha256:" D1 "\",\"layers\":[{\"chain_id\":\"sha256:../../x\"}]}",
		"{" V "\"digest\":\"sha256:" D1 "\"," LAYERS ",\"env\":{}}", "{" V "\"digest\":\"sha256:" D1 "\"," LAYERS ",\"cmd\":[1]}",
	};
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct err e = { 0 };

		put("images/bad:latest.json", rows[i]);
		cr_expect_eq(load("bad", &e), -1, "%s", rows[i]);
		cr_expect_eq(e.code, ERR_CORRUPT, "%s: %s", rows[i], e.msg);
	}
}

Test(rootfs_image, a_hold_keeps_gc_out_and_a_removed_one_is_told)
{
	struct err e = { 0 };
	struct image im;
	int hold, gc;

	cr_assert_eq(image_load(store, "one", &im, &e), 0);
	hold = image_hold(store, &im, &e);
	cr_assert(hold >= 0, "%s", e.msg);
	gc = openat(store, "holds/" D1, O_RDONLY);
	cr_expect(flock(gc, LOCK_EX | LOCK_NB) < 0, "held");
	close(hold);
	cr_expect(flock(gc, LOCK_EX | LOCK_NB) == 0, "free");
	cr_assert_eq(unlinkat(store, "holds/" D1, 0), 0);
	close(gc);
	cr_expect_eq(image_hold(store, &im, &e), -1);
	cr_expect_eq(e.code, ERR_NOT_FOUND);
	image_release(&im);
}

Test(rootfs_image, a_store_open_to_others_is_refused)
{
	struct err e = { 0 };

	cr_assert_eq(chmod(dir, 0755), 0);
	cr_expect_eq(store_open(dir, &e), -1);
	cr_expect_eq(e.code, ERR_DENIED);
	cr_expect_eq(store_open("relative", &e), -1);
	cr_expect_eq(e.code, ERR_INVALID);
}

static const char *seen(const struct image_view *v, const char *ref)
{
	static char name[300];
	struct err e = { 0 };
	json_t *record = image_record_seen(store, v, ref, &e);

	snprintf(name, sizeof(name), "%s", record ? json_string_value(json_object_get(record, "name")) : "-");
	if (!record)
		cr_expect_eq(e.code, ERR_NOT_FOUND, "%s: %s", ref, e.msg);
	json_decref(record);
	return name;
}

#define OWNED(d, name, owner) "{\"version\":2,\"digest\":\"sha256:" d "\",\"name\":\"" name "\",\"owner\":\"" owner "\"," LAYERS "}"
#define NAMED(d, name) "{\"version\":1,\"digest\":\"sha256:" d "\",\"name\":\"" name "\"," LAYERS "}"

Test(rootfs_image, a_tenant_sees_its_own_first_and_others_not_at_all)
{
	const struct image_view alice = { "alice", "shared*\none*", "preset" };
	const struct image_view bob = { "bob", "", "preset" };
	struct err e = { 0 };
	json_t *record;

	put("images/one:latest.json", NAMED(D1, "one:latest"));
	put("images/one:latest@alice.json", OWNED(D1, "one:latest@alice", "alice"));
	put("images/two:1@bob.json", OWNED(D2, "two:1@bob", "bob"));
	put("images/given:1.json", OWNED(D2, "given:1", "bob"));
	put("images/preset:latest.json", NAMED(D2, "preset:latest"));
	put("images/newer:1.json", "{\"version\":99}");
	cr_expect_str_eq(seen(&alice, "one"), "one:latest@alice");
	cr_expect_str_eq(seen(&alice, "one@alice"), "one:latest@alice");
	cr_expect_str_eq(seen(&bob, "one"), "-");
	cr_expect_str_eq(seen(&bob, "one@alice"), "-");
	cr_expect_str_eq(seen(&bob, "two:1"), "two:1@bob");
	cr_expect_str_eq(seen(&bob, "given:1"), "given:1");
	cr_expect_str_eq(seen(&alice, "given:1"), "-");
	cr_expect_str_eq(seen(&alice, "two:1"), "-");
	cr_expect_str_eq(seen(&bob, "preset"), "preset:latest");
	/* of one that it cannot see not even that it cannot be read */
	cr_expect_str_eq(seen(&bob, "newer:1"), "-");
	/* by digest: its own name, then one that is shared, and never that several fit which it does not see */
	cr_expect_str_eq(seen(&alice, "sha256:" D1), "one:latest@alice");
	cr_expect_str_eq(seen(&bob, "sha256:" D1), "-");
	cr_expect_str_eq(seen(&bob, "111111111111"), "two:1@bob");
	/* the operator: what is nobody's comes first, so that nothing made of it becomes a tenant's */
	record = image_record(store, "sha256:" D1, &e);
	cr_expect_str_eq(json_string_value(json_object_get(record, "name")), "one:latest");
	json_decref(record);
	cr_expect_eq(load("one@alice", &e), 0, "%s", e.msg);
}
