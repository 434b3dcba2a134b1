/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostprobe_net - the requirements of sandbox networks: berth-net, a proxy that can be confined,
 * a bridge with rules.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/probe/hostprobe.h"
#include "runtime/sandbox/nethelper.h"

void host_probe_egress(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	char job[64];
	struct err e;

	(void)probe;
	snprintf(job, sizeof(job), "{\"uid\":%u}", p->id_base + SPEC_IDS - 1);
	if (nethelper_call("egress-probe", job, NULL, &e) < 0)
		host_err(f, &e);
	else
		host_say(f, HOST_OK, "berth-net runs, and confines itself as a proxy");
}

/* In namespaces of its own: the host's network is not touched. */
void host_probe_bridge(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	struct err e;

	(void)p, (void)probe;
	if (nethelper_call("bridge-probe", "{}", NULL, &e) < 0)
		host_err(f, &e);
	else
		host_say(f, HOST_OK, "a bridge with a locked port, and the rules of nftables, made and gone again");
}

static int is_on(const char *path)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	char c = '0';

	return fd >= 0 && read(fd, &c, 1) == 1 && c != '0';
}

void host_probe_forwarding(const struct hostinfo_place *p, const struct host_probe *probe, struct host_finding *f)
{
	int v4 = is_on("/proc/sys/net/ipv4/ip_forward"), v6 = is_on("/proc/sys/net/ipv6/conf/all/forwarding");

	(void)p, (void)probe;
	if (!v4)
		host_say(f, HOST_MISSING, "net.ipv4.ip_forward is 0");
	else
		host_say(f, HOST_OK, v6 ? "IPv4 and IPv6" : "IPv4; sandboxes with a bridge have no route for IPv6");
}
