/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_switch - the switches of an interface below /proc/sys/net, in the caller's network
 * namespace; read back.
 */
#ifndef BERTH_RUNTIME_NET_LINK_SWITCH_H
#define BERTH_RUNTIME_NET_LINK_SWITCH_H

#include "base/err.h"

/* family: "ipv4", "ipv6". A switch that the kernel does not have is no failure. */
int link_switch(const char *family, const char *interface, const char *key, const char *value,
		struct err *e);
/* No router's word is believed, and no source that another interface leads to. */
int link_switches(const char *interface, struct err *e);

#endif
