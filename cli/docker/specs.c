/* SPDX-License-Identifier: Apache-2.0 */
/* What docker's client makes of --publish, --expose, --mount, --volume, --gpus and sizes.  Pure. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/docker/verbs.h"

#define SIZE_MOST (1ULL << 60)
#define RANGE_MOST 4096 /* ports of one --publish */

int64_t door_bytes(const char *text, const char *flag, struct err *e)
{
	uint64_t v;
	char plain[40];
	size_t n = strlen(text);

	if (!strcmp(text, "-1"))
		return -2;
	/* "512MB", "512mb", "512MiB", "512b" */
	if (n && n < sizeof(plain) && (text[n - 1] == 'b' || text[n - 1] == 'B')) {
		n -= n > 2 && tolower((unsigned char)text[n - 2]) == 'i' ? 2 : 1;
		snprintf(plain, sizeof(plain), "%.*s", (int)n, text);
		text = plain;
	}
	if (num_size(text, flag, 0, SIZE_MOST, &v, e) < 0)
		return -1;
	return (int64_t)v;
}

/* ---- ports ----------------------------------------------------------------------------------- */

/* "80", "80-90": 1 with both; 0 for "". */
static int parse_range(const char *s, size_t n, uint64_t ret[2], struct err *e)
{
	char text[40];
	char *dash;

	snprintf(text, sizeof(text), "%.*s", (int)(n < 39 ? n : 39), s);
	if (!n)
		return 0;
	dash = strchr(text, '-');
	if (dash)
		*dash++ = '\0';
	if (num_u64(text, "port", 1, 65535, &ret[0], e) < 0 ||
	    num_u64(dash ? dash : text, "port", 1, 65535, &ret[1], e) < 0)
		return -1;
	if (ret[1] < ret[0] || ret[1] - ret[0] >= RANGE_MOST)
		return err_set(e, ERR_INVALID, "invalid port range: %s", text);
	return 1;
}

static void add_binding(json_t *bindings, json_t *exposed, const char *what, const char *ip,
			const char *port)
{
	json_t *list = json_object_get(bindings, what);

	json_object_set_new(exposed, what, json_object());
	if (!list) {
		list = json_array();
		json_object_set_new(bindings, what, list);
	}
	json_array_append_new(list, json_pack("{s:s,s:s}", "HostIp", ip, "HostPort", port));
}

struct ports {
	char ip[64];
	uint64_t outside[2], inside[2];
	int chosen; /* the host's were named */
	const char *protocol;
};

static int add_ports(json_t *bindings, json_t *exposed, const struct ports *p, const char *text,
		     struct err *e)
{
	const uint64_t n = p->inside[1] - p->inside[0];
	uint64_t i;

	if (p->chosen && p->outside[1] - p->outside[0] != n)
		return err_set(e, ERR_INVALID,
			       "invalid publish opts format: %.100s: the ranges differ", text);
	for (i = 0; i <= n; i++) {
		char what[40], port[20] = "";

		snprintf(what, sizeof(what), "%d/%.10s", (int)(p->inside[0] + i), p->protocol);
		if (p->chosen)
			snprintf(port, sizeof(port), "%d", (int)(p->outside[0] + i));
		add_binding(bindings, exposed, what, p->ip, port);
	}
	return 0;
}

/* [IP:][HOST[-END]:]INSIDE[-END][/PROTOCOL] */
int door_publish(json_t *bindings, json_t *exposed, const char *text, struct err *e)
{
	const size_t n = strcspn(text, "/");
	struct ports p = { .protocol = text[n] ? text + n + 1 : "tcp" };
	const char *inside = text + n, *outside, *end;

	while (inside > text && inside[-1] != ':')
		inside--;
	if (parse_range(inside, (size_t)(text + n - inside), p.inside, e) < 1)
		return e->code ? -1 :
				 err_set(e, ERR_INVALID, "No port specified: %.100s<empty>", text);
	if (inside > text) {
		end = inside - 1;
		for (outside = end; outside > text && outside[-1] != ':'; outside--)
			;
		p.chosen = parse_range(outside, (size_t)(end - outside), p.outside, e);
		if (p.chosen < 0)
			return -1;
		if (outside > text)
			snprintf(p.ip, sizeof(p.ip), "%.*s",
				 (int)(outside - 1 - text - (*text == '[' ? 2 : 0)),
				 text + (*text == '['));
	}
	return add_ports(bindings, exposed, &p, text, e);
}

