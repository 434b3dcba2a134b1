/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/store/oci.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/mem.h"
#include "rootfs/store/image.h"

/* ---- media types ---- */

static const struct {
	const char *type;
	enum oci_kind kind;
	enum compression compression;
} media_types[] = {
	{ "application/vnd.oci.image.index.v1+json", OCI_INDEX, 0 },
	{ "application/vnd.docker.distribution.manifest.list.v2+json", OCI_INDEX, 0 },
	{ OCI_TYPE_MANIFEST, OCI_MANIFEST, 0 },
	{ "application/vnd.docker.distribution.manifest.v2+json", OCI_MANIFEST, 0 },
	{ OCI_TYPE_CONFIG, OCI_CONFIG, 0 },
	{ "application/vnd.docker.container.image.v1+json", OCI_CONFIG, 0 },
	{ "application/vnd.oci.image.layer.v1.tar", OCI_LAYER, COMPRESSION_NONE },
	{ "application/vnd.oci.image.layer.v1.tar+gzip", OCI_LAYER, COMPRESSION_GZIP },
	{ "application/vnd.oci.image.layer.v1.tar+zstd", OCI_LAYER, COMPRESSION_ZSTD },
	{ "application/vnd.docker.image.rootfs.diff.tar", OCI_LAYER, COMPRESSION_NONE },
	{ "application/vnd.docker.image.rootfs.diff.tar.gzip", OCI_LAYER, COMPRESSION_GZIP },
	{ "application/vnd.docker.image.rootfs.diff.tar.zstd", OCI_LAYER, COMPRESSION_ZSTD },
};

static int kind_of_media_type(const char *type, enum compression *ret_compression)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(media_types); i++) {
		if (!strcmp(media_types[i].type, type)) {
			if (ret_compression)
				*ret_compression = media_types[i].compression;
			return media_types[i].kind;
		}
	}
	return OCI_OTHER;
}

static int parse_desc(const json_t *j, struct oci_desc *d, const char *what, struct err *e)
{
	const char *digest = NULL, *type = NULL;

	if (!json_is_object(j))
		return err_set(e, ERR_CORRUPT, "%s: a descriptor is not an object", what);
	if (json_get_str(j, "mediaType", &type, what, e) < 0 ||
	    json_get_str(j, "digest", &digest, what, e) < 0)
		return -1;
	switch (json_get_u64(j, "size", &d->size, what, e)) {
	case -1:
		return -1;
	case 0:
		return err_set(e, ERR_CORRUPT, "%s: a descriptor has no size", what);
	}
	if (!type || !digest)
		return err_set(e, ERR_CORRUPT, "%s: a descriptor has no %s", what, type ? "digest" : "mediaType");
	if (strlen(type) >= sizeof(d->media_type))
		return err_set(e, ERR_CORRUPT, "%s: media type '%.100s...' is too long", what, type);
	strcpy(d->media_type, type);
	d->kind = kind_of_media_type(type, &d->compression);
	return digest_copy(d->digest, digest, what, e);
}

/*
 * Parses a document, whose fields show its kind. The media type inside and that of the descriptor
 * must agree with them, or two readers would see two images.
 */
static json_t *parse_document(const char *text, size_t n, int kind, const char *want,
			      const char *what, struct err *e)
{
	autojson json_t *j = json_parse(text, n, OCI_MANIFEST_MAX, what, e);
	const char *type = NULL;
	uint64_t version = 0;
	int is_index, is_manifest;

	if (!j)
		return NULL;
	if (!json_is_object(j)) {
		err_set(e, ERR_CORRUPT, "%s is not a JSON object", what);
		return NULL;
	}
	if (json_get_str(j, "mediaType", &type, what, e) < 0 ||
	    json_get_u64(j, "schemaVersion", &version, what, e) < 0)
		return NULL;
	is_index = json_object_get(j, "manifests") != NULL;
	is_manifest = json_object_get(j, "layers") || json_object_get(j, "config") ||
		      json_object_get(j, "fsLayers");
	if (is_index && is_manifest)
		err_set(e, ERR_CORRUPT, "%s is ambiguous: it has the fields of an index and of a manifest", what);
	else if ((kind == OCI_INDEX) != is_index || (kind == OCI_MANIFEST) != is_manifest)
		err_set(e, ERR_CORRUPT, "%s is not %s", what, kind == OCI_INDEX ? "an index" : "a manifest");
	/* Go programs that set the media type alone write 0 */
	else if (version != 2 && (version || !json_is_integer(json_object_get(j, "schemaVersion")) || !type || strcmp(type, OCI_TYPE_MANIFEST)))
		err_set(e, ERR_CORRUPT, "%s has schema version %llu, not 2", what, (unsigned long long)version);
	else if (type && kind_of_media_type(type, NULL) != kind)
		err_set(e, ERR_CORRUPT, "%s has media type '%.100s'", what, type);
	else if (type && want && strcmp(type, want))
		err_set(e, ERR_CORRUPT, "%s says media type '%.100s', its descriptor '%.100s'", what, type, want);
	else
		return take_ptr(&j);
	return NULL;
}

