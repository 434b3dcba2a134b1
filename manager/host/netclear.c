/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/netclear.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/host/nets.h"
#include "runtime/sandbox/nethelper.h"

#define NETWORK_DIR "network"

/* A policy that says where, and nothing else; name NULL: the bridge without one. */
static char *place(const struct registry *r, const char *name, struct err *e)
{
	autojson json_t *bridge = name ? nets_place(r->config, name, e) : nets_bridge(r->config);
	autojson json_t *policy = bridge ? json_pack("{s:O}", "bridge", bridge) : NULL;
	char *text = policy ? json_dumps(policy, JSON_COMPACT) : NULL;

	if (!text && (bridge || !name))
		err_nomem(e);
	return text;
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

struct clearing {
	struct registry *r;
	const char *id;
	unsigned cleared;
	struct err *e;
};

static int leave(struct clearing *x, const char *name)
{
	autofree char *policy = NULL;
	autojson json_t *told = NULL;

	policy = place(x->r, name, x->e);
	if (!policy || nethelper_bridge("bridge-down", x->id, "", policy, &told, x->e) < 0)
		return -1;
	return save_used(x->r, x->id, told, x->e);
}

static int leave_if_member(void *ctx, const char *name)
{
	struct clearing *x = ctx;
	char path[200];

	snprintf(path, sizeof(path), NETS_DIR "/%s/members/%s.json", name, x->id);
	return path_has(x->r->state_fd, path) ? leave(x, name) : 0;
}

int netclear_one(struct registry *r, const char *id, struct err *e)
{
	struct clearing x = { .r = r, .id = id, .e = e };
	char path[100];

	snprintf(path, sizeof(path), NETWORK_DIR "/%s.json", id);
	if (path_has(r->state_fd, path) && leave(&x, NULL) < 0)
		return -1;
	return nets_each(r->config, leave_if_member, &x, e);
}

struct renaming {
	struct registry *r;
	const char *id, *name;
	struct err *e;
};

static int rename_if_member(void *ctx, const char *network)
{
	const struct renaming *x = ctx;
	autofree char *policy = NULL;
	char path[200], extra[100];

	snprintf(path, sizeof(path), NETS_DIR "/%s/members/%s.json", network, x->id);
	if (!path_has(x->r->state_fd, path))
		return 0;
	policy = place(x->r, network, x->e);
	snprintf(extra, sizeof(extra), ",\"name\":\"%s\"", x->name);
	return policy ? nethelper_bridge("bridge-rename", x->id, extra, policy, NULL, x->e) : -1;
}

int netclear_rename(struct registry *r, const char *id, const char *name, struct err *e)
{
	struct renaming x = { r, id, name, e };

	return nets_each(r->config, rename_if_member, &x, e);
}

static int clear_all(struct clearing *x, const char *name)
{
	char extra[sizeof(x->r->config->run_dir) + 40];
	autofree char *policy = NULL;
	autojson json_t *told = NULL;
	uint64_t n = 0;

	policy = place(x->r, name, x->e);
	snprintf(extra, sizeof(extra), ",\"sandboxes\":\"%s/sandboxes\"", x->r->config->run_dir);
	if (!policy || nethelper_bridge("bridge-gc", "", extra, policy, &told, x->e) < 0 ||
	    json_get_u64(told, "cleared", &n, "answer of the network helper", x->e) < 0)
		return -1;
	x->cleared += (unsigned)n;
	return 0;
}

static int clear_network(void *ctx, const char *name)
{
	struct clearing *x = ctx;
	char path[100];

	snprintf(path, sizeof(path), NETS_DIR "/%s/members", name);
	return path_has(x->r->state_fd, path) ? clear_all(x, name) : 0;
}

int netclear_all(struct registry *r, unsigned *ret_cleared, struct err *e)
{
	struct clearing x = { .r = r, .e = e };
	int result = nets_each(r->config, clear_network, &x, e);

	if (result == 0 && path_has(r->state_fd, NETWORK_DIR))
		result = clear_all(&x, NULL);
	*ret_cleared = x.cleared;
	return result;
}
