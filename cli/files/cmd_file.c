/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth file: read, write, ls, stat, mkdir, rm, mv of one sandbox's files.
 * The work is done in the sandbox by runtime/fileop; content passes between it
 * and our own stdin and stdout.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "manager/keeper/fileclient.h"

#define VERB_TIMEOUT_MS 60000
#define LIST_MAX (256u << 20)
#define JSON_CONTENT_MAX (64u << 20)

enum { OPT_USER = 1, OPT_TIMEOUT, OPT_START, OPT_JSON, OPT_LIMIT, OPT_APPEND, OPT_PARENTS, OPT_MODE, OPT_LONG, OPT_FOLLOW,
	OPT_RECURSIVE, OPT_FORCE };

#define COMMON_OPTIONS \
	{ "user", 'u', OPT_VALUE, "USER[:GROUP]", "whose rights it has in the sandbox (default: root there)", OPT_USER }, \
	{ "timeout", 0, OPT_VALUE, "TIME", "how long it may take; 0 is for ever (default: 60s, read and write 300s)", OPT_TIMEOUT }, \
	{ "start", 0, OPT_FLAG, NULL, "start the sandbox first if it does not run", OPT_START }, \
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object; errors too", OPT_JSON }

static const struct opt read_options[] = {
	{ "limit", 'n', OPT_VALUE, "SIZE", "refuse a file larger than this (default: none)", OPT_LIMIT },
	COMMON_OPTIONS,
};
static const struct opt write_options[] = {
	{ "append", 'a', OPT_FLAG, NULL, "add to the file's end instead of replacing it", OPT_APPEND },
	{ "parents", 'p', OPT_FLAG, NULL, "make missing directories of its path", OPT_PARENTS },
	{ "mode", 'm', OPT_VALUE, "OCTAL", "permissions (default: the replaced file's, else 644)", OPT_MODE },
	COMMON_OPTIONS,
};
static const struct opt ls_options[] = {
	{ "long", 'l', OPT_FLAG, NULL, "permissions, owner, size and time, too", OPT_LONG },
	COMMON_OPTIONS,
};
static const struct opt stat_options[] = {
	{ "follow", 'L', OPT_FLAG, NULL, "what a symbolic link leads to", OPT_FOLLOW },
	COMMON_OPTIONS,
};
static const struct opt mkdir_options[] = {
	{ "parents", 'p', OPT_FLAG, NULL, "make missing parents; ignore an existing one", OPT_PARENTS },
	{ "mode", 'm', OPT_VALUE, "OCTAL", "permissions (default: 755)", OPT_MODE },
	COMMON_OPTIONS,
};
static const struct opt rm_options[] = {
	{ "recursive", 'r', OPT_FLAG, NULL, "directories with all that is in them", OPT_RECURSIVE },
	{ "force", 'f', OPT_FLAG, NULL, "ignore one that does not exist", OPT_FORCE },
	COMMON_OPTIONS,
};
static const struct opt mv_options[] = { COMMON_OPTIONS };

struct file {
	const char *user, *mode;
	uint64_t timeout_ms, limit;
	int timeout_set, start, json, long_form;
	char flags[8];
	int sock;
	char **words;	/* after the sandbox */
	int count;
};

static int set_file_option(void *ctx, int id, const char *value, struct err *e)
{
	static const char letters[] = { [OPT_APPEND] = 'a', [OPT_PARENTS] = 'p', [OPT_FOLLOW] = 'L', [OPT_RECURSIVE] = 'r',
					[OPT_FORCE] = 'f' };
	struct file *f = ctx;
	size_t n = strlen(f->flags);

	switch (id) {
	case OPT_USER:
		f->user = value;
		return 0;
	case OPT_TIMEOUT:
		f->timeout_set = 1;
		return num_duration_ms(value, "timeout", 366ULL * 86400000, &f->timeout_ms, e);
	case OPT_LIMIT:
		return num_size(value, "limit", 1, 1ULL << 60, &f->limit, e);
	case OPT_MODE:
		if (!value[0] || strlen(value) > 4 || strspn(value, "01234567") != strlen(value))
			return err_set(e, ERR_INVALID, "'%.40s' is not an octal mode; hint: 644", value);
		f->mode = value;
		return 0;
	case OPT_START:
		f->start = 1;
		return 0;
	case OPT_JSON:
		f->json = 1;
		return 0;
	case OPT_LONG:
		f->long_form = 1;
		return 0;
	default:
		if (!strchr(f->flags, letters[id]) && n + 1 < sizeof(f->flags))
			f->flags[n] = letters[id];
		return 0;
	}
}

static int run_file_verb(struct file *f, const char *const *argv, int in_fd, struct buf *out, struct filecounts *c, struct err *e)
{
	return fileclient_run(f->sock, argv, f->user, f->timeout_set ? f->timeout_ms : VERB_TIMEOUT_MS, in_fd, out, c, e);
}

