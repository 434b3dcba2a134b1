/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S61 of SECURITY.md. */
#include "manager/api/preview.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/mem.h"
#include "base/netaddr.h"
#include "base/num.h"
#include "base/path.h"
#include "base/program.h"
#include "manager/api/boxkey.h"
#include "manager/api/e2b.h"
#include "manager/api/listenaddr.h"
#include "manager/api/tokens.h"
#include "manager/host/conf.h"
#include "manager/host/labels.h"
#include "manager/host/names.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/netclient.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/ops/call.h"
#include "manager/service/dlog.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/preview/preview.h"

#define PREVIEW_THREADS 8
#define PREVIEW_KEEPER_MS 5000
#define PREVIEW_START_MS 5000		/* for berth-preview to be ready */
#define PREVIEW_REST_MS 1000		/* between two of it, if one fell */
#define PREVIEW_AGAIN_MS 50
#define DIGEST 32

struct preview_server {
	struct api *api;
	struct conf conf;
	pthread_mutex_t lock;		/* guards helper.sock and conf's certificate */
	pthread_t thread;
	struct helper helper;
	int listen_fd, program_fd;
	_Atomic int stopping;
	int stop_fd[2];
	unsigned port;			/* that it listens on */
	int is_secure;			/* behind TLS, as at its start */
};

/* ---- what an owner has said ---- */

json_t *preview_rules(struct registry *r, const char *id, struct err *e)
{
	json_t *j = registry_load(r, id, PREVIEW_FILE, e);

	return j ? j : e->code == ERR_NOT_FOUND ? json_object() : NULL;
}

int preview_is_public(const json_t *rules, unsigned port)
{
	const json_t *v;
	size_t i;

	json_array_foreach(json_object_get(rules, "public"), i, v)
		if (json_integer_value(v) == (json_int_t)port)
			return (int)i + 1;
	return 0;
}

int preview_is_open(const json_t *rules, unsigned port)
{
	return json_is_true(json_object_get(rules, PREVIEW_ALL)) || preview_is_public(rules, port);
}

static int code_of(const unsigned char secret[32], const char *id, unsigned port, const json_t *rules, const char *expires,
		   char ret[2 * DIGEST + 1])
{
	unsigned char code[DIGEST];
	char text[200];
	unsigned len = 0;
	/* no id has a colon, so no key of a sandbox (boxkey.h) is a token */
	const int n = snprintf(text, sizeof(text), "preview:%s:%u:%llu:%s", id, port,
			       (unsigned long long)json_integer_value(json_object_get(rules, "generation")), expires);

	if (n < 0 || (size_t)n >= sizeof(text) ||
	    !HMAC(EVP_sha256(), secret, 32, (const unsigned char *)text, (size_t)n, code, &len) || len != DIGEST)
		return -1;
	hex_format(ret, code, DIGEST);
	return 0;
}

int preview_token(const unsigned char secret[32], const char *id, unsigned port, const json_t *rules, uint64_t expires_s,
		  char ret[PREVIEW_TOKEN_SIZE], struct err *e)
{
	char expires[24], code[2 * DIGEST + 1];

	snprintf(expires, sizeof(expires), "%llu", (unsigned long long)expires_s);
	if (code_of(secret, id, port, rules, expires, code) < 0)
		return err_set(e, ERR_INTERNAL, "a token cannot be made");
	snprintf(ret, PREVIEW_TOKEN_SIZE, "%s.%s", expires, code);
	return 0;
}

uint64_t preview_token_holds(const unsigned char secret[32], const char *id, unsigned port, const json_t *rules, const char *token)
{
	const char *dot = strchr(token, '.');
	char expires[24], code[2 * DIGEST + 1];
	struct err ignored;
	uint64_t until;

	if (!dot || dot == token || (size_t)(dot - token) >= sizeof(expires) || strlen(dot + 1) != 2 * DIGEST)
		return 0;
	snprintf(expires, sizeof(expires), "%.*s", (int)(dot - token), token);
	if (code_of(secret, id, port, rules, expires, code) < 0 || CRYPTO_memcmp(code, dot + 1, 2 * DIGEST) ||
	    num_u64(expires, "expiry", 1, UINT64_MAX >> 1, &until, &ignored) < 0)
		return 0;
	return until > clock_wall_ms() / 1000 ? until : 0;
}

