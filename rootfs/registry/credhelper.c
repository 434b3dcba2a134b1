/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S15 of SECURITY.md. */
#include "rootfs/registry/credhelper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

#define PREFIX "docker-credential-"
#define NOT_FOUND "credentials not found in native keychain"
#define IDENTITY_USER "<token>"
#define LOOK_EACH_MS 20

/* 1 when s may be part of a program's name: letters, digits, - and _. */
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

/* Not PATH: a word of a configuration may not choose among what others can put there. */
static int find_program(const char *name, char path[256], struct err *e)
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

/* Where keychains are; nothing that changes how programs are loaded. */
static char **make_environment(void)
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
	char **env = make_environment();
	sigset_t none;
	int s;

	/* a session of its own: killed as a whole, and no terminal to ask questions on */
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

static int start(struct helper *h, const char *path, const char *server, struct err *e)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, rc = -1;
	pid_t me = getpid();

	/* what we say fits into a pipe, and both ends are above the standard descriptors in the child */
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

/* All that is there now.  1 at the end of it, 0 when there may be more, -1. */
static int drain(const struct helper *h, struct buf *b, struct err *e)
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

/* Before Linux 5.3 there is no pidfd_open(2). */
static int has_ended(const struct helper *h, const struct pollfd *p)
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
static int hear(const struct helper *h, uint64_t deadline_ms, struct buf *b, struct err *e)
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
		r = drain(h, b, e);
		if (r < 0)
			return -1;
		if (r)
			p[1].fd = -1;
		if (has_ended(h, &p[0]))
			return drain(h, b, e) < 0 ? -1 : 0;
	}
}

static int judge(const struct helper *h, int status, const struct buf *b, struct credential *ret, struct err *e)
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
	if (find_program(name, path, e) < 0)
		return -1;
	rc = start(&h, path, server, e);
	if (!rc)
		rc = hear(&h, deadline_ms, &b, e);
	if (h.pid > 0) {
		kill(-h.pid, SIGKILL);	/* and the processes that it started */
		kill(h.pid, SIGKILL);
		while (waitpid(h.pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	if (!rc)
		rc = judge(&h, status, &b, ret, e);
	if (b.data)
		explicit_bzero(b.data, b.len);
	buf_release(&b);
	fd_close(&h.out);
	fd_close(&h.pidfd);
	return rc;
}
