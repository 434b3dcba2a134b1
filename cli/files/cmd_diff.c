/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth diff: the changes of a sandbox against its image. The keeper hands out the writable
 * layer and the image's layers as directory descriptors; difftree.h does the rest.
 */
#include <ctype.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/files/difftree.h"
#include "cli/live/keptlayers.h"
#include "cli/live/sandbox_open.h"
#include "cli/time/layerbox.h"
#include "manager/keeper/fileclient.h"
#include "manager/keeper/protocol.h"

#define TURN_MS 5000	/* time in which a sandbox that begins or ends is found in one state */
#define TURN_LOOK_MS 5

enum { OPT_JSON = 1, OPT_FROM, OPT_TO, OPT_PATCH };

static const struct opt options[] = {
	{ "from", 0, OPT_VALUE, "CHECKPOINT", "what changed since this checkpoint, not the image",
	  OPT_FROM },
	{ "to", 0, OPT_VALUE, "CHECKPOINT", "with --from: up to this checkpoint (default: now)",
	  OPT_TO },
	{ "patch", 'p', OPT_FLAG, NULL, "with --from: show the changed lines of text files",
	  OPT_PATCH },
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object; errors too", OPT_JSON },
};

struct diff {
	int json, patch;
	const char *from, *to;
	struct difftree tree;
};

static int set_diff_option(void *ctx, int id, const char *value, struct err *e)
{
	struct diff *d = ctx;

	(void)e;
	if (id == OPT_FROM)
		d->from = value;
	else if (id == OPT_TO)
		d->to = value;
	else if (id == OPT_PATCH)
		d->patch = 1;
	else
		d->json = 1;
	return 0;
}

static int get_layer(struct diff *d, int sock, int index, int *ret_count, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_layers), *answer = NULL;
	const char *workdir;
	int fd = -1;

	request_set_index(rq, (uint64_t)index);
	answer = keeper_call(sock, rq, NULL, 0, &fd, e);
	if (!answer)
		return -1;
	*ret_count = (int)json_integer_value(json_object_get(answer, "count"));
	workdir = json_string_value(json_object_get(answer, "workdir"));
	snprintf(d->tree.workdir, sizeof(d->tree.workdir), "%s", workdir ? workdir : "");
	return fd < 0 || *ret_count > SPEC_LAYERS_MAX ? err_set(e, ERR_INTERNAL, "the keeper handed out no layer") : fd;
}

/* {"changes": [{"change", "path", "patch"}]}; what is not text has "path_hex", "patch_hex". */
static void print_changes(const json_t *answer)
{
	const json_t *one;
	size_t i;

	json_array_foreach (json_object_get(answer, "changes"), i, one) {
		autobuf struct buf path = BUF_INIT(1u << 20), patch = BUF_INIT(64u << 20);
		const char *change = json_string_value(json_object_get(one, "change"));
		struct err ignored;

		if (change && json_get_bytes(one, "path", &path, "change", &ignored) > 0 && buf_add(&path, "", 1, &ignored) == 0 &&
		    json_get_bytes(one, "patch", &patch, "change", &ignored) >= 0)
			difflayers_print((char)toupper((unsigned char)change[0]), path.data, &patch);
	}
}

static int show_image_diff(struct diff *d, struct err *e)
{
	autojson json_t *answer = NULL;
	json_t *list = json_array(), *one;
	size_t i;

	for (i = 0; i < d->tree.count; i++) {
		const struct difftree_change *c = &d->tree.list[i];

		one = json_pack("{s:s}", "change", c->kind == 'A' ? "added" : c->kind == 'C' ? "changed" : "deleted");
		if (json_array_append_new(list, one) < 0 || json_set_bytes(one, "path", c->path, strlen(c->path), e) < 0) {
			json_decref(list);
			return err_nomem(e);
		}
	}
	answer = json_pack("{s:o}", "changes", list);
	if (d->json)
		return fileclient_print(json_incref(answer), e);
	print_changes(answer);
	return 0;
}

/* Those of the image into the tree, and the writable one. */
static int get_diff_layers(struct diff *d, int sock, struct err *e)
{
	int count = 0, i, upper;

	upper = get_layer(d, sock, 0, &count, e);
	if (upper < 0)
		return -1;
	for (i = 0; i < count; i++) {
		d->tree.layer[i] = get_layer(d, sock, i + 1, &count, e);
		if (d->tree.layer[i] < 0) {
			close(upper);
			return -1;
		}
		d->tree.layers++;
	}
	return upper;
}

static int compare_running(struct diff *d, int sock, struct err *e)
{
	int upper = get_diff_layers(d, sock, e);

	if (upper < 0)
		return -1;
	return difftree_compare(&d->tree, upper, e) < 0 ? -1 : show_image_diff(d, e);
}

/* The layers of two checkpoints, above those of the image. */
static int diff_between(struct diff *d, struct difflayers *l, struct err *e)
{
	const struct diffview v = { .json = d->json, .patch = d->patch };

	memcpy(l->workdir, d->tree.workdir, sizeof(l->workdir));
	memcpy(l->image, d->tree.layer, sizeof(l->image));
	l->images = d->tree.layers;
	return difflayers_show(l, &v, e);
}

