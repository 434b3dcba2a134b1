/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fileop/tar.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>


#define BLOCK 512
#define OCTAL_12_MAX 077777777777ULL	/* the most that eleven octal digits can express */
#define OCTAL_8_MAX 07777777U

/* Offsets of the ustar header. */
enum {
	AT_NAME = 0, AT_MODE = 100, AT_UID = 108, AT_GID = 116, AT_SIZE = 124, AT_MTIME = 136, AT_SUM = 148,
	AT_TYPE = 156, AT_LINK = 157, AT_MAGIC = 257, AT_PREFIX = 345,
};

uint64_t tar_padding(uint64_t size)
{
	return (BLOCK - size % BLOCK) % BLOCK;
}

/* ---- writing ------------------------------------------------------------------ */

struct records {
	char text[3 * TAR_NAME_MAX + 1024];
	size_t len;
};

/* The length of "LEN KEY=VALUE\n", where LEN counts itself. */
static size_t record_length(size_t key, size_t value)
{
	size_t body = key + value + 3, total = body + 1, digits;
	char number[24];

	do {
		digits = (size_t)snprintf(number, sizeof(number), "%zu", total);
		total = body + digits;
	} while ((size_t)snprintf(number, sizeof(number), "%zu", total) != digits);
	return total;
}

static void add_pax_record(struct records *r, const char *key, const char *value)
{
	size_t total = record_length(strlen(key), strlen(value));

	r->len += (size_t)snprintf(r->text + r->len, sizeof(r->text) - r->len, "%zu %s=%s\n", total, key, value);
}

static void add_number(struct records *r, const char *key, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
	add_pax_record(r, key, text);
}

/* Extended attributes, as star and GNU tar write them: values of any bytes. */
#define XATTR_KEY "SCHILY.xattr."

static size_t xattr_records_length(const struct xattrs *x)
{
	const char *name, *value;
	size_t at = 0, n, total = 0;

	while (x && xattrs_next(x, &at, &name, &value, &n))
		total += record_length(sizeof(XATTR_KEY) - 1 + strlen(name), n);
	return total;
}

static int put_xattr_records(struct stream *s, const struct xattrs *x, struct err *e)
{
	const char *name, *value;
	size_t at = 0, n;
	char head[400];

	while (x && xattrs_next(x, &at, &name, &value, &n)) {
		snprintf(head, sizeof(head), "%zu " XATTR_KEY "%s=", record_length(sizeof(XATTR_KEY) - 1 + strlen(name), n), name);
		if (stream_write(s, head, strlen(head), e) < 0 || stream_write(s, value, n, e) < 0 || stream_write(s, "\n", 1, e) < 0)
			return -1;
	}
	return 0;
}

static void put_tar_octal(char *at, size_t width, uint64_t v)
{
	char text[32];

	snprintf(text, sizeof(text), "%0*llo", (int)width - 1, (unsigned long long)v);
	memcpy(at, text, width - 1);
}

static int put_entry_header(struct stream *s, char type, const char *path, const char *link, const struct tar_entry *t,
		      uint64_t size, struct err *e)
{
	char h[BLOCK] = { 0 };
	unsigned sum = 0;
	size_t i;

	memcpy(h + AT_NAME, path, strnlen(path, 100));
	memcpy(h + AT_LINK, link, strnlen(link, 100));
	put_tar_octal(h + AT_MODE, 8, t->mode & 07777);
	put_tar_octal(h + AT_UID, 8, t->uid <= OCTAL_8_MAX ? t->uid : 0);
	put_tar_octal(h + AT_GID, 8, t->gid <= OCTAL_8_MAX ? t->gid : 0);
	put_tar_octal(h + AT_SIZE, 12, size <= OCTAL_12_MAX ? size : 0);
	put_tar_octal(h + AT_MTIME, 12, t->mtime_sec >= 0 && (uint64_t)t->mtime_sec <= OCTAL_12_MAX ? (uint64_t)t->mtime_sec : 0);
	h[AT_TYPE] = type;
	memcpy(h + AT_MAGIC, "ustar\00000", 8);
	memset(h + AT_SUM, ' ', 8);
	for (i = 0; i < BLOCK; i++)
		sum += (unsigned char)h[i];
	put_tar_octal(h + AT_SUM, 7, sum);
	h[AT_SUM + 6] = '\0';
	return stream_write(s, h, sizeof(h), e);
}

