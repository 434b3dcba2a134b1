/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the tree of template.c over JSON. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/template.h"
#include "base/template_tree.h"

#define VARIABLES 64
#define ARGS 64
#define BYTES_A_STEP 16

struct run {
	struct buf *out;
	struct err *e;
	json_t *root;
	const char *const *maps;
	struct {
		const char *name;
		json_t *value;	/* owned */
	} variables[VARIABLES];
	size_t variable_count;
	unsigned work;
};

static int charge(struct run *r, size_t bytes)
{
	const size_t steps = 1 + bytes / BYTES_A_STEP;

	if (steps > r->work)
		return err_set(r->e, ERR_LIMIT, "template: more than %u steps", TEMPLATE_WORK);
	r->work -= (unsigned)steps;
	return 0;
}

/* ---- printing ---------------------------------------------------------------------- */

static int print_value(struct run *r, struct buf *b, const json_t *j);

/* An empty object within another one is a struct without members to Go, as in "map[80/tcp:{}]". */
static int print_member(struct run *r, struct buf *b, const json_t *j)
{
	return json_is_object(j) && !json_object_size(j) ? buf_adds(b, "{}", r->e) : print_value(r, b, j);
}

static int print_object(struct run *r, struct buf *b, const json_t *j)
{
	autofree const char **keys = template_keys(j, r->e);
	size_t i;

	if (!keys || charge(r, json_object_size(j) * json_object_size(j)) < 0 || buf_adds(b, "map[", r->e) < 0)
		return -1;
	for (i = 0; keys[i]; i++)
		if (buf_addf(b, r->e, "%s%s:", i ? " " : "", keys[i]) < 0 || print_member(r, b, json_object_get(j, keys[i])) < 0)
			return -1;
	return buf_adds(b, "]", r->e);
}

/* json_parse() bounds the depth of a printed value. */
static int print_value(struct run *r, struct buf *b, const json_t *j)
{
	const size_t before = b->len;
	const json_t *v;
	int result = 0;
	size_t i;

	switch (json_typeof(j)) {
	case JSON_STRING:
		result = buf_add(b, json_string_value(j), json_string_length(j), r->e);
		break;
	case JSON_INTEGER:
		result = buf_addf(b, r->e, "%lld", (long long)json_integer_value(j));
		break;
	case JSON_REAL:
		result = buf_addf(b, r->e, "%.17g", json_real_value(j));
		break;
	case JSON_NULL:
		result = buf_adds(b, "<no value>", r->e);
		break;
	case JSON_OBJECT:
		result = print_object(r, b, j);
		break;
	case JSON_ARRAY:
		result = buf_adds(b, "[", r->e);
		json_array_foreach(j, i, v)
			if (result == 0 && (!i || (result = buf_adds(b, " ", r->e)) == 0))
				result = print_value(r, b, v);
		if (result == 0)
			result = buf_adds(b, "]", r->e);
		break;
	default:
		result = buf_adds(b, json_is_true(j) ? "true" : "false", r->e);
	}
	return result < 0 ? -1 : charge(r, b->len - before);
}

/* ---- functions: each gives a new reference, or NULL --------------------------------- */

static json_t *template_string(struct run *r, const struct buf *b)
{
	json_t *j = json_stringn(b->data ? b->data : "", b->len);

	if (!j)
		err_set(r->e, ERR_INVALID, "template: a string would not be UTF-8");
	return j;
}

static json_t *to_json(struct run *r, const json_t *j)
{
	autofree char *text = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY);

	if (!text) {
		err_nomem(r->e);
		return NULL;
	}
	return charge(r, strlen(text)) < 0 ? NULL : json_string(text);
}

/* print puts a space between two operands that are not strings, println between all, as Go does. */
static json_t *print_spaced(struct run *r, json_t **args, size_t n, int line)
{
	autobuf struct buf b = BUF_INIT(r->out->max);
	size_t i;

	for (i = 0; i < n; i++) {
		if (i && (line || (!json_is_string(args[i]) && !json_is_string(args[i - 1]))) && buf_adds(&b, " ", r->e) < 0)
			return NULL;
		if (print_value(r, &b, args[i]) < 0)
			return NULL;
	}
	return line && buf_adds(&b, "\n", r->e) < 0 ? NULL : template_string(r, &b);
}

static int print_for(void *ctx, struct buf *b, const json_t *j)
{
	return print_value(ctx, b, j);
}

static json_t *call_text_fn(struct run *r, enum template_fn fn, json_t **args, size_t n)
{
	const struct template_printer p = { print_for, template_kind, r, r->out->max };
	json_t *j = template_text(fn, args, n, &p, r->e);

	if (!j || charge(r, json_string_length(j) + json_array_size(j) * BYTES_A_STEP) == 0)
		return j;
	json_decref(j);
	return NULL;
}

