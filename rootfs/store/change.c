/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/store/change.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"

#define WORDS_MAX 256

static int invalid_text(struct err *e)
{
	return err_set(e, ERR_INVALID, "the change is not valid UTF-8");
}

static json_t *config_member(json_t *run, const char *key, json_t *fresh)
{
	json_t *have = json_object_get(run, key);

	if (have && json_typeof(have) == json_typeof(fresh)) {
		json_decref(fresh);
		return have;
	}
	json_object_set_new(run, key, fresh);
	return fresh;
}

/* ---- words ---------------------------------------------------------------------------------- */

/* The value of a variable in the environment of run; NULL when it has none. */
static const char *variable_of(const json_t *run, const char *name, size_t n)
{
	const json_t *list = json_object_get(run, "Env");
	size_t i;

	for (i = json_array_size(list); i > 0; i--) {
		const char *have = json_string_value(json_array_get(list, i - 1));

		if (have && !strncmp(have, name, n) && have[n] == '=')
			return have + n + 1;
	}
	return NULL;
}

/* Adds the value of $NAME, ${NAME}, ${NAME:-WORD} or ${NAME:+WORD}; *at is then its last byte. */
static int add_variable(const json_t *run, const char **at, struct buf *word, struct err *e)
{
	const int braces = (*at)[1] == '{';
	const char *name = *at + 1 + braces, *value, *end, *other = "";
	size_t n = 0, len;

	while (isalnum((unsigned char)name[n]) || name[n] == '_')
		n++;
	if (!n && !braces)
		return buf_add(word, "$", 1, e);
	value = variable_of(run, name, n);
	len = value ? strlen(value) : 0;
	end = name + n;
	if (braces) {
		if (*end == ':' && (end[1] == '-' || end[1] == '+')) {
			const int instead = end[1] == '-';

			other = end + 2;
			end = other + strcspn(other, "}");
			if (instead ? len == 0 : len > 0)
				value = other, len = (size_t)(end - other);
			else if (!instead)
				len = 0;
		}
		if (!n || *end != '}')
			return err_set(e, ERR_INVALID, "failed to process \"%.80s\": it is not ${NAME}, ${NAME:-WORD} or ${NAME:+WORD}", *at);
		end++;
	}
	*at = end - 1;
	return buf_add(word, value ? value : "", len, e);
}

/* Reads the next word without its quotes, as a shell does, with the variables of run: 1, or 0 at the end. */
static int next_word(const json_t *run, const char **at, struct buf *word, struct err *e)
{
	const char *p = *at;
	char quote = 0;

	word->len = 0;
	p += strspn(p, " \t\n");
	if (!*p)
		return 0;
	for (; *p && (quote || !strchr(" \t\n", *p)); p++) {
		if (quote ? *p == quote : *p == '"' || *p == '\'') {
			quote = quote ? 0 : *p;
			continue;
		}
		if (*p == '$' && quote != '\'') {
			if (add_variable(run, &p, word, e) < 0)
				return -1;
			continue;
		}
		if (*p == '\\' && quote != '\'' && p[1])
			p++;
		if (buf_add(word, p, 1, e) < 0)
			return -1;
	}
	if (quote)
		return err_set(e, ERR_INVALID, "unexpected end of statement while looking for matching %s",
			       quote == '"' ? "double-quote" : "single-quote");
	*at = p;
	return buf_add(word, "", 1, e) < 0 ? -1 : 1;
}

/* Expands a text that is one word, whatever its blanks and quotes. */
static int expand_rest(const json_t *run, const char *p, struct buf *ret, struct err *e)
{
	for (; *p; p++)
		if (*p == '$' ? add_variable(run, &p, ret, e) < 0 : buf_add(ret, p, 1, e) < 0)
			return -1;
	return buf_add(ret, "", 1, e);
}

