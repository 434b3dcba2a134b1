/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/suggest.h"
#include "base/toml.h"

/* ---- names of environment variables ---- */

int config_is_env_name(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		char c = s[i];
		int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

		if (!letter && (i == 0 || c < '0' || c > '9') && c != '.' && c != '-')
			return 0;
	}
	return n > 0;
}

/* ---- loading ---- */

/* ---- one value ---- */

static void *config_field(struct config *c, const struct config_key *k)
{
	return (char *)c + k->offset;
}

static int set_config_string(struct config *c, const struct config_key *k, const char *v, const char *what, struct err *e)
{
	size_t n = strlen(v), i;

	for (i = 0; i < n; i++)
		if ((unsigned char)v[i] < 0x20 || v[i] == 0x7f)
			return err_set(e, ERR_CONFIG, "%s has a control character in it", what);
	if (n < k->min || n > k->max)
		return err_set(e, ERR_CONFIG, "%s has %zu bytes; hint: %" PRIu64 " to %" PRIu64, what, n, k->min, k->max);
	if (k->check && k->check(v, what, e) < 0)
		return -1;
	memcpy(config_field(c, k), v, n + 1);
	return 0;
}

static int set_config_number(struct config *c, const struct config_key *k, uint64_t v, const char *what, struct err *e)
{
	if ((v < k->min || v > k->max) && k->type == CONFIG_CPUS)
		return err_set(e, ERR_CONFIG, "%s is out of range; hint: %g to %g", what, (double)k->min / 1000, (double)k->max / 1000);
	if (v < k->min || v > k->max)
		return err_set(e, ERR_CONFIG, "%s is out of range; hint: %" PRIu64 " to %" PRIu64 "%s", what, k->min, k->max,
			       k->type == CONFIG_DURATION ? " ms" : k->type == CONFIG_SIZE ? " bytes" : "");
	if (k->type == CONFIG_U32)
		*(uint32_t *)config_field(c, k) = (uint32_t)v;
	else if (k->type == CONFIG_BOOL)
		*(int *)config_field(c, k) = (int)v;
	else
		*(uint64_t *)config_field(c, k) = v;
	return 0;
}

/* Sets a key from text: a default, a variable, or a string for which the file may have a number. */
static int set_config_text(struct config *c, const struct config_key *k, const char *v, const char *what, struct err *e)
{
	uint64_t n;
	int result;

	switch (k->type) {
	case CONFIG_STRING:
		return set_config_string(c, k, v, what, e);
	case CONFIG_LIST:
		memcpy(config_field(c, k), v, strlen(v) + 1);	/* only for the table's own defaults */
		return 0;
	case CONFIG_SIZE:
		result = num_size(v, what, k->min, k->max, &n, e);
		break;
	case CONFIG_DURATION:
		result = num_duration_ms(v, what, k->max, &n, e);
		break;
	case CONFIG_CPUS:
		result = num_milli(v, what, k->min, k->max, &n, e);
		break;
	case CONFIG_BOOL:
		n = !strcmp(v, "true");
		result = 0;
		break;
	default:
		result = num_u64(v, what, k->min, k->max, &n, e);
		break;
	}
	return result < 0 ? -1 : set_config_number(c, k, n, what, e);
}

static const char *wanted_config_type(enum config_type type)
{
	static const char *const names[] = {
		[CONFIG_STRING] = "a string", [CONFIG_SIZE] = "a size, such as \"512m\" or bytes",
		[CONFIG_DURATION] = "a duration, such as \"5m\" or seconds", [CONFIG_CPUS] = "a number, such as 0.5",
		[CONFIG_COUNT] = "an integer", [CONFIG_U32] = "an integer", [CONFIG_BOOL] = "true or false",
		[CONFIG_LIST] = "an array of strings",
	};

	return names[type];
}

static int wrong_type(const struct config_key *k, const char *what, struct err *e)
{
	return err_set(e, ERR_CONFIG, "%s has the wrong type; hint: %s", what, wanted_config_type(k->type));
}

