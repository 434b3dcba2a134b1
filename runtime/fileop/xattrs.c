/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fileop/xattrs.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/xattr.h>

#define LIST_MAX 65536

int xattrs_is_kept(const char *name)
{
	return !strncmp(name, "user.", 5) && name[5] && !strchr(name, '=') && strncmp(name, "user.overlay.", 13);
}

int xattrs_is_acl(const char *name)
{
	return !strcmp(name, "system.posix_acl_access") || !strcmp(name, "system.posix_acl_default");
}

int xattrs_add(struct xattrs *x, const char *name, const void *value, size_t n, struct err *e)
{
	size_t len = strlen(name) + 1;
	uint32_t size = (uint32_t)n;

	if (n > XATTRS_MAX || len + sizeof(size) + n > XATTRS_MAX - x->len)
		return err_set(e, ERR_LIMIT, "extended attributes of more than %d bytes", XATTRS_MAX);
	memcpy(x->data + x->len, name, len);
	memcpy(x->data + x->len + len, &size, sizeof(size));
	memcpy(x->data + x->len + len + sizeof(size), value, n);
	x->len += len + sizeof(size) + n;
	return 0;
}

int xattrs_next(const struct xattrs *x, size_t *at, const char **ret_name, const char **ret_value, size_t *ret_n)
{
	uint32_t size;

	if (*at >= x->len)
		return 0;
	*ret_name = x->data + *at;
	*at += strlen(*ret_name) + 1;
	memcpy(&size, x->data + *at, sizeof(size));
	*at += sizeof(size);
	*ret_value = x->data + *at;
	*ret_n = size;
	*at += size;
	return 1;
}

int xattrs_read(struct xattrs *x, int fd, int acls, struct err *e)
{
	static char list[LIST_MAX], value[XATTRS_MAX];
	ssize_t n = flistxattr(fd, list, sizeof(list)), got;
	const char *name;

	x->len = 0;
	if (n < 0)
		return errno == EOPNOTSUPP || errno == ENOSYS || errno == EPERM ? 0 : err_sys(e, "list extended attributes");
	for (name = list; name < list + n; name += strlen(name) + 1) {
		if (!xattrs_is_kept(name) && !(acls && xattrs_is_acl(name)))
			continue;
		got = fgetxattr(fd, name, value, sizeof(value));
		if (got < 0 && errno == ENODATA)
			continue;	/* it went away meanwhile */
		if (got < 0)
			return err_sys(e, "read the extended attribute %.80s", name);
		if (xattrs_add(x, name, value, (size_t)got, e) < 0)
			return -1;
	}
	return 0;
}

int xattrs_write(const struct xattrs *x, int fd, int acls, struct err *e)
{
	const char *name, *value;
	size_t at = 0, n;

	while (xattrs_next(x, &at, &name, &value, &n))
		if ((acls || !xattrs_is_acl(name)) && fsetxattr(fd, name, value, n, 0) < 0 && errno != EOPNOTSUPP)
			return err_sys(e, "set the extended attribute %.80s", name);
	return 0;
}
