/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth-ssh - the server's side of one SSH connection (runtime/ssh/server.h).  berth ssh-proxy and
 * berthd start it; people do not run it.
 */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/program.h"
#include "runtime/ssh/server.h"

int main(int argc, char **argv)
{
	struct err e = { 0 };
	struct stat st;
	autofree char *text = NULL;
	int r;

	if (argc == 2 && !strcmp(argv[1], "--version"))
		return puts("berth-ssh " BERTH_VERSION) < 0;
	if (argc > 2 || (argc == 2 && strcmp(argv[1], "key") != 0) || fstat(HELPER_SOCK, &st) < 0 || !S_ISSOCK(st.st_mode)) {
		fputs("berth-ssh: berth starts this program; see berth-ssh(1)\n", stderr);
		return 2;
	}
	prctl(PR_SET_NAME, "berth-ssh");
	if (argc == 2) {
		r = server_make_key(HELPER_SOCK + 1, HELPER_SOCK + 2, &e);
		(void)!send(HELPER_SOCK, &e, sizeof(e), MSG_NOSIGNAL);
		return r < 0;
	}
	if (server_run(&e) < 0) {
		text = json_dumps(json_pack("{s:s}", "failed", e.msg), JSON_COMPACT);
		if (text)
			(void)!send(HELPER_SOCK, text, strlen(text), MSG_NOSIGNAL);
		_exit(1);
	}
	_exit(0);
}
