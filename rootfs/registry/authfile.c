/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/registry/authfile.h"

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
	int fd = openat(dir, AUTHFILE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? -2 : err_sys(e, "open " AUTHFILE_NAME);
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && !(st.st_mode & 077) && st.st_uid == geteuid())
		return fd;
	close(fd);
	return err_set(e, ERR_DENIED, AUTHFILE_NAME " in the state directory is not a file of yours of mode 0600; hint: "
		       "chmod 600, and change the passwords that are in it");
}

static int from_ours(int dir, const char *registry, struct credential *ret, struct err *e)
{
	autoclose int fd = open_private(dir, e);
	struct buf b = BUF_INIT(CREDENTIAL_FILE_MAX);
	int r;

	if (fd < 0)
		return fd == -1 ? -1 : 0;
	r = read_file(fd, AUTHFILE_NAME, &b, e);
	if (!r)
		r = credential_parse(b.data, b.len, registry, AUTHFILE_NAME, ret, e);
	wipe_buf(&b);
	return r;
}

int authfile_find(const char *state_dir, const char *docker_config, const char *registry, uint64_t helper_ms,
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
	if (fd < 0 || io_read_all(fd, &b, AUTHFILE_NAME, e) < 0)
		return NULL;
	doc = json_parse(b.data ? b.data : "", b.len, CREDENTIAL_FILE_MAX, AUTHFILE_NAME, e);
	if (doc && !json_is_object(json_object_get(doc, "auths")) && json_object_set_new(doc, "auths", json_object()) < 0) {
		json_decref(doc);
		err_set(e, ERR_CORRUPT, AUTHFILE_NAME " is not a JSON object");
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
	rc = io_replace_file(dir, AUTHFILE_NAME, text, strlen(text), 0600, 1, e);
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
		if (credential_is_key_of(key, registry)) {
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

int authfile_store(const char *state_dir, const char *registry, const char *user, const char *password, int *ret_had,
		     struct err *e)
{
	autoclose int dir = path_open_private_dir(state_dir, e);
	autoclose int lock = -1;

	if (dir < 0)
		return -1;
	if (user && (!*user || !*password || !credential_text_ok(user) || !credential_text_ok(password) || strchr(user, ':')))
		return err_set(e, ERR_INVALID, "user name or password is empty, too long or has characters that cannot be "
			       "sent");
	lock = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (lock < 0 || flock(lock, LOCK_EX) < 0)	/* two logins at once: neither is lost */
		return err_sys(e, "lock the state directory");
	return change(dir, registry, user, password, ret_had, e);
}
