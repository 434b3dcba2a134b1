/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/daytona_create.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/encoding.h"
#include "base/mem.h"
#include "manager/api/daytona.h"
#include "manager/api/e2b.h"
#include "manager/host/labels.h"

#define ALL_TRAFFIC "0.0.0.0/0"
#define ENTRIES_MAX 256

/* ---- intervals ---- */

const char *const daytona_interval_names[DAYTONA_INTERVALS] = {"auto_stop", "auto_archive", "auto_delete"};

static const struct {
	const char *member;
	json_int_t preset;	/* minutes: Daytona's own */
} intervals[DAYTONA_INTERVALS] = {
	[DAYTONA_STOP] = {"autoStopInterval", 15},
	[DAYTONA_ARCHIVE] = {"autoArchiveInterval", 7 * 1440},
	[DAYTONA_DELETE] = {"autoDeleteInterval", -1},
};

#define MINUTES_MAX (366 * 1440)

int daytona_interval_seconds(enum daytona_interval which, json_int_t minutes, json_int_t *ret, struct err *e)
{
	if (minutes > MINUTES_MAX || (minutes < 0 && which != DAYTONA_DELETE))
		return err_set(e, ERR_INVALID, "%s is not a number of minutes from 0 to %d", intervals[which].member, MINUTES_MAX);
	if (which == DAYTONA_ARCHIVE && !minutes)
		minutes = DAYTONA_ARCHIVE_MAX;
	/* of a deletion 0 is at once, and the manager's 0 is never */
	*ret = which == DAYTONA_DELETE ? (minutes < 0 ? 0 : minutes ? minutes * 60 : 1) : minutes * 60;
	return 0;
}

int daytona_stop_check(json_int_t seconds, const struct config *config, int is_admin, struct err *e)
{
	const uint64_t most = config->idle_timeout_ms / 1000;

	if (is_admin || !most || (seconds && (uint64_t)seconds <= most))
		return 0;
	return err_set(e, ERR_DENIED, "autoStopInterval is over [manager] idle_timeout, %llu minutes, which needs an admin token; hint: a shorter one",
		       (unsigned long long)(most / 60));
}

static int read_intervals(const json_t *body, json_t *args, const struct config *config, int is_admin, struct err *e)
{
	enum daytona_interval i;
	json_int_t seconds;

	for (i = 0; i < DAYTONA_INTERVALS; i++) {
		const json_t *v = json_object_get(body, intervals[i].member);

		if (daytona_interval_seconds(i, json_is_integer(v) ? json_integer_value(v) : intervals[i].preset, &seconds, e) < 0)
			return -1;
		/* a preset is no wish, and may be shorter here */
		if (i == DAYTONA_STOP && !json_is_integer(v) && daytona_stop_check(seconds, config, is_admin, e) < 0)
			seconds = (json_int_t)(config->idle_timeout_ms / 1000);
		else if (i == DAYTONA_STOP && daytona_stop_check(seconds, config, is_admin, e) < 0)
			return -1;
		json_object_set_new(args, daytona_interval_names[i], json_integer(seconds));
	}
	return 0;
}

/* ---- labels, volumes ---- */

int daytona_labels_check(const json_t *labels, struct err *e)
{
	const char *key;
	size_t bytes = 0;
	json_t *v;

	json_object_foreach((json_t *)(size_t)labels, key, v) {
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID, "label %.80s is not a string", key);
		bytes += strlen(key) + json_string_length(v);
	}
	return json_object_size(labels) > LABELS_MAX || bytes > LABELS_BYTES_MAX ?
		       err_set(e, ERR_LIMIT, "more than %d labels or %d bytes of them", LABELS_MAX, LABELS_BYTES_MAX) :
		       0;
}

