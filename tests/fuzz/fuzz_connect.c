/* SPDX-License-Identifier: Apache-2.0 */
/* A message of the Connect protocol.  What is accepted is JSON within its envelope. */
#include <stdint.h>
#include <stdlib.h>

#include "manager/api/estream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = { 0 };
	json_t *j = connectrpc_parse((const char *)data, size, &e);

	if (!j && (!e.code || !e.msg[0]))
		abort();
	if (j && (size < 5 || data[0] & 1))
		abort();
	json_decref(j);
	return 0;
}
