/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/netmerge.h"
#include "manager/host/nets.h"
#include "runtime/net/netpolicy.h"

static int check(const json_t *policy, struct err *e)
{
	autofree struct netpolicy *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return err_nomem(e);
	r = netpolicy_load(p, policy, e);
	netpolicy_release(p);
	return r;
}

static int save(int dir, const char *name, const json_t *record, struct err *e)
{
	autofree char *text = json_dumps(record, JSON_COMPACT);
	autoclose int fd = -1;

	if (!text)
		return err_nomem(e);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open the directory of network %s", name);
	return io_replace_file(fd, NETS_RECORD, text, strlen(text), 0600, 1, e);
}

int nets_change(const struct config *c, const char *name, const json_t *changes, json_t **ret,
		struct err *e)
{
	autoclose int dir = nets_open(c, e), lock = -1;
	autojson json_t *record = NULL;
	json_t *policy;

	if (dir < 0 || (lock = nets_lock(dir, e)) < 0 || !(record = nets_load(c, name, e)))
		return -1;
	policy = json_object_get(record, NETS_EGRESS);
	if (!policy)
		return err_set(e, ERR_INVALID,
			       "network %s was made without rules, and its members have their own; "
			       "hint: berth network create --allow-host NAME makes one with rules",
			       name);
	if (netmerge(policy, changes, e) < 0 || check(policy, e) < 0 ||
	    save(dir, name, record, e) < 0)
		return -1;
	*ret = json_incref(record);
	return 0;
}
