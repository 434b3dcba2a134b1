/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of berth-net that stay: ports of the loopback, and the names of networks. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/net/bridge.h"
#include "runtime/net/bridge_state.h"
#include "runtime/net/forward.h"
#include "runtime/net/nameserver.h"
#include "runtime/net/netwire.h"

int bridge_open_servers(struct bridge *b, struct forward **ret, struct err *e)
{
	const struct nameserver_place at = { b->network, b->pool.dir_fd, b->kind.internal, &b->link,
					     &b->policy };
	struct nameserver *names = NULL;
	struct forward *f = NULL;

	if (forward_open(&b->policy, &b->link, b->kind.peers, &f, e) < 0)
		return -1;
	if (b->kind.peers && nameserver_open(&at, NETHELPER_NETNS, &names, e) < 0) {
		forward_free(f);
		return -1;
	}
	if (f)
		forward_names(f, names);
	*ret = f;
	return 0;
}

int bridge_stay(struct forward *f, const json_t *job, const json_t *told, pid_t parent,
		struct err *e)
{
	autofree char *text = told ? json_dumps(told, JSON_COMPACT) : NULL;
	uint64_t uid = 0;
	int r = -1;

	if (!text || json_get_u64(job, "uid", &uid, "job", e) < 1 || uid < 65536) {
		err_set(e, ERR_INTERNAL, "berth-net: a malformed job");
	} else {
		close(NETHELPER_NETNS);	/* else it would live as long as we */
		close(NETHELPER_JOB);
		r = forward_run(f, text, (uid_t)uid, parent, e);
	}
	forward_free(f);
	return r;
}

/* The servers that the sandbox has asked until now, by the policy that its bridge enforces. */
static int open_resolver(struct bridge *b, struct nameserver **ret, struct err *e)
{
	autojson json_t *record = pool_recorded(&b->pool, b->id, e);
	json_t *policy = NULL;
	const struct nameserver_place at = { "", -1, 0, &b->link, &b->policy };

	if (!record)
		return -1;
	if (json_get_obj(record, "policy", &policy, "record", e) < 1)
		return err_set(e, ERR_CORRUPT,
			       "the record of the network of sandbox %s is malformed", b->id);
	netpolicy_release(&b->policy);
	return netpolicy_load(&b->policy, policy, e) < 0 ?
		       -1 :
		       nameserver_open(&at, NETHELPER_NETNS, ret, e);
}

int bridge_resolver(const json_t *job, struct err *e)
{
	autojson json_t *told = json_pack("{s:b}", "resolver", 1);
	const struct netpolicy no_ports = { 0 };
	struct nameserver *names = NULL;
	struct forward *f = NULL;
	pid_t parent = getppid();
	struct bridge b;
	int r = bridge_load(&b, job, e);

	if (r == 0)
		r = open_resolver(&b, &names, e);
	if (r == 0 && forward_open(&no_ports, &b.link, 1, &f, e) < 0) {
		nameserver_free(names);
		r = -1;
	}
	bridge_unload(&b);
	if (r < 0)
		return -1;
	forward_names(f, names);
	return bridge_stay(f, job, told, parent, e);
}
