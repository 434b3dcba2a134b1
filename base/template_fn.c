/* SPDX-License-Identifier: Apache-2.0 */
/* template_fn - the functions of a template: what they make of values, and the texts that they make.  Pure. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/template.h"
#include "base/template_tree.h"

/* ---- values ---- */

const char *template_kind(const json_t *j)
{
	switch (json_typeof(j)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
	case JSON_REAL:
		return "a number";
	case JSON_NULL:
		return "null";
	default:
		return "true or false";
	}
}

static json_t *wrong_value_operand(struct err *e, const char *fn, const char *what, const json_t *j)
{
	err_set(e, ERR_INVALID, "template: %s %s %s", fn, what, template_kind(j));
	return NULL;
}

/*
 * Returns the keys in the order in which Go prints and walks maps; the caller frees the array. NULL
 * for none.
 */
const char **template_keys(const json_t *object, struct err *e)
{
	const size_t n = json_object_size(object);
	const char **keys = calloc(n + 1, sizeof(*keys)), *key;
	size_t count = 0, i;
	json_t *v;

	if (!keys) {
		err_nomem(e);
		return NULL;
	}
	json_object_foreach ((json_t *)object, key, v) {
		for (i = count++; i > 0 && strcmp(keys[i - 1], key) > 0; i--)
			keys[i] = keys[i - 1];
		keys[i] = key;
	}
	return keys;
}

int template_true(const json_t *j)
{
	switch (json_typeof(j)) {
	case JSON_OBJECT:
		return json_object_size(j) != 0;
	case JSON_ARRAY:
		return json_array_size(j) != 0;
	case JSON_STRING:
		return json_string_length(j) != 0;
	case JSON_INTEGER:
	case JSON_REAL:
		return json_number_value(j) != 0;
	default:
		return json_is_true(j);
	}
}

/* Implements and, or: the first argument that decides, else the last. */
json_t *template_decide(json_t **args, size_t n, int wanted)
{
	size_t i = 0;

	while (i + 1 < n && template_true(args[i]) != wanted)
		i++;
	return json_incref(args[i]);
}

json_t *template_compare(struct err *e, enum template_fn fn, const json_t *a, const json_t *b)
{
	int order;

	if (json_is_string(a) && json_is_string(b)) {
		order = strcmp(json_string_value(a), json_string_value(b));
	} else if (json_is_integer(a) && json_is_integer(b)) {
		order = (json_integer_value(a) > json_integer_value(b)) -
			(json_integer_value(a) < json_integer_value(b));
	} else if (json_is_number(a) && json_is_number(b)) {
		order = (json_number_value(a) > json_number_value(b)) -
			(json_number_value(a) < json_number_value(b));
	} else {
		return wrong_value_operand(e, "lt, le, gt and ge", "compare two strings or two numbers, and not",
					   json_is_string(a) || json_is_number(a) ? b : a);
	}
	return json_boolean(fn == TEMPLATE_LT ? order < 0 :
			    fn == TEMPLATE_LE ? order <= 0 :
			    fn == TEMPLATE_GT ? order > 0 :
						order >= 0);
}

json_t *template_equal(struct err *e, json_t **args, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (json_is_object(args[i]) || json_is_array(args[i]))
			return wrong_value_operand(e, "eq and ne", "cannot compare", args[i]);
	for (i = 1; i < n; i++)
		if (json_is_number(args[0]) && json_is_number(args[i]) ?
			    json_number_value(args[0]) == json_number_value(args[i]) :
			    json_equal(args[0], args[i]))
			return json_true();
	return json_false();
}

/*
 * Implements index x 1 "a": a missing key of an object is null, as Go's zero value; a missing place
 * of an array is an error.
 */
