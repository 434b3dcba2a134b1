/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/engine/filters.h"
#include "manager/engine/logs.h"
#include "manager/engine/name.h"
#include "manager/engine/objects.h"

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

int engine_events_times(const char *since, const char *until, struct err *e)
{
	char from[JOURNAL_TIME], to[JOURNAL_TIME];

	if (engine_logs_time(since, from, e) < 0 || engine_logs_time(until, to, e) < 0)
		return -1;
	return from[0] && to[0] && strcmp(to, from) < 0 ?
		       err_set(e, ERR_INVALID, "`since` time (%.80s) cannot be after `until` time (%.80s)", since, until) :
		       0;
}

static const char *known_event_text(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "";
}

/* ---- what a client wants --------------------------------------------------------------------- */

static int event_filter_has(const json_t *list, const char *text)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(size_t)list, i, one)
		if (!strcmp(json_string_value(one), text))
			return 1;
	return 0;
}

static int event_filter_begins(const json_t *list, const char *text)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(size_t)list, i, one)
		if (!strncmp(text, json_string_value(one), json_string_length(one)))
			return 1;
	return 0;
}

static int event_filter_has_image(const json_t *list, const char *name)
{
	const char *slash = strrchr(name, '/'), *tag = strchr(slash ? slash : name, ':');
	char bare[256];

	snprintf(bare, sizeof(bare), "%.*s", tag ? (int)(tag - name) : (int)strlen(name), name);
	return event_filter_has(list, name) || event_filter_has(list, bare);
}

/* As dockerd: names and ids by their beginnings, images with and without their tag. */
static int is_event_wanted(const json_t *f, const json_t *event, const json_t *labels)
{
	static const char *const kinds[] = { "container", "network", "volume" };
	const json_t *actor = json_object_get(event, "Actor"), *attributes = json_object_get(actor, "Attributes"), *list;
	const char *type = known_event_text(event, "Type"), *action = known_event_text(event, "Action");
	const char *id = known_event_text(actor, "ID"), *name = known_event_text(attributes, "name");
	char word[40];
	size_t i;

	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		list = json_object_get(f, kinds[i]);
		if (json_array_size(list) && !event_filter_begins(list, id) && !event_filter_begins(list, name))
			return 0;
	}
	list = json_object_get(f, "image");
	if (json_array_size(list) && !event_filter_has_image(list, id) &&
	    !event_filter_has_image(list, strcmp(type, "image") ? known_event_text(attributes, "image") : name))
		return 0;
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(action, ":"), action);
	list = json_object_get(f, "event");
	return (!json_array_size(list) || event_filter_has(list, action) || event_filter_has(list, word)) &&
	       (!json_array_size(json_object_get(f, "type")) || event_filter_has(json_object_get(f, "type"), type)) &&
	       (!json_array_size(json_object_get(f, "scope")) || event_filter_has(json_object_get(f, "scope"), "local")) &&
	       engine_filters_labels(f, "label", labels ? labels : attributes);
}

/* ---- one event ------------------------------------------------------------------------------- */

struct taking {
	struct engine_events *x;
	const json_t *entry;
	json_t *out;
	int64_t ns;
};

/* Consumes attributes; labels: NULL where these have them. */
static void add_docker_event(struct taking *t, const char *type, const char *action, const char *id, json_t *attributes,
			     const json_t *labels)
{
	autojson json_t *event = json_pack("{s:s,s:s,s:{s:s,s:o},s:s,s:I,s:I}", "Type", type, "Action", action, "Actor", "ID", id,
					   "Attributes", attributes, "scope", "local", "time", (json_int_t)(t->ns / 1000000000),
					   "timeNano", (json_int_t)t->ns);
	const int is_container = !strcmp(type, "container");

	if (!event || !is_event_wanted(t->x->filters, event, labels))
		return;
	/* the members of API 1.21 and before */
	if (is_container || !strcmp(type, "image")) {
		json_object_set_new(event, "status", json_string(action));
		json_object_set_new(event, "id", json_string(id));
	}
	if (is_container)
		json_object_set_new(event, "from", json_string(known_event_text(attributes, "image")));
	json_array_append(t->out, event);
}

