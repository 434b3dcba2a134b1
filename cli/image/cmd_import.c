/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth checkpoint import: a sandbox of a checkpoint's file (portable.h), which may come from a
 * stranger.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/image/imagechild.h"
#include "cli/image/portable.h"
#include "cli/live/resident.h"
#include "cli/run/runopts.h"
#include "manager/host/events.h"
#include "rootfs/store/image.h"
#include "rootfs/store/store.h"
#include "runtime/sandbox/writable.h"

enum { OPT_JSON = 1, OPT_NAME, OPT_TRUST, OPT_DROP, OPT_NO_START };

static const struct opt options[] = {
	{ "name", 0, OPT_VALUE, "NAME", "the sandbox's name", OPT_NAME },
	{ "trust", 0, OPT_FLAG, NULL, "take all options, also those that reach this host",
	  OPT_TRUST },
	{ "drop", 0, OPT_FLAG, NULL, "leave out the options that reach this host", OPT_DROP },
	{ "no-start", 0, OPT_FLAG, NULL, "make it, and do not start it", OPT_NO_START },
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON },
};

struct import {
	int json, trust, drop, no_start;
	int status; /* of berth-image, which has told its error */
	const char *name;
	struct config config;
	struct registry registry;
	int in_fd;
	json_t *manifest, *spec;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	struct import *x = ctx;

	(void)e;
	if (id == OPT_NAME)
		x->name = value;
	else
		*(id == OPT_JSON     ? &x->json :
		  id == OPT_TRUST    ? &x->trust :
		  id == OPT_NO_START ? &x->no_start :
				       &x->drop) = 1;
	return 0;
}

static int open_input(struct import *x, const char *file, struct err *e)
{
	if (!strcmp(file, "-"))
		x->in_fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		x->in_fd = open(file, O_RDONLY | O_CLOEXEC);
	return x->in_fd < 0 ? err_sys(e, "open %.200s", file) : 0;
}

/* ---- its image ------------------------------------------------------------------------- */

/* By its name, if that is the very one, else by its digest. */
static int find_image(struct import *x, const char *ref, const char *digest, struct err *e)
{
	char path[sizeof(x->config.state_dir) + 8];
	autoclose int store = -1;
	struct image image;
	int same = 0;

	snprintf(path, sizeof(path), "%s/store", x->config.state_dir);
	store = store_open(path, e);
	if (store < 0)
		return -1;
	if (image_load(store, ref, &image, e) == 0) {
		same = !strcmp(image.digest, digest);
		image_release(&image);
	}
	if (same)
		return 0;
	if (image_load(store, digest, &image, e) < 0)
		return err_set(e, ERR_NOT_FOUND,
			       "the checkpoint is of the image %.120s with the digest %.80s, which "
			       "this host does not have; hint: berth pull, or berth image import",
			       ref, digest);
	image_release(&image);
	return json_object_set_new(x->spec, "image", json_string(digest)) < 0 ? err_nomem(e) : 0;
}

static int check_image(struct import *x, struct err *e)
{
	const char *ref = json_string_value(json_object_get(x->manifest, "image"));
	const char *digest = json_string_value(json_object_get(x->manifest, "image_digest"));

	if (digest)
		return find_image(x, ref, digest, e);
	if (!strcmp(ref, "host") || x->trust)
		return 0;
	return err_set(e, ERR_DENIED,
		       "the checkpoint is of a directory of a host, %.120s; hint: --trust takes "
		       "that of this host",
		       ref);
}

/* ---- its files -------------------------------------------------------------------------- */

static uint64_t layer_size(const struct import *x)
{
	const json_t *layer = json_object_get(x->manifest, "layer");

	return (uint64_t)json_integer_value(json_object_get(layer, "size"));
}

