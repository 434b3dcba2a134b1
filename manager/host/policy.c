/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/policy.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/host/shlex.h"

/* ---- words of two command lines that say the same ---- */

const char *cmdwords_base(const char *s)
{
	const char *slash = strrchr(s, '/');

	return slash && slash[1] ? slash + 1 : s;
}

/* Tells whether a component of a pattern matches anything. */
static int is_all(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n && strchr("*?.", p[i]); i++)
		;
	return n && i == n && memchr(p, '*', n);
}

/*
 * "/a//./b/../c/" becomes "/a/c"; a pattern for all of "/", such as "/" followed by "*", becomes
 * "/".
 */
static void clean_command_path(const char *p, char *out, size_t size)
{
	size_t len = 0, n;
	int all = 1;

	for (; *p; p += n) {
		while (*p == '/')
			p++;
		n = strcspn(p, "/");
		if (!n || (n == 1 && p[0] == '.'))
			continue;
		if (n == 2 && p[0] == '.' && p[1] == '.') {
			while (len && out[--len] != '/')
				;
			all = !len;
			continue;
		}
		all &= is_all(p, n);
		if (len + n + 2 > size)
			break;
		out[len++] = '/';
		memcpy(out + len, p, n);
		len += n;
	}
	if (!len || all)
		out[0] = '/', len = 1;
	out[len] = '\0';
}

void cmdwords_clean(const char *s, char *out, size_t size)
{
	const char *eq = strchr(s, '=');
	size_t n = eq && eq[1] == '/' ? (size_t)(eq - s) + 1 : 0;

	if (s[0] == '/') {
		clean_command_path(s, out, size);
	} else if (n && n < size / 2) {
		memcpy(out, s, n);
		clean_command_path(s + n, out + n, size - n);
	} else {
		while (*s == '0' && s[1] && strspn(s, "01234567") == strlen(s))
			s++;
		snprintf(out, size, "%s", s);
	}
}

static const struct long_option {
	const char *command, *name;
	char letter;
} long_options[] = {
	{"rm", "recursive", 'r'},    {"rm", "force", 'f'},        {"rm", "dir", 'd'},
	{"chmod", "recursive", 'R'}, {"chown", "recursive", 'R'}, {"chgrp", "recursive", 'R'},
	{"cp", "recursive", 'r'},    {"cp", "force", 'f'},        {"mv", "force", 'f'},
};

static char same_letter(const char *command, char c)
{
	return c == 'R' && (!strcmp(command, "rm") || !strcmp(command, "cp")) ? 'r' : c;
}

/* The letter of a long option, which may be cut short; 0 when it has none. */
static char option_letter(const char *command, const char *name, size_t n)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(long_options); i++)
		if (!strcmp(command, long_options[i].command) && n >= 2 &&
		    !strncmp(long_options[i].name, name, n))
			return long_options[i].letter;
	return 0;
}

/* Tells whether the command has the option: a letter, or, without one, a long name. */
static int command_has_option(const char *command, const char *const *w, size_t n, char letter, const char *name,
	       size_t name_len)
{
	size_t i;
	const char *p;

	for (i = 1; i < n && strcmp(w[i], "--"); i++) {
		if (w[i][0] != '-' || !w[i][1])
			continue;
		if (w[i][1] == '-') {
			size_t len = strcspn(w[i] + 2, "=");

			if (letter ? option_letter(command, w[i] + 2, len) == letter :
				     len >= 2 && len <= name_len && !strncmp(name, w[i] + 2, len))
				return 1;
			continue;
		}
		for (p = w[i] + 1; letter && *p; p++)
			if (same_letter(command, *p) == letter)
				return 1;
	}
	return 0;
}

int cmdwords_is_option(const char *s, int *ended)
{
	if (*ended || s[0] != '-' || !s[1])
		return 0;
	if (!strcmp(s, "--"))
		*ended = 1;
	return 1;
}
int cmdwords_has(const char *const *w, size_t n, const char *options)
{
	const char *command = cmdwords_base(w[0]), *p;

	if (options[1] == '-') {
		size_t len = strcspn(options + 2, "=");

		return command_has_option(command, w, n, option_letter(command, options + 2, len), options + 2, len);
	}
	for (p = options + 1; *p; p++)
		if (!command_has_option(command, w, n, same_letter(command, *p), "", 0))
			return 0;
	return 1;
}

