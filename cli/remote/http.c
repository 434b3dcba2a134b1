/* SPDX-License-Identifier: Apache-2.0 */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/remote/remote.h"

#define REPLY_MAX (64u << 20)
#define ERROR_MAX (1u << 20)
#define CONNECT_S 10L

/* A token in the clear stays on this host. */
static int is_loopback_url_host(const char *host)
{
	size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");

	return (n == 9 && !strncasecmp(host, "localhost", 9)) || (!strncmp(host, "127.", 4) && strspn(host, "0123456789.") == n) ||
	       (n == 5 && !strncmp(host, "[::1]", 5));
}

int remote_open(struct remote *r, const char *url, struct err *e)
{
	size_t n = strlen(url);

	r->token = getenv("BERTH_TOKEN");
	if (r->token && !r->token[0])
		r->token = NULL;
	if (r->token && r->token[strcspn(r->token, "\r\n")])
		return err_set(e, ERR_USAGE, "BERTH_TOKEN has a line end in it");
	if (!strncmp(url, "unix://", 7)) {
		if (url[7] != '/')
			return err_set(e, ERR_USAGE, "unix:// wants an absolute path; hint: unix:///run/berth/berthd.sock");
		r->unix_path = url + 7;
		snprintf(r->base, sizeof(r->base), "http://localhost");
		return 0;
	}
	if ((strncmp(url, "http://", 7) && strncmp(url, "https://", 8)) || n >= sizeof(r->base) || url[strcspn(url, " @?#")])
		return err_set(e, ERR_USAGE, "'%.100s' is not an address of a berthd; hint: unix:///run/berth/berthd.sock, "
			       "http://127.0.0.1:7423 or https://HOST", url);
	if (!strncmp(url, "http://", 7) && !is_loopback_url_host(url + 7))
		return err_set(e, ERR_USAGE, "plain http leads to loopback only; hint: https://, or ssh -L 7423:127.0.0.1:7423 HOST");
	memcpy(r->base, url, n + 1);
	while (n && r->base[n - 1] == '/')
		r->base[--n] = '\0';
	return 0;
}

/* ---- one request ----------------------------------------------------------------------- */

struct exchange {
	const struct remote_io *io;
	CURL *curl;
	struct buf bad;		/* what an error says */
	struct err *e;
	int failed;		/* io->take() did */
	const char *text;	/* the JSON body */
	size_t left;
};

static size_t on_data(char *data, size_t size, size_t n, void *ctx)
{
	struct exchange *x = ctx;
	struct err ignored;
	long status = 0;

	curl_easy_getinfo(x->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status >= 400) {
		buf_add(&x->bad, data, size * n, &ignored);
		return size * n;
	}
	if (x->io->take && x->io->take(x->io->ctx, data, size * n, x->e) < 0) {
		x->failed = 1;
		return 0;
	}
	return size * n;
}

static size_t on_send(char *out, size_t size, size_t n, void *ctx)
{
	struct exchange *x = ctx;
	ssize_t got;

	if (x->text) {
		size_t part = x->left < size * n ? x->left : size * n;

		memcpy(out, x->text, part);
		x->text += part;
		x->left -= part;
		return part;
	}
	got = read(x->io->in_fd, out, size * n);
	return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

/* A remedy that names a request, as the command that makes it: those of manager/api's errors. */
static void say_remedy(struct err *e)
{
	static const struct {
		const char *request, *command;
	} remedies[] = {
		{ "GET /v1/sandboxes lists them", "berth ps -a" },
		{ "GET /v1/zygotes lists them", "berth zygote ls" },
		{ "GET /v1/sandboxes/{id}/commands lists them", "berth commands ID" },
		{ "GET /v1/sandboxes/{id}/logs?follow=true", "berth logs --follow ID" },
	};
	char *hint = strstr(e->msg, "; hint: "), id[80];
	size_t i, left;
	int end = 0;

	if (!hint)
		return;
	hint += strlen("; hint: ");
	left = sizeof(e->msg) - (size_t)(hint - e->msg);
	if (sscanf(hint, "POST /v1/sandboxes/%79[^/]/start%n", id, &end) == 1 && end && !hint[end])
		snprintf(hint, left, "berth start %s", id);
	for (i = 0; i < ARRAY_LEN(remedies); i++)
		if (!strcmp(hint, remedies[i].request))
			snprintf(hint, left, "%s", remedies[i].command);
}

/* berthd's error, or the bare status. */
static int take_error(const struct remote *r, const struct exchange *x, long status, struct err *e)
{
	struct err ignored;
	autojson json_t *j = x->bad.len ? json_parse(x->bad.data, x->bad.len, ERROR_MAX, "error", &ignored) : NULL;
	const json_t *error = json_object_get(j, "error");

	if (!err_code_of(json_string_value(json_object_get(error, "code"))))
		return err_set(e, ERR_NET, "berthd answered %ld", status);
	if (status == 401 && r->token)
		return err_set(e, ERR_DENIED, "berthd at %.200s does not know the token in BERTH_TOKEN; hint: one of the file that [daemon] "
			       "token_file names there", r->unix_path ? r->unix_path : r->base);
	if (status == 401)
		return err_set(e, ERR_DENIED, "berthd wants a token; hint: put it in BERTH_TOKEN");
	json_take_error(error, ERR_NET, "berthd", e);
	say_remedy(e);
	return -1;
}

static struct curl_slist *headers_of(const struct remote *r, const struct remote_io *io)
{
	struct curl_slist *h = curl_slist_append(NULL, "Expect:");
	autofree char *auth = NULL;

	if (io->json)
		h = curl_slist_append(h, "Content-Type: application/json");
	else if (io->in_fd >= 0)
		h = curl_slist_append(h, "Content-Type: application/octet-stream");
	if (r->token && asprintf(&auth, "Authorization: Bearer %s", r->token) > 0)
		h = curl_slist_append(h, auth);
	return h;
}

static void set_remote_curl_options(CURL *c, const struct remote *r, const char *method, const char *url, struct exchange *x, char *reason)
{
	const struct remote_io *io = x->io;

	curl_easy_setopt(c, CURLOPT_URL, url);
	if (r->unix_path)
		curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, r->unix_path);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	/* a proxy of http_proxy would see the token */
	curl_easy_setopt(c, CURLOPT_PROXY, "");
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, reason);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, x);
	if (io->json || io->in_fd >= 0) {
		curl_easy_setopt(c, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(c, CURLOPT_READFUNCTION, on_send);
		curl_easy_setopt(c, CURLOPT_READDATA, x);
		if (x->text)
			curl_easy_setopt(c, CURLOPT_INFILESIZE_LARGE, (curl_off_t)x->left);
	} else if (!strcmp(method, "POST")) {
		curl_easy_setopt(c, CURLOPT_POSTFIELDS, "");
		curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, 0L);
	}
	curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
}

