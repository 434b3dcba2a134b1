/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/registry/credential.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "rootfs/registry/credhelper.h"

static void wipe(char **s)
{
	if (*s)
		explicit_bzero(*s, strlen(*s));
	free(*s);
	*s = NULL;
}

void credential_release(struct credential *c)
{
	wipe(&c->user);
	wipe(&c->password);
	wipe(&c->identity_token);
}

/* Printable and no more: user names and passwords travel in headers and URLs. */
static int text_ok(const char *s)
{
	size_t n = 0;

	for (; s[n]; n++)
		if ((unsigned char)s[n] < 0x20 || s[n] == 0x7f)
			return 0;
	return n <= CREDENTIAL_SECRET_MAX;
}

int credential_check(const struct credential *c, const char *what, struct err *e)
{
	if ((c->user && !text_ok(c->user)) || (c->password && !text_ok(c->password)) ||
	    (c->identity_token && !text_ok(c->identity_token)) || (c->user && strchr(c->user, ':')))
		return err_set(e, ERR_CORRUPT, "%s: a user name or secret has control characters or is too long", what);
	return 0;
}

/* ---- reading ---- */

static int decode(const char *text, struct credential *c, const char *what, struct err *e)
{
	size_t n = strlen(text), pad = 0;
	autofree unsigned char *plain = NULL;
	char *colon;
	int len;

	while (pad < 2 && pad < n && text[n - 1 - pad] == '=')
		pad++;
	if (n > 4 * (size_t)CREDENTIAL_SECRET_MAX || n % 4)
		return err_set(e, ERR_CORRUPT, "%s: an \"auth\" is not base64", what);
	plain = malloc(n / 4 * 3 + 1);
	if (!plain)
		return err_nomem(e);
	len = EVP_DecodeBlock(plain, (const unsigned char *)text, (int)n);
	if (len < (int)pad)
		return err_set(e, ERR_CORRUPT, "%s: an \"auth\" is not base64", what);
	plain[(size_t)len - pad] = '\0';
	colon = strchr((char *)plain, ':');
	if (!colon || strlen((char *)plain) != (size_t)len - pad)
		return err_set(e, ERR_CORRUPT, "%s: an \"auth\" is not USER:PASSWORD", what);
	*colon = '\0';
	c->user = strdup((char *)plain);
	c->password = strdup(colon + 1);
	explicit_bzero(plain, (size_t)len);
	if (!c->user || !c->password)
		return err_nomem(e);
	return 0;
}

static int from_entry(const json_t *entry, struct credential *c, const char *what, struct err *e)
{
	const char *auth = NULL, *token = NULL, *user = NULL, *password = NULL;

	if (!json_is_object(entry))
		return err_set(e, ERR_CORRUPT, "%s: an entry of \"auths\" is not an object", what);
	if (json_get_str(entry, "auth", &auth, what, e) < 0 ||
	    json_get_str(entry, "identitytoken", &token, what, e) < 0 ||
	    json_get_str(entry, "username", &user, what, e) < 0 ||
	    json_get_str(entry, "password", &password, what, e) < 0)
		return -1;
	if (token && *token) {
		c->identity_token = strdup(token);
		if (!c->identity_token)
			return err_nomem(e);
		return 1;
	}
	if (auth && *auth) {
		if (decode(auth, c, what, e) < 0)
			return -1;
		return 1;
	}
	if (!user || !password)
		return 0;	/* docker leaves such for its helpers */
	c->user = strdup(user);
	c->password = strdup(password);
	return c->user && c->password ? 1 : err_nomem(e);
}

/* The spellings docker has used for one registry. */
static int is_key_of(const char *key, const char *registry)
{
	static const char *const hub[] = { "https://index.docker.io/v1/", "index.docker.io", "docker.io",
					   "registry-1.docker.io", "https://index.docker.io/v1", "https://docker.io" };
	size_t i, n = strlen(registry);

	if (!strcmp(registry, "docker.io")) {
		for (i = 0; i < ARRAY_LEN(hub); i++)
			if (!strcmp(key, hub[i]))
				return 1;
		return 0;
	}
	if (!strncmp(key, "https://", 8))
		key += 8;
	else if (!strncmp(key, "http://", 7))
		key += 7;
	if (strncmp(key, registry, n))
		return 0;
	key += n;
	return !*key || !strcmp(key, "/") || !strcmp(key, "/v1/") || !strcmp(key, "/v2/") || !strcmp(key, "/v1") ||
	       !strcmp(key, "/v2");
}

