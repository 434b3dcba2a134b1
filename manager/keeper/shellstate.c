/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/shellstate.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/host/shlex.h"

/* ---- the functions that texts define ---- */

#define DEPTH_MAX 64

void shellfuncs_release(struct shellfuncs *f)
{
	size_t i;

	for (i = 0; i < f->count; i++) {
		free(f->list[i].name);
		free(f->list[i].text);
	}
	free(f->list);
	*f = (struct shellfuncs){ 0 };
}

static int is_function_name(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_')
		return 0;
	while (isalnum((unsigned char)*s) || *s == '_')
		s++;
	return !*s;
}

static size_t shellfunc_size(const struct shellfunc *one)
{
	return strlen(one->name) + strlen(one->text);
}

static int put_shellfunc(struct shellfuncs *f, const char *name, const char *text, size_t n, struct err *e)
{
	struct shellfunc one = { strdup(name), strndup(text, n) }, *list;
	size_t i;

	for (i = 0; one.name && one.text && i < f->count; i++)
		if (!strcmp(f->list[i].name, name))
			break;
	if (!one.name || !one.text) {
		err_nomem(e);
	} else if (i == SHELLFUNCS_MAX || f->bytes + shellfunc_size(&one) > SHELLFUNCS_BYTES) {
		err_set(e, ERR_LIMIT, "the session has more functions than are kept");
	} else {
		list = i < f->count ? f->list : reallocarray(f->list, i + 1, sizeof(*list));
		if (list) {
			f->list = list;
			if (i < f->count) {
				f->bytes -= shellfunc_size(&list[i]);
				free(list[i].name);
				free(list[i].text);
			} else {
				f->count++;
			}
			list[i] = one;
			f->bytes += shellfunc_size(&one);
			return 0;
		}
		err_nomem(e);
	}
	free(one.name);
	free(one.text);
	return -1;
}

/* ---- compound commands ------------------------------------------------------------- */

struct reader {
	struct shlex l;
	struct shlex_token t, before[2]; /* the token now, and the two before it */
	int begins;                      /* a command may begin with t */
	const char *open[DEPTH_MAX];     /* the words that close the open compounds */
	size_t depth;
};

static int is_op(const struct shlex_token *t, const char *text)
{
	return t->kind == SHLEX_OP && t->len == strlen(text) && !memcmp(t->text, text, t->len);
}

static int is_shell_word(const struct shlex_token *t, const char *text)
{
	return t->kind == SHLEX_WORD && !strcmp(t->text, text);
}

/* Tells whether a command may begin after the token. */
static int precedes_command(const struct reader *r, const struct shlex_token *t)
{
	static const char *const words[] = { "{",     "!",  "if", "then", "else", "elif", "while",
					     "until", "do", "}",  "fi",   "done", "esac" };
	size_t i;

	if (t->kind != SHLEX_WORD)
		return t->kind != SHLEX_REDIRECT;
	for (i = 0; i < ARRAY_LEN(words); i++)
		if (r->begins && !strcmp(t->text, words[i]))
			return 1;
	return is_shell_word(t, "in") && r->depth && !strcmp(r->open[r->depth - 1], "esac");
}

static const char *closing_of(const struct reader *r)
{
	static const char *const pairs[][2] = { { "{", "}" },        { "if", "fi" },
						{ "case", "esac" },  { "for", "done" },
						{ "while", "done" }, { "until", "done" } };
	size_t i;

	if (is_op(&r->t, "("))
		return ")";
	for (i = 0; i < ARRAY_LEN(pairs); i++)
		if (r->begins && is_shell_word(&r->t, pairs[i][0]))
			return pairs[i][1];
	return NULL;
}

static int closes(const struct reader *r)
{
	const char *with = r->depth ? r->open[r->depth - 1] : "";

	return is_op(&r->t, ")") ? !strcmp(with, ")") : r->begins && is_shell_word(&r->t, with);
}

/* Reads a token and counts open compounds: 0 at the end, or if the text cannot be followed. */
static int advance_reader(struct reader *r)
{
	const char *with;

	r->begins = precedes_command(r, &r->t);
	r->before[1] = r->before[0];
	r->before[0] = r->t;
	r->t = shlex_next(&r->l);
	if (r->t.kind == SHLEX_END)
		return 0;
	if (closes(r)) {
		r->depth--;
		/* a redirection or an operator follows, and no command */
		return 1;
	}
	with = closing_of(r);
	if (!with)
		return 1;
	if (r->depth == DEPTH_MAX)
		return 0;
	r->open[r->depth++] = with;
	return 1;
}

/* The body that comes next, up to its end. */
static int skip_body(struct reader *r)
{
	const size_t depth = r->depth;

	do {
		if (!advance_reader(r))
			return 0;
	} while (r->t.kind == SHLEX_NEWLINE);
	if (r->depth != depth + 1)
		return 0;
	while (r->depth > depth)
		if (!advance_reader(r))
			return 0;
	return 1;
}

