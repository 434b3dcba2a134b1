/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer whose owners are of another range of ids than its sandbox: that of a fork.
 *
 * To give each file another owner takes as long as there are files.  Instead the mount of the
 * layer maps one range to the other (mount_setattr(2), MOUNT_ATTR_IDMAP), and the file "layer-ids"
 * beside it says which: "FROM TO".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "runtime/kernel/idmapns.h"
#include "runtime/kernel/newmount.h"
#include "runtime/sandbox/writable.h"

#define IDS "layer-ids"

static int parse(const char *text, uint32_t *ret, struct err *e)
{
	uint64_t v;

	if (num_u64(text, IDS, SPEC_IDS, UINT32_MAX, &v, e) < 0 || v % SPEC_IDS)
		return err_set(e, ERR_CORRUPT, "the file " IDS " of a sandbox is damaged");
	*ret = (uint32_t)v;
	return 0;
}

int writable_ids(int dirfd, uint32_t *ret_from, uint32_t *ret_to, struct err *e)
{
	autobuf struct buf b = BUF_INIT(64);
	struct err why = { 0 };
	char *blank;

	if (io_read_file(dirfd, IDS, &b, &why) < 0) {
		if (why.code == ERR_NOT_FOUND)
			return 0;
		*e = why;
		return -1;
	}
	if (buf_add(&b, "", 1, e) < 0)
		return -1;
	blank = strchr(b.data, ' ');
	if (!blank)
		return err_set(e, ERR_CORRUPT, "the file " IDS " of a sandbox is damaged");
	*blank = '\0';
	return parse(b.data, ret_from, e) < 0 || parse(blank + 1, ret_to, e) < 0 ? -1 : 1;
}

int writable_set_ids(int dirfd, uint32_t from, uint32_t to, int is_new, struct err *e)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%u %u", from, to);

	return io_replace_file(dirfd, IDS, text, (size_t)n, 0600,
			       is_new ? IO_DURABLE_DATA : IO_DURABLE, e);
}

int writable_map(int dirfd, int mnt_fd, struct err *e)
{
	autoclose int mnt = mnt_fd, ns = -1;
	uint32_t from = 0, to = 0;
	int has = mnt < 0 ? 0 : writable_ids(dirfd, &from, &to, e);

	if (mnt < 0 || has < 0)
		return -1;
	if (!has || from == to)
		return take_fd(&mnt);
	ns = idmapns_range(from, to, SPEC_IDS, e);
	if (ns < 0 || newmount_idmap(mnt, 0, ns, "the writable layer", e) < 0)
		return -1;
	return take_fd(&mnt);
}
