/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/settleopt.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/ops/envopts.h"
#include "manager/ops/mountspec.h"
#include "manager/ops/runopts.h"
#include "manager/host/procid.h"

int settleopt(int id, const char *value, char **ret, struct err *e)
{
	const char *colon = strchr(value, ':');
	char *path;

	*ret = NULL;
	if (id == PARAM_VOLUME && value[0] != '/' && colon &&
	    mountspec_is_path(value, (size_t)(colon - value))) {
		char *src = strndup(value, (size_t)(colon - value));

		path = src ? realpath(src, NULL) : NULL;
		if (!path)
			err_code_sys(e, ERR_NOT_FOUND, "mount source %s", src ? src : value);
		free(src);
		if (!path || asprintf(ret, "%s%s", path, colon) < 0) {
			free(path);
			return -1;
		}
		free(path);
	} else if (id == PARAM_ENV) {
		*ret = envopts_settle(value, e);
		if (!*ret)
			return -1;
	} else if (id == PARAM_OWNER_PID) {
		*ret = calloc(1, PROCID_SIZE);
		if (!*ret)
			return err_nomem(e);
		return procid_parse(value, *ret, e);
	} else if (id == PARAM_SECCOMP && strchr(value, '/')) {
		*ret = realpath(value, NULL);
		if (!*ret)
			return err_code_sys(e, ERR_NOT_FOUND, "file %s", value);
	}
	return 0;
}

int settleopt_seccomp(const char *path, json_t **ret, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1 << 20);

	json_decref(*ret);
	*ret = NULL;
	if (!runopts_seccomp_is_file(path))
		return 0;
	if (io_read_file(AT_FDCWD, path, &b, e) < 0)
		return err_wrap(e, "seccomp profile %s", path);
	*ret = json_stringn(b.data ? b.data : "", b.len);
	if (!*ret || memchr(b.data ? b.data : "", 0, b.len))
		return err_set(e, ERR_INVALID, "seccomp profile %s is not text", path);
	return 0;
}