int shellfuncs_add(struct shellfuncs *f, const char *text, size_t n, struct err *e)
{
	struct reader r = { .t.kind = SHLEX_NEWLINE };
	autofree char *words = NULL;
	const char *from = NULL;
	struct shlex_token name = { SHLEX_END, NULL, 0 };

	if (!memmem(text, n, "(", 1))
		return 0;
	words = malloc(shlex_room(n));
	if (!words)
		return err_nomem(e);
	shlex_init(&r.l, text, n, words);
	while (advance_reader(&r)) {
		if (r.begins && r.t.kind == SHLEX_WORD && is_function_name(r.t.text)) {
			name = r.t;
			from = r.l.at - r.t.len;
		}
		if (!is_op(&r.t, ")") || !is_op(&r.before[0], "(") ||
		    r.before[1].kind != SHLEX_WORD || r.before[1].text != name.text)
			continue;
		if (!skip_body(&r))
			return 0;
		if (put_shellfunc(f, name.text, from, (size_t)(r.l.at - from), e) < 0)
			return -1;
	}
	return 0;
}

/* ---- the script ---- */

/* The sections of a dump; the parameters of the shell follow, each a section. */
enum { MASK, VARIABLES, EXPORTS, READONLY, SETTINGS, OPTIONS, TRAPS, FUNCTIONS, ALIASES, SECTIONS };

struct section {
	const char *at, *end;
};

/* ---- the question ----------------------------------------------------------------- */

#define END "\\printf '\\0'; "

static const char bash_question[] =
	"{ \\umask; " END "\\declare -p; " END END END "\\shopt -p; " END "\\set +o; " END
	"\\trap -p; " END "\\declare -f; \\declare -F; " END "\\alias -p; " END;
static const char sh_question[] = "{ umask; " END "set; " END "export -p; " END
				  "readonly -p; " END END "set +o; " END "trap; " END;
/* Lists the parameters, without `for`, whose variable would be one of the shell's. */
static const char parameters[] = "[ $# = 0 ] || \\printf '%s\\0' \"$@\"; } >&9\n";

int shellstate_question(int is_bash, const struct shellfuncs *funcs, struct buf *ret, struct err *e)
{
	size_t i;

	if (buf_adds(ret, is_bash ? bash_question : sh_question, e) < 0)
		return -1;
	if (!is_bash) {
		for (i = 0; i < funcs->count; i++)
			if (buf_addf(ret, e, "command -V %s; ", funcs->list[i].name) < 0)
				return -1;
		if (buf_adds(ret, END "alias; " END, e) < 0)
			return -1;
	}
	return buf_adds(ret, parameters, e);
}

/* ---- statements ------------------------------------------------------------------- */

static const char *past_quoted(const char *p, const char *end, int escapes)
{
	const char quote = *p;

	for (p++; p < end && *p != quote; p++)
		if (escapes && *p == '\\' && p + 1 < end)
			p++;
	return p < end ? p + 1 : end;
}

/* The end of the statement at p: behind the first newline that is in no quotes. */
static const char *statement(const char *p, const char *end)
{
	const char *begin = p;

	while (p < end && *p != '\n') {
		if (*p == '\'')
			p = past_quoted(p, end, p > begin && p[-1] == '$');
		else if (*p == '"')
			p = past_quoted(p, end, 1);
		else
			p += *p == '\\' && p + 1 < end ? 2 : 1;
	}
	return p < end ? p + 1 : end;
}

static size_t name_length(const char *p, const char *end)
{
	const char *at = p;

	while (at < end && (isalpha((unsigned char)*at) || *at == '_' ||
			    (at > p && isdigit((unsigned char)*at))))
		at++;
	return (size_t)(at - p);
}

static int text_begins(const char *p, const char *end, const char *with)
{
	return (size_t)(end - p) >= strlen(with) && !memcmp(p, with, strlen(with));
}

static int is_word_of_list(const char *p, size_t n, const char *const *list, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (strlen(list[i]) == n && !memcmp(list[i], p, n))
			return 1;
	return 0;
}

/* Tells whether the shell itself sets the variable, or refuses to have it set. */
static int is_its_own(const char *name, size_t n)
{
	static const char *const own[] = {
		"BASHOPTS",      "BASHPID",
		"BASH_ALIASES",  "BASH_ARGC",
		"BASH_ARGV",     "BASH_ARGV0",
		"BASH_CMDS",     "BASH_COMMAND",
		"BASH_LINENO",   "BASH_REMATCH",
		"BASH_SOURCE",   "BASH_SUBSHELL",
		"BASH_VERSINFO", "COMP_WORDBREAKS",
		"DIRSTACK",      "EPOCHREALTIME",
		"EPOCHSECONDS",  "EUID",
		"FUNCNAME",      "GROUPS",
		"HISTCMD",       "LINENO",
		"PIPESTATUS",    "PPID",
		"RANDOM",        "SECONDS",
		"SHELLOPTS",     "SRANDOM",
		"UID",           "_",
	};

	return text_begins(name, name + n, "__berth") || is_word_of_list(name, n, own, ARRAY_LEN(own));
}

