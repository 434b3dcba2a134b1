/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S61 of SECURITY.md. */
#include "runtime/preview/preview.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/joint.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/program.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/net/confine.h"
#include "runtime/preview/head.h"

#define FLOW_BYTES 16384	/* in each direction of a connection; a head fits */
#define HEAD_OUT_MAX 24576	/* a head written anew */
#define HEAD_MS 20000		/* for the head of a request */
#define IDLE_MS 60000		/* between two requests */
#define STUCK_MS 120000		/* a side that neither sends nor takes anything */
#define LINGER_MS 2000		/* for a client to read what refuses it */
#define ASK_MS 60000		/* for berthd, which may start a sandbox */
#define CONNECT_MS 35000
#define TICK_MS 250
#define AGAIN_TICK_MS 10
#define NOTHING_AGAIN_MS 50
#define ROUNDS 16
#define EVENTS 128
#define PEM_MAX (256u << 10)
#define KEY_MAX 80		/* PORT-ID */
#define FILES_MAX (2 * PREVIEW_MOST + 64)
#define MEMORY_BYTES (512UL << 20)
#define UID 65534

enum source { SOURCE_DAEMON, SOURCE_LISTEN, SOURCE_CONN };

struct source_of {
	enum source kind;
	int fd;
};

/* Bytes on their way: [start, ok) may be sent, [ok, end) are not looked at; head is sent before them. */
struct flow {
	char *data;
	size_t start, ok, end;
	struct buf head;
	size_t head_at;
	int eof, shut;	/* the source has ended; the destination was told */
};

enum pstate { P_FREE, P_TLS, P_HEAD, P_ASK, P_WAIT, P_CONNECT, P_RELAY, P_TUNNEL, P_ENDING, P_DEAD };

struct pconn {
	struct source_of source;	/* the client's events, and the server's */
	enum pstate state;
	unsigned turn;			/* of the question that is open */
	int fd, server;
	SSL *ssl;
	int secure;
	char address[INET6_ADDRSTRLEN];
	struct flow up, down;
	struct previewhead rq;
	struct previewhead_answer answer;
	int answered;			/* the answer's head is parsed */
	int told;			/* bytes of an answer went to the client */
	int closing;			/* it ends with this answer */
	int with6, busy, unsent, moved;
	char key[KEY_MAX];		/* of what it is connected to, or "" */
	uint64_t deadline, again_at, waited_from;
	struct pconn *next, *next_busy;
};

struct preview {
	int epoll_fd;
	struct source_of daemon, listen[PREVIEW_LISTENS];
	size_t listens;
	SSL_CTX *tls;
	uint64_t most, per, wait_ms;
	struct pconn *conns, *unused, *dead, *busy;
	size_t count;
	int secure;			/* it speaks TLS only: without a certificate it accepts nobody */
	int muted, stopping;
	uint64_t used_at;
};

/* ---- the bytes of one side ---- */

static int flow_room(struct flow *f)
{
	if (!f->data && !(f->data = malloc(FLOW_BYTES)))
		return 0;
	if (f->start == f->end)
		f->start = f->ok = f->end = 0;
	if (f->end == FLOW_BYTES && f->start) {
		memmove(f->data, f->data + f->start, f->end - f->start);
		f->ok -= f->start;
		f->end -= f->start;
		f->start = 0;
	}
	return f->end < FLOW_BYTES;
}

static int flow_waits(const struct flow *f)
{
	return f->head_at < f->head.len || f->start < f->ok;
}

static void flow_forget(struct flow *f)
{
	free(f->data);
	buf_release(&f->head);
	*f = (struct flow){ .head = BUF_INIT(HEAD_OUT_MAX) };
}

/* Bytes; 0: the end; -1: none now; -2: an error. */
static long side_read(struct pconn *c, int client, char *p, size_t n)
{
	ssize_t got;
	int why;

	if (client && c->ssl) {
		ERR_clear_error();
		got = SSL_read(c->ssl, p, (int)n);
		if (got > 0)
			return got;
		why = SSL_get_error(c->ssl, (int)got);
		return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? -1 : why == SSL_ERROR_ZERO_RETURN ? 0 : -2;
	}
	do
		got = recv(client ? c->fd : c->server, p, n, 0);
	while (got < 0 && errno == EINTR);
	return got >= 0 ? got : errno == EAGAIN ? -1 : -2;
}