/* Returns a JSON array of strings, or NULL if the text is none. */
static json_t *array_of(const char *text)
{
	struct err ignored;
	json_t *list = text[0] == '[' ? json_parse(text, strlen(text), CHANGE_MAX, "change", &ignored) : NULL;
	const json_t *one;
	size_t i;

	json_array_foreach (list, i, one)
		if (!json_is_string(one)) {
			json_decref(list);
			return NULL;
		}
	if (list && !json_is_array(list)) {
		json_decref(list);
		return NULL;
	}
	return list;
}

/* Returns an array as it stands, or splits the text into words; NULL with e. */
static json_t *change_words(const json_t *run, const char *text, struct err *e)
{
	autojson json_t *list = array_of(text);
	autobuf struct buf word = BUF_INIT(CHANGE_MAX);
	int r = 0;

	if (list)
		return json_incref(list);
	list = json_array();
	while ((r = next_word(run, &text, &word, e)) > 0)
		if (json_array_size(list) >= WORDS_MAX || json_array_append_new(list, json_string(word.data)) < 0) {
			err_set(e, ERR_INVALID, "more than %d words in a change, or a word that is not UTF-8", WORDS_MAX);
			return NULL;
		}
	return r < 0 ? NULL : json_incref(list);
}

/* Returns ["a","b"] as it stands; any other line is for the shell. */
static json_t *change_command(const char *text)
{
	json_t *list = array_of(text);

	return list ? list : json_pack("[s,s,s]", "/bin/sh", "-c", text);
}

/* ---- the instructions ----------------------------------------------------------------------- */

static int set_cmd(json_t *run, const char *text, struct err *e)
{
	return json_object_set_new(run, "Cmd", change_command(text)) < 0 ? invalid_text(e) : 0;
}

/* Sets the entrypoint, and drops the command, which would become its arguments. */
static int set_entrypoint(json_t *run, const char *text, struct err *e)
{
	json_object_del(run, "Cmd");
	return json_object_set_new(run, "Entrypoint", change_command(text)) < 0 ? invalid_text(e) : 0;
}

static int put_env(json_t *run, const char *name, size_t n, const char *value, struct err *e)
{
	json_t *list = config_member(run, "Env", json_array()), *v = json_sprintf("%.*s=%s", (int)n, name, value);
	size_t i;

	if (!v)
		return invalid_text(e);
	for (i = json_array_size(list); i > 0; i--) {
		const char *have = json_string_value(json_array_get(list, i - 1));

		if (have && !strncmp(have, json_string_value(v), n + 1)) {
			json_array_set_new(list, i - 1, v);
			return 0;
		}
	}
	return json_array_append_new(list, v) < 0 ? err_nomem(e) : 0;
}

static int put_label(json_t *run, const char *name, size_t n, const char *value, struct err *e)
{
	return json_object_setn_new(config_member(run, "Labels", json_object()), name, n, json_string(value)) < 0 ?
		       invalid_text(e) : 0;
}

typedef int put_pair(json_t *run, const char *name, size_t n, const char *value, struct err *e);

/* Parses "A=B C='d e'", or the old form "A REST OF THE LINE". */
static int set_pairs(json_t *run, const char *text, const char *what, put_pair *put, struct err *e)
{
	const size_t first = strcspn(text, "= \t");
	autojson json_t *words = NULL;
	const json_t *one;
	size_t i;

	if (text[first] && text[first] != '=') {
		autobuf struct buf value = BUF_INIT(CHANGE_MAX);

		return expand_rest(run, text + first + strspn(text + first, " \t"), &value, e) < 0 ? -1 :
		       put(run, text, first, value.data, e);
	}
	words = change_words(run, text, e);
	if (!words)
		return -1;
	json_array_foreach (words, i, one) {
		const char *pair = json_string_value(one);
		const size_t n = strcspn(pair, "=");

		if (!n || !pair[n])
			return err_set(e, ERR_INVALID, n ? "Syntax error - can't find = in \"%.80s\". Must be of the form: name=value" :
							   "%.80s names can not be blank", n ? pair : what);
		if (put(run, pair, n, pair + n + 1, e) < 0)
			return -1;
	}
	return 0;
}