static int read_volumes(const json_t *body, json_t *options, struct err *e)
{
	json_t *one, *list = json_array();
	size_t i;

	json_object_set_new(options, "volume", list);
	json_array_foreach(json_object_get(body, "volumes"), i, one) {
		const char *name = json_string_value(json_object_get(one, "volumeId"));
		const char *path = json_string_value(json_object_get(one, "mountPath"));
		const char *below = json_string_value(json_object_get(one, "subpath"));

		if (below && below[0])
			return err_set(e, ERR_UNSUPPORTED, "a volume is mounted as a whole: subpath is not served");
		/* a name with a slash would be a directory of the host */
		if (!name || !path || !name[0] || strpbrk(name, "/:") || path[0] != '/' || strchr(path, ':'))
			return err_set(e, ERR_INVALID, "volumes has an entry without a good volumeId and an absolute mountPath");
		json_array_append_new(list, json_sprintf("%s:%s:rw", name, path));
	}
	return 0;
}

/* ---- image ---- */

static size_t line_length(const char *p)
{
	return strcspn(p, "\n");
}

int daytona_from(const char *dockerfile, char ret[512], struct err *e)
{
	const char *p = dockerfile;
	int more = 0;

	ret[0] = '\0';
	for (; *p; p += line_length(p), p += *p == '\n') {
		size_t n = line_length(p), skip = strspn(p, " \t\r");

		if (skip >= n || p[skip] == '#')
			continue;
		if (!ret[0] && n - skip > 5 && !strncasecmp(p + skip, "FROM", 4) && strchr(" \t", p[skip + 4])) {
			const char *image = p + skip + 4 + strspn(p + skip + 4, " \t");
			const size_t len = strcspn(image, " \t\r\n");

			if (!len || len >= 512 || !strncmp(image, "--", 2))
				return err_set(e, ERR_INVALID, "dockerfileContent has a FROM without a plain image");
			snprintf(ret, 512, "%.*s", (int)len, image);
			/* FROM x AS y needs a build only if more follows */
		} else {
			more = 1;
		}
	}
	return !ret[0] ? err_set(e, ERR_INVALID, "dockerfileContent has no FROM") : !more;
}

static int name_build(struct daytona_create *c, const char *dockerfile, struct err *e)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	char text[2 * 8 + 1];
	unsigned n = 0;

	if (!EVP_Digest(dockerfile, strlen(dockerfile), digest, &n, EVP_sha256(), NULL) || n < 8)
		return err_set(e, ERR_INTERNAL, "compute a digest");
	hex_format(text, digest, 8);
	c->dockerfile = dockerfile;
	snprintf(c->built, sizeof(c->built), "daytona-build:%s", text);
	return 0;
}

static int read_image(struct daytona_create *c, const json_t *body, const struct config *config, json_t *args, struct err *e)
{
	const char *snapshot = json_string_value(json_object_get(body, "snapshot"));
	const char *image = json_string_value(json_object_get(body, "image"));
	const json_t *build = json_object_get(body, "buildInfo");
	const char *dockerfile = json_string_value(json_object_get(build, "dockerfileContent"));
	char from[512];
	int plain;

	if (!!snapshot + !!image + json_is_object(build) > 1)
		return err_set(e, ERR_INVALID, "more than one of snapshot, image and buildInfo");
	if (json_array_size(json_object_get(build, "contextHashes")))
		return err_set(e, ERR_UNSUPPORTED, "buildInfo.contextHashes is not served: no object storage takes the files of a build; hint: an "
			       "image of the store, by its name");
	if (json_is_object(build)) {
		plain = daytona_from(dockerfile ? dockerfile : "", from, e);
		if (plain < 0)
			return -1;
		if (!plain && name_build(c, dockerfile, e) < 0)
			return -1;
		image = plain ? from : c->built;
	}
	if (!image)
		image = snapshot && snapshot[0] ? snapshot : config->image;
	if (image[0])
		json_object_set_new(args, "image", json_string(image));
	return 0;
}

/* ---- network ---- */

