/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S15 of SECURITY.md. */
#include "rootfs/registry/credential.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"

/* ---- the text of a file with credentials ---- */

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

/* Allows printable characters only: user names and passwords travel in headers and URLs. */
int credential_text_ok(const char *s)
{
	size_t n = 0;

	for (; s[n]; n++)
		if ((unsigned char)s[n] < 0x20 || s[n] == 0x7f)
			return 0;
	return n <= CREDENTIAL_SECRET_MAX;
}

int credential_check(const struct credential *c, const char *what, struct err *e)
{
	if ((c->user && !credential_text_ok(c->user)) || (c->password && !credential_text_ok(c->password)) ||
	    (c->identity_token && !credential_text_ok(c->identity_token)) || (c->user && strchr(c->user, ':')))
		return err_set(e, ERR_CORRUPT, "%s: a user name or secret has control characters or is too long", what);
	return 0;
}

/* ---- reading ---- */

static int decode_credential(const char *text, struct credential *c, const char *what, struct err *e)
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
		if (decode_credential(auth, c, what, e) < 0)
			return -1;
		return 1;
	}
	if (!user || !password)
		return 0;	/* docker leaves such an entry for its helpers */
	c->user = strdup(user);
	c->password = strdup(password);
	return c->user && c->password ? 1 : err_nomem(e);
}

/* Compares key with the spellings that docker has used for one registry. */
int credential_is_key_of(const char *key, const char *registry)
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
		if (r || !credential_is_key_of(key, registry))
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
		if (!credential_is_key_of(key, registry))
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

/* ---- credential helpers ---- */

#define PREFIX "docker-credential-"
#define NOT_FOUND "credentials not found in native keychain"
#define IDENTITY_USER "<token>"
#define LOOK_EACH_MS 20

/* Returns 1 if s may be part of a program's name: letters, digits, - and _. */
static int credhelper_name_ok(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");

	return n && !s[n] && n <= CREDHELPER_NAME_MAX;
}

/* ---- its answer ---- */

int credhelper_parse(const char *text, size_t n, const char *name, struct credential *ret, struct err *e)
{
	autocredential struct credential c = { 0 };
	autojson json_t *j = NULL;
	const char *user = NULL, *secret = NULL;
	char what[sizeof(PREFIX) + CREDHELPER_NAME_MAX];

	snprintf(what, sizeof(what), PREFIX "%.*s", CREDHELPER_NAME_MAX, name);
	j = json_parse(text, n, CREDHELPER_ANSWER_MAX, what, e);
	if (!j)
		return -1;
	if (!json_is_object(j))
		return err_set(e, ERR_CORRUPT, "%s: the answer is not a JSON object", what);
	if (json_get_str(j, "Username", &user, what, e) < 0 || json_get_str(j, "Secret", &secret, what, e) < 0)
		return -1;
	if (!user || !secret || !*secret)
		return err_set(e, ERR_CORRUPT, "%s: the answer has no Username or no Secret", what);
	if (!strcmp(user, IDENTITY_USER)) {
		c.identity_token = strdup(secret);
	} else {
		c.user = strdup(user);
		c.password = strdup(secret);
	}
	if (!c.identity_token && (!c.user || !c.password))
		return err_nomem(e);
	if (credential_check(&c, what, e) < 0)
		return -1;
	*ret = c;
	c = (struct credential){ 0 };
	return 1;
}

/* ---- the program ---- */

/*
 * Finds the helper's program, not by PATH: a word of a configuration may not choose among files
 * that others can put there.
 */
static int find_credhelper(const char *name, char path[256], struct err *e)
{
	static const char *const dirs[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin" };
	struct stat st;
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++) {
		snprintf(path, 256, "%s/" PREFIX "%.*s", dirs[i], CREDHELPER_NAME_MAX, name);
		if (stat(path, &st) < 0) {
			if (errno == ENOENT || errno == ENOTDIR)
				continue;
			return err_sys(e, "look at %s", path);
		}
		if (!S_ISREG(st.st_mode) || !(st.st_mode & 0111) || (st.st_mode & 022) ||
		    (st.st_uid != 0 && st.st_uid != geteuid()))
			return err_set(e, ERR_DENIED, "%s is not run: it must be a program of root that nobody else may write; "
				       "hint: chown root, chmod 755", path);
		return 0;
	}
	err_set(e, ERR_NOT_FOUND, "docker's config.json wants " PREFIX "%.*s, which is not in /usr/local/bin or /usr/bin",
		CREDHELPER_NAME_MAX, name);
	return err_hint(e, "install it, or berth login, which comes first");
}

