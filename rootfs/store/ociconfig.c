/* SPDX-License-Identifier: Apache-2.0 */
/* The image config: OCI image-spec config.md, and Docker's image JSON, which it grew from. */
#include "rootfs/store/oci.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rootfs/store/image.h"

#define STRINGS_MAX 1024
#define STRING_MAX (128u << 10)	/* MAX_ARG_STRLEN: the kernel takes no longer argument */
#define STRINGS_BYTES_MAX (1u << 20)
#define LABELS_BYTES_MAX (64u << 10)

static const char what[] = "image config";

static int has_control(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			return 1;
	return 0;
}

/* NAME=VALUE with a name that can be a variable's: nothing is ever looked up on the host (E14). */
static int env_ok(const char *s)
{
	const char *eq = strchr(s, '=');
	const char *p;

	if (!eq || eq == s)
		return 0;
	for (p = s; p < eq; p++)
		if ((unsigned char)*p <= 0x20 || *p == 0x7f || *p == '*')
			return 0;
	return 1;
}

/* A checked copy of the array of strings, empty when absent. */
static json_t *copy_strings(const json_t *obj, const char *key, int is_env, size_t *ret_dropped,
			    struct err *e)
{
	json_t *arr = NULL, *copy;
	size_t i, total = 0;

	if (obj && json_get_arr(obj, key, &arr, what, e) < 0)
		return NULL;
	if (json_array_size(arr) > STRINGS_MAX) {
		err_set(e, ERR_CORRUPT, "%s: \"%s\" has more than %d entries", what, key, STRINGS_MAX);
		return NULL;
	}
	copy = json_array();
	for (i = 0; copy && i < json_array_size(arr); i++) {
		json_t *v = json_array_get(arr, i);
		const char *s = json_string_value(v);
		size_t n = json_string_length(v);

		total += n;
		if (!s || strlen(s) != n || n >= STRING_MAX || total > STRINGS_BYTES_MAX) {
			err_set(e, ERR_CORRUPT, "%s: entry %zu of \"%s\" is not a string or too long", what, i, key);
			json_decref(copy);
			return NULL;
		}
		if (is_env && !env_ok(s)) {
			++*ret_dropped;
			continue;
		}
		if (json_array_append(copy, v) < 0) {
			json_decref(copy);
			copy = NULL;
		}
	}
	if (!copy)
		err_nomem(e);
	return copy;
}

static json_t *copy_labels(const json_t *obj, struct err *e)
{
	json_t *labels = NULL, *v, *copy;
	size_t total = 0;
	const char *key;

	if (obj && json_get_obj(obj, "Labels", &labels, what, e) < 0)
		return NULL;
	copy = json_object();
	json_object_foreach(labels, key, v) {
		if (!copy || !json_is_string(v) || json_object_set(copy, key, v) < 0)
			break;
		total += strlen(key) + json_string_length(v);
		if (total > LABELS_BYTES_MAX) {
			json_object_clear(copy);
			break;
		}
	}
	if (!copy)
		err_nomem(e);
	return copy;
}

static int copy_text(const json_t *obj, const char *key, size_t max, char **ret, struct err *e)
{
	const char *s = "";

	if (obj && json_get_str(obj, key, &s, what, e) < 0)
		return -1;
	if (strlen(s) > max || has_control(s))
		return err_set(e, ERR_CORRUPT, "%s: \"%s\" is too long or has control characters", what, key);
	*ret = strdup(s);
	return *ret ? 0 : err_nomem(e);
}

/* USER[:GROUP], names or numbers; they are resolved inside the sandbox (E13). */
static int check_user(const char *s, struct err *e)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-$@\\";
	const char *at = s;
	size_t n;
	int parts = 0;

	while (*at) {
		n = strspn(at, allowed);
		if (!n || *at == '-' || ++parts > 2 || (at[n] && at[n] != ':') || (at[n] == ':' && !at[n + 1]))
			return err_set(e, ERR_CORRUPT, "%s: user '%.100s' is malformed", what, s);
		at += n + (at[n] == ':');
	}
	return 0;
}

static int parse_diff_ids(const json_t *j, struct oci_config *c, struct err *e)
{
	json_t *rootfs = NULL, *arr = NULL;
	const char *type = NULL;
	size_t i;

	if (json_get_obj(j, "rootfs", &rootfs, what, e) < 0)
		return -1;
	if (!rootfs || json_get_arr(rootfs, "diff_ids", &arr, what, e) < 0 ||
	    json_get_str(rootfs, "type", &type, what, e) < 0)
		return rootfs ? -1 : err_set(e, ERR_CORRUPT, "%s has no rootfs", what);
	if (!type || strcmp(type, "layers"))
		return err_set(e, ERR_CORRUPT, "%s: rootfs is not of type layers", what);
	c->diff_id_count = json_array_size(arr);
	if (!c->diff_id_count || c->diff_id_count > IMAGE_LAYERS_MAX)
		return err_set(e, ERR_CORRUPT, "%s: %zu diff ids", what, c->diff_id_count);
	c->diff_ids = calloc(c->diff_id_count, sizeof(*c->diff_ids));
	if (!c->diff_ids)
		return err_nomem(e);
	for (i = 0; i < c->diff_id_count; i++) {
		const char *s = json_string_value(json_array_get(arr, i));

		if (digest_copy(c->diff_ids[i], s ? s : "", what, e) < 0)
			return -1;
	}
	return 0;
}