/* ---- the script ------------------------------------------------------------------- */

/* The name that a statement of `declare -p`, `export -p`, `readonly -p` or `set` is about. */
static struct section statement_name(const char *p, const char *end)
{
	const char *word;

	if (text_begins(p, end, "declare -")) {
		word = memchr(p + 8, ' ', (size_t)(end - p - 8));
		p = word ? word + 1 : end;
	} else if (text_begins(p, end, "export ") || text_begins(p, end, "readonly ")) {
		p = memchr(p, ' ', (size_t)(end - p));
		p++;
	}
	return (struct section){ p, p + name_length(p, end) };
}

static int section_is_named(const struct section *name, const char *s)
{
	return (size_t)(name->end - name->at) == strlen(s) && text_begins(name->at, name->end, s);
}

struct filter {
	const char *prefix; /* prefix that each statement must have; NULL: it is an assignment */
	int only_directory; /* PWD alone; else all others */
};

static int add_variables(const struct section *from, const struct filter *f, struct buf *ret,
			 struct err *e)
{
	const char *p, *next;

	for (p = from->at; p < from->end; p = next) {
		const struct section name = statement_name(p, from->end);

		next = statement(p, from->end);
		if (name.at == name.end || is_its_own(name.at, (size_t)(name.end - name.at)))
			continue;
		if (f->prefix ? !text_begins(p, next, f->prefix) : name.at != p || *name.end != '=')
			continue;
		/* a name that has no value, and no other property */
		if (text_begins(p, next, "declare -- ") && *name.end != '=')
			continue;
		if (section_is_named(&name, "PWD") != f->only_directory)
			continue;
		if (buf_add(ret, p, (size_t)(next - p), e) < 0)
			return -1;
	}
	return 0;
}

static int add_all_variables(const struct section *s, int is_bash, struct buf *ret, struct err *e)
{
	static const struct filter declared = { "declare -", 0 }, directory = { "declare -", 1 },
				   assigned = { NULL, 0 }, assigned_directory = { NULL, 1 },
				   exported = { "export ", 0 }, constant = { "readonly ", 0 };

	/* cd sets OLDPWD, so it comes before the variables */
	if (add_variables(&s[VARIABLES], is_bash ? &directory : &assigned_directory, ret, e) < 0 ||
	    buf_adds(ret, "cd -- \"$PWD\" || cd .\n", e) < 0)
		return -1;
	if (is_bash)
		return add_variables(&s[VARIABLES], &declared, ret, e);
	if (add_variables(&s[VARIABLES], &assigned, ret, e) < 0 ||
	    add_variables(&s[EXPORTS], &exported, ret, e) < 0)
		return -1;
	return add_variables(&s[READONLY], &constant, ret, e);
}

/* Unsets the variables with which a new shell begins, all of them, before others are set. */
static int add_unset(const char *const *env, size_t count, struct buf *ret, struct err *e)
{
	size_t i, n;

	for (i = 0; i < count; i++) {
		n = name_length(env[i], env[i] + strlen(env[i]));
		if (n && env[i][n] == '=' && buf_addf(ret, e, "unset %.*s\n", (int)n, env[i]) < 0)
			return -1;
	}
	return 0;
}

static int add_mask(const struct section *s, struct buf *ret, struct err *e)
{
	size_t n = 0;

	while (s->at + n < s->end && s->at[n] >= '0' && s->at[n] <= '7')
		n++;
	if (!n || n > 4)
		return err_set(e, ERR_INVALID, "the shell's state has no umask");
	return buf_addf(ret, e, "umask %.*s\n", (int)n, s->at);
}

/* -n would end the session; of -x and -v the keeper knows itself; dash lists what cannot be set. */
static int add_shell_options(const struct section *s, struct buf *ret, struct err *e)
{
	static const char *const left[] = { "noexec", "xtrace",     "verbose", "interactive",
					    "stdin",  "privileged", "debug" };
	const char *p, *next;

	for (p = s->at; p < s->end; p = next) {
		next = memchr(p, '\n', (size_t)(s->end - p));
		next = next ? next + 1 : s->end;
		if ((text_begins(p, next, "set -o ") || text_begins(p, next, "set +o ")) &&
		    !is_word_of_list(p + 7, strcspn(p + 7, "\n"), left, ARRAY_LEN(left)) &&
		    buf_add(ret, p, (size_t)(next - p), e) < 0)
			return -1;
	}
	return 0;
}

