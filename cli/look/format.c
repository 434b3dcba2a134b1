/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/look/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define OUTPUT_MAX (4u << 20)

/* The end of the action that begins at s; "}}" in a string does not end it. */
static const char *action_end(const char *s)
{
	char quote = '\0';

	for (s += 2; *s && (quote || strncmp(s, "}}", 2)); s++)
		if (quote == '"' && *s == '\\' && s[1])
			s++;
		else if (quote ? *s == quote : *s == '"' || *s == '`')
			quote = quote ? '\0' : *s;
	return *s ? s + 2 : s;
}

/* As docker has it: \t and \n of the text between actions are a tab and a newline. */
static void unescape_template(char *text)
{
	const char *from = text, *end;
	char *to = text;

	while (*from) {
		if (!strncmp(from, "{{", 2)) {
			end = action_end(from);
			while (from < end)
				*to++ = *from++;
		} else if (*from == '\\' && (from[1] == 't' || from[1] == 'n')) {
			*to++ = from[1] == 't' ? '\t' : '\n';
			from += 2;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
}

struct template *format_parse(const char *text, struct err *e)
{
	autofree char *plain = NULL;

	if (!strcmp(text, "json"))
		text = "{{json .}}";
	if (!strncmp(text, "table", 5) && strchr(" \t{\\", text[5])) {
		err_set(e, ERR_INVALID, "tables are not made; hint: '{{.id}}  {{.name}}', and column -t");
		return NULL;
	}
	plain = strdup(text);
	if (!plain) {
		err_nomem(e);
		return NULL;
	}
	unescape_template(plain);
	/* cppcheck-suppress CastIntegerToAddressAtReturn ; it stumbles over the word template, which is C++'s */
	return template_parse(plain, e);
}

/* Names and commands may come from others: no control character of theirs reaches a terminal. */
static void clean_formatted_text(char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (((unsigned char)s[i] < ' ' && s[i] != '\n' && s[i] != '\t') || s[i] == 0x7f ||
		    (i + 1 < n && (unsigned char)s[i] == 0xc2 && (unsigned char)s[i + 1] >= 0x80 && (unsigned char)s[i + 1] < 0xa0))
			s[i] = '?';
		else if (i && s[i - 1] == '?' && (unsigned char)s[i] >= 0x80 && (unsigned char)s[i] < 0xa0)
			s[i] = '?';	/* the second byte of one of U+0080 to U+009F */
}

int format_print(const struct template *t, const json_t *record, struct err *e)
{
	autobuf struct buf b = BUF_INIT(OUTPUT_MAX);

	if (template_run(t, record, &b, e) < 0 || buf_adds(&b, "\n", e) < 0)
		return -1;
	clean_formatted_text(b.data, b.len);
	return fwrite(b.data, 1, b.len, stdout) == b.len ? 0 : err_sys(e, "write to stdout");
}
