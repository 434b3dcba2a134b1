/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/imagecmd.h"

#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/suggest.h"
#include "manager/host/journal.h"
#include "rootfs/store/image.h"

static const struct {
	const char *name, *arg, *help;
	char letter;
} options[] = {
	[IMG_PLATFORM] = { "platform", "OS/ARCH", "the image for this platform (default: our own)", 0 },
	[IMG_QUIET] = { "quiet", NULL, "no progress; print digests or names only", 'q' },
	[IMG_SIZE] = { "size", NULL, "also measure the unpacked layers on disk", 's' },
	[IMG_FORCE] = { "force", NULL, "remove it even if a sandbox uses it; ignore a missing one", 'f' },
	[IMG_REPAIR] = { "repair", NULL, "remove what is damaged, make again what can be", 0 },
	[IMG_INSECURE] = { "insecure", NULL, "speak plain http with the registry, passwords too", 0 },
	[IMG_ALL] = { "all", NULL, "copy: all platforms; prune: also unused images", 'a' },
	[IMG_USERNAME] = { "username", "USER", "the user name", 'u' },
	[IMG_PASSWORD_STDIN] = { "password-stdin", NULL, "read the password from stdin", 0 },
	[IMG_FORMAT] = { "format", "FORMAT", "layout, archive or rootfs (default: by DEST's name)", 0 },
	[IMG_OUTPUT] = { "output", "FILE", "write to this file (default: stdout)", 'o' },
	[IMG_INPUT] = { "input", "FILE", "read from this file (default: stdin)", 'i' },
	[IMG_OLDER] = { "older-than", "TIME", "only what was imported longer ago, such as 24h", 0 },
	[IMG_DRY_RUN] = { "dry-run", NULL, "change nothing, only try or print", 'n' },
	[IMG_PACKAGES] = { "packages", "A,B", "packages to install, with what they need", 0 },
	[IMG_SUITE] = { "suite", "NAME", "Debian release (default: bookworm)", 0 },
	[IMG_MIRROR] = { "mirror", "URL", "where from (default: deb.debian.org)", 0 },
	[IMG_VARIANT] = { "variant", "NAME", "how much comes along (default: minbase)", 0 },
	[IMG_COMPRESSION] = { "compression", "KIND", "of the layer: gzip (default) or zstd", 0 },
	[IMG_TENANT] = { "tenant", "NAME", "as this tenant of berthd, and held to its maxima", 0 },
	[IMG_CHANGE] = { "change", "INSTRUCTION", "of a root file system: one of a Dockerfile, such as 'CMD sh'", 'c' },
	[IMG_MESSAGE] = { "message", "TEXT", "of a root file system: a comment for its history", 'm' },
	[IMG_BASE] = { "base", "NAME", "an image whose layers an archive of docker save may leave out", 0 },
	[IMG_UNNAMED] = { "unnamed", "NAME", "the name of an image that the archive gives none", 0 },
	[IMG_NO_EVENT] = { "no-event", NULL, "add nothing to the events", 0 },
	[IMG_JSON] = { "json", NULL, "print JSON, errors too", 0 },
	[IMG_STORE] = { "store", "DIR", "the image store (default: $BERTH_STATE_DIR/store,\n"
			"                         else " STORE_DEFAULT_PATH ")", 0 },
};
_Static_assert(ARRAY_LEN(options) == IMG_OPT_COUNT, "one row per option");

static int command_takes_option(const struct imagecmd *c, size_t id)
{
	return id == IMG_STORE ? !c->no_store : c->options >> id & 1;
}

const char *imagecmd_value(const struct imagecmd_args *a, enum imagecmd_opt id)
{
	size_t i;

	for (i = a->given_count; i > 0; i--)
		if (a->given[i - 1].id == id)
			return a->given[i - 1].value;
	return NULL;
}

int imagecmd_flag(const struct imagecmd_args *a, enum imagecmd_opt id)
{
	return imagecmd_value(a, id) != NULL;
}

const char *imagecmd_program(const struct imagecmd *c)
{
	return c && c->top ? "berth" : "berth image";
}

void imagecmd_release(struct imagecmd_args *a)
{
	free(a->given);
	*a = (struct imagecmd_args){ 0 };
}

