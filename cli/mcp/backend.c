/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp/mcp.h"

#include "base/mem.h"

uint64_t backend_send(struct mcp *m, json_t *rq, struct err *e)
{
	autojson json_t *owned __attribute__((unused)) = rq;
	uint64_t number = ++m->next_request;
	size_t n, start = m->back_out.len;

	if (!rq || json_object_set_new(rq, "id", json_integer((json_int_t)number)) < 0) {
		err_set(e, ERR_INVALID, "the arguments are not valid UTF-8");
		return 0;
	}
	n = json_dumpb(rq, NULL, 0, JSON_COMPACT);
	if (!n || n > MCP_LINE_MAX) {
		err_set(e, ERR_LIMIT, "the request has more than %u bytes", MCP_LINE_MAX);
		return 0;
	}
	if (buf_reserve(&m->back_out, n + 1, e) < 0)
		return 0;
	json_dumpb(rq, m->back_out.data + start, n, JSON_COMPACT);
	m->back_out.data[start + n] = '\n';
	m->back_out.len += n + 1;
	return number;
}

void backend_line(struct mcp *m, const char *line, size_t n)
{
	struct err e;
	autojson json_t *answer = json_parse(line, n, 2 * MCP_LINE_MAX, "answer", &e);

	/* our own program: if its answer is garbled, we do not guess */
	if (!json_is_object(answer))
		m->lost = 1;
	else
		toolcall_answer(m, answer);
}
