/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth-fileop - file work inside a sandbox.
 *
 * Theory of operation. The keeper runs this program in the sandbox like any command: every
 * namespace, a cgroup of its own, the requested credentials, both seccomp filters. So no path of
 * the sandbox is ever resolved outside of it, whatever links, mounts or races there are
 * (SECURITY-NOTES E10). It is static, loads nothing, executes nothing, looks up no names (E11), and
 * never waits in opening a FIFO or device (E12). The caller's files come and go as bytes on stdin
 * and stdout.
 *
 * The program is a memfd that the sandbox may execute but not read, so that the
 * payload, though it has our uid, can neither trace us nor open what we hold.
 *
 * stderr gets one line: "ok NUMBER..." or "CODE\tMESSAGE" with exit status 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/fileop/extract.h"
#include "runtime/fileop/look.h"
#include "runtime/fileop/pack.h"
#include "runtime/fileop/sftp.h"
#include "runtime/fileop/watch.h"
#include "runtime/fileop/write.h"

static struct stream stream;	/* 64 KiB: too much for the stack */

static int has_flag_letter(const char *flags, char c)
{
	return strchr(flags, c) != NULL;
}

/* Errors about the sandbox's own files and file systems are no fault of the host. */
static void tell_whose_fault(struct err *e)
{
	if (e->code != ERR_SYS)
		return;
	switch (e->os_errno) {
	case ENOSPC:
	case EDQUOT:
		e->code = ERR_FULL;
		err_hint(e, "remove files, or a larger --disk");
		break;
	case ENOTDIR:
	case EISDIR:
	case ELOOP:
	case ENAMETOOLONG:
	case EFBIG:
	case EINVAL:
		e->code = ERR_INVALID;
		break;
	case EAGAIN:	/* another process keeps renaming directories */
	case ESTALE:
	case EBUSY:
	case ETXTBSY:
	case ENXIO:	/* the file became a FIFO */
		e->code = ERR_BUSY;
		break;
	case ENOENT:
		e->code = ERR_NOT_FOUND;
		break;
	case EACCES:
	case EPERM:
	case EROFS:
		e->code = ERR_DENIED;
		break;
	case EEXIST:
	case ENOTEMPTY:
		e->code = ERR_EXISTS;
		break;
	default:
		break;
	}
}

static void report_ok(uint64_t a, uint64_t b, uint64_t c)
{
	dprintf(2, "ok %llu %llu %llu\n", (unsigned long long)a, (unsigned long long)b, (unsigned long long)c);
}

/* read LIMIT PATH */
static int verb_read(char **a, struct err *e)
{
	uint64_t limit = strtoull(a[0], NULL, 10), bytes;
	struct stat st;
	autoclose int fd = write_open_regular(a[1], O_RDONLY, &st, e);

	if (fd < 0)
		return -1;
	if (limit && (uint64_t)st.st_size > limit)
		return err_set(e, ERR_LIMIT, "%.300s has %lld bytes, more than %llu", a[1], (long long)st.st_size,
			       (unsigned long long)limit);
	if (stream_pump(fd, 1, limit ? limit : UINT64_MAX, stream.buf, &bytes, e) < 0)
		return -1;
	report_ok(1, bytes, (uint64_t)st.st_size);
	return 0;
}

/* write FLAGS MODE PATH [NAME=VALUE]...: its attributes; flags a: append, p: make parents.  MODE "" keeps it, or 644. */
static int verb_write(char **a, struct err *e)
{
	struct takeback made = { 0 };
	uint64_t bytes = 0, size = 0;
	int r;

	if (has_flag_letter(a[0], 'p') && write_make_dirs(a[2], 0755, 1, &made, e) < 0)
		r = -1;
	else
		r = has_flag_letter(a[0], 'a') ? write_append(a[2], stream.buf, &bytes, &size, e) : write_replace(a[2], a[1], a + 3, stream.buf, &bytes, e);
	if (r == 0)
		report_ok(1, bytes, has_flag_letter(a[0], 'a') ? size : bytes);
	else if (takeback_undo(&made, AT_FDCWD, 0) < 0)
		err_wrap(e, "directories that were made stay");
	takeback_release(&made);
	return r;
}

