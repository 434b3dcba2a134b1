/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forwarding - the host's own switches of forwarding, net.ipv4.ip_forward and
 * net.ipv6.conf.all.forwarding.
 *
 * A bridge needs them. Before berth switches one on, it records that in the file "forwarding" of
 * the pool's directory, with the boot and the network namespace for which it is true. When the
 * last bridge is gone, berth switches it off again, unless an interface was added meanwhile that
 * may rely on it; a switch that another program turned on stays. All of this happens under the
 * pool's lock, so no sandbox starts during a switch.
 */
#ifndef BERTH_RUNTIME_NET_FORWARDING_H
#define BERTH_RUNTIME_NET_FORWARDING_H

#include "runtime/net/pool.h"

/*
 * Call it before a sandbox joins a bridge. may: berth may switch forwarding on; ERR_UNSUPPORTED if
 * it is off and berth may not. with6: the host has IPv6; *ret_route6: the host forwards IPv6.
 */
int forwarding_need(struct pool *p, int may, int with6, int *ret_route6, struct err *e);
/* Tells whether the host forwards IPv4. */
int forwarding_stands(void);
/* As forwarding_need(), for IPv6 alone: if berth may not switch it on it stays off, and that is no error. */
int forwarding_need6(struct pool *p, int may, int with6, int *ret_route6, struct err *e);
/*
 * Call it after a bridge was removed: switches off what berth switched on, unless another bridge or
 * a newer interface exists.
 */
int forwarding_restore(struct pool *p, struct err *e);

#endif
