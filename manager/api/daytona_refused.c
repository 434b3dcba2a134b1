/* SPDX-License-Identifier: Apache-2.0 */
/* What of Daytona's toolbox berthd does not serve: each is refused with the words that say what to do instead. */
#include "manager/api/daytona.h"

/* A foreign sandbox and none are answered as by what is served. */
static int look_first(struct http_request *rq, struct err *e)
{
	struct box b;
	int r = box_find(&b, rq, e);

	box_close(&b);
	return r;
}

/* Refuses a route of a sandbox that is there. */
static int refuse_there(struct http_request *rq, const char *words, struct err *e)
{
	return look_first(rq, e) < 0 ? -1 : err_set(e, ERR_UNSUPPORTED, "%s", words);
}

static int refuse_lsp(struct http_request *rq, struct err *e)
{
	return refuse_there(rq, "language servers are not served; hint: run one in a session, and speak with it by its stdin or a port", e);
}

static int refuse_computer_use(struct http_request *rq, struct err *e)
{
	return refuse_there(rq, "computer use is not served; hint: an image with a VNC server, and its port by a preview", e);
}

static int refuse_interpreter(struct http_request *rq, struct err *e)
{
	return refuse_there(rq, "contexts of the code interpreter are not served; hint: process/code-run, or POST /execute of E2B's door", e);
}

static int refuse_env(struct http_request *rq, struct err *e)
{
	return refuse_there(rq, "the environment of a sandbox is set when it is made; hint: envs of a command, or export in a session", e);
}

static int refuse_metrics(struct http_request *rq, struct err *e)
{
	return refuse_there(rq, "system metrics are not served here; hint: GET /v1/sandboxes/{id}/stats", e);
}

static int refuse_ports(struct http_request *rq, struct err *e)
{
	return refuse_there(rq, "ports are not listed; hint: a preview's address tells whether something listens", e);
}

#define JSON(path, run) DAYTONA_TOOLBOX("POST", path, run, "Daytona: refused", HTTP_JSON, HTTP_OPTIONAL, .response = "Document")

const struct http_route daytona_refused_routes[] = {
	JSON("/lsp/{rest...}", refuse_lsp),
	DAYTONA_TOOLBOX("GET", "/lsp/{rest...}", refuse_lsp, "Daytona: refused", .query = "languageId:string pathToProject:string uri:string query:string",
		.response = "Document"),
	JSON("/computeruse/{rest...}", refuse_computer_use),
	DAYTONA_TOOLBOX("GET", "/computeruse/{rest...}", refuse_computer_use, "Daytona: refused",
		.query = "x:string y:string width:string height:string showCursor:string format:string quality:string scale:string scope:string pid:string "
			 "maxDepth:string",
		.response = "Document"),
	DAYTONA_TOOLBOX("DELETE", "/computeruse/{rest...}", refuse_computer_use, "Daytona: refused", .response = "Document"),
	JSON("/process/interpreter/context", refuse_interpreter),
	DAYTONA_TOOLBOX("GET", "/process/interpreter/context", refuse_interpreter, "Daytona: refused", .response = "Document"),
	DAYTONA_TOOLBOX("DELETE", "/process/interpreter/context/{context}", refuse_interpreter, "Daytona: refused", .response = "Document"),
	DAYTONA_TOOLBOX("GET", "/process/interpreter/execute", refuse_interpreter, "Daytona: refused", HTTP_NONE, HTTP_UPGRADES, .response = "Document"),
	JSON("/env", refuse_env),
	DAYTONA_TOOLBOX("GET", "/system/metrics", refuse_metrics, "Daytona: refused", .response = "Document"),
	DAYTONA_TOOLBOX("GET", "/port", refuse_ports, "Daytona: refused", .response = "Document"),
	DAYTONA_TOOLBOX("GET", "/port/{port}/in-use", refuse_ports, "Daytona: refused", .response = "Document"),
	{NULL},
};