static int set_config_env(json_t *run, const char *text, struct err *e)
{
	return set_pairs(run, text, "ENV", put_env, e);
}

static int set_label(json_t *run, const char *text, struct err *e)
{
	return set_pairs(run, text, "LABEL", put_label, e);
}

/* Adds a port: "80", "80/udp", "8000-8010/tcp". */
static int expose_one(json_t *ports, const char *word, struct err *e)
{
	const char *slash = strchr(word, '/'), *proto = slash ? slash + 1 : "tcp";
	const size_t n = slash ? (size_t)(slash - word) : strlen(word);
	char number[16], *dash;
	uint64_t from, to;
	struct err ignored;

	snprintf(number, sizeof(number), "%.*s", (int)n, word);
	dash = strchr(number, '-');
	if (dash)
		*dash++ = '\0';
	if (n >= sizeof(number) || num_u64(number, "port", 1, UINT16_MAX, &from, &ignored) < 0 ||
	    num_u64(dash ? dash : number, "port", from, UINT16_MAX, &to, &ignored) < 0)
		return err_set(e, ERR_INVALID, "Invalid containerPort: %.80s", word);
	if (strcasecmp(proto, "tcp") && strcasecmp(proto, "udp") && strcasecmp(proto, "sctp"))
		return err_set(e, ERR_INVALID, "Invalid proto: %.40s", proto);
	for (; from <= to; from++) {
		char key[24];
		size_t i;

		snprintf(key, sizeof(key), "%u/%.4s", (unsigned)from, proto);
		for (i = 0; key[i]; i++)
			key[i] = (char)tolower((unsigned char)key[i]);
		if (json_object_set_new(ports, key, json_object()) < 0)
			return err_nomem(e);
	}
	return 0;
}

static int set_expose(json_t *run, const char *text, struct err *e)
{
	autojson json_t *words = change_words(run, text, e);
	json_t *ports = words ? config_member(run, "ExposedPorts", json_object()) : NULL;
	const json_t *one;
	size_t i;

	json_array_foreach (words, i, one)
		if (expose_one(ports, json_string_value(one), e) < 0)
			return -1;
	return words ? 0 : -1;
}

static int set_volume(json_t *run, const char *text, struct err *e)
{
	autojson json_t *words = change_words(run, text, e);
	json_t *volumes = words ? config_member(run, "Volumes", json_object()) : NULL;
	const json_t *one;
	size_t i;

	json_array_foreach (words, i, one) {
		if (!json_string_value(one)[0])
			return err_set(e, ERR_INVALID, "VOLUME specified can not be an empty string");
		if (json_object_set_new(volumes, json_string_value(one), json_object()) < 0)
			return invalid_text(e);
	}
	return words ? 0 : -1;
}

static int set_config_user(json_t *run, const char *text, struct err *e)
{
	autobuf struct buf value = BUF_INIT(CHANGE_MAX);

	if (expand_rest(run, text, &value, e) < 0)
		return -1;
	return json_object_set_new(run, "User", json_string(value.data)) < 0 ? invalid_text(e) : 0;
}

/* Sets the working directory; a relative one is below the previous one. */
static int set_workdir(json_t *run, const char *text, struct err *e)
{
	const char *before = json_string_value(json_object_get(run, "WorkingDir"));
	autobuf struct buf value = BUF_INIT(CHANGE_MAX);
	json_t *v;

	if (expand_rest(run, text, &value, e) < 0)
		return -1;
	text = value.data;
	v = text[0] == '/' ? json_string(text) :
				     json_sprintf("%s%s%s", before && before[0] ? before : "/",
						  before && before[0] && strcmp(before, "/") ? "/" : "", text);

	return json_object_set_new(run, "WorkingDir", v) < 0 ? invalid_text(e) : 0;
}

