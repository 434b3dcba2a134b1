/* SPDX-License-Identifier: Apache-2.0 */
/* listenaddr - the ADDRESS:PORT at which a door of berthd listens. */
#ifndef BERTH_MANAGER_API_LISTENADDR_H
#define BERTH_MANAGER_API_LISTENADDR_H

#include <sys/socket.h>

#include "base/err.h"

/*
 * Reads text, the value of key ("preview.listen"): 1 for a loopback address, 0 for another; -1 with
 * ERR_CONFIG that names example.
 */
int listenaddr_parse(const char *key, const char *text, const char *example, struct sockaddr_storage *ret, socklen_t *ret_n, struct err *e);
/* Listens there without waiting: a descriptor, with the port that it got; -1 with ERR_SYS. */
int listenaddr_listen(const char *text, const struct sockaddr_storage *a, socklen_t n, unsigned *ret_port, struct err *e);

#endif
