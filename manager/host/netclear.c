/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/netclear.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/sandbox/nethelper.h"

#define NETWORK_DIR "network"

/* A policy that says where, and nothing else. */
static char *place(const struct registry *r)
{
	autojson json_t *bridge = config_bridge(r->config), *policy = json_pack("{s:O?}", "bridge", bridge);

	return policy ? json_dumps(policy, JSON_COMPACT) : NULL;
}

/* A sandbox that lasts keeps what it has used of its budget, however its keeper ended. */
static int save_used(struct registry *r, const char *id, const json_t *told, struct err *e)
{
	autojson json_t *j = NULL;
	uint64_t bytes = 0;
	int got = json_get_u64(told, "used_bytes", &bytes, "answer of the network helper", e);

	if (got < 1 || !path_has(r->kept_fd, id))
		return got < 0 ? -1 : 0;
	j = json_pack("{s:I}", "bytes", (json_int_t)bytes);
	return j ? registry_save(r, id, NETWORK_USED_FILE, j, e) : err_nomem(e);
}

int netclear_one(struct registry *r, const char *id, struct err *e)
{
	autofree char *policy = NULL;
	autojson json_t *told = NULL;
	char path[100];

	snprintf(path, sizeof(path), NETWORK_DIR "/%s.json", id);
	if (!path_has(r->state_fd, path))
		return 0;
	policy = place(r);
	if (!policy)
		return err_nomem(e);
	if (nethelper_bridge("bridge-down", id, "", policy, &told, e) < 0)
		return -1;
	return save_used(r, id, told, e);
}

int netclear_all(struct registry *r, unsigned *ret_cleared, struct err *e)
{
	autofree char *policy = NULL;
	autojson json_t *told = NULL;
	char extra[sizeof(r->config->run_dir) + 40];
	uint64_t n = 0;

	*ret_cleared = 0;
	if (!path_has(r->state_fd, NETWORK_DIR))
		return 0;
	policy = place(r);
	snprintf(extra, sizeof(extra), ",\"sandboxes\":\"%s/sandboxes\"", r->config->run_dir);
	if (!policy)
		return err_nomem(e);
	if (nethelper_bridge("bridge-gc", "", extra, policy, &told, e) < 0 ||
	    json_get_u64(told, "cleared", &n, "answer of the network helper", e) < 0)
		return -1;
	*ret_cleared = (unsigned)n;
	return 0;
}