/*
 * Returns an environment with the variables by which keychains are found, and none that changes how
 * programs are loaded.
 */
static char **credhelper_environment(void)
{
	static const char *const names[] = {
		"HOME", "USER", "LOGNAME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS", "GNUPGHOME",
		"PASSWORD_STORE_DIR", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE",
		"AWS_SHARED_CREDENTIALS_FILE", "CLOUDSDK_CONFIG", "GOOGLE_APPLICATION_CREDENTIALS", "http_proxy",
		"https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY",
	};
	static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", locale[] = "LC_ALL=C.UTF-8";
	char **env = calloc(ARRAY_LEN(names) + 3, sizeof(*env));
	size_t i, n = 0;

	if (!env)
		return NULL;
	env[n++] = path;
	env[n++] = locale;
	for (i = 0; i < ARRAY_LEN(names); i++) {
		const char *v = secure_getenv(names[i]);

		/* the child's memory is a copy, which the exec drops */
		if (v && asprintf(&env[n], "%s=%s", names[i], v) > 0)
			n++;
	}
	env[n] = NULL;
	return env;
}

static void become_helper(const char *path, int in, int out, pid_t parent)
{
	char *argv[] = { (char *)path, (char *)"get", NULL };
	struct rlimit core = { 0 };
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	char **env = credhelper_environment();
	sigset_t none;
	int s;

	/*
	 * a session of its own, so that it can be killed as a whole and has no terminal to ask
	 * questions on
	 */
	if (!env || null < 0 || setsid() < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || setrlimit(RLIMIT_CORE, &core) < 0)
		_exit(126);
	if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(null, 2) < 0 || syscall(SYS_close_range, 3u, ~0u, 0) < 0)
		_exit(126);
	for (s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(077);
	execve(path, argv, env);
	_exit(126);
}

struct helper {
	const char *name;
	pid_t pid;
	int pidfd, out;
};

static int start_credhelper(struct helper *h, const char *path, const char *server, struct err *e)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, rc = -1;
	pid_t me = getpid();

	/* our text fits into a pipe, and both ends are above the standard descriptors in the child */
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || io_write_all(in[1], server, strlen(server)) < 0) {
		err_sys(e, "make a pipe");
		goto out;
	}
	h->pid = fork();
	if (!h->pid)
		become_helper(path, in[0], out[1], me);
	if (h->pid < 0) {
		h->pid = 0;
		err_sys(e, "fork for %s", path);
		goto out;
	}
	h->pidfd = (int)syscall(SYS_pidfd_open, h->pid, 0);
	if ((h->pidfd < 0 && errno != ENOSYS) || fcntl(out[0], F_SETFL, O_NONBLOCK) < 0) {
		err_sys(e, "watch %s", path);
		goto out;
	}
	h->out = take_fd(&out[0]);
	rc = 0;
out:
	fd_close(&in[0]);
	fd_close(&in[1]);
	fd_close(&out[0]);
	fd_close(&out[1]);
	return rc;
}

/* Reads all bytes that are there now. 1 at end of file, 0 if more may come, -1. */
static int drain_credhelper(const struct helper *h, struct buf *b, struct err *e)
{
	char part[4096];
	ssize_t r;

	for (;;) {
		r = read(h->out, part, sizeof(part));
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return !r ? 1 : errno == EAGAIN ? 0 : err_sys(e, "read from " PREFIX "%s", h->name);
		if (buf_add(b, part, (size_t)r, e) < 0) {
			explicit_bzero(part, sizeof(part));
			return err_set(e, ERR_LIMIT, PREFIX "%s prints more than %u bytes", h->name, CREDHELPER_ANSWER_MAX);
		}
		explicit_bzero(part, sizeof(part));
	}
}

