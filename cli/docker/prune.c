/* SPDX-License-Identifier: Apache-2.0 */
/* docker container prune, image prune, network prune, volume prune and system prune. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/docker/verbs.h"
#include "manager/engine/filters.h"
#include "manager/engine/image.h"

int door_prune_images(json_t *filters, double *freed, struct err *e)
{
	const struct engine_berth b = door_berth(NULL);
	autojson json_t *said = NULL;
	autoclose int store = -1;
	struct sandbox_ref s;
	const json_t *list, *name;
	size_t i;

	sandbox_ref_init(&s);
	store = door_store(&s, e);
	said = store < 0 ? NULL : engine_image_prune(store, filters, &b, e);
	sandbox_ref_close(&s);
	list = json_object_get(said, "removed");
	json_array_foreach ((json_t *)(size_t)list, i, name)
		printf("%suntagged: %s\n", i ? "" : "Deleted Images:\n", json_string_value(name));
	*freed += json_number_value(json_object_get(said, "bytes"));
	return !said || (json_array_size(list) && printf("\n") < 0) ? -1 : 0;
}

/* ---- one noun ------------------------------------------------------------------------------- */

static const struct part {
	const char *noun, *warning, *all;
	enum engine_filtered takes;
	const char *all_filter, *all_value; /* what --all says, as docker's client does */
	door_prune *prune;
	int frees; /* the total is told */
} parts[] = {
	{ "container", "all stopped containers", NULL, ENGINE_PRUNE_CONTAINERS, NULL, NULL,
	  door_prune_containers, 1 },
	{ "network", "all networks not used by at least one container", NULL,
	  ENGINE_PRUNE_CONTAINERS, NULL, NULL, door_prune_networks, 0 },
	{ "volume", "anonymous volumes not used by at least one container",
	  "all volumes not used by at least one container", ENGINE_PRUNE_VOLUMES, "all", "true",
	  door_prune_volumes, 1 },
	{ "image", "all dangling images",
	  "all images without at least one container associated to them", ENGINE_PRUNE_IMAGES,
	  "dangling", "false", door_prune_images, 1 },
};

static json_t *filters_of(const struct door_args *a, const struct part *p, int all, struct err *e)
{
	json_t *filters = door_filters(a, e);

	if (filters && all && p->all_filter)
		json_object_set_new(filters, p->all_filter, json_pack("[s]", p->all_value));
	if (filters && engine_accept(p->takes, filters, e) < 0) {
		json_decref(filters);
		return NULL;
	}
	return filters;
}

static int tell_reclaimed_space(double freed)
{
	char room[40];

	return printf("Total reclaimed space: %s\n", door_size(freed, 1, room, sizeof(room))) < 0;
}