void imagecmd_print_options(const struct imagecmd *c)
{
	size_t i;

	printf("\nOptions:\n");
	for (i = 0; i < ARRAY_LEN(options); i++) {
		char left[40], letter[8] = "    ";

		if (!command_takes_option(c, i))
			continue;
		if (options[i].letter)
			snprintf(letter, sizeof(letter), "-%c, ", options[i].letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, options[i].name, options[i].arg ? " " : "",
			 options[i].arg ? options[i].arg : "");
		printf("  %-22s %s\n", left, options[i].help);
	}
	printf("  %-22s %s\n", "-h, --help", "show this help");
}

/* ---- parsing ---- */

/* getopt_long(3) takes any unambiguous beginning of a name: only whole names count here. */
static int is_whole_name(const char *arg)
{
	size_t n = strcspn(arg + 2, "="), i;

	for (i = 0; i < ARRAY_LEN(options); i++)
		if (strlen(options[i].name) == n && !memcmp(options[i].name, arg + 2, n))
			return 1;
	return n == 4 && !memcmp(arg + 2, "help", 4);
}

static int unknown_option(const struct imagecmd *c, const char *arg, struct err *e)
{
	char typed[64];
	struct suggest s = SUGGEST_INIT(typed);
	size_t i;

	snprintf(typed, sizeof(typed), "%.*s", (int)strcspn(arg, "="), arg + strspn(arg, "-"));
	typed[strcspn(typed, "=")] = '\0';
	for (i = 0; i < ARRAY_LEN(options); i++)
		if (command_takes_option(c, i))
			suggest_offer(&s, options[i].name);
	err_set(e, ERR_USAGE, "unknown option %.60s", arg);
	if (s.best)
		return err_hint(e, "did you mean --%s?", s.best);
	return err_hint(e, "%s %s --help lists the options", imagecmd_program(c), c->name);
}

int imagecmd_add(struct imagecmd_args *a, enum imagecmd_opt id, const char *value, struct err *e)
{
	void *more = reallocarray(a->given, a->given_count + 1, sizeof(*a->given));

	if (!more)
		return err_nomem(e);
	a->given = more;
	a->given[a->given_count].id = id;
	a->given[a->given_count++].value = value ? value : "";
	return 0;
}