static long side_write(struct pconn *c, int client, const char *p, size_t n)
{
	ssize_t sent;
	int why;

	if (client && c->ssl) {
		ERR_clear_error();
		sent = SSL_write(c->ssl, p, (int)n);
		if (sent > 0)
			return sent;
		why = SSL_get_error(c->ssl, (int)sent);
		return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? -1 : -2;
	}
	do
		sent = send(client ? c->fd : c->server, p, n, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent >= 0 ? sent : errno == EAGAIN ? -1 : -2;
}

/* 1: something was read; 0: nothing now; -1: an error.  At the end eof is set. */
static int flow_fill(struct pconn *c, struct flow *f, int client)
{
	long n;

	if (f->eof || !flow_room(f))
		return 0;
	n = side_read(c, client, f->data + f->end, FLOW_BYTES - f->end);
	if (n > 0)
		f->end += (size_t)n;
	f->eof = n == 0;
	if (n > 0)
		c->moved = 1;
	return n == -2 ? -1 : n >= 0;
}

static int flow_send(struct pconn *c, struct flow *f, int client)
{
	const int of_head = f->head_at < f->head.len;
	const char *p = of_head ? f->head.data + f->head_at : f->data + f->start;
	const size_t n = of_head ? f->head.len - f->head_at : f->ok - f->start;
	long sent;

	if (!n)
		return 0;
	sent = side_write(c, client, p, n);
	if (sent <= 0)
		return sent == -1 ? 0 : -1;
	if (of_head)
		f->head_at += (size_t)sent;
	else
		f->start += (size_t)sent;
	c->moved = 1;
	if (client)
		c->told = 1;
	return 1;
}

/* ---- connections ---- */

static uint64_t in_ms(uint64_t ms)
{
	return clock_ms() + ms;
}

static int watch_side(struct preview *p, int fd, struct source_of *what)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = what };

	return epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void mute(struct preview *p, int muted)
{
	size_t i;

	muted |= p->secure && !p->tls;
	if (p->muted == muted)
		return;
	for (i = 0; i < p->listens; i++) {
		struct epoll_event ev = { .events = muted ? 0 : EPOLLIN, .data.ptr = &p->listen[i] };

		(void)!epoll_ctl(p->epoll_fd, EPOLL_CTL_MOD, p->listen[i].fd, &ev);
	}
	p->muted = muted;
}

static void kill_conn(struct preview *p, struct pconn *c, int reset)
{
	const struct linger at_once = { .l_onoff = 1 };

	if (c->state == P_DEAD || c->state == P_FREE)
		return;
	if (c->ssl) {
		if (!reset)
			SSL_shutdown(c->ssl);
		SSL_free(c->ssl);
		c->ssl = NULL;
	}
	if (reset)
		(void)!setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	fd_close(&c->fd);
	fd_close(&c->server);
	flow_forget(&c->up);
	flow_forget(&c->down);
	c->state = P_DEAD;
	c->next = p->dead;
	p->dead = c;
}

static void bury(struct preview *p)
{
	struct pconn *c;

	while ((c = p->dead)) {
		p->dead = c->next;
		c->state = P_FREE;
		c->next = p->unused;
		p->unused = c;
		p->count--;
		mute(p, 0);
	}
}

static void mark_busy(struct preview *p, struct pconn *c)
{
	if (c->busy)
		return;
	c->busy = 1;
	c->next_busy = p->busy;
	p->busy = c;
}

/* A client that has named nothing yet, or waits between requests, for one that has come. */
static int make_place(struct preview *p)
{
	struct pconn *oldest = NULL;
	size_t i;

	for (i = 0; i < p->most; i++) {
		struct pconn *c = &p->conns[i];

		if ((c->state == P_HEAD || c->state == P_TLS || c->state == P_ENDING) && (!oldest || c->deadline < oldest->deadline))
			oldest = c;
	}
	if (oldest)
		kill_conn(p, oldest, 0);
	return oldest != NULL;
}

static void name_client(struct pconn *c, const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)a)->sin_addr, c->address, sizeof(c->address));
	else
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)a)->sin6_addr, c->address, sizeof(c->address));
}

static void accept_clients(struct preview *p, const struct source_of *listen)
{
	struct sockaddr_storage from = { 0 };
	socklen_t n;
	struct pconn *c;
	int fd;

	for (;;) {
		if (!p->unused && !make_place(p)) {
			mute(p, 1);
			return;
		}
		/* its place is free in the next turn */
		if (!p->unused)
			return;
		n = sizeof(from);
		fd = accept4(listen->fd, (struct sockaddr *)&from, &n, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd < 0)
			return;
		c = p->unused;
		p->unused = c->next;
		p->count++;
		*c = (struct pconn){ .source = { SOURCE_CONN, -1 }, .state = P_HEAD, .fd = fd, .server = -1, .turn = c->turn + 1,
				     .up = { .head = BUF_INIT(HEAD_OUT_MAX) }, .down = { .head = BUF_INIT(HEAD_OUT_MAX) },
				     .deadline = in_ms(HEAD_MS), .busy = c->busy, .next_busy = c->next_busy };
		name_client(c, &from);
		joint_keep_alive(fd);
		if (p->secure) {
			c->secure = 1;
			c->state = P_TLS;
			c->ssl = SSL_new(p->tls);
		}
		if ((c->secure && (!c->ssl || !SSL_set_fd(c->ssl, fd))) || watch_side(p, fd, &c->source) < 0)
			kill_conn(p, c, 1);
	}
}

