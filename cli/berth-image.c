/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth-image - the program behind `berth image`: what is rarely done to images.
 *
 * The table of commands below feeds dispatch and help.  All work is in rootfs/;
 * here are only words in, text out.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/suggest.h"
#include "rootfs/catalog.h"
#include "rootfs/collect.h"
#include "rootfs/image.h"
#include "rootfs/import.h"

struct args {
	const char *store, *platform;
	int json, quiet, size, force, repair, help;
	char **operands;
	int operand_count;
};

enum { O_STORE = 1, O_PLATFORM = 2, O_JSON = 4, O_QUIET = 8, O_SIZE = 16, O_FORCE = 32, O_REPAIR = 64 };

static const struct {
	const char *name, *arg, *help;
	char letter;
	int id;
} options[] = {
	{ "platform", "OS/ARCH", "import the image for this platform (default: this machine's)", 0, O_PLATFORM },
	{ "quiet", NULL, "no progress; print digests or names only", 'q', O_QUIET },
	{ "size", NULL, "also measure the unpacked layers on disk", 's', O_SIZE },
	{ "force", NULL, "remove though a sandbox uses it; absent is no error", 'f', O_FORCE },
	{ "repair", NULL, "remove damaged blobs, so that a new import replaces them", 0, O_REPAIR },
	{ "json", NULL, "print JSON, errors too", 0, O_JSON },
	{ "store", "DIR", "the image store (default: $BERTH_STATE_DIR/store,\n"
	  "                         else " STORE_DEFAULT_PATH ")", 0, O_STORE },
};

struct command {
	const char *name, *args, *summary, *detail;
	int options, min, max;	/* operands; max -1: any number */
	int (*run)(int store_fd, const struct args *a, struct err *e);
};

/* ---- output ---- */

static void human_bytes(uint64_t n, char out[24])
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)n;
	size_t u = 0;

	for (; v >= 1024 && u + 1 < ARRAY_LEN(units); u++)
		v /= 1024;
	snprintf(out, 24, u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

static void print_json(const json_t *j)
{
	json_dumpf(j, stdout, JSON_COMPACT);
	putchar('\n');
}

static uint64_t get_u64(const json_t *j, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(j, key));
}

/* Text of a record, safe for a terminal. */
static const char *get_text(const json_t *j, const char *key, char *out, size_t n)
{
	const char *s = json_string_value(json_object_get(j, key));

	log_clean(out, n, s ? s : "", 0);
	return out;
}

/* ---- import ---- */

static void show_progress(void *ctx, size_t layer, size_t layers, uint64_t bytes, uint64_t total_bytes,
			  uint64_t entries)
{
	char done[24], all[24], of[40] = "";

	(void)ctx;
	human_bytes(bytes, done);
	human_bytes(total_bytes, all);
	if (total_bytes)
		snprintf(of, sizeof(of), " of %s", all);
	fprintf(stderr, "\r\033[Klayer %zu/%zu  %s%s  %" PRIu64 " entries", layer, layers, done, of, entries);
}

static void show_note(void *ctx, const char *text)
{
	const struct args *a = ctx;

	if (!a->json && !a->quiet) {
		if (isatty(STDERR_FILENO))
			fputs("\r\033[K", stderr);
		log_note("berth image import", "note: %s", text);
	}
}

static int run_import(int store_fd, const struct args *a, struct err *e)
{
	int live = !a->quiet && !a->json && isatty(STDERR_FILENO);
	struct import_options o = {
		.source = a->operands[0],
		.name = a->operand_count > 1 ? a->operands[1] : NULL,
		.platform = a->platform,
		.progress = live ? show_progress : NULL,
		.note = show_note,
		.ctx = (void *)a,
	};
	autojson json_t *done = import_run(store_fd, &o, e), *all = NULL;
	json_t *one;
	size_t i;

	if (live)
		fputs("\r\033[K", stderr);
	if (!done)
		return -1;
	if (a->json) {
		all = json_pack("{s:O}", "images", done);
		print_json(all);
		return 0;
	}
	json_array_foreach(done, i, one) {
		char name[256], digest[80], size[24];

		get_text(one, "name", name, sizeof(name));
		get_text(one, "digest", digest, sizeof(digest));
		human_bytes(get_u64(one, "size"), size);
		if (a->quiet)
			puts(digest);
		else
			printf("%s  %s  %" PRIu64 " layers  %s\n", name, digest, get_u64(one, "layers"), size);
	}
	return 0;
}

