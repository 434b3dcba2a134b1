/* SPDX-License-Identifier: Apache-2.0 */
/* toolparts - what several tools share: members of requests, output and verdicts of commands. */
#ifndef BERTH_CLI_MCP_TOOLPARTS_H
#define BERTH_CLI_MCP_TOOLPARTS_H

#include "cli/mcp/mcp.h"

#define TOOL_READ_BYTES 262144	/* of a file, where the call names no max_bytes */
#define TOOL_READ_MAX 8388608

/* Copies up to three members, as far as the arguments have them; NULL is none. */
void toolparts_copy(json_t *rq, json_t *arguments, const char *a, const char *b, const char *c);
/* "env": an object of strings, as stdio's list of NAME=VALUE. */
void toolparts_env(json_t *rq, json_t *arguments);
/* "timeout_ms" of the call; ERR_LIMIT over the configuration's maximum.  None: the sandbox's. */
int toolparts_timeout(struct mcp *m, struct mcp_call *c, json_t *rq, struct err *e);
/* Appends option and value for each string of the list key. */
void toolparts_each_option(json_t *args, json_t *arguments, const char *key, const char *option);
/* Takes the bytes of a's member key, or of key_hex, as output of stream which. */
int toolparts_output(struct mcp_call *c, int which, const json_t *a, const char *key,
		     struct err *e);
/* Ends c with its output and what became of the command; more: further members, or NULL. */
int toolparts_verdict(struct mcp *m, struct mcp_call *c, const json_t *verdict, const json_t *more);
/* One entry of a directory, as a line of text and as an object of list. */
int toolparts_entry(json_t *entry, json_t *list, struct buf *text, struct err *e);
/* The resource of that file: a new reference. */
json_t *toolparts_uri(const char *sandbox, const char *path);

#endif