/* "a, b" as an array. */
static int split(const char *text, json_t *list, struct err *e)
{
	for (; text && *text; text += strcspn(text, ","), text += *text == ',') {
		size_t skip = strspn(text, " "), n = strcspn(text, ",");

		while (n > skip && text[n - 1] == ' ')
			n--;
		if (n > skip)
			json_array_append_new(list, json_stringn(text + skip, n - skip));
	}
	return json_array_size(list) > ENTRIES_MAX ? err_set(e, ERR_LIMIT, "networkAllowList and domainAllowList have more than %d entries", ENTRIES_MAX) :
						     0;
}

/* The rules of E2B's door say the same (e2b_rules.c): what is allowed, and that the rest is denied. */
json_t *daytona_network(const json_t *body, struct err *e)
{
	const char *nets = json_string_value(json_object_get(body, "networkAllowList"));
	const char *names = json_string_value(json_object_get(body, "domainAllowList"));
	const int blocked = json_is_true(json_object_get(body, "networkBlockAll"));
	json_t *asked, *allow = json_array();

	if (split(nets, allow, e) < 0 || split(names, allow, e) < 0) {
		json_decref(allow);
		return NULL;
	}
	if (blocked && json_array_size(allow)) {
		json_decref(allow);
		err_set(e, ERR_INVALID, "networkBlockAll goes without networkAllowList and domainAllowList");
		return NULL;
	}
	asked = json_object();
	if (blocked)
		json_object_set_new(asked, "allow_internet_access", json_false());
	else if (json_array_size(allow))
		json_object_set_new(asked, "network", json_pack("{s:O,s:[s]}", "allowOut", allow, "denyOut", ALL_TRAFFIC));
	json_decref(allow);
	return asked;
}

static json_t *network_of(const json_t *body, const struct config *config, struct err *e)
{
	autojson json_t *asked = daytona_network(body, e);

	return asked ? e2b_rules_of_create(asked, config->network_enabled, e) : NULL;
}

const char *const daytona_network_members[] = {"networkBlockAll", "networkAllowList", "domainAllowList", NULL};

/* ---- all of it ---- */

static int refuse_members(const json_t *body, struct err *e)
{
	static const struct {
		const char *name, *why;
	} refused[] = {
		{"gpuType", "no type of a GPU is chosen"},
		{"spot", "there are no spot sandboxes"},
		{"outboundProxyUrl", "berth has its own proxy for requests out"},
		{"otelEndpointOverride", "nothing is sent to a collector"},
		{"linkedSandbox", "sandboxes are not linked"},
		{"secrets", "there is no store of secrets; hint: env"},
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(refused); i++)
		if (e2b_rules_given(body, refused[i].name))
			return err_set(e, ERR_UNSUPPORTED, "%s is not served: %s", refused[i].name, refused[i].why);
	if (json_number_value(json_object_get(body, "gpu")) > 0)
		return err_set(e, ERR_UNSUPPORTED, "gpu is not served: a GPU of the host needs an administrator's berth create --gpus");
	if (json_integer_value(json_object_get(body, "autoPauseInterval")) > 0)
		return err_set(e, ERR_UNSUPPORTED, "autoPauseInterval is not served; hint: autoStopInterval");
	return 0;
}

static int read_options(const json_t *body, json_t *options, struct err *e)
{
	static const struct {
		const char *member, *option;
	} gib[] = {{"memory", "memory"}, {"disk", "disk"}};
	const json_t *cpu = json_object_get(body, "cpu"), *ttl = json_object_get(body, "ttlMinutes"), *user = json_object_get(body, "user");
	const char *name = json_string_value(user);
	json_t *env = e2b_env(json_object_get(body, "env"), e);
	size_t i;

	if (!env)
		return -1;
	json_object_set_new(options, "env", env);
	if (json_is_number(cpu))
		json_object_set_new(options, "cpus", json_sprintf("%.3f", json_number_value(cpu)));
	for (i = 0; i < ARRAY_LEN(gib); i++) {
		const json_t *v = json_object_get(body, gib[i].member);

		if (json_is_number(v))
			json_object_set_new(options, gib[i].option, json_integer((json_int_t)(json_number_value(v) * (1ll << 30))));
	}
	if (json_integer_value(ttl) > 0)
		json_object_set_new(options, "ttl", json_sprintf("%llds", json_integer_value(ttl) * 60));
	if (name && name[0])
		json_object_set_new(options, "user", json_string(name));
	return read_volumes(body, options, e);
}

