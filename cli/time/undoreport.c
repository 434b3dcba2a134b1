/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/time/undoreport.h"

#include <stdio.h>

#include "base/log.h"

#define TEXT 300

static const char *text_of(const json_t *j, const char *key, char out[TEXT])
{
	const char *s = json_string_value(json_object_get(j, key));

	log_clean(out, TEXT, s ? s : "", 0);
	return out;
}

void undoreport_print(const json_t *done)
{
	const json_int_t more = json_integer_value(json_object_get(done, "ended_more"));
	char text[TEXT], reason[TEXT];
	json_t *one;
	size_t i;

	puts(text_of(done, "checkpoint", text));
	json_array_foreach (json_object_get(done, "ended"), i, one)
		fprintf(stderr, "berth undo: ended: %lld %s\n",
			(long long)json_integer_value(json_object_get(one, "pid")),
			text_of(one, "text", text));
	if (more)
		fprintf(stderr, "berth undo: ended: %lld more\n", (long long)more);
	json_array_foreach (json_object_get(done, "sessions"), i, one)
		if (!json_is_true(json_object_get(one, "restored")))
			fprintf(stderr, "berth undo: session %s begins anew: %s\n",
				text_of(one, "session", text), text_of(one, "reason", reason));
}
