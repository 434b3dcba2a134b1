/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fdpass - sends and receives one packet with descriptors over a SOCK_SEQPACKET socket (unix(7),
 * SCM_RIGHTS).
 */
#ifndef BERTH_RUNTIME_KERNEL_FDPASS_H
#define BERTH_RUNTIME_KERNEL_FDPASS_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#define FDPASS_MAX 128

/* Sends n bytes (two parts) with count descriptors.  0, or -1 with errno. */
int fdpass_send2(int sock, const void *head, size_t head_len, const void *body, size_t body_len,
		 const int *fds, size_t count);
int fdpass_sendv(int sock, const struct iovec *part, size_t parts, const int *fds, size_t count);
int fdpass_send(int sock, const void *p, size_t n, const int *fds, size_t count);
/*
 * Receives one packet; its *ret_count descriptors are close-on-exec. Returns the bytes, 0 at the
 * end, -1 with errno.
 */
ssize_t fdpass_recv(int sock, void *p, size_t n, int *fds, size_t max, size_t *ret_count);
/* As fdpass_recv(), with flags of recvmsg(2), such as MSG_DONTWAIT. */
ssize_t fdpass_recv_flags(int sock, void *p, size_t n, int *fds, size_t max, size_t *ret_count, int flags);

#endif
