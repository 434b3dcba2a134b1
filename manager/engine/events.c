/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of events as Docker's stream of them.
 *
 * Docker's events carry the name, image and labels of their container, a journal's entry only
 * its id. So we remember what earlier entries said, which is no more than the journal, and that
 * is bounded.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/engine/id.h"
#include "manager/engine/stats.h"
#include "manager/engine/view.h"

int engine_events_init(struct engine_events *x, const json_t *filters, struct err *e)
{
	*x = (struct engine_events){ .known = json_object(), .filters = filters };
	return x->known ? 0 : err_nomem(e);
}

void engine_events_release(struct engine_events *x)
{
	json_decref(x->known);
	x->known = NULL;
}

static const char *text_of(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "";
}

static json_t *remember(struct engine_events *x, const char *id, const json_t *entry)
{
	static const char *const keys[] = { "name", "image", "labels" };
	json_t *known = json_object_get(x->known, id);
	size_t i;

	if (!known) {
		known = json_object();
		json_object_set_new(x->known, id, known);
	}
	for (i = 0; i < ARRAY_LEN(keys); i++)
		if (json_object_get(entry, keys[i]))
			json_object_set(known, keys[i], json_object_get(entry, keys[i]));
	return known;
}

/* "" for what Docker has no event of. */
static const char *action_of(const json_t *entry, json_t *known, char *room, size_t n)
{
	static const char *const same[][2] = {
		{ "create", "create" },	 { "start", "start" },	 { "stop", "die" },
		{ "die", "die" },	 { "rm", "destroy" },	 { "pause", "pause" },
		{ "resume", "unpause" }, { "rename", "rename" }, { "update", "update" },
		{ "oom", "oom" },
	};
	const char *event = text_of(entry, "event");
	size_t i;

	/* the main command is the first; its end is told with the sandbox's */
	if ((!strcmp(event, "exit") || !strcmp(event, "oom") || !strcmp(event, "timeout")) &&
	    !strcmp(text_of(entry, "command"), "c1"))
		json_object_set(known, "exit", json_object_get(entry, "exit_status"));
	if (!strcmp(event, "health")) {
		snprintf(room, n, "health_status: %.20s", text_of(entry, "status"));
		return room;
	}
	for (i = 0; i < ARRAY_LEN(same); i++)
		if (!strcmp(same[i][0], event))
			return same[i][1];
	return "";
}

static int has(const json_t *list, const char *text)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(size_t)list, i, one)
		if (!strcmp(json_string_value(one), text))
			return 1;
	return 0;
}

static int has_prefix(const json_t *list, const char *id)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(size_t)list, i, one)
		if (json_string_length(one) >= 4 &&
		    !strncmp(id, json_string_value(one), json_string_length(one)))
			return 1;
	return 0;
}

static int is_wanted(const json_t *f, const char *id, const char *action, const json_t *known)
{
	const json_t *types = json_object_get(f, "type"), *events = json_object_get(f, "event");
	const json_t *boxes = json_object_get(f, "container"),
		     *images = json_object_get(f, "image");
	char word[40];

	snprintf(word, sizeof(word), "%.*s", (int)strcspn(action, ":"), action);
	return (!json_array_size(types) || has(types, "container")) &&
	       (!json_array_size(events) || has(events, action) || has(events, word)) &&
	       (!json_array_size(images) || has(images, text_of(known, "image"))) &&
	       (!json_array_size(boxes) || has(boxes, engine_called(known, NULL)) ||
		has_prefix(boxes, id)) &&
	       engine_filters_labels(f, "label", json_object_get(known, "labels"));
}

/* An exec's end, which is no end of the container's. */
static int is_exec_end(const json_t *entry)
{
	return !strcmp(text_of(entry, "event"), "exit") && text_of(entry, "command")[0] && strcmp(text_of(entry, "command"), "c1") != 0;
}

/* Of an exec that no client of Docker's socket made: berth's own id of it, as Docker's are spelled. */
static void add_exec(const struct engine_events *x, const json_t *entry, const char *box, json_t *attributes)
{
	char id[ENGINE_ID], seed[200];

	if (!x->exec_of || !x->exec_of(x->ctx, box, text_of(entry, "command"), id)) {
		snprintf(seed, sizeof(seed), "exec %.64s %.64s", box, text_of(entry, "command"));
		engine_digits(seed, id);
	}
	json_object_set_new(attributes, "execID", json_string(id));
	json_object_set_new(attributes, "exitCode",
			    json_sprintf("%d", (int)json_integer_value(json_object_get(entry, "exit_status"))));
}

/* One without a name is called by its id, as in the list. */
static json_t *attributes(const json_t *known, const char *box, const char *action)
{
	const char *name = engine_called(known, NULL);
	const json_t *code = json_object_get(known, "exit");
	json_t *a = engine_labels(known);

	json_object_set_new(a, "image", json_string(text_of(known, "image")));
	json_object_set_new(a, "name", json_string(name[0] ? name : box));
	if (!strcmp(action, "die"))
		json_object_set_new(a, "exitCode",
				    json_sprintf("%d", code ? (int)json_integer_value(code) : 0));
	return a;
}

json_t *engine_events_take(struct engine_events *x, const json_t *entry)
{
	const char *box = text_of(entry, "id"), *time = text_of(entry, "time"), *action;
	char id[ENGINE_ID], room[40];
	int64_t seconds = engine_time(time);
	const char *dot = strchr(time, '.');
	json_t *known, *event = NULL;

	if (!box[0])
		return NULL;
	known = remember(x, box, entry);
	action = is_exec_end(entry) ? "exec_die" : action_of(entry, known, room, sizeof(room));
	engine_id(box, id);
	if (action[0] && is_wanted(x->filters, id, action, known))
		event = json_pack("{s:s,s:s,s:s,s:s,s:s,s:{s:s,s:o},s:s,s:I,s:I}", "status", action,
				  "id", id, "from", text_of(known, "image"), "Type", "container",
				  "Action", action, "Actor", "ID", id, "Attributes",
				  attributes(known, box, action), "scope", "local", "time",
				  (json_int_t)seconds, "timeNano",
				  (json_int_t)(seconds * 1000000000 +
					       (dot ? strtol(dot + 1, NULL, 10) * 1000000 : 0)));
	if (event && is_exec_end(entry))
		add_exec(x, entry, box, json_object_get(json_object_get(event, "Actor"), "Attributes"));
	if (!strcmp(text_of(entry, "event"), "rm"))
		json_object_del(x->known, box);
	return event;
}
