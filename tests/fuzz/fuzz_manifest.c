/* SPDX-License-Identifier: Apache-2.0 */
/* A manifest or an index.  No document may be accepted as both (CVE-2021-41190). */
#include <stdint.h>
#include <stdlib.h>

#include "rootfs/store/oci.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	struct oci_manifest m;
	struct oci_index x;
	int is_manifest, is_index;
	struct err e;
	size_t i;

	is_manifest = !oci_manifest_parse(text, size, NULL, &m, &e);
	is_index = !oci_index_parse(text, size, NULL, &x, &e);
	if (is_manifest && is_index)
		abort();
	if (is_manifest) {
		if (!m.layer_count || !digest_is_valid(m.config.digest) || m.config.kind != OCI_CONFIG)
			abort();
		for (i = 0; i < m.layer_count; i++)
			if (!digest_is_valid(m.layers[i].digest) || m.layers[i].kind != OCI_LAYER)
				abort();
		oci_manifest_release(&m);
	}
	if (is_index) {
		for (i = 0; i < x.count; i++)
			if (!digest_is_valid(x.entries[i].desc.digest))
				abort();
		oci_index_release(&x);
	}
	return 0;
}
