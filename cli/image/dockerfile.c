/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dockerfile - what is wrong with a Dockerfile, before any of it runs.
 *
 * Pure.  Lines are joined and words are counted as Docker's classic builder does it, and errors
 * have its words, since clients look for them.  buildah alone knows what an instruction means; the
 * only changes made here are to names of stages, which Docker compares without regard to case, and
 * to here-documents (heredoc.h), which old versions of buildah do not read.
 * Each byte is looked at a fixed number of times, and nothing grows but the joined line.
 */
#include "cli/image/build.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "cli/image/heredoc.h"

#define BOM "\xef\xbb\xbf"
#define LINE_MAX_BYTES 65535
#define STAGES_MAX 200
#define INSTRUCTIONS_MAX 5000
#define FLAGS_MAX 64
#define INSTRUCTION_LINES_MAX 5000
#define SPACES " \t\v\f\r"

struct reader {
	char *at; /* the rest of the text */
	unsigned line; /* lines that were read */
	char escape;
	int is_past_directives;
	unsigned stages, instructions;
	json_t *names; /* of stages, with their numbers */
	struct buf joined;
	struct heredoc_reader *heredocs;
	struct buf *out; /* what buildah is given */
	char *begins; /* in the text: the line that was read last, then the whole instruction */
};

static int parse_error(struct err *e, unsigned line, const char *text)
{
	return err_set(e, ERR_INVALID, "dockerfile parse error on line %u: %s", line, text);
}

/* ---- words ---- */

static const char *skip_spaces(const char *p)
{
	return p + strspn(p, SPACES);
}

static size_t word_bytes(const char *p)
{
	return strcspn(p, SPACES);
}

static size_t count_line_words(const char *p)
{
	size_t n = 0;

	for (p = skip_spaces(p); *p; p = skip_spaces(p + word_bytes(p)))
		n++;
	return n;
}

static json_t *json_words(const char *args)
{
	struct err ignored;
	autojson json_t *list = *args == '[' ? json_parse(args, strlen(args), LINE_MAX_BYTES, "words", &ignored) : NULL;
	const json_t *one;
	size_t i;

	json_array_foreach (list, i, one)
		if (!json_is_string(one))
			return NULL;
	return json_is_array(list) ? json_incref(list) : NULL;
}

/* ---- arguments of an instruction ---- */

enum arguments { ANY, ONE, SOME, FILES, PAIRS, IMAGE_OF, JSON_WORDS, TRIGGER, HEALTH, PORTS };

static const struct instruction {
	const char *name;
	enum arguments takes;
	const char *flags; /* one word each */
} instructions[] = {
	{"ADD", FILES, " chown chmod checksum link keep-git-dir "},
	{"ARG", SOME, ""},
	{"CMD", ANY, ""},
	{"COPY", FILES, " chown chmod from link "},
	{"ENTRYPOINT", ANY, ""},
	{"ENV", PAIRS, ""},
	{"EXPOSE", PORTS, ""},
	{"FROM", IMAGE_OF, " platform "},
	{"HEALTHCHECK", HEALTH, " interval timeout start-period start-interval retries "},
	{"LABEL", PAIRS, ""},
	{"MAINTAINER", ONE, ""},
	{"ONBUILD", TRIGGER, ""},
	{"RUN", ANY, " mount network security "},
	{"SHELL", JSON_WORDS, ""},
	{"STOPSIGNAL", ONE, ""},
	{"USER", ONE, ""},
	{"VOLUME", SOME, ""},
	{"WORKDIR", ONE, ""},
};

static const struct instruction *instruction_named(const char *word, size_t n)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(instructions); i++)
		if (strlen(instructions[i].name) == n && !strncasecmp(instructions[i].name, word, n))
			return &instructions[i];
	return NULL;
}

static int is_stage_name(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!isalnum((unsigned char)p[i]) && !strchr("-_.", p[i]))
			return 0;
	return n && isalpha((unsigned char)*p);
}

/* In place: the name has the same length in the text, where buildah reads it. */
static void lower_stage(char *text, const char *before, const char *name, size_t n)
{
	char *p = text;
	size_t i;

	while ((p = strcasestr(p, before))) {
		p += strlen(before);
		if (strncasecmp(p, name, n) || (p[n] && !strchr(SPACES "\n", p[n])))
			continue;
		for (i = 0; i < n; i++)
			p[i] = (char)tolower((unsigned char)p[i]);
	}
}

