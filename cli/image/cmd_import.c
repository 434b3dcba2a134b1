/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth checkpoint import: a sandbox of a checkpoint's file (portable.h), which may come from a
 * stranger.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/image/imagechild.h"
#include "cli/image/portable.h"
#include "cli/live/lifecycle.h"
#include "cli/live/resident.h"
#include "manager/host/journal.h"
#include "manager/host/tenant.h"
#include "manager/ops/runopts.h"
#include "rootfs/store/image.h"
#include "rootfs/store/store.h"
#include "rootfs/transfer/layerbound.h"
#include "runtime/sandbox/writable.h"

enum { OPT_JSON = 1, OPT_NAME, OPT_TRUST, OPT_DROP, OPT_NO_START, OPT_TENANT };

static const struct opt options[] = {
	{ "name", 0, OPT_VALUE, "NAME", "the sandbox's name", OPT_NAME },
	{ "trust", 0, OPT_FLAG, NULL, "take all options, also those that reach this host",
	  OPT_TRUST },
	{ "drop", 0, OPT_FLAG, NULL, "leave out the options that reach this host", OPT_DROP },
	{ "no-start", 0, OPT_FLAG, NULL, "make it, and do not start it", OPT_NO_START },
	{ "tenant", 0, OPT_VALUE, "NAME",
	  "make it a tenant's of berthd: [tenant] holds, and the tenant sees it", OPT_TENANT },
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON },
};

struct import {
	int json, no_start;
	int status; /* of berth-image, which has told its error */
	const char *name;
	struct portablespec_rules rules;
	json_t *dropped; /* names of options */
	struct config config;
	struct registry registry;
	int in_fd;
	json_t *manifest, *spec;
};

static int set_import_option(void *ctx, int id, const char *value, struct err *e)
{
	struct import *x = ctx;

	if (id == OPT_NAME)
		x->name = value;
	else if (id == OPT_TENANT)
		x->rules.tenant = value;
	else
		*(id == OPT_JSON     ? &x->json :
		  id == OPT_TRUST    ? &x->rules.trust :
		  id == OPT_NO_START ? &x->no_start :
				       &x->rules.drop) = 1;
	if (id != OPT_TENANT || path_is_name(value))
		return 0;
	err_set(e, ERR_INVALID, "'%.80s' is not a tenant's name", value);
	return err_hint(e, "a-z 0-9 _ . -");
}

static int open_import_file(struct import *x, const char *file, struct err *e)
{
	if (!strcmp(file, "-"))
		x->in_fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		x->in_fd = open(file, O_RDONLY | O_CLOEXEC);
	return x->in_fd < 0 ? err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS,
					   "open %.200s", file) :
			      0;
}

/* ---- its image ------------------------------------------------------------------------- */

/* The record that ref is for who imports it, if it has that digest. */
static json_t *seen(int store, const struct image_view *v, const char *ref, const char *digest)
{
	struct err ignored;
	json_t *one = v ? image_record_seen(store, v, ref, &ignored) :
			  image_record(store, ref, &ignored);
	const char *is = json_string_value(json_object_get(one, "digest"));

	if (is && !strcmp(is, digest))
		return one;
	json_decref(one);
	return NULL;
}

/* By its name, if that is the very one, else by its digest. */
static int find_image(struct import *x, const char *ref, const char *digest, struct err *e)
{
	char path[sizeof(x->config.state_dir) + 8];
	autojson json_t *one = NULL;
	autoclose int store = -1;
	struct image_view v;
	struct tenant t;
	json_t *name;

	snprintf(path, sizeof(path), "%s/store", x->config.state_dir);
	store = store_open(path, e);
	if (store < 0 || (x->rules.tenant && tenant_load(&t, &x->config, x->rules.tenant, e) < 0))
		return -1;
	v = tenant_view(&t, &x->config);
	one = seen(store, x->rules.tenant ? &v : NULL, ref, digest);
	if (one)
		return 0;
	one = seen(store, x->rules.tenant ? &v : NULL, digest, digest);
	if (!one)
		return err_set(e, ERR_NOT_FOUND,
			       "the checkpoint is of the image %.120s with the digest %.80s, which "
			       "this host does not have; hint: berth pull, or berth image import",
			       ref, digest);
	/* others may have images of that digest, too */
	name = x->rules.tenant ? json_incref(json_object_get(one, "name")) : json_string(digest);
	return json_object_set_new(x->spec, "image", name) < 0 ? err_nomem(e) : 0;
}