/* pack FLAGS PATH; flags L: follow, l: mark hard-linked files, x: one mount */
static int verb_pack(char **a, struct err *e)
{
	struct pack_stats st;

	stream_init(&stream, 1, -1);
	if (pack_path(&stream, a[1], pack_flags(a[0]), &st, e) < 0)
		return -1;
	if (st.changed)
		return err_set(e, ERR_BUSY, "%llu files shrank while they were copied; hint: copy again", (unsigned long long)st.changed);
	report_ok(st.entries, st.bytes, st.skipped);
	return 0;
}

/* extract FLAGS DEST; flags c: contents, i: into a directory, o: owners, p: parents */
static int verb_extract(char **a, struct err *e)
{
	static const struct extract_limits none = { UINT64_MAX, UINT64_MAX };
	int flags = (has_flag_letter(a[0], 'c') ? EXTRACT_CONTENTS : 0) | (has_flag_letter(a[0], 'i') ? EXTRACT_INTO : 0) |
		    (has_flag_letter(a[0], 'o') ? EXTRACT_OWNERS : 0) | (has_flag_letter(a[0], 'p') ? EXTRACT_PARENTS : 0);
	struct extract_stats st;

	stream_init(&stream, 0, -1);
	if (extract_to(&stream, a[1], flags, &none, &st, e) < 0)
		return -1;
	report_ok(st.entries, st.bytes, st.skipped);
	return 0;
}

/* mkdir FLAGS MODE PATH...; flags p: parents, and one that exists is fine */
static int verb_mkdir(char **a, struct err *e)
{
	uint32_t mode = a[1][0] ? (uint32_t)strtoul(a[1], NULL, 8) : 0755;
	int i;

	for (i = 2; a[i]; i++) {
		if (has_flag_letter(a[0], 'p') ? write_make_dirs(a[i], mode, 0, NULL, e) < 0 :
				     mkdir(a[i], mode) < 0 || chmod(a[i], mode) < 0)
			return has_flag_letter(a[0], 'p') ? -1 : write_path_error(e, "make directory", a[i]);
	}
	report_ok((uint64_t)i - 2, 0, 0);
	return 0;
}

