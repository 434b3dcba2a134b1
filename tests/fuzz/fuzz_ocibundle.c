/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A config.json of an OCI bundle: what the table of types lets through must be
 * readable without further checks, by those who then rely on it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/oci/json.h"
#include "runtime/oci/mount.h"
#include "runtime/oci/seccomp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = { 0 };
	autojson json_t *config = oci_json_parse((const char *)data, size, "config.json", &e);
	struct oci_seccomp filter = { 0 };
	const json_t *v;
	size_t i;

	if (!config) {
		if (!e.code || !e.msg[0])
			abort();
		return 0;
	}
	if (oci_schema_check(config, OCI_CONFIG, "config.json", &e) < 0)
		return 0;
	if (!oci_str(config, "ociVersion"))
		abort();
	json_array_foreach(oci_get(config, "mounts"), i, v) {
		struct oci_mount m;

		if (oci_mount_read(&m, v, &e) == 0 && (!m.destination || (m.bind && !m.source) || (m.set & m.clear & 0xf)))
			abort();
	}
	if (oci_seccomp_compile(&filter, oci_get2(config, "linux", "seccomp"), &e) == 0 && filter.insns && !filter.count)
		abort();
	oci_seccomp_release(&filter);
	return 0;
}
