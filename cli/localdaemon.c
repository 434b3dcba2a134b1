/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/localdaemon.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/program.h"
#include "manager/host/config.h"

/* "unix://" and the socket of this host's berthd. */
static int find_berthd(char *ret, size_t size, const char *what, const char *hint, struct err *e)
{
	struct config c;
	char path[256];

	if (config_load(&c, e) < 0)
		return -1;
	if (c.daemon_socket[0])
		snprintf(path, sizeof(path), "%s", c.daemon_socket);
	else
		snprintf(path, sizeof(path), "%.200s/berthd.sock", c.run_dir);
	snprintf(ret, size, "unix://%s", path);
	if (access(path, F_OK) == 0)
		return 0;
	return err_set(e, ERR_NOT_FOUND, "berthd, %sdoes not run: it has no socket %s; hint: %s", what, path, hint);
}

int localdaemon_become(const struct command *self, int argc, char **argv, const char *what, const char *hint,
		       struct err *e)
{
	char first[32], host[300], *second;
	autofree const char **all = calloc((size_t)argc + 3, sizeof(*all));
	autoclose int fd = -1;
	int i, n = 0;

	if (!all)
		return err_nomem(e);
	if (find_berthd(host, sizeof(host), what, hint, e) < 0)
		return -1;
	snprintf(first, sizeof(first), "%s", self->name);
	second = strchr(first, ' ');
	all[n++] = "berth";
	all[n++] = first;
	if (second) {
		*second++ = '\0';
		all[n++] = second;
	}
	for (i = 1; i < argc; i++)
		all[n++] = argv[i];
	fd = program_open("berth-remote", e);
	if (fd < 0)
		return -1;
	if (setenv("BERTH_HOST", host, 1) < 0)
		return err_nomem(e);
	execveat(fd, "", (char **)all, environ, AT_EMPTY_PATH);
	return err_sys(e, "execute berth-remote");
}
