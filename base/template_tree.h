/* SPDX-License-Identifier: Apache-2.0 */
/* template_tree - the tree that template.c makes from a text, and template_run.c runs. */
#ifndef BERTH_BASE_TEMPLATE_TREE_H
#define BERTH_BASE_TEMPLATE_TREE_H

#include <stddef.h>

#include "base/template.h"

#define TEMPLATE_FUNCTIONS(X) \
	X(AND, "and", 1, -1) \
	X(EQ, "eq", 2, -1) \
	X(GE, "ge", 2, 2) \
	X(GT, "gt", 2, 2) \
	X(INDEX, "index", 1, -1) \
	X(JOIN, "join", 2, 2) \
	X(JSON, "json", 1, 1) \
	X(LE, "le", 2, 2) \
	X(LEN, "len", 1, 1) \
	X(LOWER, "lower", 1, 1) \
	X(LT, "lt", 2, 2) \
	X(NE, "ne", 2, 2) \
	X(NOT, "not", 1, 1) \
	X(OR, "or", 1, -1) \
	X(PRINT, "print", 0, -1) \
	X(PRINTF, "printf", 1, -1) \
	X(PRINTLN, "println", 0, -1) \
	X(SLICE, "slice", 1, 3) \
	X(SPLIT, "split", 2, 2) \
	X(TITLE, "title", 1, 1) \
	X(TRUNCATE, "truncate", 2, 2) \
	X(UPPER, "upper", 1, 1)

enum template_fn {
#define X(sym, name, least, most) TEMPLATE_##sym,
	TEMPLATE_FUNCTIONS(X)
#undef X
	TEMPLATE_FN_COUNT,
	TEMPLATE_NO_FN
};

struct template_name {
	struct template_name *next;
	const char *text;
};

enum template_operand_kind { OPERAND_DOT, OPERAND_VARIABLE, OPERAND_LITERAL, OPERAND_PIPE };

struct template_operand {
	struct template_operand *next;
	enum template_operand_kind kind;
	const char *variable;		/* without "$"; "" is the whole value */
	json_t *literal;
	struct template_command *pipe;
	struct template_name *fields;	/* applied to the operand one after the other */
};

/* Commands of a pipeline; the result of one is the last argument of the next. */
struct template_command {
	struct template_command *next;
	enum template_fn fn;		/* TEMPLATE_NO_FN: the command is its one operand */
	struct template_operand *args;
	unsigned arg_count;
};

enum template_node_kind { NODE_TEXT, NODE_PIPE, NODE_IF, NODE_WITH, NODE_RANGE };

struct template_node {
	struct template_node *next;
	enum template_node_kind kind;
	const char *text;		/* NODE_TEXT */
	size_t len;
	const char *variables[2];	/* variables set to the value of pipe; for a range: index and value */
	int declares;			/* := and not = */
	struct template_command *pipe;
	struct template_node *body, *otherwise;
};

struct template {
	char *text;			/* a copy, which strings of the tree point into */
	struct template_node *first;
	void *blocks[TEMPLATE_NODES];
	size_t block_count;
	json_t *literals;		/* an array that owns the literals */
	const char *const *maps;	/* from template_maps(), or NULL */
};

/* Prints a value as Go does, for template_text(). */
struct template_printer {
	int (*print)(void *ctx, struct buf *b, const json_t *j);
	const char *(*kind_of)(const json_t *j);	/* "an object" */
	void *ctx;
	size_t max;	/* most bytes of a result */
};

/*
 * Returns 1 if c is .Label "NAME", and turns it into index .Label "NAME". Label is the one field of
 * docker's lists that takes an argument.
 */
int template_note_label(struct template_command *c);
/*
 * Returns the member of an object, or null if it is missing; for an object of strings, such as
 * labels, "" if it is missing, which is Go's zero value. A new reference.
 */
json_t *template_member(const json_t *object, const char *key);
/* ---- template_fn.c: values ---- */

/* "an object". */
const char *template_kind(const json_t *j);
/*
 * Returns the keys in the order in which Go prints and walks maps; the caller frees the array. NULL
 * for none, with e.
 */
const char **template_keys(const json_t *object, struct err *e);
/* Tells whether `if` takes the value for true: not empty, not 0, not null. */
int template_true(const json_t *j);
/*
 * Implements and (wanted 0), or (wanted 1): the first argument that decides, else the last; a new
 * reference.
 */
json_t *template_decide(json_t **args, size_t n, int wanted);
/* Implements lt, le, gt, ge for two strings or two numbers: a new reference, or NULL with ERR_INVALID. */
json_t *template_compare(struct err *e, enum template_fn fn, const json_t *a, const json_t *b);
/*
 * Implements eq: whether the first argument equals any other; NULL with ERR_INVALID for objects and
 * arrays.
 */
json_t *template_equal(struct err *e, json_t **args, size_t n);
/*
 * Implements index x 1 "a". A missing key of an object is null, as Go's zero value; a missing place
 * of an array is ERR_NOT_FOUND. A new reference.
 */
json_t *template_index(struct err *e, json_t **args, size_t n);
/* Implements len: a new reference, or NULL with ERR_INVALID. */
json_t *template_len(struct err *e, const json_t *j);

/* ---- template_fn.c: texts ---- */

/* Runs a function that makes text: a new reference, or NULL with e. */
json_t *template_text(enum template_fn fn, json_t **args, size_t n,
		      const struct template_printer *p, struct err *e);

#endif