static int unpack(struct import *x, int mnt, struct err *e)
{
	const json_t *layer = json_object_get(x->manifest, "layer");
	const int fds[] = { x->in_fd, mnt };
	char in[16], digest[160], size[24], to[16];
	char *argv[] = {
		NULL, (char *)"unpack-layer", (char *)"--json", (char *)"--", in, digest, size, to,
		NULL
	};

	if (!x->json) {
		argv[2] = argv[3];
		memmove(argv + 3, argv + 4, sizeof(*argv) * 5);
	}
	snprintf(in, sizeof(in), "%d", x->in_fd);
	snprintf(digest, sizeof(digest), "%s", json_string_value(json_object_get(layer, "digest")));
	snprintf(size, sizeof(size), "%llu", (unsigned long long)layer_size(x));
	snprintf(to, sizeof(to), "%d", mnt);
	if ((mkdirat(mnt, "upper", 0755) < 0) || mkdirat(mnt, "work", 0700) < 0)
		return err_sys(e, "make the writable layer's directories");
	if (imagechild_run(&cmd_checkpoint_import, x->json, argv, fds, ARRAY_LEN(fds), -1,
			   &x->status, e) < 0)
		return -1;
	if (x->status)
		return err_set(e, ERR_INTERNAL, "the layer could not be unpacked");
	return portable_read_end(x->in_fd, layer_size(x), e);
}

/* Bounded by the layer's file system, as all that the sandbox writes. */
static int make_layer(struct import *x, const struct claim *c, struct spec *s, int box,
		      struct err *e)
{
	autoclose int mnt = -1;
	mode_t old = umask(0);
	int result;

	s->id_base = c->id_base;
	snprintf(s->id, sizeof(s->id), "%s", c->id);
	mnt = writable_lasting(s, box, x->registry.state_fd, e);
	result = mnt < 0 ? -1 : unpack(x, mnt, e);
	umask(old);
	return result;
}

static int fill(void *ctx, const struct claim *c, struct err *e)
{
	struct import *x = ctx;
	autoclose int box = registry_keep_dir(&x->registry, c->id, e);
	struct resident_life life = RESIDENT_LIFE_UNSAID;
	struct runopts opts;
	int result = -1;

	runopts_init(&opts, &x->config);
	if (box >= 0 && resident_apply(&opts, &life, x->spec, e) == 0)
		result = make_layer(x, c, &opts.spec, box, e);
	runopts_release(&opts);
	resident_life_release(&life);
	/* its files have the ids of the file; they get those of the sandbox */
	return result < 0 ? -1 : writable_shift(box, 0, c->id_base, e);
}

static int import_it(struct import *x, const char *file, struct err *e)
{
	struct resident_whose whose = {
		.name = x->name, .tenant = "", .no_start = x->no_start, .fill = fill, .ctx = x
	};
	autojson json_t *doc = NULL;
	char id[65];

	if (x->trust && x->drop)
		return err_set(e, ERR_USAGE,
			       "--trust and --drop exclude each other; hint: one of "
			       "them");
	if (open_input(x, file, e) < 0)
		return -1;
	x->manifest = portable_read(x->in_fd, e);
	x->spec = x->manifest ? portable_spec(x->manifest, x->trust, x->drop, e) : NULL;
	if (!x->spec || config_load(&x->config, e) < 0 ||
	    registry_open(&x->registry, &x->config, e) < 0 || check_image(x, e) < 0 ||
	    resident_create(&x->registry, &whose, x->spec, id, e) < 0)
		return -1;
	events_add(&x->registry, "checkpoint-import", id,
		   json_pack("{s:O*}", "layer", json_object_get(x->manifest, "layer")));
	if (!x->json)
		return puts(id) < 0 ? err_sys(e, "write") : 0;
	doc = json_pack("{s:s,s:s}", "id", id, "name", x->name);
	return doc ? command_print_json(doc, JSON_COMPACT, e) : err_nomem(e);
}

static int run(const struct command *self, int argc, char **argv)
{
	struct import x = { .name = "", .registry = REGISTRY_INIT, .in_fd = -1 };
	struct err e = { 0 };
	int rest, help = 0, r;

	r = command_options(self, argc, argv, set_option, &x, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE,
			    "one file is wanted, or - for stdin; hint: berth checkpoint import "
			    "FILE");
	if (r == 0)
		r = import_it(&x, argv[rest], &e);
	registry_close(&x.registry);
	fd_close(&x.in_fd);
	json_decref(x.manifest);
	json_decref(x.spec);
	return r == 0 ? 0 : x.status ? x.status : command_fail(self, &e, x.json);
}

const struct command cmd_checkpoint_import = {
	.name = "checkpoint import",
	.args = "FILE",
	.summary = "make a sandbox of a file of berth checkpoint export",
	.detail =
		"The file may come from a stranger: it holds files, which are unpacked as a layer "
		"of an image is,\n"
		"and options, of which those that reach this host are refused.  - is stdin.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_FILE,
	.run = run,
};
