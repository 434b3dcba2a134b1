/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What agent.js cannot do in JavaScript: take the descriptors of a request.
 *
 * A library that node loads (Node-API, https://nodejs.org/api/n-api.html).  It is linked with
 * nothing: node, and the C library that node itself is linked with, have the symbols.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/sandbox/initproto.h"

#define STD_AND_FILE 4

typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef struct napi_callback_info__ *napi_callback_info;
typedef napi_value (*napi_callback)(napi_env env, napi_callback_info info);

int napi_create_function(napi_env env, const char *name, size_t len, napi_callback f, void *data,
			 napi_value *ret);
int napi_create_int32(napi_env env, int32_t n, napi_value *ret);
/* what node looks for in the library */
napi_value napi_register_module_v1(napi_env env, napi_value exports);

static ssize_t receive(int *fds, size_t size)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(STD_AND_FILE * sizeof(int))];
	} control;
	char byte;
	struct iovec part = {&byte, 1};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	ssize_t n;
	size_t i;

	do
		n = recvmsg(INIT_STATUS_FD, &m, 0);
	while (n < 0 && errno == EINTR);
	if (n > 0 && (m.msg_controllen < sizeof(struct cmsghdr) ||
		      control.head.cmsg_len != CMSG_LEN(size * sizeof(int))))
		return -1;
	for (i = 0; n > 0 && i < size; i++)
		fds[i] = ((const int *)(const void *)CMSG_DATA(&control.head))[i];
	return n;
}

/* Says that the preload is done, waits for a request, and returns the descriptor of its file. */
static napi_value take(napi_env env, napi_callback_info info)
{
	int fds[STD_AND_FILE], null = open("/dev/null", O_RDWR | O_CLOEXEC), i;
	napi_value file = NULL;
	ssize_t n;

	(void)info;
	for (i = 0; i < 3 && null >= 0; i++)
		dup2(null, i);
	if (null >= 0)
		close(null);
	if (write(INIT_STATUS_FD, "", 1) != 1)
		_exit(125);
	n = receive(fds, STD_AND_FILE);
	if (n <= 0)
		_exit(n < 0 ? 125 : 0);
	for (i = 0; i < 3; i++)
		if (dup2(fds[i], i) < 0)
			_exit(125);
	for (i = 0; i < 3; i++)
		close(fds[i]);
	close(INIT_STATUS_FD);
	fcntl(fds[3], F_SETFD, FD_CLOEXEC);
	napi_create_int32(env, fds[3], &file);
	return file;
}

napi_value napi_register_module_v1(napi_env env, napi_value exports)
{
	napi_value f = NULL;

	(void)exports;
	close(INIT_SCRIPT_FD); /* this library */
	fcntl(INIT_STATUS_FD, F_SETFD, FD_CLOEXEC);
	napi_create_function(env, "take", 4, take, NULL, &f);
	return f;
}
