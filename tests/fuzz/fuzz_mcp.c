/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of a client of MCP, and, after a '<', answers of its backend.  Whatever comes, each line
 * that goes out is one JSON object, and no more calls are under way than there may be.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/mcp/mcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *tools;

static void check_lines(const struct buf *b)
{
	const char *at = b->len ? b->data : "", *end = at + b->len, *nl;
	struct err e;
	json_t *j;

	for (; at < end; at = nl + 1) {
		nl = memchr(at, '\n', (size_t)(end - at));
		j = nl ? json_parse(at, (size_t)(nl - at), MCP_LINE_MAX, "line", &e) : NULL;
		if (!json_is_object(j))
			abort();
		json_decref(j);
	}
}

static void release(struct mcp *m)
{
	size_t i;

	for (i = 0; i < MCP_CALLS_MAX; i++) {
		json_decref(m->calls[i].id);
		json_decref(m->calls[i].token);
		json_decref(m->calls[i].arguments);
		json_decref(m->calls[i].first_error);
		collect_release(&m->calls[i].out[0]);
		collect_release(&m->calls[i].out[1]);
	}
	json_decref(m->config.options);
	buf_release(&m->out);
	buf_release(&m->back_out);
	free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data, *end = at + size, *nl;
	struct mcp *m = calloc(1, sizeof(*m));
	struct err e = { 0 };

	if (!m || (!tools && tool_load(m, &e) < 0))
		abort();
	tools = m->tools = tools ? tools : m->tools;
	m->config.image = "host";
	m->config.options = json_object();
	m->config.max_timeout_ms = 60000;
	m->config.max_sandboxes = 4;
	m->out = m->back_out = BUF_INIT(MCP_OUT_MAX);
	m->log_level = 8;
	m->client_fd = m->out_fd = m->backend_fd = -1;
	for (; at < end && !m->lost; at = nl + 1) {
		nl = memchr(at, '\n', (size_t)(end - at));
		nl = nl ? nl : end;
		if (*at == '<')
			backend_line(m, at + 1, (size_t)(nl - at - 1));
		else
			rpc_line(m, at, (size_t)(nl - at));
	}
	check_lines(&m->out);
	check_lines(&m->back_out);
	release(m);
	return 0;
}
