/* SPDX-License-Identifier: Apache-2.0 */
/* The parser: text to a tree. */
#include "base/template.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/template_tree.h"

struct parser {
	struct template *t;
	char *p;		/* into t->text */
	int trim;		/* the next text loses the space before it */
	unsigned depth;
	struct err *e;
};

static const struct {
	const char *name;
	int least, most;	/* arguments; most -1: any number */
} functions[] = {
#define X(sym, name, least, most) { name, least, most },
	TEMPLATE_FUNCTIONS(X)
#undef X
};

static const char *template_functions(void)
{
#define X(sym, name, least, most) " " name
	return &(TEMPLATE_FUNCTIONS(X))[1];
#undef X
}

static int template_syntax_error(struct parser *p, const char *what)
{
	return err_set(p->e, ERR_INVALID, "template: byte %zu: %s", (size_t)(p->p - p->t->text), what);
}

static void *new_template_part(struct parser *p, size_t n)
{
	void *block;

	if (p->t->block_count == TEMPLATE_NODES) {
		err_set(p->e, ERR_LIMIT, "template: more than %d parts", TEMPLATE_NODES);
		return NULL;
	}
	block = calloc(1, n);
	if (!block)
		err_nomem(p->e);
	else
		p->t->blocks[p->t->block_count++] = block;
	return block;
}

static int deeper(struct parser *p)
{
	return ++p->depth > TEMPLATE_DEPTH ? err_set(p->e, ERR_LIMIT, "template: nested deeper than %d", TEMPLATE_DEPTH) : 0;
}

static void skip_space(struct parser *p)
{
	while (isspace((unsigned char)*p->p))
		p->p++;
}

static int is_identifier_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* At "}}" or " -}}": the end of an action. */
static int at_end(const struct parser *p)
{
	return !strncmp(p->p, "}}", 2) || (!strncmp(p->p, "-}}", 3) && isspace((unsigned char)p->p[-1]));
}

static char *read_identifier(struct parser *p, size_t *ret_len)
{
	char *start = p->p;

	while (is_identifier_char(*p->p))
		p->p++;
	*ret_len = (size_t)(p->p - start);
	return start;
}

static const char *keep_template_text(struct parser *p, const char *s, size_t n)
{
	char *copy = new_template_part(p, n + 1);

	if (copy)
		memcpy(copy, s, n);
	return copy;
}

/* ---- operands ---------------------------------------------------------------------- */

static int parse_pipe(struct parser *p, struct template_command **ret);

/* .a.b after an operand; a field begins where the last token ended. */
static int parse_fields(struct parser *p, struct template_operand *o)
{
	struct template_name **at = &o->fields;
	size_t n;
	char *s;

	while (*p->p == '.') {
		p->p++;
		s = read_identifier(p, &n);
		if (!n)
			return template_syntax_error(p, "a field has no name; hint: index . \"NAME\" takes one of other letters");
		*at = new_template_part(p, sizeof(**at));
		if (!*at || !((*at)->text = keep_template_text(p, s, n)))
			return -1;
		at = &(*at)->next;
	}
	return 0;
}

static int take_literal(struct parser *p, struct template_operand *o, json_t *j)
{
	o->kind = OPERAND_LITERAL;
	o->literal = j;
	return j && json_array_append_new(p->t->literals, j) == 0 ? 0 : template_syntax_error(p, "a string is not UTF-8");
}

static int read_template_escape(struct parser *p, char *out)
{
	static const char known[] = "\"\\ntr", meant[] = "\"\\\n\t\r";
	const char *at = p->p[1] ? strchr(known, p->p[1]) : NULL;

	if (!at)
		return template_syntax_error(p, "unknown escape in a string; hint: \\\\ \\\" \\n \\t and \\r");
	*out = meant[at - known];
	p->p += 2;
	return 0;
}

