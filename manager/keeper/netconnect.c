/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/netconnect.h"

#include <string.h>

#include "base/mem.h"
#include "manager/host/forget.h"
#include "manager/host/netjoin.h"
#include "manager/host/nets.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/request.h"

static int ask(struct registry *r, const char *id, json_t *rq, struct err *e)
{
	autojson json_t *request = rq, *answer = NULL;
	autoclose int sock = keeper_connect(r, id, e);

	if (sock < 0)
		return -1;
	answer = keeper_call(sock, request, NULL, 0, NULL, e);
	return answer ? 0 : -1;
}

static int record(struct registry *r, const char *id, const char *network, const json_t *end,
		  struct err *e)
{
	/* nobody starts it meanwhile */
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
	autojson json_t *known = end ? nets_load(r->config, network, e) : NULL;
	json_t *rq;

	if (!known)
		return end ? -1 : err_nomem(e);
	if (kept)
		return record(r, id, network, end, e);
	rq = protocol_request(OP_network_join);
	request_set_name(rq, network);
	request_set_aliases(rq, json_incref(names));
	if (json_array_size(addresses))
		request_set_addresses(rq, json_incref((json_t *)(size_t)addresses));
	return ask(r, id, rq, e);
}

int netdisconnect(struct registry *r, const char *id, int kept, const char *network, struct err *e)
{
	const int bridge = !strcmp(network, NETJOIN_BRIDGE);
	json_t *rq;

	if (!bridge && nets_check_name(network, e) < 0)
		return -1;
	if (kept)
		return record(r, id, network, NULL, e);
	if (bridge)
		return err_set(e, ERR_INVALID, "a sandbox that runs does not leave the bridge, "
			       "which is its way out; hint: berth stop %s, and disconnect it then",
			       id);
	rq = protocol_request(OP_network_leave);
	request_set_name(rq, network);
	return ask(r, id, rq, e);
}