/* ---- the rules ---- */

#define DEPTH_MAX 12		/* sh -c in eval in $(...) in sudo ... */
#define WORK_MAX 4000000	/* words compared in one check */
#define RULE_TOKENS 64
#define STARS_MAX 2		/* of a sequence */
#define STAR_WORDS 64		/* the largest number of words that it matches */
#define OPERAND_MAX 4096

struct rule {
	char text[POLICY_RULE_MAX + 1];		/* as written */
	char words[2 * POLICY_RULE_MAX + 4];	/* the text of the tokens */
	struct shlex_token tokens[RULE_TOKENS];
	size_t count;
	int sequence;				/* the rule has an operator */
};

struct policy {
	size_t count;
	struct rule rules[];
};

struct check {
	const struct policy *policy;
	const struct rule *hit;
	int depth;
	unsigned long work;
};

static void check_command_words(struct check *c, const char *const *w, size_t n);
static void check_command_text(struct check *c, const char *text, size_t n);

/* ---- one command against one rule ------------------------------------------------------- */

static int options_match(struct check *c, const struct rule *r, const char *const *w, size_t n)
{
	size_t i;
	int ended = 0;

	for (i = 1; i < r->count; i++) {
		const char *s = r->tokens[i].text;

		if (!cmdwords_is_option(s, &ended) || ended)
			continue;
		c->work += n;
		if (!cmdwords_has(w, n, s))
			return 0;
	}
	return 1;
}

/* The rule's operands, in their order, are among the command's. */
static int operands_match(struct check *c, const struct rule *r, const char *const *w, size_t n)
{
	char want[2 * POLICY_RULE_MAX], have[OPERAND_MAX];
	size_t i, j = 1;
	int rule_ended = 0, ended = 0, found;

	for (i = 1; i < r->count; i++) {
		if (cmdwords_is_option(r->tokens[i].text, &rule_ended))
			continue;
		cmdwords_clean(r->tokens[i].text, want, sizeof(want));
		for (found = 0; j < n && !found; j++) {
			if (cmdwords_is_option(w[j], &ended))
				continue;
			cmdwords_clean(w[j], have, sizeof(have));
			found = !strcmp(want, have) || !fnmatch(want, have, 0);
			c->work++;
		}
		if (!found)
			return 0;
	}
	return 1;
}

static int command_matches(struct check *c, const struct rule *r, const char *const *w, size_t n)
{
	const char *name = strchr(r->tokens[0].text, '/') ? w[0] : cmdwords_base(w[0]);

	c->work++;
	return !fnmatch(r->tokens[0].text, name, 0) && options_match(c, r, w, n) &&
	       operands_match(c, r, w, n);
}

/* ---- programs that run another ------------------------------------------------------------ */

static const struct runner {
	const char *name;
	const char *with_value;	/* short options that take a word */
	int operands;		/* operands of its own, before the command */
} runners[] = {
	{ "sudo", "ugpCcDrtThRU", 0 }, { "doas", "uC", 0 }, { "env", "uC", 0 }, { "nice", "n", 0 }, { "ionice", "cnpPu", 0 },
	{ "nohup", "", 0 }, { "setsid", "", 0 }, { "stdbuf", "ioe", 0 }, { "timeout", "sk", 1 }, { "time", "fo", 0 },
	{ "exec", "a", 0 }, { "command", "", 0 }, { "builtin", "", 0 }, { "busybox", "", 0 }, { "toybox", "", 0 },
	{ "xargs", "aEILnPsd", 0 }, { "chroot", "", 1 }, { "flock", "wEc", 1 }, { "taskset", "", 1 }, { "chrt", "TPD", 1 },
	{ "watch", "n", 0 }, { "strace", "eoaspuEPOSIUX", 0 },
};

static const char *const shells[] = { "sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "busybox" };
static const char *const with_text[] = { "su", "runuser", "script", "flock" };	/* -c TEXT */
static const char *const reserved[] = {
	"if", "then", "elif", "else", "while", "until", "do", "{", "!", "time", "coproc", "function",
};

static int is_in(const char *s, const char *const *list, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!strcmp(s, list[i]))
			return 1;
	return 0;
}

