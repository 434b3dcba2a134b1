/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/joint.h"
#include "base/mem.h"
#include "manager/host/forget.h"
#include "manager/host/netmembers.h"
#include "manager/host/nets.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/netclient.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

/* ---- another network ---- */

static int ask_join_keeper(struct registry *r, const char *id, json_t *rq, struct err *e)
{
	autojson json_t *request = rq, *answer = NULL;
	autoclose int sock = keeper_connect(r, id, e);

	if (sock < 0)
		return -1;
	answer = keeper_call(sock, request, NULL, 0, NULL, e);
	return answer ? 0 : -1;
}

static int record_stopped_join(struct registry *r, const char *id, const char *network, const json_t *end,
		  struct err *e)
{
	/* keeps other processes from starting it meanwhile */
	struct claim c = { .dir_fd = -1, .slot_fd = -1 };
	struct err ignored;
	int result;

	if (forget_claim(r, id, &c, e) < 0)
		return -1;
	result = !end && !strcmp(network, NETJOIN_BRIDGE) ?
			 netjoin_leave_bridge(r, id, e) :
			 netjoin_record(r, id, network, end, e);
	registry_release(r, &c, &ignored);
	fd_close(&c.dir_fd);
	fd_close(&c.slot_fd);
	return result;
}

int netconnect(struct registry *r, const char *id, int kept, const char *network,
	       const json_t *aliases, const json_t *addresses, struct err *e)
{
	autojson json_t *names = aliases ? json_deep_copy(aliases) : json_array();
	autojson json_t *end = json_pack("{s:O,s:O*}", "aliases", names, "addresses", addresses);
	autojson json_t *place = end ? nets_place(r->config, network, e) : NULL;
	json_t *rq;

	if (!place)
		return end ? -1 : err_nomem(e);
	if (nets_check_addresses(place, network, addresses, e) < 0)
		return -1;
	if (kept)
		return record_stopped_join(r, id, network, end, e);
	rq = protocol_request(OP_network_join);
	request_set_name(rq, network);
	request_set_aliases(rq, json_incref(names));
	if (json_array_size(addresses))
		request_set_addresses(rq, json_incref((json_t *)(size_t)addresses));
	return ask_join_keeper(r, id, rq, e);
}

int netdisconnect(struct registry *r, const char *id, int kept, const char *network, struct err *e)
{
	const int bridge = !strcmp(network, NETJOIN_BRIDGE);
	json_t *rq;

	if (!bridge && nets_check_name(network, e) < 0)
		return -1;
	if (kept)
		return record_stopped_join(r, id, network, NULL, e);
	if (bridge)
		return err_set(e, ERR_INVALID, "a sandbox that runs does not leave the bridge, "
			       "which is its way out; hint: berth stop %s, and disconnect it then",
			       id);
	rq = protocol_request(OP_network_leave);
	request_set_name(rq, network);
	return ask_join_keeper(r, id, rq, e);
}

/* ---- the network namespace of another sandbox ---- */

/* Upholds S20 of SECURITY.md. */

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

	/* to a tenant, another tenant's sandbox does not exist */
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
static int receive_netns(int sock, struct netguest *g, struct err *e)
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

static int ask_netns(struct registry *r, struct netguest *g, struct err *e)
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
	return receive_netns(sock, g, e);
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
	if (ask_netns(r, ret, e) < 0)
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

/* ---- rules of a network ---- */

/* Sends the changed rules to a member; one that ended meanwhile has none. */
static int tell_changed_rules(struct registry *r, const char *id, struct netrules_done *done, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_network_rules), *answer = NULL;
	autoclose int sock = keeper_connect(r, id, e);
	uint64_t cut = 0;

	if (sock >= 0)
		answer = keeper_call(sock, rq, NULL, 0, NULL, e);
	if (!answer)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (json_get_u64(answer, "cut", &cut, "answer", e) < 0)
		return -1;
	done->cut += cut;
	done->members++;
	return 0;
}

int netrules_update(struct registry *r, const char *network, const json_t *changes,
		    json_t **ret_record, struct netrules_done *ret, struct err *e)
{
	autojson json_t *members = NULL;
	json_t *row;
	int result = 0;
	size_t i;

	if (nets_change(r->config, network, changes, ret_record, e) < 0 ||
	    !(members = netend_members(r, network, e)))
		return -1;
	json_array_foreach(members, i, row) {
		const char *id = json_string_value(json_object_get(row, "id"));
		const char *status = json_string_value(json_object_get(row, "status"));
		struct err why = { 0 };

		if (status && !strcmp(status, "running") && tell_changed_rules(r, id, ret, &why) < 0) {
			*e = why;
			result = err_wrap(e, "tell sandbox %.64s of the new rules", id);
		}
	}
	return result;
}

/* ---- a port of a sandbox ---- */

json_t *netport_request(uint16_t port, int with6)
{
	json_t *rq = protocol_request(OP_port);

	request_set_port(rq, port);
	if (with6)
		request_set_ipv6(rq, 1);
	return rq;
}

int netport_connected(int fd, uint16_t port, struct err *e)
{
	socklen_t n = sizeof(int);
	int why = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &n) < 0)
		return err_sys(e, "look at a connection");
	/* a sandbox without IPv6 has no ::1 */
	if (why == ECONNREFUSED || why == EADDRNOTAVAIL || why == ENETUNREACH)
		return 0;
	if (why) {
		errno = why;
		return err_sys(e, "connect to port %d in the sandbox", port);
	}
	joint_keep_alive(fd);
	return 1;
}

int netport_nothing(const char *id, uint16_t port, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "nothing listens on port %d in sandbox %s; hint: berth wait --port %d %s waits for it",
		       port, id, port, id);
}
