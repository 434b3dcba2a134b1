/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/fileclient.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"

/* Takes the next packet: 1 the helper has started, 2 it has ended, -1. */
static int next_packet(int sock, int wait_ms, json_t **ret_verdict, struct err *e)
{
	autojson json_t *msg = NULL;
	size_t n = 0;
	int r = wire_recv(sock, wait_ms, &msg, NULL, 0, &n, e);

	if (r == 0)
		return err_set(e, ERR_BUSY, "the sandbox was stopped or removed meanwhile");
	if (r < 0 || wire_check(msg, e) < 0)
		return -1;
	if (!json_object_get(msg, "ended"))
		return 1;
	*ret_verdict = json_incref(json_object_get(msg, "verdict"));
	return 2;
}

int fileclient_start(struct fileclient *f, int sock, const char *const *argv, const char *user, uint64_t timeout_ms,
		     int in_fd, int out_fd, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_file);
	autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC), err = -1;
	json_t *list = json_array();
	int p[2], bad = 0;

	for (; *argv; argv++)
		bad |= json_array_append_new(list, json_string(*argv)) < 0;
	request_set_argv(rq, list);
	request_set_user(rq, user ? user : "");
	request_set_timeout_ms(rq, timeout_ms);
	f->sock = sock;
	f->err_fd = f->wait_ms = -1;
	if (bad)
		return err_set(e, ERR_INVALID, "the path is not valid UTF-8");
	if (null < 0 || pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_sys(e, "make a pipe");
	f->err_fd = p[0];
	err = p[1];
	if (wire_request(sock, rq, (int[3]){ in_fd < 0 ? null : in_fd, out_fd < 0 ? null : out_fd, err }, 3, e) < 0)
		fd_close(&f->err_fd);
	return f->err_fd < 0 ? -1 : 0;
}

/* "CODE\tMESSAGE" or "ok A B C". */
static int take_helper_line(char *line, struct filecounts *ret, struct err *e)
{
	unsigned long long a, b, c;
	enum err_code code;
	char *tab;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "ok %llu %llu %llu", &a, &b, &c) == 3) {
		*ret = (struct filecounts){ a, b, c };
		return 0;
	}
	tab = strchr(line, '\t');
	if (!tab)
		return err_set(e, ERR_INTERNAL, "the file helper said nothing");
	*tab = '\0';
	code = err_code_of(line);
	return err_set(e, code ? code : ERR_INTERNAL, "%.480s", tab + 1);
}

int fileclient_judge(const json_t *verdict, const char *line_read, struct filecounts *ret, struct err *e)
{
	const char *cause = json_string_value(json_object_get(verdict, "cause"));
	json_int_t status = json_integer_value(json_object_get(verdict, "exit_status"));
	char line[600];

	snprintf(line, sizeof(line), "%s", line_read);
	if (cause && !strcmp(cause, "timeout"))
		return err_set(e, ERR_TIMEOUT, "the file operation was not done in time; hint: --timeout");
	/* with "cause" exit (or disk, pids: it failed and says why) the helper's own line counts */
	if (line[0] && (status == 0 || status == 1))
		return take_helper_line(line, ret, e) < 0 ? -1 :
		       status ? err_set(e, ERR_INTERNAL, "the file helper failed without a word") : 0;
	if (status == 0) {
		*ret = (struct filecounts){ 0 };
		return 0;
	}
	/* TERM and KILL come from outside: a stop, a kill, a removal */
	if (cause && (!strcmp(cause, "killed-by") || (!strcmp(cause, "signal") && (status == 128 + 15 || status == 128 + 9))))
		return err_set(e, ERR_BUSY, "the file operation was ended: the sandbox stops");
	return err_set(e, cause && !strcmp(cause, "oom") ? ERR_LIMIT : ERR_SYS, "the file helper ended by %s%s", cause ? cause : "?",
		       cause && !strcmp(cause, "oom") ? ": the sandbox's memory limit was reached" : "");
}

