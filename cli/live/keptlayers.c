/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/keptlayers.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/live/resident.h"
#include "cli/run/imageuse.h"
#include "manager/ops/runopts.h"
#include "runtime/sandbox/writable.h"

static int open_upper(struct registry *r, const char *id, struct keptlayers *l, struct err *e)
{
	autoclose int dir = registry_keep_dir(r, id, e);

	if (dir < 0)
		return -1;
	l->upper_fd = writable_upper(dir, l->claim.id_base, &l->base_fd, e);
	return l->upper_fd < 0 ? -1 : 0;
}

static int take_layers(struct keptlayers *l, const struct spec *s, struct err *e)
{
	size_t i;

	snprintf(l->workdir, sizeof(l->workdir), "%s", s->workdir);
	for (i = s->layer_count; i-- > 0;) {
		l->layer_fd[l->count] = fcntl(s->layer_fd[i], F_DUPFD_CLOEXEC, 3);
		if (l->layer_fd[l->count] < 0)
			return err_sys(e, "open a layer of the image");
		l->count++;
	}
	return 0;
}

static int open_kept_image(struct registry *r, const char *id, const json_t *spec, struct keptlayers *l,
			   struct err *e)
{
	autoclose int dir = registry_keep_dir(r, id, e);
	struct imageuse use = IMAGEUSE_INIT;
	struct runopts opts;
	const char *image = NULL;
	int result = -1;

	runopts_init(&opts, r->config);
	if (json_get_str(spec, "image", &image, SPEC_FILE, e) < 1)
		err_set(e, ERR_CORRUPT, "%s names no image", SPEC_FILE);
	else if (dir >= 0 && resident_apply(&opts, spec, e) == 0 &&
		 imageuse_open_pinned(&use, r, dir, image, &opts.spec, e) == 0 &&
		 runopts_finish(&opts, use.has_image ? &use.image : NULL, NULL, 0, e) == 0)
		result = take_layers(l, &opts.spec, e);
	imageuse_close(&use, &opts.spec);
	runopts_release(&opts);
	return result;
}

int keptlayers_open(struct registry *r, const char *id, struct keptlayers *ret, struct err *e)
{
	autojson json_t *spec = registry_load(r, id, SPEC_FILE, e);

	memset(ret, 0, sizeof(*ret));
	ret->upper_fd = ret->base_fd = -1;
	if (!spec)
		return e->code == ERR_NOT_FOUND ? err_set(e, ERR_INVALID, "sandbox %s was kept by berth run, which leaves no "
							  "description to compare with", id) : -1;
	if (resident_claim(r, id, NULL, &ret->claim, e) < 0)
		return -1;
	ret->claimed = 1;
	return open_upper(r, id, ret, e) < 0 ? -1 : open_kept_image(r, id, spec, ret, e);
}

void keptlayers_close(struct registry *r, struct keptlayers *l)
{
	struct err ignored;

	while (l->count)
		close(l->layer_fd[--l->count]);
	fd_close(&l->upper_fd);
	fd_close(&l->base_fd);
	if (l->claimed)
		registry_release(r, &l->claim, &ignored);
	l->claimed = 0;
}