int door_expose(json_t *exposed, const char *text, struct err *e)
{
	const size_t n = strcspn(text, "/");
	uint64_t range[2], port;
	char what[40];

	if (parse_range(text, n, range, e) < 1)
		return err_set(e, ERR_INVALID, "invalid range format for --expose: %.80s", text);
	for (port = range[0]; port <= range[1]; port++) {
		snprintf(what, sizeof(what), "%d/%.10s", (int)port, text[n] ? text + n + 1 : "tcp");
		json_object_set_new(exposed, what, json_object());
	}
	return 0;
}

/* ---- mounts ---------------------------------------------------------------------------------- */

static char *absolute(const char *path)
{
	char here[PATH_MAX], *both;

	if (path[0] == '/' || !getcwd(here, sizeof(here)))
		return strdup(path);
	return asprintf(&both, "%s/%s", here, path) < 0 ? NULL : both;
}

/* A source that begins with a dot is a path, from where we are. */
json_t *door_bind(const char *text, struct err *e)
{
	const char *colon = strchr(text, ':');
	autofree char *source = NULL, *real = NULL;
	json_t *j;

	if (text[0] != '.' || !colon) {
		j = json_string(text);
	} else {
		source = strndup(text, (size_t)(colon - text));
		real = source ? absolute(source) : NULL;
		j = real ? json_sprintf("%s%s", real, colon) : NULL;
	}
	if (!j)
		err_set(e, ERR_INVALID, "the value of --volume is not UTF-8");
	return j;
}

static int yes(const char *value)
{
	return !value[0] || !strcmp(value, "true") || !strcmp(value, "1");
}

static int is(const char *key, const char *a, const char *b)
{
	return !strcmp(key, a) || (b && !strcmp(key, b));
}

static int set_mount(json_t *m, const char *key, const char *value, struct err *e)
{
	static const char *const ignored[] = { "bind-propagation", "consistency",
					       "volume-nocopy",    "bind-nonrecursive",
					       "bind-recursive",   "tmpfs-mode",
					       "volume-driver" };
	autofree char *path = NULL;
	int64_t bytes;
	size_t i;

	for (i = 0; i < ARRAY_LEN(ignored); i++)
		if (!strcmp(key, ignored[i]))
			return 0;
	if (is(key, "type", NULL))
		return json_object_set_new(m, "Type", json_string(value));
	if (is(key, "source", "src")) {
		path = value[0] == '.' ? absolute(value) : strdup(value);
		return json_object_set_new(m, "Source", json_string(path ? path : ""));
	}
	if (is(key, "target", "dst") || is(key, "destination", NULL))
		return json_object_set_new(m, "Target", json_string(value));
	if (is(key, "readonly", "ro"))
		return json_object_set_new(m, "ReadOnly", json_boolean(yes(value)));
	if (is(key, "tmpfs-size", NULL)) {
		bytes = door_bytes(value, "tmpfs-size", e);
		return bytes < 0 ? -1 :
				   json_object_set_new(
					   m, "TmpfsOptions",
					   json_pack("{s:I}", "SizeBytes", (json_int_t)bytes));
	}
	return err_set(e, ERR_INVALID, "unexpected key '%.40s' in '%.40s=%.80s'", key, key, value);
}

