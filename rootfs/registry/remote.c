/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S17 of SECURITY.md. */
#include "rootfs/registry/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/program.h"
#include "rootfs/registry/credential.h"
#include "rootfs/registry/httpwire.h"
#include "rootfs/store/hash.h"

/* ---- the targets of requests ---- */

/* Computes the targets of requests from a reference and the configuration. Pure. */

#define HUB "docker.io"
#define HUB_HOST "registry-1.docker.io"

/* Calls fn for each word of a list until it returns something else than 0. */
static int each_word(const char *list, int (*fn)(void *ctx, const char *word, struct err *e), void *ctx, struct err *e)
{
	char word[1024];
	size_t n;
	int r = 0;

	for (; list && *list && !r; list += n + (list[n] == '\n')) {
		n = strcspn(list, "\n");
		if (!n)
			continue;
		if (n >= sizeof(word))
			return err_set(e, ERR_CONFIG, "a word of [registry] in berth.toml is too long");
		memcpy(word, list, n);
		word[n] = '\0';
		r = fn(ctx, word, e);
	}
	return r;
}

static int is_registry_domain(const char *s, size_t n)
{
	return memchr(s, '.', n) || memchr(s, ':', n) || (n == 9 && !memcmp(s, "localhost", 9));
}

struct look {
	const struct origin *origin;
};

static int same_host(void *ctx, const char *word, struct err *e)
{
	const struct look *l = ctx;
	struct origin o;

	if (origin_from_host(word, 0, &o, e) < 0) {
		e->code = ERR_CONFIG;
		return err_wrap(e, "registry.insecure in berth.toml");
	}
	/* plain http has port 80, unless the URL names another */
	return !strcmp(o.host, l->origin->host) && o.port == l->origin->port;
}

/* Makes the base URL of HOST[:PORT]: https, unless plain http is listed or forced. */
static int set_base(const char *host, const struct remote_options *o, int forced, char base[ORIGIN_TEXT_MAX], struct err *e)
{
	struct origin plain, tls;
	int insecure = forced;

	if (origin_from_host(host, 0, &plain, e) < 0 || origin_from_host(host, 1, &tls, e) < 0)
		return -1;
	if (!insecure)
		insecure = each_word(o->insecure, same_host, &(struct look){ &plain }, e);
	if (insecure < 0)
		return -1;
	origin_format(insecure ? &plain : &tls, base);
	return 0;
}

static int add_endpoint(struct remote_target *t, const char *host, const char *repo, const char *account,
			const struct remote_options *o, int forced, struct err *e)
{
	struct remote_endpoint *at = &t->at[t->count];

	if (t->count == REMOTE_ENDPOINTS_MAX)
		return err_set(e, ERR_CONFIG, "%s has more than %d mirrors", t->registry, REMOTE_ENDPOINTS_MAX - 1);
	if (strlen(repo) >= sizeof(at->repo) || strlen(account) >= sizeof(at->account))
		return err_set(e, ERR_INVALID, "repository '%.100s' is too long", repo);
	if (set_base(host, o, forced, at->base, e) < 0)
		return -1;
	strcpy(at->repo, repo);
	strcpy(at->account, account);
	t->count++;
	return 0;
}

struct mirrors {
	struct remote_target *target;
	const struct remote_options *options;
};

/* Adds a mirror, for example "docker.io=mirror.example:5000/prefix". */
static int add_mirror(void *ctx, const char *word, struct err *e)
{
	struct mirrors *m = ctx;
	const char *eq = strchr(word, '='), *slash;
	char host[ORIGIN_TEXT_MAX], repo[REMOTE_REPO_MAX * 2];
	size_t n;

	if (!eq || eq == word || !eq[1])
		return err_set(e, ERR_CONFIG, "registry.mirrors in berth.toml: '%.100s' is not REGISTRY=MIRROR", word);
	if (strncmp(word, m->target->registry, (size_t)(eq - word)) || m->target->registry[eq - word])
		return 0;
	slash = strchr(eq + 1, '/');
	n = slash ? (size_t)(slash - eq - 1) : strlen(eq + 1);
	if (n >= sizeof(host) || strlen(word) >= REMOTE_REPO_MAX || (slash && !slash[1]))
		return err_set(e, ERR_CONFIG, "registry.mirrors in berth.toml: '%.100s' is too long or ends in /", word);
	memcpy(host, eq + 1, n);
	host[n] = '\0';
	snprintf(repo, sizeof(repo), "%s%s%s", slash ? slash + 1 : "", slash ? "/" : "", m->target->repo);
	if (add_endpoint(m->target, host, repo, host, m->options, 0, e) < 0) {
		e->code = ERR_CONFIG;
		return err_wrap(e, "registry.mirrors in berth.toml");
	}
	return 0;
}

