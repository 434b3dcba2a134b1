/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A zygote whose interpreter cannot be forked: each of its sandboxes starts one and has it run the
 * preload, before a client comes.  Upholds S48 of SECURITY.md: they have nothing in common.
 *
 * node is such an interpreter.  V8 keeps its heap and its code in memory that a fork does not have
 * (MADV_DONTFORK), so that the child of a fork(2) dies at its first instruction of JavaScript; and
 * node's process has at least three threads.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/zygote/zygote.h"
#include "runtime/kernel/fdpass.h"

extern const char zygote_node_addon_start[], zygote_node_addon_end[];

/* The interpreter as command 1; what it is given is of this sandbox alone. */
static int start(struct zygote *z, struct sandbox *sandbox, int control, struct err *e)
{
	struct job job =
		sandbox_job(sandbox->spec, INIT_LAST | INIT_MAKE_CWD | INIT_QUIET | INIT_SHELL);
	autoclose int library = sandbox_copy_program("berth-node", zygote_node_addon_start,
						     zygote_node_addon_end, 0555, e);

	if (library < 0)
		return -1;
	job.script_fd = library;
	job.status_fd = control;
	return preload_start(&z->preload, sandbox, &job, NULL, e);
}

int ahead_start(struct zygote *z, struct sandbox *sandbox, int supervisor, int *ret_control,
		struct err *e)
{
	struct home_ask ready = {.word = HOME_READY};
	struct preload *p = &z->preload;
	autoclose int near = -1, far = -1;
	int sv[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		return err_sys(e, "make a socket pair");
	near = p->ready_fd = sv[0];
	far = sv[1];
	p->end_fd = supervisor;
	r = start(z, sandbox, far, e);
	fd_close(&far);
	if (r == 0)
		r = preload_await(p, sandbox, e);
	fd_close(&p->out_fd);
	if (r < 0)
		return -1;
	if (fdpass_send(supervisor, &ready, sizeof(ready), NULL, 0) < 0)
		return err_set(e, ERR_BUSY, "the zygote has ended");
	*ret_control = take_fd(&near);
	return 0;
}

void ahead_tell(const struct zygote *z, int supervisor, const struct err *why)
{
	const struct preload *p = &z->preload;
	struct branch_failure f = {.err = *why, .output_len = (uint32_t)p->output_len};

	memcpy(f.output, p->output, p->output_len);
	(void)!fdpass_send(supervisor, &f, sizeof(f), NULL, 0);
}

/* Of the first branch, as long as somebody waits for the zygote. */
static int await_word(const struct zygote *z, struct err *e)
{
	struct pollfd p[] = {{.fd = z->branch[0].sock, .events = POLLIN}, {.fd = z->told}};

	while (poll(p, ARRAY_LEN(p), -1) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait for the first sandbox");
	return p[0].revents ? 0 : err_set(e, ERR_BUSY, "nobody waits for the zygote any more");
}

int ahead_try(struct zygote *z, struct err *e)
{
	struct branch_failure f;
	struct home_ask ready;
	ssize_t n;

	if (branch_start(z, 0, e) < 0)
		return -1;
	if (await_word(z, e) < 0)
		return -1;
	do
		n = recv(z->branch[0].sock, &f, sizeof(f), 0);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof(ready)) {
		z->branch[0].state = BRANCH_IDLE;
		return 0;
	}
	if (n != (ssize_t)sizeof(f))
		return err_set(e, ERR_INTERNAL, "the supervisor of the first sandbox died");
	z->preload.output_len = f.output_len;
	memcpy(z->preload.output, f.output, f.output_len);
	*e = f.err;
	return -1;
}