static int run_file_read(struct file *f, struct err *e)
{
	autobuf struct buf content = BUF_INIT(JSON_CONTENT_MAX);
	char limit[24];
	const char *argv[] = { "read", limit, f->words[0], NULL };
	uint64_t timeout_ms = f->timeout_set ? f->timeout_ms : 300000;
	struct fileclient fc;
	struct filecounts c = { 0 };
	json_t *j;

	snprintf(limit, sizeof(limit), "%llu", (unsigned long long)f->limit);
	if (!f->json)
		return fileclient_start(&fc, f->sock, argv, f->user, timeout_ms, -1, STDOUT_FILENO, e) < 0 ? -1 :
		       fileclient_end(&fc, &c, e);
	if (fileclient_run(f->sock, argv, f->user, timeout_ms, -1, &content, &c, e) < 0)
		return -1;
	if (content.len != c.bytes)
		return err_set(e, ERR_CORRUPT, "%zu bytes arrived, not %llu", content.len, (unsigned long long)c.bytes);
	j = json_pack("{s:I}", "bytes", (json_int_t)c.bytes);
	if (json_set_bytes(j, "content", content.data, content.len, e) < 0) {
		json_decref(j);
		return -1;
	}
	return fileclient_print(j, e);
}

static int run_file_write(struct file *f, struct err *e)
{
	const char *argv[] = { "write", f->flags, f->mode ? f->mode : "", f->words[0], NULL };
	struct fileclient fc;
	struct filecounts c = { 0 };

	if (fileclient_start(&fc, f->sock, argv, f->user, f->timeout_set ? f->timeout_ms : 300000, STDIN_FILENO, -1, e) < 0 ||
	    fileclient_end(&fc, &c, e) < 0)
		return -1;
	/* the helper reports the size of an appended file as what was skipped */
	return f->json ? fileclient_print(json_pack("{s:I,s:I}", "written", (json_int_t)c.bytes, "size", (json_int_t)c.skipped), e) : 0;
}

static int run_file_simple(struct file *f, const char *verb, int with_mode, struct err *e)
{
	const char **argv = calloc((size_t)f->count + 4, sizeof(*argv));
	struct filecounts c;
	size_t n = 0;
	int i, r;

	if (!argv)
		return err_nomem(e);
	argv[n++] = verb;
	argv[n++] = f->flags;
	if (with_mode)
		argv[n++] = f->mode ? f->mode : "";
	for (i = 0; i < f->count; i++)
		argv[n++] = f->words[i];
	r = run_file_verb(f, argv, -1, NULL, &c, e);
	free(argv);
	if (r == 0 && f->json)
		r = fileclient_print(json_pack("{s:b}", "done", 1), e);
	return r;
}

static int run_file_mkdir(struct file *f, struct err *e)
{
	return run_file_simple(f, "mkdir", 1, e);
}

static int run_file_rm(struct file *f, struct err *e)
{
	return run_file_simple(f, "rm", 0, e);
}

static int run_file_mv(struct file *f, struct err *e)
{
	const char *argv[] = { "mv", f->words[0], f->words[1], NULL };
	struct filecounts c;

	if (run_file_verb(f, argv, -1, NULL, &c, e) < 0)
		return -1;
	return f->json ? fileclient_print(json_pack("{s:b}", "done", 1), e) : 0;
}

static void mode_text(unsigned mode, char out[11])
{
	static const char bits[] = "rwxrwxrwx";
	int i;

	out[0] = S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : S_ISREG(mode) ? '-' : S_ISFIFO(mode) ? 'p' : S_ISSOCK(mode) ? 's' :
		 S_ISCHR(mode) ? 'c' : 'b';
	for (i = 0; i < 9; i++)
		out[1 + i] = mode & (0400u >> i) ? bits[i] : '-';
	if (mode & S_ISUID)
		out[3] = mode & 0100 ? 's' : 'S';
	if (mode & S_ISGID)
		out[6] = mode & 010 ? 's' : 'S';
	if (mode & S_ISVTX)
		out[9] = mode & 1 ? 't' : 'T';
	out[10] = '\0';
}

static void print_long_entry(const struct filerecord *r)
{
	char mode[11], when[64], name[1024], link[1024];
	time_t t = (time_t)r->mtime_sec;
	struct tm tm;

	mode_text(r->mode, mode);
	if (!gmtime_r(&t, &tm) || !strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm))
		strcpy(when, "?");
	log_clean(name, sizeof(name), r->name, 0);
	log_clean(link, sizeof(link), r->link, 0);
	printf("%s %3lu %5u %5u %12llu %s %s%s%s\n", mode, r->nlink, r->uid, r->gid, (unsigned long long)r->size, when, name,
	       link[0] ? " -> " : "", link);
}

static int compare_file_listing(const void *a, const void *b)
{
	return strcmp(((const struct filerecord *)a)->name, ((const struct filerecord *)b)->name);
}