static int parse_platform(const json_t *j, struct oci_platform *p, struct err *e)
{
	const struct { const char *key; char *to; } fields[] = {
		{ "os", p->os }, { "architecture", p->arch }, { "variant", p->variant },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(fields); i++) {
		const char *s = "";

		if (json_get_str(j, fields[i].key, &s, what, e) < 0)
			return -1;
		if (strlen(s) >= sizeof(p->os) || has_control(s))
			return err_set(e, ERR_CORRUPT, "%s: \"%s\" is too long", what, fields[i].key);
		strcpy(fields[i].to, s);
	}
	return 0;
}

/* The shell of a check: the image's SHELL, or /bin/sh -c. */
static json_t *shell_words(const json_t *run, struct err *e)
{
	size_t none = 0;
	json_t *words = copy_strings(run, "Shell", 0, &none, e);

	if (words && !json_array_size(words)) {
		json_array_append_new(words, json_string("/bin/sh"));
		json_array_append_new(words, json_string("-c"));
	}
	return words;
}

/* Reads Test; *ret is NULL if it says that there is no check. */
static int health_argv(const json_t *run, const json_t *check, json_t **ret, struct err *e)
{
	size_t none = 0;
	autojson json_t *test = copy_strings(check, "Test", 0, &none, e);
	const char *kind = json_string_value(json_array_get(test, 0));
	const size_t n = json_array_size(test);

	*ret = NULL;
	if (!test)
		return -1;
	if (!n || (!strcmp(kind, "NONE") && n == 1))
		return 0;
	if (!strcmp(kind, "CMD") && n > 1 && json_string_length(json_array_get(test, 1))) {
		json_array_remove(test, 0);
		*ret = json_incref(test);
		return 0;
	}
	if (strcmp(kind, "CMD-SHELL") || n != 2 || !json_string_length(json_array_get(test, 1)))
		return err_set(e, ERR_CORRUPT, "%s: the Test of its Healthcheck is not one of NONE, "
			       "CMD with words and CMD-SHELL with one", what);
	*ret = shell_words(run, e);
	return *ret && json_array_append(*ret, json_array_get(test, 1)) == 0 ? 0 : -1;
}

/* 0 is Docker's "as by default". */
static int health_numbers(const json_t *check, json_t *to, struct err *e)
{
	static const struct { const char *key, *to; uint64_t unit; } numbers[] = {
		{ "Interval", "interval_ms", 1000000 }, { "Timeout", "timeout_ms", 1000000 },
		{ "StartPeriod", "start_period_ms", 1000000 },
		{ "StartInterval", "start_interval_ms", 1000000 }, { "Retries", "retries", 1 },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(numbers); i++) {
		const uint64_t unit = numbers[i].unit;
		uint64_t v = 0;

		if (json_get_u64(check, numbers[i].key, &v, what, e) < 0)
			return err_wrap(e, "Healthcheck");
		v = v / unit + !!(v % unit);
		if (v && json_object_set_new(to, numbers[i].to, json_integer((json_int_t)v)) < 0)
			return err_nomem(e);
	}
	return 0;
}

static int parse_health(const json_t *run, json_t **ret, struct err *e)
{
	autojson json_t *health = NULL;
	json_t *check = NULL, *argv;

	if (run && json_get_obj(run, "Healthcheck", &check, what, e) < 0)
		return -1;
	if (!check)
		return 0;
	if (health_argv(run, check, &argv, e) < 0)
		return -1;
	if (!argv)
		return 0;
	health = json_pack("{s:o}", "argv", argv);
	if (!health)
		return err_nomem(e);
	if (health_numbers(check, health, e) < 0)
		return -1;
	*ret = take_ptr(&health);
	return 0;
}

static int parse_run(const json_t *run, struct oci_config *c, struct err *e)
{
	size_t none = 0;
	char *dir;

	c->env = copy_strings(run, "Env", 1, &c->env_dropped, e);
	c->entrypoint = c->env ? copy_strings(run, "Entrypoint", 0, &none, e) : NULL;
	c->cmd = c->entrypoint ? copy_strings(run, "Cmd", 0, &none, e) : NULL;
	c->labels = c->cmd ? copy_labels(run, e) : NULL;
	if (!c->labels || copy_text(run, "User", 255, &c->user, e) < 0 || check_user(c->user, e) < 0 ||
	    copy_text(run, "WorkingDir", 4000, &c->workdir, e) < 0 ||
	    copy_text(run, "StopSignal", 32, &c->stop_signal, e) < 0 ||
	    parse_health(run, &c->health, e) < 0)
		return -1;
	if (c->workdir[0] && c->workdir[0] != '/') {	/* Docker reads it from the root */
		if (asprintf(&dir, "/%s", c->workdir) < 0)
			return err_nomem(e);
		free(c->workdir);
		c->workdir = dir;
	}
	return 0;
}

int oci_config_parse(const char *text, size_t n, struct oci_config *ret, struct err *e)
{
	autojson json_t *j = json_parse(text, n, OCI_CONFIG_MAX, what, e);
	struct oci_config c = { 0 };
	json_t *run = NULL;

	if (!j)
		return -1;
	if (!json_is_object(j))
		return err_set(e, ERR_CORRUPT, "%s is not a JSON object", what);
	if (json_get_obj(j, "config", &run, what, e) < 0 || parse_platform(j, &c.platform, e) < 0 ||
	    parse_diff_ids(j, &c, e) < 0 || parse_run(run, &c, e) < 0 ||
	    copy_text(j, "created", 64, &c.created, e) < 0) {
		oci_config_release(&c);
		return -1;
	}
	*ret = c;
	return 0;
}

void oci_config_release(struct oci_config *c)
{
	free(c->diff_ids);
	json_decref(c->env);
	json_decref(c->entrypoint);
	json_decref(c->cmd);
	json_decref(c->labels);
	json_decref(c->health);
	free(c->user);
	free(c->workdir);
	free(c->created);
	free(c->stop_signal);
	*c = (struct oci_config){ 0 };
}
