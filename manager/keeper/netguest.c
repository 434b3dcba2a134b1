/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S20 of SECURITY.md. */
#include "manager/keeper/netguest.h"

#include <string.h>

#include "base/mem.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/request.h"
#include "manager/keeper/wire.h"

#define ANSWER_MS 10000

struct asking {
	struct registry *r;
	const char *tenant;
};

static int same_owner(void *ctx, const char *id)
{
	const struct asking *a = ctx;
	struct err ignored;
	autojson json_t *owner = registry_load(a->r, id, REGISTRY_OWNER, &ignored);
	const char *name = json_string_value(json_object_get(owner, "name"));

	return !strcmp(name ? name : "", a->tenant);
}

int netguest_find(struct registry *r, const char *ref, const char *tenant, char ret_id[65],
		  struct err *e)
{
	struct asking a = { r, tenant };
	int kept;

	/* to a tenant, a sandbox of another is one that does not exist */
	if (registry_find_seen(r, ref, tenant[0] ? same_owner : NULL, &a, ret_id, &kept, e) < 0)
		return err_wrap(e, "join the network of a sandbox");
	if (!same_owner(&a, ret_id))
		return err_set(e, ERR_DENIED,
			       "sandbox %.64s is a tenant's, whose network only its own sandboxes "
			       "join; hint: berth create --tenant",
			       ref);
	return 0;
}

/* The answer with both descriptors. */
static int receive(int sock, struct netguest *g, struct err *e)
{
	int fds[WIRE_FDS_MAX];
	size_t n = 0, i;
	int r = wire_recv(sock, ANSWER_MS, &g->told, fds, WIRE_FDS_MAX, &n, e);

	if (r == 1 && n == 2) {
		g->netns_fd = fds[0];
		g->init_fd = fds[1];
		return 0;
	}
	for (i = 0; r == 1 && i < n; i++)
		close(fds[i]);
	if (r == 0)
		return wire_ended(e);
	if (r < 0 || wire_check(g->told, e) < 0)
		return -1;
	return err_set(e, ERR_INTERNAL, "the keeper handed over no network");
}

static int ask(struct registry *r, struct netguest *g, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_network_share);
	autoclose int sock = -1;

	if (keeper_is_run(r, g->id))
		return err_set(e, ERR_INVALID,
			       "sandbox %s does not last, and nobody joins its network; hint: "
			       "berth create, or berth run --detach, makes one that can be joined",
			       g->id);
	sock = keeper_connect(r, g->id, e);
	if (sock < 0 || wire_request(sock, rq, NULL, 0, e) < 0)
		return -1;
	return receive(sock, g, e);
}

static int take_mode(const char *name, enum spec_network *ret, struct err *e)
{
	int n;

	for (n = 0; n < NETWORK_COUNT; n++)
		if (!strcmp(name, spec_network_name((enum spec_network)n))) {
			*ret = (enum spec_network)n;
			return 0;
		}
	return err_set(e, ERR_UNSUPPORTED, "a network of the kind '%.40s'", name);
}

int netguest_open(struct registry *r, const char *ref, const char *tenant, struct netguest *ret,
		  struct spec *s, struct err *e)
{
	const char *mode = "";

	if (netguest_find(r, ref, tenant, ret->id, e) < 0)
		return -1;
	if (ask(r, ret, e) < 0)
		return err_wrap(e, "join the network of sandbox %.64s", ret->id);
	if (json_get_str(ret->told, "mode", &mode, "answer", e) < 1 ||
	    json_get_bool(ret->told, "proxied", &s->joined.proxied, "answer", e) < 1 ||
	    json_get_str(ret->told, "hostname", &s->joined.hostname, "answer", e) < 1 ||
	    json_get_str(ret->told, "hosts", &s->joined.hosts, "answer", e) < 0 ||
	    json_get_str(ret->told, "dir", &s->net_dir, "answer", e) < 0 ||
	    take_mode(mode, &s->joined.mode, e) < 0)
		return -1;
	s->joined.netns_fd = ret->netns_fd;
	s->joined.init_fd = ret->init_fd;
	return 0;
}

void netguest_close(struct netguest *g)
{
	fd_close(&g->netns_fd);
	fd_close(&g->init_fd);
	json_decref(g->told);
	g->told = NULL;
}