/* A stopped sandbox's layers are opened here, where no keeper holds them. */
static int compare_stopped(struct diff *d, struct registry *r, const char *id,
			   struct difflayers *views, struct err *e)
{
	struct keptlayers l;
	int result = keptlayers_open(r, id, &l, e), i, upper;

	if (result == 0) {
		snprintf(d->tree.workdir, sizeof(d->tree.workdir), "%s", l.workdir);
		for (i = 0; i < l.count; i++)
			d->tree.layer[i] = l.layer_fd[i];
		d->tree.layers = l.count;
		upper = views ? -1 : take_fd(&l.upper_fd);
		if (views)
			result = diff_between(d, views, e);
		else
			result = difftree_compare(&d->tree, upper, e) < 0 ? -1 : show_image_diff(d, e);
		d->tree.layers = 0;	/* they are l's */
	}
	keptlayers_close(r, &l);
	return result;
}

/* Between two checkpoints, or one and now. */
static int compare_checkpoints(struct diff *d, const char *ref, struct err *e)
{
	struct difflayers views = { .from = -1, .to = -1 };
	char now[CHECKPOINT_ID] = "";
	struct layerbox b;
	int upper, result = -1;

	layerbox_init(&b);
	if (layerbox_find(&b, ref, e) == 0 &&
	    (views.from = layerbox_view(&b, d->from, e)) >= 0 &&
	    (d->to || layerbox_now(&b, now, e) == 0))
		views.to = layerbox_view(&b, d->to ? d->to : now, e);
	if (views.to >= 0 && b.s.kept) {
		result = compare_stopped(d, &b.s.registry, b.s.id, &views, e);
	} else if (views.to >= 0 && sandbox_ref_connect(&b.s, ref, 0, e) == 0) {
		upper = get_diff_layers(d, b.s.sock, e);
		result = upper < 0 ? -1 : diff_between(d, &views, e);
		fd_close(&upper);
	}
	fd_close(&views.from);
	fd_close(&views.to);
	layerbox_drop(&b, now);
	layerbox_close(&b);
	return result;
}

/* Whether a sandbox that was found stopped runs, or the other way round, before it was compared; it is found anew. */
static int has_turned(struct diff *d, struct sandbox_ref *s, const char *ref, const struct err *why)
{
	const int was_kept = s->kept;
	struct err ignored;

	if (d->tree.count || (why->code != ERR_EXISTS && why->code != ERR_NOT_FOUND))
		return 0;
	while (d->tree.layers)
		close(d->tree.layer[--d->tree.layers]);
	sandbox_ref_close(s);
	sandbox_ref_init(s);
	poll(NULL, 0, TURN_LOOK_MS);
	/* one that is stopped, now as before, misses something else */
	return sandbox_ref_find(s, ref, &ignored) == 0 && !(was_kept && s->kept && why->code == ERR_NOT_FOUND);
}

/* Against its image, also while it is started or stopped. */
static int compare_image(struct diff *d, struct sandbox_ref *s, const char *ref, struct err *e)
{
	const uint64_t until = clock_ms() + TURN_MS;
	int result = sandbox_ref_find(s, ref, e);

	if (result < 0)
		return -1;
	do
		result = s->kept ? compare_stopped(d, &s->registry, s->id, NULL, e) :
			 sandbox_ref_connect(s, ref, 0, e) < 0 ? -1 : compare_running(d, s->sock, e);
	while (result < 0 && clock_ms() < until && has_turned(d, s, ref, e));
	return result;
}

static int run_diff(struct diff *d, struct sandbox_ref *s, int n, char **refs, struct err *e)
{
	if (n != 1)
		return err_set(e, ERR_USAGE, "one sandbox is wanted; hint: berth diff ID");
	if (!d->from && (d->to || d->patch))
		return err_set(e, ERR_USAGE,
			       "--to and --patch compare with a checkpoint; "
			       "hint: berth diff --from k1 %.64s",
			       refs[0]);
	return d->from ? compare_checkpoints(d, refs[0], e) : compare_image(d, s, refs[0], e);
}

static int diff_main(const struct command *self, int argc, char **argv)
{
	struct diff *d = calloc(1, sizeof(*d));
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, status = 0, result, as_json;

	sandbox_ref_init(&s);
	result = d ? command_options(self, argc, argv, set_diff_option, d, &rest, &help, &e) : err_nomem(&e);
	if (result == 0 && !help)
		result = run_diff(d, &s, argc - rest, argv + rest, &e);
	as_json = d && d->json;
	while (d && d->tree.layers)
		close(d->tree.layer[--d->tree.layers]);
	if (d)
		difftree_release(&d->tree);
	free(d);
	if (result < 0)
		status = command_fail(self, &e, as_json);
	sandbox_ref_close(&s);
	return status;
}

const struct command cmd_diff = {
	.name = "diff",
	.args = "SANDBOX",
	.summary = "what a sandbox changed against its image or a checkpoint",
	.detail = "A line per path: A added, C changed, D deleted.  What berth itself makes (/etc/hosts, mount points)\n"
		  "is left out, and so is what is not in the writable layer: /run, volumes.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = diff_main,
	.print = print_changes,
};