static int set_config_list(struct config *c, const struct config_key *k, const json_t *v, const char *what, struct err *e)
{
	char *out = config_field(c, k);
	size_t len = 0, i, n;
	const json_t *item;

	out[0] = '\0';
	json_array_foreach(v, i, item) {
		const char *s = json_string_value(item), *p;

		if (!s)
			return wrong_type(k, what, e);
		n = strlen(s);
		for (p = s; *p; p++)
			if ((unsigned char)*p < 0x20 || *p == 0x7f)
				return err_set(e, ERR_CONFIG, "%s has a control character in it", what);
		if (len + n + 1 > k->max)
			return err_set(e, ERR_CONFIG, "%s has more than %" PRIu64 " bytes", what, k->max);
		if (k->check && k->check(s, what, e) < 0)
			return -1;
		if (len)
			out[len++] = '\n';
		memcpy(out + len, s, n + 1);
		len += n;
	}
	return 0;
}

static int set_json(struct config *c, const struct config_key *k, const json_t *v, const char *what, struct err *e)
{
	int is_number = json_is_integer(v) && k->type != CONFIG_STRING && k->type != CONFIG_BOOL && k->type != CONFIG_LIST;
	uint64_t scale = k->type == CONFIG_DURATION || k->type == CONFIG_CPUS ? 1000 : 1, n;
	double milli;

	if (json_is_string(v) && (k->type == CONFIG_STRING || k->type == CONFIG_SIZE || k->type == CONFIG_DURATION))
		return set_config_text(c, k, json_string_value(v), what, e);
	if (is_number) {
		if (json_integer_value(v) < 0 || __builtin_mul_overflow((uint64_t)json_integer_value(v), scale, &n))
			n = UINT64_MAX;
		return set_config_number(c, k, n, what, e);
	}
	if (json_is_real(v) && k->type == CONFIG_CPUS) {
		milli = json_real_value(v) * 1000;
		if (!(milli >= 0 && milli <= (double)k->max))
			return set_config_number(c, k, UINT64_MAX, what, e);
		n = (uint64_t)(milli + 0.5);
		if (milli - (double)n > 1e-6 || (double)n - milli > 1e-6)
			return err_set(e, ERR_CONFIG, "%s has more than three decimals", what);
		return set_config_number(c, k, n, what, e);
	}
	if (json_is_array(v) && k->type == CONFIG_LIST)
		return set_config_list(c, k, v, what, e);
	if (json_is_boolean(v) && k->type == CONFIG_BOOL)
		return set_config_number(c, k, json_is_true(v), what, e);
	return wrong_type(k, what, e);
}

/* ---- the file ---- */

static const struct config_key *find_config_key(const char *section, const char *name)
{
	size_t i;

	for (i = 0; i < config_key_count; i++)
		if ((!section || !strcmp(config_keys[i].section, section)) && !strcmp(config_keys[i].name, name))
			return &config_keys[i];
	return NULL;
}

static int unknown_section(const char *section, struct err *e)
{
	const struct config_key *elsewhere = find_config_key(NULL, section);
	struct suggest s = SUGGEST_INIT(section);
	size_t i;

	if (elsewhere)
		return err_set(e, ERR_CONFIG, "key %s stands outside its section; hint: put it under [%s]", section,
			       elsewhere->section);
	for (i = 0; i < config_key_count; i++)
		suggest_offer(&s, config_keys[i].section);
	err_set(e, ERR_CONFIG, "unknown section [%.64s]", section);
	return s.best ? err_hint(e, "did you mean [%s]?", s.best) :
			err_hint(e, "berth config show lists sections and keys");
}