static int finish_target(struct remote_target *t, const struct remote_options *o, int mirrors, struct err *e)
{
	if (mirrors && each_word(o->mirrors, add_mirror, &(struct mirrors){ t, o }, e) < 0)
		return -1;
	if (!strcmp(t->registry, HUB))
		return add_endpoint(t, HUB_HOST, t->repo, HUB, o, 0, e);
	return add_endpoint(t, t->registry, t->repo, t->registry, o, o->all_insecure, e);
}

int remote_target(const struct ref *r, const struct remote_options *o, int mirrors, struct remote_target *ret,
		  struct err *e)
{
	struct remote_target t = { 0 };
	const char *slash = strchr(r->repo, '/');
	size_t n = slash ? (size_t)(slash - r->repo) : 0;

	if (slash && is_registry_domain(r->repo, n)) {
		snprintf(t.registry, sizeof(t.registry), "%.*s", (int)n, r->repo);
		snprintf(t.repo, sizeof(t.repo), "%s", slash + 1);
	} else {
		strcpy(t.registry, HUB);
		snprintf(t.repo, sizeof(t.repo), "%s%s", slash ? "" : "library/", r->repo);
	}
	snprintf(t.ref, sizeof(t.ref), "%s", r->digest[0] ? r->digest : r->tag[0] ? r->tag : "latest");
	if (finish_target(&t, o, mirrors, e) < 0)
		return -1;
	*ret = t;
	return 0;
}

int remote_registry_target(const char *word, const struct remote_options *o, struct remote_target *ret, struct err *e)
{
	static const char *const hub[] = { "docker.io", "index.docker.io", "registry-1.docker.io", "hub.docker.com" };
	struct remote_target t = { 0 };
	struct origin check;
	size_t i, n;

	if (!strncmp(word, "https://", 8))
		word += 8;
	else if (!strncmp(word, "http://", 7))
		return err_set(e, ERR_INVALID, "'%.100s' is plain http; hint: give HOST:PORT and list it in "
			       "registry.insecure in berth.toml, or use --insecure", word);
	n = strcspn(word, "/");
	if (n >= sizeof(t.registry))
		return err_set(e, ERR_INVALID, "registry '%.100s' is too long", word);
	for (i = 0; i < n; i++)
		t.registry[i] = word[i] >= 'A' && word[i] <= 'Z' ? (char)(word[i] - 'A' + 'a') : word[i];
	if (origin_from_host(t.registry, 1, &check, e) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(hub); i++)
		if (!strcmp(t.registry, hub[i]))
			strcpy(t.registry, HUB);
	if (finish_target(&t, o, 0, e) < 0)
		return -1;
	*ret = t;
	return 0;
}

/* ---- berth-http ---- */

#define PROGRAM "berth-http"

/* ---- starting berth-http ---- */

/* Returns the variables that libcurl and the C library may need; the rest of our environment stays here. */
static char **http_client_environment(void)
{
	static const char *const names[] = { "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy",
					     "NO_PROXY", "ASAN_OPTIONS", "UBSAN_OPTIONS" };
	char **env = calloc(ARRAY_LEN(names) + 2, sizeof(*env));
	size_t i, n = 0;

	if (!env)
		return NULL;
	env[n++] = strdup("LC_ALL=C.UTF-8");
	for (i = 0; i < ARRAY_LEN(names); i++) {
		const char *v = secure_getenv(names[i]);

		if (v && asprintf(&env[n], "%s=%s", names[i], v) > 0)
			n++;
	}
	env[n] = NULL;
	return env;
}

static void exec_http_client(int program_fd, int sock, char **env)
{
	static char name[] = PROGRAM;
	char *argv[] = { name, NULL };
	int fd = fcntl(program_fd, F_DUPFD_CLOEXEC, HTTPWIRE_FD + 1);

	if (fd < 0 || (sock != HTTPWIRE_FD ? dup2(sock, HTTPWIRE_FD) < 0 : fcntl(sock, F_SETFD, 0) < 0))
		_exit(126);
	execveat(fd, "", argv, env, AT_EMPTY_PATH);
	_exit(126);
}