/* ---- the others ---- */

static void print_image(const json_t *one, int with_size)
{
	char name[256], digest[80], size[24], when[32] = "-", platform[100];
	time_t t = (time_t)get_u64(one, "imported");
	struct tm tm;

	get_text(one, "name", name, sizeof(name));
	get_text(one, "digest", digest, sizeof(digest));
	get_text(one, "platform", platform, sizeof(platform));
	human_bytes(get_u64(one, "size"), size);
	if (localtime_r(&t, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &tm);
	printf("%-36s  %.19s  %-12s  %s  %10s", name, digest, platform, when, size);
	if (with_size) {
		char disk[24], shared[24];

		human_bytes(get_u64(one, "disk_bytes"), disk);
		human_bytes(get_u64(one, "shared_bytes"), shared);
		printf("  %10s  %10s", disk, shared);
	}
	putchar('\n');
}

static int run_ls(int store_fd, const struct args *a, struct err *e)
{
	autojson json_t *list = catalog_list(store_fd, a->size, e);
	char name[256];
	json_t *one;
	size_t i;

	if (!list)
		return -1;
	if (a->json) {
		print_json(list);
		return 0;
	}
	if (!a->quiet)
		printf("%-36s  %-19s  %-12s  %-16s  %10s%s\n", "NAME", "DIGEST", "PLATFORM", "IMPORTED", "BLOBS",
		       a->size ? "        DISK      SHARED" : "");
	json_array_foreach(list, i, one) {
		if (a->quiet)
			puts(get_text(one, "name", name, sizeof(name)));
		else
			print_image(one, a->size);
	}
	return 0;
}

static int run_inspect(int store_fd, const struct args *a, struct err *e)
{
	autojson json_t *j = catalog_inspect(store_fd, a->operands[0], e);

	if (!j)
		return -1;
	json_dumpf(j, stdout, a->json ? JSON_COMPACT : JSON_INDENT(2));
	putchar('\n');
	return 0;
}

static int run_rm(int store_fd, const struct args *a, struct err *e)
{
	autojson json_t *removed = json_array(), *freed = NULL, *all = NULL;
	struct err first = { 0 }, why;
	json_t *name;
	size_t j;
	int i;

	/* one that fails does not keep the others; the first error is told */
	for (i = 0; i < a->operand_count; i++) {
		memset(&why, 0, sizeof(why));
		if (catalog_remove(store_fd, a->operands[i], a->force, removed, &why) < 0 &&
		    !(a->force && why.code == ERR_NOT_FOUND) && !first.code)
			first = why;
	}
	memset(&why, 0, sizeof(why));
	freed = json_array_size(removed) ? collect_garbage(store_fd, 0, &why) : NULL;
	if (!freed && why.code && why.code != ERR_BUSY && !first.code)
		first = why;
	if (a->json) {
		all = json_pack("{s:O, s:O?}", "removed", removed, "freed", freed);
		print_json(all);
	} else {
		json_array_foreach(removed, j, name)
			puts(json_string_value(name));
	}
	*e = first;
	return first.code ? -1 : 0;
}

static int run_gc(int store_fd, const struct args *a, struct err *e)
{
	autojson json_t *freed = collect_garbage(store_fd, 1, e);
	char bytes[24];

	if (!freed)
		return -1;
	human_bytes(get_u64(freed, "bytes"), bytes);
	if (a->json)
		print_json(freed);
	else if (!a->quiet)
		printf("removed %" PRIu64 " layers and %" PRIu64 " blobs, %s\n", get_u64(freed, "layers"),
		       get_u64(freed, "blobs"), bytes);
	return 0;
}

static int run_fsck(int store_fd, const struct args *a, struct err *e)
{
	autojson json_t *j = collect_check(store_fd, a->repair, e);
	json_t *problems = json_object_get(j, "problems"), *p;
	char text[500];
	size_t i;

	if (!j)
		return -1;
	if (a->json)
		print_json(j);
	else if (!a->quiet)
		printf("%" PRIu64 " images, %" PRIu64 " blobs, %" PRIu64 " layers, %zu problems\n",
		       get_u64(j, "images"), get_u64(j, "blobs"), get_u64(j, "layers"), json_array_size(problems));
	if (!json_array_size(problems))
		return 0;
	json_array_foreach(problems, i, p) {
		log_clean(text, sizeof(text), json_string_value(p), 0);
		if (!a->json)
			printf("%s\n", text);
	}
	return err_set(e, ERR_CORRUPT, "the image store has %zu problems", json_array_size(problems));
}

/* ---- commands ---- */

static const struct command commands[] = {
	{ "import", "SOURCE [NAME]", "make an image from an OCI layout, a docker-save archive or a root file system",
	  "SOURCE is a directory or an archive (tar, tar.gz, tar.zst), or - for an archive on\n"
	  "stdin; PATH:REF takes one image of a layout that has several.  Without NAME the\n"
	  "image is called what the source says, else after the source's file name.\n\n"
	  "  berth image import ./debian-oci debian:12\n"
	  "  docker save alpine | berth image import -\n"
	  "  berth image import /srv/rootfs buildroot\n",
	  O_PLATFORM | O_QUIET | O_JSON, 1, 2, run_import },
	{ "ls", "", "list the images", NULL, O_QUIET | O_JSON | O_SIZE, 0, 0, run_ls },
	{ "inspect", "NAME", "print all that is known of an image, as JSON", NULL, O_JSON, 1, 1, run_inspect },
	{ "rm", "NAME...", "remove images by name or digest, and what only they needed", NULL,
	  O_FORCE | O_JSON, 1, -1, run_rm },
	{ "gc", "", "remove layers and blobs that no image and no sandbox needs", NULL, O_QUIET | O_JSON, 0, 0,
	  run_gc },
	{ "fsck", "", "read the whole store and report what is damaged", NULL, O_QUIET | O_JSON | O_REPAIR, 0, 0,
	  run_fsck },
};

static void print_options(int set)
{
	size_t i;

	printf("\nOptions:\n");
	for (i = 0; i < ARRAY_LEN(options); i++) {
		char left[40], letter[8] = "    ";

		if (!((set | O_STORE) & options[i].id))
			continue;
		if (options[i].letter)
			snprintf(letter, sizeof(letter), "-%c, ", options[i].letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, options[i].name, options[i].arg ? " " : "",
			 options[i].arg ? options[i].arg : "");
		printf("  %-22s %s\n", left, options[i].help);
	}
	printf("  %-22s %s\n", "-h, --help", "show this help");
}

static void print_help(const struct command *c)
{
	size_t i;

	if (c) {
		printf("Usage: berth image %s [options]%s%s\n\n%c%s.\n", c->name, *c->args ? " " : "", c->args,
		       c->summary[0] - 'a' + 'A', c->summary + 1);
		if (c->detail)
			printf("\n%s", c->detail);
		print_options(c->options);
		return;
	}
	printf("Usage: berth image COMMAND [options] [arguments]\n\nKeeps the images that sandboxes start from.\n\nCommands:\n");
	for (i = 0; i < ARRAY_LEN(commands); i++)
		printf("  %-16s  %s\n", commands[i].name, commands[i].summary);
	printf("\n'berth image COMMAND --help' lists the options of a command.\n");
}

static int set_option(struct args *a, int id, const char *value)
{
	switch (id) {
	case O_STORE:
		a->store = value;
		break;
	case O_PLATFORM:
		a->platform = value;
		break;
	default:
		*(id == O_JSON ? &a->json : id == O_QUIET ? &a->quiet : id == O_SIZE ? &a->size :
		  id == O_FORCE ? &a->force : &a->repair) = 1;
	}
	return 0;
}

/* getopt_long(3) takes any unambiguous beginning of a name: only whole names count here. */
static int is_whole_name(const char *arg)
{
	size_t n = strcspn(arg + 2, "="), i;

	for (i = 0; i < ARRAY_LEN(options); i++)
		if (strlen(options[i].name) == n && !memcmp(options[i].name, arg + 2, n))
			return 1;
	return n == 4 && !memcmp(arg + 2, "help", 4);
}

static int unknown_option(const struct command *c, const char *arg, struct err *e)
{
	char typed[64];
	struct suggest s = SUGGEST_INIT(typed);
	size_t i;

	snprintf(typed, sizeof(typed), "%.*s", (int)strcspn(arg, "="), arg + strspn(arg, "-"));
	typed[strcspn(typed, "=")] = '\0';
	for (i = 0; i < ARRAY_LEN(options); i++)
		if ((c->options | O_STORE) & options[i].id)
			suggest_offer(&s, options[i].name);
	err_set(e, ERR_USAGE, "unknown option %.60s", arg);
	if (s.best)
		return err_hint(e, "did you mean --%s?", s.best);
	return err_hint(e, "berth image %s --help lists the options", c->name);
}

/* Options and operands in any order; "--" ends the options. */
static int parse(const struct command *c, int argc, char **argv, struct args *a, struct err *e)
{
	struct option longs[ARRAY_LEN(options) + 2] = { 0 };
	char letters[2 * ARRAY_LEN(options) + 4] = ":h";
	size_t n = 0, i, len = 2;
	int id, at;

	for (i = 0; i < ARRAY_LEN(options); i++) {
		if (!((c->options | O_STORE) & options[i].id))
			continue;
		longs[n++] = (struct option){ options[i].name, options[i].arg ? 1 : 0, NULL, 1000 + (int)i };
		if (options[i].letter)
			letters[len++] = options[i].letter;
	}
	longs[n] = (struct option){ "help", 0, NULL, 'h' };
	opterr = 0;
	optind = 0;
	for (at = 1; (id = getopt_long(argc, argv, letters, longs, NULL)) != -1; at = optind) {
		const char *arg = argv[optind - 1];

		if (id == 'h') {
			a->help = 1;
			return 0;
		}
		for (i = 0; id < 1000 && i < ARRAY_LEN(options); i++)
			if (options[i].letter && options[i].letter == id)
				id = 1000 + (int)i;
		if (id == ':')
			return err_set(e, ERR_USAGE, "option %.60s needs a value", arg);
		/* a value of its own stands behind the name */
		if (id >= 1000 && options[id - 1000].arg && optarg == arg)
			arg = argv[optind - 2];
		if (id == '?' || (!strncmp(arg, "--", 2) && !is_whole_name(arg)))
			return unknown_option(c, arg, e);
		set_option(a, options[id - 1000].id, optarg);
	}
	(void)at;
	a->operands = argv + optind;
	a->operand_count = argc - optind;
	if (a->operand_count < c->min || (c->max >= 0 && a->operand_count > c->max))
		return err_set(e, ERR_USAGE, "%s; hint: berth image %s%s%s",
			       a->operand_count < c->min ? "an argument is missing" : "too many arguments",
			       c->name, *c->args ? " " : "", c->args);
	return 0;
}

/* ---- the program ---- */

static int fail(const struct command *c, const struct err *e, int as_json)
{
	char prog[40];

	if (as_json) {
		char clean[sizeof(e->msg) + 8];
		autojson json_t *j = NULL;
		autofree char *text = NULL;

		log_clean(clean, sizeof(clean), e->msg, 0);
		j = json_pack("{s:{s:s, s:s, s:i}}", "error", "code", err_name(e->code), "message", clean,
			      "exit_status", err_exit_status(e->code));
		text = j ? json_dumps(j, JSON_COMPACT) : NULL;
		fflush(stdout);
		fprintf(stderr, "%s\n", text ? text : "{\"error\":{\"code\":\"internal\"}}");
		return err_exit_status(e->code);
	}
	fflush(stdout);
	snprintf(prog, sizeof(prog), "berth image%s%s", c ? " " : "", c ? c->name : "");
	log_error(prog, e);
	return err_exit_status(e->code);
}

static const struct command *find(const char *word, struct err *e)
{
	struct suggest s = SUGGEST_INIT(word);
	size_t i;

	for (i = 0; i < ARRAY_LEN(commands); i++) {
		if (!strcmp(commands[i].name, word))
			return &commands[i];
		suggest_offer(&s, commands[i].name);
	}
	err_set(e, ERR_USAGE, "unknown command '%.60s'", word);
	if (s.best)
		err_hint(e, "did you mean '%s'?", s.best);
	else
		err_hint(e, "berth image --help lists the commands");
	return NULL;
}

static int open_store(const struct args *a, struct err *e)
{
	const char *state = secure_getenv("BERTH_STATE_DIR");
	char path[4096];

	snprintf(path, sizeof(path), "%s", STORE_DEFAULT_PATH);
	if (a->store)
		snprintf(path, sizeof(path), "%s", a->store);
	else if (state && *state)
		snprintf(path, sizeof(path), "%.4000s/store", state);
	if (geteuid())
		return err_set(e, ERR_DENIED, "images are kept by root; hint: sudo berth image ...");
	return store_open(path, e);
}

static int execute(const struct command *c, struct args *a, struct err *e)
{
	autoclose int store_fd = open_store(a, e);

	if (store_fd < 0 || c->run(store_fd, a, e) < 0)
		return -1;
	if (fflush(stdout) || ferror(stdout))
		return err_sys(e, "write to standard output");
	return 0;
}

/* A file opened later must never become descriptor 0, 1 or 2. */
static int make_sane(struct err *e)
{
	int fd;

	for (fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			return err_sys(e, "open /dev/null as descriptor %d", fd);
	umask(077);
	/* a child that ended early is an error we report, not our death */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	return 0;
}

/* --store may also stand before the command. */
static int leading_options(int argc, char **argv, struct args *a, struct err *e)
{
	int i;

	for (i = 1; i < argc && argv[i][0] == '-' && argv[i][1]; i++) {
		if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
			a->help = 1;
		else if (!strcmp(argv[i], "--json"))
			a->json = 1;
		else if (!strncmp(argv[i], "--store=", 8))
			a->store = argv[i] + 8;
		else if (!strcmp(argv[i], "--store") && i + 1 < argc)
			a->store = argv[++i];
		else
			return err_set(e, ERR_USAGE, "unknown option %.60s; hint: berth image --help", argv[i]);
	}
	return i;
}

int main(int argc, char **argv)
{
	const struct command *c = NULL;
	struct args a = { 0 };
	struct err e = { 0 };
	int at, as_json = 0, i;

	for (i = 1; i < argc && strcmp(argv[i], "--"); i++)
		as_json |= !strcmp(argv[i], "--json");
	if (make_sane(&e) < 0)
		return fail(NULL, &e, as_json);
	at = leading_options(argc, argv, &a, &e);
	if (at < 0)
		return fail(NULL, &e, as_json);
	if (a.help || (at < argc && !strcmp(argv[at], "help"))) {
		print_help(at + 1 < argc && !a.help ? find(argv[at + 1], &e) : NULL);
		return e.code ? fail(NULL, &e, as_json) : 0;
	}
	if (at == argc) {
		err_set(&e, ERR_USAGE, "no command given; hint: berth image --help lists them");
		return fail(NULL, &e, as_json);
	}
	c = find(argv[at], &e);
	if (!c || parse(c, argc - at, argv + at, &a, &e) < 0)
		return fail(c, &e, as_json);
	if (a.help) {
		print_help(c);
		return 0;
	}
	return execute(c, &a, &e) < 0 ? fail(c, &e, a.json) : 0;
}
