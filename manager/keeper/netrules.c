/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/netrules.h"

#include <string.h>

#include "base/mem.h"
#include "manager/host/netend.h"
#include "manager/host/nets.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/request.h"

/* One that ended meanwhile has no rules. */
static int tell(struct registry *r, const char *id, struct netrules_done *done, struct err *e)
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

		if (status && !strcmp(status, "running") && tell(r, id, ret, &why) < 0) {
			*e = why;
			result = err_wrap(e, "tell sandbox %.64s of the new rules", id);
		}
	}
	return result;
}