static int parse_string(struct parser *p, struct template_operand *o)
{
	const char quote = *p->p++;
	char *out, *start;

	start = out = new_template_part(p, strcspn(p->p, quote == '`' ? "`" : "\n") + 1);
	if (!start)
		return -1;
	while (*p->p != quote) {
		if (!*p->p || (quote == '"' && *p->p == '\n'))
			return template_syntax_error(p, "a string does not end");
		if (quote == '"' && *p->p == '\\') {
			if (read_template_escape(p, out++) < 0)
				return -1;
		} else {
			*out++ = *p->p++;
		}
	}
	p->p++;
	return take_literal(p, o, json_stringn(start, (size_t)(out - start)));
}

static int parse_number(struct parser *p, struct template_operand *o)
{
	/* no 0x, which strtod(3) would accept */
	const size_t n = strspn(p->p, "+-0123456789.eE");
	char *end;
	json_t *j;

	errno = 0;
	if (strcspn(p->p, ".eE") < n)
		j = json_real(strtod(p->p, &end));
	else
		j = json_integer(strtoll(p->p, &end, 10));
	if (errno || end != p->p + n || is_identifier_char(*end)) {
		json_decref(j);
		return template_syntax_error(p, "a number is malformed or too large");
	}
	p->p = end;
	return take_literal(p, o, j);
}

static int parse_group(struct parser *p, struct template_operand *o)
{
	p->p++;
	o->kind = OPERAND_PIPE;
	if (deeper(p) < 0 || parse_pipe(p, &o->pipe) < 0)
		return -1;
	p->depth--;
	if (*p->p != ')')
		return template_syntax_error(p, "a parenthesis is not closed");
	p->p++;
	return parse_fields(p, o);
}

static int parse_variable(struct parser *p, struct template_operand *o)
{
	size_t n;
	char *s;

	p->p++;
	s = read_identifier(p, &n);
	o->kind = OPERAND_VARIABLE;
	o->variable = keep_template_text(p, s, n);
	return o->variable ? parse_fields(p, o) : -1;
}

/* true, false or nil */
static int parse_constant(struct parser *p, struct template_operand *o, const char *s, size_t n)
{
	if (n == 4 && !memcmp(s, "true", 4))
		return take_literal(p, o, json_true());
	if (n == 5 && !memcmp(s, "false", 5))
		return take_literal(p, o, json_false());
	if (n == 3 && !memcmp(s, "nil", 3))
		return take_literal(p, o, json_null());
	return err_set(p->e, ERR_INVALID, "template: byte %zu: unknown function '%.*s'; hint: one of %s", (size_t)(s - p->t->text),
		       n < 40 ? (int)n : 40, s, template_functions());
}

static int parse_operand(struct parser *p, struct template_operand *o)
{
	size_t n;
	char *s;

	if (*p->p == '.' && !is_identifier_char(p->p[1])) {
		p->p++;
		return *p->p == '.' ? template_syntax_error(p, "two dots") : 0;
	}
	if (*p->p == '.')
		return parse_fields(p, o);
	if (*p->p == '$')
		return parse_variable(p, o);
	if (*p->p == '(')
		return parse_group(p, o);
	if (*p->p == '"' || *p->p == '`')
		return parse_string(p, o);
	if (isdigit((unsigned char)*p->p) || (strchr("+-", *p->p) && isdigit((unsigned char)p->p[1])))
		return parse_number(p, o);
	s = read_identifier(p, &n);
	return n ? parse_constant(p, o, s, n) : template_syntax_error(p, "a value is wanted");
}

/* ---- pipelines --------------------------------------------------------------------- */

static enum template_fn function_at(struct parser *p)
{
	size_t n = 0, i;

	while (is_identifier_char(p->p[n]))
		n++;
	for (i = 0; i < ARRAY_LEN(functions); i++)
		if (strlen(functions[i].name) == n && !memcmp(functions[i].name, p->p, n)) {
			p->p += n;
			return (enum template_fn)i;
		}
	return TEMPLATE_NO_FN;
}

static int check_argument_count(struct parser *p, struct template_command *c, int piped)
{
	int n = (int)c->arg_count + piped;

	if (c->fn == TEMPLATE_NO_FN && (piped || !template_note_label(c)))
		return n == 1 && !piped ? 0 : template_syntax_error(p, c->arg_count ? "a value is given an argument" : "a value is wanted");
	if (n < functions[c->fn].least || (functions[c->fn].most >= 0 && n > functions[c->fn].most))
		return err_set(p->e, ERR_INVALID, "template: byte %zu: %s with %d argument%s", (size_t)(p->p - p->t->text),
			       functions[c->fn].name, n, n == 1 ? "" : "s");
	return 0;
}