int credential_parse(const char *text, size_t n, const char *registry, const char *what, struct credential *ret,
		     struct err *e)
{
	autojson json_t *doc = json_parse(text, n, CREDENTIAL_FILE_MAX, what, e);
	autocredential struct credential c = { 0 };
	json_t *auths = NULL, *entry;
	const char *key;
	int r = 0;

	if (!doc)
		return -1;
	if (!json_is_object(doc))
		return err_set(e, ERR_CORRUPT, "%s is not a JSON object", what);
	if (json_get_obj(doc, "auths", &auths, what, e) < 0)
		return -1;
	json_object_foreach(auths, key, entry) {
		if (r || !is_key_of(key, registry))
			continue;
		r = from_entry(entry, &c, what, e);
		if (r < 0)
			return -1;
		if (r && credential_check(&c, what, e) < 0)
			return err_wrap(e, "the entry of %.200s", key);
	}
	if (r) {
		*ret = c;
		c = (struct credential){ 0 };
	}
	return r;
}

int credential_helper(const char *text, size_t n, const char *registry, const char *what, char *ret, size_t size,
		      struct err *e)
{
	autojson json_t *doc = json_parse(text, n, CREDENTIAL_FILE_MAX, what, e);
	json_t *helpers = NULL, *one;
	const char *name = NULL, *key;

	if (!doc)
		return -1;
	if (!json_is_object(doc))
		return err_set(e, ERR_CORRUPT, "%s is not a JSON object", what);
	if (json_get_obj(doc, "credHelpers", &helpers, what, e) < 0 || json_get_str(doc, "credsStore", &name, what, e) < 0)
		return -1;
	json_object_foreach(helpers, key, one) {
		if (!is_key_of(key, registry))
			continue;
		name = json_string_value(one);
		if (!name)
			return err_set(e, ERR_CORRUPT, "%s: credHelpers of %.200s is not a string", what, key);
		break;
	}
	if (!name || !*name)
		return 0;
	if (strlen(name) >= size)
		return err_set(e, ERR_CORRUPT, "%s: the name of a credential helper is too long", what);
	strcpy(ret, name);
	return 1;
}

static int read_file(int fd, const char *what, struct buf *b, struct err *e)
{
	return io_read_all(fd, b, what, e) < 0 || (!b->data && buf_adds(b, "", e) < 0) ? -1 : 0;
}

static void wipe_buf(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
	buf_release(b);
}

/* A user who can write the file chooses a program that runs with our rights. */
static int may_name_programs(int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at %.200s", path);
	if ((st.st_uid != 0 && st.st_uid != geteuid()) || (st.st_mode & 022))
		return err_set(e, ERR_DENIED, "%.200s names a credential helper, and others may write it; hint: chown it to "
			       "yourself, and chmod go-w", path);
	return 0;
}

static int from_docker(const char *path, const char *registry, uint64_t helper_ms, struct credential *ret, struct err *e)
{
	/* the name under which helpers keep Docker Hub's */
	const char *server = strcmp(registry, "docker.io") ? registry : "https://index.docker.io/v1/";
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct buf b = BUF_INIT(CREDENTIAL_FILE_MAX);
	char name[CREDHELPER_NAME_MAX * 2] = "";
	int r;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(e, "open %.200s", path);
	r = read_file(fd, path, &b, e);
	if (!r)
		r = credential_helper(b.data, b.len, registry, path, name, sizeof(name), e);
	if (r > 0)
		r = may_name_programs(fd, path, e) < 0 ? -1 : credhelper_get(name, server, helper_ms, ret, e);
	if (!r)
		r = credential_parse(b.data, b.len, registry, path, ret, e);
	wipe_buf(&b);
	return r;
}

static int open_private(int dir, struct err *e)
{
	int fd = openat(dir, CREDENTIAL_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? -2 : err_sys(e, "open " CREDENTIAL_FILE);
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && !(st.st_mode & 077) && st.st_uid == geteuid())
		return fd;
	close(fd);
	return err_set(e, ERR_DENIED, CREDENTIAL_FILE " in the state directory is not a file of yours of mode 0600; hint: "
		       "chmod 600, and change the passwords that are in it");
}

