/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth fork: new sandboxes that begin with the files of a checkpoint.
 *
 * A fork is made as berth create makes a sandbox, with the options of the first one, and an id, an
 * address and a range of ids of its own; only its layer is a copy, whose mount shows the ids of
 * the fork (writable.c), and its image is the very one of the first.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/encoding.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/commands.h"
#include "cli/live/lifecycle.h"
#include "cli/live/resident.h"
#include "cli/time/layerbox.h"
#include "manager/host/copyturn.h"
#include "manager/host/journal.h"
#include "manager/host/labels.h"
#include "manager/host/layerpool.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"
#include "manager/host/tenant.h"
#include "manager/host/volume.h"
#include "manager/keeper/protocol.h"
#include "manager/ops/params.h"
#include "manager/ops/settleopt.h"
#include "rootfs/store/image.h"
#include "runtime/kernel/fileclone.h"
#include "runtime/sandbox/layerhome.h"
#include "runtime/sandbox/writable.h"

/* ---- the options of a fork ---- */

/*
 * What a fork is made with: the options of the first sandbox, and those that the
 * command line of berth fork puts in their place.  Pure, but for the environment of --env NAME.
 */

/* A path of the caller's directory would mean another one at the next start. */
static int check_volume(const char *value, struct err *e)
{
	const size_t n = strcspn(value, ":");

	return value[0] == '/' || !memchr(value, '/', n) ?
		       0 :
		       err_set(e, ERR_INVALID,
			       "volume '%.80s': neither a name nor an absolute path; "
			       "hint: berth volume create NAME",
			       value);
}

/* Adds an option of PARAM_OF_FORK to more, an array of [NAME, VALUE]. */
static int forkspec_add(json_t *more, int id, const char *value, struct err *e)
{
	autofree char *settled = NULL;

	if (id == PARAM_LABEL && labels_refuse_own(value, e) < 0)
		return -1;
	if ((id == PARAM_VOLUME && check_volume(value, e) < 0) || (value && settleopt(id, value, &settled, e) < 0))
		return -1;
	return params_keep(more, param_of(id)->opt.name, settled ? settled : value, e);
}

static const char *fork_option_name(const json_t *pair)
{
	const char *s = json_string_value(json_array_get(pair, 0));

	return s ? s : "";
}

/* A fork of what berthd's manager keeps is not the manager's, and nobody asked for it with the key of the first. */
static int marks_the_first(const json_t *pair)
{
	const char *value = json_string_value(json_array_get(pair, 1));

	return (!strcmp(fork_option_name(pair), "mark") || !strcmp(fork_option_name(pair), "label")) && value &&
	       (!strncmp(value, LABEL_MANAGED "=", sizeof(LABEL_MANAGED)) || label_is_request(value));
}

/* Two sandboxes cannot have one address, so a fork has a free one. */
static int is_address_of_first(const json_t *pair)
{
	return !strcmp(fork_option_name(pair), "ip");
}

/* A list of the fork comes beside the first one's; a rule takes the place of all rules, a network of all that goes with it. */
static int is_replaced_in_fork(const json_t *pair, const json_t *more)
{
	const struct param *own = param_named(fork_option_name(pair)), *now;
	json_t *one;
	size_t i;

	json_array_foreach (more, i, one) {
		now = param_named(fork_option_name(one));
		if (!own || !now)
			continue;
		if (now->group == PARAM_G_RULE ? own->group == PARAM_G_RULE :
		    now->group == PARAM_G_NETWORK ?
			    own->group >= PARAM_G_RULE && own->group <= PARAM_G_OF_NETWORK :
			    own == now && now->opt.kind != OPT_LIST)
			return 1;
	}
	return 0;
}

/*
 * The spec.json of a fork: a new object, or NULL with e.  Labels, variables and volumes of more
 * come after those of spec; an option of one value replaces spec's; a rule of the network replaces
 * all of spec's rules, and --network its ports, too.
 */
static json_t *forkspec_of(const json_t *spec, const json_t *more, struct err *e)
{
	json_t *fork = json_deep_copy(spec), *options = json_array(), *pair;
	size_t i;

	json_array_foreach (json_object_get(fork, "options"), i, pair)
		if (!is_replaced_in_fork(pair, more) && !marks_the_first(pair) && !is_address_of_first(pair))
			json_array_append(options, pair);
	if (!fork || !options || json_array_extend(options, (json_t *)(size_t)more) < 0 ||
	    json_object_set_new(fork, "options", options) < 0) {
		json_decref(fork);
		err_nomem(e);
		return NULL;
	}
	return fork;
}

