/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "manager/engine/id.h"
#include "manager/engine/name.h"
#include "manager/host/labels.h"

#define MINUTE 60
#define HOUR (60 * MINUTE)

static const char *text_of(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "";
}

enum engine_state engine_state(const struct engine_view *v)
{
	const char *said = text_of(v->ping, "state");

	if (v->runs)
		return strcmp(said, "paused") ? ENGINE_RUNNING : ENGINE_PAUSED;
	if (v->restarting)
		return ENGINE_RESTARTING;
	return strcmp(text_of(v->record, "status"), "created") ? ENGINE_EXITED : ENGINE_CREATED;
}

const char *engine_state_name(enum engine_state s)
{
	static const char *const names[] = { "created", "running", "paused", "restarting",
					     "exited" };

	return names[s];
}

json_t *engine_labels(const json_t *record)
{
	const json_t *labels = json_object_get(record, "labels");
	json_t *copy = json_is_object(labels) ? json_deep_copy(labels) : json_object();

	json_object_del(copy, ENGINE_NAME_LABEL);
	json_object_del(copy, LABEL_FACE);
	return copy;
}

const char *engine_called(const json_t *record, const char *word)
{
	const char *name = text_of(record, "name"), *shown = engine_name_shown(word, name);

	return shown != name ? shown :
			       engine_name_shown(text_of(json_object_get(record, "labels"),
							 ENGINE_NAME_LABEL),
						 name);
}

const char *engine_name(const struct engine_view *v)
{
	const char *name = engine_called(v->record, text_of(v->asked, ENGINE_FILE_CALLED));

	return name[0] ? name : v->id;
}

/* The exit code of a shell for a start that failed. */
static int start_code(const char *why)
{
	return strstr(why, "not found") ? 127 : strstr(why, "permission denied") ? 126 : 128;
}

int engine_exit_code(const struct engine_view *v)
{
	const json_t *verdict = json_object_get(v->record, "verdict");
	const char *why = text_of(v->record, "start_error");

	if (v->runs || engine_state(v) == ENGINE_CREATED)
		return why[0] && !v->runs ? start_code(why) : 0;
	if (verdict)
		return (int)json_integer_value(json_object_get(verdict, "exit_status"));
	if (why[0])
		return start_code(why);
	/* its keeper was killed, and everything in the sandbox with it */
	return strcmp(text_of(v->record, "status"), "stopped") ||
			       json_object_get(v->record, "service")
		       ? 137
		       : 0;
}

const char *engine_started(const struct engine_view *v)
{
	const char *started = text_of(v->record, "started");

	return started[0] || !v->runs ? started : text_of(v->record, "created");
}

int engine_is_internal(const json_t *record, int runs)
{
	return runs && !text_of(record, "started")[0] &&
	       json_object_get(json_object_get(record, "labels"), LABEL_ZYGOTE);
}

int64_t engine_time(const char *text)
{
	struct tm tm = { 0 };

	return text && strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) ? (int64_t)timegm(&tm) : 0;
}

/* units.HumanDuration of docker/go-units: its words are what people grep for. */
void engine_duration(int64_t s, char *ret, size_t n)
{
	int64_t hours = (s + HOUR / 2) / HOUR;

	if (s < 1)
		snprintf(ret, n, "Less than a second");
	else if (s < MINUTE)
		snprintf(ret, n, "%" PRId64 " second%s", s, s == 1 ? "" : "s");
	else if (s < 2 * MINUTE)
		snprintf(ret, n, "About a minute");
	else if (s < HOUR)
		snprintf(ret, n, "%" PRId64 " minutes", s / MINUTE);
	else if (hours == 1)
		snprintf(ret, n, "About an hour");
	else if (hours < 48)
		snprintf(ret, n, "%" PRId64 " hours", hours);
	else if (hours < 24 * 7 * 2)
		snprintf(ret, n, "%" PRId64 " days", hours / 24);
	else if (hours < 24 * 30 * 2)
		snprintf(ret, n, "%" PRId64 " weeks", hours / 24 / 7);
	else if (hours < 24 * 365 * 2)
		snprintf(ret, n, "%" PRId64 " months", hours / 24 / 30);
	else
		snprintf(ret, n, "%" PRId64 " years", hours / 24 / 365);
}

