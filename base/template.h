/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template - the part of Go's text/template that docker's --format needs, over JSON.
 *
 * Pure. The supported part is: text, {{ }} with trim marks and comments; field paths (.a.b, $,
 * $x.a); variables ($x := ..., $x = ...); pipelines and parentheses; if, else, else if, range,
 * range $i, $v :=, with, end; strings, raw strings, numbers, true, false, nil; the functions that
 * template_functions() names. Values print as Go prints them: [a b], map[k:v], <no value>.
 *
 * A missing field is an error, as in docker; index accepts a missing field. Anything unknown is
 * refused when the template is parsed, even in a branch that does not run.
 *
 * Bounds: TEMPLATE_TEXT bytes of text, TEMPLATE_NODES parts, TEMPLATE_DEPTH levels,
 * TEMPLATE_WORK steps of one run (a step for each part that runs, and for each 16 bytes of
 * output on the way), and the ceiling of the buffer.
 */
#ifndef BERTH_BASE_TEMPLATE_H
#define BERTH_BASE_TEMPLATE_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"

#define TEMPLATE_TEXT (64u << 10)
#define TEMPLATE_NODES 4096
#define TEMPLATE_DEPTH 32
#define TEMPLATE_WORK 2000000u

struct template;

/* Parses text. NULL with ERR_INVALID, which names the fault and its byte, or ERR_NOMEM. */
struct template *template_parse(const char *text, struct err *e);
void template_free(struct template *t);
/*
 * Says that fields of these names (an array up to NULL, borrowed) are Go maps and not structures: a
 * missing key of a map is null, as in Go, and no error.
 */
void template_maps(struct template *t, const char *const *names);
/*
 * Adds the result of t on dot to out. ERR_INVALID for a value of the wrong kind, ERR_NOT_FOUND
 * for a missing field, ERR_LIMIT; out then holds the text made so far.
 */
int template_run(const struct template *t, const json_t *dot, struct buf *out, struct err *e);

#endif
