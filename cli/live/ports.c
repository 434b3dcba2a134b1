/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/ports.h"

#include "base/mem.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"

json_t *ports_of(struct registry *r, const char *id, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_network), *answer = NULL;
	autoclose int sock = keeper_connect(r, id, e);
	json_t *network = NULL, *ports;

	if (sock < 0)
		return NULL;
	answer = keeper_call(sock, rq, NULL, 0, NULL, e);
	if (!answer || json_get_obj(answer, "network", &network, "answer", e) < 0)
		return NULL;
	ports = json_object_get(network, "ports");
	return ports ? json_incref(ports) : json_array();
}
