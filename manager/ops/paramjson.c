/* SPDX-License-Identifier: Apache-2.0 */
/* Options as JSON has them, as spec.json keeps them, and one option in the place of another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/host/labels.h"
#include "manager/ops/limitopts.h"
#include "manager/ops/params.h"

int params_keep(json_t *list, const char *name, const char *value, struct err *e)
{
	return json_array_append_new(list, json_pack("[s,s]", name, value ? value : "")) < 0 ?
		       err_set(e, ERR_INVALID, "the value is not valid UTF-8") :
		       0;
}

/* ---- from JSON --------------------------------------------------------------------------------- */

static const char *const wanted[] = {
	[PARAM_FLAG] = "true or false",
	[PARAM_SIZE] = "a number of bytes or a text such as \"512m\"",
	[PARAM_COUNT] = "a whole number",
	[PARAM_MILLI] = "a number such as 0.5",
	[PARAM_TIME] = "a number of seconds or a text such as \"10m\"",
	[PARAM_TEXT] = "a string",
	[PARAM_LIST] = "a string or an array of strings",
	[PARAM_PAIRS] = "an array of strings NAME=VALUE, or an object of strings",
};

static char *refuse_type(const struct param *p, struct err *e)
{
	err_set(e, ERR_INVALID, "option %s is not %s", p->opt.name, wanted[p->type]);
	return NULL;
}

/* The shortest decimals that read back as v, never with an exponent; NULL beyond 10^18. */
static char *real_text(double v)
{
	char text[64];
	int decimals;

	if (!(v > -1e18 && v < 1e18))
		return NULL;
	for (decimals = 0; decimals < 20; decimals++) {
		snprintf(text, sizeof(text), "%.*f", decimals, v);
		if (strtod(text, NULL) == v)
			break;
	}
	return strdup(text);
}

char *param_text(const struct param *p, const json_t *value, struct err *e)
{
	const int takes_number = p->number_too || (p->type != PARAM_TEXT && p->type != PARAM_FLAG);
	char *text = NULL;

	if (json_is_string(value)) {
		if (p->type == PARAM_FLAG)
			return refuse_type(p, e);
		if (strlen(json_string_value(value)) != json_string_length(value)) {
			err_set(e, ERR_INVALID, "option %s holds a NUL character", p->opt.name);
			return NULL;
		}
		text = strdup(json_string_value(value));
	} else if (takes_number && json_is_integer(value)) {
		if (asprintf(&text, "%" JSON_INTEGER_FORMAT, json_integer_value(value)) < 0)
			text = NULL;
	} else if (takes_number && json_is_real(value)) {
		text = real_text(json_real_value(value));
		if (!text)
			return refuse_type(p, e);
	} else {
		return refuse_type(p, e);
	}
	if (!text)
		err_nomem(e);
	return text;
}

int param_number(const struct param *p, const json_t *value, uint64_t *ret, struct err *e)
{
	autofree char *text = param_text(p, value, e);

	return text ? param_parse(p, text, ret, e) : -1;
}

static int keep_one(const struct param *p, const json_t *value, json_t *list, struct err *e)
{
	autofree char *text = NULL;

	if (p->type == PARAM_FLAG && json_is_true(value))
		return params_keep(list, p->opt.name, "", e);
	text = param_text(p, value, e);
	return text ? params_keep(list, p->opt.name, text, e) : -1;
}

/* A variable's NAME alone takes the value that it has here, and labels of berth's own are not the client's. */
static int check_from_afar(const json_t *list, struct err *e)
{
	const json_t *pair;
	size_t i;

	json_array_foreach(list, i, pair) {
		const struct param *p = param_named(json_string_value(json_array_get(pair, 0)));
		const char *value = json_string_value(json_array_get(pair, 1));

		if (p->opt.id == PARAM_ENV && !strchr(value, '='))
			return err_set(e, ERR_INVALID, "options.env holds something else than NAME=VALUE");
		if (p->opt.id == PARAM_LABEL && labels_refuse_own(value, e) < 0)
			return -1;
	}
	return 0;
}

json_t *param_pairs(const struct param *p, const json_t *value, struct err *e)
{
	json_t *pairs = json_array(), *one;
	const char *name;

	json_object_foreach((json_t *)(uintptr_t)value, name, one) {
		autofree char *text = param_text(p, one, e);

		/* a name with "=" in it would be another name */
		if (text && !strchr(name, '=') && json_array_append_new(pairs, json_sprintf("%s=%s", name, text)) == 0)
			continue;
		if (text)
			refuse_type(p, e);
		json_decref(pairs);
		return NULL;
	}
	return pairs;
}

static int keep_values(const struct param *p, const json_t *value, json_t *list, struct err *e)
{
	autojson json_t *pairs = NULL;
	const json_t *one;
	size_t i;

	if (json_is_object(value) && p->type == PARAM_PAIRS) {
		pairs = param_pairs(p, value, e);
		return pairs ? keep_values(p, pairs, list, e) : -1;
	}
	if (!json_is_array(value))
		return keep_one(p, value, list, e);
	if (p->opt.kind != OPT_LIST && json_array_size(value) != 1)
		return refuse_type(p, e), -1;
	json_array_foreach((json_t *)(uintptr_t)value, i, one)
		if (keep_one(p, one, list, e) < 0)
			return -1;
	return 0;
}

int params_from_json(const json_t *options, unsigned of, json_t *list, struct err *e)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)options, name, value) {
		const struct param *p = param_named(name);

		/* a request from afar has the name as a member of its own */
		if (!p || !(p->of & of) || (of & PARAM_FROM_AFAR && (p->hidden || p->opt.id == PARAM_NAME)))
			return err_set(e, ERR_USAGE, "'%.60s' is not an option here", name);
		if (json_is_null(value) || json_is_false(value))
			continue;
		if (keep_values(p, value, list, e) < 0)
			return -1;
	}
	return of & PARAM_FROM_AFAR ? check_from_afar(list, e) : 0;
}

/* ---- one option in the place of another ---------------------------------------------------------- */

static const struct param *row_of(const json_t *pair)
{
	const char *name = json_string_value(json_array_get(pair, 0));

	return name ? param_named(name) : NULL;
}

static int is_of_health(const struct param *p)
{
	return p->group == PARAM_G_HEALTH || p->group == PARAM_G_CHECK || p->group == PARAM_G_NO_CHECK;
}

/* allow-host and deny-host judge the same thing, allow-net and deny-net another. */
static int judge_the_same(const struct param *a, const struct param *b)
{
	return !strcmp(strchr(a->opt.name, '-'), strchr(b->opt.name, '-'));
}

int params_update_replaces(const json_t *now, const json_t *before)
{
	const struct param *a = row_of(now), *b = row_of(before);
	const json_t *value = json_array_get(now, 1), *old = json_array_get(before, 1);

	if (!a || !b)
		return 0;
	if (a->group == PARAM_G_RULE && b->group == PARAM_G_RULE)
		return judge_the_same(a, b) && json_equal(value, old);
	if (is_of_health(a) && is_of_health(b))
		return a == b || a->group == PARAM_G_NO_CHECK || b->group == PARAM_G_NO_CHECK ||
		       (a->group == PARAM_G_CHECK && b->group == PARAM_G_CHECK);
	if (a->opt.id == PARAM_IO_RATE && a == b)
		return limitopts_io_same(json_string_value(value), json_string_value(old));
	return a == b;
}
