/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcp - what the parts of berth-mcp share: a Model Context Protocol server over standard input
 * and output (modelcontextprotocol.io, revisions 2024-11-05 to 2025-11-25 and 2026-07-28).
 *
 * It is a translation and has no mechanism of its own: each call of a tool becomes requests to
 * one `berth stdio`, its child, over a socket.  One poll loop (loop.c) moves lines between the
 * client and that child.  rpc.c reads the client's messages and knows the two eras of the
 * protocol; tools.c has the table of tools; call.c the calls under way; box.c the sandboxes of
 * this client, which are made at their first use and removed at the end.
 *
 * The client is a language model's host: its arguments are hostile as far as the sandbox is
 * concerned, and its policy is fixed by the command line of `berth mcp`, never by a call.
 */
#ifndef BERTH_CLI_MCP_MCP_H
#define BERTH_CLI_MCP_MCP_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/mcp/collect.h"

#define MCP_LINE_MAX (16u << 20)	/* bytes of one message, in either direction */
#define MCP_OUT_MAX (64u << 20)		/* bytes that wait for the client */
#define MCP_OUT_FULL (1u << 20)		/* from here on nothing more is read until it takes some */
#define MCP_CALLS_MAX 64		/* calls under way */
#define MCP_BOXES_MAX 33		/* of one client: 32 that it made, and a given one */
#define MCP_CONFIG_FD 3			/* a memory file: the configuration, a JSON object */
#define MCP_BACKEND_FD 4		/* a stream socket: our `berth stdio` */

struct mcp;
struct mcp_call;

/* The settings from the command line of `berth mcp`. */
struct mcp_config {
	const char *image;		/* of the sandbox that is made at the first use */
	const char *sandbox;		/* or an existing sandbox, which is not removed */
	json_t *images;			/* more images that sandbox_create may be given */
	json_t *options;		/* of `berth create`, by long name */
	uint64_t max_timeout_ms;	/* that a call may name */
	uint64_t timeout_ms;		/* of a call that names none, in a sandbox that was made here; 0: no limit */
	uint64_t max_sandboxes;
	int network_changes;		/* whether calls may change the rules of the network */
	json_t *doc;			/* owns the above */
};

enum mcp_box_state { BOX_FREE, BOX_MAKING, BOX_READY };

struct mcp_box {
	enum mcp_box_state state;
	char name[65];			/* what calls name it by */
	char id[65];
	char image[256];
	int given;			/* not made by us: never removed */
	uint64_t request;		/* to the backend: BOX_MAKING, or its removal */
};

struct mcp_tool {
	const char *name;
	/* Begins the work of the call: sends a request to the backend, or answers at once. */
	int (*begin)(struct mcp *m, struct mcp_call *c, struct err *e);
	/* Takes an answer of the backend without an error; 0 when there will be more. */
	int (*answer)(struct mcp *m, struct mcp_call *c, json_t *a);
	int needs_box;
	int changes_network;		/* only with --allow-network-changes */
};

/* A sandbox may have stopped by itself: then it is started, and the call begins once more. */
enum mcp_step { STEP_WORK, STEP_PING, STEP_START };

struct mcp_call {
	int used;
	json_t *id;			/* the client's request */
	int modern;
	json_t *token;			/* its progress token, or NULL */
	const struct mcp_tool *tool;
	json_t *arguments;
	struct mcp_box *box;
	char box_id[65];		/* as it was when the work began */
	int waits;			/* until its sandbox is ready */
	int cancelled;			/* the client wants no answer any more */
	enum mcp_step step;
	json_t *first_error;		/* STEP_PING, STEP_START: the answer that made us look */
	int restarted;			/* the sandbox had stopped and was started again for it */
	uint64_t request;		/* to the backend, under way; 0: none */
	struct collect out[2];
	uint64_t begun_ms, told_ms;	/* told_ms: the last progress */
	char last_line[200];
};

struct mcp {
	struct mcp_config config;
	struct buf in, out;		/* the client's side */
	struct buf back_in, back_out;	/* the backend's */
	size_t in_scanned, out_done, back_scanned, back_done;
	int skipping;			/* the rest of a line that is too long */
	int in_eof, out_gone, ending;
	int lost;			/* the backend has gone, or an answer could not be kept */
	uint64_t next_request;
	int log_level;			/* of the client's logging/setLevel; 8: nothing is told */
	struct mcp_call calls[MCP_CALLS_MAX];
	struct mcp_box boxes[MCP_BOXES_MAX];
	json_t *tools;			/* tools.json */
	int client_fd, out_fd, backend_fd;
};

/* ---- loop.c ---- */

/* Serves until the client's end of input or a signal, and then removes what was made. */
int loop_run(struct mcp *m, struct err *e);

/* ---- rpc.c: JSON-RPC 2.0, and which era a request is of ---- */

#define RPC_PARSE_ERROR (-32700)
#define RPC_INVALID_REQUEST (-32600)
#define RPC_NO_METHOD (-32601)
#define RPC_INVALID_PARAMS (-32602)
#define RPC_INTERNAL (-32603)
#define RPC_NO_RESOURCE (-32002)
#define RPC_UNSUPPORTED_VERSION (-32022)

