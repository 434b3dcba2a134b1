/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/engine/create.h"
#include "manager/engine/image.h"

#define JSON_MAX (1u << 20)
#define REF_MAX 400

int engine_build_init(struct engine_build *b, struct err *e)
{
	memset(b, 0, sizeof(*b));
	b->words = json_array();
	return b->words ? 0 : err_nomem(e);
}

void engine_build_release(struct engine_build *b)
{
	json_decref(b->words);
	b->words = NULL;
}

static int add_docker_build_word(struct engine_build *b, struct err *e, const char *option, const char *key,
		const char *value)
{
	json_t *text = key ? json_sprintf("--%s=%s=%s", option, key, value) :
			     json_sprintf("--%s=%s", option, value);

	if (json_array_size(b->words) >= ENGINE_BUILD_ARGS) {
		json_decref(text);
		return err_set(e, ERR_LIMIT, "more than %d options of a build", ENGINE_BUILD_ARGS);
	}
	return json_array_append_new(b->words, text) < 0 ?
		       err_set(e, ERR_INVALID, "the %s of a build is not UTF-8", option) :
		       0;
}

/* {"NAME": VALUE}, where null is a value of the client's environment that it does not have. */
static int add_pairs(struct engine_build *b, const char *option, const char *text, struct err *e)
{
	autojson json_t *j = json_parse(text, strlen(text), JSON_MAX, option, e);
	const char *key;
	json_t *v;

	if (!j)
		return -1;
	if (!json_is_object(j) && !json_is_null(j))
		return err_set(e, ERR_INVALID, "the %ss of a build are not an object", option);
	json_object_foreach (j, key, v) {
		if (json_is_null(v))
			continue;
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID, "the %s %.80s is not a string", option, key);
		if (add_docker_build_word(b, e, option, key, json_string_value(v)) < 0)
			return -1;
	}
	return 0;
}

static int add_build_network(struct engine_build *b, const char *mode, struct err *e)
{
	if (!mode || !mode[0] || !strcmp(mode, "default"))
		mode = "bridge";
	return add_docker_build_word(b, e, "network", NULL, mode);
}

static int add_tag(struct engine_build *b, const char *name, struct err *e)
{
	char ref[REF_MAX], room[REF_MAX + 8];

	if (!name[0])
		return 0;
	if (engine_image_ref(name, NULL, ref, sizeof(ref)) < 0)
		return err_set(e, ERR_INVALID, "invalid reference format: %.200s", name);
	b->tags++;
	return add_docker_build_word(b, e, "tag", NULL, engine_image_tagged(ref, room, sizeof(room)));
}

/* {"Name", "Soft", "Hard"} of each. */
static int add_build_ulimits(struct engine_build *b, const char *text, struct err *e)
{
	autojson json_t *j = json_parse(text, strlen(text), JSON_MAX, "ulimits", e);
	const json_t *one;
	size_t i;

	if (!j)
		return -1;
	if (!json_is_array(j))
		return err_set(e, ERR_INVALID, "the ulimits of a build are an array");
	json_array_foreach (j, i, one) {
		const char *name = json_string_value(json_object_get(one, "Name"));
		const json_t *soft = json_object_get(one, "Soft"), *hard = json_object_get(one, "Hard");
		char value[64];

		if (!name || !json_is_integer(soft) || (hard && !json_is_integer(hard)))
			return err_set(e, ERR_INVALID, "a ulimit of a build has Name, Soft and Hard");
		snprintf(value, sizeof(value), "%lld:%lld", (long long)json_integer_value(soft), (long long)json_integer_value(hard ? hard : soft));
		if (add_docker_build_word(b, e, "ulimit", name, value) < 0)
			return -1;
	}
	return 0;
}

/* A number of the query, which engine_build_end() reads with others. */
static int note_number(const char *key, const char *value, long long *ret, struct err *e)
{
	char *end;

	*ret = strtoll(value, &end, 10);
	return *end || *ret > 1LL << 60 || *ret < -1 ? err_set(e, ERR_INVALID, "invalid value of %s: %.40s", key, value) : 0;
}

static int add_shares(struct engine_build *b, const char *value, struct err *e)
{
	long long shares;
	char weight[32];

	if (note_number("cpushares", value, &shares, e) < 0)
		return -1;
	if (shares < 2)
		return 0;
	snprintf(weight, sizeof(weight), "%lld", engine_cpu_weight(shares < ENGINE_SHARES_MAX ? shares : ENGINE_SHARES_MAX));
	return add_docker_build_word(b, e, "cpu-weight", NULL, weight);
}

