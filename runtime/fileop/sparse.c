/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fileop/sparse.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/fileop/pack.h"

static int read_number(struct stream *in, uint64_t *used, uint64_t *ret, struct err *e)
{
	uint64_t v = 0;
	int digits = 0;
	char c;

	for (;;) {
		if (stream_read(in, &c, 1, e) < 0)
			return -1;
		++*used;
		if (c == '\n' && digits)
			break;
		if (c < '0' || c > '9' || ++digits > 18)
			return err_set(e, ERR_CORRUPT, "the map of a sparse file is malformed");
		v = v * 10 + (uint64_t)(c - '0');
	}
	*ret = v;
	return 0;
}


struct piece {
	uint64_t at, len;
};

/* Which the caller frees.  *ret_data is the sum of their lengths, *used the bytes of the map. */
static struct piece *read_map(struct stream *in, const struct tar_entry *t, uint64_t *ret_count, uint64_t *ret_data, uint64_t *used,
			      struct err *e)
{
	autofree struct piece *map = NULL;
	uint64_t count, end = 0, data = 0, i;

	if (read_number(in, used, &count, e) < 0)
		return NULL;
	map = count > PACK_EXTENTS_MAX ? NULL : calloc((size_t)count + 1, sizeof(*map));
	if (!map) {
		if (count > PACK_EXTENTS_MAX)
			err_set(e, ERR_LIMIT, "a sparse file of more than %u pieces", PACK_EXTENTS_MAX);
		else
			err_nomem(e);
		return NULL;
	}
	for (i = 0; i < count; i++) {
		if (read_number(in, used, &map[i].at, e) < 0 || read_number(in, used, &map[i].len, e) < 0)
			return NULL;
		/* of at most 18 digits each: the sum does not wrap */
		if (map[i].at < end || map[i].at + map[i].len > t->real_size) {
			err_set(e, ERR_CORRUPT, "the map of a sparse file is out of order");
			return NULL;
		}
		end = map[i].at + map[i].len;
		data += map[i].len;
	}
	*ret_count = count;
	*ret_data = data;
	return take_ptr(&map);
}

int sparse_to_file(struct stream *in, int fd, const struct tar_entry *t, const char *path, struct err *e)
{
	uint64_t used = 0, count = 0, data = 0, i;
	autofree struct piece *map = read_map(in, t, &count, &data, &used, e);

	if (!map)
		return -1;
	if (used + tar_padding(used) + data != t->size)
		return err_set(e, ERR_CORRUPT, "the size of a sparse file does not fit its map");
	if (stream_skip(in, tar_padding(used), e) < 0)
		return -1;
	for (i = 0; i < count; i++) {
		if (lseek(fd, (off_t)map[i].at, SEEK_SET) < 0)
			return err_sys(e, "seek in %.300s", path);
		if (stream_to_file(in, fd, map[i].len, e) < 0)
			return -1;
	}
	return ftruncate(fd, (off_t)t->real_size) < 0 ? err_sys(e, "size %.300s", path) : 0;
}
