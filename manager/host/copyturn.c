/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/copyturn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/host/ranges.h"

#define COPIES "copies.lock"
#define EXPORTS "exports.lock"

/* "" for the operator; an owner that cannot be read is an error, and not the operator. */
static int copyturn_tenant(struct registry *r, const char *id, char ret[65], struct err *e)
{
	autojson json_t *owner = registry_load(r, id, REGISTRY_OWNER, e);
	const char *name = json_string_value(json_object_get(owner, "name"));

	ret[0] = '\0';
	if (!owner)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (!name || !path_is_name(name))
		return err_set(e, ERR_CORRUPT, "%s of sandbox %s names no tenant", REGISTRY_OWNER,
			       id);
	snprintf(ret, 65, "%s", name);
	return 0;
}

/* Locks the byte: 1, or with F_OFD_SETLK 0 if another process has it. */
static int lock(int fd, int how, uint64_t at, struct err *e)
{
	struct flock turn = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1
	};

	while (fcntl(fd, how, &turn) < 0) {
		if (how == F_OFD_SETLK && (errno == EAGAIN || errno == EACCES))
			return 0;
		if (errno != EINTR)
			return err_sys(e, "wait for the turn of a copy");
	}
	return 1;
}

static int ask_copyturn(struct registry *r, const char *file, const char *id, int *ret_fd,
	       uint64_t *ret_at, struct err *e)
{
	autoclose int fd = -1;
	uint64_t hash[2];
	char tenant[65];
	int result;

	*ret_fd = -1;
	*ret_at = 0;
	if (copyturn_tenant(r, id, tenant, e) < 0)
		return -1;
	if (!tenant[0])
		return 1;
	fd = openat(r->run_fd, file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "open %s", file);
	ranges_tenant(tenant, hash);
	*ret_at = hash[0] >> 2; /* an offset has 63 bits */
	result = lock(fd, F_OFD_SETLK, *ret_at, e);
	if (result >= 0)
		*ret_fd = take_fd(&fd);
	return result;
}

int copyturn_ask(struct registry *r, const char *id, int *ret_fd, uint64_t *ret_at, struct err *e)
{
	return ask_copyturn(r, COPIES, id, ret_fd, ret_at, e);
}

int copyturn_wait(int fd, uint64_t at, struct err *e)
{
	return lock(fd, F_OFD_SETLKW, at, e) < 0 ? -1 : 0;
}

static int take_copyturn(struct registry *r, const char *file, const char *id, int *ret_fd, struct err *e)
{
	uint64_t at;
	int result = ask_copyturn(r, file, id, ret_fd, &at, e);

	return result ? (result < 0 ? -1 : 0) : copyturn_wait(*ret_fd, at, e);
}

int copyturn_take(struct registry *r, const char *id, int *ret_fd, struct err *e)
{
	return take_copyturn(r, COPIES, id, ret_fd, e);
}

int copyturn_take_export(struct registry *r, const char *id, int *ret_fd, struct err *e)
{
	return take_copyturn(r, EXPORTS, id, ret_fd, e);
}
