/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/http/outcome.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

/* {"errors":[{"code":"DENIED","message":"..."}]}, as far as it is that. */
static void add_told(const struct exchange *x, struct err *e)
{
	autojson json_t *j =
		x->text.len ? json_parse(x->text.data, x->text.len, HTTP_ERROR_TEXT_MAX, "", NULL) :
			      NULL;
	const json_t *first = json_array_get(json_object_get(j, "errors"), 0);
	const char *said = json_string_value(json_object_get(first, "message"));

	if (!said || !*said)
		said = json_string_value(json_object_get(first, "code"));
	if (said && *said) {
		size_t n = strlen(e->msg);

		snprintf(e->msg + n, sizeof(e->msg) - n, ": %.160s", said);
	}
}

static void status_error(const struct exchange *x, struct err *e)
{
	char at[ORIGIN_TEXT_MAX];
	struct origin o;

	if (origin_parse(x->url, "URL", &o, NULL, NULL) < 0)
		o = x->site->origin;
	origin_format(&o, at);
	if (x->status == 404)
		err_set(e, ERR_NOT_FOUND, "%s does not have it", at);
	else if (x->status == 403)
		err_set(e, ERR_DENIED, "%s forbids it", at);
	else if (x->status == 429)
		err_set(e, ERR_NET, "%s says there were too many requests", at);
	else
		err_set(e, ERR_NET, "%s answers with status %ld", at, x->status);
	add_told(x, e);
	if (x->status == 429)
		err_hint(e, "wait, or log in: berth login");
}

static void transport_error(const struct exchange *x, CURLcode rc, struct err *e)
{
	char at[ORIGIN_TEXT_MAX];
	struct origin o;
	const char *why = x->curl_error[0] ? x->curl_error : curl_easy_strerror(rc);

	if (origin_parse(x->url, "URL", &o, NULL, NULL) < 0)
		o = x->site->origin;
	origin_format(&o, at);
	if (x->refused[0])
		err_set(e, ERR_DENIED, "%s", x->refused);
	else if (rc == CURLE_OPERATION_TIMEDOUT)
		err_set(e, ERR_NET, "%s is too slow or silent: %.150s", at, why);
	else
		err_set(e, ERR_NET, "%s: %.200s", at, why);
	if (rc == CURLE_PEER_FAILED_VERIFICATION || rc == CURLE_SSL_CACERT_BADFILE)
		err_hint(e, "registry.ca_file in berth.toml names a CA of your own");
	else if (rc == CURLE_SSL_CONNECT_ERROR && strstr(why, "wrong version number"))
		err_hint(e, "if it speaks plain http, list it in registry.insecure in berth.toml, "
			    "or use --insecure");
	else if (rc == CURLE_COULDNT_RESOLVE_HOST)
		err_hint(e, "is the name right, and does this host reach a name server?");
}

int outcome_is_passing(const struct exchange *x, CURLcode rc)
{
	if (x->refused[0])
		return 0;
	switch (rc) {
	case CURLE_OK:
		return x->status == 408 || x->status == 429 || x->status == 500 ||
		       x->status == 502 || x->status == 503 || x->status == 504;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_URL_MALFORMAT:
	case CURLE_OUT_OF_MEMORY:
	case CURLE_WEIRD_SERVER_REPLY:
		return 0;
	default:
		return 1;
	}
}

void outcome_error(const struct exchange *x, CURLcode rc, struct err *e)
{
	if (rc == CURLE_OK)
		status_error(x, e);
	else
		transport_error(x, rc, e);
}
