/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/json.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"

/* Digits at p that are above INT64_MAX and at most UINT64_MAX: how many; else 0. */
static size_t big_number(const char *p, const char *end)
{
	size_t n = 0;
	char copy[24];

	while (p + n < end && isdigit((unsigned char)p[n]))
		n++;
	if (n < 19 || n > 20 || (p + n < end && strchr(".eE", p[n])))
		return 0;
	memcpy(copy, p, n);
	copy[n] = '\0';
	if (strcmp(copy, "9223372036854775807") <= 0 && n == 19)
		return 0;
	return n == 19 || strcmp(copy, "18446744073709551615") <= 0 ? n : 0;
}

/* Where the next such number begins in the text from begin on, outside of strings; NULL: nowhere. */
static const char *find_big(const char *begin, const char *end)
{
	const char *p = begin;
	int quoted = 0;

	for (; p < end; p++) {
		if (quoted) {
			if (*p == '\\')
				p++;
			else if (*p == '"')
				quoted = 0;
		} else if (*p == '"') {
			quoted = 1;
		} else if (isdigit((unsigned char)*p)) {
			if (big_number(p, end) && (p == begin || p[-1] != '-'))
				return p;
			while (p + 1 < end && isdigit((unsigned char)p[1]))
				p++;
		}
	}
	return NULL;
}

json_t *oci_json_parse(const char *text, size_t n, const char *what, struct err *e)
{
	autobuf struct buf b = BUF_INIT(OCI_DOCUMENT_MAX + 65536);
	const char *end = text + n, *p = text, *big;

	/* said here, as the parser behind it would speak of its own grammar */
	if (n && *text != '{' && !isspace((unsigned char)*text)) {
		err_set(e, ERR_INVALID, "%s is not a JSON object", what);
		return NULL;
	}
	while (p < end && (big = find_big(p, end))) {
		size_t digits = big_number(big, end);

		if (buf_add(&b, p, (size_t)(big - p), e) < 0 ||
		    buf_addf(&b, e, "\"\\u0001u64:%.*s\"", (int)digits, big) < 0)
			return NULL;
		p = big + digits;
	}
	if (p == text)
		return json_parse(text, n, OCI_DOCUMENT_MAX, what, e);
	if (buf_add(&b, p, (size_t)(end - p), e) < 0)
		return NULL;
	return json_parse(b.data, b.len, OCI_DOCUMENT_MAX + 65536, what, e);
}

json_t *oci_json_read(int dirfd, const char *path, struct buf *b, struct err *e)
{
	autoclose int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0) {
		err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open %s", path);
		return NULL;
	}
	if (io_read_all(fd, b, path, e) < 0)
		return NULL;
	return oci_json_parse(b->data ? b->data : "", b->len, path, e);
}

json_t *oci_json_load(int dirfd, const char *path, struct err *e)
{
	autobuf struct buf b = BUF_INIT(OCI_DOCUMENT_MAX);

	return oci_json_read(dirfd, path, &b, e);
}
