/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/e2b.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "manager/keeper/fileclient.h"

#define TEXT_MAX (1u << 20)
#define READ_LIMIT "1048575" /* one less, for the NUL */
#define FILE_MS 60000

void accounts_init(struct accounts *a)
{
	*a = (struct accounts){ .passwd = BUF_INIT(TEXT_MAX), .group = BUF_INIT(TEXT_MAX) };
}

void accounts_release(struct accounts *a)
{
	buf_release(&a->passwd);
	buf_release(&a->group);
}

/* A file that is missing, too long or not a regular one has no accounts. */
static const char *read_account_file(struct buf *b, int *has, int sock, const char *path)
{
	const char *argv[] = { "read", READ_LIMIT, path, NULL };
	struct filecounts ignored;
	struct err e;

	if (!*has && fileclient_run(sock, argv, NULL, FILE_MS, -1, b, &ignored, &e) < 0)
		b->len = 0;
	*has = 1;
	return b->len && buf_add(b, "", 1, &e) == 0 ? b->len--, b->data : "";
}

/* ---- lines of NAME:PASSWORD:ID:... -------------------------------------------------------- */

/* The field of that index in a line, and its length. */
static const char *account_field(const char *line, unsigned index, size_t *ret_n)
{
	while (index && (line = strpbrk(line, ":\n")) && *line == ':') {
		line++;
		index--;
	}
	if (!line || index)
		return NULL;
	*ret_n = strcspn(line, ":\n");
	return line;
}

static const char *next_account_line(const char *line)
{
	const char *nl = strchr(line, '\n');

	return nl ? nl + 1 : NULL;
}

static int account_has_id(const char *line, unsigned id)
{
	char text[16];
	size_t n;
	const char *f = account_field(line, 2, &n);

	snprintf(text, sizeof(text), "%u", id);
	return f && n == strlen(text) && !memcmp(f, text, n);
}

static int is_printable(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if ((unsigned char)s[i] < ' ' || s[i] == 0x7f)
			return 0;
	return n > 0;
}

int accounts_name(const char *text, unsigned id, char ret[65])
{
	const char *line, *name;
	size_t n;

	for (line = text; line && *line; line = next_account_line(line)) {
		name = account_field(line, 0, &n);
		if (*line == '#' || !account_has_id(line, id) || n > 64 || !is_printable(name, n))
			continue;
		snprintf(ret, 65, "%.*s", (int)n, name);
		return 1;
	}
	return 0;
}

int accounts_find(const char *passwd, const char *name, size_t n, char ret_home[1024])
{
	const int is_number = n > 0 && strspn(name, "0123456789") >= n;
	const char *line, *f, *home;
	size_t got, len;

	for (line = n ? passwd : NULL; line && *line; line = next_account_line(line)) {
		f = account_field(line, is_number ? 2 : 0, &got);
		if (*line == '#' || !f || got != n || memcmp(f, name, n))
			continue;
		home = account_field(line, 5, &len);
		if (!home || len >= 1024 || home[0] != '/' || !is_printable(home, len))
			snprintf(ret_home, 1024, "%s", account_has_id(line, 0) ? "/root" : "/");
		else
			snprintf(ret_home, 1024, "%.*s", (int)len, home);
		return 1;
	}
	return 0;
}

/* ---- of a sandbox ------------------------------------------------------------------------ */

void accounts_read(struct accounts *a, int sock)
{
	read_account_file(&a->passwd, &a->has_passwd, sock, "/etc/passwd");
	read_account_file(&a->group, &a->has_group, sock, "/etc/group");
}

int accounts_home(struct accounts *a, int sock, const char *user, char ret[1024], struct err *e)
{
	const char *passwd = read_account_file(&a->passwd, &a->has_passwd, sock, "/etc/passwd");
	const char *bar = strchr(user, '|');

	if (bar && accounts_find(passwd, user, (size_t)(bar - user), ret))
		return 0;
	user = bar ? bar + 1 : user;
	if (accounts_find(passwd, user, strcspn(user, ":"), ret))
		return 0;
	if (user[0] && strspn(user, "0123456789") < strcspn(user, ":"))
		return err_set(e, ERR_NOT_FOUND, "user '%.64s' is not in the sandbox's /etc/passwd",
			       user);
	snprintf(ret, 1024, "%s", !user[0] || !strcmp(user, "0") ? "/root" : "/");
	return 0;
}

static void name_account(const char *text, unsigned id, char ret[65])
{
	if (!accounts_name(text, id, ret))
		snprintf(ret, 65, id ? "%u" : "root", id);
}

void accounts_owner(const struct accounts *a, unsigned uid, char ret[65])
{
	name_account(a->passwd.len ? a->passwd.data : "", uid, ret);
}

void accounts_group(const struct accounts *a, unsigned gid, char ret[65])
{
	name_account(a->group.len ? a->group.data : "", gid, ret);
}