/* ---- networks, volumes and images ------------------------------------------------------------ */

static const struct object_event {
	const char *event, *type, *action;
} object_events[] = {
	{ "network-create", "network", "create" },     { "network-rm", "network", "destroy" },
	{ "network-join", "network", "connect" },      { "disconnect", "network", "disconnect" },
	{ "volume-create", "volume", "create" },       { "volume-rm", "volume", "destroy" },
	{ "image-tag", "image", "tag" },	       { "image-untag", "image", "untag" },
	{ "image-delete", "image", "delete" },	       { "image-import", "image", "import" },
	{ "image-load", "image", "load" },	       { "image-save", "image", "save" },
	{ "image-pull", "image", "pull" },	       { "image-push", "image", "push" },
};

static const struct object_event *object_event_of(const json_t *entry)
{
	const char *event = known_event_text(entry, "event");
	size_t i;

	for (i = 0; i < ARRAY_LEN(object_events); i++)
		if (!strcmp(object_events[i].event, event))
			return &object_events[i];
	return NULL;
}

static json_t *remember_event_box(struct engine_events *x, const char *id, const json_t *entry)
{
	static const char *const keys[] = { "name", "image", "labels", "networks", "volumes" };
	json_t *known = json_object_get(x->known, id);
	size_t i;

	if (!known) {
		known = json_object();
		json_object_set_new(x->known, id, known);
	}
	for (i = 0; i < ARRAY_LEN(keys); i++)
		if (json_object_get(entry, keys[i]))
			json_object_set_new(known, keys[i], json_deep_copy(json_object_get(entry, keys[i])));
	return known;
}

static const char *called_in_events(const json_t *known)
{
	return engine_called(known, json_string_value(json_object_get(known, ENGINE_FILE_CALLED)));
}

/* The name that a client gave at a rename, where berth spells it in another way. */
static void note_called(const json_t *entry, json_t *known)
{
	json_t *called = json_object_get(entry, "called");

	if (called)
		json_object_set(known, ENGINE_FILE_CALLED, called);
	else if (json_object_get(entry, "name"))
		json_object_del(known, ENGINE_FILE_CALLED);
}

/* Of a network or a volume; box: "" or the container that is on it.  A tenant's is not Docker's. */
static void add_thing_event(struct taking *t, const char *type, const char *action, const char *name, const char *box)
{
	static const char *const own[] = { "host", "none" };
	const int is_network = !strcmp(type, "network");
	char key[200], id[ENGINE_NAME_MAX + 1], container[ENGINE_ID];
	const char *called, *driver = "bridge";
	const json_t *known, *labels;
	json_t *attributes;
	size_t i;

	if (!name[0] || strchr(name, '@'))
		return;
	snprintf(key, sizeof(key), "%s %.100s", type, name);
	known = json_object_get(t->x->known, key);
	called = known ? engine_called(known, NULL) : name;
	labels = json_object_get(known, "labels");
	for (i = 0; i < ARRAY_LEN(own); i++)
		if (!strcmp(name, own[i]))
			driver = i ? "null" : "host";
	if (is_network)
		engine_network_id(name, id);
	else
		snprintf(id, sizeof(id), "%s", called);
	attributes = is_network ? json_pack("{s:s,s:s}", "name", called, "type", driver) : json_pack("{s:s}", "driver", "local");
	if (box[0]) {
		engine_id(box, container);
		json_object_set_new(attributes, "container", json_string(container));
	}
	add_docker_event(t, type, action, id, attributes, labels ? labels : attributes);
}

/* What the creation said of it, until it is gone; "TYPE NAME" is no sandbox's id. */
static void take_thing_event(struct taking *t, const struct object_event *o)
{
	const char *box = known_event_text(t->entry, "id"), *name = known_event_text(t->entry, box[0] ? "network" : "name");
	char key[200];

	snprintf(key, sizeof(key), "%s %.100s", o->type, name);
	if (!box[0])
		remember_event_box(t->x, key, t->entry);
	add_thing_event(t, o->type, o->action, name, box);
	if (!strcmp(o->action, "destroy"))
		json_object_del(t->x->known, key);
}