static int is_assignment(const char *s)
{
	size_t n = 0;

	while (isalnum((unsigned char)s[n]) || s[n] == '_')
		n++;
	return n && !isdigit((unsigned char)s[0]) && (s[n] == '=' || (s[n] == '+' && s[n + 1] == '='));
}

/* sh [options] -c TEXT: the options end at the first word without a dash. */
static void check_shell(struct check *c, const char *const *w, size_t n)
{
	size_t i;
	int text = 0;

	for (i = 1; i < n && (w[i][0] == '-' || w[i][0] == '+') && w[i][1]; i++) {
		if (!strcmp(w[i], "--")) {
			i++;
			break;
		}
		if (w[i][1] == '-') {
			i += !strcmp(w[i], "--rcfile") || !strcmp(w[i], "--init-file");
			continue;
		}
		text |= w[i][0] == '-' && strchr(w[i], 'c') != NULL;
		i += strchr("oO", w[i][strlen(w[i]) - 1]) != NULL;
	}
	if (text && i < n)
		check_command_text(c, w[i], strlen(w[i]));
}

static void check_joined(struct check *c, const char *const *w, size_t n)
{
	size_t len = 0, i;
	char *text, *p;

	for (i = 0; i < n; i++)
		len += strlen(w[i]) + 1;
	text = p = malloc(len + 1);
	for (i = 0; text && i < n; i++) {
		p = stpcpy(p, w[i]);
		*p++ = ' ';
	}
	if (text)
		check_command_text(c, text, len);
	free(text);
}

static size_t skip_own(const struct runner *r, const char *const *w, size_t n)
{
	int operands = r->operands;
	size_t i;

	for (i = 1; i < n; i++) {
		size_t len = strlen(w[i]);

		if (!strcmp(w[i], "--"))
			continue;
		if (w[i][0] == '-' && w[i][1] == '-') {
			/* --user root and --user=root */
			i += !strchr(w[i], '=') && (!strcmp(w[i], "--user") || !strcmp(w[i], "--group") || !strcmp(w[i], "--signal") ||
						    !strcmp(w[i], "--kill-after") || !strcmp(w[i], "--unset") || !strcmp(w[i], "--chdir"));
			continue;
		}
		if (w[i][0] == '-' && len > 1) {
			i += len == 2 && strchr(r->with_value, w[i][1]) != NULL;
			continue;
		}
		if (is_assignment(w[i]) || operands-- > 0)
			continue;
		break;
	}
	return i < n ? i : n;
}

static void check_inner(struct check *c, const char *name, const char *const *w, size_t n)
{
	size_t i, runs = 0;

	if (is_in(name, shells, ARRAY_LEN(shells)))
		check_shell(c, w, n);
	if (!strcmp(name, "eval"))
		check_joined(c, w + 1, n - 1);
	if (!strcmp(name, "trap") && n > 1)
		check_command_text(c, w[1], strlen(w[1]));
	for (i = 1; i + 1 < n && is_in(name, with_text, ARRAY_LEN(with_text)); i++)
		if (!strcmp(w[i], "-c") || !strcmp(w[i], "--command"))
			check_command_text(c, w[i + 1], strlen(w[i + 1]));
	for (i = 1; i + 1 < n && !strcmp(name, "find") && runs < 16; i++)
		if (!strcmp(w[i], "-exec") || !strcmp(w[i], "-execdir") || !strcmp(w[i], "-ok")) {
			check_command_words(c, w + i + 1, n - i - 1);
			runs++;
		}
	for (i = 0; i < ARRAY_LEN(runners); i++) {
		if (!strcmp(name, runners[i].name)) {
			size_t own = skip_own(&runners[i], w, n);

			check_command_words(c, w + own, n - own);
		}
	}
}

static void check_command_words(struct check *c, const char *const *w, size_t n)
{
	size_t i;

	while (n && (is_in(w[0], reserved, ARRAY_LEN(reserved)) || is_assignment(w[0]))) {
		int two = !strcmp(w[0], "function") && n > 1;

		w += 1 + two;
		n -= 1 + (size_t)two;
	}
	if (!n || c->hit || c->depth >= DEPTH_MAX || c->work > WORK_MAX)
		return;
	c->depth++;
	for (i = 0; i < c->policy->count && !c->hit; i++)
		if (!c->policy->rules[i].sequence && command_matches(c, &c->policy->rules[i], w, n))
			c->hit = &c->policy->rules[i];
	if (!c->hit)
		check_inner(c, cmdwords_base(w[0]), w, n);
	c->depth--;
}