/* Handles one line of the client. */
void rpc_line(struct mcp *m, const char *line, size_t n);
/* id is borrowed, NULL means null; result and data are consumed, data may be NULL. */
void rpc_result(struct mcp *m, const json_t *id, int modern, json_t *result);
void rpc_error(struct mcp *m, const json_t *id, int code, const char *message, json_t *data);
/* A notification to the client; params is consumed. */
void rpc_notify(struct mcp *m, const char *method, json_t *params);
/* A message of the log for the client, as far as it asked for that level: 1 is info. */
void rpc_log(struct mcp *m, int level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The index of a level of RFC 5424 by its name in MCP, from debug 0 to emergency 7; -1. */
int rpc_level(const char *name);

/* ---- rpc.c: methods ---- */

enum { METHOD_LEGACY = 1, METHOD_MODERN = 2 };
struct mcp_request {
	json_t *id, *params;		/* borrowed; params may be NULL */
	int modern;
};
typedef void mcp_method(struct mcp *m, const struct mcp_request *r);
/* The method with that name in that era, or NULL. */
mcp_method *method_find(const char *name, int modern);
/* The revisions that are served: a new reference to an array of strings. */
json_t *method_versions(int modern);

/* ---- call.c: calls under way ---- */

/* A call of that tool with these arguments, an object that it consumes. */
void toolcall_begin(struct mcp *m, const struct mcp_request *r, const struct mcp_tool *tool,
		json_t *arguments);
/* The call of the client's request id; NULL. */
struct mcp_call *toolcall_of(struct mcp *m, const json_t *id);
void toolcall_cancel(struct mcp *m, struct mcp_call *c);
/* Sends rq, which it consumes, for c; the answers are c's. */
int toolcall_send(struct mcp *m, struct mcp_call *c, json_t *rq, struct err *e);
/* An answer of the backend to that request: to the call or the sandbox that waits for it. */
void toolcall_answer(struct mcp *m, json_t *answer);
/* Tells the result and ends c: text for a reader; structured is consumed and may be NULL. */
void toolcall_finish(struct mcp *m, struct mcp_call *c, const char *text, size_t n,
		 json_t *structured, int is_error);
/* The same with content, an array that it consumes. */
void toolcall_finish_content(struct mcp *m, struct mcp_call *c, json_t *content, json_t *structured,
			 int is_error);
/* Progress of calls that asked for it; when to look again in ms, -1: no need. */
int toolcall_progress(struct mcp *m, uint64_t now);
/* The sandbox of the calls that wait for it is ready, or with e not to be had. */
void toolcall_box_ready(struct mcp *m, struct mcp_box *b, const struct err *e);

/* ---- box.c: the sandboxes of this client ---- */

/* Before the first call: the sandbox of --sandbox is the default one. */
void box_begin(struct mcp *m);
/* The sandbox that name means, "" the default; made where it is not there yet.  NULL with e. */
struct mcp_box *box_take(struct mcp *m, const char *name, struct err *e);
/* A further one; name "" for one of our choosing, image NULL for the default one. */
struct mcp_box *box_create(struct mcp *m, const char *name, const char *image, struct err *e);
/* One with the files of the sandbox that of names, by the arguments "checkpoint" and "name". */
struct mcp_box *box_fork(struct mcp *m, const char *of, const json_t *arguments, struct err *e);
struct mcp_box *box_find(struct mcp *m, const char *name);
/* The answer to the request of b. */
void box_answer(struct mcp *m, struct mcp_box *b, json_t *answer);
/* b is not there any more. */
void box_forget(struct mcp_box *b);
/* Asks for the removal of all that was made; how many are left. */
int box_end_all(struct mcp *m);

/* ---- tools.c ---- */

/* NULL if there is none, or this server does not offer it. */
const struct mcp_tool *tool_find(const struct mcp *m, const char *name);
/* The tools as tools/list has them: a new reference. */
json_t *tool_list(const struct mcp *m);
/* Parses tools.json: ERR_INTERNAL when it and the table differ. */
int tool_load(struct mcp *m, struct err *e);
/* Takes "text", as others call it, for "command". */
void tool_settle(const struct mcp_tool *t, json_t *arguments);
/* The arguments of a tool by their names: a new reference. */
json_t *tool_arguments(const struct mcp *m, const char *name);
/* 0, or -1 with why the arguments do not fit the tool's schema. */
int tool_check(const struct mcp *m, const struct mcp_tool *t, const json_t *arguments,
	       struct err *e);
/* resources/read, which has a tool's ways. */
extern const struct mcp_tool tool_resource;
/* "berth://SANDBOX/PATH": *ret_path is borrowed from it; ERR_INVALID. */
int tool_uri(const char *uri, char ret_sandbox[65], const char **ret_path, struct err *e);

/* ---- loop.c: requests to berth stdio ---- */

/* Sends rq to `berth stdio` under a new number, which it returns, or 0 with e. */
uint64_t backend_send(struct mcp *m, json_t *rq, struct err *e);
/* Handles one line of it. */
void backend_line(struct mcp *m, const char *line, size_t n);

#endif