/* The id of what came or went by a registry is its name, and its name has no tag. */
static void take_image_event(struct taking *t, const struct object_event *o)
{
	const char *name = known_event_text(t->entry, "name"), *id = known_event_text(t->entry, "image");
	json_t *attributes = engine_labels(t->entry);
	char bare[256];

	if (!strcmp(o->action, "pull") || !strcmp(o->action, "push")) {
		const char *slash = strrchr(name, '/'), *tag = strchr(slash ? slash : name, ':');

		snprintf(bare, sizeof(bare), "%.*s", tag ? (int)(tag - name) : (int)strlen(name), name);
		id = name, name = bare;
	} else if (strcmp(o->action, "tag") != 0) {
		name = id;
	}
	json_object_set_new(attributes, "name", json_string(name));
	add_docker_event(t, "image", o->action, id, attributes, NULL);
}

/* ---- containers ------------------------------------------------------------------------------ */

/* NULL for what Docker has no event of. */
static const char *action_of(const json_t *entry)
{
	static const char *const same[][2] = {
		{ "create", "create" },		{ "start", "start" },
		{ "stop", "die" },		{ "die", "die" },
		{ "rm", "destroy" },		{ "pause", "pause" },
		{ "resume", "unpause" },	{ "rename", "rename" },
		{ "update", "update" },		{ "oom", "oom" },
		{ "attach", "attach" },		{ "detach", "detach" },
		{ "kill", "kill" },		{ "stopped", "stop" },
		{ "restarted", "restart" },	{ "top", "top" },
		{ "resize", "resize" },		{ "commit", "commit" },
		{ "export", "export" },		{ "archive-path", "archive-path" },
		{ "extract-to-dir", "extract-to-dir" },
		{ "exec-create", "exec_create" }, { "exec-start", "exec_start" },
		{ "health", "health_status" },
	};
	const char *event = known_event_text(entry, "event");
	size_t i;

	for (i = 0; i < ARRAY_LEN(same); i++)
		if (!strcmp(same[i][0], event))
			return same[i][1];
	return NULL;
}

/* An exec's end, which is no end of the container's. */
static int is_exec_end(const json_t *entry)
{
	return !strcmp(known_event_text(entry, "event"), "exit") && known_event_text(entry, "command")[0] &&
		strcmp(known_event_text(entry, "command"), "c1") != 0;
}

/* Of an exec that no client of Docker's socket made: berth's own id of it, as Docker's are spelled. */
static void add_exec(const struct engine_events *x, const json_t *entry, const char *box, json_t *attributes)
{
	char id[ENGINE_ID], seed[200];

	if (!x->exec_of || !x->exec_of(x->ctx, box, known_event_text(entry, "command"), id)) {
		snprintf(seed, sizeof(seed), "exec %.64s %.64s", box, known_event_text(entry, "command"));
		engine_digits(seed, id);
	}
	json_object_set_new(attributes, "execID", json_string(id));
	json_object_set_new(attributes, "exitCode",
			    json_sprintf("%d", (int)json_integer_value(json_object_get(entry, "exit_status"))));
}

/* One without a name is called by its id, as in the list. */
static json_t *box_attributes(const json_t *known, const json_t *entry, const char *box, const char *action)
{
	static const char *const told[][2] = { { "signal", "signal" }, { "exec", "execID" }, { "old", "oldName" } };
	const char *name = called_in_events(known);
	const json_t *code = json_object_get(known, "exit");
	json_t *a = engine_labels(known);
	size_t i;

	json_object_set_new(a, "image", json_string(known_event_text(known, "image")));
	json_object_set_new(a, "name", json_string(name[0] ? name : box));
	for (i = 0; i < ARRAY_LEN(told); i++)
		if (known_event_text(entry, told[i][0])[0])
			json_object_set(a, told[i][1], json_object_get(entry, told[i][0]));
	if (!strcmp(action, "die"))
		json_object_set_new(a, "exitCode",
				    json_sprintf("%d", code ? (int)json_integer_value(code) : 0));
	return a;
}

