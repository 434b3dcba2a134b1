/* SPDX-License-Identifier: Apache-2.0 */
/* berth events: what happened to the sandboxes that live. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "manager/host/filter.h"
#include "manager/host/journal.h"
#include "manager/host/record.h"
#include "manager/host/registry.h"

struct eventfilter {
	struct filter filter;
	json_t *known; /* id -> {"name", "image", "labels"}; NULL: none yet */
};

/* ---- Which events --filter shows ---- */

#define KNOWN_MAX 16384 /* sandboxes; they are looked up again */

static const struct filter_key eventfilter_keys[] = {
	{ "event", FILTER_GLOB, "event" },   { "id", FILTER_ID, "id" },
	{ "container", FILTER_NAMED, "id" }, { "sandbox", FILTER_NAMED, "id" },
	{ "name", FILTER_GLOB, "name" },     { "image", FILTER_GLOB, "image" },
	{ "label", FILTER_LABEL, "labels" }, { NULL, FILTER_GLOB, NULL },
};

/* The facts that an event has: a new object. */
static json_t *facts(const json_t *from)
{
	json_t *j = json_object();

	json_object_set(j, "name", json_object_get(from, "name"));
	json_object_set(j, "image", json_object_get(from, "image"));
	json_object_set(j, "labels", json_object_get(from, "labels"));
	return j;
}

/* Its record, running or kept; else the facts in its creation event. */
static const json_t *look_up_event_sandbox(struct eventfilter *f, struct registry *r, const json_t *entry,
					   const char *id)
{
	const json_t *known = json_object_get(f->known, id);
	autojson json_t *record = NULL;
	struct err ignored;

	if (known || !path_is_name(id))
		return known;
	if (!f->known)
		f->known = json_object();
	if (json_object_size(f->known) >= KNOWN_MAX)
		json_object_clear(f->known);
	if (record_read(r->kept_fd, id, &record, &ignored) <= 0)
		record_read(r->sandboxes_fd, id, &record, &ignored);
	json_object_set_new(f->known, id, facts(record ? record : entry));
	return json_object_get(f->known, id);
}

/* Whether entry is wanted; without a filter everything is. */
static int eventfilter_wants(struct eventfilter *f, struct registry *r, const json_t *entry)
{
	const char *event = json_string_value(json_object_get(entry, "event"));
	const char *id = json_string_value(json_object_get(entry, "id"));
	autojson json_t *whole = NULL;
	int wanted;

	if (!f->filter.count)
		return 1;
	whole = json_copy((json_t *)(size_t)entry);
	if (!whole || !id || !event)
		return 0;
	/* the event's own members count before the record's: a rename tells the new name */
	json_object_update_missing(whole, (json_t *)(size_t)look_up_event_sandbox(f, r, entry, id));
	wanted = filter_matches(&f->filter, whole);
	/* it is not heard of again; and after a rename its record says another name */
	if (!strcmp(event, "rm") || !strcmp(event, "rename"))
		json_object_del(f->known, id);
	return wanted;
}

static void eventfilter_release(struct eventfilter *f)
{
	json_decref(f->known);
	f->known = NULL;
}

/* ---- The command ---- */

enum { OPT_FOLLOW = 1, OPT_SINCE, OPT_FROM, OPT_FILTER, OPT_JSON };

static const struct opt events_options[] = {
	{ "follow", 'f', OPT_FLAG, NULL, "go on with what comes", OPT_FOLLOW },
	{ "since", 0, OPT_VALUE, "TIME", "only from then on: 10m (ago), or 2026-11-21T08:00:00Z", OPT_SINCE },
	{ "from", 0, OPT_VALUE, "CURSOR", "go on where a reader that saw this cursor stopped", OPT_FROM },
	{ "filter", 0, OPT_LIST, "KEY=VALUE",
	  "only those of that event=, name=, image=, label= ...; may be repeated", OPT_FILTER },
	{ "json", 0, OPT_FLAG, NULL, "print JSON objects, one a line, each with its cursor; errors too", OPT_JSON },
};

struct events {
	int follow, json;
	char since[JOURNAL_TIME];
	uint64_t from;
	char id[65];		/* of one sandbox, or "" */
	uint64_t lost;		/* told so far */
	struct eventfilter filter;
	struct registry *registry;
};

static int set_events_option(void *ctx, int id, const char *value, struct err *e)
{
	struct events *v = ctx;

	switch (id) {
	case OPT_SINCE:
		return journal_since(value, v->since, e);
	case OPT_FROM:
		return num_u64(value, "cursor", 0, INT64_MAX, &v->from, e);
	case OPT_FILTER:
		return filter_add(&v->filter.filter, value, e);
	default:
		*(id == OPT_FOLLOW ? &v->follow : &v->json) = 1;
		return 0;
	}
}

