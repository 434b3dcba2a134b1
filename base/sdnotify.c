/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sdnotify.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/mem.h"

int sdnotify_address_ok(const char *address)
{
	return (address[0] == '/' || address[0] == '@') && address[1] && strlen(address) < sizeof(((struct sockaddr_un *)0)->sun_path);
}

int sdnotify_send(const char *address, const char *text)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = strlen(address);
	autoclose int fd = -1;

	if (!sdnotify_address_ok(address)) {
		errno = EINVAL;
		return -1;
	}
	memcpy(a.sun_path, address, n);
	if (address[0] == '@')
		a.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	return sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&a,
		      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0 ? -1 : 0;
}