static int set_stopsignal(json_t *run, const char *text, struct err *e)
{
	return json_object_set_new(run, "StopSignal", json_string(text)) < 0 ? invalid_text(e) : 0;
}

static int set_onbuild(json_t *run, const char *text, struct err *e)
{
	const size_t n = strcspn(text, " \t");

	if (n == 7 && !strncasecmp(text, "ONBUILD", n))
		return err_set(e, ERR_INVALID, "Chaining ONBUILD via `ONBUILD ONBUILD` isn't allowed");
	if ((n == 10 && !strncasecmp(text, "MAINTAINER", n)) || (n == 4 && !strncasecmp(text, "FROM", n)))
		return err_set(e, ERR_INVALID, "%.*s isn't allowed as an ONBUILD trigger", (int)n, text);
	return json_array_append_new(config_member(run, "OnBuild", json_array()), json_string(text)) < 0 ? invalid_text(e) : 0;
}

/* Parses "30s", "1m30s", "500ms" into nanoseconds. */
static int duration(const char *name, const char *text, json_int_t *ret, struct err *e)
{
	static const struct { const char *unit; double ns; } units[] = {
		{ "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "m", 6e10 }, { "h", 36e11 },
	};
	const char *p = text;
	double sum = 0;
	size_t i;

	while (isdigit((unsigned char)*p) || *p == '.') {
		char *end;
		const double v = strtod(p, &end);
		const size_t n = strspn(end, "abcdefghijklmnopqrstuvwxyz");

		for (i = 0; i < ARRAY_LEN(units); i++)
			if (strlen(units[i].unit) == n && !strncmp(units[i].unit, end, n))
				break;
		if (i == ARRAY_LEN(units))
			break;
		sum += v * units[i].ns;
		p = end + n;
	}
	if (*p || p == text || !(sum >= 0 && sum < 9e18))
		return err_set(e, ERR_INVALID, "time: invalid duration \"%.40s\"", text);
	if (sum > 0 && sum < 1e6)
		return err_set(e, ERR_INVALID, "Interval \"%.20s\" cannot be less than 1ms", name);
	*ret = (json_int_t)sum;
	return 0;
}

static int health_option(json_t *health, const char *word, struct err *e)
{
	static const char *const names[][2] = {
		{ "interval", "Interval" }, { "timeout", "Timeout" }, { "start-period", "StartPeriod" },
		{ "start-interval", "StartInterval" },
	};
	const char *value = strchr(word, '=');
	const size_t n = value ? (size_t)(value - word) : strlen(word);
	json_int_t ns = 0;
	uint64_t retries;
	size_t i;

	value = value ? value + 1 : "";
	for (i = 0; i < ARRAY_LEN(names); i++)
		if (strlen(names[i][0]) == n && !strncmp(names[i][0], word, n))
			return duration(names[i][0], value, &ns, e) < 0 ? -1 :
			       json_object_set_new(health, names[i][1], json_integer(ns)) < 0 ? err_nomem(e) : 0;
	if (n != 7 || strncmp(word, "retries", n))
		return err_set(e, ERR_INVALID, "Unknown flag: %.40s", word);
	if (num_u64(value, "--retries", 0, 1000000, &retries, e) < 0)
		return -1;
	return json_object_set_new(health, "Retries", json_integer((json_int_t)retries)) < 0 ? err_nomem(e) : 0;
}

/* Parses "[--interval=D ...] CMD COMMAND", or NONE. */
static int set_health(json_t *run, const char *text, struct err *e)
{
	autojson json_t *health = json_object(), *list = NULL;
	char word[64];

	while (!strncmp(text, "--", 2)) {
		const size_t n = strcspn(text, " \t");

		if (n >= sizeof(word))
			return err_set(e, ERR_INVALID, "Unknown flag: %.40s", text + 2);
		snprintf(word, sizeof(word), "%.*s", (int)n - 2, text + 2);
		if (health_option(health, word, e) < 0)
			return -1;
		text += n + strspn(text + n, " \t");
	}
	if (!strcasecmp(text, "NONE")) {
		json_object_set_new(health, "Test", json_pack("[s]", "NONE"));
	} else if (!strncasecmp(text, "CMD", 3) && strchr(" \t", text[3]) && text[3]) {
		text += 3 + strspn(text + 3, " \t");
		list = array_of(text);
		if (list)
			json_array_insert_new(list, 0, json_string("CMD"));
		json_object_set_new(health, "Test", list ? json_incref(list) : json_pack("[s,s]", "CMD-SHELL", text));
	} else {
		return err_set(e, ERR_INVALID, "Unknown type \"%.40s\" in HEALTHCHECK (try CMD)", text);
	}
	return json_object_set(run, "Healthcheck", health) < 0 ? err_nomem(e) : 0;
}

static int is_instruction(const char *line, const char *name)
{
	line += strspn(line, " \t\n");
	return strcspn(line, " \t\n") == strlen(name) && !strncasecmp(line, name, strlen(name));
}

int change_apply_all(json_t *run, const json_t *list, struct err *e)
{
	autojson json_t *command = NULL;	/* of a CMD of this list */
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, one) {
		const char *line = json_string_value(one);

		if (!line)
			return err_set(e, ERR_INVALID, "a change is no string");
		if (change_apply(run, line, e) < 0)
			return -1;
		if (is_instruction(line, "CMD")) {
			json_decref(command);
			command = json_incref(json_object_get(run, "Cmd"));
		} else if (command && is_instruction(line, "ENTRYPOINT") && json_object_set(run, "Cmd", command) < 0) {
			return err_nomem(e);
		}
	}
	return 0;
}

