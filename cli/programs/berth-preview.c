/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth-preview - the web server in front of servers in sandboxes (runtime/preview/preview.h).
 * berthd starts it; people do not run it.
 */
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/program.h"
#include "runtime/preview/preview.h"

int main(int argc, char **argv)
{
	struct err e = { 0 };
	struct stat st;
	char text[sizeof(e.msg) + 40];
	int n;

	if (argc == 2 && !strcmp(argv[1], "--version"))
		return puts("berth-preview " BERTH_VERSION) < 0;
	if (argc != 1 || fstat(HELPER_SOCK, &st) < 0 || !S_ISSOCK(st.st_mode)) {
		fputs("berth-preview: berthd starts this program; see [preview] of berth.toml(5)\n", stderr);
		return 2;
	}
	prctl(PR_SET_NAME, "berth-preview");
	if (preview_run(&e) < 0) {
		preview_plain(e.msg);
		n = snprintf(text, sizeof(text), "{\"failed\":\"%s\"}", e.msg);
		(void)!send(HELPER_SOCK, text, (size_t)n, MSG_NOSIGNAL);
		_exit(1);
	}
	_exit(0);
}
