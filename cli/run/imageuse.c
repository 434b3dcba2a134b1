/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/imageuse.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/run/imageprog.h"
#include "rootfs/store/digest.h"
#include "runtime/sandbox/hostimage.h"

static int add_image_layer(struct spec *s, int fd)
{
	if (fd >= 0)
		s->layer_fd[s->layer_count++] = fd;
	return fd < 0 ? -1 : 0;
}

/* A directory of the operator's is one layer, never changed. */
static int use_directory(const char *ref, struct spec *s, struct err *e)
{
	int fd = open(ref, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return err_code_sys(e, ERR_NOT_FOUND, "open root file system %s", ref);
	if (!faccessat(fd, "oci-layout", F_OK, 0)) {
		close(fd);
		return err_set(e, ERR_INVALID, "%s is an OCI image layout, not a root file system; hint: berth image import %s",
			       ref, ref);
	}
	return add_image_layer(s, fd);
}

static int is_path(const char *ref)
{
	return ref[0] == '/' || !strncmp(ref, "./", 2) || !strncmp(ref, "../", 3) || !strcmp(ref, ".");
}

int imageuse_policy(const char *word, enum imageuse_pull *ret, struct err *e)
{
	if (!strcmp(word, "missing"))
		*ret = IMAGEUSE_MISSING;
	else if (!strcmp(word, "always"))
		*ret = IMAGEUSE_ALWAYS;
	else if (!strcmp(word, "never"))
		*ret = IMAGEUSE_NEVER;
	else
		return err_set(e, ERR_INVALID, "'%.40s' is not missing, always or never", word);
	return 0;
}

/* Loads it, fetching it before or after, as the policy says. */
static int load_wanted_image(int store_fd, const char *ref, enum imageuse_pull policy, int quiet, struct image *ret, struct err *e)
{
	/* a digest names an image of the store only */
	int can_pull = strncmp(ref, "sha256:", 7) && !digest_is_hex(ref, DIGEST_PREFIX_MIN, 64);

	if (policy == IMAGEUSE_ALWAYS && can_pull && imageprog_ensure(ref, quiet, e) < 0)
		return -1;
	if (!image_load(store_fd, ref, ret, e))
		return 0;
	if (policy != IMAGEUSE_MISSING || e->code != ERR_NOT_FOUND || !can_pull || imageprog_ensure(ref, quiet, e) < 0)
		return -1;
	return image_load(store_fd, ref, ret, e);
}

static int open_image_store(const struct registry *r, struct err *e)
{
	char path[sizeof(r->config->state_dir) + 8];

	snprintf(path, sizeof(path), "%s/store", r->config->state_dir);
	return store_open(path, e);
}

int imageuse_ensure(const struct registry *r, const char *ref, enum imageuse_pull policy, int quiet, struct err *e)
{
	autoclose int store_fd = -1;
	struct image im = { 0 };

	if (policy == IMAGEUSE_NEVER || !strcmp(ref, "host") || is_path(ref))
		return 0;
	store_fd = open_image_store(r, e);
	if (store_fd < 0 || load_wanted_image(store_fd, ref, policy, quiet, &im, e) < 0)
		return -1;
	image_release(&im);
	return 0;
}

/* The image is loaded: its layers, and the hold that keeps them. */
static int use_layers(struct imageuse *u, const struct registry *r, const char *ref, struct spec *s, struct err *e)
{
	size_t i;

	u->has_image = 1;
	u->hold_fd = image_hold(u->store_fd, &u->image, e);
	if (u->hold_fd < 0)
		return -1;
	if (u->image.on_host) {
		s->host_image = 1;
		if (add_image_layer(s, hostimage_layer(r->state_fd, e)) < 0)
			return -1;
	}
	if (u->image.layer_count + s->layer_count > SPEC_LAYERS_MAX)
		return err_set(e, ERR_UNSUPPORTED, "image %s has %zu layers, the limit is %d; hint: flatten it", ref,
			       u->image.layer_count, SPEC_LAYERS_MAX);
	for (i = 0; i < u->image.layer_count; i++)
		if (add_image_layer(s, image_layer_open(u->store_fd, &u->image, i, e)) < 0)
			return -1;
	return 0;
}

int imageuse_open(struct imageuse *u, const struct registry *r, const char *ref, struct spec *s, struct err *e)
{
	if (!strcmp(ref, "host")) {
		s->host_image = 1;
		return add_image_layer(s, hostimage_layer(r->state_fd, e));
	}
	if (is_path(ref))
		return use_directory(ref, s, e);
	u->store_fd = open_image_store(r, e);
	if (u->store_fd < 0 || load_wanted_image(u->store_fd, ref, u->pull, u->quiet, &u->image, e) < 0)
		return -1;
	return use_layers(u, r, ref, s, e);
}

int imageuse_open_pinned(struct imageuse *u, const struct registry *r, int dir_fd, const char *ref, struct spec *s,
			 struct err *e)
{
	struct err why = { 0 };

	/* none: made from "host", a directory, or by an older berth */
	if (image_load_pin(dir_fd, &u->image, &why) < 0) {
		if (why.code == ERR_NOT_FOUND)
			return imageuse_open(u, r, ref, s, e);
		*e = why;
		return -1;
	}
	u->store_fd = open_image_store(r, e);
	if (u->store_fd < 0)
		return -1;
	return use_layers(u, r, ref, s, e);
}

int imageuse_own(const struct registry *r, const struct tenant *t, json_t *spec)
{
	const char *image = json_string_value(json_object_get(spec, "image")), *name;
	const struct image_view v = tenant_view(t, r->config);
	autojson json_t *record = NULL;
	autoclose int store = -1;
	struct err ignored;

	if (!image || !strcmp(image, "host") || is_path(image))
		return 0;
	store = open_image_store(r, &ignored);
	record = store < 0 ? NULL : image_record_seen(store, &v, image, &ignored);
	/* a missing image is reported to the tenant when it is opened */
	name = json_string_value(json_object_get(record, "name"));
	if (!name || !strchr(name, '@'))
		return 0;
	return json_object_set_new(spec, "image", json_string(name));
}

int imageuse_check_seen(const struct imageuse *u, const struct tenant *t, const struct config *c,
			const char *word, struct err *e)
{
	autojson json_t *record = NULL;

	if (!u->has_image)
		return 0;
	record = json_parse(u->image.record, u->image.record_len, u->image.record_len,
			    "image record", e);
	if (!record)
		return -1;
	return tenant_sees_image(t, c, record) ? 0 : image_not_found(word, e);
}

int imageuse_pin(const struct imageuse *u, int dir_fd, struct err *e)
{
	return u->has_image ? image_pin(&u->image, dir_fd, e) : 0;
}

void imageuse_close(struct imageuse *u, struct spec *s)
{
	size_t i;

	for (i = 0; i < s->layer_count; i++)
		fd_close(&s->layer_fd[i]);
	image_release(&u->image);
	u->has_image = 0;
	fd_close(&u->hold_fd);
	fd_close(&u->store_fd);
}