static int parse_command(struct parser *p, struct template_command *c, int piped)
{
	struct template_operand **at = &c->args;
	const char *end;

	skip_space(p);
	c->fn = function_at(p);
	for (end = p->p;;) {
		skip_space(p);
		if (at_end(p) || *p->p == '|' || *p->p == ')')
			break;
		if (!*p->p)
			return template_syntax_error(p, "an action is not closed by }}");
		if ((c->arg_count || c->fn != TEMPLATE_NO_FN) && p->p == end && *p->p != '(')
			return template_syntax_error(p, "a space is wanted between arguments");
		*at = new_template_part(p, sizeof(**at));
		if (!*at || parse_operand(p, *at) < 0)
			return -1;
		at = &(*at)->next;
		end = p->p;
		c->arg_count++;
	}
	return check_argument_count(p, c, piped);
}

static int parse_pipe(struct parser *p, struct template_command **ret)
{
	struct template_command **at = ret;

	for (;;) {
		*at = new_template_part(p, sizeof(**at));
		if (!*at || parse_command(p, *at, at != ret) < 0)
			return -1;
		at = &(*at)->next;
		if (*p->p != '|')
			return 0;
		p->p++;
	}
}

/* ---- actions ----------------------------------------------------------------------- */

static int starts_assignment(const char *s)
{
	for (s++; is_identifier_char(*s); s++)
		;
	while (isspace((unsigned char)*s))
		s++;
	return *s == ',' || *s == '=' || !strncmp(s, ":=", 2);
}

/* "$x :=", "$x =", "$i, $v :=" before a pipeline. */
static int parse_assignment(struct parser *p, struct template_node *node, int most)
{
	int n = 0;
	size_t len;
	char *s;

	if (*p->p != '$' || !starts_assignment(p->p))
		return 0;
	do {
		if (n)
			p->p++;
		skip_space(p);
		if (*p->p != '$' || n == most)
			return template_syntax_error(p, n == most ? "too many variables" : "a variable is wanted");
		p->p++;
		s = read_identifier(p, &len);
		if (!len)
			return template_syntax_error(p, "$ cannot be set");
		node->variables[n] = keep_template_text(p, s, len);
		if (!node->variables[n++])
			return -1;
		skip_space(p);
	} while (*p->p == ',');
	node->declares = *p->p == ':';
	p->p += node->declares;
	if (*p->p != '=')
		return template_syntax_error(p, ":= or = is wanted");
	p->p++;
	return 0;
}

static int close_action(struct parser *p)
{
	skip_space(p);
	if (!at_end(p))
		return template_syntax_error(p, *p->p ? "this is not understood" : "an action is not closed by }}");
	p->trim = *p->p == '-';
	p->p += p->trim ? 3 : 2;
	return 0;
}

static int parse_body(struct parser *p, struct template_node **at, int *ret_else);

static int parse_block(struct parser *p, struct template_node *node)
{
	int has_else = 0;

	skip_space(p);
	if (deeper(p) < 0 || parse_assignment(p, node, node->kind == NODE_RANGE ? 2 : 1) < 0 || parse_pipe(p, &node->pipe) < 0 ||
	    close_action(p) < 0 || parse_body(p, &node->body, &has_else) < 0)
		return -1;
	if (has_else) {
		int again = 0;

		skip_space(p);
		if (!strncmp(p->p, "if", 2) && !is_identifier_char(p->p[2])) {
			p->p += 2;
			node->otherwise = new_template_part(p, sizeof(*node));
			if (!node->otherwise)
				return -1;
			node->otherwise->kind = NODE_IF;
			if (parse_block(p, node->otherwise) < 0)
				return -1;
		} else if (close_action(p) < 0 || parse_body(p, &node->otherwise, &again) < 0) {
			return -1;
		} else if (again) {
			return template_syntax_error(p, "a second else");
		}
	}
	p->depth--;
	return 0;
}