/* The stage that a name is of, or NULL. */
static const json_t *lower_stage_of(struct reader *r, const char *before, const char *name, size_t n)
{
	const json_t *stage;
	char key[256];
	size_t i;

	if (!n || n >= sizeof(key))
		return NULL;
	for (i = 0; i <= n; i++)
		key[i] = (char)(i < n ? tolower((unsigned char)name[i]) : '\0');
	stage = json_object_get(r->names, key);
	if (stage)
		lower_stage(r->begins, before, name, n);
	return stage;
}

/* The name of the stage that a FROM of three words begins. */
static int name_stage(struct reader *r, const char *name, struct err *e)
{
	char key[256], why[400];
	const size_t n = word_bytes(name);
	size_t i;

	if (n >= sizeof(key) || !is_stage_name(name, n)) {
		snprintf(why, sizeof(why), "invalid name for build stage: \"%.*s\", name can't start with a number or contain symbols",
			 (int)(n < 200 ? n : 200), name);
		return parse_error(e, r->line, why);
	}
	for (i = 0; i <= n; i++)
		key[i] = (char)(i < n ? tolower((unsigned char)name[i]) : '\0');
	if (json_object_get(r->names, key))
		return err_set(e, ERR_INVALID, "%s stage name already used", key);
	if (json_object_set_new(r->names, key, json_integer(r->stages)) < 0)
		return err_nomem(e);
	lower_stage(r->begins, " ", name, n);
	lower_stage(r->begins, "\t", name, n);
	return 0;
}

static int begin_stage(struct reader *r, const char *args, struct err *e)
{
	const size_t words = count_line_words(args);
	const char *second = skip_spaces(args + word_bytes(args));

	if (++r->stages > STAGES_MAX)
		return err_set(e, ERR_LIMIT, "the Dockerfile has more than %d stages", STAGES_MAX);
	lower_stage_of(r, " ", args, word_bytes(args));
	if (words == 1)
		return 0;
	if (words != 3 || word_bytes(second) != 2 || strncasecmp(second, "as", 2))
		return parse_error(e, r->line, "FROM requires either one or three arguments");
	return name_stage(r, skip_spaces(second + 2), e);
}

/* --from=VALUE of COPY: a stage before this one; any other name is an image's. */
static int check_copy_from(struct reader *r, const char *value, size_t n, struct err *e)
{
	char key[256];
	const json_t *stage;
	unsigned long number;

	snprintf(key, sizeof(key), "%.*s", (int)(n < 200 ? n : 200), value);
	if (!n || key[strspn(key, "0123456789")]) {
		stage = lower_stage_of(r, "from=", value, n);
		return stage && json_integer_value(stage) == r->stages ?
			       err_set(e, ERR_INVALID, "invalid from flag value %s: refers to current build stage", key) : 0;
	}
	number = strtoul(key, NULL, 10);
	if (number + 1 < r->stages)
		return 0;
	return err_set(e, ERR_INVALID, "invalid from flag value %s: %s", key,
		       number + 1 == r->stages ? "refers to current build stage" : "index out of bounds");
}

/* In the text that buildah reads, which knows no --link: what it copies is the same without it. */
static void blank_link(struct reader *r, size_t n)
{
	static const char flag[] = "--link";
	char *p = r->begins;

	while ((p = strstr(p, flag))) {
		if (p > r->begins && strchr(SPACES "\n", p[-1]) && strchr("=" SPACES "\n", p[strlen(flag)])) {
			memset(p, ' ', n);
			return;
		}
		p += strlen(flag);
	}
}

static int is_mount_word(const char *word, size_t n, const char *name)
{
	const size_t own = strlen(name);

	return n >= own && !strncasecmp(word, name, own) && (n == own || (n == own + 5 && !strncasecmp(word + own, "=true", 5)));
}