static int unknown_key(const char *section, const char *name, struct err *e)
{
	const struct config_key *elsewhere = find_config_key(NULL, name);
	struct suggest s = SUGGEST_INIT(name);
	size_t i;

	err_set(e, ERR_CONFIG, "unknown key %.64s in [%s]", name, section);
	/* "memory" for memory_limit is the nearer mistake */
	for (i = 0; i < config_key_count; i++)
		if (!strcmp(config_keys[i].section, section) && !strncmp(config_keys[i].name, name, strlen(name)))
			return err_hint(e, "did you mean %s?", config_keys[i].name);
	if (elsewhere)
		return err_hint(e, "it belongs under [%s]", elsewhere->section);
	for (i = 0; i < config_key_count; i++)
		if (!strcmp(config_keys[i].section, section))
			suggest_offer(&s, config_keys[i].name);
	return s.best ? err_hint(e, "did you mean %s?", s.best) :
			err_hint(e, "berth config show lists sections and keys");
}

const char *const config_service_sections[] = { "store", "storage", "session", "docker", "preview", "otlp", "ssh" };
const size_t config_service_section_count = ARRAY_LEN(config_service_sections);

/* Tells whether berthd itself reads the section; berthd --check-config checks it. */
static int is_service_section(const char *section)
{
	size_t i = 0;

	while (i < config_service_section_count && strcmp(config_service_sections[i], section))
		i++;
	return i < config_service_section_count || !strcmp(section, "pool") || !strcmp(section, "tenant");
}

static int apply_section(struct config *c, const char *section, json_t *table, struct err *e)
{
	const char *name;
	json_t *v;
	size_t i;

	for (i = 0; i < config_key_count && strcmp(config_keys[i].section, section); i++)
		;
	if (i == config_key_count)
		return is_service_section(section) ? 0 : unknown_section(section, e);
	if (!json_is_object(table))
		return err_set(e, ERR_CONFIG, "%s is not a table; hint: [%s]", section, section);
	json_object_foreach(table, name, v) {
		const struct config_key *k = find_config_key(section, name);
		char what[80];

		if (!k)
			return unknown_key(section, name, e);
		snprintf(what, sizeof(what), "%s.%s", section, name);
		if (set_json(c, k, v, what, e) < 0)
			return -1;
		c->source[k - config_keys] = CONFIG_FROM_FILE;
	}
	return 0;
}

/* Checks that involve several keys. */
static int check_whole(const struct config *c, struct err *e)
{
	if (c->id_base % 65536)
		return err_set(e, ERR_CONFIG, "ids.base %" PRIu32 " is not a multiple of 65536", c->id_base);
	/* uid 4294967295 means "no change" to the kernel: the last range is never handed out */
	if ((uint64_t)c->id_base + (uint64_t)c->id_count * 65536 > UINT64_C(4294901760))
		return err_set(e, ERR_CONFIG, "ids.base and ids.count reach past id 4294901760");
	return 0;
}

static int config_text(struct config *c, const char *text, size_t n, const char *what, struct err *e)
{
	autojson json_t *doc = toml_parse(text, n, what, e);
	const char *section;
	json_t *table;

	if (!doc) {
		e->code = e->code == ERR_NOMEM ? ERR_NOMEM : ERR_CONFIG;
		return -1;
	}
	json_object_foreach(doc, section, table)
		if (apply_section(c, section, table, e) < 0)
			goto bad;
	if (check_whole(c, e) == 0)
		return 0;
bad:
	e->code = ERR_CONFIG;
	return err_wrap(e, "%.200s", what);
}

/*
 * Reads the file, which decides which directories root uses and removes, so no other user may be
 * able to write it.
 */
static int read_config_file(int fd, const char *path, struct buf *b, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_code_sys(e, ERR_CONFIG, "stat %.200s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_CONFIG, "%.200s is not a regular file", path);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return err_set(e, ERR_CONFIG, "%.200s belongs to user %u; hint: chown root %.100s", path,
			       (unsigned)st.st_uid, path);
	if (st.st_mode & 022)
		return err_set(e, ERR_CONFIG, "%.200s may be written by others; hint: chmod go-w %.100s", path, path);
	if (io_read_all(fd, b, path, e) < 0) {
		e->code = ERR_CONFIG;
		return -1;
	}
	return 0;
}