int fileclient_end(struct fileclient *f, struct filecounts *ret, struct err *e)
{
	json_t *verdict = NULL;
	char line[600] = "";
	ssize_t n = 0;
	int r;

	do
		r = next_packet(f->sock, f->wait_ms, &verdict, e);
	while (r == 1);
	if (r == 2) {
		n = read(f->err_fd, line, sizeof(line) - 1);
		line[n > 0 ? n : 0] = '\0';
		r = fileclient_judge(verdict, line, ret, e);
	}
	json_decref(verdict);
	fd_close(&f->err_fd);
	return r;
}

int fileclient_run(int sock, const char *const *argv, const char *user, uint64_t timeout_ms, int in_fd, struct buf *out,
		   struct filecounts *ret, struct err *e)
{
	struct fileclient f = { .err_fd = -1 };
	autoclose int from = -1, to = -1;
	struct err unread = { 0 };
	int p[2], r = 0;

	if (out) {
		if (pipe2(p, O_CLOEXEC) < 0)
			return err_sys(e, "make a pipe");
		from = p[0];
		to = p[1];
	}
	if (fileclient_start(&f, sock, argv, user, timeout_ms, in_fd, to, e) < 0)
		return -1;
	fd_close(&to);
	if (out) {
		r = io_read_all(from, out, "the helper's answer", &unread);
		fd_close(&from);	/* when it was too much: the helper's write fails now */
	}
	if (fileclient_end(&f, ret, e) < 0) {
		if (r < 0)
			*e = unread;
		return -1;
	}
	if (r < 0)
		*e = unread;
	return r;
}

/* ---- records ---------------------------------------------------------------------- */

static const char *listed_string(const char **at, const char *end)
{
	const char *s = *at, *nul = memchr(s, '\0', (size_t)(end - s));

	*at = nul ? nul + 1 : end;
	return nul ? s : NULL;
}

int filerecord_next(const char **at, const char *end, struct filerecord *ret, struct err *e)
{
	unsigned long long size;
	long long sec;
	const char *head;
	int used = 0;

	if (*at >= end)
		return 0;
	head = listed_string(at, end);
	ret->link = *at < end ? listed_string(at, end) : NULL;
	if (!head || !ret->link ||
	    sscanf(head, "%o %u %u %llu %lld.%ld %lu%n", &ret->mode, &ret->uid, &ret->gid, &size, &sec, &ret->mtime_nsec,
		   &ret->nlink, &used) < 7 || !used || head[used] != ' ')
		return err_set(e, ERR_CORRUPT, "the file helper's answer is malformed");
	ret->target = ret->mode >> 16 & S_IFMT;
	ret->mode &= 0xffff;
	ret->size = size;
	ret->mtime_sec = sec;
	ret->name = head + used + 1;	/* the name may begin with a blank of its own */
	return 1;
}

static const char *file_kind_name(unsigned mode)
{
	return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "directory" : S_ISLNK(mode) ? "symlink" : S_ISFIFO(mode) ? "fifo" :
	       S_ISSOCK(mode) ? "socket" : S_ISCHR(mode) ? "char-device" : S_ISBLK(mode) ? "block-device" : "unknown";
}

json_t *filerecord_json(const struct filerecord *r)
{
	char mode[16], mtime[64];
	time_t t = (time_t)r->mtime_sec;
	struct err ignored;
	struct tm tm;
	json_t *j;

	snprintf(mode, sizeof(mode), "%04o", r->mode & 07777);
	if (!gmtime_r(&t, &tm) || !strftime(mtime, sizeof(mtime), "%Y-%m-%dT%H:%M:%SZ", &tm))
		mtime[0] = '\0';
	j = json_pack("{s:s,s:s,s:i,s:i,s:I,s:I,s:s,s:I,s:I}", "type", file_kind_name(r->mode), "mode", mode, "uid", (int)r->uid, "gid",
		      (int)r->gid, "size", (json_int_t)r->size, "links", (json_int_t)r->nlink, "mtime", mtime, "mtime_sec",
		      (json_int_t)r->mtime_sec, "mtime_nsec", (json_int_t)r->mtime_nsec);
	json_set_bytes(j, "name", r->name, strlen(r->name), &ignored);
	if (r->link[0])
		json_set_bytes(j, "target", r->link, strlen(r->link), &ignored);
	return j;
}

int fileclient_print(json_t *j, struct err *e)
{
	autofree char *text = json_dumps(j, JSON_COMPACT);

	json_decref(j);
	return !text || puts(text) < 0 || fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}
