/* SPDX-License-Identifier: Apache-2.0 */
/*
 * challenge - what a WWW-Authenticate header asks for (RFC 9110, 11.6.1).
 *
 * Pure, and read strictly: the text is hostile.  A header that does not follow
 * the grammar is refused as a whole; nothing is guessed.  Values hold no
 * control characters, so none can end up in a header or on a terminal.
 */
#ifndef BERTH_ROOTFS_REGISTRY_CHALLENGE_H
#define BERTH_ROOTFS_REGISTRY_CHALLENGE_H

#include <stddef.h>

#include "base/err.h"

#define CHALLENGE_HEADER_MAX 8192	/* bytes of one header */

struct challenge {
	int basic;		/* Basic was offered */
	int bearer;		/* Bearer was offered; then realm is not empty */
	char realm[2048];	/* of Bearer: the URL of the token server */
	char service[512];	/* of Bearer, "" when none */
};

/*
 * Adds the challenges of one header's value (n bytes) to ret, which starts
 * zeroed and may collect several headers.  Of several Bearer challenges the
 * first counts.  Unknown schemes are passed over.  ERR_CORRUPT when malformed,
 * too long, or when a parameter is given twice.
 */
int challenge_parse(const char *value, size_t n, struct challenge *ret, struct err *e);

#endif
