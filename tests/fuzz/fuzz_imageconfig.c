/* SPDX-License-Identifier: Apache-2.0 */
/* An image config.  Every accepted Env entry is NAME=VALUE, the working directory absolute (E14). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rootfs/store/oci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct oci_config c;
	struct err e;
	json_t *v;
	size_t i;

	if (oci_config_parse((const char *)data, size, &c, &e) < 0)
		return 0;
	json_array_foreach(c.env, i, v) {
		const char *s = json_string_value(v);

		if (!s || !strchr(s, '=') || s[0] == '=' || strlen(s) != json_string_length(v))
			abort();
	}
	for (i = 0; i < c.diff_id_count; i++)
		if (!digest_is_valid(c.diff_ids[i]))
			abort();
	if (!c.diff_id_count || (c.workdir[0] && c.workdir[0] != '/') || strpbrk(c.user, "\n\r \t/"))
		abort();
	oci_config_release(&c);
	return 0;
}
