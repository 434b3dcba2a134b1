/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth-net: the network of one sandbox, made or served by a program of its own
 * (runtime/sandbox/nethelper.h).  It is started by berth, never by hand: what it is to do
 * stands in a file in memory, and its answer goes to a socket.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/net/bridge.h"
#include "runtime/net/forward.h"
#include "runtime/net/proxy.h"
#include "runtime/sandbox/nethelper.h"

#define JOB_MAX (2u << 20)

static const struct {
	const char *verb;
	int (*run)(const json_t *job, struct err *e);	/* answers by itself, but for an error */
} verbs[] = {
	{ "egress", egress_run }, { "egress-probe", egress_probe }, { "bridge", bridge_up }, { "bridge-down", bridge_down }, { "bridge-change", bridge_change },
	{ "bridge-gc", bridge_gc }, { "bridge-rename", bridge_rename },
	{ "bridge-remove", bridge_remove },
	{ "bridge-resolver", bridge_resolver }, { "relay", relay_run },
		{ "bridge-probe", bridge_probe },
};

static json_t *read_job(struct err *e)
{
	autobuf struct buf b = BUF_INIT(JOB_MAX);

	if (io_read_all(NETHELPER_JOB, &b, "job", e) < 0)
		return NULL;
	return json_parse(b.data ? b.data : "", b.len, JOB_MAX, "job", e);
}

int main(int argc, char **argv)
{
	autojson json_t *job = NULL;
	struct err e = { 0 };
	struct stat st;
	size_t i;
	int r = -1;

	if (argc == 2 && !strcmp(argv[1], "--version"))
		return puts("berth-net " BERTH_VERSION) < 0;
	if (argc != 2 || fstat(NETHELPER_SOCK, &st) < 0 || !S_ISSOCK(st.st_mode)) {
		fputs("berth-net: berth starts this program for --network bridge and egress, and for --publish; hint: berth network --help\n", stderr);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	job = read_job(&e);
	for (i = 0; job && i < ARRAY_LEN(verbs); i++)
		if (!strcmp(argv[1], verbs[i].verb))
			break;
	if (job && i == ARRAY_LEN(verbs))
		err_set(&e, ERR_INTERNAL, "berth-net: unknown verb %.40s", argv[1]);
	else if (job)
		r = verbs[i].run(job, &e);
	if (r < 0)
		(void)!send(NETHELPER_SOCK, &e, sizeof(e), MSG_NOSIGNAL);
	return r < 0;
}