json_t *template_index(struct err *e, json_t **args, size_t n)
{
	autojson json_t *held = NULL;
	json_t *at = args[0];
	size_t i;

	for (i = 1; i < n; i++) {
		if (json_is_object(at) && json_is_string(args[i])) {
			at = template_member(at, json_string_value(args[i]));
			json_decref(held);
			held = at;
		} else if (json_is_array(at) && json_is_integer(args[i])) {
			const json_int_t k = json_integer_value(args[i]);

			if (k < 0 || (size_t)k >= json_array_size(at)) {
				err_set(e, ERR_NOT_FOUND, "template: index %lld of an array of %zu",
					(long long)k, json_array_size(at));
				return NULL;
			}
			at = json_array_get(at, (size_t)k);
		} else {
			return wrong_value_operand(
				e, "index",
				"takes an object and a string, or an array and a number, and not",
				at);
		}
	}
	return json_incref(at);
}

json_t *template_len(struct err *e, const json_t *j)
{
	if (json_is_string(j))
		return json_integer((json_int_t)json_string_length(j));
	if (json_is_array(j) || json_is_object(j))
		return json_integer(
			(json_int_t)(json_is_array(j) ? json_array_size(j) : json_object_size(j)));
	return wrong_value_operand(e, "len", "of", j);
}

/* ---- texts ---- */

/* The functions of template.h that make texts: printf of Go's fmt, and those that docker adds. */

#define WIDTH_MAX 1000
#define KNOWN "%s %d %v %q %t %f %%, with - 0 and a width"

static json_t *wrong_text_call(struct err *e, const char *what)
{
	err_set(e, ERR_INVALID, "template: %s", what);
	return NULL;
}

static json_t *wrong_text_operand(const struct template_printer *p, const char *fn, const char *what,
				  const json_t *j, struct err *e)
{
	err_set(e, ERR_INVALID, "template: %s %s %s", fn, what, p->kind_of(j));
	return NULL;
}

static json_t *buf_to_string(const struct buf *b, struct err *e)
{
	json_t *j = json_stringn(b->data ? b->data : "", b->len);

	return j ? j : wrong_text_call(e, "a string would not be UTF-8");
}

/* One "%-20s": what stands between the % and the verb. */
struct verb {
	int left, zero;
	size_t width;
	int precision; /* -1: none */
	char name;
};

/* Returns what comes after it, or NULL. */
static const char *parse_verb(const char *p, struct verb *v, struct err *e)
{
	size_t digits = 0;

	*v = (struct verb){ .precision = -1 };
	for (; *p == '-' || *p == '0'; p++)
		*(*p == '-' ? &v->left : &v->zero) = 1;
	for (; isdigit((unsigned char)*p) && v->width <= WIDTH_MAX; p++)
		v->width = v->width * 10 + (size_t)(*p - '0');
	if (*p == '.')
		for (p++, v->precision = 0; isdigit((unsigned char)*p) && digits < 3; p++, digits++)
			v->precision = v->precision * 10 + (*p - '0');
	v->name = *p;
	if (*p && strchr("sdvqtf", *p) && v->width <= WIDTH_MAX)
		return p + 1;
	err_set(e, ERR_INVALID, "template: printf knows %s", KNOWN);
	return NULL;
}

static int verb_takes(char verb, const json_t *j)
{
	switch (verb) {
	case 'd':
		return json_is_integer(j);
	case 't':
		return json_is_boolean(j);
	case 'f':
		return json_is_real(j);
	case 'q':
		return json_is_string(j);
	default:
		return 1;
	}
}

/* The value alone, without its width. */
static int print_one(const struct verb *v, struct buf *b, const json_t *j,
		     const struct template_printer *p, struct err *e)
{
	autofree char *quoted = NULL;

	if (!verb_takes(v->name, j))
		return err_set(e, ERR_INVALID,
			       "template: %%%c of printf is given another kind of "
			       "value; hint: %%v takes any",
			       v->name);
	if (v->name == 'f')
		return buf_addf(b, e, "%.*f", v->precision < 0 ? 6 : v->precision,
				json_real_value(j));
	if (v->name != 'q')
		return p->print(p->ctx, b, j);
	quoted = json_dumps(j, JSON_ENCODE_ANY);
	return quoted ? buf_adds(b, quoted, e) : err_nomem(e);
}