/* --mount=VALUE of RUN: the context is read-only to each step, and no layer above it takes what a step writes. */
static int check_run_mount(const char *value, size_t n, struct err *e)
{
	const char *word, *end = value + n;
	int is_bind = 1, of_context = 1, writes = 0;
	size_t len;

	for (word = value; word < end; word += len + 1) {
		len = strcspn(word, "," SPACES);
		if (len > 5 && !strncasecmp(word, "type=", 5))
			is_bind = len == 9 && !strncasecmp(word + 5, "bind", 4);
		else if (len > 5 && !strncasecmp(word, "from=", 5))
			of_context = 0;
		else if (is_mount_word(word, len, "rw") || is_mount_word(word, len, "readwrite"))
			writes = 1;
	}
	return !is_bind || !of_context || !writes ? 0 :
	       err_set(e, ERR_UNSUPPORTED, "RUN --mount=%.*s: the context cannot be written to in a build; hint: leave rw out, and let the step "
		       "copy what it changes", (int)(n < 200 ? n : 200), value);
}

/* Behind the flags, which it checks; NULL with e. */
static const char *check_flags(struct reader *r, const struct instruction *is, const char *p, struct err *e)
{
	char word[64], why[200];
	unsigned flags = 0;

	for (; p[0] == '-' && p[1] == '-'; p = skip_spaces(p + word_bytes(p))) {
		const size_t n = strcspn(p + 2, "=" SPACES), all = word_bytes(p);

		if (!n)
			return skip_spaces(p + all); /* "--" ends them */
		if (++flags > FLAGS_MAX)
			return err_set(e, ERR_LIMIT, "%s has more than %d flags", is->name, FLAGS_MAX), NULL;
		snprintf(word, sizeof(word), " %.*s ", (int)(n < 60 ? n : 60), p + 2);
		if (!strstr(is->flags, word)) {
			snprintf(why, sizeof(why), "unknown flag: %.*s", (int)(n < 60 ? n : 60), p + 2);
			return parse_error(e, r->line, why), NULL;
		}
		if (!strcmp(word, " link ")) {
			blank_link(r, all);
			/* and in the line that here-documents are written from */
			memset(r->joined.data + (p - r->joined.data), ' ', all);
		}
		if (!strcmp(word, " mount ") && p[2 + n] == '=' && check_run_mount(p + 3 + n, all - n - 3, e) < 0)
			return NULL;
		if (!strcmp(is->name, "COPY") && !strcmp(word, " from ") && p[2 + n] == '=' &&
		    check_copy_from(r, p + 3 + n, all - n - 3, e) < 0)
			return NULL;
	}
	return p;
}

static int wrong_count(const struct reader *r, const struct instruction *is, const char *what, struct err *e)
{
	char why[200];

	snprintf(why, sizeof(why), "%s requires %s", is->name, what);
	return parse_error(e, r->line, why);
}

/* KEY VALUE, or KEY=VALUE of each word; words in quotes are buildah's to read. */
static int check_pairs(const struct reader *r, const struct instruction *is, const char *args, struct err *e)
{
	const size_t n = word_bytes(args);
	char why[200];

	if (!*args)
		return wrong_count(r, is, "at least one argument", e);
	if (*args == '=')
		snprintf(why, sizeof(why), "%s names can not be blank", is->name);
	else if (!memchr(args, '=', n) && !strpbrk(args, "\"'") && !*skip_spaces(args + n))
		snprintf(why, sizeof(why), "%s must have two arguments", is->name);
	else
		return 0;
	return parse_error(e, r->line, why);
}

static int check_trigger(const struct reader *r, const struct instruction *is, const char *args, struct err *e)
{
	const struct instruction *trigger = instruction_named(args, word_bytes(args));
	char why[200];

	if (!*args)
		return wrong_count(r, is, "at least one argument", e);
	if (!trigger)
		snprintf(why, sizeof(why), "unknown instruction: %.*s", (int)(word_bytes(args) < 80 ? word_bytes(args) : 80), args);
	else if (trigger == is)
		snprintf(why, sizeof(why), "Chaining ONBUILD via `ONBUILD ONBUILD` isn't allowed");
	else if (!strcmp(trigger->name, "FROM") || !strcmp(trigger->name, "MAINTAINER"))
		snprintf(why, sizeof(why), "%s isn't allowed as an ONBUILD trigger", trigger->name);
	else
		return 0;
	return parse_error(e, r->line, why);
}

