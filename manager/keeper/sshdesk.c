/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S62 of SECURITY.md. */
#include "manager/keeper/sshdesk.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/keeper/fileclient.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/netclient.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/sandbox/reason.h"

#define DESK_PACKET 196608
#define DESK_START_MS 10000	/* for berth-ssh to be ready */
#define DESK_KEEPER_MS 30000
#define DESK_LOOK_MS 500	/* between two looks at whether the connection must end */
#define DESK_SEND_MS 2000	/* a berth-ssh that has taken nothing for as long is ended */
#define DESK_FAILED 125
#define KEY_DIR "ssh"		/* below the state directory */
#define KEY_FILE "host_key"
#define KNOWN_FILE "known_hosts"
#define KEY_MAX 16384

/* ---- the host key ---- */

static int open_key_dir(struct registry *r, struct err *e)
{
	int fd;

	if (mkdirat(r->state_fd, KEY_DIR, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make %s/" KEY_DIR, r->config->state_dir);
	fd = openat(r->state_fd, KEY_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open %s/" KEY_DIR, r->config->state_dir) : fd;
}

/* Reads what a helper has written to a memfd. */
static int take_text(int fd, struct buf *out, const char *what, struct err *e)
{
	return lseek(fd, 0, SEEK_SET) < 0 ? err_sys(e, "read %s", what) : io_read_all(fd, out, what, e);
}

static int make_host_key(int dir, struct err *e)
{
	char *const argv[] = { (char *)"berth-ssh", (char *)"key", NULL };
	autobuf struct buf key = BUF_INIT(KEY_MAX), public = BUF_INIT(KEY_MAX), known = BUF_INIT(KEY_MAX);
	autoclose int program = program_open("berth-ssh", e), key_fd = memfd_create("key", MFD_CLOEXEC),
		      public_fd = memfd_create("public", MFD_CLOEXEC);
	struct helper h;
	int fds[2] = { key_fd, public_fd }, r;

	if (program < 0)
		return -1;
	if (key_fd < 0 || public_fd < 0)
		return err_sys(e, "make room for a host key");
	if (helper_start(&h, program, argv, fds, 2, e) < 0)
		return -1;
	r = helper_answer(&h, DESK_KEEPER_MS, NULL, e);
	helper_end(&h, SIGKILL);
	if (r < 0 || take_text(key_fd, &key, "the host key", e) < 0 || take_text(public_fd, &public, "the public key", e) < 0 ||
	    buf_addf(&known, e, SSHDESK_HOST " %.*s", (int)public.len, public.data) < 0)
		return -1;
	/* the key last: with it, the other is there */
	return io_replace_file(dir, KNOWN_FILE, known.data, known.len, 0600, IO_DURABLE_DATA, e) < 0 ||
	       io_replace_file(dir, KEY_FILE, key.data, key.len, 0600, IO_DURABLE, e) < 0 ? -1 : 0;
}

/* Opens the directory with a key in it; who comes first makes it. */
static int open_host_key(struct registry *r, struct err *e)
{
	autoclose int dir = open_key_dir(r, e);

	if (dir < 0)
		return -1;
	if (path_has(dir, KEY_FILE))
		return take_fd(&dir);
	if (flock(dir, LOCK_EX) < 0)
		return err_sys(e, "lock %s/" KEY_DIR, r->config->state_dir);
	if (!path_has(dir, KEY_FILE) && make_host_key(dir, e) < 0)
		return -1;
	(void)!flock(dir, LOCK_UN);
	return take_fd(&dir);
}

int sshdesk_key(struct registry *r, char *ret_known_hosts, size_t size, struct err *e)
{
	autoclose int dir = open_host_key(r, e);

	if (dir < 0)
		return -1;
	if ((size_t)snprintf(ret_known_hosts, size, "%s/" KEY_DIR "/" KNOWN_FILE, r->config->state_dir) >= size)
		return err_set(e, ERR_INVALID, "the path of the state directory is too long");
	return 0;
}

/* ---- berth-ssh ---- */

static int send_desk(struct sshdesk *d, json_t *j, const int *fds, size_t count, struct err *e)
{
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	json_decref(j);
	if (!text)
		return err_nomem(e);
	/* its end is seen where its packets come from; that it takes none, by SO_SNDTIMEO */
	if (fdpass_send(d->helper.sock, text, strlen(text), fds, count) < 0 && errno != EPIPE && errno != ECONNRESET)
		return err_sys(e, "send to berth-ssh");
	return 0;
}

static int send_job(struct sshdesk *d, int login, struct err *e)
{
	autoclose int dir = open_host_key(d->registry, e);
	autobuf struct buf key = BUF_INIT(KEY_MAX);
	json_t *job;

	if (dir < 0 || io_read_file(dir, KEY_FILE, &key, e) < 0)
		return -1;
	job = json_pack("{s:{s:i,s:b,s:s%}}", "job", "parent", (int)getpid(), "login", login, "key", key.data, key.len);
	return send_desk(d, job, NULL, 0, e);
}

/* "ready", or what failed. */
static int await_ready(struct sshdesk *d, struct err *e)
{
	struct pollfd p = { .fd = d->helper.sock, .events = POLLIN };
	char text[2048];
	ssize_t n = 0;
	json_t *j = NULL;
	const char *failed = NULL;

	if (poll(&p, 1, DESK_START_MS) == 1)
		n = recv(d->helper.sock, text, sizeof(text), MSG_DONTWAIT);
	if (n > 0)
		j = json_parse(text, (size_t)n, sizeof(text), "berth-ssh", e);
	if (j && json_is_true(json_object_get(j, "ready"))) {
		json_decref(j);
		return 0;
	}
	failed = json_string_value(json_object_get(j, "failed"));
	err_set(e, ERR_INTERNAL, "berth-ssh does not start: %.400s", failed ? failed : "no answer");
	json_decref(j);
	return -1;
}

int sshdesk_open(struct sshdesk *d, struct registry *r, const char *id, int conn_fd, const struct sshdesk_login *login, struct err *e)
{
	char *const argv[] = { (char *)"berth-ssh", NULL };
	const struct timeval limit = { .tv_sec = DESK_SEND_MS / 1000 };
	autoclose int program = program_open("berth-ssh", e);
	size_t i;

	*d = (struct sshdesk){ .registry = r, .helper = { .sock = -1 }, .listen_sock = -1 };
	for (i = 0; i < SSHDESK_SESSIONS; i++)
		d->session[i].sock = d->session[i].err_fd = -1;
	snprintf(d->id, sizeof(d->id), "%s", id);
	if (login)
		d->login = *login;
	if (program < 0 || helper_start(&d->helper, program, argv, &conn_fd, 1, e) < 0)
		return -1;
	if (setsockopt(d->helper.sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) < 0) {
		err_sys(e, "bound the time of berth-ssh");
		sshdesk_close(d);
		return -1;
	}
	if (send_job(d, login != NULL, e) < 0 || await_ready(d, e) < 0) {
		sshdesk_close(d);
		return -1;
	}
	return 0;
}

static void end_desk_session(struct sshdesk_session *s)
{
	fd_close(&s->sock);
	fd_close(&s->err_fd);
}

void sshdesk_close(struct sshdesk *d)
{
	size_t i;

	for (i = 0; i < SSHDESK_SESSIONS; i++)
		end_desk_session(&d->session[i]);
	fd_close(&d->listen_sock);
	helper_end(&d->helper, SIGKILL);
}

/* ---- what it asks for ---- */

/* Three pipes: theirs[] is the sandbox's ends, ours[] those of berth-ssh, which do not wait. */
static int make_desk_pipes(int theirs[3], int ours[3], struct err *e)
{
	int i, p[2];

	for (i = 0; i < 3; i++) {
		if (pipe2(p, O_CLOEXEC) < 0)
			return err_sys(e, "make a pipe");
		theirs[i] = p[i ? 1 : 0];
		ours[i] = p[i ? 0 : 1];
		if (fcntl(ours[i], F_SETFL, O_NONBLOCK) < 0)
			return err_sys(e, "set up a pipe");
	}
	return 0;
}

static void close_all(int *fds, size_t n)
{
	while (n--)
		fd_close(&fds[n]);
}

static struct sshdesk_session *desk_session_of(struct sshdesk *d, unsigned id)
{
	size_t i;

	for (i = 0; i < SSHDESK_SESSIONS; i++)
		if (d->session[i].sock >= 0 && d->session[i].id == id)
			return &d->session[i];
	return NULL;
}

/* A place with a connection to the keeper. */
static struct sshdesk_session *begin_desk_session(struct sshdesk *d, const json_t *q, struct err *e)
{
	struct sshdesk_session *s = NULL;
	size_t i;

	for (i = 0; i < SSHDESK_SESSIONS && !s; i++)
		if (d->session[i].sock < 0)
			s = &d->session[i];
	if (!s) {
		err_set(e, ERR_LIMIT, "a connection has at most %d sessions", SSHDESK_SESSIONS);
		return NULL;
	}
	*s = (struct sshdesk_session){ .sock = keeper_connect(d->registry, d->id, e), .err_fd = -1,
				       .id = (unsigned)json_integer_value(json_object_get(q, "id")) };
	return s->sock >= 0 ? s : NULL;
}

static const char *desk_user(const struct sshdesk *d, const json_t *q)
{
	const char *named = json_string_value(json_object_get(q, "user"));

	if (d->user)
		return d->user;
	return named && strcmp(named, SSHDESK_USER) != 0 ? named : "";
}

/* As sshd does it: the command is a text for a shell.  Without one, it is a shell that reads its input. */
static json_t *desk_argv(const json_t *q)
{
	const char *command = json_string_value(json_object_get(q, "command"));

	if (command)
		return json_pack("[s,s,s]", "/bin/sh", "-c", command);
	return json_pack("[s,s,s]", "/bin/sh", "-c",
			 "[ -x \"$SHELL\" ] && exec \"$SHELL\"; [ -x /bin/bash ] && exec /bin/bash; exec /bin/sh");
}

/*
 * Takes the one descriptor of a keeper's answer.  One that does not answer holds up neither the end
 * of berthd nor that of the client's rights.
 */
static int take_keeper_fd(struct sshdesk *d, int sock, int *ret_fd, struct err *e)
{
	const uint64_t until = clock_ms() + DESK_KEEPER_MS;
	autojson json_t *msg = NULL;
	int fds[WIRE_FDS_MAX], r;
	size_t n = 0;

	do
		r = wire_recv(sock, DESK_LOOK_MS, &msg, fds, WIRE_FDS_MAX, &n, e);
	while (r < 0 && e->code == ERR_TIMEOUT && clock_ms() < until && !(d->login.is_over && d->login.is_over(d->login.ctx)));
	if (r == 0)
		return wire_ended(e);
	if (r < 0)
		return -1;
	r = wire_check(msg, e);
	if (r == 0 && n == 1) {
		*ret_fd = fds[0];
		return 0;
	}
	close_all(fds, n);
	return r < 0 ? -1 : err_set(e, ERR_INTERNAL, "the keeper answered without a descriptor");
}

static int take_terminal(struct sshdesk *d, const struct sshdesk_session *s, int *ret_fd, struct err *e)
{
	if (take_keeper_fd(d, s->sock, ret_fd, e) < 0)
		return -1;
	return fcntl(*ret_fd, F_SETFL, O_NONBLOCK | O_RDWR) < 0 ? err_sys(e, "set up a terminal") : 0;
}

static int ask_exec(struct sshdesk *d, const json_t *q, int ours[3], size_t *ret_count, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_exec);
	struct sshdesk_session *s = begin_desk_session(d, q, e);
	json_t *env = json_object_get(q, "env"), *argv = desk_argv(q);
	const int tty = json_is_true(json_object_get(q, "tty"));
	int theirs[3] = { -1, -1, -1 }, r;

	request_set_argv(rq, argv);
	request_set_env(rq, env ? json_incref(env) : json_array());
	request_set_silent(rq, 1);
	if (desk_user(d, q)[0])
		request_set_user(rq, desk_user(d, q));
	request_set_tty(rq, tty);
	if (!s)
		return -1;
	r = tty ? 0 : make_desk_pipes(theirs, ours, e);
	if (r == 0)
		r = wire_request(s->sock, rq, theirs, tty ? 0 : 3, e);
	if (r == 0 && tty)
		r = take_terminal(d, s, &ours[0], e);
	close_all(theirs, 3);
	*ret_count = tty ? 1 : 3;
	if (r < 0)
		end_desk_session(s);
	return r;
}

static int ask_sftp(struct sshdesk *d, const json_t *q, int ours[3], size_t *ret_count, struct err *e)
{
	static const char *const argv[] = { "sftp", NULL };
	struct sshdesk_session *s = begin_desk_session(d, q, e);
	struct fileclient f;
	int theirs[3] = { -1, -1, -1 }, r;

	if (!s)
		return -1;
	r = make_desk_pipes(theirs, ours, e);
	if (r == 0)
		r = fileclient_start(&f, s->sock, argv, desk_user(d, q), 0, theirs[0], theirs[1], e);
	if (r == 0)
		s->err_fd = f.err_fd;
	else
		end_desk_session(s);
	close_all(theirs, 3);
	*ret_count = 3;
	return r;
}

/* Sends rq, which it consumes, over sock for the socket that the keeper makes. */
static int take_keeper_socket(struct sshdesk *d, int sock, json_t *rq, int *ret_fd, struct err *e)
{
	const int r = sock < 0 || wire_request(sock, rq, NULL, 0, e) < 0 ? -1 : take_keeper_fd(d, sock, ret_fd, e);

	json_decref(rq);
	return r;
}

static int ask_port(struct sshdesk *d, const json_t *q, int *ret_fd, struct err *e)
{
	const json_int_t port = json_integer_value(json_object_get(q, "port"));
	autoclose int sock = -1;

	if (port < 1 || port > UINT16_MAX)
		return err_set(e, ERR_INVALID, "no port");
	sock = keeper_connect(d->registry, d->id, e);
	return take_keeper_socket(d, sock, netport_request((uint16_t)port, json_is_true(json_object_get(q, "ipv6"))), ret_fd, e);
}

static int ask_listen(struct sshdesk *d, const json_t *q, int *ret_fd, struct err *e)
{
	const json_int_t port = json_integer_value(json_object_get(q, "port"));
	json_t *rq = protocol_request(OP_listen);
	int r;

	request_set_port(rq, port > 0 && port <= UINT16_MAX ? (uint64_t)port : 0);
	if (d->listen_sock < 0)
		d->listen_sock = keeper_connect(d->registry, d->id, e);
	r = take_keeper_socket(d, d->listen_sock, rq, ret_fd, e);
	/* an answer that comes later is not the next one's */
	if (r < 0 && e->code == ERR_TIMEOUT)
		fd_close(&d->listen_sock);
	return r;
}

static int ask_signal(struct sshdesk *d, const json_t *q, struct err *e)
{
	struct sshdesk_session *s = desk_session_of(d, (unsigned)json_integer_value(json_object_get(q, "id")));
	const json_int_t signo = json_integer_value(json_object_get(q, "signal"));
	autojson json_t *rq = protocol_request(OP_forward);

	if (!s || signo < 1 || signo > 31)
		return 0;
	request_set_signal(rq, (uint64_t)signo);
	/* a keeper that has gone is seen on that socket */
	(void)wire_request(s->sock, rq, NULL, 0, e);
	return 0;
}

static int ask_login(struct sshdesk *d, const json_t *q, struct err *e)
{
	const char *user = json_string_value(json_object_get(q, "user")), *password = json_string_value(json_object_get(q, "password"));

	/* once: a client has one sandbox */
	if (!d->login.check || d->id[0] || !user || !password)
		return err_set(e, ERR_DENIED, "denied");
	return d->login.check(d->login.ctx, user, password, d->id, e);
}

static int answer_desk(struct sshdesk *d, const json_t *q, const char *ask, struct err *e)
{
	int fds[3] = { -1, -1, -1 }, r;
	size_t count = 1;
	struct err why = { 0 };
	json_t *answer = json_pack("{s:O}", "n", json_object_get(q, "n"));

	if (!strcmp(ask, "login"))
		r = (count = 0, ask_login(d, q, &why));
	else if (!d->id[0])
		r = err_set(&why, ERR_DENIED, "the client has not logged in");
	else if (!strcmp(ask, "exec"))
		r = ask_exec(d, q, fds, &count, &why);
	else if (!strcmp(ask, "sftp"))
		r = ask_sftp(d, q, fds, &count, &why);
	else if (!strcmp(ask, "port"))
		r = ask_port(d, q, fds, &why);
	else if (!strcmp(ask, "listen"))
		r = ask_listen(d, q, fds, &why);
	else
		r = err_set(&why, ERR_UNSUPPORTED, "no such question");
	if (r < 0)
		json_object_set_new(answer, "error", json_string(why.msg));
	r = send_desk(d, answer, fds, r < 0 ? 0 : count, e);
	close_all(fds, 3);
	return r;
}

/* One packet of berth-ssh's: 0; 1: it has ended. */
static int hear_helper(struct sshdesk *d, struct err *e)
{
	autofree char *text = malloc(DESK_PACKET + 1);
	autojson json_t *q = NULL;
	const char *ask, *failed;
	ssize_t n;

	if (!text)
		return err_nomem(e);
	n = recv(d->helper.sock, text, DESK_PACKET, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return 1;
	q = json_parse(text, (size_t)n, DESK_PACKET, "berth-ssh", e);
	if (!q)
		return -1;
	failed = json_string_value(json_object_get(q, "failed"));
	if (failed)
		return err_set(e, ERR_INVALID, "%.400s", failed);
	ask = json_string_value(json_object_get(q, "ask"));
	if (ask)
		return answer_desk(d, q, ask, e);
	if (json_object_get(q, "signal"))
		return ask_signal(d, q, e);
	if (json_object_get(q, "close")) {
		struct sshdesk_session *s = desk_session_of(d, (unsigned)json_integer_value(json_object_get(q, "close")));

		if (s)
			end_desk_session(s);
	}
	return 0;
}

/* ---- ends ---- */

/* Why a file helper has failed, which its one line on stderr says. */
static int note_helper(struct sshdesk_session *s, const json_t *verdict, struct buf *note, struct err *e)
{
	struct filecounts ignored;
	char line[600] = "";
	struct err why;
	const ssize_t n = read(s->err_fd, line, sizeof(line) - 1);

	line[n > 0 ? n : 0] = '\0';
	return fileclient_judge(verdict, line, &ignored, &why) < 0 ? buf_addf(note, e, "%s", why.msg) : 0;
}

static int tell_end(struct sshdesk *d, struct sshdesk_session *s, const json_t *verdict, const struct err *failed, struct err *e)
{
	const char *cause = json_string_value(json_object_get(verdict, "cause")), *name = NULL;
	autobuf struct buf note = BUF_INIT(2048);
	json_t *j = json_pack("{s:i,s:i}", "ended", (int)s->id, "status",
			      verdict ? (int)json_integer_value(json_object_get(verdict, "exit_status")) : DESK_FAILED);
	int r = 0;

	/* "SIGTERM": what berth itself ended has a status and a reason */
	if (cause && !strcmp(cause, "signal"))
		name = json_string_value(json_object_get(verdict, "signal_name"));
	if (name && !strncmp(name, "SIG", 3))
		json_object_set_new(j, "signal", json_string(name + 3));
	if (!verdict)
		r = buf_addf(&note, e, "%s", failed->msg);
	else if (s->err_fd >= 0)
		r = note_helper(s, verdict, &note, e);
	else if (!name)
		r = reason_text(verdict, &note, e);
	if (note.len)
		json_object_set_new(j, "note", json_stringn_nocheck(note.data, note.len));
	end_desk_session(s);
	return r < 0 ? (json_decref(j), -1) : send_desk(d, j, NULL, 0, e);
}

static int hear_keeper(struct sshdesk *d, struct sshdesk_session *s, struct err *e)
{
	autojson json_t *msg = NULL;
	struct err why = { 0 };
	int fds[WIRE_FDS_MAX], r;
	size_t n = 0;

	r = wire_recv(s->sock, 0, &msg, fds, WIRE_FDS_MAX, &n, &why);
	close_all(fds, n);
	if (r < 0 && why.code == ERR_TIMEOUT)
		return 0;
	if (r == 0)
		wire_ended(&why);
	if (r <= 0 || wire_check(msg, &why) < 0)
		return tell_end(d, s, NULL, &why, e);
	return json_object_get(msg, "ended") ? tell_end(d, s, json_object_get(msg, "verdict"), NULL, e) : 0;
}

/* The sandbox has ended, and its ports would keep its network. */
static int hear_listen_sock(struct sshdesk *d, struct err *e)
{
	fd_close(&d->listen_sock);
	return send_desk(d, json_pack("{s:b}", "over", 1), NULL, 0, e);
}

/* ---- the loop of its caller ---- */

void sshdesk_polls(const struct sshdesk *d, struct pollfd *p)
{
	size_t i;

	p[0] = (struct pollfd){ .fd = d->helper.sock, .events = POLLIN };
	for (i = 0; i < SSHDESK_SESSIONS; i++)
		p[1 + i] = (struct pollfd){ .fd = d->session[i].sock, .events = POLLIN };
	p[1 + SSHDESK_SESSIONS] = (struct pollfd){ .fd = d->listen_sock, .events = POLLIN };
}

int sshdesk_serve(struct sshdesk *d, const struct pollfd *p, struct err *e)
{
	size_t i;
	int r;

	for (i = 0; i < SSHDESK_SESSIONS; i++)
		if (d->session[i].sock >= 0 && p[1 + i].fd == d->session[i].sock && p[1 + i].revents &&
		    hear_keeper(d, &d->session[i], e) < 0)
			return -1;
	if (d->listen_sock >= 0 && p[1 + SSHDESK_SESSIONS].fd == d->listen_sock && p[1 + SSHDESK_SESSIONS].revents && hear_listen_sock(d, e) < 0)
		return -1;
	if (!p[0].revents)
		return 0;
	r = hear_helper(d, e);
	return r;
}
