/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/filter.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

const struct filter_key filter_sandbox_keys[] = {
	{ "id", FILTER_ID, "id" },
	{ "name", FILTER_GLOB, "name" },
	{ "image", FILTER_GLOB, "image" },
	{ "ancestor", FILTER_GLOB, "image" },
	{ "status", FILTER_GLOB, "status" },
	{ "health", FILTER_GLOB, "health" },
	{ "label", FILTER_LABEL, "labels" },
	{ "network", FILTER_GLOB, "network.mode" },
	{ "until", FILTER_UNTIL, "created" },
	{ NULL, FILTER_GLOB, NULL },
};

static const struct filter_key *find_filter_key(const struct filter_key *keys, const char *name, size_t n)
{
	for (; keys->name; keys++)
		if (strlen(keys->name) == n && !memcmp(keys->name, name, n))
			return keys;
	return NULL;
}

static int no_term(const struct filter *f, const char *text, struct err *e)
{
	char known[160] = "";
	size_t i, n;

	for (i = 0; f->keys[i].name; i++) {
		n = strlen(known);
		if (i)
			n += (size_t)snprintf(known + n, sizeof(known) - n, "%s",
					      f->keys[i + 1].name ? ", " : " and ");
		snprintf(known + n, sizeof(known) - n, "%s=", f->keys[i].name);
	}
	err_set(e, ERR_INVALID, "'%.80s' is not KEY=VALUE", text);
	return err_hint(e, "the keys are %s", known);
}

static int add_term(struct filter *f, const struct filter_key *key, int negated, const char *value,
		    struct err *e)
{
	struct filter_term *t = &f->terms[f->count];

	if (f->count == FILTER_TERMS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d filters", FILTER_TERMS_MAX);
	*t = (struct filter_term){ key, negated, value, "" };
	if (key->kind == FILTER_LABEL && (!value[0] || value[0] == '='))
		return err_set(e, ERR_INVALID, "'%.80s' names no label; hint: label=KEY or "
			       "label=KEY=VALUE", value);
	if (key->kind == FILTER_UNTIL && journal_since(value, t->time, e) < 0)
		return -1;
	f->count++;
	return 0;
}

int filter_add(struct filter *f, const char *text, struct err *e)
{
	size_t n = strcspn(text, "!=");
	int negated = text[n] == '!' && text[n + 1] == '=';
	const struct filter_key *key = find_filter_key(f->keys, text, n);

	if (!key || !text[n] || (text[n] == '!' && !negated))
		return no_term(f, text, e);
	return add_term(f, key, negated, text + n + 1 + negated, e);
}

int filter_add_label(struct filter *f, const char *text, struct err *e)
{
	const struct filter_key *key = find_filter_key(f->keys, "label", 5);

	return key ? add_term(f, key, 0, text, e) : no_term(f, "label", e);
}

static const json_t *filter_member(const json_t *record, const char *path)
{
	const char *dot = strchr(path, '.');
	char first[32];

	if (!dot)
		return json_object_get(record, path);
	snprintf(first, sizeof(first), "%.*s", (int)(dot - path), path);
	return json_object_get(json_object_get(record, first), dot + 1);
}

static int matches_label(const json_t *labels, const char *want)
{
	size_t n = strcspn(want, "=");
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(size_t)labels, key,
			    v) if (strlen(key) == n && !memcmp(key, want, n)) return !want[n] ||
		(json_is_string(v) && !strcmp(json_string_value(v), want + n + 1));
	return 0;
}

static int matches_id(const char *have, const char *want)
{
	return (want[0] && !strncmp(have, want, strlen(want))) || !fnmatch(want, have, 0);
}

static const char *filter_text(const json_t *record, const char *member)
{
	const char *s = json_string_value(filter_member(record, member));

	return s ? s : "";
}

static int filter_term_holds(const struct filter_term *t, const json_t *record)
{
	const char *have = filter_text(record, t->key->member);

	switch (t->key->kind) {
	case FILTER_LABEL:
		return matches_label(filter_member(record, t->key->member), t->value);
	case FILTER_UNTIL:
		return have[0] && strcmp(have, t->time) < 0;
	case FILTER_NAMED:
		return matches_id(have, t->value) || !fnmatch(t->value, filter_text(record, "name"), 0);
	case FILTER_ID:
		return matches_id(have, t->value);
	case FILTER_GLOB:
		break;
	}
	return !fnmatch(t->value, have, 0);
}

int filter_matches(const struct filter *f, const json_t *record)
{
	size_t i, j;

	for (i = 0; i < f->count; i++) {
		const struct filter_term *t = &f->terms[i];
		int held = filter_term_holds(t, record) != t->negated;

		/* another term of the same key suffices, except for labels and for negated terms */
		for (j = 0; j < f->count && !held && !t->negated && t->key->kind != FILTER_LABEL;
		     j++)
			held = f->terms[j].key == t->key && !f->terms[j].negated &&
			       filter_term_holds(&f->terms[j], record);
		if (!held)
			return 0;
	}
	return 1;
}

int filter_has(const struct filter *f, const char *key)
{
	size_t i;

	for (i = 0; i < f->count; i++)
		if (!strcmp(f->terms[i].key->name, key))
			return 1;
	return 0;
}