/* Options and operands in any order; "--" ends the options. */
int imagecmd_parse(const struct imagecmd *c, int argc, char **argv, struct imagecmd_args *a, struct err *e)
{
	struct option longs[ARRAY_LEN(options) + 2] = { 0 };
	char letters[2 * ARRAY_LEN(options) + 4] = ":h";
	size_t n = 0, i, len = 2;
	int id;

	for (i = 0; i < ARRAY_LEN(options); i++) {
		if (!command_takes_option(c, i))
			continue;
		longs[n++] = (struct option){ options[i].name, options[i].arg ? 1 : 0, NULL, 1000 + (int)i };
		if (options[i].letter)
			letters[len++] = options[i].letter;
		if (options[i].letter && options[i].arg)
			letters[len++] = ':';
	}
	longs[n] = (struct option){ "help", 0, NULL, 'h' };
	opterr = 0;
	optind = 0;
	while ((id = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
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
		if (imagecmd_add(a, (enum imagecmd_opt)(id - 1000), optarg, e) < 0)
			return -1;
	}
	a->operands = argv + optind;
	a->operand_count = argc - optind;
	if (a->operand_count < c->min || (c->max >= 0 && a->operand_count > c->max))
		return err_set(e, ERR_USAGE, "%s; hint: %s %s%s%s",
			       a->operand_count < c->min ? "an argument is missing" : "too many arguments",
			       imagecmd_program(c), c->name, *c->args ? " " : "", c->args);
	return 0;
}

/* ---- output ---- */

const char *imagecmd_count(uint64_t n, const char *thing, char out[40])
{
	snprintf(out, 40, "%" PRIu64 " %.10s%s", n, thing, n == 1 ? "" : "s");
	return out;
}

void imagecmd_print_json(const json_t *j)
{
	json_dumpf(j, stdout, JSON_COMPACT);
	putchar('\n');
}

int imagecmd_is_live(const struct imagecmd_args *a)
{
	return !imagecmd_flag(a, IMG_QUIET) && !imagecmd_flag(a, IMG_JSON) && isatty(STDERR_FILENO);
}

void imagecmd_clear_line(void)
{
	fputs("\r\033[K", stderr);
}

void imagecmd_progress(void *ctx, size_t layer, size_t layers, uint64_t bytes, uint64_t total_bytes, uint64_t entries)
{
	char done[24], all[24], of[40] = "";

	(void)ctx;
	imagecmd_bytes(bytes, done);
	imagecmd_bytes(total_bytes, all);
	if (total_bytes)
		snprintf(of, sizeof(of), " of %s", all);
	fprintf(stderr, "\r\033[Klayer %zu/%zu  %s%s  %" PRIu64 " entries", layer, layers, done, of, entries);
}

/* --tenant of the commands that make and remove images. */

static int may_tenant_use(const struct tenant *t, const char *may)
{
	return !may || (!strcmp(may, "commit") && t->may_commit) ||
	       (!strcmp(may, "import") && t->may_import) || (!strcmp(may, "pull") && t->pull[0]);
}

int imagecmd_tenant(const struct imagecmd_args *a, const char *may, struct imagecmd_tenant **ret,
		    struct err *e)
{
	const char *name = imagecmd_value(a, IMG_TENANT);
	autofree struct imagecmd_tenant *t = NULL;

	*ret = NULL;
	if (!name)
		return 0;
	if (!path_is_name(name))
		return err_set(e, ERR_INVALID,
			       "'%.80s' is not a name of a tenant; hint: a-z 0-9 _ . -", name);
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_nomem(e);
	if (config_load(&t->config, e) < 0 || tenant_load(&t->tenant, &t->config, name, e) < 0)
		return -1;
	if (!may_tenant_use(&t->tenant, may))
		return err_set(e, ERR_DENIED,
			       "tenant %s may not %s images; hint: [tenant] %s in "
			       "berth.toml",
			       name, may, may);
	t->maker = (struct image_maker) { tenant_view(&t->tenant, &t->config), t->tenant.own_images,
					  t->tenant.own_image_bytes };
	*ret = take_ptr(&t);
	return 0;
}

/* ---- events ---- */

/* An event of an image that is gone has its digest alone. */
static void tell_image(int store_fd, const struct imagecmd_args *a, const char *event, const char *name, const char *digest,
		       const json_t *labels)
{
	autoclose int state_fd = imagecmd_flag(a, IMG_TENANT) || imagecmd_flag(a, IMG_NO_EVENT) || imagecmd_value(a, IMG_STORE) ?
					 -1 : openat(store_fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct journal j = JOURNAL_INIT(state_fd, EVENTS_FILE, EVENTS_BYTES);

	if (state_fd < 0)
		return;
	events_add_to(&j, event, "", json_pack("{s:s*,s:s,s:O*}", "name", name, "image", digest, "labels", labels));
	journal_close(&j);
}

void imagecmd_tell(int store_fd, const struct imagecmd_args *a, const char *event, const char *ref)
{
	struct image im = { 0 };
	struct err ignored;

	if (!imagecmd_flag(a, IMG_TENANT) && image_load(store_fd, ref, &im, &ignored) == 0)
		tell_image(store_fd, a, event, ref, im.digest, im.labels);
	image_release(&im);
}

void imagecmd_tell_all(int store_fd, const struct imagecmd_args *a, const char *event, const json_t *done, int by_digest)
{
	const char *last = "";
	json_t *one;
	size_t i;

	json_array_foreach((json_t *)(size_t)done, i, one) {
		const char *ref = json_string_value(json_object_get(one, by_digest ? "digest" : "name"));

		if (ref && strcmp(ref, last) != 0)
			imagecmd_tell(store_fd, a, event, ref);
		last = ref ? ref : last;
	}
}

void imagecmd_tell_gone(int store_fd, const struct imagecmd_args *a, const char *digest, const json_t *labels, size_t names)
{
	struct image im = { 0 };
	struct err ignored;
	int there;

	for (; names; names--)
		tell_image(store_fd, a, "image-untag", NULL, digest, labels);
	there = image_load(store_fd, digest, &im, &ignored) == 0;
	image_release(&im);
	if (!there)
		tell_image(store_fd, a, "image-delete", NULL, digest, labels);
}
