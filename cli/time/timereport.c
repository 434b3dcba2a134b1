/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/time/timereport.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

/* ---- the checkpoints of a sandbox ---- */

#define CELL 200

static const char *checkpoint_cell(const json_t *record, const char *key, char out[CELL])
{
	const char *s = json_string_value(json_object_get(record, key));

	log_clean(out, CELL, s ? s : "-", 0);
	return out;
}

static void age_of(const json_t *record, char out[24])
{
	const uint64_t made = (uint64_t)json_integer_value(json_object_get(record, "created_ms"));
	const uint64_t now = clock_wall_ms(), s = now > made ? (now - made) / 1000 : 0;

	if (s < 120)
		snprintf(out, 24, "%llus", (unsigned long long)s);
	else if (s < 7200)
		snprintf(out, 24, "%llum", (unsigned long long)s / 60);
	else
		snprintf(out, 24, "%lluh", (unsigned long long)s / 3600);
}

static double mib(const json_t *doc, const char *key)
{
	return (double)json_integer_value(json_object_get(doc, key)) / 1048576.0;
}

void checkpointtable_print(const json_t *doc)
{
	const json_t *list = json_object_get(doc, "checkpoints");
	const char *head = json_string_value(json_object_get(doc, "head"));
	char id[CELL], parent[CELL], name[CELL], command[CELL], age[24], size[24];
	json_t *one;
	size_t i;

	printf("%-8s %-8s %-16s %6s %8s  %s\n", "ID", "PARENT", "NAME", "AGE", "SIZE", "AFTER");
	json_array_foreach (list, i, one) {
		age_of(one, age);
		snprintf(size, sizeof(size), "%.1fM", mib(one, "bytes"));
		checkpoint_cell(one, "id", id);
		printf("%-7s%s %-8s %-16s %6s %8s  %s\n", id, head && !strcmp(head, id) ? "*" : " ",
		       checkpoint_cell(one, "parent", parent), checkpoint_cell(one, "name", name), age, size,
		       checkpoint_cell(one, "command", command));
	}
	if (json_array_size(list))
		printf("together %.1fM of at most %.1fM; %.1fM of it not in the layer\n",
		       mib(doc, "bytes"), mib(doc, "limit_bytes"), mib(doc, "held_bytes"));
}

/* ---- what an undo did ---- */

#define TEXT 300

static const char *undo_text_of(const json_t *j, const char *key, char out[TEXT])
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

	puts(undo_text_of(done, "checkpoint", text));
	json_array_foreach (json_object_get(done, "ended"), i, one)
		fprintf(stderr, "berth undo: ended: %lld %s\n",
			(long long)json_integer_value(json_object_get(one, "pid")),
			undo_text_of(one, "text", text));
	if (more)
		fprintf(stderr, "berth undo: ended: %lld more\n", (long long)more);
	json_array_foreach (json_object_get(done, "sessions"), i, one)
		if (!json_is_true(json_object_get(one, "restored")))
			fprintf(stderr, "berth undo: session %s begins anew: %s\n",
				undo_text_of(one, "session", text), undo_text_of(one, "reason", reason));
}