static int show_records(struct file *f, const struct filerecord *r, size_t n, struct err *e)
{
	json_t *list = json_array();
	char name[1024];
	size_t i;

	for (i = 0; i < n; i++) {
		if (f->json) {
			json_array_append_new(list, filerecord_json(&r[i]));
		} else if (f->long_form) {
			print_long_entry(&r[i]);
		} else {
			log_clean(name, sizeof(name), r[i].name, 0);
			puts(name);
		}
	}
	if (f->json)
		return fileclient_print(json_pack("{s:o}", "entries", list), e);
	json_decref(list);
	return 0;
}

static int run_file_ls(struct file *f, struct err *e)
{
	autobuf struct buf text = BUF_INIT(LIST_MAX);
	const char *argv[] = { "list", f->count ? f->words[0] : ".", NULL }, *at, *end;
	autofree struct filerecord *list = NULL;
	struct filerecord *more;
	struct filecounts c;
	size_t n = 0, cap = 0;
	int r;

	if (run_file_verb(f, argv, -1, &text, &c, e) < 0)
		return -1;
	for (at = text.data, end = text.data + text.len;; n++) {
		if (n == cap) {
			cap = cap ? 2 * cap : 64;
			more = reallocarray(list, cap, sizeof(*list));
			if (!more)
				return err_nomem(e);
			list = more;
		}
		r = filerecord_next(&at, end, &list[n], e);
		if (r <= 0)
			break;
	}
	if (r < 0)
		return -1;
	if (n)
		qsort(list, n, sizeof(*list), compare_file_listing);
	return show_records(f, list, n, e);
}

static int run_file_stat(struct file *f, struct err *e)
{
	autobuf struct buf text = BUF_INIT(1 << 16);
	const char *argv[] = { "stat", f->flags, f->words[0], NULL }, *at;
	struct filerecord r;
	struct filecounts c;

	if (run_file_verb(f, argv, -1, &text, &c, e) < 0)
		return -1;
	at = text.data;
	if (filerecord_next(&at, text.data + text.len, &r, e) < 1)
		return err_set(e, ERR_CORRUPT, "the file helper's answer is malformed");
	if (f->json)
		return fileclient_print(filerecord_json(&r), e);
	print_long_entry(&r);
	return 0;
}

static int file_main(const struct command *self, int argc, char **argv);

#define FILE_COMMAND(verb, arguments, what, more) \
	const struct command cmd_file_##verb = { \
		.name = "file " #verb, .args = arguments, .summary = what, .detail = more, .opts = verb##_options, \
		.opt_count = ARRAY_LEN(verb##_options), .complete = COMPLETE_SANDBOX, .run = file_main, \
	}

FILE_COMMAND(read, "SANDBOX PATH", "write a file of a sandbox to stdout", "Relative paths start at the sandbox's working directory.");
FILE_COMMAND(write, "SANDBOX PATH", "replace a file of a sandbox by stdin, at once",
	     "A reader sees the old content or all of the new; relative paths start at the working directory.");
FILE_COMMAND(ls, "SANDBOX [PATH]", "list a directory of a sandbox", NULL);
FILE_COMMAND(stat, "SANDBOX PATH", "describe a file of a sandbox", NULL);
FILE_COMMAND(mkdir, "SANDBOX PATH...", "make directories in a sandbox", NULL);
FILE_COMMAND(rm, "SANDBOX PATH...", "remove files of a sandbox", NULL);
FILE_COMMAND(mv, "SANDBOX FROM TO", "move a file or directory of a sandbox", NULL);

static const struct {
	const struct command *command;
	int min, max;	/* words after the sandbox */
	int (*run)(struct file *f, struct err *e);
} verbs[] = {
	{ &cmd_file_read, 1, 1, run_file_read }, { &cmd_file_write, 1, 1, run_file_write }, { &cmd_file_ls, 0, 1, run_file_ls },
	{ &cmd_file_stat, 1, 1, run_file_stat }, { &cmd_file_mkdir, 1, 4000, run_file_mkdir }, { &cmd_file_rm, 1, 4000, run_file_rm },
	{ &cmd_file_mv, 2, 2, run_file_mv },
};

static int file_main(const struct command *self, int argc, char **argv)
{
	struct file f = { 0 };
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, status = 0, result;
	size_t i = 0;

	sandbox_ref_init(&s);
	while (verbs[i].command != self)
		i++;
	result = command_options(self, argc, argv, set_file_option, &f, &rest, &help, &e);
	if (result == 0 && !help) {
		f.words = argv + rest + 1;
		f.count = argc - rest - 1;
		if (f.count < verbs[i].min || f.count > verbs[i].max)
			result = err_set(&e, ERR_USAGE, "wanted are: %s; hint: berth %s --help", self->args, self->name);
		if (result == 0)
			result = sandbox_ref_connect_files(&s, argv[rest], f.start, &e);
		f.sock = s.sock;
		if (result == 0)
			result = verbs[i].run(&f, &e);
	}
	if (result < 0)
		status = command_fail(self, &e, f.json);
	sandbox_ref_close(&s);
	return status;
}
