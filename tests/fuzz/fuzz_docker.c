/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients of Docker send, as manager/engine reads it: by the first byte the login of a request, filters, the parameters of a build,
 * the body of a create.  A word for berth that comes out of it is one option, or stands behind "--".
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "manager/engine/build.h"
#include "manager/engine/create.h"
#include "manager/engine/login.h"
#include "manager/engine/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Up to "--" each is an option that the engine wrote, whatever the client said. */
static void check_words(const json_t *words)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(size_t)words, i, one) {
		const char *text = json_string_value(one);

		if (!text || strncmp(text, "--", 2))
			abort();
		if (!text[2])
			return;
		if (text[2] < 'a' || text[2] > 'z')
			abort();
	}
}

static void try_build(const char *text)
{
	static const char *const keys[] = { "networkmode", "buildargs", "labels", "t", "dockerfile", "target", "remote", "version", "memory" };
	struct engine_build b;
	struct err e;
	size_t i;

	if (engine_build_init(&b, &e) < 0)
		abort();
	for (i = 0; i < ARRAY_LEN(keys); i++)
		engine_build_set(&b, keys[i], text, &e);
	check_words(b.words);
	engine_build_release(&b);
}

static void try_create(const char *text, size_t n)
{
	static const struct engine_rules rules = { .state_dir = "/srv/berth", .run_dir = "/run/berth", .ids_dir = "/var/lib/berth-ids", .allow = ~0U };
	struct engine_create c = { 0 };
	struct err e;
	autojson json_t *body = json_parse(text, n, 1 << 20, "body", &e);

	if (body && engine_create_init(&c, &rules, &e) == 0 && engine_create_read(&c, body, &e) == 0)
		check_words(c.words);
	engine_create_release(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = size ? malloc(size) : NULL;
	struct engine_login login;
	struct err e;

	if (!text)
		return 0;
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	switch (data[0] % 4) {
	case 0:
		if (engine_login_read(text, &login, &e) == 0 && strlen(login.user) >= sizeof(login.user))
			abort();
		break;
	case 1:
		json_decref(engine_filters(text, &e));
		break;
	case 2:
		try_build(text);
		break;
	default:
		try_create(text, size - 1);
	}
	free(text);
	return 0;
}