static size_t letters(const char *s, size_t n)
{
	size_t i, count = 0;

	for (i = 0; i < n; i++)
		count += ((unsigned char)s[i] & 0xc0) != 0x80;
	return count;
}

/* The bytes of the first count letters. */
static size_t bytes_of_letters(const char *s, size_t n, size_t count)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (((unsigned char)s[i] & 0xc0) != 0x80 && !count--)
			break;
	return i;
}

static int print_verb_padded(const struct verb *v, struct buf *b, const json_t *j,
			     const struct template_printer *p, struct err *e)
{
	autobuf struct buf one = BUF_INIT(p->max);
	const char fill = v->zero && !v->left && v->name != 's' ? '0' : ' ';
	size_t have, pad;

	if (print_one(v, &one, j, p, e) < 0)
		return -1;
	if (v->precision >= 0 && strchr("sv", v->name) && json_is_string(j))
		one.len = bytes_of_letters(one.data ? one.data : "", one.len, (size_t)v->precision);
	have = letters(one.data ? one.data : "", one.len);
	pad = have < v->width ? v->width - have : 0;
	if (v->left && buf_add(b, one.data, one.len, e) < 0)
		return -1;
	for (; pad; pad--)
		if (buf_add(b, &fill, 1, e) < 0)
			return -1;
	return v->left ? 0 : buf_add(b, one.data ? one.data : "", one.len, e);
}

static json_t *print_format(json_t **args, size_t n, const struct template_printer *p,
			    struct err *e)
{
	const char *f = json_string_value(args[0]), *pct;
	autobuf struct buf b = BUF_INIT(p->max);
	struct verb v;
	size_t next = 1;

	if (!f)
		return wrong_text_call(e, "printf begins with a string");
	for (; (pct = strchr(f, '%'));) {
		if (buf_add(&b, f, (size_t)(pct - f), e) < 0)
			return NULL;
		if (pct[1] == '%') {
			f = pct + 2;
			if (buf_adds(&b, "%", e) < 0)
				return NULL;
			continue;
		}
		f = parse_verb(pct + 1, &v, e);
		if (!f)
			return NULL;
		if (next == n)
			return wrong_text_call(e, "printf has fewer values than verbs");
		if (print_verb_padded(&v, &b, args[next++], p, e) < 0)
			return NULL;
	}
	if (next != n)
		return wrong_text_call(e, "printf has more values than verbs");
	return buf_adds(&b, f, e) < 0 ? NULL : buf_to_string(&b, e);
}

static json_t *join_template_strings(const json_t *list, const json_t *between, const struct template_printer *p,
				     struct err *e)
{
	autobuf struct buf b = BUF_INIT(p->max);
	const json_t *v;
	size_t i;

	if (!json_is_array(list) || !json_is_string(between))
		return wrong_text_operand(p, "join", "takes an array and a string, and not",
					  json_is_array(list) ? between : list, e);
	json_array_foreach ((json_t *)(size_t)list, i, v)
		if ((i && buf_adds(&b, json_string_value(between), e) < 0) ||
		    p->print(p->ctx, &b, v) < 0)
			return NULL;
	return buf_to_string(&b, e);
}

/* Raises or lowers ASCII letters; others stay. */
static json_t *change_case(const json_t *j, int upper, const struct template_printer *p,
			   struct err *e)
{
	autofree char *s = json_is_string(j) ? strdup(json_string_value(j)) : NULL;
	char *at;

	if (!json_is_string(j))
		return wrong_text_operand(p, upper ? "upper" : "lower", "of", j, e);
	for (at = s; at && *at; at++)
		if ((unsigned char)*at < 128)
			*at = (char)(upper ? toupper(*at) : tolower(*at));
	if (!s)
		err_nomem(e);
	return s ? json_string(s) : NULL;
}