static int prune_one_noun(const struct door_args *a, struct err *e)
{
	const struct part *p = parts;
	autojson json_t *filters = NULL;
	double freed = 0;
	char text[120];
	int all;

	while (strncmp(a->verb->name, p->noun, strlen(p->noun)))
		p++;
	all = p->all && door_on(a, "all");
	filters = filters_of(a, p, all, e);
	if (!filters)
		return -1;
	snprintf(text, sizeof(text), "This will remove %s.", all ? p->all : p->warning);
	if (!door_sure(a, text))
		return 0;
	return p->prune(filters, &freed, e) < 0 ? -1 : p->frees ? tell_reclaimed_space(freed) : 0;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void add_warning(struct buf *b, const struct part *p, int all)
{
	struct err ignored;

	buf_addf(b, &ignored, "\n  - %s", all && p->all ? p->all : p->warning);
}

/* Whether it is to be done: 1 or 0, or -1 when a part does not take the filters. */
static int is_sure(const struct door_args *a, struct err *e)
{
	autobuf struct buf text = BUF_INIT(65536);
	const int all = door_on(a, "all");
	const json_t *one;
	size_t i;

	buf_adds(&text, "This will remove:", e);
	for (i = 0; i < ARRAY_LEN(parts); i++) {
		const int volumes = parts[i].takes == ENGINE_PRUNE_VOLUMES;
		autojson json_t *filters = NULL;

		if (volumes && !door_on(a, "volumes"))
			continue;
		filters = filters_of(a, &parts[i], all && !volumes, e);
		if (!filters)
			return -1;
		add_warning(&text, &parts[i], all && !volumes);
	}
	buf_adds(&text, "\n  - all steps that builds keep", e);
	json_array_foreach ((json_t *)(size_t)door_list(a, "filter"), i, one)
		buf_addf(&text, e, "%s\n  - %s",
			 i ? "" : "\n\n  Items to be pruned will be filtered with:",
			 json_string_value(one));
	if (buf_adds(&text, "\n", e) < 0)
		return -1;
	return door_sure(a, text.data);
}

static int prune_system(const struct door_args *a, struct err *e)
{
	const json_t *one;
	double freed = 0;
	size_t i;
	int r;

	json_array_foreach ((json_t *)(size_t)door_list(a, "filter"), i, one)
		if (door_on(a, "volumes") && !strncmp(json_string_value(one), "until=", 6))
			return err_set(e, ERR_INVALID,
				       "ERROR: The \"until\" filter is not supported with "
				       "\"--volumes\"");
	r = is_sure(a, e);
	if (r <= 0)
		return r;
	for (i = 0; i < ARRAY_LEN(parts); i++) {
		const int volumes = parts[i].takes == ENGINE_PRUNE_VOLUMES;
		autojson json_t *filters = NULL;

		if (volumes && !door_on(a, "volumes"))
			continue;
		filters = filters_of(a, &parts[i], door_on(a, "all") && !volumes, e);
		if (!filters || parts[i].prune(filters, &freed, e) < 0)
			return -1;
	}
	return door_prune_builds(NULL, &freed, e) < 0 ? -1 : tell_reclaimed_space(freed);
}

/* ---- steps of builds ---- */

static int prune_builds(const struct door_args *a, struct err *e)
{
	double freed = 0;
	char room[40];

	if (door_list(a, "filter"))
		return err_set(e, ERR_UNSUPPORTED, "the steps that builds keep go all at once; hint: leave out --filter");
	if (!door_sure(a, "This will remove all steps that builds keep."))
		return 0;
	if (door_prune_builds(NULL, &freed, e) < 0)
		return -1;
	return printf("Total:\t%s\n", door_size(freed, 1, room, sizeof(room))) < 0;
}

/* ---- the verbs ------------------------------------------------------------------------------ */

static const struct door_row verbs[] = {
	{ "container prune", 0, 0, prune_one_noun }, { "network prune", 0, 0, prune_one_noun },
	{ "volume prune", 0, 0, prune_one_noun },    { "image prune", 0, 0, prune_one_noun },
	{ "system prune", 0, 0, prune_system },	     { "builder prune", 0, 0, prune_builds },
};

static int docker_prune_main(const struct command *self, int argc, char **argv)
{
	return door_dispatch(verbs, self, argc, argv);
}

#define FILTER                                                                                     \
	{ "filter", 0, OPT_LIST, "filter", "Provide filter values (e.g. \"until=<timestamp>\")",  \
	  DOOR_TAKEN }
#define FORCE { "force", 'f', OPT_FLAG, NULL, "Do not prompt for confirmation", DOOR_TAKEN }

static const struct opt plain_options[] = { FILTER, FORCE };
static const struct opt image_options[] = {
	{ "all", 'a', OPT_FLAG, NULL, "Remove all unused images, not just dangling ones",
	  DOOR_TAKEN },
	FILTER,
	FORCE,
};
static const struct opt build_options[] = {
	{ "all", 'a', OPT_FLAG, NULL, "Remove all of them: there are no others", DOOR_IGNORED },
	FILTER,
	FORCE,
};
static const struct opt volume_options[] = {
	{ "all", 'a', OPT_FLAG, NULL, "Remove all unused ones, not just anonymous ones",
	  DOOR_TAKEN },
	{ "filter", 0, OPT_LIST, "filter", "Provide filter values (e.g. \"label=<label>\")",
	  DOOR_TAKEN },
	FORCE,
};
static const struct opt system_options[] = {
	{ "all", 'a', OPT_FLAG, NULL, "Remove all unused images not just dangling ones",
	  DOOR_TAKEN },
	FILTER,
	FORCE,
	{ "volumes", 0, OPT_FLAG, NULL, "Prune anonymous volumes", DOOR_TAKEN },
};

#define VERB(sym, verb, text, table)                                                               \
	const struct command door_##sym = {                                                        \
		.name = verb,                                                                      \
		.args = "[OPTIONS]",                                                               \
		.summary = text,                                                                   \
		.opts = table,                                                                     \
		.opt_count = ARRAY_LEN(table),                                                     \
		.run = docker_prune_main,                                                                  \
	}

VERB(container_prune, "container prune", "Remove all stopped containers", plain_options);
VERB(network_prune, "network prune", "Remove all unused networks", plain_options);
VERB(volume_prune, "volume prune", "Remove unused local volumes", volume_options);
VERB(image_prune, "image prune", "Remove unused images", image_options);
VERB(builder_prune, "builder prune", "Remove the steps that builds keep", build_options);
VERB(system_prune, "system prune", "Remove unused data", system_options);