static int spawn_http_client(struct remote *r, struct err *e)
{
	autoclose int program = program_open(PROGRAM, e);
	char **env;
	int pair[2];
	size_t i;

	if (program < 0)
		return e->code == ERR_NOT_FOUND ?
			err_hint(e, "it is made where libcurl4-openssl-dev and libpsl-dev are installed") : -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "make a socket pair");
	env = http_client_environment();
	r->pid = fork();
	if (!r->pid && env)
		exec_http_client(program, pair[1], env);
	for (i = 0; env && env[i]; i++)
		free(env[i]);
	free(env);
	close(pair[1]);
	r->sock = pair[0];
	if (r->pid < 0) {
		r->pid = 0;
		return err_sys(e, "fork");
	}
	return env ? 0 : err_nomem(e);
}

static int add_credential(json_t *list, const struct remote_endpoint *at, const struct remote_options *o,
			  const struct remote_login *login, struct err *e)
{
	autocredential struct credential c = { 0 };
	json_t *one;
	int r;

	if (o->anonymous && !login)
		return 0;
	if (login)
		one = json_pack("{s:s, s:s, s:s}", "origin", at->base, "user", login->user, "password", login->password);
	else {
		r = authfile_find(o->state_dir, o->docker_config, at->account, o->stall_ms, &c, e);
		if (r <= 0)
			return r;
		one = c.identity_token ? json_pack("{s:s, s:s}", "origin", at->base, "identity_token", c.identity_token) :
			json_pack("{s:s, s:s, s:s}", "origin", at->base, "user", c.user, "password", c.password);
	}
	if (!one)
		return err_set(e, ERR_INVALID, "the user name or password is not UTF-8");
	return json_array_append_new(list, one) < 0 ? err_nomem(e) : 0;
}

/*
 * Returns the login for a target: a password that came with a request goes to the registry that it
 * is for, and to no mirror.
 */
static const struct remote_login *login_at(const struct remote_target *t, size_t at,
					   const struct remote_options *o,
					   const struct remote_login *login)
{
	return login || strcmp(t->at[at].account, t->registry) ? login : o->login;
}

static json_t *make_hello(const struct remote_options *o, const struct remote_target *const *targets, size_t count,
			  const struct remote_login *login, struct err *e)
{
	autojson json_t *credentials = json_array(), *realms = json_array();
	char word[1024];
	const char *s;
	size_t i, j, n;

	for (i = 0; i < count; i++)
		for (j = 0; j < targets[i]->count; j++)
			if (add_credential(credentials, &targets[i]->at[j], o,
					   login_at(targets[i], j, o, login), e) < 0)
				return NULL;
	for (s = o->realms; s && *s; s += n + (s[n] == '\n')) {
		n = strcspn(s, "\n");
		snprintf(word, sizeof(word), "%.*s", (int)n, s);
		json_array_append_new(realms, json_string(word));
	}
	return json_pack("{s:s, s:I, s:I, s:I, s:s, s:O, s:O}", "op", "hello", "retries", (json_int_t)o->retries, "stall_ms",
			 (json_int_t)o->stall_ms, "upload_chunk", (json_int_t)o->upload_chunk, "user_agent", "berth/" BERTH_VERSION, "credentials", credentials,
			 "realms", realms);
}

