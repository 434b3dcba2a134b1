/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/imageuse.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/hostimage.h"

static int add_layer(struct spec *s, int fd)
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
	return add_layer(s, fd);
}

static int use_stored(struct imageuse *u, const struct registry *r, const char *ref, struct spec *s, struct err *e)
{
	char path[sizeof(r->config->state_dir) + 8];
	size_t i;

	snprintf(path, sizeof(path), "%s/store", r->config->state_dir);
	u->store_fd = store_open(path, e);
	if (u->store_fd < 0 || image_load(u->store_fd, ref, &u->image, e) < 0)
		return -1;
	u->has_image = 1;
	u->hold_fd = image_hold(u->store_fd, &u->image, e);
	if (u->hold_fd < 0)
		return -1;
	if (u->image.layer_count > SPEC_LAYERS_MAX)
		return err_set(e, ERR_UNSUPPORTED, "image %s has %zu layers, the limit is %d; hint: flatten it", ref,
			       u->image.layer_count, SPEC_LAYERS_MAX);
	for (i = 0; i < u->image.layer_count; i++)
		if (add_layer(s, image_layer_open(u->store_fd, &u->image, i, e)) < 0)
			return -1;
	return 0;
}

int imageuse_open(struct imageuse *u, const struct registry *r, const char *ref, struct spec *s, struct err *e)
{
	if (!strcmp(ref, "host")) {
		s->host_image = 1;
		return add_layer(s, hostimage_layer(r->state_fd, e));
	}
	if (ref[0] == '/' || !strncmp(ref, "./", 2) || !strncmp(ref, "../", 3) || !strcmp(ref, "."))
		return use_directory(ref, s, e);
	return use_stored(u, r, ref, s, e);
}

void imageuse_close(struct imageuse *u, struct spec *s)
{
	size_t i;

	for (i = 0; i < s->layer_count; i++)
		fd_close(&s->layer_fd[i]);
	if (u->has_image)
		image_release(&u->image);
	u->has_image = 0;
	fd_close(&u->hold_fd);
	fd_close(&u->store_fd);
}
