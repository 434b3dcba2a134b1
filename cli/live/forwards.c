/* SPDX-License-Identifier: Apache-2.0 */
/* berth forward ls, rm: the forwards in the background. */
#include "cli/live/forwards.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "manager/host/record.h"

#define FORWARDS_DIR "forwards"
#define FORWARDS_RECORD_MAX 16384
#define FORWARDS_END_MS 10000

/* ---- a record ---- */

int forwards_record(int run_fd, const json_t *what, struct err *e)
{
	autoclose int dir = path_make_dir(run_fd, FORWARDS_DIR, e), fd = -1;
	autofree char *text = json_dumps(what, JSON_COMPACT);
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct stat st;
	char name[24];

	if (dir < 0 || !text)
		return dir < 0 ? -1 : err_nomem(e);
	snprintf(name, sizeof(name), "%d", (int)getpid());
	for (;;) {
		fd = openat(dir, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0 || fcntl(fd, F_SETLK, &whole) < 0 || fstat(fd, &st) < 0)
			return err_sys(e, "record the forward");
		/* one that cleared up may have removed it before it was locked */
		if (st.st_nlink)
			break;
		fd_close(&fd);
	}
	if (ftruncate(fd, 0) < 0 || io_write_all(fd, text, strlen(text)) < 0) {
		unlinkat(dir, name, 0);
		return err_sys(e, "record the forward");
	}
	return take_fd(&fd);
}

void forwards_forget(int run_fd)
{
	char path[48];

	snprintf(path, sizeof(path), FORWARDS_DIR "/%d", (int)getpid());
	unlinkat(run_fd, path, 0);
}

/* Whether the process that holds the lock of fd has that number. */
static int is_forward_of(int fd, pid_t pid)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_GETLK, &l) == 0 && l.l_type != F_UNLCK && l.l_pid == pid;
}

/* Ends it, and waits: 0 also when it has ended by itself. */
static int end_forward(int fd, pid_t pid, struct err *e)
{
	autoclose int process = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = { .fd = process, .events = POLLIN };

	if (process < 0)
		return errno == ESRCH ? 0 : err_sys(e, "open process %d", (int)pid);
	/* the number was the forward's after the descriptor stood, so the descriptor is the forward's */
	if (!is_forward_of(fd, pid))
		return 0;
	if (syscall(SYS_pidfd_send_signal, process, SIGTERM, NULL, 0) < 0 && errno != ESRCH)
		return err_sys(e, "end process %d", (int)pid);
	if (poll(&p, 1, FORWARDS_END_MS) == 0)
		return err_set(e, ERR_TIMEOUT, "the forward of process %d does not end; hint: kill -KILL %d", (int)pid, (int)pid);
	return 0;
}

/* ---- all of them ---- */

struct forwards {
	struct sandbox_ref s;
	int json, dir_fd;
	json_t *list;		/* of those of a sandbox, or of all */
	const char *id;		/* NULL: of all */
	struct err *e;
};

/* The record of one that lives: a new reference, and *ret_fd; else NULL. */
static json_t *read_forward(int dir, const char *name, pid_t pid, int *ret_fd)
{
	autobuf struct buf b = BUF_INIT(FORWARDS_RECORD_MAX);
	autoclose int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct err ignored;
	json_t *j;

	if (fd < 0)
		return NULL;
	if (!is_forward_of(fd, pid)) {
		/* with the lock, so that it is not that of one which begins */
		if (fcntl(fd, F_SETLK, &whole) == 0)
			unlinkat(dir, name, 0);
		return NULL;
	}
	if (io_read_all(fd, &b, "the record of a forward", &ignored) < 0)
		return NULL;
	j = json_parse(b.data ? b.data : "", b.len, FORWARDS_RECORD_MAX, "the record of a forward", &ignored);
	if (j)
		*ret_fd = take_fd(&fd);
	return j;
}

static int add_forward(void *ctx, const char *name)
{
	struct forwards *f = ctx;
	autoclose int fd = -1;
	struct err ignored;
	json_t *j;
	uint64_t pid;

	if (num_u64(name, "pid", 1, INT32_MAX, &pid, &ignored) < 0)
		return 0;
	j = read_forward(f->dir_fd, name, (pid_t)pid, &fd);
	if (!j)
		return 0;
	json_object_set_new(j, "pid", json_integer((json_int_t)pid));
	if (f->id && strcmp(f->id, json_string_value(json_object_get(j, "sandbox")))) {
		json_decref(j);
		return 0;
	}
	return json_array_append_new(f->list, j) < 0 ? err_nomem(f->e) : 0;
}

static int list_forwards(struct forwards *f, const char *ref, struct err *e)
{
	int failed = 0;

	if (ref ? sandbox_ref_find(&f->s, ref, e) < 0 : sandbox_ref_registry(&f->s, e) < 0)
		return -1;
	f->id = ref ? f->s.id : NULL;
	f->list = json_array();
	f->e = e;
	f->dir_fd = path_make_dir(f->s.registry.run_fd, FORWARDS_DIR, e);
	if (f->dir_fd < 0 || !f->list)
		return f->dir_fd < 0 ? -1 : err_nomem(e);
	if (path_each_entry(f->dir_fd, add_forward, f, &failed) < 0)
		return -1;
	return failed ? err_sys(e, "read the directory of forwards") : 0;
}