static int remove_path(const char *path, const char *flags, struct err *e)
{
	char copy[PATH_MAX], *slash;
	autoclose int dir = -1;
	struct stat st;
	size_t n = strlen(path);

	if (!n || n >= sizeof(copy) || pack_is_contents(path))
		return err_set(e, ERR_INVALID, "%.300s cannot be removed", n ? path : "an empty path");
	memcpy(copy, path, n + 1);
	while (n > 1 && copy[n - 1] == '/')
		copy[--n] = '\0';
	if (lstat(copy, &st) < 0)
		return errno == ENOENT && has_flag_letter(flags, 'f') ? 0 : write_path_error(e, "remove", path);
	if (!S_ISDIR(st.st_mode))
		return unlink(copy) < 0 ? write_path_error(e, "remove", path) : 0;
	if (!has_flag_letter(flags, 'r'))
		return err_set(e, ERR_INVALID, "%.300s is a directory; hint: --recursive", path);
	slash = strrchr(copy, '/');
	if (slash)
		*slash = '\0';
	if (look_is_dots(slash ? slash + 1 : copy))
		return err_set(e, ERR_INVALID, "%.300s cannot be removed", path);
	dir = open(!slash ? "." : slash == copy ? "/" : copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return write_path_error(e, "open the directory of", path);
	return path_remove_tree(dir, slash ? slash + 1 : copy, e);
}

/* rm FLAGS PATH...; flags r: trees, f: missing is fine */
static int verb_rm(char **a, struct err *e)
{
	int i;

	for (i = 1; a[i]; i++)
		if (remove_path(a[i], a[0], e) < 0)
			return -1;
	report_ok((uint64_t)i - 1, 0, 0);
	return 0;
}

/* Moves to another file system: a child packs, we extract, then the source is removed. */
static int move_across(const char *from, const char *to, struct err *e)
{
	static const struct extract_limits none = { UINT64_MAX, UINT64_MAX };
	struct extract_stats got;
	struct pack_stats sent;
	struct err ignored;
	int p[2], status, r;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	pid = fork();
	if (pid == 0) {
		close(p[0]);
		stream_init(&stream, p[1], -1);
		_exit(pack_path(&stream, from, 0, &sent, &ignored) < 0 || sent.skipped || sent.changed);
	}
	close(p[1]);
	stream_init(&stream, p[0], -1);
	r = pid < 0 ? err_sys(e, "fork") : extract_to(&stream, to, EXTRACT_OWNERS | EXTRACT_REPLACE, &none, &got, e);
	close(p[0]);
	if (pid > 0)
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	if (r == 0 && status)
		r = err_set(e, ERR_SYS, "%.200s was copied in part only: it holds FIFOs, sockets or devices, or changed meanwhile", from);
	return r < 0 ? -1 : remove_path(from, "r", e);
}

/* mv FROM TO */
static int verb_mv(char **a, struct err *e)
{
	char to[PATH_MAX];
	const char *base;
	struct stat st, target;
	size_t n = strlen(a[0]);

	while (n > 1 && a[0][n - 1] == '/')
		a[0][--n] = '\0';
	if (lstat(a[0], &st) < 0)
		return write_path_error(e, "move", a[0]);
	base = strrchr(a[0], '/') ? strrchr(a[0], '/') + 1 : a[0];
	if (pack_is_contents(a[0]) || look_is_dots(base))
		return err_set(e, ERR_INVALID, "%.300s cannot be moved", a[0]);
	snprintf(to, sizeof(to), "%s", a[1]);
	if (!stat(to, &target) && S_ISDIR(target.st_mode) &&
	    (size_t)snprintf(to, sizeof(to), "%s/%s", a[1], base) >= sizeof(to))
		return err_set(e, ERR_INVALID, "the path is too long");
	if (rename(a[0], to) < 0) {
		if (errno != EXDEV)
			return write_path_error(e, "move to", to);
		if (move_across(a[0], to, e) < 0)
			return -1;
	}
	report_ok(1, 0, 0);
	return 0;
}

static const struct verb {
	const char *name;
	int args;	/* at least */
	int (*run)(char **args, struct err *e);
} verbs[] = {
	{ "read", 2, verb_read }, { "write", 3, verb_write }, { "pack", 2, verb_pack }, { "extract", 2, verb_extract },
	{ "list", 1, look_list }, { "stat", 2, look_stat }, { "snap", 1, look_snap }, { "mkdir", 3, verb_mkdir },
	{ "rm", 2, verb_rm }, { "mv", 2, verb_mv }, { "watch", 2, watch_tell }, { "sftp", 0, sftp_serve },
};

int main(int argc, char **argv)
{
	struct err e = { 0 };
	char *nl;
	size_t i;
	int r = -1;

	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_NAME, "berth-fileop");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	stream_catch_end();
	umask(022);
	err_set(&e, ERR_INTERNAL, "unknown file operation");
	for (i = 0; argc > 1 && i < ARRAY_LEN(verbs); i++)
		if (!strcmp(argv[1], verbs[i].name) && argc - 2 >= verbs[i].args)
			r = verbs[i].run(argv + 2, &e);
	if (r == 0 && (fflush(stdout) || ferror(stdout)))
		r = err_sys(&e, "write the answer");
	if (r == 0)
		return 0;
	tell_whose_fault(&e);
	if (stream_interrupted)
		err_set(&e, ERR_BUSY, "the file operation was ended");
	for (nl = e.msg; (nl = strchr(nl, '\n')); )
		*nl = '?';
	dprintf(2, "%s\t%s\n", err_name(e.code), e.msg);
	return 1;
}
