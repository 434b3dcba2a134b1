/* SPDX-License-Identifier: Apache-2.0 */
/* berth checkpoint export: one file that another host can make a sandbox of (portable.h). */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/files/dest.h"
#include "cli/image/imagechild.h"
#include "cli/image/portable.h"
#include "cli/live/resident.h"
#include "manager/host/copyturn.h"
#include "manager/ops/settleopt.h"
#include "rootfs/store/image.h"

#define TOLD_MAX 4096

enum { OPT_JSON = 1, OPT_OUTPUT, OPT_TENANT };

static const struct opt options[] = {
	{ "output", 'o', OPT_VALUE, "FILE", "a new file, or - for stdout (default: -)", OPT_OUTPUT,
	  COMPLETE_FILE },
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too; not to the stdout of the file",
	  OPT_JSON },
	{ "tenant", 0, OPT_VALUE, "NAME",
	  "for a tenant of berthd: without the options that a tenant may not give", OPT_TENANT },
};

struct export
{
	int json, status; /* of berth-image, which has told its error */
	const char *output;
	const char *tenant; /* or NULL */
	struct sandbox_ref s;
	int dir_fd, layer_fd, out_fd, turn_fd;
	struct layersource source;
	json_t *manifest, *layer;
};

static int set_export_option(void *ctx, int id, const char *value, struct err *e)
{
	struct export *x = ctx;

	(void)e;
	if (id == OPT_OUTPUT)
		x->output = value;
	else if (id == OPT_TENANT)
		x->tenant = value;
	else
		x->json = 1;
	return 0;
}

static int is_export_to_stdout(const struct export *x)
{
	return !strcmp(x->output, "-");
}

static int open_export_output(struct export *x, struct err *e)
{
	x->out_fd = newfile_open(x->output, "a checkpoint", e);
	return x->out_fd < 0 ? -1 : 0;
}

/* One of another is not there for a tenant. */
static int check_export_owner(struct export *x, struct err *e)
{
	struct err ignored;
	autojson json_t *owner = registry_load(&x->s.registry, x->s.id, REGISTRY_OWNER, &ignored);
	const char *name = json_string_value(json_object_get(owner, "name"));

	return name && !strcmp(name, x->tenant) ?
		       0 :
		       err_set(e, ERR_NOT_FOUND, "tenant %.64s has no sandbox %s", x->tenant,
			       x->s.id);
}

static int open_export_source(struct export *x, char *ref, struct err *e)
{
	char *at = strchr(ref, '@');

	if (!at)
		return err_set(e, ERR_USAGE,
			       "which checkpoint is not said; hint: berth checkpoints %.64s lists "
			       "them, and berth checkpoint export %.64s@k1 takes one",
			       ref, ref);
	*at++ = '\0';
	if (sandbox_ref_find(&x->s, ref, e) < 0 || (x->tenant && check_export_owner(x, e) < 0))
		return -1;
	x->dir_fd = registry_kept_dir(&x->s.registry, x->s.id);
	if (x->dir_fd < 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "sandbox %s does not last, and has no checkpoints; hint: "
			       "berth create makes sandboxes that last",
			       x->s.id);
	return layersource_open(x->dir_fd, at, &x->source, e);
}

/* ---- what is in it ----------------------------------------------------------------------- */

static json_t *load_checkpoint(const struct export *x, struct err *e)
{
	struct checkpoints all = CHECKPOINTS_NONE;
	json_t *one;

	if (checkpoints_open(x->dir_fd, 0, &all, e) < 0)
		return NULL;
	one = json_incref(checkpoints_find(&all, x->source.id, e));
	checkpoints_close(&all);
	return one;
}

/* The identities of directories of this host say nothing on another one. */
static json_t *without_sources(json_t *spec)
{
	sources_forget(spec);
	return spec;
}

static int make_manifest(struct export *x, struct err *e)
{
	autojson json_t *spec = registry_load(&x->s.registry, x->s.id, SPEC_FILE, e);
	autojson json_t *told = without_sources(spec) && x->tenant ? portablespec_for_tenant(spec, e) :
							json_incref(spec);
	autojson json_t *one = told ? load_checkpoint(x, e) : NULL;
	struct err why = { 0 };
	struct image image;
	const int pinned = one ? image_load_pin(x->dir_fd, &image, &why) : -1;

	if (!one)
		return -1;
	if (pinned < 0 && why.code != ERR_NOT_FOUND) {
		*e = why;
		return -1;
	}
	x->manifest = json_pack("{s:i,s:O,s:O,s:s?,s:O}", "berth-checkpoint", PORTABLE_FORMAT,
				"checkpoint", one, "image", json_object_get(spec, "image"),
				"image_digest", pinned == 0 ? image.digest : NULL, "spec", told);
	if (pinned == 0)
		image_release(&image);
	return x->manifest ? 0 : err_nomem(e);
}