int tar_pad(struct stream *s, uint64_t size, struct err *e)
{
	return stream_zeros(s, tar_padding(size), e);
}

static void add_mtime(struct records *r, const struct tar_entry *t)
{
	/* sec is floored, nsec counts upwards: -1.25 s is sec -2, nsec 750000000 */
	int64_t sec = t->mtime_sec;
	uint32_t nsec = t->mtime_nsec;
	char text[48];
	int negative = sec < 0;

	if (negative && nsec) {
		sec++;
		nsec = 1000000000 - nsec;
	}
	snprintf(text, sizeof(text), "%s%lld.%09u", negative ? "-" : "", (long long)(negative ? -sec : sec), nsec);
	add_pax_record(r, "mtime", text);
}

int tar_put(struct stream *s, const struct tar_entry *t, struct err *e)
{
	struct records r;
	size_t all;

	r.len = 0;
	if (strlen(t->path) > 100)
		add_pax_record(&r, "path", t->path);
	if (strlen(t->link) > 100)
		add_pax_record(&r, "linkpath", t->link);
	if (t->mtime_nsec || t->mtime_sec < 0 || (uint64_t)t->mtime_sec > OCTAL_12_MAX)
		add_mtime(&r, t);
	if (t->size > OCTAL_12_MAX)
		add_number(&r, "size", t->size);
	if (t->uid > OCTAL_8_MAX)
		add_number(&r, "uid", t->uid);
	if (t->gid > OCTAL_8_MAX)
		add_number(&r, "gid", t->gid);
	if (t->linked)
		add_pax_record(&r, "BERTH.linked", "1");
	if (t->sparse) {
		add_pax_record(&r, "GNU.sparse.major", "1");
		add_pax_record(&r, "GNU.sparse.minor", "0");
		add_pax_record(&r, "GNU.sparse.name", t->path);
		add_number(&r, "GNU.sparse.realsize", t->real_size);
	}
	all = r.len + xattr_records_length(t->xattrs);
	if (all && (put_entry_header(s, 'x', "PaxHeaders/x", "", &(struct tar_entry){ .mode = 0644 }, all, e) < 0 ||
		    stream_write(s, r.text, r.len, e) < 0 || put_xattr_records(s, t->xattrs, e) < 0 || tar_pad(s, all, e) < 0))
		return -1;
	return put_entry_header(s, t->type, t->path, t->link, t, t->size, e);
}

int tar_finish(struct stream *s, struct err *e)
{
	return stream_zeros(s, 2 * BLOCK, e) < 0 ? -1 : stream_flush(s, e);
}

/* ---- reading ------------------------------------------------------------------ */

static int malformed(struct err *e, const char *what)
{
	return err_set(e, ERR_CORRUPT, "no tar archive, or a damaged one: %s", what);
}