int remote_open(struct remote *r, const struct remote_options *o, const struct remote_target *const *targets,
		size_t count, const struct remote_login *login, struct err *e)
{
	autojson json_t *hello = make_hello(o, targets, count, login, e);
	autoclose int ca = -1;

	if (!hello)
		return -1;
	if (o->ca_file && *o->ca_file) {
		ca = open(o->ca_file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (ca < 0)
			return err_code_sys(e, ERR_CONFIG, "open registry.ca_file %.200s", o->ca_file);
	}
	if (spawn_http_client(r, e) < 0)
		return -1;
	if (o->deadline_ms)
		r->deadline_ms = clock_ms() + o->deadline_ms;
	return httpwire_send(r->sock, hello, ca, e);
}

void remote_close(struct remote *r)
{
	fd_close(&r->sock);	/* its end makes berth-http exit */
	if (r->pid > 0) {
		kill(r->pid, SIGKILL);
		while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	r->pid = 0;
}

/* ---- requests ---- */

static int send_remote_request(struct remote *r, json_t *q, const struct remote_target *t, size_t first, int fd, struct err *e)
{
	autojson json_t *full = q;
	json_t *list = json_array();
	size_t i;

	for (i = first; i < t->count; i++)
		json_array_append_new(list, json_pack("{s:s, s:s}", "base", t->at[i].base, "repo", t->at[i].repo));
	if (!full || json_object_set_new(full, "endpoints", list) < 0 ||
	    json_object_set_new(full, "id", json_integer((json_int_t)++r->next_id)) < 0)
		return err_nomem(e);
	return httpwire_send(r->sock, full, fd, e) < 0 ? -1 : (int)r->next_id;
}

int remote_get_blob(struct remote *r, const struct remote_target *t, const char *digest, uint64_t size, int out_fd,
		    struct err *e)
{
	return send_remote_request(r, json_pack("{s:s, s:s, s:I}", "op", "blob", "digest", digest, "size", (json_int_t)size), t, 0, out_fd,
				   e);
}

int remote_have_blob(struct remote *r, const struct remote_target *t, const char *digest, const char *mount_from,
		     struct err *e)
{
	return send_remote_request(r, json_pack("{s:s, s:s, s:s}", "op", "have-blob", "digest", digest, "from",
						mount_from ? mount_from : ""), t, 0, -1, e);
}

int remote_push_blob(struct remote *r, const struct remote_target *t, const char *digest, uint64_t size,
		     const char *mount_from, int in_fd, struct err *e)
{
	return send_remote_request(r, json_pack("{s:s, s:s, s:I, s:s}", "op", "push-blob", "digest", digest, "size", (json_int_t)size,
						"from", mount_from ? mount_from : ""), t, 0, in_fd, e);
}

/* ---- events ---- */

static int http_client_ended(struct remote *r, struct err *e)
{
	int status = 0;

	if (r->pid > 0 && waitpid(r->pid, &status, 0) == r->pid)
		r->pid = 0;
	return err_set(e, ERR_INTERNAL, PROGRAM " ended unexpectedly (wait status 0x%x)", (unsigned)status);
}

static int copy_event_text(const json_t *j, const char *key, char *ret, size_t size, struct err *e)
{
	const char *s = "";

	if (json_get_str(j, key, &s, PROGRAM, e) < 0)
		return -1;
	if (strlen(s) >= size)
		return err_set(e, ERR_CORRUPT, PROGRAM ": \"%s\" is too long", key);
	strcpy(ret, s);
	return 0;
}

/* Returns 1 with an event for the caller, 0 if it was a retry, -1. */
static int read_event(struct remote *r, const json_t *j, struct remote_event *ret, struct err *e)
{
	struct remote_event ev = { 0 };
	const char *event = NULL, *text = "", *code = NULL;
	uint64_t id = 0, endpoint = 0, delay = 0;

	if (json_get_str(j, "event", &event, PROGRAM, e) < 0 || json_get_u64(j, "id", &id, PROGRAM, e) < 0 ||
	    json_get_u64(j, "endpoint", &endpoint, PROGRAM, e) < 0 || json_get_u64(j, "bytes", &ev.bytes, PROGRAM, e) < 0)
		return -1;
	ev.id = (unsigned int)id;
	ev.endpoint = (unsigned int)endpoint;
	if (event && !strcmp(event, "retry")) {
		if (json_get_str(j, "why", &text, PROGRAM, e) < 0 || json_get_u64(j, "delay_ms", &delay, PROGRAM, e) < 0)
			return -1;
		if (r->retrying)
			r->retrying(r->ctx, text, delay);
		return 0;
	}
	if (event && !strcmp(event, "progress")) {
		ev.kind = REMOTE_PROGRESS;
	} else if (event && !strcmp(event, "done")) {
		ev.kind = REMOTE_DONE;
		if (copy_event_text(j, "type", ev.type, sizeof(ev.type), e) < 0 ||
		    copy_event_text(j, "digest", ev.digest, sizeof(ev.digest), e) < 0 ||
		    json_get_bool(j, "existed", &ev.existed, PROGRAM, e) < 0 ||
		    json_get_bool(j, "mounted", &ev.mounted, PROGRAM, e) < 0)
			return -1;
	} else if (event && !strcmp(event, "failed")) {
		ev.kind = REMOTE_FAILED;
		if (json_get_str(j, "code", &code, PROGRAM, e) < 0 || json_get_str(j, "message", &text, PROGRAM, e) < 0)
			return -1;
		err_set(&ev.err, err_code_of(code) ? err_code_of(code) : ERR_NET, "%s", text);
		if (!id) {	/* berth-http could not start */
			*e = ev.err;
			return err_wrap(e, PROGRAM);
		}
	} else {
		return err_set(e, ERR_CORRUPT, PROGRAM " says something unknown");
	}
	*ret = ev;
	return 1;
}

static int wait_readable(struct remote *r, int timeout_ms, struct err *e)
{
	struct pollfd p[2] = { { .fd = r->sock, .events = POLLIN }, { .fd = r->signal_fd, .events = POLLIN } };
	uint64_t now = clock_ms();
	int n, late = 0;

	if (r->deadline_ms) {
		uint64_t left = r->deadline_ms > now ? r->deadline_ms - now : 0;

		if (timeout_ms < 0 || left <= (uint64_t)timeout_ms) {
			timeout_ms = left > 1000000 ? 1000000 : (int)left;
			late = 1;
		}
	}
	do
		n = poll(p, 2, timeout_ms);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, "wait for " PROGRAM);
	if (p[1].revents)
		return err_set(e, ERR_BUSY, "interrupted");
	if (!n && late && clock_ms() >= r->deadline_ms)
		return err_set(e, ERR_TIMEOUT, "not done within registry.deadline; hint: raise it in berth.toml, or 0 for none");
	return n;
}

int remote_next(struct remote *r, int timeout_ms, struct remote_event *ret, struct err *e)
{
	int n;

	for (;;) {
		autojson json_t *j = NULL;

		n = wait_readable(r, timeout_ms, e);
		if (n <= 0)
			return n;
		n = httpwire_recv(r->sock, &j, NULL, e);
		if (n == 0)
			return http_client_ended(r, e);
		if (n < 0)
			return -1;
		n = read_event(r, j, ret, e);
		if (n)
			return n;
	}
}

/* Waits for the end of request id, the only one under way. 0 and *ret, or -1 with its error. */
static int remote_wait(struct remote *r, int id, struct remote_event *ret, struct err *e)
{
	int n;

	for (;;) {
		n = remote_next(r, -1, ret, e);
		if (n < 0)
			return -1;
		if (n == 0 || ret->id != (unsigned int)id || ret->kind == REMOTE_PROGRESS)
			continue;
		if (ret->kind == REMOTE_DONE)
			return 0;
		*e = ret->err;
		return -1;
	}
}

/* ---- documents ---- */

/* Makes a memory file as large as the document may get, which berth-http cannot enlarge. */
static int make_memory(size_t size, struct err *e)
{
	autoclose int fd = memfd_create("berth-document", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) < 0)
		return err_sys(e, "make a memory file");
	return take_fd(&fd);
}