/* ---- ls ---- */

static void print_forward(const json_t *j)
{
	const json_t *port;
	size_t i;

	json_array_foreach(json_object_get(j, "ports"), i, port) {
		const char *address = json_string_value(json_object_get(port, "address"));

		printf(strchr(address, ':') ? "%-20s [%s]:%d -> %d\n" : "%-20s %s:%d -> %d\n",
		       json_string_value(json_object_get(j, "name")), address,
		       (int)json_integer_value(json_object_get(port, "host_port")),
		       (int)json_integer_value(json_object_get(port, "port")));
	}
}

static int show_forwards(struct forwards *f, char **words, int count, struct err *e)
{
	const json_t *j;
	size_t i;

	if (count > 1)
		return err_set(e, ERR_USAGE, "one sandbox at most is wanted; hint: berth forward ls");
	if (list_forwards(f, count ? words[0] : NULL, e) < 0)
		return -1;
	if (f->json)
		return command_print_json(f->list, JSON_COMPACT, e);
	json_array_foreach(f->list, i, j)
		print_forward(j);
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

/* ---- rm ---- */

/* Whether it forwards a port of this host that is among the words; without a word each does. */
static int forward_is_meant(const json_t *j, char **words, int count)
{
	const json_t *port;
	char text[12];
	size_t i;
	int k;

	json_array_foreach(json_object_get(j, "ports"), i, port) {
		snprintf(text, sizeof(text), "%d", (int)json_integer_value(json_object_get(port, "host_port")));
		for (k = 0; k < count; k++)
			if (!strcmp(words[k], text))
				return 1;
	}
	return !count;
}

static int remove_forward(struct forwards *f, const json_t *j, struct err *e)
{
	const pid_t pid = (pid_t)json_integer_value(json_object_get(j, "pid"));
	autoclose int fd = -1;
	char name[24];
	json_t *again;

	snprintf(name, sizeof(name), "%d", (int)pid);
	again = read_forward(f->dir_fd, name, pid, &fd);
	json_decref(again);
	return again ? end_forward(fd, pid, e) : 0;
}

static int remove_forwards(struct forwards *f, char **words, int count, struct err *e)
{
	autojson json_t *gone = json_array();
	const json_t *j;
	uint64_t port;
	size_t i;
	int k;

	if (count < 1)
		return err_set(e, ERR_USAGE, "a sandbox is wanted; hint: berth forward ls shows the forwards");
	for (k = 1; k < count; k++)
		if (num_u64(words[k], "port", 1, UINT16_MAX, &port, e) < 0)
			return -1;
	if (list_forwards(f, words[0], e) < 0)
		return -1;
	json_array_foreach(f->list, i, j) {
		if (!forward_is_meant(j, words + 1, count - 1))
			continue;
		if (remove_forward(f, j, e) < 0)
			return -1;
		json_array_append(gone, (json_t *)(size_t)j);
	}
	if (!json_array_size(gone))
		return err_set(e, ERR_NOT_FOUND, "sandbox %s has no such forward in the background; hint: berth forward ls", words[0]);
	if (f->json)
		return command_print_json(gone, JSON_COMPACT, e);
	json_array_foreach(gone, i, j)
		print_forward(j);
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

/* ---- the commands ---- */

enum { FORWARDS_JSON = 1 };

static const struct opt forwards_options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print one JSON array, errors as JSON too", FORWARDS_JSON },
};

static int set_forwards_option(void *ctx, int id, const char *value, struct err *e)
{
	struct forwards *f = ctx;

	(void)id;
	(void)value;
	(void)e;
	f->json = 1;
	return 0;
}

static int run_forwards_verb(const struct command *self, int argc, char **argv,
			     int (*act)(struct forwards *f, char **words, int count, struct err *e))
{
	struct forwards f = { .dir_fd = -1 };
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&f.s);
	r = command_options(self, argc, argv, set_forwards_option, &f, &rest, &help, &e);
	if (r == 0 && !help)
		r = act(&f, argv + rest, argc - rest, &e);
	json_decref(f.list);
	fd_close(&f.dir_fd);
	sandbox_ref_close(&f.s);
	return r < 0 ? command_fail(self, &e, f.json) : 0;
}

static int run_forward_ls(const struct command *self, int argc, char **argv)
{
	return run_forwards_verb(self, argc, argv, show_forwards);
}

static int run_forward_rm(const struct command *self, int argc, char **argv)
{
	return run_forwards_verb(self, argc, argv, remove_forwards);
}

const struct command cmd_forward_ls = {
	.name = "forward ls",
	.args = "[SANDBOX]",
	.summary = "list the forwards in the background",
	.opts = forwards_options,
	.opt_count = ARRAY_LEN(forwards_options),
	.complete = COMPLETE_SANDBOX,
	.run = run_forward_ls,
};

const struct command cmd_forward_rm = {
	.name = "forward rm",
	.args = "SANDBOX [PORT...]",
	.summary = "end the forwards of a sandbox in the background",
	.detail = "Without a PORT, which is one of this host, it ends all of them.",
	.opts = forwards_options,
	.opt_count = ARRAY_LEN(forwards_options),
	.complete = COMPLETE_SANDBOX,
	.run = run_forward_rm,
};
