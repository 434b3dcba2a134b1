/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth cp: copy files and trees between the host and a sandbox.
 *
 * A tar stream through a pipe: one end is the helper in the sandbox, the other
 * we, below one directory of the host and through no symbolic link of it
 * (runtime/fileop/extract.h).  With "-" the stream is the caller's.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "manager/keeper/fileclient.h"
#include "runtime/fileop/extract.h"
#include "runtime/fileop/pack.h"

#define STALL_MS 60000
#define PIPE_BYTES (1 << 20)
#define CLEAR_LINE "\r\033[K"

enum { OPT_FOLLOW = 1, OPT_ARCHIVE, OPT_USER, OPT_TIMEOUT, OPT_LIMIT, OPT_PARENTS, OPT_ONE, OPT_QUIET, OPT_START, OPT_JSON };

static const struct opt options[] = {
	{ "follow-link", 'L', OPT_FLAG, NULL, "copy what SOURCE leads to if it is a symbolic link", OPT_FOLLOW },
	{ "archive", 'a', OPT_FLAG, NULL, "into a sandbox: keep the owners' numbers and ACLs (default: all belongs to --user)", OPT_ARCHIVE },
	{ "parents", 'p', OPT_FLAG, NULL, "make the directories of DESTINATION that are missing", OPT_PARENTS },
	{ "one-file-system", 'x', OPT_FLAG, NULL, "leave out what is mounted below SOURCE",
	  OPT_ONE },
	{ "user", 'u', OPT_VALUE, "USER[:GROUP]", "whose rights it has in the sandbox (default: root there)", OPT_USER },
	{ "timeout", 0, OPT_VALUE, "TIME", "how long it may take (default: as long as bytes move)", OPT_TIMEOUT },
	{ "limit", 0, OPT_VALUE, "SIZE", "most content to write on the host (default: 64g)", OPT_LIMIT },
	{ "quiet", 'q', OPT_FLAG, NULL, "no progress and no notes", OPT_QUIET },
	{ "start", 0, OPT_FLAG, NULL, "start the sandbox first if it does not run", OPT_START },
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object; errors too", OPT_JSON },
};

struct cp {
	int follow, archive, parents, one_mount, quiet, start, json;
	const char *user;
	uint64_t timeout_ms, limit;
	int sock;
	uint64_t began_ms, shown_ms;
	int shown;
};

static int set_cp_option(void *ctx, int id, const char *value, struct err *e)
{
	struct cp *c = ctx;

	switch (id) {
	case OPT_USER:
		c->user = value;
		return 0;
	case OPT_TIMEOUT:
		return num_duration_ms(value, "timeout", 366ULL * 86400000, &c->timeout_ms, e);
	case OPT_LIMIT:
		return num_size(value, "limit", 0, 1ULL << 60, &c->limit, e);
	default:
		*(id == OPT_FOLLOW  ? &c->follow :
		  id == OPT_ARCHIVE ? &c->archive :
		  id == OPT_PARENTS ? &c->parents :
		  id == OPT_ONE	    ? &c->one_mount :
		  id == OPT_QUIET   ? &c->quiet :
		  id == OPT_START   ? &c->start :
				      &c->json) = 1;
		return 0;
	}
}

/* After the first second, five times a second, on a terminal. */
static void show_progress(void *ctx, uint64_t bytes)
{
	struct cp *c = ctx;
	uint64_t now = clock_ms();
	char line[80];
	int n;

	if (now < c->began_ms + 1000 || now < c->shown_ms + 200)
		return;
	c->shown_ms = now;
	c->shown = 1;
	n = snprintf(line, sizeof(line), "\rberth cp: %llu MiB, %llu MiB/s ", (unsigned long long)(bytes >> 20),
		     (unsigned long long)((bytes >> 20) * 1000 / (now - c->began_ms)));
	(void)!write(STDERR_FILENO, line, (size_t)n);
}

static void note_copy_interrupt(int signo)
{
	(void)signo;
	stream_interrupted = 1;
}

