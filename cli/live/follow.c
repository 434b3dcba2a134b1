/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "runtime/sandbox/verdict.h"

static const char *const names[] = { "stdout", "stderr" };

int follow_ask(struct follow *f, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_follow);

	request_set_command(rq, f->command);
	request_set_stream(rq, f->stream);
	request_set_from(rq, f->from[0]);
	request_set_stderr_from(rq, f->from[1]);
	if (f->hold)
		request_set_hold(rq, 1);
	return wire_request(f->sock, rq, NULL, 0, e);
}

static int write_stream(struct follow *f, int which, json_t *part, const char *data, size_t n, struct err *e)
{
	uint64_t start = (uint64_t)json_integer_value(json_object_get(part, "from"));
	autofree char *line = NULL;

	if (f->json) {
		if (!n)
			return 0;
		json_object_set_new(part, "stream", json_string(names[which]));
		if (json_set_bytes(part, "data", data, n, e) < 0)
			return -1;
		line = json_dumps(part, JSON_COMPACT);
		if (!line)
			return err_nomem(e);
		return printf("%s\n", line) < 0 || fflush(stdout) ? err_sys(e, "write to stdout") : 0;
	}
	if (start > f->from[which])
		log_note("berth", "%llu bytes of %s were dropped here", (unsigned long long)(start - f->from[which]), names[which]);
	return io_write_all(f->to[which], data, n) < 0 ? err_sys(e, "write the output") : 0;
}

int follow_take(struct follow *f, json_t **ret_verdict, struct err *e)
{
	autojson json_t *answer = NULL;
	autobuf struct buf b = BUF_INIT(WIRE_DATA_MAX);
	int fds[WIRE_FDS_MAX], r, i;
	size_t n = 0, at = 0, j;

	r = wire_recv(f->sock, -1, &answer, fds, WIRE_FDS_MAX, &n, e);
	if (r == 0)
		return wire_ended(e);
	if (r < 0)
		return -1;
	r = n ? wire_read_data(fds[0], &b, e) : 0;
	for (j = 0; j < n; j++)
		close(fds[j]);
	if (r < 0 || wire_check(answer, e) < 0)
		return -1;
	for (i = 0; i < 2; i++) {
		json_t *part = json_object_get(answer, names[i]);
		size_t len = (size_t)json_integer_value(json_object_get(part, "bytes"));
		uint64_t next = (uint64_t)json_integer_value(json_object_get(part, "next"));

		if (!part)
			continue;
		if (len > b.len - at)
			return err_set(e, ERR_CORRUPT, "the keeper's answer is cut short");
		if (write_stream(f, i, part, b.data ? b.data + at : "", len, e) < 0)
			return -1;
		at += len;
		f->from[i] = next;
	}
	if (!json_is_true(json_object_get(answer, "ended")))
		return 0;
	*ret_verdict = json_incref(json_object_get(answer, "verdict"));
	return 1;
}

int follow_note_lost(const char *prog, const json_t *verdict)
{
	const char *cause = json_string_value(json_object_get(verdict, "cause"));
	int lost = cause && !strcmp(cause, "lost");

	if (lost)
		log_note(prog, VERDICT_LOST_TEXT);
	return lost;
}

int follow_status(const json_t *verdict)
{
	return (int)json_integer_value(json_object_get(verdict, "exit_status"));
}
