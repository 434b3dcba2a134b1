/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stdio/stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

int pipes_make(int *ret_ours, int *ret_theirs, int we_read, struct err *e)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	*ret_ours = p[!we_read];
	*ret_theirs = p[we_read];
	return fcntl(*ret_ours, F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "set up a pipe") : 0;
}

void pipes_input(struct stdio_request *r)
{
	while (r->in >= 0 && r->input_done < r->input.len) {
		ssize_t n = write(r->in, r->input.data + r->input_done, r->input.len - r->input_done);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			fd_close(&r->in);	/* it reads no more */
		else
			r->input_done += (size_t)n;
	}
	r->input.len = r->input_done = 0;
	if (!r->in_open)
		fd_close(&r->in);
}

/* Where the last character of p is cut: the number of its bytes that are there, at most 3. */
static size_t cut_character(const char *p, size_t n)
{
	size_t back;

	for (back = 1; back <= 3 && back <= n; back++) {
		unsigned char c = (unsigned char)p[n - back];
		size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;

		if ((c & 0xc0) != 0x80)
			return whole > back ? back : 0;
	}
	return 0;
}

static void tell(struct stdio *st, struct stdio_request *r, int which, char *p, size_t n, int last)
{
	static const char *const names[] = { "stdout", "stderr" };
	struct err ignored;
	size_t keep = last ? 0 : cut_character(p, n);
	json_t *a;

	memcpy(r->held[which], p + n - keep, keep);
	r->held_len[which] = keep;
	if (n == keep)
		return;
	a = json_pack("{s:s}", "stream", names[which]);
	json_set_bytes(a, "data", p, n - keep, &ignored);
	answer_to(st, r, a);
}

int pipes_output(struct stdio *st, struct stdio_request *r, int which)
{
	char buf[STDIO_CHUNK + 4];
	struct err e;
	size_t held = r->held_len[which];
	ssize_t n = read(r->out[which], buf + held, STDIO_CHUNK);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		fd_close(&r->out[which]);
		memcpy(buf, r->held[which], held);
		if (held)
			tell(st, r, which, buf, held, 1);
		return 0;
	}
	if (r->kind == CHILD || r->file) {
		if (buf_add(&r->text[which], buf, (size_t)n, &e) < 0)
			fd_close(&r->out[which]);
		return 1;
	}
	memcpy(buf, r->held[which], held);
	tell(st, r, which, buf, held + (size_t)n, 0);
	return 1;
}

void pipes_drain(struct stdio *st, struct stdio_request *r)
{
	char rest[4];
	int i;

	for (i = 0; i < 2; i++) {
		while (r->out[i] >= 0 && pipes_output(st, r, i))
			;
		if (r->held_len[i]) {
			memcpy(rest, r->held[i], r->held_len[i]);
			tell(st, r, i, rest, r->held_len[i], 1);
		}
	}
}
