/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tlshello - whom a TLS client asks for, in its first words (RFC 8446, 4.1.2; RFC 6066, 3).
 *
 * Pure, fed with hostile bytes: what two parsers could read in two ways is no hello.
 */
#ifndef BERTH_RUNTIME_NET_TLSHELLO_H
#define BERTH_RUNTIME_NET_TLSHELLO_H

#include <stddef.h>

#define TLSHELLO_MAX 16384	/* bytes of a ClientHello; those with post-quantum keys have two thousand */
#define TLSHELLO_NAME 256	/* with the NUL */
#define TLSHELLO_ANSWER 43	/* bytes of a server's answer that tell what it is */

enum tlshello {
	TLSHELLO_BAD,		/* it begins like one, and is none */
	TLSHELLO_MORE,		/* more is needed */
	TLSHELLO_OTHER,		/* another protocol */
	TLSHELLO_UNNAMED,	/* it names nobody */
	TLSHELLO_NAMED,
};

/*
 * The ClientHello at the beginning of what a client has sent, over as many records as
 * it has chosen.  name gets the server_name as it is spelled, and for others "";
 * ret_len, of one that is whole, how many bytes it took.
 * With again it is the second one: records of early data and change_cipher_spec before it are passed over.
 */
enum tlshello tlshello_read(const unsigned char *p, size_t n, int again, char name[TLSHELLO_NAME], size_t *ret_len);
/* The server's first TLSHELLO_ANSWER bytes: 1 when it asks for another ClientHello (HelloRetryRequest). */
int tlshello_is_retry(const unsigned char *p);

#endif
