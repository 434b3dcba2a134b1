/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/layer/packer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

struct report {
	struct err err;
	struct tarout_stats stats;
};

int packer_start(struct packer *p, packer_fn *fn, void *ctx, int out_fd, struct err *e)
{
	struct report r = { 0 };
	pid_t me = getpid();
	int rep[2];

	if (pipe2(rep, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	p->pid = fork();
	if (!p->pid) {
		fn(ctx, out_fd, rep[1], me, &r.stats, &r.err);
		_exit(io_write_all(rep[1], &r, sizeof(r)) < 0 || r.err.code ? 1 : 0);
	}
	close(rep[1]);
	p->report_fd = rep[0];
	return p->pid < 0 ? err_sys(e, "fork") : 0;
}

int packer_start_pipe(struct packer *p, packer_fn *fn, void *ctx, int *ret_fd, struct err *e)
{
	int out[2], r;

	if (pipe2(out, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	fcntl(out[1], F_SETPIPE_SZ, 1 << 20);
	r = packer_start(p, fn, ctx, out[1], e);
	close(out[1]);
	if (r < 0)
		close(out[0]);
	else
		*ret_fd = out[0];
	return r;
}

int packer_end(struct packer *p, int rc, struct tarout_stats *ret, struct err *e)
{
	struct report r = { 0 };
	int got, status;

	if (p->pid <= 0)
		return rc;
	if (rc < 0)
		kill(p->pid, SIGKILL);
	got = io_read_exact(p->report_fd, &r, sizeof(r));
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
		;
	fd_close(&p->report_fd);
	p->pid = 0;
	r.err.msg[sizeof(r.err.msg) - 1] = '\0';
	if (got != 1 || r.err.code < 0 || r.err.code >= ERR_CODE_COUNT)
		return rc < 0 ? -1 : err_set(e, ERR_INTERNAL, "the packing process died (wait status 0x%x)", (unsigned)status);
	/* EPIPE: we hung up ourselves */
	if (r.err.code && (rc == 0 || r.err.os_errno != EPIPE)) {
		if (e)
			*e = r.err;
		return -1;
	}
	*ret = r.stats;
	return rc;
}
