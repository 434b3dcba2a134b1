/* SPDX-License-Identifier: Apache-2.0 */
/* request - sends requests to a sandbox's init, and reads its answers. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/sandbox/launch.h"

struct job sandbox_job(const struct spec *s, uint32_t flags)
{
	return (struct job){
		.argv = s->argv, .argc = s->argc, .env = s->env, .env_count = s->env_count, .user = s->user,
		.workdir = s->workdir, .rlimits = s->rlimits, .flags = flags,
	};
}

static int pack_filter(const struct seccomp_filter *f, uint32_t *ret_len, struct buf *b, struct err *e)
{
	*ret_len = f->len;
	return buf_add(b, f->insns, f->len * sizeof(*f->insns), e);
}

/* The filters, then the strings of the command, NUL-terminated one after the other. */
static int pack_init_request(const struct spec *s, const struct job *c, struct init_request *rq, struct buf *b, struct err *e)
{
	size_t i;

	if (!s->unconfined_seccomp && spec_writes_host(s) &&
	    pack_filter(&seccomp_builtin("nosetid")->a, &rq->filter_len[0], b, e) < 0)
		return -1;
	if (!s->unconfined_seccomp && (pack_filter(&s->seccomp->a, &rq->filter_len[1], b, e) < 0 ||
				       pack_filter(&s->seccomp->b, &rq->filter_len[2], b, e) < 0))
		return -1;
	if (buf_add(b, c->user, strlen(c->user) + 1, e) < 0 || buf_add(b, c->workdir, strlen(c->workdir) + 1, e) < 0)
		return -1;
	for (i = 0; i < c->argc; i++)
		if (buf_add(b, c->argv[i], strlen(c->argv[i]) + 1, e) < 0)
			return err_wrap(e, "command line");
	for (i = 0; i < c->env_count; i++)
		if (buf_add(b, c->env[i], strlen(c->env[i]) + 1, e) < 0)
			return err_wrap(e, "environment");
	rq->blob_len = (uint32_t)b->len;
	return 0;
}

/* The descriptors in the order init expects them (initproto.h). */
static size_t collect_fds(const struct job *c, struct init_request *rq, const int std[3], int memfd, int *fds)
{
	size_t n = 3, i;

	memcpy(fds, std, 3 * sizeof(int));
	if (c->flags & INIT_SHELL) {
		fds[n++] = c->script_fd;
		fds[n++] = c->status_fd;
	}
	if (c->flags & INIT_EXEC_FD)
		fds[n++] = c->program_fd;
	if (memfd >= 0) {
		fds[n++] = memfd;
		rq->flags |= INIT_BLOB_FD;
	}
	if (!c->leaf)
		return n;
	fds[n++] = c->leaf->v2_fd;
	rq->flags |= INIT_CGROUP;
	for (i = 0; i < CGROUP_JOIN_MAX; i++) {
		if (c->leaf->join_fd[i] < 0)
			continue;
		fds[n++] = c->leaf->join_fd[i];
		rq->tasks++;
	}
	return n;
}

/*
 * Upholds S5 and S9 of SECURITY.md: by a directory of the host, or by an O_PATH
 * descriptor, "/proc/self/fd/0/.." is the host's tree, for reading and writing.
 */
int sandbox_check_std(const int std[3], struct err *e)
{
	static const char *const names[] = { "stdin", "stdout", "stderr" };
	struct stat st;
	int i, flags;

	for (i = 0; i < 3; i++) {
		if (std[i] < 0)
			continue;
		flags = fcntl(std[i], F_GETFL);
		if (flags < 0 || fstat(std[i], &st) < 0)
			return err_sys(e, "look at the command's %s", names[i]);
		if (S_ISDIR(st.st_mode) || flags & O_PATH)
			return err_set(e, ERR_INVALID, "the command's %s is a directory of the host, or an O_PATH descriptor, by which it would "
				       "reach the host's files; hint: a file, a pipe, a socket or /dev/null", names[i]);
	}
	return 0;
}

struct init_expect sandbox_expect(const struct spec *s)
{
	return (struct init_expect){
		.cap_bounding = s->caps,
		.seccomp_filters = !s->unconfined_seccomp,
		.no_new_privs = 1,
	};
}

int sandbox_exec(struct sandbox *sb, uint32_t seq, const struct job *c, const int std[3], struct err *e)
{
	const struct spec *s = sb->spec;
	autobuf struct buf blob = BUF_INIT(INIT_BLOB_MAX);
	autoclose int memfd = -1;
	int fds[INIT_FDS_MAX];
	struct init_request rq = {
		.magic = INIT_MAGIC, .type = INIT_EXEC, .seq = seq, .flags = c->flags,
		.argc = (uint32_t)c->argc, .envc = (uint32_t)c->env_count, .umask = 022,
		.rlimits = c->rlimits, .filter_secret = sb->filters.secret,
		.expect = sandbox_expect(s),
	};
	size_t n;

	if (sandbox_check_std(std, e) < 0 || pack_init_request(s, c, &rq, &blob, e) < 0)
		return -1;
	if (blob.len > INIT_INLINE_MAX) {
		memfd = memfd_create("berth-command", MFD_CLOEXEC);
		if (memfd < 0 || io_write_all(memfd, blob.data, blob.len) < 0)
			return err_sys(e, "hand over a long command");
	}
	n = collect_fds(c, &rq, std, memfd, fds);
	if (fdpass_send2(sb->sock, &rq, sizeof(rq), blob.data, memfd >= 0 ? 0 : blob.len, fds, n) < 0) {
		err_sys(e, "send the command to the sandbox");
		return sandbox_prefer_error(sb, e);
	}
	return 0;
}