static int check_health(const struct reader *r, const struct instruction *is, const char *args, struct err *e)
{
	const size_t n = word_bytes(args);
	const char *rest = skip_spaces(args + n);
	char why[200];

	if (!n)
		return wrong_count(r, is, "at least one argument", e);
	if (n == 4 && !strncasecmp(args, "NONE", n))
		return *rest ? parse_error(e, r->line, "HEALTHCHECK NONE takes no arguments") : 0;
	if (n == 3 && !strncasecmp(args, "CMD", n))
		return *rest ? 0 : parse_error(e, r->line, "Missing command after HEALTHCHECK CMD");
	snprintf(why, sizeof(why), "Unknown type \"%.*s\" in HEALTHCHECK (try CMD)", (int)(n < 80 ? n : 80), args);
	return parse_error(e, r->line, why);
}

static int check_ports(const struct reader *r, const struct instruction *is, const char *args, struct err *e)
{
	const char *p;

	if (!*args)
		return wrong_count(r, is, "at least one argument", e);
	for (p = args; *p; p = skip_spaces(p + word_bytes(p)))
		if (!strchr("0123456789$\"'", *p) && !memchr(p, '$', word_bytes(p)))
			return err_set(e, ERR_INVALID, "invalid containerPort: %.*s", (int)(word_bytes(p) < 80 ? word_bytes(p) : 80), p);
	return 0;
}

static int check_arguments(struct reader *r, const struct instruction *is, const char *args, struct err *e)
{
	autojson json_t *list = json_words(args);
	const size_t words = list ? json_array_size(list) : count_line_words(args);

	switch (is->takes) {
	case ANY:
		return 0;
	case ONE:
		return *args ? 0 : wrong_count(r, is, "exactly one argument", e);
	case SOME:
		return words ? 0 : wrong_count(r, is, "at least one argument", e);
	case FILES:
		return words > 1 ? 0 :
				   wrong_count(r, is, "at least two arguments, but only one was provided. Destination could not be determined", e);
	case PAIRS:
		return check_pairs(r, is, args, e);
	case IMAGE_OF:
		return begin_stage(r, args, e);
	case JSON_WORDS:
		if (list)
			return words ? 0 : wrong_count(r, is, "at least one argument", e);
		return wrong_count(r, is, "the arguments to be in JSON form", e);
	case TRIGGER:
		return check_trigger(r, is, args, e);
	case HEALTH:
		return check_health(r, is, args, e);
	case PORTS:
		return check_ports(r, is, args, e);
	}
	return 0;
}

static int check_instruction(struct reader *r, unsigned first, const char *line, struct err *e)
{
	const size_t n = word_bytes(line);
	const struct instruction *is = instruction_named(line, n);
	const unsigned last = r->line;
	const char *args;
	char why[200];
	int result;

	r->line = first;
	if (!is) {
		snprintf(why, sizeof(why), "unknown instruction: %.*s", (int)(n < 100 ? n : 100), line);
		return parse_error(e, first, why);
	}
	if (++r->instructions > INSTRUCTIONS_MAX)
		return err_set(e, ERR_LIMIT, "the Dockerfile has more than %d instructions", INSTRUCTIONS_MAX);
	if (!r->stages && is->takes != IMAGE_OF && strcmp(is->name, "ARG"))
		return err_set(e, ERR_INVALID, "no build stage in current context: the Dockerfile begins with %s and not with FROM", is->name);
	args = check_flags(r, is, skip_spaces(line + n), e);
	if (!args)
		return -1;
	result = check_arguments(r, is, args, e);
	r->line = last;
	return result;
}

/* ---- lines ---- */

/* # escape=`, at the top alone. */
static int take_directive(struct reader *r, const char *comment, struct err *e)
{
	const char *p = skip_spaces(comment + 1);
	const size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
	const char *equals = skip_spaces(p + n), *value = *equals == '=' ? skip_spaces(equals + 1) : NULL;

	if (r->is_past_directives || !n || !value) {
		r->is_past_directives = 1;
		return 0;
	}
	if (n != 6 || strncasecmp(p, "escape", n))
		return 0;
	if ((*value != '`' && *value != '\\') || *skip_spaces(value + 1))
		return parse_error(e, r->line, "invalid escape token does not match ` or \\");
	r->escape = r->heredocs->escape = *value;
	return 0;
}