/* Adds the traps, without ours (shellscript.c). */
static int add_traps(const struct section *s, struct buf *ret, struct err *e)
{
	static const char *const ours[] = { "SIGRTMIN+13", "SIGRTMIN+14", "SIGRTMAX-1",
					    "RTMIN+13",    "RTMIN+14",    "RTMAX-1",
					    "47",          "48",          "63" };
	const char *p, *next, *word;

	for (p = s->at; p < s->end; p = next) {
		next = statement(p, s->end);
		word = memrchr(p, ' ', (size_t)(next - p));
		if (!word || !text_begins(p, next, "trap -- ") ||
		    is_word_of_list(word + 1, strcspn(word + 1, "\n"), ours, ARRAY_LEN(ours)))
			continue;
		if (buf_add(ret, p, (size_t)(next - p), e) < 0)
			return -1;
	}
	return 0;
}

static int add_shell_aliases(const struct section *s, struct buf *ret, struct err *e)
{
	const char *p, *next;

	for (p = s->at; p < s->end; p = next) {
		next = statement(p, s->end);
		if (!text_begins(p, next, "alias ") && buf_adds(ret, "alias ", e) < 0)
			return -1;
		if (buf_add(ret, p, (size_t)(next - p), e) < 0)
			return -1;
	}
	return 0;
}

/* Adds those of the known functions that are functions still. */
static int add_known(const struct section *s, const struct shellfuncs *f, struct buf *ret,
		     struct err *e)
{
	const char *p, *next;
	size_t i;

	for (p = s->at; p < s->end; p = next) {
		next = memchr(p, '\n', (size_t)(s->end - p));
		next = next ? next + 1 : s->end;
		if (!memmem(p, (size_t)(next - p), "function", strlen("function")))
			continue;
		for (i = 0; i < f->count; i++)
			if (text_begins(p, next, f->list[i].name) && p[strlen(f->list[i].name)] == ' ' &&
			    buf_addf(ret, e, "%s\n", f->list[i].text) < 0)
				return -1;
	}
	return 0;
}

static int add_quoted(const struct section *s, struct buf *ret, struct err *e)
{
	const char *p;

	if (buf_adds(ret, " '", e) < 0)
		return -1;
	for (p = s->at; p < s->end; p++)
		if ((*p == '\'' ? buf_adds(ret, "'\\''", e) : buf_add(ret, p, 1, e)) < 0)
			return -1;
	return buf_adds(ret, "'", e);
}

/* Gives the next section from *at on: 1, or 0 if there is none. */
static int next_section(const char **at, const char *end, struct section *ret)
{
	const char *nul = *at < end ? memchr(*at, '\0', (size_t)(end - *at)) : NULL;

	if (!nul)
		return 0;
	*ret = (struct section){ *at, nul };
	*at = nul + 1;
	return 1;
}

static int add_parameters(const char *at, const char *end, struct buf *ret, struct err *e)
{
	struct section s;

	if (buf_adds(ret, "set --", e) < 0)
		return -1;
	while (next_section(&at, end, &s))
		if (add_quoted(&s, ret, e) < 0)
			return -1;
	return buf_adds(ret, "\n", e);
}

/*
 * extglob and others change how functions are read, so they come first; an alias changes how
 * everything after it is read, so they come last.
 */
int shellstate_script(int is_bash, const char *dump, size_t n, const char *const *env, size_t count,
		      const struct shellfuncs *funcs, struct buf *ret, struct err *e)
{
	const char *at = dump, *end = dump + n;
	struct section s[SECTIONS];
	int i;

	for (i = 0; i < SECTIONS; i++)
		if (!next_section(&at, end, &s[i]))
			return err_set(e, ERR_INVALID, "the shell did not tell its whole state");
	if (add_mask(&s[MASK], ret, e) < 0 || add_unset(env, count, ret, e) < 0 ||
	    add_all_variables(s, is_bash, ret, e) < 0 ||
	    buf_add(ret, s[SETTINGS].at, (size_t)(s[SETTINGS].end - s[SETTINGS].at), e) < 0)
		return -1;
	if (is_bash ? buf_add(ret, s[FUNCTIONS].at, (size_t)(s[FUNCTIONS].end - s[FUNCTIONS].at),
			      e) < 0 :
		      add_known(&s[FUNCTIONS], funcs, ret, e) < 0)
		return -1;
	if (add_parameters(at, end, ret, e) < 0 || add_traps(&s[TRAPS], ret, e) < 0 ||
	    add_shell_options(&s[OPTIONS], ret, e) < 0)
		return -1;
	return add_shell_aliases(&s[ALIASES], ret, e);
}