static int add_build_limits(struct engine_build *b, struct err *e)
{
	char text[40];

	if (b->quota > 0) {
		const long long milli = b->quota > 1LL << 40 ? -1 : engine_cpu_milli(b->quota, b->period);

		if (milli < 10)
			return err_set(e, ERR_INVALID, "cpuquota %lld is out of range", b->quota);
		snprintf(text, sizeof(text), "%lld.%03lld", milli / 1000, milli % 1000);
		if (add_docker_build_word(b, e, "cpus", NULL, text) < 0)
			return -1;
	}
	if (!b->swap)
		return 0;
	if (b->swap > 0 && b->swap < b->memory)
		return err_set(e, ERR_INVALID, "Minimum memoryswap limit should be larger than memory limit, see usage");
	if (b->swap > 0 && !b->memory)
		return err_set(e, ERR_INVALID, "You should always set the Memory limit when using Memoryswap limit, see usage");
	snprintf(text, sizeof(text), "%lld", b->swap - b->memory);
	return add_docker_build_word(b, e, "swap", NULL, b->swap < 0 ? "unlimited" : text);
}

int engine_build_end(struct engine_build *b, struct err *e)
{
	char name[80];

	if (add_build_limits(b, e) < 0)
		return -1;
	return b->tags ? 0 :
	       engine_image_new_name(name, sizeof(name), e) < 0 ? -1 : add_docker_build_word(b, e, "tag", NULL, name);
}

static int refuse_build_option(const char *key, const char *value, struct err *e)
{
	if (!strcmp(key, "remote") && strcmp(value, "client-session"))
		return err_set(e, ERR_UNSUPPORTED,
			       "a context from %.200s is not fetched here: send it as the body",
			       value);
	if (!strcmp(key, "version") && !strcmp(value, "1"))
		return 0;
	return err_set(e, ERR_UNSUPPORTED, "%s", ENGINE_NO_BUILDKIT);
}

static int is_build_word(const char *text, const char *const *words, size_t n)
{
	while (n--)
		if (!strcmp(text, words[n]))
			return 1;
	return 0;
}

int engine_build_wants_cache(const char *value)
{
	struct err ignored;
	autojson json_t *j =
		value ? json_parse(value, strlen(value), JSON_MAX, "cachefrom", &ignored) : NULL;

	return json_is_array(j) && json_array_size(j);
}

int engine_build_set(struct engine_build *b, const char *key, const char *value, struct err *e)
{
	static const char *const known[] = {"target", "memory"};
	char platform[ENGINE_PLATFORM];
	static const char *const nothing[] = {"0", "-1", "false", "null", "[]"};

	if (!strcmp(key, "networkmode"))
		return add_build_network(b, value, e);
	if (!value || !value[0])
		return 0;
	if (!strcmp(key, "remote") || !strcmp(key, "version"))
		return refuse_build_option(key, value, e);
	/* as Go writes a map or list that nobody made */
	if ((!strcmp(key, "buildargs") || !strcmp(key, "labels") || !strcmp(key, "ulimits")) && !strcmp(value, "null"))
		return 0;
	if (!strcmp(key, "buildargs"))
		return add_pairs(b, "build-arg", value, e);
	if (!strcmp(key, "labels"))
		return add_pairs(b, "label", value, e);
	if (!strcmp(key, "t"))
		return add_tag(b, value, e);
	if (!strcmp(key, "pull"))
		return add_docker_build_word(b, e, "pull", NULL, "always");
	if (!strcmp(key, "nocache"))
		return json_array_append_new(b->words, json_string("--no-cache")) < 0 ? err_nomem(e) : 0;
	if (!strcmp(key, "dockerfile"))
		return add_docker_build_word(b, e, "file", NULL, value);
	if (!strcmp(key, "memory") && note_number(key, value, &b->memory, e) < 0)
		return -1;
	if ((!strcmp(key, "memory") || !strcmp(key, "shmsize")) && !strcmp(value, "0"))
		return 0;
	if (!strcmp(key, "memswap"))
		return note_number(key, value, &b->swap, e);
	if (!strcmp(key, "cpuquota"))
		return note_number(key, value, &b->quota, e);
	if (!strcmp(key, "cpuperiod"))
		return note_number(key, value, &b->period, e);
	if (!strcmp(key, "cpushares"))
		return add_shares(b, value, e);
	if (!strcmp(key, "cpusetcpus"))
		return add_docker_build_word(b, e, "cpuset", NULL, value);
	if (!strcmp(key, "ulimits"))
		return add_build_ulimits(b, value, e);
	if (!strcmp(key, "platform"))
		return engine_platform(value, platform, e) < 0 ? -1 : add_docker_build_word(b, e, "platform", NULL, platform);
	if (!strcmp(key, "shmsize"))
		return add_docker_build_word(b, e, "shm-size", NULL, value);
	if (!strcmp(key, "extrahosts"))
		return add_docker_build_word(b, e, "add-host", NULL, value);
	if (!is_build_word(key, known, ARRAY_LEN(known)))
		return is_build_word(value, nothing, ARRAY_LEN(nothing)) ?
			       0 :
			       err_set(e, ERR_UNSUPPORTED,
				       "a build does not keep the option %s: leave it out", key);
	return add_docker_build_word(b, e, key, NULL, value);
}

/* ---- progress -------------------------------------------------------------------------------- */

