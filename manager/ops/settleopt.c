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

/* The path of a source as it is without links, of the heap; sep: what may not be in it, as it ends it in the option. */
static char *real_source(const char *src, size_t n, char sep, struct err *e)
{
	autofree char *given = strndup(src, n), *path = NULL;

	if (!given) {
		err_nomem(e);
		return NULL;
	}
	path = realpath(given, NULL);
	if (!path)
		err_code_sys(e, ERR_NOT_FOUND, "mount source %s", given);
	else if (strchr(path, sep) || strchr(path, '\n'))
		err_set(e, ERR_INVALID, "mount source %.200s is %.200s, which has a '%c' or a line's end in it", given, path, sep);
	else
		return take_ptr(&path);
	return NULL;
}

/* words: the options of a mount, after the last comma or colon.  Whether they have "nolinks". */
static int says_nolinks(const char *words)
{
	const size_t n = strlen("nolinks");
	const char *at = words;

	while ((at = strstr(at, "nolinks"))) {
		if (at > words && strchr(":,", at[-1]) && strchr(",", at[n]))
			return 1;
		at += n;
	}
	return 0;
}

/* "SOURCE:..." with a host path as its source. */
static int settle_volume(const char *value, char **ret, struct err *e)
{
	const char *colon = strchr(value, ':');
	autofree char *path = NULL;

	if (!colon || !mountspec_is_path(value, (size_t)(colon - value)) || says_nolinks(colon))
		return 0;
	path = real_source(value, (size_t)(colon - value), ':', e);
	if (!path)
		return -1;
	return asprintf(ret, "%s%s", path, colon) < 0 ? (*ret = NULL, err_nomem(e)) : 0;
}

/* "type=bind,src=SOURCE,..." */
static int settle_mount(const char *value, char **ret, struct err *e)
{
	const char *at = value, *eq;
	autofree char *path = NULL;
	size_t n;

	if (says_nolinks(value) || !strstr(value, "type=bind"))
		return 0;
	for (;; at += n + 1) {
		n = strcspn(at, ",");
		if (!strncmp(at, "src=", 4) || !strncmp(at, "source=", 7))
			break;
		if (!at[n])
			return 0;	/* it has no source, and is refused when it is read */
	}
	eq = strchr(at, '=') + 1;
	path = real_source(eq, n - (size_t)(eq - at), ',', e);
	if (!path)
		return -1;
	return asprintf(ret, "%.*s%s%s", (int)(eq - value), value, path, at + n) < 0 ? (*ret = NULL, err_nomem(e)) : 0;
}

int settleopt(int id, const char *value, char **ret, struct err *e)
{
	*ret = NULL;
	switch (id) {
	case PARAM_VOLUME:
		return settle_volume(value, ret, e);
	case PARAM_MOUNT:
		return settle_mount(value, ret, e);
	case PARAM_ENV:
		*ret = envopts_settle(value, e);
		return *ret ? 0 : -1;
	case PARAM_OWNER_PID:
		*ret = calloc(1, PROCID_SIZE);
		return *ret ? procid_parse(value, *ret, e) : err_nomem(e);
	case PARAM_SECCOMP:
		if (!strchr(value, '/'))
			return 0;
		*ret = realpath(value, NULL);
		return *ret ? 0 : err_code_sys(e, ERR_NOT_FOUND, "file %s", value);
	default:
		return 0;
	}
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
