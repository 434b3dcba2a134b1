/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sigv4 - AWS Signature Version 4 for requests with a body whose hash is known.
 *
 * Pure but for the hashing.  Written after "Signature Version 4 signing process"
 * of AWS; tested against the vectors published there.  libcurl signs too, but
 * before 8 neither sorts the query nor encodes the path as S3 wants it.
 */
#ifndef BERTH_MANAGER_OBJECTS_SIGV4_H
#define BERTH_MANAGER_OBJECTS_SIGV4_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define SIGV4_EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct sigv4_pair {
	const char *name, *value;
};

struct sigv4_request {
	const char *method;
	const char *path;		/* as it is, not encoded; begins with / */
	const struct sigv4_pair *query;	/* as they are; any order */
	size_t query_count;
	const struct sigv4_pair *headers;	/* to be signed: names in lower case, any order; host and x-amz-date among them */
	size_t header_count;
	const char *payload_sha256;
	const char *date;		/* 20130524T000000Z */
	const char *region, *service;
	const char *access_key, *secret_key;
};

/* The value of the Authorization header. */
int sigv4_sign(const struct sigv4_request *r, struct buf *out, struct err *e);
/* Appends the canonical query, or an encoded path (keep_slash), in the form of the URL. */
int sigv4_query(const struct sigv4_request *r, struct buf *out, struct err *e);
int sigv4_encode(const char *s, int keep_slash, struct buf *out, struct err *e);

#endif