static json_t *call_template_fn(struct run *r, enum template_fn fn, json_t **args, size_t n)
{
	json_t *same;

	switch (fn) {
	case TEMPLATE_AND:
		return template_decide(args, n, 0);
	case TEMPLATE_OR:
		return template_decide(args, n, 1);
	case TEMPLATE_NOT:
		return json_boolean(!template_true(args[0]));
	case TEMPLATE_EQ:
		return template_equal(r->e, args, n);
	case TEMPLATE_NE:
		same = template_equal(r->e, args, n);
		return same ? json_boolean(!json_is_true(same)) : NULL;
	case TEMPLATE_LT:
	case TEMPLATE_LE:
	case TEMPLATE_GT:
	case TEMPLATE_GE:
		return template_compare(r->e, fn, args[0], args[1]);
	case TEMPLATE_INDEX:
		return template_index(r->e, args, n);
	case TEMPLATE_JSON:
		return to_json(r, args[0]);
	case TEMPLATE_LEN:
		return template_len(r->e, args[0]);
	case TEMPLATE_PRINT:
	case TEMPLATE_PRINTLN:
		return print_spaced(r, args, n, fn == TEMPLATE_PRINTLN);
	case TEMPLATE_FN_COUNT:
	case TEMPLATE_NO_FN:
		return json_incref(args[0]);
	default:
		return call_text_fn(r, fn, args, n);
	}
}

/* ---- pipelines --------------------------------------------------------------------- */

static json_t *run_pipe(struct run *r, const struct template_command *c, json_t *dot);

static json_t *variable(struct run *r, const char *name)
{
	size_t i;

	if (!*name)
		return r->root;
	for (i = r->variable_count; i-- > 0;)
		if (!strcmp(r->variables[i].name, name))
			return r->variables[i].value;
	err_set(r->e, ERR_INVALID, "template: the variable $%.40s is not set", name);
	return NULL;
}

static int is_map(const struct run *r, const char *name)
{
	const char *const *map = r->maps;

	while (map && *map && strcmp(*map, name))
		map++;
	return map && *map;
}

static json_t *take_fields(struct run *r, json_t *j, const struct template_name *f)
{
	const char *of = "";

	for (; f; of = f->text, f = f->next) {
		json_t *next = json_named(j, f->text);

		/* a field of a missing map counts as a field of a map */
		if (!next && is_map(r, of) && (json_is_object(j) || json_is_null(j))) {
			j = json_null();
			continue;
		}
		if (!json_is_object(j)) {
			err_set(r->e, ERR_INVALID, "template: .%.80s of %s", f->text, template_kind(j));
			return NULL;
		}
		if (!next) {
			err_set(r->e, ERR_NOT_FOUND, "template: there is no field .%.80s; hint: {{json .}} shows them all, and "
				"index . \"%.80s\" takes one that may be missing", f->text, f->text);
			return NULL;
		}
		j = next;
	}
	return j;
}

/* Returns the operand's value, a new reference. */
static json_t *operand(struct run *r, const struct template_operand *o, json_t *dot)
{
	autojson json_t *piped = NULL;
	json_t *j = dot;

	if (charge(r, 0) < 0)
		return NULL;
	if (o->kind == OPERAND_LITERAL)
		j = o->literal;
	else if (o->kind == OPERAND_VARIABLE)
		j = variable(r, o->variable);
	else if (o->kind == OPERAND_PIPE)
		j = piped = run_pipe(r, o->pipe, dot);
	return j ? json_incref(take_fields(r, j, o->fields)) : NULL;
}

static json_t *run_command(struct run *r, const struct template_command *c, json_t *dot, json_t *piped)
{
	const struct template_operand *o = c->args;
	json_t *args[ARGS] = { NULL }, *result = NULL;
	size_t n = 0;

	if (c->arg_count >= ARGS) {
		err_set(r->e, ERR_LIMIT, "template: more than %d arguments", ARGS - 1);
		return NULL;
	}
	for (; o; o = o->next) {
		args[n] = operand(r, o, dot);
		if (!args[n])
			break;
		n++;
	}
	if (!o && piped)
		args[n++] = json_incref(piped);
	if (!o)
		result = call_template_fn(r, c->fn, args, n);
	while (n)
		json_decref(args[--n]);
	return result;
}

static json_t *run_pipe(struct run *r, const struct template_command *c, json_t *dot)
{
	json_t *result = NULL, *next;

	for (; c; c = c->next) {
		next = run_command(r, c, dot, result);
		json_decref(result);
		result = next;
		if (!result)
			return NULL;
	}
	return result;
}

/* ---- nodes ------------------------------------------------------------------------- */

