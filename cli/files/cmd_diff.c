/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth diff: the changes of a sandbox against its image. The keeper hands out the writable
 * layer and the image's layers as directory descriptors; difftree.h does the rest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/files/difftree.h"
#include "cli/live/keptlayers.h"
#include "cli/live/sandbox_open.h"
#include "manager/keeper/fileclient.h"
#include "manager/keeper/request.h"

enum { OPT_JSON = 1 };

static const struct opt options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print one JSON object; errors too", OPT_JSON },
};

struct diff {
	int json;
	struct difftree tree;
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)id;
	(void)value;
	(void)e;
	((struct diff *)ctx)->json = 1;
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

static int show(struct diff *d, struct err *e)
{
	json_t *list = json_array(), *one;
	char path[4200];
	size_t i;

	for (i = 0; i < d->tree.count; i++) {
		const struct difftree_change *c = &d->tree.list[i];

		if (!d->json) {
			log_clean(path, sizeof(path), c->path, 0);
			printf("%c %s\n", c->kind, path);
			continue;
		}
		one = json_pack("{s:s}", "change", c->kind == 'A' ? "added" : c->kind == 'C' ? "changed" : "deleted");
		if (json_array_append_new(list, one) < 0 || json_set_bytes(one, "path", c->path, strlen(c->path), e) < 0) {
			json_decref(list);
			return err_nomem(e);
		}
	}
	if (d->json)
		return fileclient_print(json_pack("{s:o}", "changes", list), e);
	json_decref(list);
	return 0;
}

static int compare(struct diff *d, int sock, struct err *e)
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
	return difftree_compare(&d->tree, upper, e) < 0 ? -1 : show(d, e);
}

/* A stopped sandbox's layers are opened here, where no keeper holds them. */
static int compare_stopped(struct diff *d, struct registry *r, const char *id, struct err *e)
{
	struct keptlayers l;
	int result = keptlayers_open(r, id, &l, e), i, upper;

	if (result == 0) {
		snprintf(d->tree.workdir, sizeof(d->tree.workdir), "%s", l.workdir);
		for (i = 0; i < l.count; i++)
			d->tree.layer[i] = l.layer_fd[i];
		d->tree.layers = l.count;
		upper = take_fd(&l.upper_fd);
		result = difftree_compare(&d->tree, upper, e) < 0 ? -1 : show(d, e);
		d->tree.layers = 0;	/* they are l's */
	}
	keptlayers_close(r, &l);
	return result;
}

static int diff_main(const struct command *self, int argc, char **argv)
{
	struct diff *d = calloc(1, sizeof(*d));
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, status = 0, result, as_json;

	sandbox_ref_init(&s);
	result = d ? command_options(self, argc, argv, set_option, d, &rest, &help, &e) : err_nomem(&e);
	if (result == 0 && !help) {
		result = argc - rest == 1 ? sandbox_ref_find(&s, argv[rest], &e) :
			 err_set(&e, ERR_USAGE, "one sandbox is wanted; hint: berth diff ID");
		if (result == 0 && s.kept)
			result = compare_stopped(d, &s.registry, s.id, &e);
		else if (result == 0 && (result = sandbox_ref_connect(&s, argv[rest], 0, &e)) == 0)
			result = compare(d, s.sock, &e);
	}
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
	.summary = "what a sandbox changed against its image",
	.detail = "A line per path: A added, C changed, D deleted.  What berth itself makes (/etc/hosts, mount points)\n"
		  "is left out, and so is what is not in the writable layer: /tmp, /run, volumes.",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = diff_main,
};