static void prepare_copy_stream(struct cp *c, struct stream *s, int fd)
{
	struct sigaction a = { .sa_handler = note_copy_interrupt };	/* no SA_RESTART: calls are to end */

	sigaction(SIGINT, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
	sigaction(SIGHUP, &a, NULL);
	signal(SIGPIPE, SIG_IGN);
	stream_init(s, fd, STALL_MS);
	if (!c->quiet && !c->json && isatty(STDERR_FILENO)) {
		s->tick = show_progress;
		s->ctx = c;
	}
	c->began_ms = clock_ms();
}

/* Our end does not block, so that a sandbox that stops the helper is noticed. */
static int make_copy_pipe(int ret[2], int our_end, struct err *e)
{
	if (pipe2(ret, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	fcntl(ret[0], F_SETPIPE_SZ, PIPE_BYTES);	/* larger is only faster */
	if (fcntl(ret[our_end], F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "set up a pipe");
	return 0;
}

static int compare_copy_counts(const struct filecounts *there, uint64_t entries, uint64_t bytes, struct err *e)
{
	if (there->entries == entries && there->bytes == bytes)
		return 0;
	return err_set(e, ERR_CORRUPT, "the copy differs: %llu entries and %llu bytes here, %llu and %llu in the sandbox",
		       (unsigned long long)entries, (unsigned long long)bytes, (unsigned long long)there->entries,
		       (unsigned long long)there->bytes);
}

/* Of two errors: the helper's, unless it only saw us leave or was killed for it. */
static int choose_copy_error(int ours, const struct err *our_err, int theirs, struct err *e)
{
	if (ours < 0 && (theirs == 0 || our_err->code == ERR_TIMEOUT || our_err->code == ERR_LIMIT || our_err->code == ERR_BUSY ||
			 e->os_errno == EPIPE || strstr(e->msg, "roken pipe") || strstr(e->msg, "ended in the middle")))
		*e = *our_err;
	return ours < 0 || theirs < 0 ? -1 : 0;
}

static int copy_out_of_sandbox(struct cp *c, const char *path, const char *dest, struct filecounts *ret, struct err *e)
{
	static struct stream s;
	int tar = !strcmp(dest, "-");
	char flags[8];
	const char *argv[] = { "pack", flags, path, NULL };
	struct extract_limits limits = { c->limit, 10000000 };
	struct extract_stats got = { 0 };
	struct err mine = { 0 };
	struct fileclient f;
	int p[2], ours, theirs;

	snprintf(flags, sizeof(flags), "%s%s%s", c->follow ? "L" : "", tar ? "" : "l",
		 c->one_mount ? "x" : "");
	if (tar)
		return fileclient_start(&f, c->sock, argv, c->user, c->timeout_ms, -1, STDOUT_FILENO, e) < 0 ? -1 :
		       fileclient_end(&f, ret, e);
	if (make_copy_pipe(p, 0, e) < 0)
		return -1;
	ours = fileclient_start(&f, c->sock, argv, c->user, c->timeout_ms, -1, p[1], e);
	close(p[1]);
	if (ours < 0) {
		close(p[0]);
		return -1;
	}
	prepare_copy_stream(c, &s, p[0]);
	/*
	 * Through the buffer, as cp(1) does: from page to page the kernel copies with plain loads and stores, to and from
	 * a process with the processor's string moves (1.2 to 2 times as fast here; into a sandbox it is the other way round,
	 * as there the helper has both copies to do).
	 */
	s.no_splice = 1;
	ours = extract_to(&s, dest, EXTRACT_STRICT | (c->parents ? EXTRACT_PARENTS : 0) | (pack_is_contents(path) ? EXTRACT_CONTENTS : 0),
			  &limits, &got, &mine);
	close(p[0]);
	if (ours < 0 && mine.code == ERR_TIMEOUT) {	/* it was stopped: our leaving ends it */
		fd_close(&f.err_fd);
		*e = mine;
		return -1;
	}
	f.wait_ms = STALL_MS;
	theirs = fileclient_end(&f, ret, e);
	if (choose_copy_error(ours, &mine, theirs, e) < 0)
		return -1;
	return compare_copy_counts(ret, got.entries, got.bytes, e);
}

static int copy_into_sandbox(struct cp *c, const char *source, const char *path, struct filecounts *ret, struct err *e)
{
	static struct stream s;
	char flags[8] = "";
	const char *argv[] = { "extract", flags, path, NULL };
	struct pack_stats sent = { 0 };
	struct err mine = { 0 };
	struct fileclient f;
	int p[2], ours, theirs;

	snprintf(flags, sizeof(flags), "%s%s%s", c->archive ? "o" : "", c->parents ? "p" : "", !strcmp(source, "-") ? "i" :
		 pack_is_contents(source) ? "c" : "");
	if (!strcmp(source, "-"))
		return fileclient_start(&f, c->sock, argv, c->user, c->timeout_ms, STDIN_FILENO, -1, e) < 0 ? -1 :
		       fileclient_end(&f, ret, e);
	if (access(source, F_OK) < 0 && !path_has(AT_FDCWD, source))
		return err_code_sys(e, ERR_NOT_FOUND, "%.300s", source);
	if (make_copy_pipe(p, 1, e) < 0)
		return -1;
	ours = fileclient_start(&f, c->sock, argv, c->user, c->timeout_ms, p[0], -1, e);
	close(p[0]);
	if (ours < 0) {
		close(p[1]);
		return -1;
	}
	prepare_copy_stream(c, &s, p[1]);
	ours = pack_path(&s, source,
			 (c->follow ? PACK_FOLLOW : 0) | (c->one_mount ? PACK_ONE_MOUNT : 0) |
				 (c->archive ? PACK_ACLS : 0), &sent, &mine);
	close(p[1]);
	if (ours < 0 && mine.code == ERR_TIMEOUT) {
		fd_close(&f.err_fd);
		*e = mine;
		return -1;
	}
	f.wait_ms = STALL_MS;
	theirs = fileclient_end(&f, ret, e);
	if (choose_copy_error(ours, &mine, theirs, e) < 0)
		return -1;
	if (sent.changed)
		return err_set(e, ERR_BUSY, "%llu files shrank while they were copied; hint: copy again", (unsigned long long)sent.changed);
	if (compare_copy_counts(ret, sent.entries, sent.bytes, e) < 0)
		return -1;
	ret->skipped += sent.skipped;
	return 0;
}

/* The path after "SANDBOX:", or NULL: a host path (one with a slash before the colon, or "-"). */
static char *split_copy_ref(char *arg)
{
	char *colon = strchr(arg, ':');

	if (!colon || colon == arg || memchr(arg, '/', (size_t)(colon - arg)) || arg[0] == '.')
		return NULL;
	*colon = '\0';
	return colon[1] ? colon + 1 : NULL;
}

static int report_copy(const struct cp *c, const struct filecounts *n, int to_stdout, struct err *e)
{
	if (c->shown)
		(void)!write(STDERR_FILENO, CLEAR_LINE, sizeof(CLEAR_LINE) - 1);
	if (n->skipped && !c->quiet && !c->json)
		log_note("berth cp", "%llu FIFOs, sockets, devices or vanished files left out", (unsigned long long)n->skipped);
	if (!c->json || to_stdout)
		return 0;
	return fileclient_print(json_pack("{s:I,s:I,s:I}", "entries", (json_int_t)n->entries, "bytes", (json_int_t)n->bytes, "skipped",
					  (json_int_t)n->skipped), e);
}

static int copy_between(struct cp *c, char *from, char *to, struct sandbox_ref *s, struct err *e)
{
	char *from_path = split_copy_ref(from), *to_path = split_copy_ref(to);
	struct filecounts n = { 0 };
	int r;

	if (!from_path == !to_path)
		return err_set(e, ERR_USAGE, "one of the two must be SANDBOX:PATH, the other a path of the host or -; "
			       "hint: ./a:b is a file of the host");
	if (sandbox_ref_connect_files(s, from_path ? from : to, c->start, e) < 0)
		return -1;
	c->sock = s->sock;
	r = from_path ? copy_out_of_sandbox(c, from_path, to, &n, e) : copy_into_sandbox(c, from, to_path, &n, e);
	if (r < 0 && c->shown)
		(void)!write(STDERR_FILENO, CLEAR_LINE, sizeof(CLEAR_LINE) - 1);
	return r < 0 ? -1 : report_copy(c, &n, from_path && !strcmp(to, "-"), e);
}

static int berth_cp_main(const struct command *self, int argc, char **argv)
{
	struct cp c = { .limit = 64ULL << 30 };
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, status = 0, result;

	sandbox_ref_init(&s);
	result = command_options(self, argc, argv, set_cp_option, &c, &rest, &help, &e);
	if (result == 0 && !help) {
		result = argc - rest == 2 ? copy_between(&c, argv[rest], argv[rest + 1], &s, &e) :
			 err_set(&e, ERR_USAGE, "a source and a destination are wanted; hint: berth cp FILE SANDBOX:PATH");
	}
	if (result < 0)
		status = command_fail(self, &e, c.json);
	sandbox_ref_close(&s);
	return status;
}

const struct command cmd_cp = {
	.name = "cp",
	.args = "SOURCE DESTINATION",
	.summary = "copy files and trees into and out of a sandbox",
	.detail = "One of the two is SANDBOX:PATH, the other a path of the host, or - for a tar stream on stdin or\n"
		  "stdout.  Into a directory that exists, or to a new name, as cp(1); DIR/. is what is in DIR.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_FILE,
	.run = berth_cp_main,
};
