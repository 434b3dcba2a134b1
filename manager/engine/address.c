/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/address.h"

#include <string.h>

#include "base/mem.h"
#include "manager/engine/create.h"
#include "manager/ops/call.h"

int engine_address_endpoint(const json_t *end, json_t *ret_list, struct err *e)
{
	const char *four = "", *six = "", *mac = "";
	json_t *ipam, *local;

	if (engine_obj(end, "IPAMConfig", &ipam, e) < 0 ||
	    engine_str(ipam, "IPv4Address", &four, e) < 0 ||
	    engine_str(ipam, "IPv6Address", &six, e) < 0 ||
	    engine_arr(ipam, "LinkLocalIPs", &local, e) < 0 || engine_str(end, "MacAddress", &mac, e) < 0)
		return -1;
	if (json_array_size(local))
		return err_set(e, ERR_UNSUPPORTED, "link-local addresses of a container are not taken: berth chooses them");
	if (ret_list && four[0])
		json_array_append_new(ret_list, json_string(four));
	if (ret_list && six[0])
		json_array_append_new(ret_list, json_string(six));
	return four[0] || six[0];
}

/* One more value of an option that is a list. */
static void add_pool_value(json_t *call, const char *option, json_t *value)
{
	json_t *options = json_object_get(call, "options"), *list = json_object_get(options, option);

	if (!list)
		json_object_set_new(options, option, list = json_array());
	json_array_append_new(list, value);
}

int engine_address_pool(const json_t *pool, json_t *call, struct err *e)
{
	static const char *const rows[][2] = { { "Subnet", "subnet" }, { "IPRange", "ip-range" }, { "Gateway", "gateway" } };
	json_t *further, *address;
	const char *name;
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		const char *text = "";

		if (engine_str(pool, rows[i][0], &text, e) < 0)
			return -1;
		if (text[0])
			add_pool_value(call, rows[i][1], json_string(text));
	}
	if (engine_obj(pool, "AuxiliaryAddresses", &further, e) < 0)
		return -1;
	json_object_foreach (further, name, address) {
		if (!json_is_string(address))
			return err_set(e, ERR_INVALID, "invalid JSON: AuxiliaryAddresses.%.60s is not a string", name);
		add_pool_value(call, "aux-address", json_sprintf("%s=%s", name, json_string_value(address)));
	}
	return 0;
}