/* Tells whether the helper has ended. Before Linux 5.3 there is no pidfd_open(2). */
static int credhelper_has_ended(const struct helper *h, const struct pollfd *p)
{
	siginfo_t si = { .si_pid = 0 };

	if (h->pidfd >= 0)
		return p->revents != 0;
	return waitid(P_PID, (id_t)h->pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0 && si.si_pid;
}

/*
 * Waits until the helper has ended. Processes that it leaves behind may hold its stdout open for
 * ever.
 */
static int wait_for_credhelper(const struct helper *h, uint64_t deadline_ms, struct buf *b, struct err *e)
{
	uint64_t end = clock_ms() + deadline_ms, most = h->pidfd >= 0 ? 1000000 : LOOK_EACH_MS;
	struct pollfd p[2] = { { .fd = h->pidfd, .events = POLLIN }, { .fd = h->out, .events = POLLIN } };
	int r;

	for (;;) {
		uint64_t now = clock_ms(), left = end > now ? end - now : 0;

		r = poll(p, 2, left > most ? (int)most : (int)left);
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, "wait for " PREFIX "%s", h->name);
		if (!r && !left)
			return err_set(e, ERR_TIMEOUT, PREFIX "%s does not answer within %llu s (registry.stall_timeout)", h->name,
				       (unsigned long long)(deadline_ms / 1000));
		r = drain_credhelper(h, b, e);
		if (r < 0)
			return -1;
		if (r)
			p[1].fd = -1;
		if (credhelper_has_ended(h, &p[0]))
			return drain_credhelper(h, b, e) < 0 ? -1 : 0;
	}
}

static int judge_credhelper(const struct helper *h, int status, const struct buf *b, struct credential *ret, struct err *e)
{
	const char *text = b->data ? b->data : "";
	size_t n = b->len;

	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return credhelper_parse(text, n, h->name, ret, e);
	while (n && (text[n - 1] == '\n' || text[n - 1] == '\r' || text[n - 1] == ' '))
		n--;
	if (n == strlen(NOT_FOUND) && !memcmp(text, NOT_FOUND, n))
		return 0;
	if (!WIFEXITED(status))
		return err_set(e, ERR_DENIED, PREFIX "%s died of signal %d", h->name, WTERMSIG(status));
	return err_set(e, ERR_DENIED, PREFIX "%s failed with status %d%s%.*s", h->name, WEXITSTATUS(status), n ? ": " : "",
		       n < 200 ? (int)n : 200, text);
}

int credhelper_get(const char *name, const char *server, uint64_t deadline_ms, struct credential *ret, struct err *e)
{
	struct helper h = { .name = name, .pidfd = -1, .out = -1 };
	struct buf b = BUF_INIT(CREDHELPER_ANSWER_MAX);
	char path[256];
	int rc, status = 0;

	if (!credhelper_name_ok(name))
		return err_set(e, ERR_DENIED, "docker's config.json names the credential helper '%.40s', which is not a plain word", name);
	if (find_credhelper(name, path, e) < 0)
		return -1;
	rc = start_credhelper(&h, path, server, e);
	if (!rc)
		rc = wait_for_credhelper(&h, deadline_ms, &b, e);
	if (h.pid > 0) {
		kill(-h.pid, SIGKILL);	/* and the processes that it started */
		kill(h.pid, SIGKILL);
		while (waitpid(h.pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	if (!rc)
		rc = judge_credhelper(&h, status, &b, ret, e);
	if (b.data)
		explicit_bzero(b.data, b.len);
	buf_release(&b);
	fd_close(&h.out);
	fd_close(&h.pidfd);
	return rc;
}

/* ---- the files ---- */

static int read_auth_text(int fd, const char *what, struct buf *b, struct err *e)
{
	return io_read_all(fd, b, what, e) < 0 || (!b->data && buf_adds(b, "", e) < 0) ? -1 : 0;
}

static void wipe_buf(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->len);
	buf_release(b);
}

/*
 * Tells whether the file may name a helper: a user who can write it chooses a program that runs
 * with our rights.
 */
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
	/* the name under which helpers keep the credential of Docker Hub */
	const char *server = strcmp(registry, "docker.io") ? registry : "https://index.docker.io/v1/";
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct buf b = BUF_INIT(CREDENTIAL_FILE_MAX);
	char name[CREDHELPER_NAME_MAX * 2] = "";
	int r;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(e, "open %.200s", path);
	r = read_auth_text(fd, path, &b, e);
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
	r = read_auth_text(fd, AUTHFILE_NAME, &b, e);
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

static int change_stored_login(int dir, const char *registry, const char *user, const char *password, int *ret_had, struct err *e)
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
	if (lock < 0 || flock(lock, LOCK_EX) < 0)	/* of two logins at once neither is lost */
		return err_sys(e, "lock the state directory");
	return change_stored_login(dir, registry, user, password, ret_had, e);
}
