/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/kernel/listening.h"

Test(backlog, clients_that_wait_are_counted_until_they_are_accepted)
{
	autoclose int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
					  (size_t)snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1,
							   "berth-test-%d", (int)getpid()));
	int client[3], i;

	cr_assert(bind(fd, (struct sockaddr *)&a, len) == 0 && listen(fd, 8) == 0);
	cr_assert_eq(backlog_count(fd), 0);
	for (i = 0; i < 3; i++) {
		client[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		cr_assert_eq(connect(client[i], (struct sockaddr *)&a, len), 0);
	}
	cr_assert_eq(backlog_count(fd), 3);
	for (i = 0; i < 3; i++)
		close(accept4(fd, NULL, NULL, SOCK_CLOEXEC));
	cr_assert_eq(backlog_count(fd), 0);
	for (i = 0; i < 3; i++)
		close(client[i]);
}
