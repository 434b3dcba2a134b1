/* SPDX-License-Identifier: Apache-2.0 */
/*
 * challenge - parses a WWW-Authenticate header (RFC 9110, 11.6.1).
 *
 * Pure, and strict: the text is hostile. A header that does not follow the grammar is refused as a
 * whole; nothing is guessed. Values hold no control characters, so none can reach a header or a
 * terminal.
 */
#ifndef BERTH_ROOTFS_REGISTRY_CHALLENGE_H
#define BERTH_ROOTFS_REGISTRY_CHALLENGE_H

#include <stddef.h>

#include "base/err.h"

#define CHALLENGE_HEADER_MAX 8192	/* bytes of one header */

struct challenge {
	int basic;		/* Basic was offered */
	int bearer;		/* Bearer was offered; realm is then not empty */
	char realm[2048];	/* the URL of Bearer's token server */
	char service[512];	/* Bearer's service; "" if it has none */
};

/*
 * Adds the challenges of one header's value (n bytes) to ret, which starts
 * zeroed and may collect several headers.  Of several Bearer challenges the
 * first counts.  Unknown schemes are passed over.  ERR_CORRUPT when malformed,
 * too long, or when a parameter is given twice.
 */
int challenge_parse(const char *value, size_t n, struct challenge *ret, struct err *e);

#endif
