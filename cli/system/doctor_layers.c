/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/system/doctor_layers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "manager/host/layerpool.h"
#include "runtime/kernel/fileclone.h"
#include "runtime/kernel/quota.h"

#define TRIED_BYTES (16u << 20)

/* How long a copy of so much takes, with all of it on disk; -1. */
static int64_t time_of_copy(int state_fd, struct err *e)
{
	autoclose int from = openat(state_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	autoclose int to = openat(state_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	char piece[1 << 16];
	uint64_t began;
	unsigned i;

	memset(piece, 'x', sizeof(piece));
	if (from < 0 || to < 0)
		return err_sys(e, "make a file in the state directory");
	for (i = 0; i < TRIED_BYTES / sizeof(piece); i++)
		if (io_write_all(from, piece, sizeof(piece)) < 0)
			return err_sys(e, "write a file in the state directory");
	if (fsync(from) < 0)
		return err_sys(e, "write a file in the state directory");
	began = clock_ms();
	if (fileclone(from, to, NULL, NULL, e) < 0)
		return -1;
	return fsync(to) < 0 ? err_sys(e, "write a file in the state directory") :
			       (int64_t)(clock_ms() - began);
}

static void say_pool(int state_fd, struct host_finding *f, struct err *e)
{
	autojson json_t *pool = layerpool_describe(state_fd, e);
	const long long left = json_integer_value(json_object_get(pool, "free_bytes"));
	const long long size = json_integer_value(json_object_get(pool, "size_bytes"));

	if (!pool) {
		snprintf(f->detail, sizeof(f->detail), "%.230s", e->msg);
		snprintf(f->effect, sizeof(f->effect),
			 "refuses new sandboxes that last, and those whose layer is in the pool");
		return;
	}
	f->state = left * 10 > size ? HOST_OK : HOST_LIMITED;
	snprintf(f->detail, sizeof(f->detail),
		 "in the pool, which has %lld of %lld MiB free: they share their blocks, at the "
		 "same cost for any size",
		 left >> 20, size >> 20);
	snprintf(f->effect, sizeof(f->effect),
		 "refuses checkpoints and sandboxes when it is full; berth system df tells what "
		 "takes it");
}

static void say_extents(int state_fd, struct host_finding *f, struct err *e)
{
	const int64_t ms = time_of_copy(state_fd, e);

	if (ms < 0) {
		snprintf(f->detail, sizeof(f->detail), "%.230s", e->msg);
		return;
	}
	f->state = HOST_LIMITED;
	snprintf(f->detail, sizeof(f->detail),
		 "the state directory's file system has no reflinks: %u MiB took %lld ms to copy",
		 TRIED_BYTES >> 20, (long long)ms);
	snprintf(f->effect, sizeof(f->effect),
		 "copies what a layer has for each checkpoint and fork, while the sandbox stands "
		 "still; berth system pool create --size 20g makes a file system that shares it");
}

void doctor_layers_find(const struct config *c, struct host_finding *f)
{
	autoclose int state = open(c->state_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	enum layerpool_way way;
	struct err e = { 0 };

	if (geteuid()) {
		snprintf(f->detail, sizeof(f->detail), "not tried, which takes root");
	} else if (state < 0) {
		f->state = errno == ENOENT ? HOST_OK : HOST_MISSING;
		snprintf(f->detail, sizeof(f->detail), "not tried: %.150s: %s", c->state_dir,
			 strerror(errno));
	} else if (layerpool_way(state, &way, &e) < 0) {
		snprintf(f->detail, sizeof(f->detail), "%.230s", e.msg);
	} else if (way != LAYERPOOL_POOL && quota_check(state, &e) == 0) {
		f->state = HOST_LIMITED;
		snprintf(
			f->detail, sizeof(f->detail),
			"project quotas bound lasting layers, which are directories: no instant of "
			"one can be copied");
		snprintf(
			f->effect, sizeof(f->effect),
			"refuses a checkpoint until the sandbox is stopped once and its layer made "
			"a file; berth system pool create --size 20g makes new layers files");
	} else if (way == LAYERPOOL_REFLINK) {
		f->state = HOST_OK;
		snprintf(f->detail, sizeof(f->detail),
			 "the state directory's file system has reflinks: they share their blocks, "
			 "at the same cost for any size");
	} else if (way == LAYERPOOL_POOL) {
		say_pool(state, f, &e);
	} else {
		say_extents(state, f, &e);
	}
}