/* label is what errors and `config show` call it. */
static int load_path(struct config *c, const char *path, const char *label, int may_be_absent, struct err *e)
{
	autobuf struct buf b = BUF_INIT(CONFIG_MAX_BYTES);
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0) {
		if (may_be_absent && errno == ENOENT)
			return 0;
		return err_code_sys(e, ERR_CONFIG, "open %.200s", label);
	}
	if (read_config_file(fd, label, &b, e) < 0 || config_text(c, b.data ? b.data : "", b.len, label, e) < 0)
		return -1;
	snprintf(c->file, sizeof(c->file), "%s", label);
	return 0;
}

static _Thread_local const char *read_from, *read_label;

void config_read_from(const char *path, const char *label)
{
	read_from = path;
	read_label = label;
}

const char *config_source(int *ret_may_be_absent)
{
	const char *named = secure_getenv("BERTH_CONFIG");

	*ret_may_be_absent = !read_from && !named;
	return read_from ? read_from : named ? named : CONFIG_PATH;
}

int config_copy(const char *source, int may_be_absent, int dirfd, const char *name, struct err *e)
{
	autobuf struct buf b = BUF_INIT(CONFIG_MAX_BYTES);
	autoclose int fd = open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 && !(may_be_absent && errno == ENOENT))
		return err_code_sys(e, ERR_CONFIG, "open %.200s", source);
	if (fd >= 0 && read_config_file(fd, source, &b, e) < 0)
		return -1;
	return io_replace_file(dirfd, name, b.data ? b.data : "", b.len, 0600, 0, e);
}

static int apply_env(struct config *c, struct err *e)
{
	size_t i;

	for (i = 0; i < config_key_count; i++) {
		const struct config_key *k = &config_keys[i];
		const char *v = k->env ? secure_getenv(k->env) : NULL;
		char what[64];

		if (!v)
			continue;
		snprintf(what, sizeof(what), "$%s", k->env);
		if (set_config_text(c, k, v, what, e) < 0) {
			e->code = ERR_CONFIG;
			return -1;
		}
		c->source[i] = CONFIG_FROM_ENV;
	}
	return 0;
}

/* ---- outwards ---- */

int config_set(void *base, const struct config_key *k, const json_t *v, const char *what, struct err *e)
{
	return set_json(base, k, v, what, e);
}

int config_set_preset(void *base, const struct config_key *k, struct err *e)
{
	return set_config_text(base, k, k->preset, k->name, e);
}

json_t *config_document(struct err *e)
{
	autobuf struct buf b = BUF_INIT(CONFIG_MAX_BYTES);
	int may_be_absent;
	const char *path = config_source(&may_be_absent), *label = read_label ? read_label : path;
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	json_t *doc;

	if (fd < 0 && errno == ENOENT && may_be_absent)
		return json_object();
	if (fd < 0)
		err_code_sys(e, ERR_CONFIG, "open %.200s", label);
	if (fd < 0 || read_config_file(fd, label, &b, e) < 0)
		return NULL;
	doc = toml_parse(b.data ? b.data : "", b.len, label, e);
	if (!doc)
		e->code = ERR_CONFIG;
	return doc;
}

void config_defaults(struct config *ret)
{
	struct err e;
	size_t i;

	memset(ret, 0, sizeof(*ret));
	for (i = 0; i < config_key_count; i++)
		if (set_config_text(ret, &config_keys[i], config_keys[i].preset, config_keys[i].name, &e) < 0)
			abort();	/* the table contradicts itself; a unit test loads it */
}

int config_load(struct config *ret, struct err *e)
{
	int may_be_absent;
	const char *path = config_source(&may_be_absent);

	config_defaults(ret);
	if (load_path(ret, path, read_label ? read_label : path, may_be_absent, e) < 0)
		return -1;
	return apply_env(ret, e);
}

int config_load_file(const char *path, struct config *ret, struct err *e)
{
	config_defaults(ret);
	return load_path(ret, path, path, 0, e);
}