/* Octal digits, or base 256 when the first byte's top bit is set (GNU). */
static int parse_tar_number(const char *at, size_t width, uint64_t *ret, struct err *e)
{
	uint64_t v = 0;
	size_t i = 0;

	if ((unsigned char)at[0] == 0x80) {
		for (i = 1; i < width; i++) {
			if (v >> 55)
				return malformed(e, "a number is too large");
			v = v << 8 | (unsigned char)at[i];
		}
		*ret = v;
		return 0;
	}
	while (i < width && at[i] == ' ')
		i++;
	for (; i < width && at[i] >= '0' && at[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(at[i] - '0');
	if (i < width && at[i] && at[i] != ' ')
		return malformed(e, "a number is not octal");
	*ret = v;
	return 0;
}

static int checksum_holds(const char *h)
{
	struct err ignored;
	uint64_t want;
	unsigned sum = 0, i;

	for (i = 0; i < BLOCK; i++)
		sum += i >= AT_SUM && i < AT_SUM + 8 ? ' ' : (unsigned char)h[i];
	return !parse_tar_number(h + AT_SUM, 8, &want, &ignored) && want == sum;
}

static int decimal(const char *s, uint64_t *ret, struct err *e)
{
	char *end;

	if (s[0] < '0' || s[0] > '9' || strlen(s) > 19)
		return malformed(e, "a pax number");
	*ret = strtoull(s, &end, 10);
	return *end || *ret > INT64_MAX ? malformed(e, "a pax number") : 0;
}

static int read_mtime(const char *s, struct tar_entry *t, struct err *e)
{
	int negative = *s == '-';
	char whole[24];
	size_t n = strcspn(s + negative, ".");
	uint64_t sec, nsec = 0, unit = 100000000;
	const char *p = s + negative + n;

	if (n >= sizeof(whole))
		return malformed(e, "a pax time");
	memcpy(whole, s + negative, n);
	whole[n] = '\0';
	if (decimal(whole, &sec, e) < 0)
		return -1;
	for (p += *p == '.'; *p >= '0' && *p <= '9'; p++, unit /= 10)
		nsec += (uint64_t)(*p - '0') * unit;
	t->mtime_sec = negative ? -(int64_t)sec : (int64_t)sec;
	if (negative && nsec) {
		t->mtime_sec--;
		nsec = 1000000000 - nsec;
	}
	t->mtime_nsec = (uint32_t)nsec;
	return 0;
}

/* The values of the header that a pax record has replaced. */
enum { HAVE_PATH = 1, HAVE_LINK = 2, HAVE_SIZE = 4, HAVE_MTIME = 8, HAVE_UID = 16, HAVE_GID = 32, HAVE_REAL = 64 };

static int take_pax_text(char *to, const char *value, struct err *e)
{
	if (strlen(value) > TAR_NAME_MAX)
		return malformed(e, "a name is too long");
	strcpy(to, value);
	return 0;
}

static int take_record(const char *key, const char *value, size_t n, struct tar_entry *t, unsigned *have, struct err *e)
{
	const size_t skip = sizeof(XATTR_KEY) - 1;
	uint64_t v;

	if (!strncmp(key, XATTR_KEY, skip))
		return t->xattrs && (xattrs_is_kept(key + skip) || xattrs_is_acl(key + skip)) && strlen(key + skip) < 256 ?
			xattrs_add(t->xattrs, key + skip, value, n, e) : 0;
	if (!strcmp(key, "path") && !t->sparse) {
		*have |= HAVE_PATH;
		return take_pax_text(t->path, value, e);
	}
	if (!strcmp(key, "GNU.sparse.name")) {
		*have |= HAVE_PATH;
		return take_pax_text(t->path, value, e);
	}
	if (!strcmp(key, "linkpath")) {
		*have |= HAVE_LINK;
		return take_pax_text(t->link, value, e);
	}
	if (!strcmp(key, "mtime")) {
		*have |= HAVE_MTIME;
		return read_mtime(value, t, e);
	}
	if (!strcmp(key, "BERTH.linked")) {
		t->linked = 1;
		return 0;
	}
	if (!strcmp(key, "GNU.sparse.major"))
		t->sparse = !strcmp(value, "1");
	if (!strncmp(key, "GNU.sparse.", 11) && !t->sparse)
		return err_set(e, ERR_UNSUPPORTED, "the archive has sparse files of an old format; hint: tar --sparse-version=1.0");
	if (strcmp(key, "size") && strcmp(key, "uid") && strcmp(key, "gid") && strcmp(key, "GNU.sparse.realsize"))
		return 0;
	if (decimal(value, &v, e) < 0)
		return -1;
	if (key[0] == 's') {
		*have |= HAVE_SIZE;
		t->size = v;
	} else if (key[0] == 'u') {
		*have |= HAVE_UID;
		t->uid = (uint32_t)v;
	} else if (key[0] == 'g') {
		*have |= HAVE_GID;
		t->gid = (uint32_t)v;
	} else {
		*have |= HAVE_REAL;
		t->real_size = v;
	}
	return 0;
}

/* text is NUL-terminated at text[n]; it is cut up. */
static int take_pax_records(char *text, size_t n, struct tar_entry *t, unsigned *have, struct err *e)
{
	char *p = text, *end = text + n, *key, *eq;
	unsigned long len;

	while (p < end) {
		len = strtoul(p, &key, 10);
		if (*p < '1' || *p > '9' || *key != ' ' || len > (size_t)(end - p) || len < 5 || p[len - 1] != '\n' ||
		    key >= p + len)
			return malformed(e, "a pax record");
		p[len - 1] = '\0';
		eq = memchr(key, '=', (size_t)(p + len - 1 - key));
		/* a NUL in a name would cut it short: another path than the one that was checked */
		if (!eq)
			return malformed(e, "a pax record");
		*eq = '\0';
		if ((!strcmp(key + 1, "path") || !strcmp(key + 1, "linkpath") || !strcmp(key + 1, "GNU.sparse.name")) &&
		    strlen(eq + 1) != (size_t)(p + len - 1 - (eq + 1)))
			return malformed(e, "a NUL in a name");
		if (take_record(key + 1, eq + 1, (size_t)(p + len - 1 - (eq + 1)), t, have, e) < 0)
			return -1;
		p += len;
	}
	return 0;
}

static int read_extension(struct stream *s, char type, uint64_t size, struct tar_entry *t, unsigned *have, struct err *e)
{
	char *text;
	int r;

	if (size > TAR_PAX_MAX)
		return malformed(e, "an extended header is too long");
	text = malloc((size_t)size + 1);
	if (!text)
		return err_nomem(e);
	r = stream_read(s, text, (size_t)size, e) < 0 || stream_skip(s, tar_padding(size), e) < 0 ? -1 : 0;
	text[size] = '\0';
	if (r == 0 && type == 'x')
		r = take_pax_records(text, (size_t)size, t, have, e);
	else if (r == 0 && type != 'g') {
		*have |= type == 'L' ? HAVE_PATH : HAVE_LINK;
		r = take_pax_text(type == 'L' ? t->path : t->link, text, e);
	}
	free(text);
	return r;
}

static int take_tar_header(const char *h, struct tar_entry *t, unsigned have, struct err *e)
{
	uint64_t mode, uid, gid, size, mtime;

	if (parse_tar_number(h + AT_MODE, 8, &mode, e) < 0 || parse_tar_number(h + AT_UID, 8, &uid, e) < 0 || parse_tar_number(h + AT_GID, 8, &gid, e) < 0 ||
	    parse_tar_number(h + AT_SIZE, 12, &size, e) < 0)
		return -1;
	if ((unsigned char)h[AT_MTIME] == 0xff)
		mtime = 0;	/* GNU's negative times */
	else if (parse_tar_number(h + AT_MTIME, 12, &mtime, e) < 0)
		return -1;
	t->mode = (uint32_t)mode & 07777;
	if (!(have & HAVE_UID))
		t->uid = (uint32_t)uid;
	if (!(have & HAVE_GID))
		t->gid = (uint32_t)gid;
	if (!(have & HAVE_SIZE))
		t->size = size;
	if (!(have & HAVE_MTIME))
		t->mtime_sec = (int64_t)mtime;
	if (!(have & HAVE_PATH)) {
		int prefixed = !memcmp(h + AT_MAGIC, "ustar", 6) && h[AT_PREFIX];

		snprintf(t->path, sizeof(t->path), "%.*s%s%.100s", 155, prefixed ? h + AT_PREFIX : "", prefixed ? "/" : "", h);
	}
	if (!(have & HAVE_LINK))
		snprintf(t->link, sizeof(t->link), "%.100s", h + AT_LINK);
	if (t->size > INT64_MAX || (t->sparse && !(have & HAVE_REAL)))
		return malformed(e, "a size");
	if (!t->sparse)
		t->real_size = t->size;
	return 0;
}

int tar_get(struct stream *s, struct tar_entry *t, struct err *e)
{
	static const char zeros[BLOCK];
	char h[BLOCK];
	struct xattrs *xattrs = t->xattrs;
	unsigned have = 0;
	uint64_t size;

	memset(t, 0, sizeof(*t));
	t->xattrs = xattrs;
	if (xattrs)
		xattrs->len = 0;
	for (;;) {
		if (stream_read(s, h, sizeof(h), e) < 0)
			return -1;
		if (!memcmp(h, zeros, sizeof(h)))
			return have ? malformed(e, "it ends after an extended header") : 0;
		if (!checksum_holds(h))
			return malformed(e, "the checksum of a header is wrong");
		t->type = h[AT_TYPE] ? h[AT_TYPE] : '0';
		if (!strchr("xgLK", t->type))
			break;
		if (parse_tar_number(h + AT_SIZE, 12, &size, e) < 0 || read_extension(s, t->type, size, t, &have, e) < 0)
			return -1;
	}
	if (t->type == 'S')
		return err_set(e, ERR_UNSUPPORTED, "the archive has sparse files of an old format; hint: tar --format=pax");
	if (take_tar_header(h, t, have, e) < 0)
		return -1;
	if (t->type == '7')
		t->type = '0';
	/* in archives from before POSIX, a name that ends in a slash is a directory */
	if (t->type == '0' && t->path[0] && t->path[strlen(t->path) - 1] == '/')
		t->type = '5';
	return 1;
}

/* ---- extended attributes ---- */

#define LIST_MAX 65536

int xattrs_is_kept(const char *name)
{
	return !strncmp(name, "user.", 5) && name[5] && !strchr(name, '=') && strncmp(name, "user.overlay.", 13);
}

int xattrs_is_acl(const char *name)
{
	return !strcmp(name, "system.posix_acl_access") || !strcmp(name, "system.posix_acl_default");
}

int xattrs_add(struct xattrs *x, const char *name, const void *value, size_t n, struct err *e)
{
	size_t len = strlen(name) + 1;
	uint32_t size = (uint32_t)n;

	if (n > XATTRS_MAX || len + sizeof(size) + n > XATTRS_MAX - x->len)
		return err_set(e, ERR_LIMIT, "extended attributes of more than %d bytes", XATTRS_MAX);
	memcpy(x->data + x->len, name, len);
	memcpy(x->data + x->len + len, &size, sizeof(size));
	memcpy(x->data + x->len + len + sizeof(size), value, n);
	x->len += len + sizeof(size) + n;
	return 0;
}

int xattrs_next(const struct xattrs *x, size_t *at, const char **ret_name, const char **ret_value, size_t *ret_n)
{
	uint32_t size;

	if (*at >= x->len)
		return 0;
	*ret_name = x->data + *at;
	*at += strlen(*ret_name) + 1;
	memcpy(&size, x->data + *at, sizeof(size));
	*at += sizeof(size);
	*ret_value = x->data + *at;
	*ret_n = size;
	*at += size;
	return 1;
}

int xattrs_read(struct xattrs *x, int fd, int acls, struct err *e)
{
	static char list[LIST_MAX], value[XATTRS_MAX];
	ssize_t n = flistxattr(fd, list, sizeof(list)), got;
	const char *name;

	x->len = 0;
	if (n < 0)
		return errno == EOPNOTSUPP || errno == ENOSYS || errno == EPERM ? 0 : err_sys(e, "list extended attributes");
	for (name = list; name < list + n; name += strlen(name) + 1) {
		if (!xattrs_is_kept(name) && !(acls && xattrs_is_acl(name)))
			continue;
		got = fgetxattr(fd, name, value, sizeof(value));
		if (got < 0 && errno == ENODATA)
			continue;	/* it went away meanwhile */
		if (got < 0)
			return err_sys(e, "read the extended attribute %.80s", name);
		if (xattrs_add(x, name, value, (size_t)got, e) < 0)
			return -1;
	}
	return 0;
}

int xattrs_write(const struct xattrs *x, int fd, int acls, struct err *e)
{
	const char *name, *value;
	size_t at = 0, n;

	while (xattrs_next(x, &at, &name, &value, &n))
		if ((acls || !xattrs_is_acl(name)) && fsetxattr(fd, name, value, n, 0) < 0 && errno != EOPNOTSUPP)
			return err_sys(e, "set the extended attribute %.80s", name);
	return 0;
}
