/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/e2b.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/encoding.h"
#include "base/mem.h"
#include "manager/api/estream.h"
#include "manager/keeper/protocol.h"

#define FILE_MS 60000

/* ---- errors ----------------------------------------------------------------------------- */

static int e2b_status_of(const struct err *e)
{
	return e->code == ERR_NOT_FOUND   ? 404 :
	       e->code == ERR_DENIED      ? 403 :
	       e->code == ERR_EXISTS      ? 409 :
	       e->code == ERR_BUSY        ? 409 :
	       e->code == ERR_LIMIT       ? 429 :
	       e->code == ERR_INVALID     ? 400 :
	       e->code == ERR_UNSUPPORTED ? 501 :
					    500;
}

json_t *e2b_error(const struct err *e)
{
	return json_pack("{s:i,s:s}", "code", e2b_status_of(e), "message", e->msg);
}

json_t *e2b_connect_error(const struct err *e)
{
	return json_pack("{s:s,s:s}", "code", estream_connect_code(e), "message", e->msg);
}

/* ---- which sandbox ------------------------------------------------------------------------ */

/* The sandbox's id, from a header field or from the client's key: 1, or 0 if neither has it. */
static int sandbox_of(struct http_request *rq, char ret[65])
{
	const char *id = http_header(rq, "E2b-Sandbox-Id");
	size_t n;

	if (!id)
		id = http_header(rq, "X-Access-Token");
	if (!id && http_who(rq)->only[0])
		id = http_who(rq)->only;
	if (!id)
		return 0;
	n = strcspn(id, E2B_TOKEN_MARK);
	if (!n || n > 64)
		return 0;
	memcpy(ret, id, n);
	ret[n] = '\0';
	return 1;
}

int e2b_connect(struct box *b, struct http_request *rq, struct err *e)
{
	char id[65];

	if (!sandbox_of(rq, id)) {
		box_init(b, rq);
		return err_set(e, ERR_INVALID,
			       "the field E2b-Sandbox-Id is missing; hint: E2B_SANDBOX_URL is the "
			       "address of berthd");
	}
	if (box_connect_ref(b, rq, id, e) == 0)
		return 0;
	if (e->code == ERR_NOT_FOUND || e->code == ERR_BUSY)
		http_error_status(rq, 502);
	return -1;
}

int e2b_is_health(struct http_request *rq)
{
	char ignored[65];

	return sandbox_of(rq, ignored);
}

int e2b_health(struct http_request *rq, struct err *e)
{
	autojson json_t *ping = protocol_request(OP_ping), *live = NULL;
	struct box b;
	int r = e2b_connect(&b, rq, e);

	if (r == 0)
		live = box_call(&b, ping, NULL, 0, NULL, e);
	box_close(&b);
	/* as E2B's proxy says of one that is paused, too */
	if (r == 0 && e2b_is_paused(live)) {
		http_error_status(rq, 502);
		r = live ? err_set(e, ERR_BUSY, "the sandbox is paused") : -1;
	}
	return r < 0 ? -1 : http_reply_empty(rq, 204, e);
}

/* ---- who ------------------------------------------------------------------------------------ */

static int take_e2b_user_name(const char *name, size_t n, struct e2b_user *ret, struct err *e)
{
	if (n > 64 || memchr(name, '\0', n) || memchr(name, '|', n))
		return err_set(e, ERR_INVALID, "the user's name is too long or malformed");
	if (!n || (n == 4 && !memcmp(name, "user", n)))
		snprintf(ret->name, sizeof(ret->name), E2B_USER);
	else if (n == 4 && !memcmp(name, "root", n))
		snprintf(ret->name, sizeof(ret->name), E2B_ROOT);
	else
		snprintf(ret->name, sizeof(ret->name), "%.*s", (int)n, name);
	return 0;
}

int e2b_user_of(struct http_request *rq, const char *named, struct e2b_user *ret, struct err *e)
{
	static const char scheme[] = "Basic ";
	const char *auth = http_header(rq, "Authorization");
	char text[256];
	size_t n = 0;

	if (named)
		return take_e2b_user_name(named, strlen(named), ret, e);
	if (!auth || strncasecmp(auth, scheme, sizeof(scheme) - 1))
		return take_e2b_user_name("", 0, ret, e);
	auth += sizeof(scheme) - 1;
	if (strlen(auth) > 128 || base64_decode(text, &n, auth, strlen(auth)) < 0)
		return err_set(e, ERR_INVALID, "the field Authorization is malformed");
	text[n] = '\0';
	return take_e2b_user_name(text, strcspn(text, ":"), ret, e);
}

int e2b_user_retry(struct e2b_user *u, const struct err *e)
{
	if (strcmp(u->name, E2B_USER) || e->code != ERR_NOT_FOUND ||
	    !strstr(e->msg, "is not in the sandbox's /etc/passwd"))
		return 0;
	snprintf(u->name, sizeof(u->name), E2B_ROOT);
	return 1;
}

void e2b_judge_cwd(struct err *e)
{
	if (e->code == ERR_SYS && !strncmp(e->msg, "enter working directory", 23))
		e->code = ERR_INVALID;
}

