/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes that move a checkpoint from one host to another: its file (cli/image/portable.h) as the
 * reply, and a sandbox of the body.  Upholds S49 of SECURITY.md.
 *
 * The programs do the work.  berthd passes bytes on and keeps none: a body that ends early is the
 * end of the program's input, which then removes what it had made.
 */
#include "manager/api/arrival.h"
#include "manager/host/tenant.h"

static int get_export(struct http_request *rq, struct err *e)
{
	json_t *call;
	struct box b;
	int r = box_find(&b, rq, e);

	box_close(&b);
	if (r < 0)
		return -1;
	call = call_of("checkpoint export", NULL);
	call_sandbox(call, b.id, http_param(rq, "checkpoint"));
	spawn_tenant(rq, call);
	return spawn_reply(rq, call, "application/x-tar", e);
}

/* As for archives that become images: processes of the host read it, on no sandbox's account. */
static int check_may_import(struct http_request *rq, struct err *e)
{
	struct config c;
	struct tenant t;

	if (http_who(rq)->admin)
		return 0;
	api_config(api_of(rq), &c);
	if (tenant_load(&t, &c, http_who(rq)->name, e) < 0)
		return -1;
	if (t.may_import)
		return 0;
	err_set(e, ERR_DENIED, "tenant %s may not import checkpoints", t.name);
	return err_hint(e, "[tenant] import in berth.toml");
}

static int begin_import(struct http_request *rq, struct err *e)
{
	const struct arrival_options o = { http_query(rq, "name"), http_query_bool(rq, "trust"),
					   http_query_bool(rq, "drop"),
					   http_query_bool(rq, "no_start") };

	return check_may_import(rq, e) < 0 ? -1 : arrival_begin(rq, &o, e);
}

const struct http_route portable_routes[] = {
	{ "GET", "/v1/sandboxes/{id}/checkpoints/{checkpoint}/export", get_export,
	  "a checkpoint as one file, with the sandbox's options", .type = "application/x-tar" },
	{ "POST", "/v1/checkpoints/import", arrival_end,
	  "make a sandbox of the body, a checkpoint's file", HTTP_RAW,
	  .query = "name:string trust:boolean drop:boolean no_start:boolean",
	  .response = "CheckpointImported", .status = 201, .begin = begin_import,
	  .feed = arrival_feed },
	{ NULL },
};