/* ---- index ---- */

static int copy_field(const json_t *obj, const char *key, char *ret, size_t size, const char *what,
		      struct err *e)
{
	const char *s = "";

	if (json_get_str(obj, key, &s, what, e) < 0)
		return -1;
	if (strlen(s) >= size)
		return err_set(e, ERR_CORRUPT, "%s: \"%s\" is too long", what, key);
	strcpy(ret, s);
	return 0;
}

static int parse_index_platform(const json_t *obj, struct oci_platform *p, const char *what, struct err *e)
{
	if (copy_field(obj, "os", p->os, sizeof(p->os), what, e) < 0 ||
	    copy_field(obj, "architecture", p->arch, sizeof(p->arch), what, e) < 0)
		return -1;
	return copy_field(obj, "variant", p->variant, sizeof(p->variant), what, e);
}

static int parse_entry(const json_t *j, struct oci_entry *en, struct err *e)
{
	static const char what[] = "image index";
	json_t *obj;

	if (parse_desc(j, &en->desc, what, e) < 0)
		return -1;
	obj = NULL;
	if (json_get_obj(j, "platform", &obj, what, e) < 0 ||
	    (obj && parse_index_platform(obj, &en->platform, what, e) < 0))
		return -1;
	obj = NULL;
	if (json_get_obj(j, "annotations", &obj, what, e) < 0)
		return -1;
	if (obj && (copy_field(obj, "org.opencontainers.image.ref.name", en->ref, sizeof(en->ref), what, e) < 0 ||
		    copy_field(obj, "io.containerd.image.name", en->name, sizeof(en->name), what, e) < 0))
		return -1;
	return 0;
}

void oci_index_release(struct oci_index *x)
{
	free(x->entries);
	*x = (struct oci_index){ 0 };
}

int oci_index_parse(const char *text, size_t n, const char *want, struct oci_index *ret, struct err *e)
{
	autojson json_t *j = parse_document(text, n, OCI_INDEX, want, "image index", e);
	struct oci_index x = { 0 };
	json_t *arr = NULL;
	size_t i;

	if (!j || json_get_arr(j, "manifests", &arr, "image index", e) < 0)
		return -1;
	x.count = json_array_size(arr);
	if (x.count > OCI_INDEX_ENTRIES_MAX)
		return err_set(e, ERR_CORRUPT, "image index has %zu entries", x.count);
	x.entries = calloc(x.count + 1, sizeof(*x.entries));
	if (!x.entries)
		return err_nomem(e);
	for (i = 0; i < x.count; i++) {
		if (parse_entry(json_array_get(arr, i), &x.entries[i], e) < 0) {
			oci_index_release(&x);
			return -1;
		}
	}
	*ret = x;
	return 0;
}

/* ---- manifest ---- */

void oci_manifest_release(struct oci_manifest *m)
{
	free(m->layers);
	*m = (struct oci_manifest){ 0 };
}

static int parse_layers(const json_t *arr, struct oci_manifest *m, struct err *e)
{
	size_t i;

	m->layer_count = json_array_size(arr);
	if (m->layer_count > IMAGE_LAYERS_MAX)
		return err_set(e, ERR_CORRUPT, "image manifest has %zu layers, more than %d", m->layer_count,
			       IMAGE_LAYERS_MAX);
	m->layers = calloc(m->layer_count + 1, sizeof(*m->layers));
	if (!m->layers)
		return err_nomem(e);
	for (i = 0; i < m->layer_count; i++) {
		struct oci_desc *d = &m->layers[i];

		if (parse_desc(json_array_get(arr, i), d, "image manifest", e) < 0)
			return -1;
		if (d->kind != OCI_LAYER)
			return err_set(e, ERR_CORRUPT, "layer %zu is of type '%.100s', which cannot be unpacked; "
				       "hint: only tar, tar+gzip and tar+zstd layers can", i, d->media_type);
	}
	return 0;
}

int oci_manifest_parse(const char *text, size_t n, const char *want, struct oci_manifest *ret,
		       struct err *e)
{
	autojson json_t *j = parse_document(text, n, OCI_MANIFEST, want, "image manifest", e);
	json_t *arr = NULL, *config = NULL;
	struct oci_manifest m = { 0 };

