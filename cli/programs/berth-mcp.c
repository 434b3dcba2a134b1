/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth-mcp - the program of `berth mcp`, described in cli/mcp/mcp.h.
 *
 * Only cli/stdio/cmd_mcp.c starts it, with its configuration and its `berth stdio` as
 * descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/mcp/mcp.h"

/* So that `berth ps` says what made a sandbox (LABEL_FACE of manager/host/labels.h). */
static int mark_mcp_sandboxes(struct mcp_config *c, struct err *e)
{
	return !c->options || json_object_set_new(c->options, "mark", json_pack("[s]", "berth.face=mcp")) == 0 ? 0 : err_nomem(e);
}

static int load_config(struct mcp *m, struct err *e)
{
	autobuf struct buf text = BUF_INIT(4u << 20);
	struct mcp_config *c = &m->config;

	if (io_read_all(MCP_CONFIG_FD, &text, "the configuration", e) < 0)
		return -1;
	c->doc = json_parse(text.data ? text.data : "", text.len, 4u << 20, "configuration", e);
	if (!c->doc || json_get_str(c->doc, "image", &c->image, "configuration", e) < 0 ||
	    json_get_str(c->doc, "sandbox", &c->sandbox, "configuration", e) < 0 ||
	    json_get_arr(c->doc, "images", &c->images, "configuration", e) < 0 ||
	    json_get_obj(c->doc, "options", &c->options, "configuration", e) < 0 ||
	    json_get_u64(c->doc, "max_timeout_ms", &c->max_timeout_ms, "configuration", e) < 0 ||
	    json_get_u64(c->doc, "timeout_ms", &c->timeout_ms, "configuration", e) < 0 ||
	    json_get_u64(c->doc, "max_sandboxes", &c->max_sandboxes, "configuration", e) < 0 ||
	    json_get_bool(c->doc, "network_changes", &c->network_changes, "configuration", e) < 0)
		return -1;
	if (mark_mcp_sandboxes(c, e) < 0)
		return -1;
	/* if we are killed, our sandboxes are removed: their keeper sees our end */
	if (!json_object_get(c->options, "owner-pid") &&
	    json_object_set_new(c->options, "owner-pid", json_sprintf("%d", (int)getpid())) < 0)
		return err_nomem(e);
	return 0;
}

/*
 * An open file description of our own: O_NONBLOCK on an inherited pipe would affect every
 * process that has it.
 */
static int open_mcp_output(void)
{
	struct stat s;
	int fd = -1;

	if (fstat(STDOUT_FILENO, &s) == 0 && S_ISFIFO(s.st_mode))
		fd = open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? STDOUT_FILENO : fd;
}

int main(void)
{
	static struct mcp *m; /* static: leak checkers find what it holds at the end */
	struct err e = { 0 };
	int r = -1;

	m = calloc(1, sizeof(*m));
	if (!m) {
		fprintf(stderr, "berth mcp: out of memory\n");
		return 125;
	}
	m->in = BUF_INIT(MCP_LINE_MAX + (1u << 20));
	m->back_in = BUF_INIT(4 * MCP_LINE_MAX);
	m->out = m->back_out = BUF_INIT(MCP_OUT_MAX);
	m->log_level = 8;
	m->client_fd = STDIN_FILENO;
	m->out_fd = open_mcp_output();
	m->backend_fd = MCP_BACKEND_FD;
	if (fcntl(MCP_BACKEND_FD, F_SETFL, O_NONBLOCK) < 0)
		err_set(&e, ERR_USAGE, "this program is started by berth only; hint: berth mcp");
	else if (load_config(m, &e) == 0 && tool_load(m, &e) == 0) {
		box_begin(m);
		r = loop_run(m, &e);
	}
	if (r < 0)
		fprintf(stderr, "berth mcp: %s\n", e.msg);
	return r < 0 ? err_exit_status(e.code) : 0;
}
