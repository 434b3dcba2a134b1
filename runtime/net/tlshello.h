/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tlshello - reads the server name in a TLS client's first message (RFC 8446, 4.1.2; RFC 6066, 3).
 *
 * Pure, fed with hostile bytes: anything that two parsers could read in two ways is refused.
 */
#ifndef BERTH_RUNTIME_NET_TLSHELLO_H
#define BERTH_RUNTIME_NET_TLSHELLO_H

#include <stddef.h>

#define TLSHELLO_MAX 16384	/* bytes of a ClientHello; one with post-quantum keys has two thousand */
#define TLSHELLO_NAME 256	/* with the NUL */
#define TLSHELLO_ANSWER 43	/* bytes of a server's answer that identify it */

enum tlshello {
	TLSHELLO_BAD,		/* begins like a hello, and is not one */
	TLSHELLO_MORE,		/* more bytes are needed */
	TLSHELLO_OTHER,		/* another protocol */
	TLSHELLO_UNNAMED,	/* a hello without a name */
	TLSHELLO_NAMED,
};

/*
 * Reads the ClientHello at the beginning of a client's bytes, in any number of records. name gets
 * the server_name as spelled, or "" without one; ret_len the number of bytes of a whole hello. With
 * again this is the second hello: records of early data and change_cipher_spec before it are
 * skipped.
 */
enum tlshello tlshello_read(const unsigned char *p, size_t n, int again, char name[TLSHELLO_NAME], size_t *ret_len);
/*
 * Looks at the server's first TLSHELLO_ANSWER bytes: 1 if it asks for another ClientHello
 * (HelloRetryRequest).
 */
int tlshello_is_retry(const unsigned char *p);

#endif
