/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth-http - the part of the registry client that speaks with the network.
 *
 * berth-image starts it, with one socket (rootfs/registry/httpwire.h) as descriptor 3, over
 * which it gets its requests; people do not run it. It has TLS, HTTP and credentials. It has no
 * file of the image store, no root rights and no way to start a program (rootfs/http/confine.h).
 */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "rootfs/http/confine.h"
#include "rootfs/http/serve.h"
#include "rootfs/registry/httpwire.h"

int main(void)
{
	socklen_t n = sizeof(int);
	json_t *last;
	struct err e = { 0 };
	int type = 0;

	if (getsockopt(HTTPWIRE_FD, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type != SOCK_SEQPACKET) {
		fputs("berth-http: started by berth-image only; see berth pull\n", stderr);
		return 2;
	}
	prctl(PR_SET_NAME, "berth-http");
	signal(SIGPIPE, SIG_IGN);
	/* _exit: the leak check of a sanitizer starts a process, which we cannot any more */
	if (http_confine_begin(HTTPWIRE_FD, &e) == 0 && http_serve(HTTPWIRE_FD, http_confine_end, &e) == 0)
		_exit(0);
	last = json_pack("{s:s, s:i, s:s, s:s}", "event", "failed", "id", 0, "code", err_name(e.code), "message", e.msg);
	httpwire_send(HTTPWIRE_FD, last, -1, NULL);
	_exit(1);
}
