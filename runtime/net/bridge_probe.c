/* SPDX-License-Identifier: Apache-2.0 */
/* Tests this kernel's support for a bridge: everything is made in a separate namespace. */
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/net/bridge.h"
#include "runtime/net/netwire.h"
#include "runtime/net/ruleset.h"

int bridge_probe(const json_t *job, struct err *e)
{
	struct err ok = { 0 };
	struct link_plan l = { .bridge = "berthprobe", .port = "bvprobe", .with6 = 1, .route6 = 1 };
	const struct ruleset_kind kind = { 0 };
	struct netpolicy *p = calloc(1, sizeof(*p));
	autoclose int inner = -1;
	int r = -1;

	(void)job;
	if (!p)
		return err_nomem(e);
	if (unshare(CLONE_NEWNET) < 0 || (inner = open("/proc/self/ns/net",
						       O_RDONLY | O_CLOEXEC)) < 0 ||
							       unshare(CLONE_NEWNET) < 0) {
		err_sys(e, "make a network namespace");
	} else if (netcidr_parse("10.203.0.0/16", &l.pool, e) == 0 &&
		   netcidr_parse("fd62:6572:7468::/64", &l.pool6, e) == 0) {
		netcidr_nth(&l.pool, 1, &l.gateway);
		netcidr_nth(&l.pool6, 1, &l.gateway6);
		netcidr_nth(&l.pool, 2, &l.address);
		netcidr_nth(&l.pool6, 2, &l.address6);
		l.with6 = access("/proc/sys/net/ipv6", F_OK) == 0;
		if (link_bridge(&l, e) == 0 && ruleset_make(l.bridge, &kind, e) == 0 &&
		    ruleset_add("probe", &l, p, 0, e) == 0 &&
		    link_join(&l, inner, e) == 0)
			r = 0;
	}
	if (r == 0)
		(void)!send(NETHELPER_SOCK, &ok, sizeof(ok), MSG_NOSIGNAL);
	free(p);
	return r;
}