static int from_ours(int dir, const char *registry, struct credential *ret, struct err *e)
{
	autoclose int fd = open_private(dir, e);
	struct buf b = BUF_INIT(CREDENTIAL_FILE_MAX);
	int r;

	if (fd < 0)
		return fd == -1 ? -1 : 0;
	r = read_file(fd, CREDENTIAL_FILE, &b, e);
	if (!r)
		r = credential_parse(b.data, b.len, registry, CREDENTIAL_FILE, ret, e);
	wipe_buf(&b);
	return r;
}

int credential_find(const char *state_dir, const char *docker_config, const char *registry, uint64_t helper_ms,
		    struct credential *ret, struct err *e)
{
	autoclose int dir = path_open_private_dir(state_dir, e);
	int r;

	if (dir < 0)
		return -1;
	r = from_ours(dir, registry, ret, e);
	return r || !docker_config ? r : from_docker(docker_config, registry, helper_ms, ret, e);
}

/* ---- writing ---- */

static json_t *read_ours(int dir, struct err *e)
{
	autobuf struct buf b = BUF_INIT(CREDENTIAL_FILE_MAX);
	autoclose int fd = open_private(dir, e);
	json_t *doc;

	if (fd == -2)
		return json_pack("{s:{}}", "auths");
	if (fd < 0 || io_read_all(fd, &b, CREDENTIAL_FILE, e) < 0)
		return NULL;
	doc = json_parse(b.data ? b.data : "", b.len, CREDENTIAL_FILE_MAX, CREDENTIAL_FILE, e);
	if (doc && !json_is_object(json_object_get(doc, "auths")) && json_object_set_new(doc, "auths", json_object()) < 0) {
		json_decref(doc);
		err_set(e, ERR_CORRUPT, CREDENTIAL_FILE " is not a JSON object");
		return NULL;
	}
	return doc;
}

static char *encode(const char *user, const char *password)
{
	autofree char *plain = NULL;
	char *text;
	int n = asprintf(&plain, "%s:%s", user, password);

	if (n < 0) {
		plain = NULL;
		return NULL;
	}
	text = malloc(4 * ((size_t)n + 2) / 3 + 5);
	if (text)
		EVP_EncodeBlock((unsigned char *)text, (unsigned char *)plain, n);
	explicit_bzero(plain, (size_t)n);
	return text;
}

static int write_ours(int dir, const json_t *doc, struct err *e)
{
	autofree char *text = json_dumps(doc, JSON_INDENT(2));
	int rc;

	if (!text)
		return err_nomem(e);
	rc = io_replace_file(dir, CREDENTIAL_FILE, text, strlen(text), 0600, 1, e);
	explicit_bzero(text, strlen(text));
	return rc;
}

static int change(int dir, const char *registry, const char *user, const char *password, int *ret_had, struct err *e)
{
	autojson json_t *doc = read_ours(dir, e);
	json_t *auths = json_object_get(doc, "auths");
	autofree char *auth = NULL;
	const char *key;
	json_t *v;
	void *next;
	int had = 0;

	if (!doc)
		return -1;
	json_object_foreach_safe(auths, next, key, v) {
		if (is_key_of(key, registry)) {
			had = 1;
			json_object_del(auths, key);
		}
	}
	if (ret_had)
		*ret_had = had;
	if (!user)
		return had ? write_ours(dir, doc, e) : 0;
	auth = encode(user, password);
	if (!auth || json_object_set_new(auths, registry, json_pack("{s:s}", "auth", auth)) < 0)
		return err_nomem(e);
	return write_ours(dir, doc, e);
}

int credential_store(const char *state_dir, const char *registry, const char *user, const char *password, int *ret_had,
		     struct err *e)
{
	autoclose int dir = path_open_private_dir(state_dir, e);
	autoclose int lock = -1;

	if (dir < 0)
		return -1;
	if (user && (!*user || !*password || !text_ok(user) || !text_ok(password) || strchr(user, ':')))
		return err_set(e, ERR_INVALID, "user name or password is empty, too long or has characters that cannot be "
			       "sent");
	lock = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0 || flock(lock, LOCK_EX) < 0)	/* two logins at once: neither is lost */
		return err_sys(e, "lock the state directory");
	return change(dir, registry, user, password, ret_had, e);
}
