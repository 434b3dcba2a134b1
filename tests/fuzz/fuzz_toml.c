/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth.toml: the reader, and the configuration made of what it accepts.
 *
 * What is accepted is within the limits and survives a walk; what is refused
 * says where.  A configuration that is accepted prints as TOML that means the
 * same again.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/toml.h"
#include "manager/host/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const json_t *j, unsigned depth)
{
	const char *key;
	json_t *v;
	size_t i;

	if (depth > TOML_DEPTH_MAX + 1)
		abort();
	if (json_is_object(j)) {
		json_object_foreach((json_t *)j, key, v)
			walk(v, depth + 1);
	} else if (json_is_array(j)) {
		json_array_foreach(j, i, v)
			walk(v, depth + 1);
	} else if (json_is_string(j) && strlen(json_string_value(j)) != json_string_length(j)) {
		abort();
	}
}

static void check_config(const char *text, size_t size)
{
	static struct config c, again;
	autobuf struct buf b = BUF_INIT(1 << 20);
	char value[CONFIG_TOML_MAX];
	struct err e = { 0 };
	size_t i;

	if (config_parse(text, size, "fuzz", &c, &e) < 0) {
		if (e.code != ERR_CONFIG || !e.msg[0])
			abort();
		return;
	}
	for (i = 0; i < config_key_count; i++)
		if (buf_addf(&b, &e, "%s.%s = %s\n", config_keys[i].section, config_keys[i].name,
			     config_value_toml(&c, &config_keys[i], value, sizeof(value))) < 0)
			abort();
	if (config_parse(b.data, b.len, "again", &again, &e) < 0)
		abort();
	memset(c.source, 0, sizeof(c.source));
	memset(again.source, 0, sizeof(again.source));
	for (i = 0; i < config_key_count; i++) {
		const char *p = (const char *)&c + config_keys[i].offset, *q = (const char *)&again + config_keys[i].offset;

		if (config_keys[i].type == CONFIG_STRING ? strcmp(p, q) : memcmp(p, q, config_keys[i].size))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = { 0 };
	json_t *j = toml_parse((const char *)data, size, "fuzz", &e);

	if (!j && (e.code != ERR_INVALID || strncmp(e.msg, "fuzz:", 5)))
		abort();
	if (j)
		walk(j, 0);
	json_decref(j);
	check_config((const char *)data, size);
	return 0;
}
