/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange - one HTTP request of berth-http, to its end: logging in,
 * redirects, retries, and taking up a broken download where it broke.
 *
 * Built on libcurl's multi interface; nothing here blocks. libcurl decides nothing by itself: it
 * follows no redirect, and knows no credential, no cookie, no .netrc, and no protocol but http and
 * https.
 *
 * Every exchange belongs to a site, the registry the operator named.  A
 * credential or token goes to the site's own scheme, host and port only; to an
 * auth realm elsewhere only by the rule in auth.c.
 */
#ifndef BERTH_ROOTFS_HTTP_EXCHANGE_H
#define BERTH_ROOTFS_HTTP_EXCHANGE_H

#include <curl/curl.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "rootfs/registry/challenge.h"
#include "rootfs/registry/origin.h"
#include "rootfs/store/digest.h"

/* ---- the state of berth-http: its sites, their tokens, and the exchanges under way ---- */

#define HTTP_REDIRECTS_MAX 5
#define HTTP_HEADERS_MAX (128u << 10)	/* bytes of all headers of one answer */
#define HTTP_ERROR_TEXT_MAX 8192	/* bytes read of an error response */
#define HTTP_TOKEN_MAX 16384		/* bytes of a bearer token */
#define HTTP_TOKEN_ANSWER_MAX 65536
#define HTTP_SCOPE_MAX 2048
#define HTTP_PROGRESS_BYTES (1u << 20)	/* after so many bytes since the last failure the count of tries
					 * starts anew */

struct http_token {
	struct http_token *next;
	char *scope;
	char *token;
	uint64_t expires_ms;	/* on the monotonic clock */
};

/* A registry, by origin. */
struct http_site {
	struct http_site *next;
	struct origin origin;
	char *user, *password;		/* NULL if the site has none */
	char *identity_token;		/* OAuth2 refresh token, instead of both */
	int basic;			/* the site asked for Basic, so it is sent unasked from now on */
	int has_class;
	enum address_class class;	/* the most public class of address that was connected */
	struct http_token *tokens;
};

struct http {
	CURLM *multi;
	struct http_site *sites;
	char **realms;			/* "HOST=REALMHOST" */
	size_t realm_count;
	struct exchange *active;
	unsigned int retries;
	uint64_t stall_ms;
	char agent[80];
	char *ca;			/* further CA certificates, PEM */
	size_t ca_len;
	int has_proxy;
};

struct exchange {
	struct http *http;
	struct exchange *next;
	struct http_site *site;
	/* called once; err.code is 0 after a 2xx */
	void (*done)(struct exchange *x);
	void (*retrying)(struct exchange *x, uint64_t delay_ms);	/* may be NULL */
	void *ctx;

	/* the request, set by the caller after exchange_init() */
	const char *method;		/* GET, HEAD, POST, PUT, PATCH */
	char first_url[ORIGIN_URL_MAX];
	char scope[HTTP_SCOPE_MAX];	/* token scopes, separated by blanks; "" asks for none */
	const char *accept;
	const char *content_type;
	char *form;			/* POST body, or NULL */
	char *authorization;		/* the Authorization of a token request, sent as it is */
	int is_token;
	int in_fd;			/* PUT or PATCH body, or -1 */
	uint64_t in_from, in_size;	/* the part of in_fd that is sent */
	char content_range[48];		/* the Content-Range of a PATCH, or "" */
	int once;			/* the body can be sent in this attempt only */
	int out_fd;			/* non-blocking; gets a body of want_size bytes; -1: the body goes
					 * into text */
	uint64_t want_size;
	size_t text_max;

	/* the answer */
	struct err err;
	long status;
	struct buf text;
	uint64_t got;			/* bytes handed to out_fd, over all attempts */
	uint64_t sent;
	char type[128], digest[DIGEST_SIZE + 8], location[ORIGIN_URL_MAX];
	char upload_range[48];		/* "Range" of an answer: how many bytes of an upload the registry
					 * has */
	uint64_t chunk_min;		/* "OCI-Chunk-Min-Length", or 0 */

	/* inside */
	CURL *easy;
	struct curl_slist *headers;
	char url[ORIGIN_URL_MAX];	/* the URL of this attempt */
	char curl_error[CURL_ERROR_SIZE];
	struct challenge challenge;
	struct err challenge_err;
	struct err fatal;		/* the error of a callback; ends the exchange */
	size_t header_bytes;
	char range[80], encoding[32];
	uint64_t length, skip, in_at, retry_after_ms, tried_at, wake_ms;
	unsigned int tries, redirects;
	int started, enough, bad_header, paused, draining, fresh_token, sent_basic, no_range, has_length;
	char refused[200];		/* an address that we refused to connect to */
	unsigned char *pending;
	size_t pending_at, pending_len;
};

/* ---- exchanges ---- */

void exchange_init(struct exchange *x, struct http *h, struct http_site *site, const char *method);
/* Begins the exchange; done() may be called before this returns. */
void exchange_start(struct exchange *x);
void exchange_release(struct exchange *x);
/* Starts again at byte 0 on another site; bytes already delivered are kept. */
void exchange_move(struct exchange *x, struct http_site *site);

/* Returns 1 with the error if no registry may send us to the address `to`, even through a proxy. */
int exchange_refuses(const struct exchange *x, const struct origin *to, struct err *e);

/* Does one turn of the loop: waits for the network, sock or timers, at most timeout_ms. */
int http_turn(struct http *h, int sock, int timeout_ms, struct err *e);
/* Returns the site of an origin, made if it is missing. */
struct http_site *http_site(struct http *h, const struct origin *o, struct err *e);

/* ---- auth.c ---- */

/*
 * Returns the Authorization line for this attempt; the caller frees it. NULL with err.code 0 if
 * there is none.
 */
char *auth_header(struct exchange *x, struct err *e);
/*
 * Call it after a 401. 0: the exchange continues, now or when it has the token. -1 with err set: it
 * has failed.
 */
int auth_challenged(struct exchange *x, struct err *e);

#endif
