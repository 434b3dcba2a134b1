/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/notify.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/sdnotify.h"
#include "runtime/oci/json.h"
#include "runtime/oci/log.h"

#define DIR_NAME "notify"
#define SOCKET_NAME "notify.sock"
#define INSIDE "/run/notify"

/* The address of the service manager's socket, or NULL: there is none to notify. */
static const char *oci_notify_host(void)
{
	const char *address = getenv("NOTIFY_SOCKET");

	return address && address[0] ? address : NULL;
}

int oci_notify_plan(json_t *config, int root_fd, const char *id, struct err *e)
{
	json_t *process = oci_get(config, "process"), *mounts = oci_get(config, "mounts"), *env = oci_get(process, "env");
	char root[PATH_MAX], source[PATH_MAX + 300], link[32];
	ssize_t n;

	if (!oci_notify_host() || !process)
		return 0;
	if (!sdnotify_address_ok(oci_notify_host()))
		return err_set(e, ERR_INVALID, "NOTIFY_SOCKET '%.110s' is not an absolute path and no abstract socket's @name of at most 107 bytes",
			       oci_notify_host());
	n = readlink(path_of_fd(root_fd, link), root, sizeof(root) - 1);
	if (n < 0)
		return err_sys(e, "find the state root");
	snprintf(source, sizeof(source), "%.*s/%s/" DIR_NAME, (int)n, root, id);
	if (!mounts)
		json_object_set_new(config, "mounts", mounts = json_array());
	if (!env)
		json_object_set_new(process, "env", env = json_array());
	if (json_array_append_new(mounts, json_pack("{s:s,s:s,s:[s,s,s,s,s]}", "destination", INSIDE, "source", source, "options", "bind",
						    "nosuid", "noexec", "nodev", "ro")) < 0 ||
	    json_array_append_new(env, json_string("NOTIFY_SOCKET=" INSIDE "/" SOCKET_NAME)) < 0)
		return err_nomem(e);
	return 0;
}

int oci_notify_make_dir(int state_fd, struct err *e)
{
	if (!oci_notify_host())
		return 0;
	if (mkdirat(state_fd, DIR_NAME, 0755) < 0 || fchmodat(state_fd, DIR_NAME, 0755, 0) < 0)
		return err_sys(e, "make the directory of the container's notify socket");
	return 0;
}

int oci_notify_bind(int state_fd, int *ret_fd, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	autoclose int fd = -1;
	char dir[32];

	*ret_fd = -1;
	if (!oci_notify_host() || !path_has(state_fd, DIR_NAME))
		return 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, "make a socket");
	snprintf(a.sun_path, sizeof(a.sun_path), "%s/" DIR_NAME "/" SOCKET_NAME, path_of_fd(state_fd, dir));
	/* the container's program may run as any user */
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || fchmodat(state_fd, DIR_NAME "/" SOCKET_NAME, 0777, 0) < 0)
		return err_sys(e, "bind the container's notify socket");
	*ret_fd = take_fd(&fd);
	return 0;
}

static int is_ready_message(const char *p)
{
	for (; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
		if (!strncmp(p, "READY=1", 7) && (p[7] == '\n' || p[7] == '\0'))
			return 1;
	return 0;
}

int oci_notify_take(int fd, pid_t main_pid, struct err *e)
{
	char text[4096], answer[64];
	ssize_t n = recv(fd, text, sizeof(text) - 1, 0);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : err_sys(e, "read the container's notify socket");
	text[n] = '\0';
	if (!is_ready_message(text))
		return 0;
	/*
	 * in one datagram, so that the manager does not take us, who may end now, for the main
	 * process
	 */
	snprintf(answer, sizeof(answer), "MAINPID=%d\nREADY=1\n", main_pid);
	if (sdnotify_send(oci_notify_host(), answer) < 0)
		oci_log(OCI_WARNING, "the service manager's socket %s does not take that the container is ready: %s", oci_notify_host(),
			strerror(errno));
	return 1;
}

int oci_notify_wait(int fd, pid_t pid, struct err *e)
{
	autoclose int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p[2] = { { .fd = fd, .events = POLLIN }, { .fd = pidfd, .events = POLLIN } };
	int ready = 0;

	if (pidfd < 0)
		return errno == ESRCH ? 0 : err_sys(e, "watch the container's process");
	while (!ready && !p[1].revents) {
		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return err_sys(e, "wait for the container to be ready");
		if (p[0].revents)
			ready = oci_notify_take(fd, pid, e);
	}
	return ready < 0 ? -1 : 0;
}