/* What there was no connection for, and where berthd should be. */
static int no_connection(const struct remote *r, CURL *c, CURLcode code, const char *reason,
			 struct err *e)
{
	const char *where = r->unix_path ? r->unix_path : r->base;
	long why = 0;

	if (code != CURLE_COULDNT_CONNECT)
		return err_set(e, ERR_NET, "%s: %s", where,
			       reason[0] ? reason : curl_easy_strerror(code));
	curl_easy_getinfo(c, CURLINFO_OS_ERRNO, &why);
	err_set(e, ERR_NET, "connect to berthd at %s: %s", where,
		why ? strerror((int)why) : reason[0] ? reason : curl_easy_strerror(code));
	return err_hint(e, "systemctl start berthd there; without --host and BERTH_HOST, berth "
			   "works on this host"),
	       -1;
}

int remote_transfer(const struct remote *r, const char *method, const char *path, const struct remote_io *io, struct err *e)
{
	struct exchange x = { .io = io, .bad = BUF_INIT(ERROR_MAX), .e = e };
	autofree char *text = io->json ? json_dumps(io->json, JSON_COMPACT) : NULL, *url = NULL;
	char reason[CURL_ERROR_SIZE] = "";
	struct curl_slist *headers;
	long status = 0;
	CURLcode code;
	int result = 0;

	x.curl = curl_easy_init();
	if (!x.curl || (io->json && !text) || asprintf(&url, "%s%s", r->base, path) < 0) {
		url = NULL;
		curl_easy_cleanup(x.curl);
		return err_nomem(e);
	}
	x.text = text;
	x.left = text ? strlen(text) : 0;
	headers = headers_of(r, io);
	curl_easy_setopt(x.curl, CURLOPT_HTTPHEADER, headers);
	set_remote_curl_options(x.curl, r, method, url, &x, reason);
	code = curl_easy_perform(x.curl);
	curl_easy_getinfo(x.curl, CURLINFO_RESPONSE_CODE, &status);
	if (status >= 400)
		result = take_error(r, &x, status, e);
	else if (x.failed)
		result = -1;
	else if (code != CURLE_OK)
		result = no_connection(r, x.curl, code, reason, e);
	curl_slist_free_all(headers);
	curl_easy_cleanup(x.curl);
	buf_release(&x.bad);
	return result;
}

static int collect_http_body(void *ctx, const char *data, size_t n, struct err *e)
{
	return buf_add(ctx, data, n, e);
}

json_t *remote_call(const struct remote *r, const char *method, const char *path, const json_t *body, struct err *e)
{
	autobuf struct buf b = BUF_INIT(REPLY_MAX);
	struct remote_io io = { .in_fd = -1, .json = body, .take = collect_http_body, .ctx = &b };

	if (remote_transfer(r, method, path, &io, e) < 0)
		return NULL;
	return b.len ? json_parse(b.data, b.len, REPLY_MAX, "berthd's answer", e) : json_object();
}

/* ---- paths -------------------------------------------------------------------------------- */

static int add_escaped(struct buf *b, const char *s, struct err *e)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";

	for (; *s; s++)
		if (strchr(plain, *s) ? buf_add(b, s, 1, e) < 0 : buf_addf(b, e, "%%%02x", (unsigned char)*s) < 0)
			return -1;
	return 0;
}

int remote_query(struct buf *path, const char *key, const char *value, struct err *e)
{
	if (buf_addf(path, e, "%c%s=", strchr(path->data, '?') ? '&' : '?', key) < 0)
		return -1;
	return add_escaped(path, value, e);
}

int remote_escape(struct buf *path, const char *text, struct err *e)
{
	return add_escaped(path, text, e);
}

int remote_path(struct buf *path, const char *id, const char *rest, struct err *e)
{
	if (!id[0] || strchr(id, '/'))
		return err_set(e, ERR_NOT_FOUND, "'%.80s' is not a sandbox", id);
	if (buf_adds(path, "/v1/sandboxes/", e) < 0 || add_escaped(path, id, e) < 0)
		return -1;
	return buf_adds(path, rest, e);
}

int remote_to_stdout(void *ctx, const char *data, size_t n, struct err *e)
{
	(void)ctx;
	return fwrite(data, 1, n, stdout) != n || fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}