static int step_begins_with(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* Of how buildah puts an image away, which is none of the client's. */
static int is_chatter(const char *text)
{
	static const char *const words[] = {"Getting image source signatures",
					    "Copying blob ",
					    "Copying config ",
					    "Writing manifest to image",
					    "Storing signatures",
					    "COMMIT",
					    "Successfully tagged localhost/berth-made:",
					    "Error: building at STEP "};
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++)
		if (step_begins_with(text, words[i]))
			return 1;
	return strlen(text) == 64 && !text[strspn(text, "0123456789abcdef")];
}

#define CACHED "--> Using cache "

static void add_stream_text(json_t *list, json_t *text)
{
	json_array_append_new(list, json_pack("{s:o}", "stream", text));
}

static void add_stream_string(json_t *list, const char *text)
{
	const char *commit = text[0] == '[' ? strstr(text, "] COMMIT ") : NULL;
	const char *step = text[0] == '[' && strstr(text, "] STEP ") ? strstr(text, "STEP ") : text;
	const char *colon = step_begins_with(step, "STEP ") ? strchr(step, ':') : NULL;

	if (is_chatter(text) || commit)
		return;
	if (step_begins_with(text, CACHED)) {
		add_stream_text(list, json_string(" ---> Using cache\n"));
		return;
	}
	if (step_begins_with(text, "--> ")) {
		add_stream_text(list, json_sprintf(" -%s\n", text));
		return;
	}
	text = colon ? step : text;
	if (colon)
		add_stream_text(list, json_sprintf("Step %.*s : %s\n", (int)(colon - text - 5), text + 5,
					      colon + 1 + (colon[1] == ' ')));
	else
		add_stream_text(list, json_sprintf("%s\n", text));
}

static void add_build_end(json_t *list, const json_t *event, const char *digest, int quiet)
{
	const char *colon = strchr(digest, ':');
	char room[REF_MAX + 8];
	const json_t *name;
	size_t i;

	if (quiet) {
		add_stream_text(list, json_sprintf("%s\n", digest));
		return;
	}
	json_array_append_new(list, json_pack("{s:{s:s}}", "aux", "ID", digest));
	add_stream_text(list, json_sprintf("Successfully built %.12s\n", colon ? colon + 1 : digest));
	json_array_foreach (json_object_get(event, "names"), i, name)
		if (!engine_image_is_unnamed(json_string_value(name)))
			add_stream_text(list, json_sprintf("Successfully tagged %s\n", engine_image_tagged(json_string_value(name), room, sizeof(room))));
}

/* A list of words as a line; text that is none, for the shell. */
static int is_step(const char *text)
{
	return step_begins_with(text, "STEP ") || (text[0] == '[' && strstr(text, "] STEP "));
}

void engine_build_note_step(const json_t *event, char *step, size_t n)
{
	const char *text = json_string_value(json_object_get(event, "text"));

	if (text && is_step(text))
		snprintf(step, n, "%s", text);
}

static json_t *shown_command(const char *run, size_t n)
{
	struct err ignored;
	autojson json_t *list = run[0] == '[' ? json_parse(run, n, JSON_MAX, "RUN", &ignored) : NULL;
	json_t *line = NULL, *longer;
	const json_t *one;
	size_t i;

	if (!json_is_array(list))
		return json_sprintf("/bin/sh -c %.*s", (int)n, run);
	json_array_foreach (list, i, one) {
		longer = json_sprintf("%s%s%s", line ? json_string_value(line) : "", line ? " " : "",
				      json_is_string(one) ? json_string_value(one) : "");
		json_decref(line);
		line = longer;
	}
	return line ? line : json_string("");
}

json_t *engine_build_error(const char *message, const char *step)
{
	static const char at[] = "building at STEP \"RUN ", status[] = "exit status ";
	const char *failed = strstr(message, at), *code = failed ? strstr(failed, status) : NULL;
	const char *run = strstr(step, ": RUN ");
	autojson json_t *command = NULL;
	const long n = code && run ? strtol(code + strlen(status), NULL, 10) : 0;

	if (n > 0) {
		run += strlen(": RUN ");
		command = shown_command(run, strlen(run));
	}
	if (!command)
		return json_pack("{s:s}", "message", message);
	return json_pack("{s:I,s:o}", "code", (json_int_t)n, "message",
			 json_sprintf("The command '%s' returned a non-zero code: %ld", json_string_value(command), n));
}

json_t *engine_build_lines(const json_t *event, int quiet)
{
	const char *kind = json_string_value(json_object_get(event, "event")),
		   *text = json_string_value(json_object_get(event, "text")),
		   *digest = json_string_value(json_object_get(event, "digest"));
	json_t *list = json_array();

	if (list && kind && !strcmp(kind, "line") && text && !quiet)
		add_stream_string(list, text);
	else if (list && kind && !strcmp(kind, "done") && digest)
		add_build_end(list, event, digest, quiet);
	return list;
}