int sandbox_adopt_begin(struct sandbox *sb, uint32_t seq, int pid, uint32_t flags, struct err *e)
{
	struct init_request rq = {
		.magic = INIT_MAGIC, .type = INIT_ADOPT, .seq = seq, .flags = flags,
		.signo = (uint32_t)pid, .expect = sandbox_expect(sb->spec),
	};

	if (fdpass_send(sb->sock, &rq, sizeof(rq), NULL, 0) < 0)
		return err_sys(e, "hand the fork to the sandbox's init");
	return 0;
}

int sandbox_adopt(struct sandbox *sb, uint32_t seq, int pid, uint32_t flags, struct err *e)
{
	struct init_reply r;
	int got;

	if (sandbox_adopt_begin(sb, seq, pid, flags, e) < 0)
		return -1;
	got = sandbox_reply(sb, &r, 1, e);
	if (got < 0)
		return -1;
	if (got && (r.type == INIT_SETUP_FAILED || r.type == INIT_EXEC_FAILED)) {
		*e = r.err;
		return -1;
	}
	return got && r.type == INIT_STARTED && r.seq == seq ?
		       0 : err_set(e, ERR_INTERNAL, "the sandbox's init did not take the fork");
}

int sandbox_signal(struct sandbox *sb, uint32_t seq, int signo, struct err *e)
{
	struct init_request rq = { .magic = INIT_MAGIC, .type = INIT_SIGNAL, .seq = seq, .signo = (uint32_t)signo };

	/* the Landlock domain of init does not reach into that of the zygote */
	if (sb->leader_fd >= 0) {
		if (!syscall(SYS_pidfd_send_signal, sb->leader_fd, signo, NULL, 0) || errno == ESRCH)
			return 0;
		return err_sys(e, "send signal %d to the fork", signo);
	}
	if (fdpass_send(sb->sock, &rq, sizeof(rq), NULL, 0) < 0)
		return err_sys(e, "send signal %d to the sandbox", signo);
	return 0;
}

/* ---- the answers of init ---- */

/* Reads replies of a sandbox's init, which are hostile input. */

/*
 * Takes one packet. Before init runs the child sends the listener of filters; after that we use
 * recv(2), not recvmsg: descriptors that the sandbox might send are dropped (K19).
 */
static ssize_t take_init_reply(struct sandbox *sb, struct init_reply *ret, int flags)
{
	struct filterwatch *w = &sb->filters;
	uint32_t tag = 0;
	size_t got = 0;
	ssize_t n;

	if (!w->awaited)
		return recv(sb->sock, ret, sizeof(*ret), MSG_TRUNC | flags);
	n = fdpass_recv_flags(sb->sock, ret, sizeof(*ret), &w->fd, 1, &got, flags);
	if (n > 0)
		w->awaited = 0;
	if (n == (ssize_t)sizeof(tag))
		memcpy(&tag, ret, sizeof(tag));
	if (tag == FILTERWATCH_TAG)
		return take_init_reply(sb, ret, flags);
	if (got)
		fd_close(&w->fd);
	return n;
}

int sandbox_reply(struct sandbox *sb, struct init_reply *ret, int wait, struct err *e)
{
	ssize_t n;

	do
		n = take_init_reply(sb, ret, wait ? 0 : MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	/* a peer that closed with our packets unread: its own last words come after the error (unix(7)) */
	if (n < 0 && errno == ECONNRESET)
		n = take_init_reply(sb, ret, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return err_set(e, ERR_BUSY, "no reply yet");
	if (n <= 0)
		return 0;
	if (n != (ssize_t)sizeof(*ret) || ret->magic != INIT_MAGIC || !ret->type || ret->type > INIT_STATUS)
		return err_set(e, ERR_CORRUPT, "malformed reply from the sandbox's init");
	ret->err.msg[sizeof(ret->err.msg) - 1] = '\0';
	/* it becomes berth's exit status: a failure must never read as "ok" */
	if (ret->err.code <= ERR_NONE || ret->err.code >= ERR_CODE_COUNT)
		ret->err.code = ERR_INTERNAL;
	/* 128 + 128 would be exit status 0 */
	if (ret->value > 255 || ret->exited > 1 ||
	    (ret->type == INIT_EXITED && !ret->exited && (ret->value < 1 || ret->value >= (uint32_t)_NSIG)))
		return err_set(e, ERR_CORRUPT, "malformed reply from the sandbox's init");
	return 1;
}

/* The child's error explains the failure better than ours, so it replaces ours. */
int sandbox_prefer_error(struct sandbox *sb, struct err *e)
{
	struct init_reply r;
	struct err mine = *e, ignored;

	if (sandbox_reply(sb, &r, 0, &ignored) == 1 && r.type == INIT_SETUP_FAILED)
		*e = r.err;
	else
		*e = mine;
	return -1;
}
