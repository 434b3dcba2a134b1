/* SPDX-License-Identifier: Apache-2.0 */
/*
 * origin - scheme, host and port of a URL, to which a credential is bound.
 *
 * Pure. URLs come from redirects, upload locations and auth realms: hostile. The grammar is
 * narrower than that of any URL library (no user, no escapes in the host, only canonical IPv4),
 * so the host that we judge and the host that libcurl connects to cannot differ.
 */
#ifndef BERTH_ROOTFS_REGISTRY_ORIGIN_H
#define BERTH_ROOTFS_REGISTRY_ORIGIN_H

#include <stddef.h>
#include <sys/socket.h>

#include "base/err.h"

#define ORIGIN_URL_MAX 8192	/* bytes of a URL with its NUL; signed blob URLs are long */
#define ORIGIN_TEXT_MAX 280	/* "https://HOST:PORT" */

struct origin {
	int tls;		/* https, else http */
	char host[254];		/* lower case; IPv6 in brackets */
	unsigned int port;
};

/* The kind of an address. */
enum address_class {
	ADDRESS_PUBLIC,
	ADDRESS_PRIVATE,	/* RFC 1918, RFC 6598, fc00::/7 */
	ADDRESS_LOOPBACK,
	ADDRESS_NEVER,		/* link-local (cloud metadata), multicast, unspecified, reserved */
};

/*
 * Reads "http://..." or "https://...".  *ret_path (may be NULL) points to what
 * follows the authority: "", or text that starts with '/' or '?'.  ERR_INVALID
 * otherwise; what names the URL in errors.
 */
int origin_parse(const char *url, const char *what, struct origin *ret, const char **ret_path, struct err *e);
/*
 * Parses HOST[:PORT] without a scheme, as in references and the configuration; tls selects the
 * default port.
 */
int origin_from_host(const char *host, int tls, struct origin *ret, struct err *e);
int origin_equal(const struct origin *a, const struct origin *b);
/* Formats "https://HOST[:PORT]"; the port only if it is not the scheme's default. */
void origin_format(const struct origin *o, char ret[ORIGIN_TEXT_MAX]);
/*
 * Resolves a Location header against base (an absolute URL): absolute, "//host/path", "/path",
 * "?query" or relative. A fragment is cut off.
 */
int origin_resolve(const char *base, const char *location, char ret[ORIGIN_URL_MAX], struct err *e);
/* 1 when host is an IP address, with its class in *ret_class (may be NULL). */
int origin_is_address(const struct origin *o, enum address_class *ret_class);

enum address_class address_classify(const struct sockaddr *sa);
const char *address_class_name(enum address_class c);

#endif