/* The next line, without its end, as a copy; 0 at the end of the text. */
static int next_line(struct reader *r, struct buf *line, struct err *e)
{
	const size_t n = strcspn(r->at, "\n");
	size_t len = n;

	if (!*r->at)
		return 0;
	r->line++;
	if (n > LINE_MAX_BYTES)
		return err_set(e, ERR_INVALID, "dockerfile line greater than max allowed size of %d", LINE_MAX_BYTES);
	while (len && r->at[len - 1] == '\r')
		len--;
	line->len = 0;
	if (buf_add(line, r->at, len, e) < 0 || buf_add(line, "", 1, e) < 0)
		return -1;
	r->begins = r->at;
	r->at += n + (r->at[n] == '\n');
	return 1;
}

/* Whether the line goes on: the escape that says so is taken off. */
static int goes_on(const struct reader *r, char *line)
{
	size_t n = strlen(line);

	while (n && strchr(" \t", line[n - 1]))
		n--;
	if (!n || line[n - 1] != r->escape || (n > 1 && line[n - 2] == r->escape))
		return 0;
	line[n - 1] = '\0';
	return 1;
}

/* What follows a line that goes on, into r->joined, without comments and empty lines. */
static int join_lines(struct reader *r, struct buf *line, struct err *e)
{
	const unsigned first = r->line;
	int got, more = 1;

	while (more && (got = next_line(r, line, e)) != 0) {
		const char *text = got > 0 ? skip_spaces(line->data) : NULL;

		if (!text)
			return -1;
		/* buildah copies all that it has of an instruction for each line that follows */
		if (r->line - first > INSTRUCTION_LINES_MAX)
			return err_set(e, ERR_LIMIT, "the instruction on line %u has more than %d lines", first, INSTRUCTION_LINES_MAX);
		if (!*text || *text == '#')
			continue;
		more = goes_on(r, line->data);
		r->joined.len--;
		if (buf_add(&r->joined, line->data, strlen(line->data) + 1, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- here-documents ---- */

/* The lines of one, up to its name alone. */
static int read_heredoc(struct reader *r, unsigned first, struct heredoc *d, struct buf *line, struct err *e)
{
	int got;

	while ((got = next_line(r, line, e)) > 0) {
		const char *text = line->data + (d->strips_tabs ? strspn(line->data, "\t") : 0);

		if (!strcmp(text, d->name))
			return 0;
		if (buf_addf(&d->text, e, "%s\n", text) < 0)
			return -1;
	}
	return got < 0 ? -1 : parse_error(e, first, "unterminated heredoc");
}

/* The instruction with n documents, in as many lines as it had. */
static int replace_heredocs(struct reader *r, unsigned first, const char *flags, const char *args, struct heredoc *d, int n, struct buf *line, struct err *e)
{
	const char *word = skip_spaces(r->joined.data);
	const size_t before = r->out->len;
	char name[16];
	size_t i;
	unsigned lines = 0;
	int k;

	for (k = 0; k < n; k++)
		if (read_heredoc(r, first, &d[k], line, e) < 0)
			return -1;
	snprintf(name, sizeof(name), "%.*s", (int)word_bytes(word), word);
	if (heredoc_write(r->heredocs, name, flags, args, d, n, r->out, e) < 0) {
		char why[400];

		snprintf(why, sizeof(why), "%.390s", e->msg);
		return parse_error(e, first, why);
	}
	for (i = before; i < r->out->len; i++)
		lines += r->out->data[i] == '\n';
	for (; lines < r->line - first + 1; lines++)
		if (buf_add(r->out, "\n", 1, e) < 0)
			return -1;
	return 0;
}

/* An instruction that was checked, in the text from top to r->at, goes on to buildah. */
static int pass_instruction(struct reader *r, unsigned first, const char *top, struct buf *line, struct err *e)
{
	const char *word = skip_spaces(r->joined.data), *flags = skip_spaces(word + word_bytes(word)), *args = flags;
	struct heredoc d[HEREDOCS_MAX];
	char name[16];
	autofree char *kept = NULL;
	int n = 0, i, result;

	snprintf(name, sizeof(name), "%.*s", (int)word_bytes(word), word);
	if (!strcasecmp(name, "ONBUILD")) {
		args = skip_spaces(flags + word_bytes(flags));
		snprintf(name, sizeof(name), "%.*s", (int)word_bytes(flags), flags);
		if (instruction_named(name, strlen(name)) && strchr("RCA", toupper((unsigned char)name[0])) && *args != '[' && strcasecmp(name, "CMD") &&
		    strcasecmp(name, "ARG") && (n = heredoc_find(args, r->escape, d)) != 0)
			return parse_error(e, first, "ONBUILD takes no here-document here");
		return buf_add(r->out, top, (size_t)(r->at - top), e);
	}
	while (args[0] == '-' && args[1] == '-' && word_bytes(args) > 2)
		args = skip_spaces(args + word_bytes(args));
	if ((!strcasecmp(name, "RUN") || !strcasecmp(name, "COPY") || !strcasecmp(name, "ADD")) && *args != '[')
		n = heredoc_find(args, r->escape, d);
	if (n < 0)
		return parse_error(e, first, "more than 32 here-documents");
	if (!n)
		return heredoc_note(r->heredocs, name, args, e) < 0 ? -1 : buf_add(r->out, top, (size_t)(r->at - top), e);
	kept = strndup(flags, (size_t)(args - flags));
	result = kept ? replace_heredocs(r, first, kept, args, d, n, line, e) : err_nomem(e);
	for (i = 0; i < n; i++)
		buf_release(&d[i].text);
	return result;
}

static int read_instructions(struct reader *r, struct buf *line, struct err *e)
{
	int got;

	while ((got = next_line(r, line, e)) > 0) {
		char *text = line->data + strspn(line->data, SPACES), *top = r->begins;
		const unsigned first = r->line;
		int more;

		if (*text == '#' && take_directive(r, text, e) < 0)
			return -1;
		if (!*text || *text == '#') {
			if (buf_add(r->out, top, (size_t)(r->at - top), e) < 0)
				return -1;
			continue;
		}
		r->is_past_directives = 1;
		more = goes_on(r, text);
		r->joined.len = 0;
		if (buf_add(&r->joined, text, strlen(text) + 1, e) < 0 || (more && join_lines(r, line, e) < 0))
			return -1;
		/* an end of the text for lower_stage(), which looks no further than this instruction */
		if (r->at > top) {
			const char kept = *r->at;

			*r->at = '\0';
			r->begins = top;
			got = check_instruction(r, first, skip_spaces(r->joined.data), e);
			*r->at = kept;
			if (got == 0)
				got = pass_instruction(r, first, top, line, e);
		}
		if (got < 0)
			return -1;
	}
	return got;
}

/* By name or number. */
static int check_build_target(const struct reader *r, const char *target, struct err *e)
{
	char key[256];
	size_t i, n = target ? strlen(target) : 0;

	if (!n)
		return 0;
	for (i = 0; i <= n && i < sizeof(key); i++)
		key[i] = (char)tolower((unsigned char)target[i]);
	if (n < sizeof(key) && (json_object_get(r->names, key) ||
				(!key[strspn(key, "0123456789")] && n < 5 && strtoul(key, NULL, 10) < r->stages)))
		return 0;
	return err_set(e, ERR_INVALID, "target stage \"%.200s\" could not be found", target);
}

int dockerfile_check(char *text, const char *name, const char *target, struct heredoc_reader *heredocs, struct buf *out, struct err *e)
{
	struct reader r = {.at = text,
			   .escape = '\\',
			   .names = json_object(),
			   .joined = BUF_INIT(2 * BUILD_DOCKERFILE_MAX),
			   .heredocs = heredocs,
			   .out = out};
	autobuf struct buf line = BUF_INIT(LINE_MAX_BYTES + 2);
	int result;

	if (!text[0]) {
		json_decref(r.names);
		return err_set(e, ERR_INVALID, "the Dockerfile (%.200s) cannot be empty", name);
	}
	if (!strncmp(text, BOM, strlen(BOM)))
		memmove(text, text + strlen(BOM), strlen(text) + 1 - strlen(BOM));
	result = r.names ? read_instructions(&r, &line, e) : err_nomem(e);
	if (result == 0 && !r.instructions)
		result = parse_error(e, r.line ? r.line : 1, "file with no instructions");
	else if (result == 0 && !r.stages)
		result = err_set(e, ERR_INVALID, "no build stage in current context: the Dockerfile has no FROM");
	if (result == 0)
		result = check_build_target(&r, target, e);
	buf_release(&r.joined);
	json_decref(r.names);
	return result;
}
