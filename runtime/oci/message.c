/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the container's first process and the processes of `exec`: their messages to the
 * runtime, and the last steps before execve.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/oci/container.h"
#include "runtime/oci/json.h"

#define FILTER_MAX 4096	/* BPF_MAXINSNS */

int oci_message_send(int sock, enum oci_message_kind kind, int value)
{
	struct oci_message m = { .kind = kind, .value = value };

	return fdpass_send(sock, &m, sizeof(m), NULL, 0);
}

int oci_message_recv(int sock, struct oci_message *ret, int *ret_fd)
{
	int fds[1] = { -1 };
	size_t n = 0;
	ssize_t r = fdpass_recv(sock, ret, sizeof(*ret), fds, 1, &n);

	if (ret_fd)
		*ret_fd = n ? fds[0] : -1;
	else if (n)
		close(fds[0]);
	if (r < 0 && errno == ECONNRESET)
		return 0;
	return r == 0 ? 0 : r == (ssize_t)sizeof(*ret) ? 1 : -1;
}

/* _exit() even if the filter is loaded: it ends the process under any filter */
static void __attribute__((noreturn)) end(int status)
{
	syscall(SYS_exit_group, status);
	syscall(SYS_exit, status);
	/* the filter refuses both; libc would ask for ever */
	__builtin_trap();
}

void oci_message_fail(int sock, const struct err *e, int in_hook)
{
	struct oci_message m = { .kind = OCI_FAILED, .value = in_hook, .err = *e };

	/* a filter may know nothing of sendmsg(2), but write(2); with neither, the runtime sees that nothing was executed */
	if (fdpass_send(sock, &m, sizeof(m), NULL, 0) < 0 && errno != EPIPE && write(sock, &m, sizeof(m)) < 0)
		end(1);
	end(1);
}

int oci_filter_send(int sock, const struct oci_seccomp *f, struct err *e)
{
	struct oci_filter_head head = { OCI_GO, f->insns ? f->count : 0, f->flags, (uint32_t)f->notify };

	if (fdpass_send2(sock, &head, sizeof(head), f->insns, head.count * sizeof(*f->insns), NULL, 0) < 0)
		return err_sys(e, "send the filter to the container");
	return 0;
}

int oci_filter_recv(int sock, struct oci_seccomp *f, struct err *e)
{
	struct { struct oci_filter_head head; struct sock_filter insns[FILTER_MAX]; } *m = malloc(sizeof(*m));
	size_t none;
	ssize_t r;

	if (!m)
		return err_nomem(e);
	r = fdpass_recv(sock, m, sizeof(*m), NULL, 0, &none);
	/* the runtime is gone: so are we */
	if (r < (ssize_t)sizeof(m->head) || m->head.kind != OCI_GO ||
	    (size_t)r != sizeof(m->head) + m->head.count * sizeof(m->insns[0]))
		_exit(1);
	f->flags = m->head.flags;
	f->notify = (int)m->head.notify;
	f->count = (unsigned short)m->head.count;
	f->insns = f->count ? m->insns : NULL;
	return 0;
}

int oci_keep_only(int preserve_fds, const int *list, size_t n, struct err *e)
{
	unsigned from = (unsigned)(3 + preserve_fds);

	for (;;) {
		int next = -1;
		size_t i;

		for (i = 0; i < n; i++)
			if (list[i] >= (int)from && (next < 0 || list[i] < next))
				next = list[i];
		if (next != (int)from && syscall(SYS_close_range, from, next < 0 ? ~0U : (unsigned)next - 1, 0) < 0)
			return err_sys(e, "close descriptors");
		if (next < 0)
			return 0;
		from = (unsigned)next + 1;
	}
}

int oci_tell_listener(int sock, int listener, struct err *e)
{
	struct oci_message m = { .kind = OCI_LISTENER, .value = listener };

	if (listener < 0)
		return 0;
	/* write(2) alone: the filter is loaded, and no profile may ask a listener about that */
	if (write(sock, &m, sizeof(m)) != (ssize_t)sizeof(m))
		return err_sys(e, "hand over the seccomp listener");
	/* execve closes our end: not before the other end has its copy */
	if (read(sock, &m, sizeof(m)) == 0)
		end(1);
	return 0;
}

void oci_reset_signals(void)
{
	sigset_t none;
	int i;

	for (i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The user must be able to reopen what it was given (/dev/stdout); the host's /dev/null is not given away. */
void oci_process_own_stdio(const json_t *process)
{
	const uid_t uid = (uid_t)oci_u64(oci_get(process, "user"), "uid", 0);
	struct stat st;
	int i;

	for (i = 0; i < 3; i++) {
		if (fstat(i, &st) < 0 || st.st_uid == uid || (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)))
			continue;
		/* unmapped, or on a read-only file system: it stays another's, as in runc */
		if (fchown(i, uid, (gid_t)-1) < 0)
			continue;
	}
}