static int check_image(struct import *x, struct err *e)
{
	const char *ref = json_string_value(json_object_get(x->manifest, "image"));
	const char *digest = json_string_value(json_object_get(x->manifest, "image_digest"));

	if (digest)
		return find_image(x, ref, digest, e);
	if (!strcmp(ref, "host") || (x->rules.trust && !x->rules.tenant))
		return 0;
	if (x->rules.tenant)
		return err_set(e, ERR_DENIED,
			       "the checkpoint is of a directory of a host, which a tenant may not "
			       "have");
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

/* No sandbox could start whose file system is mounted on something else than a directory. */
static int check_places(int mnt, struct err *e)
{
	static const char *const places[] = { "upper/dev", "upper/proc", "upper/sys" };
	struct stat st;
	size_t i;

	for (i = 0; i < ARRAY_LEN(places); i++)
		if (fstatat(mnt, places[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode))
			return err_set(e, ERR_CORRUPT,
				       "/%s of the checkpoint is not a directory, so that no "
				       "sandbox could start with it",
				       places[i] + sizeof("upper"));
	return 0;
}

static int unpack_imported_layer(struct import *x, int mnt, uint64_t max, struct err *e)
{
	const json_t *layer = json_object_get(x->manifest, "layer");
	const int fds[] = { x->in_fd, mnt };
	char in[16], digest[160], size[24], most[24], to[16];
	char *argv[] = { NULL, (char *)"unpack-layer", (char *)"--json", (char *)"--", in, digest,
			 size, most, to, NULL };

	if (!x->json) {
		argv[2] = argv[3];
		memmove(argv + 3, argv + 4, sizeof(*argv) * 6);
	}
	snprintf(in, sizeof(in), "%d", x->in_fd);
	snprintf(digest, sizeof(digest), "%s", json_string_value(json_object_get(layer, "digest")));
	snprintf(size, sizeof(size), "%llu", (unsigned long long)layer_size(x));
	snprintf(most, sizeof(most), "%llu", (unsigned long long)max);
	snprintf(to, sizeof(to), "%d", mnt);
	if ((mkdirat(mnt, "upper", 0755) < 0) || mkdirat(mnt, "work", 0700) < 0)
		return err_sys(e, "make the writable layer's directories");
	if (imagechild_run(&cmd_checkpoint_import, x->json, argv, fds, ARRAY_LEN(fds), -1,
			   &x->status, e) < 0)
		return -1;
	if (x->status)
		return err_set(e, ERR_INTERNAL, "the layer could not be unpacked");
	return portable_read_end(x->in_fd, layer_size(x), e) < 0 ? -1 : check_places(mnt, e);
}

/* Bounded by the layer's file system, as all that the sandbox writes. */
static int make_imported_layer(struct import *x, const struct claim *c, struct spec *s, int box,
			       struct err *e)
{
	const uint64_t max = layerbound_unpacked(s->disk_bytes);
	autoclose int mnt = -1;
	mode_t old;
	int result;

	if (layer_size(x) > layerbound_packed(max))
		return err_set(e, ERR_LIMIT,
			       "the layer has %llu bytes, which its sandbox cannot hold",
			       (unsigned long long)layer_size(x));
	s->id_base = c->id_base;
	snprintf(s->id, sizeof(s->id), "%s", c->id);
	old = umask(0);
	mnt = writable_lasting(s, box, x->registry.state_fd, e);
	result = mnt < 0 ? -1 : unpack_imported_layer(x, mnt, max, e);
	umask(old);
	return result;
}

static int fill_imported_sandbox(void *ctx, const struct claim *c, struct err *e)
{
	struct import *x = ctx;
	autoclose int box = registry_keep_dir(&x->registry, c->id, e);
	struct runopts opts;
	int result = -1;

	runopts_init(&opts, &x->config);
	if (box >= 0 && resident_apply(&opts, x->spec, e) == 0)
		result = make_imported_layer(x, c, &opts.spec, box, e);
	runopts_release(&opts);
	/* its files have the ids of the file; they get those of the sandbox */
	return result < 0 ? -1 : writable_shift(box, 0, c->id_base, e);
}

static void tell_dropped(const struct import *x)
{
	const json_t *one;
	size_t i;

	json_array_foreach (x->dropped, i, one)
		log_note("berth checkpoint import", "--%.64s of the file is left out",
			 json_string_value(one));
}

static int tell_imported(const struct import *x, const char *id, struct err *e)
{
	autojson json_t *doc = NULL;

	if (!x->json) {
		tell_dropped(x);
		return puts(id) < 0 || fflush(stdout) ? err_sys(e, "write to stdout") : 0;
	}
	doc = json_pack("{s:s,s:s,s:O}", "id", id, "name", x->name, "dropped", x->dropped);
	return doc ? command_print_json(doc, JSON_COMPACT, e) : err_nomem(e);
}

static int import_it(struct import *x, const char *file, struct err *e)
{
	struct resident_whose whose = {
		.name = x->name, .tenant = x->rules.tenant ? x->rules.tenant : "",
		.no_start = x->no_start, .fill = fill_imported_sandbox, .ctx = x
	};
	struct err ignored;
	char id[65];

	if (x->rules.trust && x->rules.drop)
		return err_set(e, ERR_USAGE,
			       "--trust and --drop exclude each other; hint: one of "
			       "them");
	if (open_import_file(x, file, e) < 0)
		return -1;
	x->manifest = portable_read(x->in_fd, e);
	x->spec = x->manifest ? portablespec_take(x->manifest, &x->rules, x->dropped, e) : NULL;
	if (!x->spec || config_load(&x->config, e) < 0 ||
	    registry_open(&x->registry, &x->config, e) < 0 || check_image(x, e) < 0 ||
	    resident_create(&x->registry, &whose, x->spec, id, e) < 0)
		return -1;
	events_add(&x->registry, "checkpoint-import", id,
		   json_pack("{s:O*}", "layer", json_object_get(x->manifest, "layer")));
	/* nobody would ever learn its id */
	signal(SIGPIPE, SIG_IGN);
	if (tell_imported(x, id, e) == 0)
		return 0;
	lifecycle_remove(&x->registry, id, 1, &ignored);
	return -1;
}

static int berth_checkpoint_import_main(const struct command *self, int argc, char **argv)
{
	struct import x = {
		.name = "", .registry = REGISTRY_INIT, .in_fd = -1, .dropped = json_array()
	};
	struct err e = { 0 };
	int rest, help = 0, r;

	r = command_options(self, argc, argv, set_import_option, &x, &rest, &help, &e);
	if (r == 0 && !help && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE,
			    "one file is wanted, or - for stdin; hint: berth checkpoint import "
			    "FILE");
	if (r == 0 && !help)
		r = import_it(&x, argv[rest], &e);
	registry_close(&x.registry);
	fd_close(&x.in_fd);
	json_decref(x.manifest);
	json_decref(x.spec);
	json_decref(x.dropped);
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
	.run = berth_checkpoint_import_main,
};
