/* SPDX-License-Identifier: Apache-2.0 */
/* Routes on the engine as a whole: _ping, version, info. */
#include <string.h>

#include "base/mem.h"
#include "manager/docker/docker.h"
#include "manager/engine/system.h"

static int ping(struct http_request *rq, struct err *e)
{
	char *ok = strdup("OK");

	if (!ok)
		return err_nomem(e);
	if (http_reply_data(rq, 200, "text/plain; charset=utf-8", ok, 2, e) < 0 ||
	    http_reply_header(rq, "Cache-Control", "no-cache, no-store, must-revalidate", e) < 0)
		return -1;
	return http_reply_header(rq, "Pragma", "no-cache", e);
}

static int version(struct http_request *rq, struct err *e)
{
	return http_reply_json(rq, 200, engine_version(), e);
}

static int info(struct http_request *rq, struct err *e)
{
	json_t *j = NULL;
	struct box b;

	if (box_open(&b, rq, e) == 0)
		j = engine_info(&b.registry, e);
	box_close(&b);
	return j ? http_reply_json(rq, 200, j, e) : -1;
}

/* There are none; docker plugin ls asks. */
static int plugins(struct http_request *rq, struct err *e)
{
	return http_reply_json(rq, 200, json_array(), e);
}

const struct http_route docker_system_routes[] = {
	{ "GET", "/plugins", plugins, "list plugins: none", HTTP_NONE, HTTP_QUIET },
	{ "GET", "/_ping", ping, "is it there", HTTP_NONE, HTTP_QUIET },
	{ "HEAD", "/_ping", ping, "is it there", HTTP_NONE, HTTP_QUIET },
	{ "GET", "/version", version, "what it is", HTTP_NONE, HTTP_QUIET },
	{ "GET", "/info", info, "the engine and its host", HTTP_NONE, HTTP_QUIET },
	{ NULL },
};