/* TIME ID EVENT key=value ...: values with blanks in quotes. */
static void print_line(const json_t *entry)
{
	static const char *const shown[] = { "time", "id", "event", "cursor" };
	char clean[600];
	const char *key;
	json_t *value;
	size_t i;

	for (i = 0; i < 3; i++) {
		const char *s = json_string_value(json_object_get(entry, shown[i]));

		log_clean(clean, sizeof(clean), s ? s : "-", 0);
		printf("%s%s", i ? "  " : "", clean);
	}
	json_object_foreach((json_t *)(size_t)entry, key, value) {
		autofree char *text = NULL;

		for (i = 0; i < ARRAY_LEN(shown) && strcmp(key, shown[i]); i++)
			;
		if (i < ARRAY_LEN(shown) || (json_is_string(value) && !json_string_length(value)))
			continue;
		text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
		if (json_is_string(value) && !strpbrk(json_string_value(value), " \"\\'\n\t"))
			log_clean(clean, sizeof(clean), json_string_value(value), 0);
		else
			log_clean(clean, sizeof(clean), text ? text : "", 0);
		printf("  %s=%s", key, clean);
	}
	putchar('\n');
}

static int show_event(struct events *v, const json_t *entry, struct err *e)
{
	const char *time = json_string_value(json_object_get(entry, "time"));
	const char *id = json_string_value(json_object_get(entry, "id"));
	/* also an event that is too old: it may hold the labels of the others */
	int wanted = eventfilter_wants(&v->filter, v->registry, entry);

	if (!wanted || (v->since[0] && (!time || strcmp(time, v->since) < 0)) ||
	    (v->id[0] && (!id || strcmp(id, v->id))))
		return 0;
	if (!v->json) {
		print_line(entry);
		return 0;
	}
	return command_print_json(entry, JSON_COMPACT, e);
}

static void tell_lost(struct events *v, const struct journal_reader *r)
{
	if (r->lost == v->lost)
		return;
	if (v->json)
		printf("{\"event\":\"lost\",\"bytes\":%llu,\"cursor\":%llu}\n", (unsigned long long)(r->lost - v->lost),
		       (unsigned long long)r->at);
	else
		log_note("berth events", "%llu bytes of events were too old to be kept", (unsigned long long)(r->lost - v->lost));
	v->lost = r->lost;
}

static int drain_events(struct events *v, struct journal_reader *r, struct err *e)
{
	json_t *entry;
	int got;

	while ((got = journal_next(r, &entry, e)) > 0) {
		int failed;

		tell_lost(v, r);
		failed = show_event(v, entry, e);
		json_decref(entry);
		if (failed < 0)
			return -1;
	}
	tell_lost(v, r);
	return got < 0 || fflush(stdout) ? (got < 0 ? -1 : err_sys(e, "write to stdout")) : 0;
}

static int read_all_events(struct events *v, int state_fd, struct err *e)
{
	struct journal_reader r;
	autoclose int watch = -1;
	int result;

	/* before the first look, so that nothing falls between it and the watch */
	if (v->follow && (watch = journal_watch(state_fd, e)) < 0)
		return -1;
	result = journal_open(&r, state_fd, EVENTS_FILE, v->from, e);
	if (result == 0)
		result = drain_events(v, &r, e);
	while (result == 0 && v->follow) {
		/* our reader may have gone: do not wait for an event to notice */
		struct pollfd p[2] = { { .fd = watch, .events = POLLIN }, { .fd = 1 } };

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			result = err_sys(e, "wait for events");
		if (p[1].revents & (POLLERR | POLLHUP))
			break;
		journal_drain(watch);
		if (result == 0)
			result = drain_events(v, &r, e);
	}
	journal_reader_close(&r);
	return result;
}

static int run_events(const struct command *self, int argc, char **argv)
{
	struct events v = { .filter.filter.keys = eventfilter_keys };
	struct sandbox_ref s;
	struct err e = { 0 };
	int rest, help = 0, r;

	sandbox_ref_init(&s);
	r = command_options(self, argc, argv, set_events_option, &v, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && argc - rest > 1)
		r = err_set(&e, ERR_USAGE, "unexpected argument '%.80s'; hint: one sandbox, or none for all", argv[rest + 1]);
	if (r == 0)
		r = sandbox_ref_registry(&s, &e);
	v.registry = &s.registry;
	if (r == 0 && argc > rest) {
		/* one that was removed has events still: then by its whole id */
		if (sandbox_ref_find(&s, argv[rest], &e) == 0)
			memcpy(v.id, s.id, sizeof(v.id));
		else if (e.code == ERR_NOT_FOUND && strlen(argv[rest]) < sizeof(v.id))
			snprintf(v.id, sizeof(v.id), "%s", argv[rest]);
		else
			r = -1;
	}
	if (r == 0)
		r = read_all_events(&v, s.registry.state_fd, &e);
	sandbox_ref_close(&s);
	eventfilter_release(&v.filter);
	return r < 0 ? command_fail(self, &e, v.json) : 0;
}

const struct command cmd_events = {
	.name = "events",
	.args = "[SANDBOX]",
	.summary = "show what happened to sandboxes",
	.detail = "create, start, exec, exit, sh, timeout, oom, pause, resume, update, rename, stop, die, rm.  The last\n"
		  "1 to 2 MiB are kept; a reader that comes back with the last cursor it saw misses nothing of them.",
	.opts = events_options,
	.opt_count = ARRAY_LEN(events_options),
	.complete = COMPLETE_SANDBOX,
	.run = run_events,
};
