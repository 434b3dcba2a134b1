/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/listening.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define STATE_LISTEN 0x0a	/* TCP_LISTEN of include/net/tcp_states.h */

int listening_line(const char *line, uint16_t *ret_port)
{
	unsigned port, state;

	if (strstr(line, "local_address"))
		return 0;
	if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x", &port, &state) != 2 ||
	    state != STATE_LISTEN || port > UINT16_MAX)
		return -1;
	*ret_port = (uint16_t)port;
	return 1;
}

/* Takes the whole lines of text: 1 when one has the port, -1 after the last that can, else 0. */
static int take_lines(char *text, size_t *n, uint16_t port)
{
	char *line = text, *end;
	uint16_t found;
	int r;

	while ((end = memchr(line, '\n', *n - (size_t)(line - text)))) {
		*end = '\0';
		r = listening_line(line, &found);
		if (r < 0 || (r > 0 && found == port))
			return r;
		line = end + 1;
	}
	*n -= (size_t)(line - text);
	memmove(text, line, *n);
	return 0;
}

static int look(int pid, const char *file, uint16_t port, struct err *e)
{
	char path[40], text[4096];
	autoclose int fd = -1;
	size_t n = 0;
	ssize_t got;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* a kernel without IPv6 has no tcp6 */
	if (fd < 0)
		return errno == ENOENT && strchr(file, '6') ? 0 : err_sys(e, "open %s", path);
	while ((got = read(fd, text + n, sizeof(text) - n)) > 0) {
		n += (size_t)got;
		r = take_lines(text, &n, port);
		if (r)
			return r > 0;
		if (n == sizeof(text))
			return err_set(e, ERR_CORRUPT, "%s has a line of %zu bytes", path, n);
	}
	return got < 0 ? err_sys(e, "read %s", path) : 0;
}

int listening_has(int pid, uint16_t port, struct err *e)
{
	const int r = look(pid, "tcp", port, e);

	return r ? r : look(pid, "tcp6", port, e);
}