/* ---- clones of its volumes ---- */

/* Clones of the named volumes that a sandbox has, for its fork. */

#define SUFFIX 8

/* 1 with the name, 0: it names no volume. */
static int volume_of(const json_t *pair, char name[VOLUME_NAME_MAX + 1])
{
	const char *option = json_string_value(json_array_get(pair, 0));
	const char *value = json_string_value(json_array_get(pair, 1));

	return option && value && volume_of_option(option, value, name);
}

/* Whether an option of a spec.json, [NAME, VALUE], names a volume. */
static int volumecopy_copies(const json_t *pair)
{
	char name[VOLUME_NAME_MAX + 1];

	return volume_of(pair, name);
}

static int new_name(const char *name, char out[VOLUME_NAME_MAX + 1], struct err *e)
{
	unsigned char raw[SUFFIX / 2];
	char hex[SUFFIX + 1];

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_sys(e, "draw a random name");
	hex_format(hex, raw, sizeof(raw));
	snprintf(out, VOLUME_NAME_MAX + 1, "%.*s-%s", VOLUME_NAME_MAX - SUFFIX - 1, name, hex);
	return 0;
}

static int clone_one(struct registry *r, const char *name, const char *tenant, json_t *made,
		     struct err *e)
{
	char copy[VOLUME_NAME_MAX + 1];
	struct tenant t = { 0 };

	if (json_object_get(made, name)) /* mounted twice */
		return 0;
	if (tenant[0] && tenant_load(&t, r->config, tenant, e) < 0)
		return -1;
	if (new_name(name, copy, e) < 0 || volume_clone(r, name, copy, tenant, t.volumes, e) < 0)
		return err_wrap(e, "copy volume %s", name);
	return json_object_set_new(made, name, json_string(copy)) < 0 ? err_nomem(e) : 0;
}

