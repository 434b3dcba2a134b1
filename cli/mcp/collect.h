/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect - the beginning and the end of a command's output.
 *
 * Pure. It never holds more than three times max_bytes.
 */
#ifndef BERTH_CLI_MCP_COLLECT_H
#define BERTH_CLI_MCP_COLLECT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/json.h"

struct collect {
	struct buf kept;
	size_t max_bytes;
	uint64_t total_bytes;		/* that came */
	size_t gap;			/* in kept, where bytes were left out; only with dropped */
	uint64_t dropped_bytes;
};

/* max_bytes: of the beginning and the end together, at least 2. */
void collect_init(struct collect *c, size_t max_bytes);
void collect_release(struct collect *c);
/* ERR_NOMEM. */
int collect_add(struct collect *c, const char *p, size_t n, struct err *e);
/*
 * Adds the kept part to text as UTF-8, with a line that says how much was left out in between.
 * Bytes that are not characters, and NUL, become U+FFFD (Unicode 15, section 3.9, D93b).
 */
int collect_text(struct collect *c, struct buf *text, struct err *e);

#endif