const char *engine_health(const struct engine_view *v)
{
	const char *s = json_string_value(json_object_get(v->ping, "health"));

	return s ? s
		 : json_string_value(json_object_get(json_object_get(v->ping, "health"), "status"));
}

void engine_status(const struct engine_view *v, int64_t now, char *ret, size_t n)
{
	const enum engine_state s = engine_state(v);
	int64_t since = v->runs ? engine_time(engine_started(v)) :
				  engine_time(text_of(v->record, "finished"));
	const char *health = engine_health(v);
	char ago[40];

	/* its keeper was killed: the time is unknown */
	if (s == ENGINE_EXITED && !since) {
		snprintf(ret, n, "Exited (%d)", engine_exit_code(v));
		return;
	}
	engine_duration(since ? now - since : 0, ago, sizeof(ago));
	if (s == ENGINE_CREATED)
		snprintf(ret, n, "Created");
	else if (s == ENGINE_RESTARTING)
		snprintf(ret, n, "Restarting (%d) %s ago", engine_exit_code(v), ago);
	else if (s == ENGINE_EXITED)
		snprintf(ret, n, "Exited (%d) %s ago", engine_exit_code(v), ago);
	else if (s == ENGINE_PAUSED)
		snprintf(ret, n, "Up %s (Paused)", ago);
	else if (health)
		snprintf(ret, n, !strcmp(health, "starting") ? "Up %s (health: %s)" : "Up %s (%s)",
			 ago, health);
	else
		snprintf(ret, n, "Up %s", ago);
}

const json_t *engine_asked(const struct engine_view *v, const char *key)
{
	const json_t *j = json_object_get(json_object_get(v->asked, "body"), key);

	return json_is_null(j) ? NULL : j;
}

const json_t *engine_asked_host(const struct engine_view *v, const char *key)
{
	const json_t *j = json_object_get(engine_asked(v, "HostConfig"), key);

	return json_is_null(j) ? NULL : j;
}

const char *engine_image_name(const struct engine_view *v)
{
	const char *asked = json_string_value(engine_asked(v, "Image"));

	return asked ? asked : text_of(v->record, "image");
}

static int is_called(const char *called, const char *name)
{
	char mapped[ENGINE_NAME];

	return engine_name_network(called, mapped) > 0 && !strcmp(mapped, name);
}

const char *engine_network_called(const struct engine_view *v, const char *name)
{
	const char *mode = json_string_value(engine_asked_host(v, "NetworkMode")), *key;
	const json_t *ends =
		json_object_get(engine_asked(v, "NetworkingConfig"), "EndpointsConfig");
	json_t *unused;

	if (mode && is_called(mode, name))
		return mode;
	json_object_foreach ((json_t *)(size_t)ends, key, unused)
		if (is_called(key, name))
			return key;
	return name;
}

const char *engine_network_mode(const struct engine_view *v)
{
	const json_t *net = json_object_get(v->record, "network");
	const char *name = text_of(net, "network"), *mode = text_of(net, "mode");

	return name[0] ? name : mode[0] ? mode : "none";
}

json_t *engine_network_mode_json(const struct engine_view *v)
{
	const char *of = text_of(json_object_get(v->record, "network"), "container");
	char id[ENGINE_ID];

	if (!of[0])
		return json_string(engine_network_called(v, engine_network_mode(v)));
	engine_id(of, id);
	return json_sprintf("container:%s", id);
}

int engine_hides_log(const struct engine_view *v)
{
	return !strcmp(text_of(engine_asked_host(v, "LogConfig"), "Type"), "none");
}

int engine_is_tty(const struct engine_view *v)
{
	return json_is_true(json_object_get(v->record, "tty"));
}

void engine_frame(unsigned char head[8], int stream, uint32_t n)
{
	memset(head, 0, 8);
	head[0] = (unsigned char)stream;
	head[4] = (unsigned char)(n >> 24);
	head[5] = (unsigned char)(n >> 16);
	head[6] = (unsigned char)(n >> 8);
	head[7] = (unsigned char)n;
}