static json_t *note_of(const json_t *body, const json_t *args, const struct config *config)
{
	static const char *const told[] = {"public", "networkBlockAll", "networkAllowList", "domainAllowList", "target", "user", "volumes"};
	const json_t *labels = json_object_get(body, "labels"), *env = json_object_get(body, "env");
	const char *snapshot = json_string_value(json_object_get(body, "snapshot"));
	const char *dockerfile = json_string_value(json_object_get(json_object_get(body, "buildInfo"), "dockerfileContent"));
	const json_t *disk = json_object_get(body, "disk");
	json_t *note = json_pack("{s:o,s:o,s:b,s:b,s:s,s:s,s:s}", "labels", json_is_object(labels) ? json_deep_copy(labels) : json_object(), "env",
				 json_is_object(env) ? json_deep_copy(env) : json_object(), "public", 0, "networkBlockAll", 0, "target", "us", "user",
				 "root", "snapshot", snapshot && snapshot[0] ? snapshot : json_string_value(json_object_get(args, "image")));
	size_t i;

	for (i = 0; note && i < ARRAY_LEN(told); i++) {
		json_t *v = json_object_get(body, told[i]);

		if (v && !json_is_null(v))
			json_object_set(note, told[i], v);
	}
	if (note && dockerfile)
		json_object_set_new(note, "buildInfo", json_pack("{s:s,s:s}", "dockerfileContent", dockerfile, "snapshotRef",
								 json_string_value(json_object_get(args, "image"))));
	if (note)
		json_object_set_new(note, "disk", json_is_number(disk) ? json_copy((json_t *)(size_t)disk) :
				    json_real((double)config->disk_bytes / (1ll << 30)));
	return note;
}

int daytona_create_read(struct daytona_create *c, const json_t *body, const struct config *config, int is_admin, struct err *e)
{
	const char *name = json_string_value(json_object_get(body, "name"));
	json_t *options = json_object(), *note;

	*c = (struct daytona_create){.args = json_pack("{s:o}", "options", options)};
	if (!c->args)
		return err_nomem(e);
	if (refuse_members(body, e) < 0 || daytona_labels_check(json_object_get(body, "labels"), e) < 0 ||
	    read_image(c, body, config, c->args, e) < 0 || read_options(body, options, e) < 0 || read_intervals(body, c->args, config, is_admin, e) < 0 ||
	    !(c->own = network_of(body, config, e))) {
		daytona_create_release(c);
		return -1;
	}
	/* the manager's scan stops it, by an interval that may change; a tenant's no later than the keeper would */
	if (is_admin)
		json_object_set_new(c->own, "idle-timeout", json_string("0"));
	json_object_set_new(c->own, "mark", json_pack("[s]", LABEL_FACE "=" DAYTONA_FACE));
	if (name && name[0])
		json_object_set_new(c->args, "name", json_string(name));
	note = note_of(body, c->args, config);
	if (!note || json_object_set_new(c->args, "meta", json_pack("{s:o}", DAYTONA_META, note)) < 0) {
		daytona_create_release(c);
		return err_set(e, ERR_INVALID, "the body is not valid UTF-8");
	}
	return 0;
}

void daytona_create_release(struct daytona_create *c)
{
	json_decref(c->args);
	json_decref(c->own);
	*c = (struct daytona_create){.args = NULL};
}