/* ---- texts ---------------------------------------------------------------------------------- */

static int token_matches(const struct shlex_token *want, const struct shlex_token *have)
{
	if (want->kind != have->kind)
		return want->kind == SHLEX_OP && have->kind == SHLEX_NEWLINE && want->len == 1 && *want->text == ';';
	if (want->kind == SHLEX_WORD)
		return !fnmatch(want->text, have->text, 0);
	return want->len == have->len && !memcmp(want->text, have->text, want->len);
}

static int is_star(const struct shlex_token *t)
{
	return t->kind == SHLEX_WORD && !strcmp(t->text, "*");
}

/* l is a copy: where the sequence may begin is tried again from the next token. */
static int sequence_from(struct check *c, struct shlex l, const struct rule *r, size_t at)
{
	struct shlex_token t;
	int stars;

	for (; at < r->count; at++) {
		if (is_star(&r->tokens[at])) {
			for (stars = 0; stars <= STAR_WORDS; stars++) {
				if (sequence_from(c, l, r, at + 1))
					return 1;
				t = shlex_next(&l);
				if (t.kind != SHLEX_WORD)
					return 0;
			}
			return 0;
		}
		if (++c->work > WORK_MAX)
			return 0;
		t = shlex_next(&l);
		/* a line may break behind an operator */
		while (t.kind == SHLEX_NEWLINE && !token_matches(&r->tokens[at], &t))
			t = shlex_next(&l);
		if (t.kind == SHLEX_END || !token_matches(&r->tokens[at], &t))
			return 0;
	}
	return 1;
}

static int sequence_matches(struct check *c, const struct rule *r, const char *text, size_t n, char *words)
{
	struct shlex l, before;
	struct shlex_token t;

	shlex_init(&l, text, n, words);
	l.split_braces = 1;
	do {
		before = l;
		t = shlex_next(&l);
		c->work++;
		if (token_matches(&r->tokens[0], &t) && sequence_from(c, before, r, 0))
			return 1;
		if (!l.body_count)
			l.used = 0;
	} while (t.kind != SHLEX_END && c->work <= WORK_MAX);
	return 0;
}

struct line {
	struct check *check;
	const char **w;
	size_t n, cap;
	int runs_shell;		/* a command of this line is a shell: it reads the here-document */
	int skip;		/* the next word is the target of a redirection */
};

static void end_command(struct line *l)
{
	size_t i;

	for (i = 0; i < l->n; i++)
		l->runs_shell |= is_in(cmdwords_base(l->w[i]), shells, ARRAY_LEN(shells));
	check_command_words(l->check, l->w, l->n);
	l->n = 0;
	l->skip = 0;
}

static int add_line_word(struct line *l, const char *word)
{
	const char **more;

	if (l->skip) {
		l->skip = 0;
		return 0;
	}
	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 32;
		more = reallocarray(l->w, l->cap, sizeof(*more));
		if (!more)
			return -1;
		l->w = more;
	}
	l->w[l->n++] = word;
	return 0;
}

static void nested_text(void *ctx, const char *text, size_t n)
{
	check_command_text(ctx, text, n);
}

static void check_commands(struct check *c, const char *text, size_t n, char *words)
{
	struct line line = { .check = c };
	struct shlex l;
	struct shlex_token t;

	shlex_init(&l, text, n, words);
	l.nested = nested_text;
	l.ctx = c;
	do {
		t = shlex_next(&l);
		c->work++;
		if (t.kind == SHLEX_WORD) {
			if (add_line_word(&line, t.text) < 0)
				break;
		} else if (t.kind == SHLEX_REDIRECT) {
			line.skip = 1;
		} else if (t.kind == SHLEX_BODY) {
			if (line.runs_shell)
				check_command_text(c, t.text, t.len);
			line.runs_shell &= l.in_bodies;
		} else {
			end_command(&line);
			line.runs_shell &= t.kind != SHLEX_NEWLINE || l.in_bodies;
			shlex_forget(&l);
		}
	} while (t.kind != SHLEX_END && !c->hit && c->work <= WORK_MAX);
	free(line.w);
}

