/* SPDX-License-Identifier: Apache-2.0 */
/* berth send: input for a detached command or for what runs in a shell session. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

#define CHUNK (1u << 16)
#define SESSION_CHUNK 2048	/* below a terminal's line buffer of 4096 */

enum { OPT_SESSION = 1, OPT_EOF, OPT_NO_NEWLINE };

static const struct opt options[] = {
	{ "session", 's', OPT_VALUE, "NAME", "to the terminal of this shell session instead of a command", OPT_SESSION },
	{ "eof", 0, OPT_FLAG, NULL, "then end of file", OPT_EOF },
	{ "no-newline", 'n', OPT_FLAG, NULL, "TEXT as it is, without a newline after it", OPT_NO_NEWLINE },
};

struct send {
	const char *session;
	int eof, no_newline;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct send *s = ctx;

	(void)e;
	if (id == OPT_SESSION)
		s->session = value;
	else
		*(id == OPT_EOF ? &s->eof : &s->no_newline) = 1;
	return 0;
}

static int send_chunk(const struct send *s, int sock, const char *command, const char *p, size_t n, int eof, struct err *e)
{
	do {
		autojson json_t *rq = protocol_request(OP_send);
		autojson json_t *answer = NULL;
		autoclose int fd = -1;
		size_t sent;

		if (s->session)
			request_set_session(rq, s->session);
		else
			request_set_command(rq, command);
		request_set_eof(rq, eof);
		if (n && (fd = wire_data(p, n, e)) < 0)
			return -1;
		answer = keeper_call(sock, rq, &fd, fd >= 0 ? 1 : 0, NULL, e);
		if (!answer)
			return -1;
		sent = (size_t)json_integer_value(json_object_get(answer, "sent"));
		if (!sent && n)
			return err_set(e, ERR_BUSY, "nobody reads what was sent");
		if (sent >= n)
			return 0;
		p += sent;
		n -= sent;
	} while (n);
	return 0;
}

/* stdin, in pieces as they come. */
static int send_input(const struct send *s, int sock, const char *command, struct err *e)
{
	char buf[CHUNK];
	ssize_t n;

	while ((n = read(STDIN_FILENO, buf, s->session ? SESSION_CHUNK : sizeof(buf))) > 0)
		if (send_chunk(s, sock, command, buf, (size_t)n, 0, e) < 0)
			return -1;
	return n < 0 ? err_sys(e, "read stdin") : 0;
}

static int send_text(const struct send *s, int sock, const char *command, const char *text, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	size_t at = 0, n;

	if (buf_adds(&b, text, e) < 0 || (!s->no_newline && buf_adds(&b, "\n", e) < 0))
		return -1;
	for (; at < b.len; at += n) {
		n = b.len - at < SESSION_CHUNK ? b.len - at : SESSION_CHUNK;
		if (send_chunk(s, sock, command, b.data + at, n, 0, e) < 0)
			return -1;
	}
	return 0;
}

static int send_all(const struct send *s, int sock, const char *command, const char *text, struct err *e)
{
	if (text && (strcmp(text, "-") ? send_text(s, sock, command, text, e) : send_input(s, sock, command, e)) < 0)
		return -1;
	return s->eof ? send_chunk(s, sock, command, NULL, 0, 1, e) : 0;
}

static int is_command_id(const char *s)
{
	return s[0] == 'c' && s[1] && s[1 + strspn(s + 1, "0123456789")] == '\0';
}

static int send_main(const struct command *self, int argc, char **argv)
{
	struct send s = { 0 };
	struct sandbox_ref ref;
	struct err e = { 0 };
	int rest, help = 0, r, words;
	const char *command = NULL, *text;

	sandbox_ref_init(&ref);
	r = command_options(self, argc, argv, set_option, &s, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	/* berth send ID yes: no command's id, so the answer to what the usual session asks */
	if (r == 0 && !s.session && argc - rest == 2 && !is_command_id(argv[rest + 1]))
		s.session = "main";
	words = argc - rest - (s.session ? 1 : 2);
	if (r == 0 && (words < 0 || words > 1))
		r = err_set(&e, ERR_USAGE, words > 1 ? "more than one text; hint: quote it, and put options before the sandbox" :
			    "a sandbox and a command's id (or --session) are wanted; hint: berth send ID c3 'TEXT'");
	if (r == 0 && !words && !s.eof)
		r = err_set(&e, ERR_USAGE, "nothing to send; hint: a text, - for stdin, or --eof");
	if (r == 0)
		r = sandbox_ref_connect(&ref, argv[rest], 0, &e);
	if (r == 0) {
		if (!s.session)
			command = argv[rest + 1];
		text = words ? argv[argc - 1] : NULL;
		r = send_all(&s, ref.sock, command, text, &e);
	}
	sandbox_ref_close(&ref);
	return r < 0 ? command_fail(self, &e, 0) : 0;
}

const struct command cmd_send = {
	.name = "send",
	.args = "SANDBOX [COMMAND] [TEXT|-]",
	.summary = "send input to a detached command or a shell session",
	.detail = "TEXT gets a newline; - sends stdin as it is.  It returns when the command's stdin took everything.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = send_main,
};
