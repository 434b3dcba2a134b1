/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/init/user.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (1u << 20)
#define LINE_MAX_BYTES 4096
#define FIELDS_MAX 7

/* Parses one to five digits, 0..USER_ID_MAX; leading zeros are allowed. */
static int parse_id(const char *s, size_t n, uint32_t *ret)
{
	uint32_t v = 0;
	size_t i;

	if (!n || n > 5)
		return -1;
	for (i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -1;
		v = v * 10 + (uint32_t)(s[i] - '0');
	}
	if (v > USER_ID_MAX)
		return -1;
	*ret = v;
	return 0;
}

static int all_digits(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (s[i] < '0' || s[i] > '9')
			return 0;
	return n > 0;
}

static int name_ok(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c <= ' ' || c == 0x7f || c == ':' || c == '/')
			return 0;
	}
	return n > 0 && n < 64 && s[0] != '-' && s[0] != '+';
}

struct field {
	const char *s;
	size_t n;
};

/* Splits the line at *p at ':'; moves *p behind it.  Returns the number of fields, 0 for a line to skip, -1 at the end. */
static int next_passwd_line(const char **p, struct field f[FIELDS_MAX])
{
	const char *line = *p, *end;
	int n = 0;

	if (!*line)
		return -1;
	end = strchr(line, '\n');
	if (!end)
		end = line + strlen(line);
	*p = *end ? end + 1 : end;
	if (end - line > LINE_MAX_BYTES || *line == '#')
		return 0;
	while (n < FIELDS_MAX) {
		const char *colon = memchr(line, ':', (size_t)(end - line));

		f[n].s = line;
		f[n].n = (size_t)((colon ? colon : end) - line);
		n++;
		if (!colon)
			break;
		line = colon + 1;
	}
	return n;
}

static int field_is(const struct field *f, const char *s, size_t n)
{
	return f->n == n && !memcmp(f->s, s, n);
}

/*
 * Checks a value for HOME: absolute, and without bytes that a terminal or a line-based reader would
 * act on.
 */
static int home_ok(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if ((unsigned char)s[i] < ' ' || s[i] == 0x7f)
			return 0;
	return n > 0 && s[0] == '/';
}

/* Finds by name (by_uid NULL) or by uid; fills uid, gid, name, home. */
static int find_passwd(const char *text, const char *name, size_t n, const uint32_t *by_uid, struct user *u)
{
	struct field f[FIELDS_MAX];
	int got;

	while (text && (got = next_passwd_line(&text, f)) >= 0) {
		uint32_t uid, gid;

		if (got < 4 || parse_id(f[2].s, f[2].n, &uid) < 0 || parse_id(f[3].s, f[3].n, &gid) < 0)
			continue;
		if (by_uid ? uid != *by_uid : !field_is(&f[0], name, n))
			continue;
		u->uid = uid;
		u->gid = gid;
		if (name_ok(f[0].s, f[0].n))
			snprintf(u->name, sizeof(u->name), "%.*s", (int)f[0].n, f[0].s);
		if (got >= 6 && f[5].n < sizeof(u->home) && home_ok(f[5].s, f[5].n))
			snprintf(u->home, sizeof(u->home), "%.*s", (int)f[5].n, f[5].s);
		return 1;
	}
	return 0;
}

static int find_group(const char *text, const char *name, size_t n, uint32_t *ret_gid)
{
	struct field f[FIELDS_MAX];
	int got;

	while (text && (got = next_passwd_line(&text, f)) >= 0)
		if (got >= 3 && field_is(&f[0], name, n) && !parse_id(f[2].s, f[2].n, ret_gid))
			return 1;
	return 0;
}

static int lists_member(const struct field *f, const char *name)
{
	const char *p = f->s, *end = f->s + f->n;
	size_t n = strlen(name);

	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		const char *stop = comma ? comma : end;

		if ((size_t)(stop - p) == n && !memcmp(p, name, n))
			return 1;
		p = stop + 1;
	}
	return 0;
}

static void add_groups(const char *text, struct user *u)
{
	struct field f[FIELDS_MAX];
	int got;

	while (text && u->name[0] && (got = next_passwd_line(&text, f)) >= 0) {
		uint32_t gid;

		if (got >= 4 && u->group_count < USER_GROUPS_MAX && lists_member(&f[3], u->name) &&
		    !parse_id(f[2].s, f[2].n, &gid) && gid != u->gid)
			u->groups[u->group_count++] = gid;
	}
}