static int run_nodes(struct run *r, const struct template_node *n, json_t *dot);

static int declare(struct run *r, const char *name, json_t *value)
{
	if (r->variable_count == VARIABLES)
		return err_set(r->e, ERR_LIMIT, "template: more than %d variables", VARIABLES);
	r->variables[r->variable_count].name = name;
	r->variables[r->variable_count++].value = json_incref(value);
	return 0;
}

static int assign(struct run *r, const char *name, json_t *value)
{
	size_t i;

	for (i = r->variable_count; i-- > 0;)
		if (!strcmp(r->variables[i].name, name)) {
			json_decref(r->variables[i].value);
			r->variables[i].value = json_incref(value);
			return 0;
		}
	return err_set(r->e, ERR_INVALID, "template: the variable $%.40s is not set; hint: $%.40s := ...", name, name);
}

static int set_template_variable(struct run *r, const struct template_node *n, int which, json_t *value)
{
	return n->declares ? declare(r, n->variables[which], value) : assign(r, n->variables[which], value);
}

static void drop_variables(struct run *r, size_t count)
{
	while (r->variable_count > count)
		json_decref(r->variables[--r->variable_count].value);
}

/* One turn of a range; takes over the reference to index. */
static int run_range_turn(struct run *r, const struct template_node *n, json_t *index, json_t *value)
{
	autojson json_t *owned = index;
	const size_t before = r->variable_count;
	int result = owned ? charge(r, 0) : err_nomem(r->e);

	if (result == 0 && n->variables[1])
		result = set_template_variable(r, n, 0, owned) < 0 || set_template_variable(r, n, 1, value) < 0 ? -1 : 0;
	else if (result == 0 && n->variables[0])
		result = set_template_variable(r, n, 0, value);
	if (result == 0)
		result = run_nodes(r, n->body, value);
	drop_variables(r, before);
	return result;
}

static int run_range(struct run *r, const struct template_node *n, json_t *over, json_t *dot)
{
	autofree const char **keys = NULL;
	json_t *v;
	size_t i;

	if (json_is_null(over) || ((json_is_array(over) || json_is_object(over)) && !template_true(over)))
		return run_nodes(r, n->otherwise, dot);
	if (json_is_array(over)) {
		json_array_foreach(over, i, v)
			if (run_range_turn(r, n, json_integer((json_int_t)i), v) < 0)
				return -1;
		return 0;
	}
	if (!json_is_object(over))
		return err_set(r->e, ERR_INVALID, "template: range over %s", template_kind(over));
	keys = template_keys(over, r->e);
	if (!keys || charge(r, json_object_size(over) * json_object_size(over)) < 0)
		return -1;
	for (i = 0; keys[i]; i++)
		if (run_range_turn(r, n, json_string(keys[i]), json_object_get(over, keys[i])) < 0)
			return -1;
	return 0;
}

static int run_block(struct run *r, const struct template_node *n, json_t *dot)
{
	const size_t before = r->variable_count;
	autojson json_t *value = run_pipe(r, n->pipe, dot);
	int result = -1;

	if (!value)
		return -1;
	if (n->kind == NODE_RANGE) {
		result = run_range(r, n, value, dot);
	} else if (!n->variables[0] || set_template_variable(r, n, 0, value) == 0) {
		result = template_true(value) ? run_nodes(r, n->body, n->kind == NODE_WITH ? value : dot) : run_nodes(r, n->otherwise, dot);
	}
	drop_variables(r, before);
	return result;
}

static int run_node(struct run *r, const struct template_node *n, json_t *dot)
{
	autojson json_t *value = NULL;

	if (charge(r, 0) < 0)
		return -1;
	if (n->kind == NODE_TEXT)
		return buf_add(r->out, n->text, n->len, r->e);
	if (n->kind != NODE_PIPE)
		return run_block(r, n, dot);
	value = run_pipe(r, n->pipe, dot);
	if (!value)
		return -1;
	return n->variables[0] ? set_template_variable(r, n, 0, value) : print_value(r, r->out, value);
}

static int run_nodes(struct run *r, const struct template_node *n, json_t *dot)
{
	const size_t before = r->variable_count;
	int result = 0;

	for (; n && result == 0; n = n->next)
		result = run_node(r, n, dot);
	drop_variables(r, before);
	return result;
}

void template_maps(struct template *t, const char *const *names)
{
	t->maps = names;
}

int template_run(const struct template *t, const json_t *dot, struct buf *out, struct err *e)
{
	struct run r = { .out = out, .e = e, .root = (json_t *)dot, .maps = t->maps, .work = TEMPLATE_WORK };
	int result = run_nodes(&r, t->first, (json_t *)dot);

	drop_variables(&r, 0);
	return result;
}