/* The source in the value: it begins one of --volume, and follows src= or source= in --mount. */
static const char *source_in(const char *option, const char *value, const char *name)
{
	static const char *const keys[] = { "src=", "source=" };
	const size_t n = strlen(name);
	const char *at;
	size_t i;

	if (!strcmp(option, "volume"))
		return value;
	for (at = value; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		for (i = 0; i < ARRAY_LEN(keys); i++) {
			const size_t k = strlen(keys[i]);

			if (!strncmp(at, keys[i], k) && !strncmp(at + k, name, n) &&
			    (!at[k + n] || at[k + n] == ','))
				return at + k;
		}
	return NULL;
}

static int rename_one(json_t *pair, const char *name, const char *copy, struct err *e)
{
	const char *option = json_string_value(json_array_get(pair, 0));
	const char *value = json_string_value(json_array_get(pair, 1));
	const char *at = source_in(option, value, name);
	autofree char *text = NULL;
	size_t n;

	if (!at)
		return err_set(e, ERR_INTERNAL, "no volume %s in '%.100s'", name, value);
	n = strlen(value) + VOLUME_NAME_MAX + 1;
	text = malloc(n);
	if (!text)
		return err_nomem(e);
	snprintf(text, n, "%.*s%s%s", (int)(at - value), value, copy, at + strlen(name));
	return json_array_set_new(pair, 1, json_string(text)) < 0 ? err_nomem(e) : 0;
}

/* Removes the clones; what cannot be removed stays. */
static void volumecopy_remove(struct registry *r, const json_t *made, const char *tenant)
{
	char key[VOLUME_KEY_MAX];
	struct err ignored;
	const char *name;
	json_t *copy;

	json_object_foreach ((json_t *)(size_t)made, name, copy)
		if (volume_key(json_string_value(copy), tenant, key, &ignored) == 0)
			volume_remove(r, key, &ignored);
}

/*
 * Clones each named volume of spec, and names the clones in it instead.  made, an object, gets
 * {NAME: NEW NAME}.  After a failure there is none.  ERR_LIMIT at the bounds on volumes.
 */
static int volumecopy_make(struct registry *r, json_t *spec, const char *tenant, json_t *made,
			   struct err *e)
{
	json_t *options = json_object_get(spec, "options"), *pair;
	char name[VOLUME_NAME_MAX + 1];
	size_t i;
	int result = 0;

	json_array_foreach (options, i, pair) {
		if (!volume_of(pair, name))
			continue;
		result = clone_one(r, name, tenant, made, e);
		if (result == 0)
			result = rename_one(pair, name,
					    json_string_value(json_object_get(made, name)), e);
		if (result < 0)
			break;
	}
	if (result < 0)
		volumecopy_remove(r, made, tenant);
	return result;
}

/* ---- berth fork ---- */

#define COUNT_MAX 1000
#define IMAGE_MAX (4u << 20)

enum { OPT_JSON = PARAM_END, OPT_COUNT, OPT_NAME };

static const struct opt options[] = {
	{ "count", 0, OPT_VALUE, "N", "how many to make (default: 1)", OPT_COUNT },
	{ "name", 0, OPT_VALUE, "NAME", "its name; of several NAME-1, NAME-2 and so on", OPT_NAME },
	{ "json", 0, OPT_FLAG, NULL, "print JSON, errors too", OPT_JSON },
};

struct fork {
	int json, no_start, volume_copy;
	uint64_t count;
	const char *name;
	struct layerbox b; /* what is forked */
	char from[CHECKPOINT_ID];
	int ours; /* it was made for the forks, and goes when they are there */
	int asked; /* the keeper makes it meanwhile */
	int last; /* of the forks: it takes the file of such a one */
	char tenant[65];
	uint32_t disk_ids; /* of the files of its layer */
	json_t *more; /* options that take the place of the first one's */
	json_t *spec;
	json_t *made;
};

static int set_fork_option(void *ctx, int id, const char *value, struct err *e)
{
	struct fork *f = ctx;

	if (id == OPT_JSON)
		f->json = 1;
	else if (id == PARAM_NO_START)
		f->no_start = 1;
	else if (id == PARAM_VOLUME_COPY)
		f->volume_copy = 1;
	else if (id == OPT_NAME)
		f->name = value;
	else if (id != OPT_COUNT)
		return forkspec_add(f->more, id, value, e);
	else
		return num_u64(value, "count", 1, COUNT_MAX, &f->count, e);
	return 0;
}

/* ---- what is forked -------------------------------------------------------------- */

static int is_never_started(struct fork *f)
{
	struct err ignored;
	autojson json_t *record =
		record_load_kept(&f->b.s.registry, f->b.s.id, &ignored);

	return record && record_status(record) == RECORD_CREATED;
}

/* One that was never started still has the files of the last checkpoint, which is its id then. */
static int is_unchanged(struct fork *f, char ret_id[CHECKPOINT_ID])
{
	struct checkpoints all = CHECKPOINTS_NONE;
	struct err ignored;
	const char *head;

	if (!is_never_started(f) || checkpoints_open(f->b.dir_fd, 0, &all, &ignored) < 0)
		return 0;
	head = checkpoints_head(&all);
	if (head)
		snprintf(ret_id, CHECKPOINT_ID, "%s", head);
	checkpoints_close(&all);
	return head != NULL;
}

/* Of one that was never started, which serves all forks: it stays. */
static int of_never_started(struct fork *f, struct err *e)
{
	int result = 0;

	if (is_unchanged(f, f->from))
		return 0;
	if (layerbox_claim(&f->b, e) < 0)
		return -1;
	if (!is_unchanged(f, f->from)) /* while we waited */
		result = layerbox_checkpoint(&f->b, "", json_object(), 0, f->from, e);
	layerbox_release(&f->b);
	return result;
}

static int checkpoint_of_now(struct fork *f, struct err *e)
{
	if (f->b.s.kept && is_never_started(f))
		return of_never_started(f, e);
	f->ours = 1;
	if (f->b.s.kept)
		return layerbox_now(&f->b, f->from, e);
	if (layerbox_now_ask(&f->b, e) < 0)
		return -1;
	f->asked = 1;
	return 0;
}

/* What was asked for.  We hold no turn to copy (copyturn.h): the keeper may wait for its own. */
static int take_checkpoint(struct fork *f, struct err *e)
{
	const int asked = f->asked;

	f->asked = 0;
	return asked ? layerbox_now_take(&f->b, f->from, e) : 0;
}

static int choose_fork_source(struct fork *f, const char *word, struct err *e)
{
	struct checkpoints all = CHECKPOINTS_NONE;
	const json_t *one;

	if (!word && checkpoint_of_now(f, e) < 0)
		return -1;
	if (f->asked)
		return 0;
	if (checkpoints_open(f->b.dir_fd, 0, &all, e) < 0)
		return -1;
	one = checkpoints_find(&all, word ? word : f->from, e);
	if (one)
		snprintf(f->from, sizeof(f->from), "%s",
			 json_string_value(json_object_get(one, "id")));
	checkpoints_close(&all);
	return one ? 0 : -1;
}

/* Those of the files on disk. */
static int read_fork_ids(struct fork *f, struct err *e)
{
	autobuf struct buf range = BUF_INIT(32);
	uint32_t shown;
	uint64_t base;
	int mapped = writable_ids(f->b.dir_fd, &f->disk_ids, &shown, e);

	if (mapped)
		return mapped < 0 ? -1 : 0;
	if (io_read_file(f->b.dir_fd, "range", &range, e) < 0 || buf_add(&range, "", 1, e) < 0 ||
	    num_u64(range.data, "range", SPEC_IDS, UINT32_MAX, &base, e) < 0)
		return err_wrap(e, "sandbox %s", f->b.s.id);
	f->disk_ids = (uint32_t)base;
	return 0;
}

/* What it was made with, and its owner. */
static int read_source(struct fork *f, struct err *e)
{
	autojson json_t *owner = NULL, *spec = NULL;
	struct err ignored;
	const char *name;

	spec = registry_load(&f->b.s.registry, f->b.s.id, SPEC_FILE, e);
	f->spec = spec ? forkspec_of(spec, f->more, e) : NULL;
	if (!f->spec || sources_note(f->spec, e) < 0)
		return -1;
	owner = registry_load(&f->b.s.registry, f->b.s.id, REGISTRY_OWNER, &ignored);
	name = json_string_value(json_object_get(owner, "name"));
	snprintf(f->tenant, sizeof(f->tenant), "%s", name ? name : "");
	return 0;
}

/* ---- a fork ------------------------------------------------------------------------ */

static int copy_fork_image(int source, int box, struct err *e)
{
	autobuf struct buf b = BUF_INIT(IMAGE_MAX);
	struct err why = { 0 };

	if (io_read_file(source, IMAGE_PIN, &b, &why) == 0)
		return io_replace_file(box, IMAGE_PIN, b.data ? b.data : "", b.len, 0600,
				       IO_DURABLE_DATA, e);
	if (why.code == ERR_NOT_FOUND)
		return 0; /* of the host, or a directory */
	*e = why;
	return -1;
}

/* Beside that of its source where they can share their blocks there, else where any new one is. */
static int copy_fork_layer(const struct fork *f, const struct checkpoints *all, int source, int box,
			   const char *id, struct err *e)
{
	const int stays = !layerhome_is_pool(source) && fileclone_shares(all->data_fd, e) > 0;
	autoclose int home = -1;

	if (!stays && layerhome_choose(box, id, e) < 0)
		return -1;
	home = layerhome_is_pool(source) ? layerhome_open_beside(box, all->home_fd, e) :
					   layerhome_open(box, e);
	if (home < 0)
		return -1;
	return f->ours && f->last ? checkpoint_give(all, f->from, home, WRITABLE_FILE, e) :
				    checkpoint_copy(all, f->from, home, WRITABLE_FILE, e);
}

static int fill_fork(void *ctx, const struct claim *c, struct err *e)
{
	struct fork *f = ctx;
	struct registry *r = &f->b.s.registry;
	struct checkpoints all = CHECKPOINTS_NONE;
	autoclose int box = registry_keep_dir(r, c->id, e);
	/* opened here and closed again: the keeper, which is forked next, would hold the lock */
	autoclose int source = box < 0 ? -1 : registry_keep_dir(r, f->b.s.id, e);
	autoclose int turn = -1;
	int result = -1;

	if (source < 0 || copy_fork_image(source, box, e) < 0 ||
	    writable_set_ids(box, f->disk_ids, c->id_base, 1, e) < 0 ||
	    (layerhome_is_pool(source) && layerhome_choose(box, c->id, e) < 0) ||
	    take_checkpoint(f, e) < 0 || copyturn_take(r, f->b.s.id, &turn, e) < 0 ||
	    checkpoints_open(source, 0, &all, e) < 0)
		return -1;
	if (checkpoints_find(&all, f->from, e))
		result = copy_fork_layer(f, &all, source, box, c->id, e);
	checkpoints_close(&all);
	return result;
}

static int make_one_fork(struct fork *f, unsigned n, struct err *e)
{
	struct registry *r = &f->b.s.registry;
	autojson json_t *spec = json_deep_copy(f->spec), *volumes = json_object();
	char name[80] = "", id[65];
	struct resident_whose whose = { .name = name, .tenant = f->tenant, .fork_of = f->b.s.id,
				       .no_start = f->no_start, .fill = fill_fork, .ctx = f };

	if (!spec || !volumes)
		return err_nomem(e);
	if (f->volume_copy && volumecopy_make(r, spec, f->tenant, volumes, e) < 0)
		return -1;
	f->last = n == f->count;
	if (f->name)
		snprintf(name, sizeof(name), f->count > 1 ? "%.64s-%u" : "%.64s", f->name, n);
	if (resident_create(r, &whose, spec, id, e) < 0) {
		volumecopy_remove(r, volumes, f->tenant);
		return -1;
	}
	events_add(r, "fork", id, json_pack("{s:s,s:s}", "from", f->b.s.id, "checkpoint", f->from));
	return json_array_append_new(f->made, json_pack("{s:s,s:s,s:O}", "id", id, "name", name,
							"volumes", volumes)) < 0 ?
		       err_nomem(e) :
		       0;
}

/* All of them, or none. */
static int make_each(struct fork *f, struct err *e)
{
	struct err ignored;
	json_t *one;
	unsigned n;
	size_t i;

	for (n = 1; n <= f->count; n++)
		if (make_one_fork(f, n, e) < 0)
			break;
	if (n > f->count)
		return 0;
	json_array_foreach (f->made, i, one) {
		lifecycle_remove(&f->b.s.registry, json_string_value(json_object_get(one, "id")), 1,
				 &ignored);
		volumecopy_remove(&f->b.s.registry, json_object_get(one, "volumes"), f->tenant);
	}
	return f->count > 1 ? err_wrap(e, "fork %u of %u", n, (unsigned)f->count) : -1;
}

/* What both write to from now on. */
static void tell_shared(struct fork *f)
{
	json_t *pair;
	size_t i;

	json_array_foreach (json_object_get(f->spec, "options"), i, pair) {
		if (layerbox_is_mount(pair) && !(f->volume_copy && volumecopy_copies(pair)))
			break;
	}
	if (i < json_array_size(json_object_get(f->spec, "options")))
		fprintf(stderr, "berth fork: volumes and mounts of the host are shared with %s\n",
			f->b.s.id);
	layerbox_see_memory(&f->b);
	layerbox_note_memory(&f->b, "fork", "is not copied");
}

static int make_all(struct fork *f, char *ref, struct err *e)
{
	char *at = strchr(ref, '@');
	autojson json_t *doc = NULL;
	json_t *one;
	size_t i;

	if (at)
		*at = '\0';
	if (layerbox_find(&f->b, ref, e) < 0)
		return -1;
	layerpool_hold(&f->b.s.registry, f->b.dir_fd);
	if (read_source(f, e) < 0 ||
	    resident_check_room(&f->b.s.registry, f->tenant, f->spec, (unsigned)f->count, e) < 0 ||
	    choose_fork_source(f, at ? at + 1 : NULL, e) < 0 || read_fork_ids(f, e) < 0)
		return -1;
	fd_close(&f->b.dir_fd);	/* the keepers would have it, too */
	if (make_each(f, e) < 0)
		return -1;
	if (!f->json) {
		json_array_foreach (f->made, i, one)
			puts(json_string_value(json_object_get(one, "id")));
		tell_shared(f);
		return fflush(stdout) ? err_sys(e, "write") : 0;
	}
	doc = json_pack("{s:s,s:s,s:O}", "from", f->b.s.id, "checkpoint", f->from,
					 "forks", f->made);

	return doc ? command_print_json(doc, JSON_COMPACT, e) : err_nomem(e);
}

static int fork_main(const struct command *self, int argc, char **argv)
{
	struct fork f = { .count = 1, .made = json_array(), .more = json_array() };
	struct err e = { 0 }, ignored;
	int rest, help = 0, r;

	layerbox_init(&f.b);
	r = command_options(self, argc, argv, set_fork_option, &f, &rest, &help, &e);
	if (r == 0 && !help && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE,
			    "one sandbox is wanted; hint: berth fork ID, or berth fork ID@k1");
	if (r == 0 && !help)
		r = make_all(&f, argv[rest], &e);
	take_checkpoint(&f, &ignored);
	if (f.ours)
		layerbox_drop(&f.b, f.from);
	layerbox_close(&f.b);
	json_decref(f.more);
	json_decref(f.spec);
	json_decref(f.made);
	return r < 0 ? command_fail(self, &e, f.json) : 0;
}

const struct command cmd_fork = {
	.name = "fork",
	.args = "SANDBOX[@CHECKPOINT]",
	.summary = "make sandboxes that begin with the files of another one",
	.detail = "Each has the options of the first, but for those given here, and an id, an "
		  "address and\n"
		  "a range of ids of its own.\n"
		  "Without a checkpoint, one is made now, and removed again.\n"
		  "Left out: processes, shell sessions, /run and /dev/shm.  Volumes and other mounts are shared with\n"
		  "the first one, unless --volume-copy copies the volumes.",
	.params = PARAM_OF_FORK,
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = fork_main,
};