int change_apply(json_t *run, const char *instruction, struct err *e)
{
	static const struct { const char *name; int (*apply)(json_t *, const char *, struct err *); } known[] = {
		{ "CMD", set_cmd }, { "ENTRYPOINT", set_entrypoint }, { "ENV", set_config_env }, { "EXPOSE", set_expose },
		{ "HEALTHCHECK", set_health }, { "LABEL", set_label }, { "ONBUILD", set_onbuild },
		{ "STOPSIGNAL", set_stopsignal }, { "USER", set_config_user }, { "VOLUME", set_volume }, { "WORKDIR", set_workdir },
	};
	static const char *const others[] = { "FROM", "RUN", "COPY", "ADD", "ARG", "SHELL", "MAINTAINER" };
	autofree char *text = strndup(instruction + strspn(instruction, " \t\n"), CHANGE_MAX);
	size_t n, len, i;

	if (!text)
		return err_nomem(e);
	len = strlen(text);
	while (len && strchr(" \t\n", text[len - 1]))
		text[--len] = '\0';
	n = strcspn(text, " \t\n");
	for (i = 0; i < ARRAY_LEN(others); i++)
		if (strlen(others[i]) == n && !strncasecmp(others[i], text, n))
			return err_set(e, ERR_INVALID, "%s is not a valid change command", others[i]);
	for (i = 0; i < ARRAY_LEN(known); i++) {
		const char *rest = text + n + strspn(text + n, " \t\n");

		if (strlen(known[i].name) != n || strncasecmp(known[i].name, text, n))
			continue;
		return *rest ? known[i].apply(run, rest, e) :
			       err_set(e, ERR_INVALID, "%s requires at least one argument", known[i].name);
	}
	for (i = 0; i < n; i++)
		text[i] = (char)toupper((unsigned char)text[i]);
	return err_set(e, ERR_INVALID, "dockerfile parse error line 1: unknown instruction: %.*s", (int)(n < 60 ? n : 60), text);
}
