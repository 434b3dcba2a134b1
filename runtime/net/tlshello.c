/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S22 of SECURITY.md. */
#include "runtime/net/tlshello.h"

#include <string.h>

enum { CHANGE_CIPHER_SPEC = 20, HANDSHAKE = 22, APPLICATION_DATA = 23 };
enum { CLIENT_HELLO = 1, SERVER_HELLO = 2, SERVER_NAME = 0, HOST_NAME = 0 };

#define RECORD_HEAD 5
#define RECORD_MAX 16384
#define MESSAGE_HEAD 4

/* The bytes left to read; bad if a read went past the end. */
struct reader {
	const unsigned char *p;
	size_t n;
	int bad;
};

static struct reader take_hello_bytes(struct reader *r, size_t n)
{
	struct reader part = { r->p, n, r->bad };

	if (r->bad || n > r->n) {
		r->bad = part.bad = 1;
		part.n = 0;
		return part;
	}
	r->p += n;
	r->n -= n;
	return part;
}

static size_t read_hello_number(struct reader *r, size_t bytes)
{
	struct reader part = take_hello_bytes(r, bytes);
	size_t v = 0, i;

	for (i = 0; i < part.n; i++)
		v = v << 8 | part.p[i];
	return v;
}

/* Exactly one name, of a host: servers disagree about longer lists. */
static enum tlshello read_server_name(struct reader ext, char name[TLSHELLO_NAME])
{
	struct reader list = take_hello_bytes(&ext, read_hello_number(&ext, 2)), host;
	size_t kind = read_hello_number(&list, 1);

	host = take_hello_bytes(&list, read_hello_number(&list, 2));
	if (ext.bad || ext.n || list.bad || list.n || kind != HOST_NAME || !host.n || host.n >= TLSHELLO_NAME || memchr(host.p, 0, host.n))
		return TLSHELLO_BAD;
	memcpy(name, host.p, host.n);
	name[host.n] = '\0';
	return TLSHELLO_NAMED;
}

static enum tlshello read_extensions(struct reader list, char name[TLSHELLO_NAME])
{
	enum tlshello found = TLSHELLO_UNNAMED;

	while (list.n && !list.bad) {
		size_t kind = read_hello_number(&list, 2);
		struct reader ext = take_hello_bytes(&list, read_hello_number(&list, 2));

		if (list.bad)
			break;
		if (kind != SERVER_NAME)
			continue;
		if (found != TLSHELLO_UNNAMED)
			return TLSHELLO_BAD;
		found = read_server_name(ext, name);
		if (found == TLSHELLO_BAD)
			return found;
	}
	return list.bad ? TLSHELLO_BAD : found;
}

static enum tlshello read_hello(struct reader r, char name[TLSHELLO_NAME])
{
	struct reader session, ciphers, compressions, extensions;

	take_hello_bytes(&r, 2 + 32);	/* version, random */
	session = take_hello_bytes(&r, read_hello_number(&r, 1));
	ciphers = take_hello_bytes(&r, read_hello_number(&r, 2));
	compressions = take_hello_bytes(&r, read_hello_number(&r, 1));
	if (r.bad || session.n > 32 || ciphers.n < 2 || ciphers.n % 2 || !compressions.n)
		return TLSHELLO_BAD;
	if (!r.n)
		return TLSHELLO_UNNAMED;	/* an old client, without extensions */
	extensions = take_hello_bytes(&r, read_hello_number(&r, 2));
	return r.bad || r.n ? TLSHELLO_BAD : read_extensions(extensions, name);
}

enum tlshello tlshello_read(const unsigned char *p, size_t n, int again, char name[TLSHELLO_NAME], size_t *ret_len)
{
	unsigned char hello[MESSAGE_HEAD + TLSHELLO_MAX];
	size_t have = 0, want = MESSAGE_HEAD, len;
	struct reader r = { hello, 0, 0 };
	const unsigned char *begin = p;
	enum tlshello found;

	name[0] = '\0';
	if (!again && n && (p[0] != HANDSHAKE || (n > 1 && p[1] != 3)))
		return TLSHELLO_OTHER;
	while (have < want) {
		int passed_over = again && !have && n && (p[0] == CHANGE_CIPHER_SPEC || p[0] == APPLICATION_DATA);

		if (n && p[0] != HANDSHAKE && !passed_over)
			return TLSHELLO_BAD;
		if (n < RECORD_HEAD)
			return TLSHELLO_MORE;
		len = (size_t)p[3] << 8 | p[4];
		/* early data is encrypted, which takes some more */
		if (p[1] != 3 || !len || len > RECORD_MAX + (passed_over ? 256 : 0))
			return TLSHELLO_BAD;
		p += RECORD_HEAD;
		n -= RECORD_HEAD;
		if (passed_over && n < len)
			return TLSHELLO_MORE;
		if (!passed_over) {
			size_t part = n < len ? n : len;

			if (part > sizeof(hello) - have)
				return TLSHELLO_BAD;
			memcpy(hello + have, p, part);
			have += part;
			if (have && hello[0] != CLIENT_HELLO)
				return TLSHELLO_BAD;
			if (have >= MESSAGE_HEAD)
				want = MESSAGE_HEAD + ((size_t)hello[1] << 16 | (size_t)hello[2] << 8 | hello[3]);
			if (want > sizeof(hello))
				return TLSHELLO_BAD;
			if (have < want && n < len)
				return TLSHELLO_MORE;
			if (have >= want && n < len)
				return TLSHELLO_BAD;	/* the record goes on behind it */
		}
		p += len < n ? len : n;
		n -= len < n ? len : n;
	}
	/* the client's record must end with it: the server has not answered yet */
	if (have != want)
		return TLSHELLO_BAD;
	*ret_len = (size_t)(p - begin);
	r = (struct reader){ hello + MESSAGE_HEAD, want - MESSAGE_HEAD, 0 };
	found = read_hello(r, name);
	if (found != TLSHELLO_NAMED)
		name[0] = '\0';	/* the hello is malformed after the name */
	return found;
}

int tlshello_is_retry(const unsigned char *p)
{
	/* RFC 8446, 4.1.3: SHA-256 of "HelloRetryRequest" in the place of the random number */
	static const unsigned char retry[32] = {
		0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
		0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
	};

	return p[0] == HANDSHAKE && p[RECORD_HEAD] == SERVER_HELLO && !memcmp(p + RECORD_HEAD + MESSAGE_HEAD + 2, retry, sizeof(retry));
}
