/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/form.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* NAME="VALUE" of a Content-Disposition line; quotes are escaped as %22 or \". */
static int parameter(const char *line, size_t n, const char *name, char *out, size_t max)
{
	char key[32];
	const char *p, *end = line + n;
	size_t len = 0;

	snprintf(key, sizeof(key), "; %s=\"", name);
	p = memmem(line, n, key, strlen(key));
	if (!p)
		return 0;
	for (p += strlen(key); p < end && *p != '"'; p++) {
		if (*p == '\\' && p + 1 < end && (p[1] == '"' || p[1] == '\\'))
			p++;
		if (len + 1 >= max)
			return 0;
		out[len++] = *p;
	}
	out[len] = '\0';
	return p < end;
}

/* The part between two boundaries: its header lines, an empty one, its bytes. */
static int parse_part(const char *from, const char *end, struct form_part *ret, struct err *e)
{
	static const char disposition[] = "Content-Disposition:";
	const char *line = from, *eol;
	int found = 0;

	memset(ret, 0, sizeof(*ret));
	for (;;) {
		eol = memmem(line, (size_t)(end - line), "\r\n", 2);
		if (!eol)
			return err_set(e, ERR_INVALID, "a part of the form has no body");
		if (eol == line)
			break;
		if ((size_t)(eol - line) > strlen(disposition) &&
		    !strncasecmp(line, disposition, strlen(disposition)))
			found = parameter(line, (size_t)(eol - line), "name", ret->name,
					  sizeof(ret->name)) &&
				(parameter(line, (size_t)(eol - line), "filename", ret->filename,
					   sizeof(ret->filename)),
				 1);
		line = eol + 2;
	}
	if (!found)
		return err_set(e, ERR_INVALID, "a part of the form has no name");
	ret->data = eol + 2;
	ret->n = (size_t)(end - ret->data);
	return 0;
}

int form_boundary(const char *type, char out[80], struct err *e)
{
	const char *p = type ? strcasestr(type, "boundary=") : NULL;
	size_t n;

	if (!type || strncasecmp(type, "multipart/form-data", 19) || !p)
		return err_set(e, ERR_INVALID, "the body is not multipart/form-data");
	p += strlen("boundary=");
	n = *p == '"' ? strcspn(++p, "\"") : strcspn(p, "; ");
	if (!n || n > 70)
		return err_set(e, ERR_INVALID, "the boundary of the form is malformed");
	snprintf(out, 80, "--%.*s", (int)n, p);
	return 0;
}

int form_each(const struct buf *form, const char *boundary,
	      int (*each)(void *ctx, const struct form_part *p, struct err *e), void *ctx,
	      struct err *e)
{
	char sep[90];
	const char *end = form->data + form->len, *at, *next;
	struct form_part p;

	snprintf(sep, sizeof(sep), "\r\n%s", boundary);
	at = form->len ? memmem(form->data, form->len, boundary, strlen(boundary)) : NULL;
	if (at != form->data || !at)
		return err_set(e, ERR_INVALID, "the form does not begin with its boundary");
	at += strlen(boundary);
	while (end - at >= 2 && !memcmp(at, "\r\n", 2)) {
		at += 2;
		next = memmem(at, (size_t)(end - at), sep, strlen(sep));
		if (!next)
			return err_set(e, ERR_INVALID, "the form does not end with its boundary");
		if (parse_part(at, next, &p, e) < 0 || each(ctx, &p, e) < 0)
			return -1;
		at = next + strlen(sep);
	}
	return end - at >= 2 && !memcmp(at, "--", 2) ?
		       0 :
		       err_set(e, ERR_INVALID, "the form does not end with its boundary");
}