int config_parse(const char *text, size_t n, const char *what, struct config *ret, struct err *e)
{
	config_defaults(ret);
	return config_text(ret, text, n, what, e);
}

int config_is_set(const struct config *c, const char *section, const char *name)
{
	size_t i;

	for (i = 0; i < config_key_count; i++)
		if (!strcmp(config_keys[i].section, section) && !strcmp(config_keys[i].name, name))
			return c->source[i] != CONFIG_FROM_DEFAULT;
	return 0;
}

/* ---- values as TOML ---- */

/* The way back from a value to the TOML that means it. */

/* set_string() let no control character in, so quote and backslash are all there is to escape. */
static void show_string(const char *s, char *out, size_t n)
{
	size_t len = 0;

	out[len++] = '"';
	for (; *s && len + 4 < n; s++) {
		if (*s == '"' || *s == '\\')
			out[len++] = '\\';
		out[len++] = *s;
	}
	out[len++] = '"';
	out[len] = '\0';
}

static void show_list(const char *s, char *out, size_t n)
{
	size_t len = 1, part, i;

	out[0] = '[';
	for (; *s && len + 8 < n; s += part + (s[part] == '\n')) {
		part = strcspn(s, "\n");
		len += (size_t)snprintf(out + len, n - len, "%s\"", len > 1 ? ", " : "");
		for (i = 0; i < part && len + 8 < n; i++) {
			if (s[i] == '"' || s[i] == '\\')
				out[len++] = '\\';
			out[len++] = s[i];
		}
		out[len++] = '"';
	}
	snprintf(out + len, n - len, "]");
}

static void show_size(uint64_t v, char *out, size_t n)
{
	static const char units[] = "kmgt";
	size_t i = 0;

	if (!v || v % 1024) {
		snprintf(out, n, "%" PRIu64, v);
		return;
	}
	for (v /= 1024; v % 1024 == 0 && units[i + 1]; v /= 1024)
		i++;
	snprintf(out, n, "\"%" PRIu64 "%c\"", v, units[i]);
}

static void config_show_cpus(uint64_t milli, char *out, size_t n)
{
	int len = snprintf(out, n, "%" PRIu64 ".%03" PRIu64, milli / 1000, milli % 1000);

	while (len > 3 && out[len - 1] == '0' && out[len - 2] != '.')
		out[--len] = '\0';
}

const char *config_value_toml(const void *base, const struct config_key *k, char *out, size_t n)
{
	const void *p = (const char *)base + k->offset;
	uint64_t v = 0;

	if (k->size == sizeof(v) && k->type != CONFIG_STRING && k->type != CONFIG_LIST)
		memcpy(&v, p, sizeof(v));
	switch (k->type) {
	case CONFIG_STRING:
		show_string(p, out, n);
		break;
	case CONFIG_LIST:
		show_list(p, out, n);
		break;
	case CONFIG_SIZE:
		show_size(v, out, n);
		break;
	case CONFIG_DURATION:
		if (v % 1000)
			snprintf(out, n, "\"%" PRIu64 "ms\"", v);
		else
			snprintf(out, n, "\"%" PRIu64 "s\"", v / 1000);
		break;
	case CONFIG_CPUS:
		config_show_cpus(v, out, n);
		break;
	case CONFIG_COUNT:
		snprintf(out, n, "%" PRIu64, v);
		break;
	case CONFIG_U32:
		snprintf(out, n, "%" PRIu32, *(const uint32_t *)p);
		break;
	case CONFIG_BOOL:
		snprintf(out, n, "%s", *(const int *)p ? "true" : "false");
		break;
	}
	return out;
}

const char *config_source_name(const struct config *c, size_t i)
{
	static const char *const names[] = {
		[CONFIG_FROM_DEFAULT] = "default", [CONFIG_FROM_FILE] = "file", [CONFIG_FROM_ENV] = "env",
	};

	return names[c->source[i]];
}
