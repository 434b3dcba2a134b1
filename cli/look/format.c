/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/look/format.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define OUTPUT_MAX (4u << 20)

struct template *format_parse(const char *text, struct err *e)
{
	if (!strcmp(text, "json"))
		text = "{{json .}}";
	if (!strncmp(text, "table", 5) && strchr(" \t{\\", text[5])) {
		err_set(e, ERR_INVALID, "tables are not made; hint: '{{.id}}  {{.name}}', and column -t");
		return NULL;
	}
	/* cppcheck-suppress CastIntegerToAddressAtReturn ; it stumbles over the word template, which is C++'s */
	return template_parse(text, e);
}

/* Names and commands may come from others: no control character of theirs reaches a terminal. */
static void clean(char *s, size_t n)
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
	clean(b.data, b.len);
	return fwrite(b.data, 1, b.len, stdout) == b.len ? 0 : err_sys(e, "write to stdout");
}