/* like: the digest that is expected, or NULL. */
static int read_document_memory(int fd, uint64_t n, size_t max, const char *like, char **ret, char digest[DIGEST_SIZE], struct err *e)
{
	autofree char *text = NULL;
	size_t at = 0;

	if (n > max)
		return err_set(e, ERR_INTERNAL, PROGRAM " reports more bytes than fit");
	text = malloc((size_t)n + 1);
	if (!text)
		return err_nomem(e);
	while (at < n) {
		ssize_t r = pread(fd, text + at, (size_t)n - at, (off_t)at);

		if (r <= 0)
			return err_sys(e, "read a document");
		at += (size_t)r;
	}
	text[n] = '\0';
	if (hash_bytes(text, (size_t)n, like, digest, e) < 0)
		return -1;
	*ret = take_ptr(&text);
	return 0;
}

static int must_be(const char *want, const char *is, struct err *e)
{
	return strcmp(want, is) ? err_set(e, ERR_CORRUPT, "the manifest's digest is %s instead of %s", is, want) : 0;
}

/* Checks Docker-Content-Digest, if the registry sends it, in an algorithm of its choice. */
static int is_as_said(const struct remote_event *ev, const char *text, size_t n, struct err *e)
{
	char digest[DIGEST_SIZE];

	if (!digest_is_valid(ev->digest))
		return 0;
	return hash_bytes(text, n, ev->digest, digest, e) < 0 ? -1 : must_be(ev->digest, digest, e);
}