/* ---- what is told to a client ---- */

void preview_plain(char *text)
{
	for (; *text; text++)
		if (strchr("\"\\<>&", *text) || (unsigned char)*text < 0x20)
			*text = '\'';
}

static int add_page(struct buf *b, const struct pconn *c, const char *title, const char *text, struct err *e)
{
	if (!c->rq.wants_page)
		return buf_addf(b, e, "{\"error\":{\"message\":\"%s\",\"remedy\":\"%s\"}}\n", title, text);
	return buf_addf(b, e,
			"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>%s</title>"
			"<style>body{font:16px/1.5 system-ui,sans-serif;max-width:34em;margin:15vh auto;padding:0 1em;color:#222}"
			"h1{font-size:1.3em}@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}}</style>"
			"<h1>%s</h1><p>%s</p></html>\n", title, title, text);
}

static const char *reason_of(int status)
{
	static const struct { int status; const char *reason; } known[] = {
		{ 302, "Found" }, { 400, "Bad Request" }, { 401, "Unauthorized" }, { 403, "Forbidden" }, { 404, "Not Found" },
		{ 408, "Request Timeout" }, { 409, "Conflict" }, { 421, "Misdirected Request" }, { 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" }, { 502, "Bad Gateway" }, { 503, "Service Unavailable" }, { 504, "Gateway Timeout" },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(known); i++)
		if (known[i].status == status)
			return known[i].reason;
	return "Error";
}

/* Ends with an answer of our own: title and text are without quotes and markup. */
static void say(struct preview *p, struct pconn *c, int status, const char *title, const char *text)
{
	autobuf struct buf page = BUF_INIT(4096);
	struct err ignored;
	int r;

	if (c->told) {		/* a part of the server's answer went out: only its end can tell */
		kill_conn(p, c, 1);
		return;
	}
	fd_close(&c->server);
	buf_release(&c->down.head);
	c->down.head = (struct buf)BUF_INIT(HEAD_OUT_MAX);
	c->down.head_at = c->down.start = c->down.ok = c->down.end = 0;
	r = add_page(&page, c, title, text, &ignored);
	r = r < 0 ? r : buf_addf(&c->down.head, &ignored,
		"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
		"Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'\r\n%sConnection: close\r\n\r\n",
		status, reason_of(status), c->rq.wants_page ? "text/html; charset=utf-8" : "application/json", page.len,
		status == 503 ? "Retry-After: 1\r\n" : "");
	if (r == 0 && !c->rq.head)
		r = buf_add(&c->down.head, page.data, page.len, &ignored);
	if (r < 0) {
		kill_conn(p, c, 1);
		return;
	}
	c->state = P_ENDING;
	c->deadline = in_ms(LINGER_MS);
	mark_busy(p, c);
}

/* The token of the query becomes a cookie, and the address is without it. */
static void say_entered(struct preview *p, struct pconn *c, uint64_t seconds)
{
	struct err ignored;
	int r;

	r = buf_addf(&c->down.head, &ignored, "HTTP/1.1 302 Found\r\nLocation: ");
	/* "//x" would be another host's, so the host is said */
	r = r < 0 ? r : buf_addf(&c->down.head, &ignored, "%s://%s", c->secure ? "https" : "http", c->rq.authority);
	r = r < 0 ? r : buf_add(&c->down.head, c->up.head.data + c->rq.target_at, c->rq.target_len, &ignored);
	r = r < 0 ? r : buf_addf(&c->down.head, &ignored, "\r\nSet-Cookie: %s=%s; Path=/; Max-Age=%llu; HttpOnly; SameSite=Lax%s\r\n"
		"Content-Length: 0\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n",
		c->secure ? PREVIEWHEAD_SECURE : PREVIEWHEAD_COOKIE, c->rq.query, (unsigned long long)seconds, c->secure ? "; Secure" : "");
	if (r < 0) {
		kill_conn(p, c, 1);
		return;
	}
	c->state = P_ENDING;
	c->deadline = in_ms(LINGER_MS);
	mark_busy(p, c);
}

/* ---- berthd ---- */

static int tell_daemon(const struct preview *p, json_t *j)
{
	char text[PREVIEW_PACKET];
	const size_t n = j ? json_dumpb(j, text, sizeof(text), JSON_COMPACT) : 0;

	json_decref(j);
	if (!n || n > sizeof(text))
		return 0;
	return send(p->daemon.fd, text, n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static void ask(struct preview *p, struct pconn *c)
{
	const int enters = c->rq.query[0] && c->rq.reads && !c->rq.websocket && c->rq.wants_page;
	json_t *j = json_pack("{s:i,s:i,s:s,s:s,s:s,s:s,s:b,s:b,s:b}", "n", (int)(c - p->conns), "turn", (int)c->turn, "host", c->rq.host, "field",
			      c->rq.field, "query", c->rq.query, "cookie", c->rq.foreign ? "" : c->rq.cookie, "ipv6", c->with6,
			      "enter", enters, "waited", c->waited_from != 0);

	c->state = P_ASK;
	c->unsent = tell_daemon(p, j) < 0;
	c->deadline = in_ms(ASK_MS);
}

static size_t connections_of(const struct preview *p, const char *key)
{
	size_t i, n = 0;

	for (i = 0; i < p->most; i++)
		if (p->conns[i].state >= P_WAIT && p->conns[i].state <= P_TUNNEL && !strcmp(p->conns[i].key, key))
			n++;
	return n;
}

static void nothing_listens(struct preview *p, struct pconn *c)
{
	char text[240];
	const char *dash = strchr(c->key, '-');

	snprintf(text, sizeof(text), "Nothing listens on port %.*s of this sandbox. Start a server there, on 127.0.0.1 or on all "
		 "addresses, and load this page again.", dash ? (int)(dash - c->key) : 0, c->key);
	say(p, c, 502, "Nothing listens here yet", text);
}

static void wait_again(struct preview *p, struct pconn *c, uint64_t ms)
{
	if (!c->waited_from)
		c->waited_from = clock_ms();
	if (clock_ms() - c->waited_from >= p->wait_ms) {
		nothing_listens(p, c);
		return;
	}
	c->state = P_WAIT;
	c->with6 = 0;
	c->again_at = in_ms(ms);
	c->deadline = in_ms(p->wait_ms + ASK_MS);
}

static void take_socket(struct preview *p, struct pconn *c, int *fd)
{
	if (connections_of(p, c->key) >= p->per) {
		say(p, c, 503, "Too many connections", "This port of the sandbox has as many connections as it may have. Try again in a moment.");
		return;
	}
	c->server = take_fd(fd);
	c->state = P_CONNECT;
	c->deadline = in_ms(CONNECT_MS);
	if (watch_side(p, c->server, &c->source) < 0)
		kill_conn(p, c, 1);
	else
		mark_busy(p, c);
}

/* The answer to a question that is still open; a late one is that of a turn before. */
static void take_answer(struct preview *p, const json_t *j, int *fd)
{
	const json_int_t n = json_integer_value(json_object_get(j, "n"));
	const char *title = json_string_value(json_object_get(j, "title")), *key = json_string_value(json_object_get(j, "key"));
	const char *text = json_string_value(json_object_get(j, "text")), *mask = json_string_value(json_object_get(j, "mask"));
	struct pconn *c = n >= 0 && (uint64_t)n < p->most ? &p->conns[n] : NULL;
	struct err e;

	if (!c || c->state != P_ASK || (unsigned)json_integer_value(json_object_get(j, "turn")) != c->turn)
		return;
	c->turn++;
	if (key)
		snprintf(c->key, sizeof(c->key), "%s", key);
	if (json_object_get(j, "cookie"))
		say_entered(p, c, (uint64_t)json_integer_value(json_object_get(j, "cookie")));
	else if (json_object_get(j, "nothing") && c->waited_from)
		wait_again(p, c, NOTHING_AGAIN_MS);
	else if (json_object_get(j, "nothing"))
		nothing_listens(p, c);
	else if (json_object_get(j, "again"))
		wait_again(p, c, (uint64_t)json_integer_value(json_object_get(j, "again")));
	else if (*fd >= 0 && mask && previewhead_mask(&c->rq, mask, &c->up.head, &e) < 0)
		say(p, c, 431, "This request is refused", e.msg);
	else if (*fd >= 0)
		take_socket(p, c, fd);
	else
		say(p, c, (int)json_integer_value(json_object_get(j, "status")), title ? title : "Not available", text ? text : "");
}

static int load_tls(struct preview *p, const int fds[2])
{
	autobuf struct buf pem = BUF_INIT(PEM_MAX), key = BUF_INIT(PEM_MAX);
	SSL_CTX *fresh = SSL_CTX_new(TLS_server_method());
	BIO *in = NULL, *of_key = NULL;
	X509 *x = NULL;
	EVP_PKEY *k = NULL;
	struct err ignored;
	int r = -1;

	if (!fresh || io_read_all(fds[0], &pem, "certificate", &ignored) < 0 || io_read_all(fds[1], &key, "key", &ignored) < 0 || !pem.len || !key.len)
		goto out;
	in = BIO_new_mem_buf(pem.data, (int)pem.len);
	of_key = BIO_new_mem_buf(key.data, (int)key.len);
	x = in ? PEM_read_bio_X509(in, NULL, NULL, NULL) : NULL;
	k = of_key ? PEM_read_bio_PrivateKey(of_key, NULL, NULL, NULL) : NULL;
	if (!x || !k || SSL_CTX_use_certificate(fresh, x) != 1 || SSL_CTX_use_PrivateKey(fresh, k) != 1)
		goto out;
	while (X509_free(x), (x = PEM_read_bio_X509(in, NULL, NULL, NULL)))
		if (SSL_CTX_add1_chain_cert(fresh, x) != 1)
			goto out;
	SSL_CTX_set_min_proto_version(fresh, TLS1_2_VERSION);
	SSL_CTX_set_options(fresh, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_mode(fresh, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(fresh, SSL_SESS_CACHE_OFF);
	SSL_CTX_free(p->tls);	/* open connections hold the one before */
	p->tls = fresh;
	fresh = NULL;
	mute(p, 0);
	r = 0;
out:
	ERR_clear_error();
	X509_free(x);
	EVP_PKEY_free(k);
	BIO_free(in);
	BIO_free(of_key);
	SSL_CTX_free(fresh);
	return r;
}

/* One message; 0: none now, or berthd has gone. */
static int hear_daemon(struct preview *p)
{
	char text[PREVIEW_PACKET + 1];
	int fds[2] = { -1, -1 };
	size_t count = 0;
	ssize_t n = fdpass_recv_flags(p->daemon.fd, text, PREVIEW_PACKET, fds, 2, &count, MSG_DONTWAIT);
	struct err ignored;
	json_t *j;

	if (n <= 0) {
		p->stopping |= n == 0 || (errno != EAGAIN && errno != EINTR);
		return 0;
	}
	j = json_parse(text, (size_t)n, PREVIEW_PACKET, "message", &ignored);
	if (json_object_get(j, "tls") && count == 2 && load_tls(p, fds) < 0)
		tell_daemon(p, json_pack("{s:s}", "error", "the certificate and the key are not a pair in PEM"));
	else if (json_object_get(j, "n"))
		take_answer(p, j, &fds[0]);
	json_decref(j);
	fd_close(&fds[0]);
	fd_close(&fds[1]);
	return 1;
}

/* ---- a request ---- */

/* 1: it goes on at once; 0: wait; the connection may be dead. */
static int read_request(struct preview *p, struct pconn *c)
{
	const struct previewhead_from from = { c->address, c->secure };
	struct err e;
	int r, more = 0;

	if (c->up.end == c->up.start || !httphead_end(c->up.data + c->up.start, c->up.end - c->up.start)) {
		more = flow_fill(c, &c->up, 1);
		if (more < 0 || (c->up.eof && more >= 0)) {
			kill_conn(p, c, more < 0);
			return 0;
		}
		if (more && c->deadline > in_ms(HEAD_MS))
			c->deadline = in_ms(HEAD_MS);
	}
	if (c->up.end == c->up.start)
		return more;
	/* out of buf_release(): an earlier try has left bytes there */
	c->up.head.len = c->up.head_at = 0;
	r = previewhead_request(c->up.data + c->up.start, c->up.end - c->up.start, &from, &c->rq, &c->up.head, &e);
	if (r == 0) {
		c->up.head.len = 0;
		return more;
	}
	if (r < 0) {
		c->up.head.len = 0;
		c->rq = (struct previewhead){ .reads = 1 };
		preview_plain(e.msg);
		say(p, c, e.code == ERR_LIMIT ? 431 : 400, "This request is refused", e.msg);
		return 1;
	}
	c->up.start += c->rq.head_len;
	c->up.ok = c->up.start;
	c->answered = c->told = c->closing = c->with6 = 0;
	c->answer = (struct previewhead_answer){ 0 };
	c->waited_from = 0;
	c->key[0] = '\0';
	c->down.head.len = c->down.head_at = 0;
	c->down.eof = c->down.shut = 0;
	ask(p, c);
	return 0;
}

static int try_connected(struct preview *p, struct pconn *c)
{
	struct sockaddr_storage peer;
	socklen_t n = sizeof(int), size = sizeof(peer);
	int why = 0;

	if (getsockopt(c->server, SOL_SOCKET, SO_ERROR, &why, &n) < 0)
		why = errno;
	if (!why && getpeername(c->server, (struct sockaddr *)&peer, &size) < 0)
		return 0;
	if (!why) {
		joint_keep_alive(c->server);
		c->state = P_RELAY;
		c->deadline = in_ms(STUCK_MS);
		return 1;
	}
	fd_close(&c->server);
	if (!c->with6) {
		c->with6 = 1;
		ask(p, c);
	} else if (c->waited_from) {
		wait_again(p, c, NOTHING_AGAIN_MS);
	} else {
		nothing_listens(p, c);
	}
	return 0;
}

/* Looks at what came from the client: only the body of this request may go on. */
static int judge_up(struct pconn *c)
{
	long n;

	if (c->rq.body.done || c->up.ok == c->up.end)
		return 0;
	n = httpbody_take(&c->rq.body, c->up.data + c->up.ok, c->up.end - c->up.ok);
	if (n < 0)
		return -1;
	c->up.ok += (size_t)n;
	return n > 0;
}

/* 1: something has changed; 0; -1: what the server sends is no answer. */
static int judge_down(struct preview *p, struct pconn *c)
{
	struct flow *f = &c->down;
	struct err e;
	long n;
	int r;

	if (!c->answered) {
		if (f->head_at < f->head.len || f->start == f->end)
			return 0;
		f->head.len = f->head_at = 0;
		r = previewhead_answer(f->data + f->start, f->end - f->start, &c->rq, c->rq.keeps && c->rq.body.done && !p->stopping, &c->answer,
				       &f->head, &e);
		if (r <= 0) {
			f->head.len = 0;
			return r;
		}
		f->start += c->answer.head_len;
		f->ok = f->start;
		c->answered = !c->answer.interim;
		c->closing = !c->rq.keeps || !c->rq.body.done || c->answer.until_close;
		return 1;
	}
	if (c->answer.until_close) {
		n = (long)(f->end - f->ok);
	} else if (c->answer.body.done) {
		return 0;
	} else {
		n = httpbody_take(&c->answer.body, f->data + f->ok, f->end - f->ok);
		if (n < 0)
			return -1;
	}
	f->ok += (size_t)n;
	return n > 0;
}

/* The next request may be in the buffer already. */
static int next_request(struct preview *p, struct pconn *c)
{
	fd_close(&c->server);
	c->down.start = c->down.ok = c->down.end = 0;
	if (c->closing) {
		c->state = P_ENDING;
		c->deadline = in_ms(LINGER_MS);
		return 1;
	}
	c->state = P_HEAD;
	c->deadline = in_ms(IDLE_MS);
	flow_forget(&c->down);
	if (c->up.start == c->up.end)
		flow_forget(&c->up);
	(void)p;
	return 1;
}

static void end_by_server(struct preview *p, struct pconn *c)
{
	if (!c->told && !flow_waits(&c->down))
		say(p, c, 502, "The server in the sandbox gave no answer", "It ended the connection before it had answered. Its log may tell why.");
	else
		kill_conn(p, c, 1);
}

static int relay(struct preview *p, struct pconn *c)
{
	int moved = 0, r;

	/* to the server */
	if (!c->rq.body.done && !c->up.eof) {
		r = flow_fill(c, &c->up, 1);
		if (r < 0) {
			kill_conn(p, c, 1);
			return 0;
		}
		moved |= r;
	}
	if (judge_up(c) < 0) {
		say(p, c, 400, "This request is refused", "Its body is malformed.");
		return 1;
	}
	r = c->up.shut ? 0 : flow_send(c, &c->up, 0);
	/* a server that reads no more may have answered */
	c->up.shut |= r < 0;
	moved |= r > 0;
	/* from it */
	r = flow_fill(c, &c->down, 0);
	if (r < 0)
		c->down.eof = 1;
	moved |= r > 0;
	r = judge_down(p, c);
	if (r < 0) {
		say(p, c, 502, "The server in the sandbox does not speak HTTP", "What it sent is not an answer of HTTP/1.1.");
		return 1;
	}
	moved |= r;
	r = flow_send(c, &c->down, 1);
	if (r < 0) {
		kill_conn(p, c, 1);
		return 0;
	}
	moved |= r;
	if (c->answered && !flow_waits(&c->down)) {
		if (c->answer.upgraded) {
			c->state = P_TUNNEL;
			c->up.ok = c->up.end;
			c->down.ok = c->down.end;
			return 1;
		}
		if (c->answer.body.done && !c->answer.until_close)
			return next_request(p, c);
		if (c->answer.until_close && c->down.eof && c->down.ok == c->down.end)
			return next_request(p, c);
	}
	/* what is left of it is no whole head, or no whole body */
	if (c->down.eof && !moved && !flow_waits(&c->down)) {
		end_by_server(p, c);
		return 1;
	}
	return moved;
}

static int tunnel_way(struct pconn *c, struct flow *f, int to_client)
{
	int r = flow_fill(c, f, !to_client), moved = r;

	if (r < 0)
		return -1;
	f->ok = f->end;
	r = flow_send(c, f, to_client);
	if (r < 0)
		return -1;
	moved |= r;
	if (f->eof && !flow_waits(f) && !f->shut) {
		f->shut = 1;
		if (to_client && c->ssl)
			SSL_shutdown(c->ssl);
		shutdown(to_client ? c->fd : c->server, SHUT_WR);
	}
	return moved;
}

static int tunnel(struct preview *p, struct pconn *c)
{
	int a = tunnel_way(c, &c->up, 0), b = a < 0 ? -1 : tunnel_way(c, &c->down, 1);

	if (a < 0 || b < 0 || (c->up.shut && c->down.shut)) {
		kill_conn(p, c, a < 0 || b < 0);
		return 0;
	}
	return a | b;
}

/* The last bytes; then the client has a while to read them. */
static int ending(struct preview *p, struct pconn *c)
{
	char thrown[4096];
	int r = flow_send(c, &c->down, 1);
	long n;

	if (r < 0) {
		kill_conn(p, c, 1);
		return 0;
	}
	if (flow_waits(&c->down))
		return r;
	if (!c->down.shut) {
		c->down.shut = 1;
		if (c->ssl)
			SSL_shutdown(c->ssl);
		shutdown(c->fd, SHUT_WR);
	}
	n = c->ssl ? recv(c->fd, thrown, sizeof(thrown), 0) : side_read(c, 1, thrown, sizeof(thrown));
	if (n == 0 || n == -2 || (n < 0 && c->ssl && errno != EAGAIN)) {
		kill_conn(p, c, 0);
		return 0;
	}
	return n > 0;
}

static int handshake(struct preview *p, struct pconn *c)
{
	int r, why;

	ERR_clear_error();
	r = SSL_accept(c->ssl);
	if (r == 1) {
		c->state = P_HEAD;
		return 1;
	}
	why = SSL_get_error(c->ssl, r);
	if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
		kill_conn(p, c, 0);
	return 0;
}

static int step(struct preview *p, struct pconn *c)
{
	switch (c->state) {
	case P_TLS:
		return handshake(p, c);
	case P_HEAD:
		return read_request(p, c);
	case P_CONNECT:
		return try_connected(p, c);
	case P_RELAY:
		return relay(p, c);
	case P_TUNNEL:
		return tunnel(p, c);
	case P_ENDING:
		return ending(p, c);
	default:
		return 0;
	}
}

/* A client that has sent its end while it waits for an answer has gone, as other servers see it too. */
static int client_has_gone(const struct pconn *c)
{
	struct tcp_info t;
	socklen_t n = sizeof(t);

	if (c->state != P_ASK && c->state != P_WAIT && c->state != P_CONNECT && (c->state != P_RELAY || !c->rq.body.done))
		return 0;
	return getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &t, &n) == 0 && t.tcpi_state != TCP_ESTABLISHED;
}

static void move_conn(struct preview *p, struct pconn *c)
{
	int round;

	for (round = 0; round < ROUNDS; round++) {
		if (step(p, c) <= 0)
			break;
		if (c->state == P_RELAY)
			c->deadline = in_ms(STUCK_MS);
	}
	if (round == ROUNDS)
		mark_busy(p, c);
	/* silence between two messages is no fault of a WebSocket; data that nobody takes is */
	if (c->state == P_TUNNEL)
		c->deadline = flow_waits(&c->up) || flow_waits(&c->down) ? (c->deadline ? c->deadline : in_ms(STUCK_MS)) : 0;
}

/* ---- time ---- */

static void expire(struct preview *p, struct pconn *c)
{
	switch (c->state) {
	case P_ASK:
		say(p, c, 504, "The sandbox did not start in time", "Try again in a moment.");
		break;
	case P_CONNECT:
		say(p, c, 504, "The server in the sandbox takes no connection", "It listens, but accepts nothing.");
		break;
	case P_RELAY:
		if (!c->told && c->rq.body.done) {
			/* a long poll: only a client or a server that takes nothing is ended */
			if (!flow_waits(&c->up) && !flow_waits(&c->down)) {
				c->deadline = in_ms(STUCK_MS);
				break;
			}
		} else if (c->rq.body.done && !flow_waits(&c->down)) {
			c->deadline = in_ms(STUCK_MS);	/* a stream that is silent now */
			break;
		}
		kill_conn(p, c, 1);
		break;
	default:
		kill_conn(p, c, c->state == P_TUNNEL);
	}
}

static int has_used(json_t *list, const char *key)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v)
		if (!strcmp(json_string_value(v), key))
			return 1;
	return 0;
}

/* In packets: what more there is comes with the next. */
static void tell_used(struct preview *p)
{
	json_t *list = json_array();
	size_t i;

	for (i = 0; i < p->most && json_array_size(list) < 64; i++) {
		struct pconn *c = &p->conns[i];

		if ((c->state != P_RELAY && c->state != P_TUNNEL) || !c->moved || !c->key[0])
			continue;
		c->moved = 0;
		if (!has_used(list, c->key))
			json_array_append_new(list, json_string(c->key));
	}
	if (json_array_size(list))
		tell_daemon(p, json_pack("{s:O}", "used", list));
	json_decref(list);
}

/* What is due; returns how long the loop may sleep. */
static int look_at_time(struct preview *p)
{
	const uint64_t now = clock_ms();
	int waits = 0;
	size_t i;

	if (!p->count)
		return -1;
	for (i = 0; i < p->most; i++) {
		struct pconn *c = &p->conns[i];

		if (c->state == P_FREE || c->state == P_DEAD)
			continue;
		if (c->state == P_WAIT && now >= c->again_at)
			ask(p, c);
		else if (c->state == P_ASK && c->unsent)
			ask(p, c);
		if (c->deadline && now >= c->deadline)
			expire(p, c);
		waits |= c->state == P_WAIT || (c->state == P_ASK && c->unsent);
	}
	if (now >= p->used_at) {
		p->used_at = now + PREVIEW_USED_MS;
		tell_used(p);
	}
	return waits ? AGAIN_TICK_MS : TICK_MS;
}

/* ---- the loop ---- */

static void serve_source(struct preview *p, struct source_of *s, uint32_t events)
{
	struct pconn *c;

	switch (s->kind) {
	case SOURCE_DAEMON:
		while (hear_daemon(p))
			;
		break;
	case SOURCE_LISTEN:
		accept_clients(p, s);
		break;
	case SOURCE_CONN:
		c = (struct pconn *)s;
		if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR) && client_has_gone(c))
			kill_conn(p, c, 1);
		else
			move_conn(p, c);
		break;
	}
}

static void preview_loop(struct preview *p)
{
	struct epoll_event ev[EVENTS];
	uint64_t tick_at = 0;
	int i, n, sleep_ms = TICK_MS;

	while (!p->stopping) {
		struct pconn *c, *list;

		n = epoll_wait(p->epoll_fd, ev, EVENTS, p->busy ? 0 : sleep_ms);
		for (i = 0; i < n; i++)
			serve_source(p, ev[i].data.ptr, ev[i].events);
		list = p->busy;
		p->busy = NULL;
		while ((c = list)) {
			list = c->next_busy;
			c->busy = 0;
			move_conn(p, c);
		}
		if (clock_ms() >= tick_at || sleep_ms < 0) {
			sleep_ms = look_at_time(p);
			tick_at = in_ms(sleep_ms < 0 ? 0 : (uint64_t)sleep_ms);
		}
		bury(p);
	}
}

static int take_job(struct preview *p, pid_t *ret_parent, struct err *e)
{
	char text[PREVIEW_PACKET + 1];
	const ssize_t n = recv(p->daemon.fd, text, PREVIEW_PACKET, 0);
	autojson json_t *j = n > 0 ? json_parse(text, (size_t)n, PREVIEW_PACKET, "job", e) : NULL;
	json_t *job = NULL;
	uint64_t parent = 0, listens = 0, secure = 0;

	if (!j || json_get_obj(j, "job", &job, "job", e) < 1 || json_get_u64(job, "parent", &parent, "job", e) < 1 ||
	    json_get_u64(job, "most", &p->most, "job", e) < 1 || json_get_u64(job, "per", &p->per, "job", e) < 1 ||
	    json_get_u64(job, "wait_ms", &p->wait_ms, "job", e) < 1 || json_get_u64(job, "listens", &listens, "job", e) < 1 ||
	    json_get_u64(job, "secure", &secure, "job", e) < 1 || !p->most || p->most > PREVIEW_MOST || listens > PREVIEW_LISTENS)
		return err_set(e, ERR_INTERNAL, "berth-preview: a malformed job");
	p->secure = secure != 0;
	p->listens = listens;
	*ret_parent = (pid_t)parent;
	return 0;
}

static int make_ready(struct preview *p, struct err *e)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &p->daemon };
	size_t i;

	p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	p->conns = calloc(p->most, sizeof(*p->conns));
	if (p->epoll_fd < 0 || !p->conns)
		return err_sys(e, "make room for connections");
	for (i = p->most; i-- > 0;) {
		p->conns[i].fd = p->conns[i].server = -1;
		p->conns[i].next = p->unused;
		p->unused = &p->conns[i];
	}
	if (epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, p->daemon.fd, &ev) < 0)
		return err_sys(e, "watch berthd");
	p->muted = p->secure;
	for (i = 0; i < p->listens; i++) {
		p->listen[i] = (struct source_of){ SOURCE_LISTEN, PREVIEW_LISTEN + (int)i };
		ev = (struct epoll_event){ .events = p->muted ? 0 : EPOLLIN, .data.ptr = &p->listen[i] };
		if (epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, p->listen[i].fd, &ev) < 0)
			return err_sys(e, "watch a listening socket");
	}
	return 0;
}

int preview_run(struct err *e)
{
	static const struct confine_as how = { .uid = UID, .files = FILES_MAX, .memory_bytes = MEMORY_BYTES, .no_sockets = 1 };
	struct preview *p = calloc(1, sizeof(*p));
	pid_t parent = 0;

	if (!p)
		return err_nomem(e);
	signal(SIGPIPE, SIG_IGN);
	p->daemon = (struct source_of){ SOURCE_DAEMON, HELPER_SOCK };
	/* what OpenSSL reads from files it reads before there are none */
	OPENSSL_init_ssl(OPENSSL_INIT_LOAD_SSL_STRINGS | OPENSSL_INIT_LOAD_CRYPTO_STRINGS, NULL);
	SSL_CTX_free(SSL_CTX_new(TLS_server_method()));
	if (take_job(p, &parent, e) < 0 || make_ready(p, e) < 0 || confine_how(&how, parent, e) < 0)
		return -1;
	tell_daemon(p, json_pack("{s:b}", "ready", 1));
	preview_loop(p);
	return 0;
}
