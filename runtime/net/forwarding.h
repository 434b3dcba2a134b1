/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forwarding - the host's own switches, net.ipv4.ip_forward and net.ipv6.conf.all.forwarding.
 *
 * A bridge needs them.  What berth itself switches on stands first in the file "forwarding" of the
 * pool's directory, with the boot and the network namespace it is true of.  When the last bridge is
 * gone it is switched off again, unless an interface came meanwhile that may rely on it; what
 * somebody else had switched on stays.  All of it happens under
 * the pool's lock: no sandbox starts while it is switched off.
 */
#ifndef BERTH_RUNTIME_NET_FORWARDING_H
#define BERTH_RUNTIME_NET_FORWARDING_H

#include "runtime/net/pool.h"

/*
 * Before a sandbox joins a bridge.  may: berth may switch it on; ERR_UNSUPPORTED when it must and
 * may not.  with6: the host has IPv6; *ret_route6: it forwards that.
 */
int forwarding_need(struct pool *p, int may, int with6, int *ret_route6, struct err *e);
/* The same of IPv6 alone: where berth may not switch it on it stays off, and that is no error. */
int forwarding_need6(struct pool *p, int may, int with6, int *ret_route6, struct err *e);
/* After a bridge was removed: what berth switched on goes off, unless another bridge or a
 * newer interface stands. */
int forwarding_restore(struct pool *p, struct err *e);

#endif