static int get_manifest_from(struct remote *r, const struct remote_target *t, size_t *first, const char *ref,
			     struct remote_document *ret, struct err *e)
{
	autoclose int fd = make_memory(OCI_MANIFEST_MAX, e);
	struct remote_event ev;
	int id, by_digest = digest_is_valid(ref);

	if (fd < 0)
		return -1;
	id = send_remote_request(r, json_pack("{s:s, s:s, s:I}", "op", "manifest", "ref", ref, "max", (json_int_t)OCI_MANIFEST_MAX), t,
				 *first, fd, e);
	if (id < 0 || remote_wait(r, id, &ev, e) < 0) {
		*first = t->count;	/* all endpoints failed */
		return -1;
	}
	*first += ev.endpoint + 1;
	if (read_document_memory(fd, ev.bytes, OCI_MANIFEST_MAX, by_digest ? ref : NULL, &ret->text, ret->digest, e) < 0)
		return -1;
	ret->len = (size_t)ev.bytes;
	memcpy(ret->type, ev.type, sizeof(ret->type));
	if ((by_digest ? must_be(ref, ret->digest, e) : 0) < 0 || is_as_said(&ev, ret->text, ret->len, e) < 0) {
		free(ret->text);
		ret->text = NULL;
		return -1;
	}
	/* parameters (";charset=utf-8") do not count */
	ret->type[strcspn(ret->type, "; \t")] = '\0';
	return 0;
}

int remote_get_manifest(struct remote *r, const struct remote_target *t, const char *ref, struct remote_document *ret,
			struct err *e)
{
	size_t first = 0;

	/* a mirror with wrong bytes is treated like one that is down */
	while (get_manifest_from(r, t, &first, ref, ret, e) < 0) {
		if (first >= t->count || e->code != ERR_CORRUPT)
			return err_wrap(e, "get the manifest %.80s of %.100s/%.150s", ref, t->registry, t->repo);
		if (r->retrying)
			r->retrying(r->ctx, e->msg, 0);
	}
	return 0;
}

int remote_get_document(struct remote *r, const struct remote_target *t, const struct oci_desc *d, size_t max,
			char **ret, size_t *ret_len, struct err *e)
{
	autoclose int fd = -1;
	autofree char *text = NULL;
	char digest[DIGEST_SIZE];
	struct remote_event ev;
	int id;

	if (d->size > max)
		return err_set(e, ERR_CORRUPT, "document %s is larger than %zu bytes", d->digest, max);
	fd = make_memory((size_t)d->size, e);
	if (fd < 0)
		return -1;
	id = remote_get_blob(r, t, d->digest, d->size, fd, e);
	if (id < 0 || remote_wait(r, id, &ev, e) < 0)
		return err_wrap(e, "get %.20s of %.100s/%.150s", d->digest, t->registry, t->repo);
	if (read_document_memory(fd, d->size, max, d->digest, &text, digest, e) < 0)
		return -1;
	if (strcmp(digest, d->digest))
		return err_set(e, ERR_CORRUPT, "document %s has digest %s", d->digest, digest);
	*ret = take_ptr(&text);
	*ret_len = (size_t)d->size;
	return 0;
}

int remote_put_manifest(struct remote *r, const struct remote_target *t, const char *ref, const char *type,
			const char *text, size_t n, struct err *e)
{
	autoclose int fd = memfd_create("berth-manifest", MFD_CLOEXEC);
	struct remote_event ev;
	int id;

	if (fd < 0 || io_write_all(fd, text, n) < 0)
		return err_sys(e, "make a memory file");
	id = send_remote_request(r, json_pack("{s:s, s:s, s:s, s:I}", "op", "push-manifest", "ref", ref, "type", type, "size",
					      (json_int_t)n), t, 0, fd, e);
	if (id < 0 || remote_wait(r, id, &ev, e) < 0)
		return err_wrap(e, "put the manifest of %.100s/%.150s", t->registry, t->repo);
	return is_as_said(&ev, text, n, e) < 0 ? err_wrap(e, "the registry keeps the manifest as something else") : 0;
}

int remote_ping(struct remote *r, const struct remote_target *t, struct err *e)
{
	struct remote_event ev;
	int id = send_remote_request(r, json_pack("{s:s}", "op", "ping"), t, 0, -1, e);

	return id < 0 ? -1 : remote_wait(r, id, &ev, e);
}