/* Joins its networks and volumes at a start, and leaves them at its end. */
static void add_things_of(struct taking *t, json_t *known, const char *box, int begins)
{
	static const struct {
		const char *key, *type, *begin, *end;
	} kinds[] = { { "networks", "network", "connect", "disconnect" }, { "volumes", "volume", "mount", "unmount" } };
	json_t *one;
	size_t i, j;

	for (i = 0; i < ARRAY_LEN(kinds); i++)
		json_array_foreach (json_object_get(known, kinds[i].key), j, one)
			if (json_is_string(one))
				add_thing_event(t, kinds[i].type, begins ? kinds[i].begin : kinds[i].end, json_string_value(one), box);
}

/* A network that a running container joined or left. */
static void note_network(json_t *known, const char *network, int joins)
{
	json_t *list = json_object_get(known, "networks"), *one;
	size_t i;

	json_array_foreach (list, i, one) {
		if (strcmp(json_string_value(one), network) != 0)
			continue;
		if (!joins)
			json_array_remove(list, i);
		return;
	}
	if (joins && list)
		json_array_append_new(list, json_string(network));
}

static void take_box_event(struct taking *t, const char *box)
{
	const char *event = known_event_text(t->entry, "event"), *action;
	const json_t *before = json_object_get(t->x->known, box);
	autojson json_t *old = before && !strcmp(event, "rename") ? json_sprintf("/%s", called_in_events(before)) : NULL;
	autojson json_t *shown = old ? json_copy((json_t *)(size_t)t->entry) : NULL;
	json_t *known = remember_event_box(t->x, box, t->entry), *attributes;
	const int begins = !strcmp(event, "start"), exec_ends = is_exec_end(t->entry);
	char id[ENGINE_ID], room[240];

	if (!strcmp(event, "rename"))
		note_called(t->entry, known);
	/* the main command is the first; its end is told with the sandbox's */
	if ((!strcmp(event, "exit") || !strcmp(event, "oom") || !strcmp(event, "timeout")) &&
	    !strcmp(known_event_text(t->entry, "command"), "c1"))
		json_object_set(known, "exit", json_object_get(t->entry, "exit_status"));
	if (shown)
		json_object_set(shown, "old", old);
	action = exec_ends ? "exec_die" : action_of(t->entry);
	if (!action)
		return;
	if (begins)
		add_things_of(t, known, box, 1);
	attributes = box_attributes(known, shown ? shown : t->entry, box, action);
	if (exec_ends)
		add_exec(t->x, t->entry, box, attributes);
	if (!strcmp(action, "health_status") || !strncmp(action, "exec_", 5)) {
		const char *more = known_event_text(t->entry, action[0] == 'h' ? "status" : "text");

		snprintf(room, sizeof(room), exec_ends ? "%s" : "%s: %.200s", action, more);
		action = room;
	}
	engine_id(box, id);
	add_docker_event(t, "container", action, id, attributes, NULL);
	if (!strcmp(action, "die")) {
		add_things_of(t, known, box, 0);
		json_object_del(known, "networks");
		json_object_del(known, "volumes");
	}
	if (!strcmp(event, "rm"))
		json_object_del(t->x->known, box);
}

json_t *engine_events_take(struct engine_events *x, const json_t *entry)
{
	const char *box = known_event_text(entry, "id"), *time = known_event_text(entry, "time");
	const struct object_event *object = object_event_of(entry);
	struct taking t = { x, entry, json_array(), engine_time_ns(time) };

	if (!t.out)
		return NULL;
	if (object && box[0] && json_object_get(x->known, box))
		note_network(json_object_get(x->known, box), known_event_text(entry, "network"), !strcmp(object->action, "connect"));
	if (object && !strcmp(object->type, "image"))
		take_image_event(&t, object);
	else if (object)
		take_thing_event(&t, object);
	else if (box[0])
		take_box_event(&t, box);
	return t.out;
}
