/* SPDX-License-Identifier: Apache-2.0 */
/* sdnotify - one datagram to a service manager's socket, sd_notify(3) without its library. */
#ifndef BERTH_BASE_SDNOTIFY_H
#define BERTH_BASE_SDNOTIFY_H

/* 1 when address is usable: an absolute path, or "@" and an abstract name, that fits sockaddr_un. */
int sdnotify_address_ok(const char *address);
/*
 * Sends "READY=1" or the like; a datagram that nobody receives is lost, as with sd_notify(3). 0,
 * or -1 with errno.
 */
int sdnotify_send(const char *address, const char *text);

#endif