/* ---- names ---- */

int preview_name_is_good(const char *name)
{
	size_t i, n = strlen(name), digits = strspn(name, "0123456789");

	if (!n || n > 40 || !isalpha((unsigned char)name[0]) || name[n - 1] == '-' || digits)
		return 0;
	for (i = 0; i < n; i++)
		if (!islower((unsigned char)name[i]) && !isdigit((unsigned char)name[i]) && name[i] != '-')
			return 0;
	return 1;
}

/* Whose the name is: 1 with the id and the port. */
static int read_name(int dir, const char *name, char id[65], unsigned *ret_port)
{
	char text[80];
	ssize_t n = readlinkat(dir, name, text, sizeof(text) - 1);
	struct err ignored;
	char *colon;
	uint64_t port;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	colon = strchr(text, ':');
	if (!colon || colon - text > 64 || num_u64(colon + 1, "port", 1, UINT16_MAX, &port, &ignored) < 0)
		return 0;
	snprintf(id, 65, "%.*s", (int)(colon - text), text);
	*ret_port = (unsigned)port;
	return 1;
}

struct stale_names {
	struct registry *registry;
	int dir;
};

/* A name of a sandbox that is gone: so no more names are kept than sandboxes have. */
static int drop_stale_name(void *ctx, const char *name)
{
	const struct stale_names *s = ctx;
	char id[65];
	unsigned port;

	if (!read_name(s->dir, name, id, &port) || (!path_has(s->registry->sandboxes_fd, id) && !path_has(s->registry->kept_fd, id)))
		unlinkat(s->dir, name, 0);
	return 0;
}

int preview_name_take(struct registry *r, const char *name, const char *id, unsigned port, struct err *e)
{
	autoclose int dir = path_make_dir(r->state_fd, NAMES_WEB, e);
	char text[80], has[65];
	unsigned of;
	int tries, failed = 0;

	if (dir < 0)
		return -1;
	path_each_entry(dir, drop_stale_name, &(struct stale_names){ r, dir }, &failed);
	snprintf(text, sizeof(text), "%s:%u", id, port);
	for (tries = 0; tries < 3; tries++) {
		if (symlinkat(text, dir, name) == 0)
			return 0;
		if (errno != EEXIST)
			return err_sys(e, "take the name %s", name);
		/* its sandbox may be gone, or it is this one's for another port */
		if (read_name(dir, name, has, &of) && strcmp(has, id) &&
		    (path_has(r->sandboxes_fd, has) || path_has(r->kept_fd, has)))
			return err_set(e, ERR_EXISTS, "the name '%s' is taken; hint: another one", name);
		unlinkat(dir, name, 0);
	}
	return err_set(e, ERR_BUSY, "the name '%s' is taken and given at the same time; hint: try again", name);
}

