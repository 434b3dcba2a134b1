/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S60 of SECURITY.md. */
/*
 * The page of berthd: its files (manager/ui), and the way in.
 *
 * The files are the same for everybody and have no secret, so they come without a token.  All that
 * the page shows and does is /v1, asked for with a session in the field Authorization.  There is no
 * cookie: nothing that a browser sends by itself gives a right, here or to another port.
 */
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/api/http_state.h"
#include "manager/api/uisession.h"

#define PAGE_MAX (1u << 20)	/* bytes of a file of the page as it is */

struct ui_file {
	const char *name, *type;
	const char *start, *end;
};

#define UI_FILE(symbol, name, type) extern const char ui_##symbol##_start[], ui_##symbol##_end[];
#include "manager/ui/files.def"
#undef UI_FILE

#define UI_FILE(symbol, name, type) { name, type, ui_##symbol##_start, ui_##symbol##_end },
static const struct ui_file files[] = {
#include "manager/ui/files.def"
};
#undef UI_FILE

/*
 * Scripts and styles are our files alone, no text becomes code or markup (Trusted Types), nothing
 * leads elsewhere, and no other page shows this one.
 */
static const char *const page_fields[] = {
	"Content-Security-Policy",
	("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
	"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"),
	"X-Frame-Options", "DENY",
	"Referrer-Policy", "no-referrer",
	"Cross-Origin-Opener-Policy", "same-origin",
	"Cross-Origin-Resource-Policy", "same-origin",
	"Permissions-Policy", "camera=(), microphone=(), geolocation=()",
};

static int add_page_fields(struct http_request *rq, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(page_fields); i += 2)
		if (http_reply_header(rq, page_fields[i], page_fields[i + 1], e) < 0)
			return -1;
	return 0;
}

/* For a client that does not take gzip. */
static int reply_unpacked(struct http_request *rq, const struct ui_file *f, struct err *e)
{
	z_stream z = { .next_in = (unsigned char *)(size_t)f->start, .avail_in = (unsigned)(f->end - f->start) };
	char *out = malloc(PAGE_MAX);
	int r;

	if (!out || inflateInit2(&z, 15 + 16) != Z_OK) {
		free(out);
		return err_nomem(e);
	}
	z.next_out = (unsigned char *)out;
	z.avail_out = PAGE_MAX;
	r = inflate(&z, Z_FINISH);
	inflateEnd(&z);
	if (r != Z_STREAM_END) {
		free(out);
		return err_set(e, ERR_CORRUPT, "a file of the page does not unpack");
	}
	return http_reply_data(rq, 0, f->type, out, z.total_out, e);
}

static int takes_gzip(const struct http_request *rq)
{
	const char *accepted = http_header(rq, "Accept-Encoding");

	return accepted && strcasestr(accepted, "gzip") != NULL;
}

static int reply_packed(struct http_request *rq, const struct ui_file *f, struct err *e)
{
	struct MHD_Response *r = MHD_create_response_from_buffer((size_t)(f->end - f->start), (void *)(size_t)f->start,
								 MHD_RESPMEM_PERSISTENT);

	if (http_reply_set(rq, 0, f->type, r, e) < 0)
		return -1;
	return http_reply_header(rq, "Content-Encoding", "gzip", e);
}

static int get_page_file(struct http_request *rq, struct err *e)
{
	const char *name = http_param(rq, "file");
	size_t i;

	if (!name[0])
		name = files[0].name;
	for (i = 0; i < ARRAY_LEN(files) && strcmp(files[i].name, name); i++)
		;
	if (i == ARRAY_LEN(files))
		return err_set(e, ERR_NOT_FOUND, "the page has no such file");
	if ((takes_gzip(rq) ? reply_packed(rq, &files[i], e) : reply_unpacked(rq, &files[i], e)) < 0 ||
	    http_reply_header(rq, "Vary", "Accept-Encoding", e) < 0)
		return -1;
	return add_page_fields(rq, e);
}

static int get_page(struct http_request *rq, struct err *e)
{
	if (http_reply_empty(rq, 302, e) < 0 || http_reply_header(rq, "Location", "/ui/", e) < 0)
		return -1;
	return add_page_fields(rq, e);
}

/* ---- the way in ---- */