/* Parses a number, or looks a name up in the file. */
static int read_group(const char *s, size_t n, const char *group, uint32_t *ret_gid, struct err *e)
{
	const int digits = all_digits(s, n);

	if (digits ? parse_id(s, n, ret_gid) < 0 : !name_ok(s, n))
		return err_set(e, ERR_INVALID, "group '%.*s' is malformed or out of range; hint: 0 to %u, or a name",
			       (int)(n > 80 ? 80 : n), s, USER_ID_MAX);
	if (!digits && !find_group(group, s, n, ret_gid))
		return err_set(e, ERR_NOT_FOUND, "group '%.*s' is not in the sandbox's /etc/group", (int)(n > 80 ? 80 : n), s);
	return 0;
}

/* Adds the groups of ",GROUP,GROUP". */
static int add_named(const char *s, const char *group, struct user *u, struct err *e)
{
	while (*s) {
		size_t n;
		uint32_t gid;
		int i = 0;

		s++;
		n = strcspn(s, ",");
		if (read_group(s, n, group, &gid, e) < 0)
			return -1;
		while (i < u->group_count && u->groups[i] != gid)
			i++;
		if (i == USER_GROUPS_MAX)
			return err_set(e, ERR_INVALID, "more than %d supplementary groups", USER_GROUPS_MAX);
		if (i == u->group_count)
			u->groups[u->group_count++] = gid;
		s += n;
	}
	return 0;
}

/* Chooses from NAME|OTHER: NAME if passwd has it, else OTHER. */
static const char *choose_known_user(const char *s, const char *passwd)
{
	const char *bar = strchr(s, '|');
	struct user ignored = { 0 };

	if (!bar || bar == s || !bar[1] || find_passwd(passwd, s, (size_t)(bar - s), NULL, &ignored))
		return s;
	return bar + 1;
}

/* The words that clients of Docker look for. */
static int user_out_of_range(const char *s, struct err *e)
{
	return err_set(e, ERR_INVALID, "user '%.80s' is out of range: uids and gids must be in range 0-%u", s, USER_ID_MAX);
}

int user_lookup_in(const char *wanted, const char *passwd, const char *group, struct user *ret, struct err *e)
{
	const char *s = choose_known_user(wanted, passwd);
	const size_t whole = strcspn(s, ",|");
	const char *colon = memchr(s, ':', whole);
	size_t n = colon ? (size_t)(colon - s) : whole;
	struct user u = { 0 };
	uint32_t id;

	if (*s == '|')
		return err_set(e, ERR_INVALID, "user '%.80s' is malformed; hint: a name before the bar", wanted);
	if (!whole) {
		id = 0;
		find_passwd(passwd, NULL, 0, &id, &u);
	} else if (all_digits(s, n)) {
		if (parse_id(s, n, &id) < 0)
			return user_out_of_range(s, e);
		u.uid = id;
		find_passwd(passwd, NULL, 0, &id, &u);
	} else {
		if (s[0] == '-' && n > 1 && all_digits(s + 1, n - 1))
			return user_out_of_range(s, e);
		if (!name_ok(s, n))
			return err_set(e, ERR_INVALID, "user '%.80s' is malformed; hint: UID, NAME, UID:GID or NAME:GROUP, and "
				       "further groups behind commas", s);
		if (!find_passwd(passwd, s, n, NULL, &u))
			return err_set(e, ERR_NOT_FOUND, "user '%.*s' is not in the sandbox's /etc/passwd; "
				       "hint: a number needs no entry", (int)(n > 80 ? 80 : n), s);
	}
	if (!colon)	/* as everywhere: USER:GROUP is in that group only */
		add_groups(group, &u);
	if (colon && read_group(colon + 1, whole - n - 1, group, &u.gid, e) < 0)
		return -1;
	if (s[whole] == ',' && add_named(s + whole, group, &u, e) < 0)
		return -1;
	*ret = u;
	return 0;
}

/* Reads a file; NULL if it is no regular file within bounds, or has a NUL. */
static const char *read_small(const char *path, char *buf)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	size_t len = 0;
	ssize_t r = -1;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size <= FILE_MAX)
		while ((r = read(fd, buf + len, FILE_MAX + 1 - len)) > 0)
			len += (size_t)r;
	close(fd);
	if (r != 0 || len > FILE_MAX)	/* it may have grown since fstat */
		return NULL;
	buf[len] = '\0';
	return strlen(buf) == len ? buf : NULL;
}

int user_lookup(const char *s, struct user *ret, struct err *e)
{
	static char passwd[FILE_MAX + 1], group[FILE_MAX + 1];

	return user_lookup_in(s, read_small("/etc/passwd", passwd), read_small("/etc/group", group), ret, e);
}