int e2b_place(struct box *b, struct accounts *a, const struct e2b_user *u, const char *path,
	      char ret[4096], struct err *e)
{
	char home[1024];

	if (path[0] == '/') {
		if (snprintf(ret, 4096, "%s", path) < 4096)
			return 0;
		return err_set(e, ERR_INVALID, "the path is too long");
	}
	if (path[0] == '~' && (!path[1] || path[1] == '/'))
		path += path[1] ? 2 : 1;
	if (accounts_home(a, b->sock, u->name, home, e) < 0)
		return -1;
	if (snprintf(ret, 4096, "%s%s%s", strcmp(home, "/") || !path[0] ? home : "",
		     path[0] ? "/" : "", path) < 4096)
		return 0;
	return err_set(e, ERR_INVALID, "the path is too long");
}

/* ---- files ----------------------------------------------------------------------------------- */

int e2b_file(struct box *b, struct e2b_user *u, const char *const *argv, struct buf *out,
	     struct err *e)
{
	struct filecounts ignored;
	int r;

	do
		r = fileclient_run(b->sock, argv, u->name, FILE_MS, -1, out,
				   &ignored, e);
	while (r < 0 && e2b_user_retry(u, e));
	return r;
}

/*
 * As envd, a link has the type of what it leads to. One that leads nowhere is FILE_TYPE_SYMLINK, as a
 * number: SDKs that have no such name take no unknown name, but any number.
 */
static json_t *e2b_file_type(const struct filerecord *r)
{
	unsigned mode = S_ISLNK(r->mode) ? r->target : r->mode;

	if (!mode)
		return json_integer(3);
	return json_string(S_ISDIR(mode) ? "FILE_TYPE_DIRECTORY" :
			   S_ISREG(mode) ? "FILE_TYPE_FILE" :
					   "FILE_TYPE_UNSPECIFIED");
}

void e2b_mode_text(unsigned mode, char ret[11])
{
	int i;

	snprintf(ret, 11, "%c---------", S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'L' : '-');
	for (i = 0; i < 9; i++)
		if (mode & 1u << (8 - i))
			ret[i + 1] = "rwx"[i % 3];
}

/* What a link at an absolute path leads to, as an absolute path.  Nothing is looked up. */
static json_t *target_of(const char *path, const char *link)
{
	const char *slash = strrchr(path, '/');
	size_t n = slash ? (size_t)(slash - path) : 0;
	int up;

	if (link[0] == '/' || !slash)
		return json_string(link);
	while ((up = !strncmp(link, "../", 3)) || !strncmp(link, "./", 2)) {
		link += 2 + up;
		while (up && n && path[--n] != '/')
			;
	}
	return json_sprintf("%.*s/%s", (int)n, path, link);
}

/* "NAME=VALUE" a line, as the file helper tells a file's metadata. */
static json_t *metadata_in(const char *text)
{
	json_t *j = json_object();
	const char *equals, *nl;

	for (; (equals = strchr(text, '=')) && (nl = strchr(equals, '\n')); text = nl + 1)
		json_object_setn_new_nocheck(j, text, (size_t)(equals - text),
					     json_stringn(equals + 1, (size_t)(nl - equals - 1)));
	return j;
}

json_t *e2b_entry_of(const struct accounts *a, const char *path, const struct filerecord *r)
{
	const char *slash = strrchr(path, '/'), *name = slash && slash[1] ? slash + 1 : path;
	char permissions[11], size[24], owner[65], group[65], when[64] = "";
	time_t t = (time_t)r->mtime_sec;
	struct tm tm;
	json_t *j;

	e2b_mode_text(r->mode, permissions);
	accounts_owner(a, r->uid, owner);
	accounts_group(a, r->gid, group);
	snprintf(size, sizeof(size), "%llu", (unsigned long long)r->size);
	if (gmtime_r(&t, &tm))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	j = json_pack("{s:s,s:o,s:s,s:s,s:i,s:s,s:s,s:s,s:s}", "name", name, "type",
		      e2b_file_type(r), "path", path, "size", size, "mode", (int)(r->mode & 07777),
		      "permissions", permissions, "owner", owner, "group", group, "modifiedTime",
		      when);
	if (j && S_ISLNK(r->mode) && r->link[0])
		json_object_set_new(j, "symlinkTarget", target_of(path, r->link));
	else if (j && r->link[0])
		json_object_set_new(j, "metadata", metadata_in(r->link));
	return j;
}

json_t *e2b_entry(struct box *b, struct accounts *a, struct e2b_user *u, const char *path,
		  struct err *e)
{
	const char *argv[] = { "stat", "m", path, NULL }, *at;
	autobuf struct buf text = BUF_INIT(1 << 16);
	struct filerecord r;
	json_t *j;

	if (e2b_file(b, u, argv, &text, e) < 0)
		return NULL;
	at = text.data;
	if (filerecord_next(&at, text.data + text.len, &r, e) < 1) {
		err_set(e, ERR_CORRUPT, "the file helper's answer is malformed");
		return NULL;
	}
	if (r.uid || r.gid)
		accounts_read(a, b->sock);
	j = e2b_entry_of(a, path, &r);
	if (!j)
		err_set(e, ERR_INVALID, "the path is not UTF-8");
	return j;
}
