/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/layersource.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "runtime/sandbox/spec.h"

int layersource_open(int dir_fd, const char *word, struct layersource *ret, struct err *e)
{
	struct layersource l = LAYERSOURCE_NONE;
	autobuf struct buf range = BUF_INIT(32);
	uint64_t base;

	if (io_read_file(dir_fd, "range", &range, e) < 0 || buf_add(&range, "", 1, e) < 0 ||
	    num_u64(range.data, "range", SPEC_IDS, UINT32_MAX, &base, e) < 0)
		return err_wrap(e, "the ids of the sandbox");
	l.id_base = (uint32_t)base;
	l.base_fd = checkpoint_mount(dir_fd, word, l.id, e);
	if (l.base_fd < 0)
		return -1;
	l.upper_fd = openat(l.base_fd, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (l.upper_fd < 0) {
		err_sys(e, "open the layer of the checkpoint");
		layersource_close(&l);
		return -1;
	}
	*ret = l;
	return 0;
}

void layersource_close(struct layersource *l)
{
	fd_close(&l->upper_fd);
	fd_close(&l->base_fd);
}

/* An option of its creation; the last one counts. */
void layersource_workdir(struct sandbox_ref *s, char *out, size_t n)
{
	struct err ignored;
	autojson json_t *spec = registry_load(&s->registry, s->id, "spec.json", &ignored);
	json_t *pair;
	size_t i;

	snprintf(out, n, "%s", s->config.work_dir);
	json_array_foreach (json_object_get(spec, "options"), i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));
		const char *value = json_string_value(json_array_get(pair, 1));

		if (name && value && !strcmp(name, "workdir"))
			snprintf(out, n, "%s", value);
	}
}
