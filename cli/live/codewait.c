/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/codewait.h"

#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/host/record.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/zygote/client.h"
#include "manager/zygote/wire.h"

int codewait_is_there(struct registry *r, const char *id)
{
	autojson json_t *record = NULL;
	struct err ignored;

	return record_read(r->sandboxes_fd, id, &record, &ignored) == 1 &&
	       json_object_get(record_labels(record), ZYGOTE_LABEL);
}

int codewait_send(int sock, const json_t *env, uint64_t timeout_ms, int has_timeout,
		  const int std[3], struct err *e)
{
	autobuf struct buf code = BUF_INIT(ZYGOTE_REQUEST_MAX);
	autojson json_t *rq = protocol_request(OP_code);
	struct zygote_request q = {.cwd = "", .name = "<stdin>", .env = env};
	autoclose int file = -1;
	int fds[4] = {std[0], std[1], std[2], -1};

	if (io_read_all(STDIN_FILENO, &code, "stdin", e) < 0)
		return -1;
	q.code = code.data ? code.data : "";
	q.code_len = code.len;
	fds[3] = file = zygote_request_file(&q, e);
	if (has_timeout)
		request_set_timeout_ms(rq, timeout_ms);
	return file < 0 ? -1 : wire_request(sock, rq, fds, 4, e);
}
