/* SPDX-License-Identifier: Apache-2.0 */
/* The way back from a value to the TOML that means it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "manager/host/config.h"

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

static void show_cpus(uint64_t milli, char *out, size_t n)
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
		show_cpus(v, out, n);
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