/* type=bind,source=/a,target=/b,readonly; a field in double quotes may have commas */
json_t *door_mount(const char *text, struct err *e)
{
	json_t *m = json_pack("{s:s}", "Type", "volume");
	autofree char *copy = strdup(text);
	char *p = copy, *next, *value;

	for (; p && *p; p = next) {
		const int quoted = *p == '"';

		p += quoted;
		next = p + strcspn(p, quoted ? "\"" : ",");
		if (*next)
			*next++ = '\0';
		next += quoted && *next == ',';
		value = strchr(p, '=');
		if (value)
			*value++ = '\0';
		if (set_mount(m, p, value ? value : "", e) < 0) {
			err_wrap(e, "invalid argument \"%.200s\" for \"--mount\" flag", text);
			json_decref(m);
			return NULL;
		}
	}
	if (json_string_length(json_object_get(m, "Target")))
		return m;
	json_decref(m);
	err_set(e, ERR_INVALID,
		"invalid argument \"%.200s\" for \"--mount\" flag: target is "
		"required",
		text);
	return NULL;
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* "all", "2", "device=0,1", "\"device=0,1\"", "count=2" */
json_t *door_gpus(const char *text, struct err *e)
{
	char plain[200], *at, *next;
	json_t *ids = json_array();
	uint64_t count = 0;
	int all = 0;

	snprintf(plain, sizeof(plain), "%s", text + (*text == '"'));
	plain[strcspn(plain, "\"")] = '\0';
	if (!strncmp(plain, "device=", 7)) {
		for (at = strtok_r(plain + 7, ",", &next); at; at = strtok_r(NULL, ",", &next))
			json_array_append_new(ids, json_string(at));
	} else {
		at = !strncmp(plain, "count=", 6) ? plain + 6 : plain;
		all = !strcmp(at, "all");
		if (!all && num_u64(at, "gpus", 1, 1024, &count, e) < 0) {
			json_decref(ids);
			return NULL;
		}
	}
	return json_pack("{s:s,s:i,s:o,s:[[s]],s:{}}", "Driver", "", "Count", all ? -1 : (int)count,
			 "DeviceIDs", ids, "Capabilities", "gpu", "Options");
}

/* ---- devices and their rates ----------------------------------------------------------------- */

json_t *door_device(const char *text, struct err *e)
{
	autofree char *copy = strdup(text);
	char *target = copy ? strchr(copy, ':') : NULL, *may = NULL;

	if (!copy) {
		err_nomem(e);
		return NULL;
	}
	if (target)
		*target++ = '\0';
	may = target ? strchr(target, ':') : NULL;
	if (may)
		*may++ = '\0';
	return json_pack("{s:s,s:s,s:s}", "PathOnHost", copy, "PathInContainer",
			 target && target[0] ? target : copy, "CgroupPermissions",
			 may ? may : "rwm");
}


static json_t *rate_of(const char *text, int64_t rate, struct err *e)
{
	const char *colon = strchr(text, ':');

	if (!strncmp(text, "/dev/", 5) && colon && rate > 0)
		return json_pack("{s:s#,s:I}", "Path", text, (int)(colon - text), "Rate",
				 (json_int_t)rate);
	err_set(e, ERR_INVALID,
		"'%.100s' is not a rate for a device; the correct format is "
		"<device-path>:<number>, such as /dev/sda:1mb of bytes or /dev/sda:1000 of "
		"operations a second",
		text);
	return NULL;
}

json_t *door_rate_bytes(const char *text, struct err *e)
{
	const char *colon = strchr(text, ':');

	return rate_of(text, colon ? door_bytes(colon + 1, "device-bps", e) : 0, e);
}

json_t *door_rate_operations(const char *text, struct err *e)
{
	const char *colon = strchr(text, ':');
	uint64_t n = 0;

	if (colon && num_u64(colon + 1, "rate", 1, UINT32_MAX - 1, &n, e) < 0)
		n = 0;
	return rate_of(text, (int64_t)n, e);
}