	if (!j || json_get_arr(j, "layers", &arr, "image manifest", e) < 0 ||
	    json_get_obj(j, "config", &config, "image manifest", e) < 0)
		return -1;
	if (!config)
		return err_set(e, ERR_CORRUPT, "image manifest has no config");
	if (parse_desc(config, &m.config, "image manifest", e) < 0)
		return -1;
	if (m.config.kind != OCI_CONFIG)
		return err_set(e, ERR_CORRUPT, "the manifest's config is of type '%.100s': this is not a container image",
			       m.config.media_type);
	if (parse_layers(arr, &m, e) < 0) {
		oci_manifest_release(&m);
		return -1;
	}
	*ret = m;
	return 0;
}

/* ---- platform ---- */

static int platform_word(const char **s, char *ret, size_t size)
{
	size_t n = strspn(*s, "abcdefghijklmnopqrstuvwxyz0123456789_.-");

	if (!n || n >= size || ((*s)[n] && (*s)[n] != '/'))
		return -1;
	memcpy(ret, *s, n);
	ret[n] = '\0';
	*s += n + ((*s)[n] == '/');
	return 0;
}

int oci_platform_parse(const char *s, struct oci_platform *ret, struct err *e)
{
	struct oci_platform p = { 0 };
	const char *at = s;

	if (platform_word(&at, p.os, sizeof(p.os)) < 0 || at[-1] != '/' ||
	    platform_word(&at, p.arch, sizeof(p.arch)) < 0 ||
	    (at[-1] == '/' && platform_word(&at, p.variant, sizeof(p.variant)) < 0) || *at || at[-1] == '/')
		return err_set(e, ERR_INVALID, "platform '%.100s' is malformed; hint: give OS/ARCH, "
			       "such as linux/amd64 or linux/arm/v7", s);
	*ret = p;
	return 0;
}

void oci_platform_host(struct oci_platform *ret)
{
	static const struct { const char *machine, *arch, *variant; } names[] = {
		{ "x86_64", "amd64", "" }, { "aarch64", "arm64", "" }, { "armv7l", "arm", "v7" },
		{ "i686", "386", "" }, { "riscv64", "riscv64", "" }, { "ppc64le", "ppc64le", "" },
		{ "s390x", "s390x", "" },
	};
	struct utsname u;
	size_t i;

	*ret = (struct oci_platform){ .os = "linux" };
	if (uname(&u) < 0)
		return;
	snprintf(ret->arch, sizeof(ret->arch), "%.31s", u.machine);
	for (i = 0; i < ARRAY_LEN(names); i++) {
		if (!strcmp(u.machine, names[i].machine)) {
			strcpy(ret->arch, names[i].arch);
			strcpy(ret->variant, names[i].variant);
		}
	}
}

int oci_platform_fits(const struct oci_platform *have, const struct oci_platform *want)
{
	if ((have->os[0] && strcmp(have->os, want->os)) || (have->arch[0] && strcmp(have->arch, want->arch)))
		return 0;
	/* arm64 is v8 whether it says so or not; elsewhere an unset variant matches any */
	return !have->variant[0] || !want->variant[0] || !strcmp(have->variant, want->variant);
}

void oci_platform_format(const struct oci_platform *p, char ret[100])
{
	snprintf(ret, 100, "%s/%s%s%s", p->os, p->arch, p->variant[0] ? "/" : "", p->variant);
}

/* ---- the config ---- */

/* The image config: OCI image-spec config.md, and Docker's image JSON, which it grew from. */

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

/* Checks NAME=VALUE, where NAME can be a variable's: nothing is ever looked up on the host (E14). */
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

/* Returns a checked copy of the array of strings, empty if it is missing. */
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

static int copy_config_text(const json_t *obj, const char *key, size_t max, char **ret, struct err *e)
{
	const char *s = "";

	if (obj && json_get_str(obj, key, &s, what, e) < 0)
		return -1;
	if (strlen(s) > max || has_control(s))
		return err_set(e, ERR_CORRUPT, "%s: \"%s\" is too long or has control characters", what, key);
	*ret = strdup(s);
	return *ret ? 0 : err_nomem(e);
}

/* Checks USER[:GROUP], names or numbers; they are resolved inside the sandbox (E13). */
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

static int parse_config_platform(const json_t *j, struct oci_platform *p, struct err *e)
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

/* Returns the shell of a check: the image's SHELL, or /bin/sh -c. */
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

/* Reads the times and retries; 0 is Docker's word for the default. */
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
	if (!c->labels || copy_config_text(run, "User", 255, &c->user, e) < 0 || check_user(c->user, e) < 0 ||
	    copy_config_text(run, "WorkingDir", 4000, &c->workdir, e) < 0 ||
	    copy_config_text(run, "StopSignal", 32, &c->stop_signal, e) < 0 ||
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
	if (json_get_obj(j, "config", &run, what, e) < 0 || parse_config_platform(j, &c.platform, e) < 0 ||
	    parse_diff_ids(j, &c, e) < 0 || parse_run(run, &c, e) < 0 ||
	    copy_config_text(j, "created", 64, &c.created, e) < 0) {
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