static json_t *describe_pass(const struct http_who *who, uint64_t left_ms)
{
	return json_pack("{s:s,s:b,s:s,s:I}", "name", who->name, "admin", who->admin, "version", BERTH_VERSION, "expires_ms",
			 (json_int_t)left_ms);
}

static int is_plain_client(struct http_request *rq, struct err *e)
{
	static const unsigned char none[sizeof(http_who(rq)->session)];

	if (memcmp(http_who(rq)->session, none, sizeof(none)) == 0)
		return 0;
	return err_set(e, ERR_DENIED, "a session of the page makes no other; hint: a token, or berth ui");
}

static int post_ui_link(struct http_request *rq, struct err *e)
{
	char secret[UISESSION_SECRET], address[80], url[sizeof(secret) + sizeof(address) + 20];
	struct config c;

	if (http_is_tcp(rq))
		return err_set(e, ERR_DENIED, "a link is asked for over the unix socket; hint: berth ui on berthd's host");
	api_config(api_of(rq), &c);
	if (is_plain_client(rq, e) < 0 || http_tcp_address(rq, address, sizeof(address), e) < 0 ||
	    uisessions_link(api_of(rq)->ui, http_who(rq), c.ui_link_ms, secret, e) < 0)
		return -1;
	/* what comes behind # is sent to no server, and is in no log */
	snprintf(url, sizeof(url), "http://%s/ui/#link=%s", address, secret);
	return http_reply_json(rq, 0, json_pack("{s:s,s:I}", "url", url, "expires_ms", (json_int_t)c.ui_link_ms), e);
}

static int post_ui_session(struct http_request *rq, struct err *e)
{
	char secret[UISESSION_SECRET];
	struct config c;
	json_t *j;

	api_config(api_of(rq), &c);
	if (is_plain_client(rq, e) < 0 || uisessions_open(api_of(rq)->ui, http_who(rq), c.ui_session_ms, secret, e) < 0)
		return -1;
	j = describe_pass(http_who(rq), c.ui_session_ms);
	json_object_set_new(j, "session", json_string(secret));
	return http_reply_json(rq, 0, j, e);
}

static int get_ui_session(struct http_request *rq, struct err *e)
{
	const uint64_t ends = http_who(rq)->ends_ms, now = clock_ms();

	return http_reply_json(rq, 0, describe_pass(http_who(rq), ends > now ? ends - now : 0), e);
}

static int delete_ui_session(struct http_request *rq, struct err *e)
{
	struct api *a = api_of(rq);

	uisessions_end(a->ui, http_who(rq));
	http_share_reload(a->http);	/* its streams end, too */
	return http_reply_json(rq, 0, json_pack("{s:b}", "closed", 1), e);
}

const struct http_route ui_routes[] = {
	{ "GET", "/", get_page, "leads to the page", .flags = HTTP_QUIET | HTTP_OPEN | HTTP_UI, .status = 302 },
	{ "GET", "/ui", get_page, "leads to the page", .flags = HTTP_QUIET | HTTP_OPEN | HTTP_UI, .status = 302 },
	{ "POST", "/ui/links", post_ui_link, "a link that signs in to the page, once; over the unix socket alone", .flags = HTTP_UI,
	  .response = "UiLink" },
	{ "POST", "/ui/session", post_ui_session, "sign in to the page: a session for the holder of this token or link",
	  .flags = HTTP_UI | HTTP_SIGN_IN, .response = "UiSession" },
	{ "GET", "/ui/session", get_ui_session, "who is signed in, and for how long", .flags = HTTP_QUIET | HTTP_UI,
	  .response = "UiSession" },
	{ "DELETE", "/ui/session", delete_ui_session, "sign out: the session ends, with what it follows", .flags = HTTP_UI,
	  .response = "Closed" },
	{ "GET", "/ui/", get_page_file, "the page", .flags = HTTP_QUIET | HTTP_OPEN | HTTP_UI, .type = "text/html; charset=utf-8" },
	{ "GET", "/ui/{file}", get_page_file, "a file of the page", .flags = HTTP_QUIET | HTTP_OPEN | HTTP_UI,
	  .type = "text/html; charset=utf-8, text/javascript; charset=utf-8, text/css; charset=utf-8, image/svg+xml" },
	{ NULL },
};
