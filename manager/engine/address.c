/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "manager/engine/create.h"

#define OWN_CHOICE "berth chooses the addresses in a subnet"

int engine_address_endpoint(const json_t *end, struct err *e)
{
	const char *four = "", *six = "";
	json_t *ipam, *local;

	if (engine_obj(end, "IPAMConfig", &ipam, e) < 0 ||
	    engine_str(ipam, "IPv4Address", &four, e) < 0 ||
	    engine_str(ipam, "IPv6Address", &six, e) < 0 ||
	    engine_arr(ipam, "LinkLocalIPs", &local, e) < 0)
		return -1;
	if (four[0] || six[0])
		return err_set(e, ERR_UNSUPPORTED,
			       "the address %.60s of a container is not taken: " OWN_CHOICE,
			       four[0] ? four : six);
	return json_array_size(local) ?
		       err_set(e, ERR_UNSUPPORTED,
			       "link-local addresses of a container are not taken: " OWN_CHOICE) :
		       0;
}

/* Whether gateway is the first address of the subnet. */
static int is_first(const char *subnet, const char *gateway)
{
	unsigned char net[16], gate[16];
	const int family = strchr(subnet, ':') ? AF_INET6 : AF_INET;
	const size_t size = family == AF_INET6 ? 16 : 4;
	const char *slash = strchr(subnet, '/');
	char text[64];
	struct err ignored;
	uint64_t bits;
	size_t i;

	snprintf(text, sizeof(text), "%.*s", slash ? (int)(slash - subnet) : 0, subnet);
	if (!slash || num_u64(slash + 1, "prefix", 0, size * 8 - 1, &bits, &ignored) < 0 ||
	    inet_pton(family, text, net) != 1 || inet_pton(family, gateway, gate) != 1)
		return 0;
	for (i = bits; i < size * 8; i++)
		net[i / 8] &= (unsigned char)~(128u >> i % 8);
	net[size - 1] |= 1;
	return !memcmp(net, gate, size);
}

int engine_address_pool(const json_t *pool, struct err *e)
{
	const char *subnet = "", *range = "", *gateway = "";
	json_t *further;

	if (engine_str(pool, "Subnet", &subnet, e) < 0 || engine_str(pool, "IPRange", &range, e) < 0 ||
	    engine_str(pool, "Gateway", &gateway, e) < 0 ||
	    engine_obj(pool, "AuxiliaryAddresses", &further, e) < 0)
		return -1;
	if (range[0] || json_object_size(further))
		return err_set(e, ERR_UNSUPPORTED,
			       "%s of a network are not taken: " OWN_CHOICE,
			       range[0] ? "ranges" : "auxiliary addresses");
	return gateway[0] && !is_first(subnet, gateway) ?
		       err_set(e, ERR_UNSUPPORTED,
			       "the gateway %.60s is not taken: it is the first address of a subnet",
			       gateway) :
		       0;
}