static int is_keyword(struct parser *p, const char *name)
{
	size_t n = strlen(name);

	if (strncmp(p->p, name, n) || is_identifier_char(p->p[n]))
		return 0;
	p->p += n;
	return 1;
}

/* Returns 0 with a node (or with none, for a comment), 1 for "end", 2 for "else". */
static int parse_action(struct parser *p, struct template_node **ret)
{
	struct template_node *node = NULL;
	char *end;

	skip_space(p);
	if (!strncmp(p->p, "/*", 2)) {
		end = strstr(p->p, "*/");
		if (!end)
			return template_syntax_error(p, "a comment does not end");
		p->p = end + 2;
		return close_action(p);
	}
	if (is_keyword(p, "end"))
		return close_action(p) < 0 ? -1 : 1;
	if (is_keyword(p, "else"))
		return 2;
	node = *ret = new_template_part(p, sizeof(*node));
	if (!node)
		return -1;
	node->kind = is_keyword(p, "if") ? NODE_IF : is_keyword(p, "with") ? NODE_WITH : is_keyword(p, "range") ? NODE_RANGE : NODE_PIPE;
	if (node->kind != NODE_PIPE)
		return parse_block(p, node);
	return parse_assignment(p, node, 1) < 0 || parse_pipe(p, &node->pipe) < 0 ? -1 : close_action(p);
}

/* The text up to the next action, or the end. */
static int parse_text(struct parser *p, struct template_node **ret)
{
	char *start = p->p, *end = strstr(p->p, "{{");

	if (!end)
		end = p->p + strlen(p->p);
	p->p = end;
	while (p->trim && start < end && isspace((unsigned char)*start))
		start++;
	p->trim = 0;
	if (*end) {
		p->p = end + 2;
		if (*p->p == '-' && isspace((unsigned char)p->p[1])) {
			p->p++;
			while (end > start && isspace((unsigned char)end[-1]))
				end--;
		}
	}
	if (end == start)
		return 0;
	*ret = new_template_part(p, sizeof(**ret));
	if (!*ret)
		return -1;
	**ret = (struct template_node){ .kind = NODE_TEXT, .text = start, .len = (size_t)(end - start) };
	return 0;
}

/* Up to "end" or "else" of this level; ret_else NULL: up to the end of the text. */
static int parse_body(struct parser *p, struct template_node **at, int *ret_else)
{
	int r;

	for (;;) {
		char *before = p->p, *opened;

		opened = strstr(p->p, "{{");
		if (parse_text(p, at) < 0)
			return -1;
		if (*at)
			at = &(*at)->next;
		if (!opened) {
			p->p = before;
			return ret_else ? template_syntax_error(p, "if, with or range without end") : 0;
		}
		r = parse_action(p, at);
		if (r < 0)
			return -1;
		if (r > 0 && !ret_else)
			return template_syntax_error(p, r == 1 ? "end without if, with or range" : "else without if, with or range");
		if (r > 0) {
			*ret_else = r == 2;
			return 0;
		}
		if (*at)
			at = &(*at)->next;
	}
}

struct template *template_parse(const char *text, struct err *e)
{
	struct parser p = { .e = e };
	struct template *t;

	if (strlen(text) > TEMPLATE_TEXT) {
		err_set(e, ERR_LIMIT, "template: more than %u bytes", TEMPLATE_TEXT);
		return NULL;
	}
	p.t = t = calloc(1, sizeof(*t));
	if (t && (!(t->text = strdup(text)) || !(t->literals = json_array()))) {
		template_free(t);
		t = NULL;
	}
	if (!t) {
		err_nomem(e);
		return NULL;
	}
	p.p = t->text;
	if (parse_body(&p, &t->first, NULL) < 0) {
		template_free(t);
		return NULL;
	}
	return t;
}

void template_free(struct template *t)
{
	if (!t)
		return;
	while (t->block_count)
		free(t->blocks[--t->block_count]);
	json_decref(t->literals);
	free(t->text);
	free(t);
}
