/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dnsmsg - reads and makes the messages of the DNS (RFC 1035) that a stub resolver's server needs.
 *
 * Pure. A client's query is hostile: it is read in full or refused, and the query to another
 * server is made anew from it, so that only its question is passed on.
 */
#ifndef BERTH_RUNTIME_NET_DNSMSG_H
#define BERTH_RUNTIME_NET_DNSMSG_H

#include <stddef.h>
#include <stdint.h>

#include "base/netaddr.h"

#define DNSMSG_NAME 254		/* a name as text, with the NUL */
#define DNSMSG_QUERY 288	/* the longest query that dnsmsg_ask() makes */
#define DNSMSG_SMALL 512	/* bytes of an answer over UDP, unless the client says otherwise */
#define DNSMSG_LARGE 1232	/* most bytes of a message to a client, so that it is not fragmented */
#define DNSMSG_MAX 65535

enum dnsmsg_code { DNSMSG_OK, DNSMSG_FORMERR, DNSMSG_SERVFAIL, DNSMSG_NXDOMAIN, DNSMSG_NOTIMP,
	DNSMSG_REFUSED };
enum dnsmsg_type { DNSMSG_A = 1, DNSMSG_PTR = 12, DNSMSG_AAAA = 28, DNSMSG_OPT = 41 };

struct dnsmsg {
	uint16_t id, flags;	/* flags of the query: RD, AD and CD only */
	uint16_t type, class;
	char name[DNSMSG_NAME];	/* lower case, without the last dot; "": the root, or an odd name */
	int odd;		/* a label has bytes that none of our names has */
	unsigned labels;
	size_t end;		/* end of the question; 0: it could not be read */
	int edns, dnssec;	/* the query has an OPT record; that record asks for signatures */
	uint16_t size;		/* bytes of the longest answer over UDP that the client takes */
};

/*
 * Reads a query of n bytes. DNSMSG_OK, or the code to answer with; -1 if the packet gets no answer:
 * it has no header, or is an answer itself.
 */
int dnsmsg_read(const uint8_t *p, size_t n, struct dnsmsg *ret);
/* Writes header and question of an answer to the query p to out (DNSMSG_SMALL); returns its length. */
size_t dnsmsg_reply(const struct dnsmsg *q, const uint8_t *p, enum dnsmsg_code code, int ours,
		    uint8_t *out);
/* Adds a record for the question's name, with a life of 0 seconds; out has room for DNSMSG_SMALL. */
void dnsmsg_add(uint8_t *out, size_t *len, uint16_t type, const void *data, size_t n);
/* Adds the OPT record, which must be the last. */
void dnsmsg_add_opt(const struct dnsmsg *q, uint8_t *out, size_t *len);
/* Encodes a name as records have it; returns its length, or 0 if text is not a name. */
size_t dnsmsg_name(const char *text, uint8_t out[256]);
/* Returns 1 if name asks for the name of an address (in-addr.arpa, ip6.arpa), which goes to *ret. */
int dnsmsg_reverse(const char *name, struct netaddr *ret);
/* Makes the query p again, with another id, for another server; returns its length. */
size_t dnsmsg_ask(const struct dnsmsg *q, const uint8_t *p, uint16_t id, uint8_t out[DNSMSG_QUERY]);
/* Returns 1 if the n bytes at p answer the query of dnsmsg_ask(), whose question ends at end. */
int dnsmsg_answers(const uint8_t *asked, size_t end, const uint8_t *p, size_t n);
/* Cuts an answer that is longer than max to one that says so; returns its length. */
size_t dnsmsg_shorten(uint8_t *p, size_t n, size_t end, size_t max);

#endif