static void check_command_text(struct check *c, const char *text, size_t n)
{
	autofree char *words = NULL;
	size_t i;

	if (c->hit || c->depth >= DEPTH_MAX)
		return;
	words = malloc(shlex_room(n));
	if (!words)
		return;
	c->depth++;
	for (i = 0; i < c->policy->count && !c->hit; i++)
		if (c->policy->rules[i].sequence && sequence_matches(c, &c->policy->rules[i], text, n, words))
			c->hit = &c->policy->rules[i];
	check_commands(c, text, n, words);
	c->depth--;
}

/* ---- rules ------------------------------------------------------------------------------------ */

static int compile_deny_rule(struct rule *r, const char *text, size_t n, const char *what, struct err *e)
{
	struct shlex l;
	struct shlex_token t;
	int stars = 0;

	memset(r, 0, sizeof(*r));
	if (n > POLICY_RULE_MAX)
		return err_set(e, ERR_CONFIG, "%s: a rule of more than %d bytes", what, POLICY_RULE_MAX);
	memcpy(r->text, text, n);
	shlex_init(&l, r->text, n, r->words);
	l.split_braces = 1;
	while ((t = shlex_next(&l)).kind != SHLEX_END) {
		if (t.kind != SHLEX_WORD && t.kind != SHLEX_OP)
			return err_set(e, ERR_CONFIG, "%s: rule '%s' has a redirection in it; hint: words and ; | & ( )", what, r->text);
		if (r->count == RULE_TOKENS)
			return err_set(e, ERR_CONFIG, "%s: rule '%s' has more than %d words", what, r->text, RULE_TOKENS);
		r->sequence |= t.kind == SHLEX_OP;
		stars += is_star(&t);
		r->tokens[r->count++] = t;
	}
	if (!r->count || r->tokens[0].kind != SHLEX_WORD || is_star(&r->tokens[0]))
		return err_set(e, ERR_CONFIG, "%s: rule '%s' names no command", what, r->text);
	if (r->sequence && stars > STARS_MAX)
		return err_set(e, ERR_CONFIG, "%s: rule '%s' has more than %d lone *", what, r->text, STARS_MAX);
	return 0;
}

int policy_rule_check(const char *rule, const char *what, struct err *e)
{
	struct rule r;

	return compile_deny_rule(&r, rule, strlen(rule), what, e);
}

struct policy *policy_new(const char *rules, struct err *e)
{
	struct policy *p;
	size_t count = 0, n;
	const char *s;

	for (s = rules; *s; s += n + (s[n] == '\n'), count++)
		n = strcspn(s, "\n");
	if (count > POLICY_RULES_MAX) {
		err_set(e, ERR_CONFIG, "more than %d rules", POLICY_RULES_MAX);
		return NULL;
	}
	p = calloc(1, sizeof(*p) + count * sizeof(p->rules[0]));
	if (!p) {
		err_nomem(e);
		return NULL;
	}
	for (s = rules; *s; s += n + (s[n] == '\n')) {
		n = strcspn(s, "\n");
		if (compile_deny_rule(&p->rules[p->count++], s, n, "policy.deny", e) < 0) {
			free(p);
			return NULL;
		}
	}
	return p;
}

void policy_free(struct policy *p)
{
	free(p);
}

static int verdict(const struct check *c, struct err *e)
{
	return c->hit ? err_set(e, ERR_POLICY, "the command is refused by the rule '%s' of the command policy; hint: another command, "
				"or [policy] deny in berth.toml", c->hit->text) : 0;
}

int policy_check_argv(const struct policy *p, const char *const *argv, size_t argc, struct err *e)
{
	struct check c = { .policy = p };

	if (p && p->count)
		check_command_words(&c, argv, argc);
	return verdict(&c, e);
}

int policy_check_text(const struct policy *p, const char *text, size_t n, struct err *e)
{
	struct check c = { .policy = p };

	if (p && p->count)
		check_command_text(&c, text, n);
	return verdict(&c, e);
}