static json_t *split_template_string(json_t **args, struct err *e)
{
	const char *s = json_string_value(args[0]), *by = json_string_value(args[1]), *at;
	json_t *all;

	if (!s || !by || !by[0])
		return wrong_text_call(e, "split takes a string and what it is split by");
	all = json_array();
	for (; (at = strstr(s, by)); s = at + strlen(by))
		json_array_append_new(all, json_stringn(s, (size_t)(at - s)));
	json_array_append_new(all, json_string(s));
	return all;
}

/* Raises the first letter of each word; only ASCII letters change. */
static json_t *title(const json_t *j, struct err *e)
{
	autofree char *s = json_is_string(j) ? strdup(json_string_value(j)) : NULL;
	size_t i;

	if (!s)
		return wrong_text_call(e, "title takes a string");
	for (i = 0; s[i]; i++)
		if ((!i || isspace((unsigned char)s[i - 1])) && (unsigned char)s[i] < 128)
			s[i] = (char)toupper(s[i]);
	return json_string(s);
}

static json_t *truncate_text(json_t **args, struct err *e)
{
	const char *s = json_string_value(args[0]);
	json_int_t most = json_integer_value(args[1]);

	if (!s || !json_is_integer(args[1]) || most < 0)
		return wrong_text_call(e, "truncate takes a string and a length");
	return json_stringn(s, bytes_of_letters(s, strlen(s), (size_t)most));
}

/* Implements slice x 1 2, which is x[1:2] of Go: bytes of a string, items of an array. */
static json_t *slice(json_t **args, size_t n, struct err *e)
{
	const char *s = json_string_value(args[0]);
	const size_t size = s ? strlen(s) : json_array_size(args[0]);
	json_int_t from = n > 1 ? json_integer_value(args[1]) : 0,
		   to = n > 2 ? json_integer_value(args[2]) : (json_int_t)size;
	json_t *all;

	if ((!s && !json_is_array(args[0])) || (n > 1 && !json_is_integer(args[1])) ||
	    (n > 2 && !json_is_integer(args[2])))
		return wrong_text_call(e, "slice takes a string or an array, and one or two positions");
	if (from < 0 || to < from || to > (json_int_t)size)
		return wrong_text_call(e, "slice: a position is out of range");
	if (s) {
		all = json_stringn(s + from, (size_t)(to - from));
		return all ? all : wrong_text_call(e, "slice cuts a letter of several bytes");
	}
	for (all = json_array(); from < to; from++)
		json_array_append(all, json_array_get(args[0], (size_t)from));
	return all;
}

json_t *template_text(enum template_fn fn, json_t **args, size_t n,
		      const struct template_printer *p, struct err *e)
{
	switch (fn) {
	case TEMPLATE_JOIN:
		return join_template_strings(args[0], args[1], p, e);
	case TEMPLATE_LOWER:
	case TEMPLATE_UPPER:
		return change_case(args[0], fn == TEMPLATE_UPPER, p, e);
	case TEMPLATE_PRINTF:
		return print_format(args, n, p, e);
	case TEMPLATE_SLICE:
		return slice(args, n, e);
	case TEMPLATE_SPLIT:
		return split_template_string(args, e);
	case TEMPLATE_TITLE:
		return title(args[0], e);
	default:
		return truncate_text(args, e);
	}
}

int template_note_label(struct template_command *c)
{
	const struct template_name *f =
		c->fn == TEMPLATE_NO_FN && c->arg_count == 2 ? c->args->fields : NULL;

	while (f && f->next)
		f = f->next;
	if (!f || strcmp(f->text, "Label"))
		return 0;
	c->fn = TEMPLATE_INDEX;
	return 1;
}

json_t *template_member(const json_t *object, const char *key)
{
	const json_t *v = json_object_get(object, key);
	const char *name;
	json_t *one;

	if (v)
		return json_incref((json_t *)(size_t)v);
	json_object_foreach ((json_t *)(size_t)object, name, one)
		if (!json_is_string(one))
			return json_null();
	return json_string("");
}