void preview_name_drop(struct registry *r, const char *name, const char *id)
{
	autoclose int dir = openat(r->state_fd, NAMES_WEB, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	char has[65];
	unsigned port;

	if (dir >= 0 && read_name(dir, name, has, &port) && !strcmp(has, id))
		unlinkat(dir, name, 0);
}

/* ---- a question ---- */

struct preview_question {
	struct preview_server *p;
	struct config config;
	struct registry registry;
	const json_t *asked;
	char id[65];
	unsigned port;
	int kept, public;
	char mask[E2B_HOST_SIZE];	/* the Host that the server gets; "": as the client sent it */
	json_t *rules;
	int fd;			/* the answer's, or -1 */
};

static json_t *refuse_preview(int status, const char *title, const char *text)
{
	return json_pack("{s:i,s:s,s:s}", "status", status, "title", title, "text", text);
}

/* The same for a sandbox that is not there and one that is not for this client. */
static json_t *refuse_unknown(void)
{
	return refuse_preview(401, "This address needs a token", "There is nothing here, or it is not public and no token that holds came "
			      "with the request. The owner of the sandbox gets an address with a token by POST "
			      "/v1/sandboxes/ID/ports/PORT/preview of berthd.");
}

/* "8000-ID", or a name: 1. */
static int resolve_label(struct preview_question *q, const char *label)
{
	const size_t digits = strspn(label, "0123456789");
	autoclose int dir = -1;
	struct err ignored;
	char number[8];
	uint64_t port;

	if (digits && digits < 6 && label[digits] == '-' && path_is_name(label + digits + 1) && strlen(label + digits + 1) < sizeof(q->id)) {
		snprintf(number, sizeof(number), "%.*s", (int)digits, label);
		if (number[0] == '0' || num_u64(number, "port", 1, UINT16_MAX, &port, &ignored) < 0)
			return 0;
		q->port = (unsigned)port;
		snprintf(q->id, sizeof(q->id), "%s", label + digits + 1);
		return 1;
	}
	if (!preview_name_is_good(label))
		return 0;
	dir = openat(q->registry.state_fd, NAMES_WEB, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return dir >= 0 && read_name(dir, label, q->id, &q->port);
}

/* The label in front of our domain: 1. */
static int label_of(const struct preview_server *p, const char *host, char label[80])
{
	const size_t n = strlen(host), d = strlen(p->conf.preview_domain);

	if (n < d + 2 || strcasecmp(host + n - d, p->conf.preview_domain) || host[n - d - 1] != '.' || n - d - 1 >= 80)
		return 0;
	snprintf(label, 80, "%.*s", (int)(n - d - 1), host);
	return !strchr(label, '.');
}

/*
 * E2B's own rules: ports of its sandboxes are public, unless the client said otherwise, and it may
 * choose the Host of requests.
 */
static int is_public_by_face(struct preview_question *q)
{
	struct err ignored;
	autojson json_t *record = NULL, *note = NULL;
	const char *face, *mask;
	const json_t *network;

	record = record_load_kept(&q->registry, q->id, &ignored);
	face = json_string_value(json_object_get(json_object_get(record, "labels"), LABEL_FACE));
	if (!face || strcmp(face, "e2b"))
		return 0;
	note = registry_load(&q->registry, q->id, E2B_NOTE, &ignored);
	if (!note)
		return ignored.code == ERR_NOT_FOUND;
	network = json_object_get(note, "network");
	mask = json_string_value(json_object_get(network, "maskRequestHost"));
	if (mask && e2b_masked_host(mask, q->port, q->mask, &ignored) < 0)
		q->mask[0] = '\0';
	return !json_is_false(json_object_get(network, "allowPublicTraffic"));
}

/* The owner has lost the token: nobody has rights from it any more (S53). */
static int owner_is_known(struct preview_question *q)
{
	struct err e;
	autojson json_t *owner = registry_load(&q->registry, q->id, REGISTRY_OWNER, &e);
	const char *name = json_string_value(json_object_get(owner, "name"));
	int known;

	if (!owner)
		return e.code == ERR_NOT_FOUND;
	pthread_rwlock_rdlock(&q->p->api->lock);
	known = name && tokens_has(q->p->api->tokens, name);
	pthread_rwlock_unlock(&q->p->api->lock);
	return known;
}

static const char *asked_text(const struct preview_question *q, const char *name)
{
	const char *s = json_string_value(json_object_get(q->asked, name));

	return s ? s : "";
}

/* Until when what came gives access; UINT64_MAX for the key of the sandbox itself, and 0. */
static uint64_t access_until(struct preview_question *q, const unsigned char secret[32])
{
	static const char *const kinds[] = { "field", "query", "cookie" };
	char several[420], id[65], *one, *save;
	uint64_t until = 0;
	size_t i;

	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		snprintf(several, sizeof(several), "%s", asked_text(q, kinds[i]));
		for (one = strtok_r(several, " ", &save); one && !until; one = strtok_r(NULL, " ", &save))
			until = i == 0 && boxkey_check(secret, one, id) && !strcmp(id, q->id) ? UINT64_MAX :
				preview_token_holds(secret, q->id, q->port, q->rules, one);
	}
	return until;
}

/* NULL: it may go on. */
static json_t *judge_preview(struct preview_question *q)
{
	unsigned char secret[32];
	char label[80], found[65];
	struct err e;
	uint64_t until;

	if (!label_of(q->p, asked_text(q, "host"), label))
		return refuse_preview(421, "This name is not served here", "The address of a preview is PORT-ID in front of the domain that "
				      "preview.domain of berth.toml names.");
	if (!resolve_label(q, label) || registry_find(&q->registry, q->id, found, &q->kept, &e) < 0 || strcmp(found, q->id) ||
	    !owner_is_known(q) || !(q->rules = preview_rules(&q->registry, q->id, &e)))
		return refuse_unknown();
	q->public = is_public_by_face(q) || preview_is_open(q->rules, q->port);
	if (q->public && !asked_text(q, "query")[0])
		return NULL;
	until = api_box_secret(q->p->api, &q->registry, 0, secret, &e) > 0 ? access_until(q, secret) : 0;
	if (!until && !q->public)
		return refuse_unknown();
	if (until && until != UINT64_MAX && json_is_true(json_object_get(q->asked, "enter")) &&
	    preview_token_holds(secret, q->id, q->port, q->rules, asked_text(q, "query")))
		return json_pack("{s:I}", "cookie", (json_int_t)(until - clock_wall_ms() / 1000));
	return NULL;
}

/* One that its idle timeout has stopped starts; one that somebody has stopped stays so. */
static json_t *wake_stopped(struct preview_question *q)
{
	autojson json_t *record = NULL;
	struct called c;
	const char *reason;
	struct err e;

	record = record_load_kept(&q->registry, q->id, &e);
	reason = json_string_value(json_object_get(record, "stop_reason"));
	if (!record || !reason || strcmp(reason, "idle timeout"))
		return refuse_preview(503, "The sandbox is stopped", "It was not stopped by its idle timeout, so a request does not start it. "
				      "Its owner can: berth start.");
	if (call_start(q->p->api->berth_path, NULL, call_of("start", q->id, NULL), -1, &c, &e) < 0 || call_finish(&c, NULL, NULL, NULL, &e) < 0) {
		/* another request may have started it meanwhile */
		autoclose int sock = keeper_connect_within(&q->registry, q->id, PREVIEW_KEEPER_MS, &(struct err){ 0 });

		if (sock < 0) {
			dlog_error("a preview that starts a sandbox", &e);
			return refuse_preview(503, "The sandbox does not start", "The log of berthd tells why.");
		}
	}
	return json_pack("{s:i}", "again", PREVIEW_AGAIN_MS);
}

/* A socket of the port: 1; 0: nothing listens there; -1. */
static int ask_for_port(struct preview_question *q, int sock, int with6, struct err *e)
{
	autojson json_t *rq = netport_request((uint16_t)q->port, with6);
	json_t *answer = NULL;
	size_t count = 0;
	int r, fd = -1;

	if (wire_request(sock, rq, NULL, 0, e) < 0)
		return -1;
	r = wire_recv(sock, PREVIEW_KEEPER_MS, &answer, &fd, 1, &count, e);
	if (r <= 0)
		return r < 0 ? -1 : wire_ended(e);
	r = wire_check(answer, e);
	json_decref(answer);
	if (r < 0)
		return e->code == ERR_NOT_FOUND && e->os_errno != ESRCH ? 0 : -1;
	if (!count || fd < 0)
		return err_set(e, ERR_INTERNAL, "the keeper answered without a socket");
	q->fd = fd;
	return 1;
}

static json_t *tell_unreachable(const struct err *e)
{
	if (e->code == ERR_BUSY)
		return refuse_preview(503, "The sandbox is paused", "It is paused or stopping, and takes no request. Its owner can go on: berth resume.");
	if (e->code == ERR_INVALID)
		return refuse_preview(409, "This sandbox has no ports of its own", "It uses the network of its host, which is not served.");
	return refuse_preview(503, "The sandbox does not answer", "Try again in a moment.");
}

static json_t *connect_preview(struct preview_question *q)
{
	const int with6 = json_is_true(json_object_get(q->asked, "ipv6"));
	autoclose int sock = -1;
	struct err e;
	int r;

	if (q->kept)
		return wake_stopped(q);
	sock = keeper_connect_within(&q->registry, q->id, PREVIEW_KEEPER_MS, &e);
	if (sock < 0)
		return e.code == ERR_NOT_FOUND ? json_pack("{s:i}", "again", PREVIEW_AGAIN_MS) : tell_unreachable(&e);
	r = with6 ? 0 : ask_for_port(q, sock, 0, &e);
	if (r == 0)
		r = ask_for_port(q, sock, 1, &e);
	if (r < 0)
		return tell_unreachable(&e);
	return r ? json_pack("{s:s*}", "mask", q->mask[0] ? q->mask : NULL) : json_pack("{s:b}", "nothing", 1);
}

static void answer_question(struct preview_server *p, const json_t *asked, int sock)
{
	struct preview_question q = { .p = p, .asked = asked, .fd = -1, .registry = REGISTRY_INIT };
	struct err e;
	char key[80];
	char *text;
	json_t *answer;

	api_config(p->api, &q.config);
	if (registry_open(&q.registry, &q.config, &e) < 0) {
		dlog_error("a preview", &e);
		answer = refuse_preview(503, "berthd cannot answer", "Its log tells why.");
	} else {
		answer = judge_preview(&q);
		if (!answer)
			answer = connect_preview(&q);
	}
	if (answer) {
		json_object_set(answer, "n", json_object_get(asked, "n"));
		json_object_set(answer, "turn", json_object_get(asked, "turn"));
		if (!json_object_get(answer, "status") && q.id[0]) {
			snprintf(key, sizeof(key), "%u-%.64s", q.port, q.id);
			json_object_set_new(answer, "key", json_string(key));
		}
		text = json_dumps(answer, JSON_COMPACT);
		if (text)
			(void)!fdpass_send(sock, text, strlen(text), &q.fd, q.fd >= 0);
		free(text);
	}
	json_decref(answer);
	json_decref(q.rules);
	fd_close(&q.fd);
	registry_close(&q.registry);
}

/* Connections that carry bytes keep their sandbox from being idle. */
static void note_used(struct preview_server *p, const json_t *keys)
{
	struct registry registry = REGISTRY_INIT;
	struct config config;
	struct err e;
	const json_t *v;
	size_t i;

	api_config(p->api, &config);
	if (registry_open(&registry, &config, &e) < 0)
		return;
	json_array_foreach(keys, i, v) {
		const char *key = json_string_value(v), *dash = key ? strchr(key, '-') : NULL;
		autoclose int sock = dash && path_is_name(dash + 1) ? keeper_connect_within(&registry, dash + 1, PREVIEW_KEEPER_MS, &e) : -1;
		autojson json_t *rq = protocol_request(OP_port), *answer = NULL;
		size_t count = 0;

		if (sock >= 0 && wire_request(sock, rq, NULL, 0, &e) == 0)
			(void)wire_recv(sock, PREVIEW_KEEPER_MS, &answer, NULL, 0, &count, &e);
	}
	registry_close(&registry);
}

/* ---- berth-preview ---- */

static void hear_preview(struct preview_server *p, const char *text, size_t n, int sock)
{
	struct err e;
	autojson json_t *j = json_parse(text, n, PREVIEW_PACKET, "a message of berth-preview", &e);
	const char *error = json_string_value(json_object_get(j, "error"));

	if (!j)
		dlog_error("berth-preview", &e);
	else if (error)
		dlog_note(DLOG_ERROR, "previews: %.200s; hint: preview.certificate and preview.key of berth.toml", error);
	else if (json_is_array(json_object_get(j, "used")))
		note_used(p, json_object_get(j, "used"));
	else if (json_object_get(j, "n"))
		answer_question(p, j, sock);
}

/* Several threads take the questions of one socket; each ends with it. */
static void *serve_questions(void *ctx)
{
	struct preview_server *p = ctx;
	char text[PREVIEW_PACKET];
	ssize_t n;

	while ((n = recv(p->helper.sock, text, sizeof(text), 0)) > 0 || (n < 0 && errno == EINTR))
		if (n > 0)
			hear_preview(p, text, (size_t)n, p->helper.sock);
	return NULL;
}

/* Certificate and key as berth-preview gets them: open files. */
static int send_certificate(struct preview_server *p, int sock, struct err *e)
{
	static const char with[] = "{\"tls\":true}";
	autoclose int cert = -1, key = -1;

	if (!p->is_secure)
		return 0;
	cert = open(p->conf.preview_certificate, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	key = open(p->conf.preview_key, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (cert < 0 || key < 0)
		return err_sys(e, "open %s", cert < 0 ? p->conf.preview_certificate : p->conf.preview_key);
	return fdpass_send(sock, with, sizeof(with) - 1, (int[]){ cert, key }, 2) < 0 ? err_sys(e, "send the certificate") : 0;
}

static int begin_preview(struct preview_server *p, struct err *e)
{
	static char *const argv[] = { (char *)"berth-preview", NULL };
	autofree char *text = NULL;
	char answer[600];
	struct timeval limit = { .tv_sec = PREVIEW_START_MS / 1000 };
	ssize_t n;

	if (helper_start(&p->helper, p->program_fd, argv, &p->listen_fd, 1, e) < 0)
		return -1;
	if (asprintf(&text, "{\"job\":{\"secure\":%d,\"parent\":%d,\"most\":%llu,\"per\":%llu,\"wait_ms\":%llu,\"listens\":1}}",
		     p->is_secure, (int)getpid(), (unsigned long long)p->conf.preview_max_connections,
		     (unsigned long long)(p->conf.preview_max_connections + 1) / 2, (unsigned long long)p->conf.preview_wait_ms) < 0) {
		text = NULL;
		return err_nomem(e);
	}
	if (send(p->helper.sock, text, strlen(text), MSG_NOSIGNAL) < 0)
		return err_sys(e, "start berth-preview");
	(void)!setsockopt(p->helper.sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	n = recv(p->helper.sock, answer, sizeof(answer) - 1, 0);
	limit = (struct timeval){ 0 };
	(void)!setsockopt(p->helper.sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	answer[n > 0 ? n : 0] = '\0';
	if (n <= 0 || strcmp(answer, "{\"ready\":true}"))
		return err_set(e, ERR_INTERNAL, "berth-preview does not start: %.400s", answer);
	return send_certificate(p, p->helper.sock, e);
}

struct preview_birth {
	struct preview_server *p;
	int told_fd;
};

/*
 * The thread that starts it, and again if it falls: berth-preview ends with the thread that it is
 * the child of (PR_SET_PDEATHSIG).
 */
static void *run_preview(void *ctx)
{
	struct preview_server *p = ctx;
	pthread_t more[PREVIEW_THREADS - 1];
	size_t n, i;
	struct err e = { 0 };
	int first = 1, r;

	while (!atomic_load(&p->stopping)) {
		pthread_mutex_lock(&p->lock);
		r = begin_preview(p, &e);
		pthread_mutex_unlock(&p->lock);
		if (first) {
			first = 0;
			if (r == 0)
				e = (struct err){ 0 };
			(void)!write(p->stop_fd[1], &e, sizeof(e));
			if (r < 0) {
				helper_end(&p->helper, SIGKILL);
				return NULL;
			}
		} else if (r < 0) {
			dlog_error("previews", &e);
		}
		for (n = 0; r == 0 && n < ARRAY_LEN(more); n++)
			if (pthread_create(&more[n], NULL, serve_questions, p))
				break;
		if (r == 0)
			serve_questions(p);
		for (i = 0; i < n; i++)
			pthread_join(more[i], NULL);
		pthread_mutex_lock(&p->lock);
		helper_end(&p->helper, SIGKILL);
		pthread_mutex_unlock(&p->lock);
		if (!atomic_load(&p->stopping)) {
			dlog_note(DLOG_ERROR, "berth-preview has ended; it is started again");
			(void)!poll(&(struct pollfd){ .fd = p->stop_fd[0], .events = POLLIN }, 1, PREVIEW_REST_MS);
		}
	}
	return NULL;
}

/* ---- configuration ---- */

static int parse_preview_listen(const struct conf *c, struct sockaddr_storage *ret, socklen_t *ret_n, struct err *e)
{
	const int is_loopback = listenaddr_parse("preview.listen", c->preview_listen, "127.0.0.1:8443", ret, ret_n, e);

	if (is_loopback < 0)
		return -1;
	if (is_loopback || c->preview_certificate[0])
		return 0;
	return err_set(e, ERR_CONFIG, "preview.listen '%.64s' is not a loopback address, and there is no certificate; hint: preview.certificate "
		       "and preview.key, because tokens must not cross a network in the clear", c->preview_listen);
}

static int check_preview(const struct conf *c, struct err *e)
{
	struct sockaddr_storage a;
	socklen_t n;

	if (!c->preview_listen[0])
		return 0;
	if (!c->preview_domain[0])
		return err_set(e, ERR_CONFIG, "preview.listen needs preview.domain; hint: domain = \"preview.example.com\", with a record of DNS "
			       "for *.preview.example.com");
	if (!c->preview_certificate[0] != !c->preview_key[0])
		return err_set(e, ERR_CONFIG, "preview.certificate and preview.key go together");
	if (c->preview_url[0] && ((strncmp(c->preview_url, "https://*.", 10) && strncmp(c->preview_url, "http://*.", 9)) ||
				  strncasecmp(strchr(c->preview_url, '*') + 2, c->preview_domain, strlen(c->preview_domain))))
		return err_set(e, ERR_CONFIG, "preview.url '%.200s' is not https://*.DOMAIN or https://*.DOMAIN:PORT", c->preview_url);
	return parse_preview_listen(c, &a, &n, e);
}

int preview_check_config(const struct config *c, struct err *e)
{
	autofree struct conf *conf = calloc(1, sizeof(*conf));

	if (!conf)
		return err_nomem(e);
	return conf_load(conf, c, e) < 0 ? -1 : check_preview(conf, e);
}

char *preview_url(const struct preview_server *p, const char *label, struct err *e)
{
	const int secure = p && p->is_secure;
	char port[8] = "", *url = NULL;

	if (!p) {
		err_set(e, ERR_UNSUPPORTED, "this berthd has no previews; hint: [preview] listen and domain of berth.toml");
		return NULL;
	}
	if (p->conf.preview_url[0]) {
		const char *star = strchr(p->conf.preview_url, '*');

		if (asprintf(&url, "%.*s%s%s", (int)(star - p->conf.preview_url), p->conf.preview_url, label, star + 1) < 0)
			url = NULL;
	} else {
		if (p->port != (secure ? 443u : 80u))
			snprintf(port, sizeof(port), ":%u", p->port);
		if (asprintf(&url, "http%s://%s.%s%s", secure ? "s" : "", label, p->conf.preview_domain, port) < 0)
			url = NULL;
	}
	if (!url)
		err_nomem(e);
	return url;
}

const char *preview_domain(const struct preview_server *p, char *out, size_t n)
{
	struct err ignored;
	autofree char *url = p ? preview_url(p, "x", &ignored) : NULL;

	if (!url)
		return NULL;
	snprintf(out, n, "%s", strstr(url, "://x.") + 5);
	return out;
}

static int listen_for_previews(struct preview_server *p, struct err *e)
{
	struct sockaddr_storage a;
	socklen_t n;

	if (parse_preview_listen(&p->conf, &a, &n, e) < 0)
		return -1;
	p->listen_fd = listenaddr_listen(p->conf.preview_listen, &a, n, &p->port, e);
	return p->listen_fd < 0 ? -1 : 0;
}

/* ---- start and end ---- */

static void free_preview(struct preview_server *p)
{
	fd_close(&p->listen_fd);
	fd_close(&p->program_fd);
	fd_close(&p->stop_fd[0]);
	fd_close(&p->stop_fd[1]);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

int preview_start(struct api *a, struct preview_server **ret, struct err *e)
{
	struct preview_server *p = calloc(1, sizeof(*p));
	struct err told = { 0 };
	struct config c;

	*ret = NULL;
	if (!p)
		return err_nomem(e);
	p->api = a;
	p->listen_fd = p->program_fd = p->stop_fd[0] = p->stop_fd[1] = p->helper.sock = -1;
	pthread_mutex_init(&p->lock, NULL);
	api_config(a, &c);
	if (conf_load(&p->conf, &c, e) < 0 || check_preview(&p->conf, e) < 0) {
		free_preview(p);
		return -1;
	}
	if (!p->conf.preview_listen[0]) {
		free_preview(p);
		return 0;
	}
	p->is_secure = p->conf.preview_certificate[0] != '\0';
	p->program_fd = program_open("berth-preview", e);
	if (p->program_fd < 0 || listen_for_previews(p, e) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p->stop_fd) < 0 ||
	    pthread_create(&p->thread, NULL, run_preview, p)) {
		if (e->code == ERR_NONE)
			err_sys(e, "start the previews");
		free_preview(p);
		return -1;
	}
	if (recv(p->stop_fd[0], &told, sizeof(told), MSG_WAITALL) != sizeof(told))
		err_set(&told, ERR_INTERNAL, "berth-preview does not start");
	if (told.code != ERR_NONE) {
		pthread_join(p->thread, NULL);
		free_preview(p);
		*e = told;
		return -1;
	}
	dlog_note(DLOG_NOTICE, "previews at *.%s on %s, port %u", p->conf.preview_domain, p->conf.preview_listen, p->port);
	*ret = p;
	return 0;
}

void preview_reload(struct preview_server *p)
{
	autofree struct conf *fresh = calloc(1, sizeof(*fresh));
	struct config c;
	struct err e;

	if (!p || !fresh)
		return;
	api_config(p->api, &c);
	pthread_mutex_lock(&p->lock);
	if (conf_load(fresh, &c, &e) < 0 || check_preview(fresh, &e) < 0) {
		dlog_error("previews", &e);
	} else if (p->is_secure != !!fresh->preview_certificate[0]) {
		dlog_note(DLOG_ERROR, "the previews stay %s; hint: restart berthd to change that",
			  p->is_secure ? "behind TLS, with the certificate that they have" : "without TLS");
	} else {
		/* addresses stay as they are, as those of [daemon] do */
		memcpy(p->conf.preview_certificate, fresh->preview_certificate, sizeof(fresh->preview_certificate));
		memcpy(p->conf.preview_key, fresh->preview_key, sizeof(fresh->preview_key));
		if (p->helper.sock >= 0 && send_certificate(p, p->helper.sock, &e) < 0)
			dlog_error("previews", &e);
	}
	pthread_mutex_unlock(&p->lock);
}

void preview_stop(struct preview_server *p)
{
	if (!p)
		return;
	atomic_store(&p->stopping, 1);
	(void)!write(p->stop_fd[1], "", 1);
	pthread_mutex_lock(&p->lock);
	if (p->helper.sock >= 0)
		shutdown(p->helper.sock, SHUT_RDWR);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	free_preview(p);
}