/* Into a file without a name: its digest comes before it in the output. */
static int pack_layer(struct export *x, struct err *e)
{
	const int fds[] = { x->source.upper_fd, x->dir_fd, x->layer_fd };
	char upper[16], dir[16], base[16], out[16], workdir[4096];
	char *argv[] = { NULL,
			 (char *)"pack-layer",
			 (char *)"--json",
			 (char *)"--",
			 upper,
			 dir,
			 base,
			 workdir,
			 out,
			 NULL };
	autoclose int told = memfd_create("told", MFD_CLOEXEC);
	autobuf struct buf b = BUF_INIT(TOLD_MAX);

	if (told < 0)
		return err_sys(e, "make a file in memory");
	snprintf(upper, sizeof(upper), "%d", x->source.upper_fd);
	snprintf(dir, sizeof(dir), "%d", x->dir_fd);
	snprintf(base, sizeof(base), "%u", x->source.id_base);
	snprintf(out, sizeof(out), "%d", x->layer_fd);
	layersource_workdir(&x->s, workdir, sizeof(workdir));
	if (imagechild_run(&cmd_checkpoint_export, x->json, argv, fds, ARRAY_LEN(fds), told,
			   &x->status, e) < 0)
		return -1;
	if (x->status)
		return err_set(e, ERR_INTERNAL, "the layer could not be packed");
	if (lseek(told, 0, SEEK_SET) < 0 || io_read_all(told, &b, "what berth-image told", e) < 0)
		return -1;
	x->layer = json_parse(b.data ? b.data : "", b.len, TOLD_MAX, "what berth-image told", e);
	return x->layer ? 0 : -1;
}

/* The packed layer is on the disk until it was written out; it is hardly larger than its files. */
static int check_export_room(const struct export *x, struct err *e)
{
	struct statvfs here, layer;
	uint64_t room, used;

	if (fstatvfs(x->s.registry.state_fd, &here) < 0 || fstatvfs(x->source.base_fd, &layer) < 0)
		return err_sys(e, "look for room for the checkpoint's file");
	room = (uint64_t)here.f_bavail * here.f_frsize;
	used = (uint64_t)(layer.f_blocks - layer.f_bfree) * layer.f_frsize;
	if (used <= room)
		return 0;
	err_set(e, ERR_FULL,
		"the checkpoint has %llu bytes of files, and the file system of the state "
		"directory has room for %llu",
		(unsigned long long)used, (unsigned long long)room);
	return err_hint(e, "berth checkpoint rm and berth rm make room, and berth system df tells "
			   "what takes it");
}

static int export_it(struct export *x, char *ref, struct err *e)
{
	uint64_t size;

	if (open_export_source(x, ref, e) < 0 || open_export_output(x, e) < 0 || make_manifest(x, e) < 0)
		return -1;
	/* a tenant's readers may be slow, and then its files stay */
	if ((x->tenant &&
	     copyturn_take_export(&x->s.registry, x->s.id, &x->turn_fd, e) < 0) ||
	    check_export_room(x, e) < 0)
		return -1;
	x->layer_fd = openat(x->s.registry.state_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (x->layer_fd < 0)
		return err_sys(e, "make a file for the layer");
	if (pack_layer(x, e) < 0)
		return -1;
	size = (uint64_t)json_integer_value(json_object_get(x->layer, "size"));
	if (json_object_set_new(x->manifest, "layer",
				json_pack("{s:O,s:I}", "digest",
					  json_object_get(x->layer, "digest"), "size",
					  (json_int_t)size)) < 0)
		return err_nomem(e);
	return portable_write(x->out_fd, x->manifest, x->layer_fd, size, e) < 0 ?
		       -1 :
		       newfile_name(x->out_fd, x->output, e);
}

static int tell_exported(const struct export *x, struct err *e)
{
	const char *digest = json_string_value(json_object_get(x->layer, "digest"));
	autojson json_t *doc = NULL;

	if (is_export_to_stdout(x))
		return 0;
	if (!x->json)
		return puts(digest) < 0 ? err_sys(e, "write") : 0;
	doc = json_pack("{s:s,s:s,s:s,s:O,s:O,s:O}", "id", x->s.id, "checkpoint", x->source.id,
			"file", x->output, "digest", json_object_get(x->layer, "digest"), "bytes",
			json_object_get(x->layer, "size"), "skipped",
			json_object_get(x->layer, "skipped"));
	return doc ? command_print_json(doc, JSON_COMPACT, e) : err_nomem(e);
}

static int berth_checkpoint_export_main(const struct command *self, int argc, char **argv)
{
	struct export x = { .output = "-",
			    .dir_fd = -1,
			    .layer_fd = -1,
			    .out_fd = -1,
			    .turn_fd = -1,
			    .source = LAYERSOURCE_NONE };
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&x.s);
	r = command_options(self, argc, argv, set_export_option, &x, &rest, &help, &e);
	if (r == 0 && !help && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE,
			    "one checkpoint is wanted; hint: berth checkpoint export ID@k1");
	if (r == 0 && !help)
		r = export_it(&x, argv[rest], &e);
	if (r == 0 && !help)
		r = tell_exported(&x, &e);
	newfile_close(&x.out_fd);
	fd_close(&x.layer_fd);
	fd_close(&x.turn_fd);
	layersource_close(&x.source);
	fd_close(&x.dir_fd);
	sandbox_ref_close(&x.s);
	json_decref(x.manifest);
	json_decref(x.layer);
	return r == 0 ? 0 : x.status ? x.status : command_fail(self, &e, x.json);
}

const struct command cmd_checkpoint_export = {
	.name = "checkpoint export",
	.args = "SANDBOX@CHECKPOINT",
	.summary = "write a checkpoint to a file, with the sandbox's options",
	.detail = "berth checkpoint import makes a sandbox of it, here or on another host that has "
		  "the image.\n"
		  "The options are in the file as they are, values of --env too.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = berth_checkpoint_export_main,
};
