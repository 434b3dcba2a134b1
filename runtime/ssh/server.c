/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S62 of SECURITY.md. */
#include "runtime/ssh/server.h"

#include <errno.h>
#include <fcntl.h>
#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <libssh/server.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/program.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/net/confine.h"

#define NOBODY 65534
#define MEMORY_BYTES (128UL << 20)
#define FILES_MAX (4 * SSH_CHANNELS + 64)
#define OUT_BYTES 32768
#define WINDOW_MAX (4U << 20)	/* more than libssh grants: the client sends beyond its window */
#define ANSWER_MS 60000
#define FAILED 125

enum chan_kind {
	CHAN_FREE,
	CHAN_SESSION,	/* nothing runs in it yet */
	CHAN_COMMAND,
	CHAN_STREAM,	/* a socket of the sandbox */
	CHAN_OPENING,	/* the same, which the client has not taken yet */
};

/* Bytes from the sandbox to the client. */
struct chan_out {
	int fd;
	size_t at, len;
	char buf[OUT_BYTES];
};

struct chan {
	enum chan_kind kind;
	ssh_channel ssh;
	struct ssh_channel_callbacks_struct callbacks;
	struct server *server;
	unsigned id;
	int in_fd;		/* takes what the client sends; may be the same file as out[0]'s */
	int in_ended, in_more;	/* the client has sent its end; libssh holds bytes that in_fd did not take */
	int gone;		/* the client has closed it */
	char *left;		/* bytes of the client's that libssh does not hold any more */
	size_t left_at, left_len;
	struct chan_out *out[2];	/* stdout, stderr */
	int ended, status;	/* of the command */
	char signal_name[16];
	char *note;		/* for its stderr, at its end */
	int is_tty;
	unsigned cols, rows;
	json_t *env;
	size_t env_bytes;
	const struct listening *from;	/* CHAN_OPENING */
};

struct listening {
	int fd;
	unsigned port;
	char address[64];	/* in the client's words, which knows it by them */
};

struct server {
	ssh_session ssh;
	ssh_event event;
	int sock;
	unsigned asked, last_id;
	int login, is_in, over;
	int leaving;		/* the connection ends with the last command: its sandbox has ended */
	int no_reader;		/* the request under way is eow@openssh.com */
	unsigned tries;
	char user[SSH_USER_MAX + 1];
	struct chan chans[SSH_CHANNELS];
	struct listening listens[SSH_LISTENS];
	char packet[SSH_PACKET + 1];
};

/* ---- questions ---- */

static int send_json(struct server *s, json_t *j)
{
	autofree char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	const size_t n = text ? strlen(text) : 0;

	json_decref(j);
	if (!n || n > SSH_PACKET) {
		errno = EMSGSIZE;
		return -1;
	}
	return send(s->sock, text, n, MSG_NOSIGNAL) < 0 ? -1 : 0;
}

static struct chan *chan_of(struct server *s, unsigned id)
{
	size_t i;

	for (i = 0; i < SSH_CHANNELS; i++)
		if (s->chans[i].kind != CHAN_FREE && s->chans[i].id == id)
			return &s->chans[i];
	return NULL;
}

/* Behind all that the command has written, what berth has to say. */
static void add_note(struct chan *c, struct chan_out *o)
{
	int n;

	if (!c->note || o != (c->out[1] ? c->out[1] : c->out[0]) || o->at < o->len || o->fd >= 0)
		return;
	/* a terminal in raw mode needs the carriage return */
	n = snprintf(o->buf, sizeof(o->buf), "berth: %.2000s%s", c->note, c->is_tty ? "\r\n" : "\n");
	o->at = 0;
	o->len = n > 0 ? (size_t)n : 0;
	free(c->note);
	c->note = NULL;
}

/* A port that listened would keep the sandbox's network, and not lead from its next run. */
static void leave_sandbox(struct server *s)
{
	size_t i;

	for (i = 0; i < SSH_LISTENS; i++)
		fd_close(&s->listens[i].fd);
	s->leaving = 1;
}

static int has_left(const struct server *s)
{
	size_t i;

	for (i = 0; i < SSH_CHANNELS; i++)
		if (s->chans[i].kind == CHAN_SESSION || s->chans[i].kind == CHAN_COMMAND)
			return 0;
	return s->leaving && !(ssh_get_status(s->ssh) & SSH_WRITE_PENDING);
}

static void note_end(struct server *s, const json_t *j)
{
	struct chan *c = chan_of(s, (unsigned)json_integer_value(json_object_get(j, "ended")));
	const char *name = json_string_value(json_object_get(j, "signal")), *note = json_string_value(json_object_get(j, "note"));

	if (json_is_true(json_object_get(j, "over")))
		leave_sandbox(s);
	if (!c || c->kind != CHAN_COMMAND)
		return;
	c->ended = 1;
	c->status = (int)json_integer_value(json_object_get(j, "status"));
	snprintf(c->signal_name, sizeof(c->signal_name), "%s", name ? name : "");
	free(c->note);
	c->note = note ? strdup(note) : NULL;
}

/* Takes one packet: 1 with *ret, and what came with it; 0: there is none; -1: its starter has gone. */
static int take_packet(struct server *s, json_t **ret, int fds[3], size_t *ret_count)
{
	const ssize_t n = fdpass_recv_flags(s->sock, s->packet, SSH_PACKET, fds, 3, ret_count, MSG_DONTWAIT);
	struct err ignored;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -1;
	*ret = json_parse(s->packet, (size_t)n, SSH_PACKET, "answer", &ignored);
	return *ret ? 1 : -1;
}

/* What comes without a question. */
static void hear_starter(struct server *s)
{
	int fds[3], r;
	size_t count = 0;
	json_t *j;

	while ((r = take_packet(s, &j, fds, &count)) > 0) {
		while (count)
			close(fds[--count]);
		note_end(s, j);
		json_decref(j);
	}
	if (r < 0)
		s->over = 1;
}

/*
 * Asks and waits: 0 with the descriptors, the missing ones -1; -1 with why.  Its starter answers at
 * once, and this process serves one client.
 */
static int ask_starter(struct server *s, json_t *question, int fds[3], char *why, size_t size)
{
	const uint64_t until = clock_ms() + ANSWER_MS;
	const unsigned n = ++s->asked;
	size_t count = 0;
	json_t *j = NULL;
	int r;

	fds[0] = fds[1] = fds[2] = -1;
	json_object_set_new(question, "n", json_integer(n));
	if (send_json(s, question) < 0) {
		snprintf(why, size, errno == EMSGSIZE ? "the request is too long, or is not UTF-8" : "berth has gone");
		return -1;
	}
	for (;;) {
		struct pollfd p = { .fd = s->sock, .events = POLLIN };
		const char *error;

		if (poll(&p, 1, clock_poll_ms(until, clock_ms(), ANSWER_MS)) == 0 || (r = take_packet(s, &j, fds, &count)) < 0) {
			s->over = 1;
			snprintf(why, size, "berth did not answer");
			return -1;
		}
		if (r == 0)
			continue;
		while (count < 3)
			fds[count++] = -1;
		if ((unsigned)json_integer_value(json_object_get(j, "n")) != n) {
			note_end(s, j);
			json_decref(j);
			continue;
		}
		error = json_string_value(json_object_get(j, "error"));
		if (error)
			snprintf(why, size, "%s", error);
		r = error ? -1 : 0;
		json_decref(j);
		return r;
	}
}

/* ---- channels ---- */

static void free_out(struct chan_out **o)
{
	if (*o)
		fd_close(&(*o)->fd);
	free(*o);
	*o = NULL;
}

static void close_in(struct chan *c)
{
	if (c->kind == CHAN_STREAM && c->in_fd >= 0)
		shutdown(c->in_fd, SHUT_WR);
	fd_close(&c->in_fd);
	free(c->left);
	c->left = NULL;
	c->left_at = c->left_len = 0;
	c->in_more = 0;
}

/* libssh frees the channel itself when the client has closed it, too. */
static void free_chan(struct chan *c)
{
	if (c->kind == CHAN_FREE)
		return;
	if (c->kind == CHAN_COMMAND && !c->ended)
		send_json(c->server, json_pack("{s:i}", "close", (int)c->id));
	close_in(c);
	free_out(&c->out[0]);
	free_out(&c->out[1]);
	json_decref(c->env);
	free(c->note);
	ssh_remove_channel_callbacks(c->ssh, &c->callbacks);
	if (ssh_channel_is_open(c->ssh))
		ssh_channel_close(c->ssh);
	ssh_channel_free(c->ssh);
	*c = (struct chan){ .kind = CHAN_FREE, .in_fd = -1 };
}

static int write_in(struct chan *c, const char *p, size_t n)
{
	const ssize_t w = write(c->in_fd, p, n);

	if (w >= 0)
		return (int)w;
	if (errno == EAGAIN || errno == EINTR)
		return 0;
	/* nobody reads any more: what still comes is for nobody */
	close_in(c);
	return -1;
}

static int take_data(ssh_session ssh, ssh_channel channel, void *data, uint32_t len, int is_stderr, void *ctx)
{
	struct chan *c = ctx;
	int n;

	(void)ssh, (void)channel;
	if (len > WINDOW_MAX)
		c->server->over = 1;
	if (is_stderr || c->gone)
		return (int)len;
	if (c->kind == CHAN_SESSION || c->left_len) {
		c->in_more = 1;
		return 0;
	}
	if (c->in_fd < 0)
		return (int)len;
	n = write_in(c, data, len);
	if (n < 0)
		return (int)len;
	c->in_more = (uint32_t)n < len;
	return n;
}

static void finish_in(struct chan *c)
{
	static const char end_of_file = 4;

	if (!c->in_ended || c->in_fd < 0 || c->in_more || c->left_len)
		return;
	/* the end of a terminal's input is a key */
	if (c->is_tty)
		(void)!write(c->in_fd, &end_of_file, 1);
	close_in(c);
}

/* in_fd takes bytes again. */
static void drain_in(struct chan *c)
{
	int n;

	if (!c->left_len && c->in_more) {
		/* all of it: libssh grants a whole window after each reading */
		const int held = ssh_channel_poll(c->ssh, 0);

		c->in_more = 0;
		c->left = held > 0 ? malloc((size_t)held) : NULL;
		n = c->left ? ssh_channel_read_nonblocking(c->ssh, c->left, (uint32_t)held, 0) : 0;
		c->left_at = 0;
		c->left_len = n > 0 ? (size_t)n : 0;
		if (held > 0 && !c->left)
			c->server->over = 1;
	}
	if (c->left_len) {
		n = write_in(c, c->left + c->left_at, c->left_len - c->left_at);
		if (n < 0)
			return;
		c->left_at += (size_t)n;
		if (c->left_at == c->left_len) {
			free(c->left);
			c->left = NULL;
			c->left_at = c->left_len = 0;
			/* what came meanwhile */
			c->in_more = ssh_channel_poll(c->ssh, 0) > 0;
		}
	}
	finish_in(c);
}

static void take_eof(ssh_session ssh, ssh_channel channel, void *ctx)
{
	struct chan *c = ctx;

	(void)ssh, (void)channel;
	c->in_ended = 1;
	finish_in(c);
}

static void take_close(ssh_session ssh, ssh_channel channel, void *ctx)
{
	struct chan *c = ctx;

	(void)ssh, (void)channel;
	c->gone = 1;
}

/* ---- what a session asks for ---- */

static int take_pty(ssh_session ssh, ssh_channel channel, const char *term, int cols, int rows, int x, int y, void *ctx)
{
	struct chan *c = ctx;
	char text[64];

	(void)ssh, (void)channel, (void)x, (void)y;
	/* once: what is kept of it has no other bound */
	if (c->kind != CHAN_SESSION || c->is_tty || strlen(term) > 40)
		return -1;
	c->is_tty = 1;
	c->cols = cols > 0 && cols <= 10000 ? (unsigned)cols : 0;
	c->rows = rows > 0 && rows <= 10000 ? (unsigned)rows : 0;
	snprintf(text, sizeof(text), "TERM=%s", term);
	if (term[0])
		json_array_append_new(c->env, json_string(text));
	return 0;
}

static int set_size(const struct chan *c)
{
	const struct winsize w = { .ws_col = (unsigned short)c->cols, .ws_row = (unsigned short)c->rows };

	return c->is_tty && c->in_fd >= 0 ? ioctl(c->in_fd, TIOCSWINSZ, &w) : 0;
}

static int take_size(ssh_session ssh, ssh_channel channel, int cols, int rows, int x, int y, void *ctx)
{
	struct chan *c = ctx;

	(void)ssh, (void)channel, (void)x, (void)y;
	if (!c->is_tty || cols < 0 || rows < 0 || cols > 10000 || rows > 10000)
		return -1;
	c->cols = (unsigned)cols;
	c->rows = (unsigned)rows;
	return set_size(c) < 0 ? -1 : 0;
}

static int take_env(ssh_session ssh, ssh_channel channel, const char *name, const char *value, void *ctx)
{
	static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
	const size_t n = strlen(name), bytes = n + strlen(value) + 2;
	struct chan *c = ctx;
	autofree char *text = malloc(bytes);

	(void)ssh, (void)channel;
	if (c->kind != CHAN_SESSION || !n || strspn(name, letters) != n || strspn(name, "0123456789") ||
	    json_array_size(c->env) >= SSH_ENV_MAX || c->env_bytes + bytes > SSH_ENV_BYTES || !text)
		return -1;
	snprintf(text, bytes, "%s=%s", name, value);
	c->env_bytes += bytes;
	return json_array_append_new(c->env, json_string(text)) < 0 ? -1 : 0;
}

static struct chan_out *new_out(int fd)
{
	struct chan_out *o = malloc(sizeof(*o));

	if (o) {
		o->fd = fd;
		o->at = o->len = 0;
	}
	return o;
}

/* Starts what the question names.  A refusal is told on the channel, with exit status 125. */
static int begin_chan_command(struct chan *c, json_t *question)
{
	struct server *s = c->server;
	char why[600] = "";
	int fds[3], r;

	if (c->kind != CHAN_SESSION || !question) {
		json_decref(question);
		return -1;
	}
	json_object_set_new(question, "id", json_integer((json_int_t)c->id));
	/* nobody becomes the sandbox's own user by a name that is not UTF-8 */
	if (json_object_set_new(question, "user", json_string(s->user)) < 0) {
		json_decref(question);
		return -1;
	}
	r = ask_starter(s, question, fds, why, sizeof(why));
	c->kind = CHAN_COMMAND;
	c->in_fd = fds[0];
	/* a terminal is one descriptor for both directions */
	if (c->cols && c->rows)
		set_size(c);
	if (c->is_tty && r == 0)
		fds[1] = fcntl(fds[0], F_DUPFD_CLOEXEC, 3);
	c->out[0] = new_out(fds[1]);
	c->out[1] = c->is_tty ? NULL : new_out(fds[2]);
	if (!c->out[0] || (!c->is_tty && !c->out[1]))
		return -1;
	if (r < 0) {
		c->ended = 1;
		c->status = FAILED;
		c->note = strdup(why);
	}
	/* what came before the command did */
	c->in_more = r == 0;
	return 0;
}

static int take_exec(ssh_session ssh, ssh_channel channel, const char *command, void *ctx)
{
	struct chan *c = ctx;
	json_t *q = json_pack("{s:s,s:O}", "ask", "exec", "env", c->env);

	(void)ssh, (void)channel;
	if (command && (!q || json_object_set_new(q, "command", json_string(command)) < 0)) {
		json_decref(q);
		return -1;
	}
	if (q && c->is_tty)
		json_object_set_new(q, "tty", json_true());
	return begin_chan_command(c, q);
}

static int take_shell(ssh_session ssh, ssh_channel channel, void *ctx)
{
	return take_exec(ssh, channel, NULL, ctx);
}

static int take_subsystem(ssh_session ssh, ssh_channel channel, const char *name, void *ctx)
{
	struct chan *c = ctx;

	(void)ssh, (void)channel;
	if (strcmp(name, "sftp") != 0)
		return -1;
	c->is_tty = 0;
	return begin_chan_command(c, json_pack("{s:s}", "ask", "sftp"));
}

static void take_chan_signal(ssh_session ssh, ssh_channel channel, const char *name, void *ctx)
{
	struct chan *c = ctx;
	const char *known;
	int i;

	(void)ssh, (void)channel;
	for (i = 1; i < 32; i++) {
		known = sigabbrev_np(i);
		if (known && !strcmp(known, name) && c->kind == CHAN_COMMAND && !c->ended)
			send_json(c->server, json_pack("{s:i,s:i}", "signal", i, "id", (int)c->id));
	}
}

/* ---- channels that the client opens ---- */

static struct chan *new_chan(struct server *s, enum chan_kind kind)
{
	struct chan *c = NULL;
	size_t i, sessions = 0, streams = 0;

	for (i = 0; i < SSH_CHANNELS; i++) {
		if (s->chans[i].kind == CHAN_FREE)
			c = &s->chans[i];
		sessions += s->chans[i].kind == CHAN_SESSION || s->chans[i].kind == CHAN_COMMAND;
		streams += s->chans[i].kind == CHAN_STREAM || s->chans[i].kind == CHAN_OPENING;
	}
	/* connections that the sandbox makes leave the sessions their places */
	if (!c || (kind == CHAN_SESSION ? sessions >= SSH_SESSIONS : streams >= SSH_CHANNELS - SSH_SESSIONS))
		return NULL;
	*c = (struct chan){ .kind = kind, .server = s, .id = ++s->last_id, .in_fd = -1, .env = json_array() };
	c->ssh = ssh_channel_new(s->ssh);
	c->callbacks = (struct ssh_channel_callbacks_struct){
		.userdata = c, .channel_data_function = take_data, .channel_eof_function = take_eof, .channel_close_function = take_close,
		.channel_signal_function = take_chan_signal, .channel_pty_request_function = take_pty,
		.channel_shell_request_function = take_shell, .channel_pty_window_change_function = take_size,
		.channel_exec_request_function = take_exec, .channel_env_request_function = take_env,
		.channel_subsystem_request_function = take_subsystem,
	};
	ssh_callbacks_init(&c->callbacks);
	if (!c->ssh || !c->env || ssh_set_channel_callbacks(c->ssh, &c->callbacks) != SSH_OK) {
		ssh_channel_free(c->ssh);
		json_decref(c->env);
		*c = (struct chan){ .kind = CHAN_FREE, .in_fd = -1 };
		return NULL;
	}
	return c;
}

static ssh_channel take_chan_session(ssh_session ssh, void *ctx)
{
	struct server *s = ctx;
	struct chan *c = s->is_in ? new_chan(s, CHAN_SESSION) : NULL;

	(void)ssh;
	return c ? c->ssh : NULL;
}

static int is_loopback(const char *host)
{
	return host && (!strcmp(host, "localhost") || !strcmp(host, "127.0.0.1") || !strcmp(host, "::1"));
}

/* A socket that is connected, or still connects: 127.0.0.1 first, then ::1. */
static int connect_inside_port(struct server *s, int port)
{
	char why[600];
	int fds[3], six;

	for (six = 0; six < 2; six++) {
		struct pollfd p = { .events = POLLOUT };
		int failed = 0;
		socklen_t n = sizeof(failed);

		if (ask_starter(s, json_pack("{s:s,s:i,s:b}", "ask", "port", "port", port, "ipv6", six), fds, why, sizeof(why)) < 0)
			continue;
		p.fd = fds[0];
		if (poll(&p, 1, 0) < 1 || (getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &failed, &n) == 0 && !failed))
			return p.fd;
		close(p.fd);
	}
	return -1;
}

static int begin_stream(struct chan *c, int fd)
{
	c->in_fd = fd;
	c->out[0] = new_out(fcntl(fd, F_DUPFD_CLOEXEC, 3));
	return c->out[0] && c->out[0]->fd >= 0 ? 0 : -1;
}

/* 0: accepted; 1: libssh refuses it. */
static int take_direct(struct server *s, ssh_message m)
{
	const int port = ssh_message_channel_request_open_destination_port(m);
	struct chan *c;
	int fd;

	if (!is_loopback(ssh_message_channel_request_open_destination(m)) || port < 1 || port > 65535)
		return 1;
	c = new_chan(s, CHAN_STREAM);
	if (!c)
		return 1;
	fd = connect_inside_port(s, port);
	if (fd < 0 || begin_stream(c, fd) < 0 || ssh_message_channel_request_open_reply_accept_channel(m, c->ssh) != SSH_OK) {
		free_chan(c);
		return 1;
	}
	return 0;
}

/*
 * OpenSSH's client says so when nobody reads what a command prints.  libssh gives the name of a
 * request that it does not know to its log alone, just before it gives the request to take_message().
 */
static void note_request(int priority, const char *function, const char *text, void *ctx)
{
	struct server *s = ctx;

	(void)priority, (void)function;
	if (strstr(text, " channel_request for channel "))
		s->no_reader = strstr(text, "Received a eow@openssh.com ") != NULL;
}

static void take_no_reader(struct server *s, ssh_channel channel)
{
	size_t i;

	for (i = 0; i < SSH_CHANNELS; i++) {
		struct chan *c = &s->chans[i];

		if (c->kind == CHAN_FREE || c->ssh != channel || !c->out[0])
			continue;
		/* the command gets SIGPIPE; a terminal goes on */
		if (!c->is_tty)
			fd_close(&c->out[0]->fd);
		c->out[0]->at = c->out[0]->len = 0;
	}
}

static int take_message(ssh_session ssh, ssh_message m, void *ctx)
{
	struct server *s = ctx;

	(void)ssh;
	if (s->no_reader && ssh_message_type(m) == SSH_REQUEST_CHANNEL) {
		s->no_reader = 0;
		take_no_reader(s, ssh_message_channel_request_channel(m));
	}
	if (s->is_in && ssh_message_type(m) == SSH_REQUEST_CHANNEL_OPEN && ssh_message_subtype(m) == SSH_CHANNEL_DIRECT_TCPIP)
		return take_direct(s, m);
	/* all else is refused: X11, agents, sockets by path, and more */
	return 1;
}

/* ---- ports in the sandbox that lead to the client ---- */

static struct listening *listening_at(struct server *s, const char *address, unsigned port)
{
	size_t i;

	for (i = 0; i < SSH_LISTENS; i++)
		if (s->listens[i].fd >= 0 && s->listens[i].port == port && !strcmp(s->listens[i].address, address))
			return &s->listens[i];
	return NULL;
}

static int listen_for(struct server *s, const char *address, int port)
{
	struct sockaddr_in a = { 0 };
	socklen_t n = sizeof(a);
	char why[600];
	int fds[3];
	size_t i;

	for (i = 0; i < SSH_LISTENS && s->listens[i].fd >= 0; i++)
		;
	if (i == SSH_LISTENS || !is_loopback(address) || port < 0 || port > 65535 ||
	    ask_starter(s, json_pack("{s:s,s:i}", "ask", "listen", "port", port), fds, why, sizeof(why)) < 0)
		return -1;
	if (getsockname(fds[0], (struct sockaddr *)&a, &n) < 0) {
		close(fds[0]);
		return -1;
	}
	s->listens[i].fd = fds[0];
	s->listens[i].port = ntohs(a.sin_port);
	snprintf(s->listens[i].address, sizeof(s->listens[i].address), "%s", address);
	return (int)s->listens[i].port;
}

static void take_global(ssh_session ssh, ssh_message m, void *ctx)
{
	struct server *s = ctx;
	const char *address = ssh_message_global_request_address(m);
	const int port = ssh_message_global_request_port(m);
	struct listening *l;
	int given;

	(void)ssh;
	if (s->is_in && address && ssh_message_subtype(m) == SSH_GLOBAL_REQUEST_TCPIP_FORWARD &&
	    (given = listen_for(s, address, port)) > 0) {
		ssh_message_global_request_reply_success(m, (uint16_t)given);
	} else if (s->is_in && address && ssh_message_subtype(m) == SSH_GLOBAL_REQUEST_CANCEL_TCPIP_FORWARD &&
		   (l = listening_at(s, address, (unsigned)port))) {
		fd_close(&l->fd);
		ssh_message_global_request_reply_success(m, 0);
	} else {
		ssh_message_reply_default(m);
	}
}

static void accept_reverse(struct server *s, const struct listening *l)
{
	const int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct chan *c = fd >= 0 ? new_chan(s, CHAN_OPENING) : NULL;

	if (!c) {
		if (fd >= 0)
			close(fd);
		return;
	}
	c->from = l;
	if (begin_stream(c, fd) < 0)
		free_chan(c);
}

static void open_reverse(struct chan *c)
{
	const int r = ssh_channel_open_reverse_forward(c->ssh, c->from->address, (int)c->from->port, "127.0.0.1", 0);

	if (r == SSH_OK)
		c->kind = CHAN_STREAM;
	else if (r != SSH_AGAIN)
		free_chan(c);
}

/* ---- who the client is ---- */

static int note_user(struct server *s, const char *user)
{
	if (strlen(user) > SSH_USER_MAX)
		return -1;
	strcpy(s->user, user);
	return 0;
}

static int take_none(ssh_session ssh, const char *user, void *ctx)
{
	struct server *s = ctx;

	(void)ssh;
	/* who has the other end of the pipe is known already */
	if (s->login || note_user(s, user) < 0)
		return SSH_AUTH_DENIED;
	s->is_in = 1;
	return SSH_AUTH_SUCCESS;
}

static int take_password(ssh_session ssh, const char *user, const char *password, void *ctx)
{
	struct server *s = ctx;
	char why[600];
	int fds[3];

	(void)ssh;
	if (!s->login || s->is_in || s->tries >= SSH_LOGIN_TRIES)
		return SSH_AUTH_DENIED;
	s->tries++;
	if (note_user(s, user) == 0 &&
	    ask_starter(s, json_pack("{s:s,s:s,s:s}", "ask", "login", "user", user, "password", password), fds, why, sizeof(why)) == 0) {
		s->is_in = 1;
		return SSH_AUTH_SUCCESS;
	}
	if (s->tries >= SSH_LOGIN_TRIES)
		s->over = 1;
	return SSH_AUTH_DENIED;
}

/* ---- the loop ---- */

/* Moves bytes of one output; 1: something went. */
static int move_out(struct chan *c, int is_stderr, int readable)
{
	struct chan_out *o = c->out[is_stderr];
	uint32_t window;
	ssize_t n;
	int w;

	if (!o || c->kind == CHAN_OPENING)
		return 0;
	if (o->at == o->len && o->fd >= 0 && (readable || c->ended)) {
		n = read(o->fd, o->buf, sizeof(o->buf));
		o->at = 0;
		o->len = n > 0 ? (size_t)n : 0;
		/* what processes that the command left behind write later is not waited for */
		if (n == 0 || (n < 0 && errno != EINTR && (errno != EAGAIN || c->ended)))
			fd_close(&o->fd);
	}
	add_note(c, o);
	window = ssh_channel_window_size(c->ssh);
	if (o->at == o->len || !window || ssh_get_status(c->server->ssh) & SSH_WRITE_PENDING)
		return 0;
	if (window > o->len - o->at)
		window = (uint32_t)(o->len - o->at);
	w = is_stderr ? ssh_channel_write_stderr(c->ssh, o->buf + o->at, window) : ssh_channel_write(c->ssh, o->buf + o->at, window);
	if (w < 0)
		c->gone = 1;
	else
		o->at += (size_t)w;
	return w > 0;
}

static int out_done(const struct chan_out *o)
{
	return !o || (o->fd < 0 && o->at == o->len);
}

/* Ends what is through. */
static void settle(struct chan *c)
{
	if (c->kind == CHAN_FREE)
		return;
	if (c->gone) {
		free_chan(c);
		return;
	}
	if (!out_done(c->out[0]) || !out_done(c->out[1]))
		return;
	if (c->kind == CHAN_COMMAND && c->ended) {
		if (c->signal_name[0])
			ssh_channel_request_send_exit_signal(c->ssh, c->signal_name, 0, "", "");
		else
			ssh_channel_request_send_exit_status(c->ssh, c->status);
		ssh_channel_send_eof(c->ssh);
		free_chan(c);
	} else if (c->kind == CHAN_STREAM && c->out[0]) {
		ssh_channel_send_eof(c->ssh);
		free_out(&c->out[0]);
	}
	if (c->kind == CHAN_STREAM && !c->out[0] && c->in_fd < 0)
		free_chan(c);
}

/* Fills in what the loop waits for: a place for each channel is three. */
#define POLLS_OTHER (2 + SSH_LISTENS)
#define POLLS_CHAN 3

static void fill_polls(struct server *s, struct pollfd *p)
{
	const int full = (ssh_get_status(s->ssh) & SSH_WRITE_PENDING) != 0;
	size_t i, j;

	p[0] = (struct pollfd){ .fd = SSH_CONN, .events = full ? POLLIN | POLLOUT : POLLIN };
	p[1] = (struct pollfd){ .fd = s->sock, .events = POLLIN };
	for (i = 0; i < SSH_LISTENS; i++)
		p[2 + i] = (struct pollfd){ .fd = s->listens[i].fd, .events = POLLIN };
	for (i = 0; i < SSH_CHANNELS; i++) {
		struct pollfd *q = p + POLLS_OTHER + POLLS_CHAN * i;
		struct chan *c = &s->chans[i];

		q[2] = (struct pollfd){ .fd = c->kind != CHAN_FREE && (c->in_more || c->left_len) ? c->in_fd : -1, .events = POLLOUT };
		for (j = 0; j < 2; j++) {
			const struct chan_out *o = c->kind == CHAN_FREE || c->kind == CHAN_OPENING ? NULL : c->out[j];
			const int wanted = o && o->at == o->len && !full && ssh_channel_window_size(c->ssh) > 0;

			q[j] = (struct pollfd){ .fd = wanted ? o->fd : -1, .events = POLLIN };
		}
	}
}

static void serve_chan(struct chan *c, const struct pollfd *q)
{
	if (c->kind == CHAN_FREE)
		return;
	if (c->kind == CHAN_OPENING)
		open_reverse(c);
	if (c->kind != CHAN_FREE && c->in_fd >= 0 && q[2].fd >= 0 && q[2].revents)
		drain_in(c);
	if (c->kind != CHAN_FREE) {
		move_out(c, 0, q[0].fd >= 0 && q[0].revents);
		move_out(c, 1, q[1].fd >= 0 && q[1].revents);
	}
	settle(c);
}

static int server_loop(struct server *s)
{
	static struct pollfd p[POLLS_OTHER + POLLS_CHAN * SSH_CHANNELS];
	const uint64_t login_until = clock_ms() + SSH_LOGIN_MS;
	size_t i;

	while (!s->over && !has_left(s)) {
		fill_polls(s, p);
		if (poll(p, sizeof(p) / sizeof(p[0]), s->is_in ? -1 : clock_poll_ms(login_until, clock_ms(), SSH_LOGIN_MS)) < 0 && errno != EINTR)
			return -1;
		if (!s->is_in && clock_ms() >= login_until)
			return -1;
		if (p[1].revents)
			hear_starter(s);
		if (p[0].revents && ssh_event_dopoll(s->event, 0) == SSH_ERROR)
			return 0;
		if (ssh_get_status(s->ssh) & (SSH_CLOSED | SSH_CLOSED_ERROR))
			return 0;
		for (i = 0; i < SSH_LISTENS; i++)
			if (s->listens[i].fd >= 0 && p[2 + i].fd == s->listens[i].fd && p[2 + i].revents)
				accept_reverse(s, &s->listens[i]);
		for (i = 0; i < SSH_CHANNELS; i++)
			serve_chan(&s->chans[i], p + POLLS_OTHER + POLLS_CHAN * i);
	}
	return 0;
}

/* ---- the beginning ---- */

static int take_host_key(ssh_bind bind, const char *text, struct err *e)
{
	ssh_key key = NULL;

	if (ssh_pki_import_privkey_base64(text, NULL, NULL, NULL, &key) != SSH_OK || ssh_bind_options_set(bind, SSH_BIND_OPTIONS_IMPORT_KEY, key) < 0)
		return err_set(e, ERR_INVALID, "the host key is no private key; hint: remove it, and a new one is made");
	return 0;
}

static int take_ssh_job(struct server *s, ssh_bind bind, pid_t *ret_parent, struct err *e)
{
	const ssize_t n = recv(s->sock, s->packet, SSH_PACKET, 0);
	autojson json_t *j = n > 0 ? json_parse(s->packet, (size_t)n, SSH_PACKET, "job", e) : NULL;
	const char *key = NULL;
	json_t *job = NULL;
	uint64_t parent = 0;

	if (!j || json_get_obj(j, "job", &job, "job", e) < 1 || json_get_u64(job, "parent", &parent, "job", e) < 1 ||
	    json_get_bool(job, "login", &s->login, "job", e) < 1 || json_get_str(job, "key", &key, "job", e) < 1)
		return err_set(e, ERR_INTERNAL, "berth-ssh: a malformed job");
	*ret_parent = (pid_t)parent;
	return take_host_key(bind, key, e);
}

static int begin_ssh(struct server *s, ssh_bind bind, struct err *e)
{
	static struct ssh_callbacks_struct callbacks = { .global_request_function = take_global };
	static struct ssh_server_callbacks_struct server = {
		.auth_none_function = take_none, .auth_password_function = take_password,
		.channel_open_request_session_function = take_chan_session,
	};
	const int no = 0;

	ssh_bind_options_set(bind, SSH_BIND_OPTIONS_PROCESS_CONFIG, &no);
	/* OpenSSH's client says that nobody reads (note_request()) only to a server that begins so */
	ssh_bind_options_set(bind, SSH_BIND_OPTIONS_BANNER, "OpenSSH_like_berth");
	s->ssh = ssh_new();
	s->event = ssh_event_new();
	if (!s->ssh || !s->event || ssh_bind_accept_fd(bind, s->ssh, SSH_CONN) != SSH_OK)
		return err_set(e, ERR_INTERNAL, "begin SSH: %.200s", s->ssh ? ssh_get_error(bind) : "no memory");
	callbacks.userdata = server.userdata = s;
	ssh_callbacks_init(&callbacks);
	ssh_callbacks_init(&server);
	ssh_set_callbacks(s->ssh, &callbacks);
	ssh_set_server_callbacks(s->ssh, &server);
	ssh_set_message_callback(s->ssh, take_message, s);
	ssh_set_log_userdata(s);
	ssh_set_log_callback(note_request);
	ssh_set_log_level(SSH_LOG_PACKET);
	ssh_set_auth_methods(s->ssh, s->login ? SSH_AUTH_METHOD_PASSWORD : SSH_AUTH_METHOD_NONE);
	ssh_set_blocking(s->ssh, 0);
	if (ssh_handle_key_exchange(s->ssh) == SSH_ERROR || ssh_event_add_session(s->event, s->ssh) != SSH_OK)
		return err_set(e, ERR_INVALID, "begin SSH: %.200s", ssh_get_error(s->ssh));
	return 0;
}

int server_run(struct err *e)
{
	static const struct confine_as how = { .uid = NOBODY, .files = FILES_MAX, .memory_bytes = MEMORY_BYTES, .no_sockets = 1 };
	struct server *s = calloc(1, sizeof(*s));
	ssh_bind bind;
	pid_t parent = 0;
	size_t i;

	if (!s)
		return err_nomem(e);
	s->sock = HELPER_SOCK;
	for (i = 0; i < SSH_CHANNELS; i++)
		s->chans[i].in_fd = -1;
	for (i = 0; i < SSH_LISTENS; i++)
		s->listens[i].fd = -1;
	/* what libssh and OpenSSL read from files they read before there are none */
	bind = ssh_init() == SSH_OK ? ssh_bind_new() : NULL;
	if (!bind)
		return err_set(e, ERR_INTERNAL, "libssh does not begin");
	if (take_ssh_job(s, bind, &parent, e) < 0 || confine_how(&how, parent, e) < 0)
		return -1;
	send_json(s, json_pack("{s:b}", "ready", 1));
	if (begin_ssh(s, bind, e) < 0)
		return -1;
	server_loop(s);
	ssh_disconnect(s->ssh);
	return 0;
}

int server_make_key(int private_fd, int public_fd, struct err *e)
{
	ssh_key key = NULL;
	char *text = NULL, *public = NULL, line[1000];
	int n, r = -1;

	if (ssh_init() != SSH_OK || ssh_pki_generate(SSH_KEYTYPE_ED25519, 0, &key) != SSH_OK ||
	    ssh_pki_export_privkey_base64(key, NULL, NULL, NULL, &text) != SSH_OK || ssh_pki_export_pubkey_base64(key, &public) != SSH_OK)
		return err_set(e, ERR_INTERNAL, "libssh makes no key");
	n = snprintf(line, sizeof(line), "%s %s\n", ssh_key_type_to_char(ssh_key_type(key)), public);
	if (n > 0 && (size_t)n < sizeof(line) && io_write_all(private_fd, text, strlen(text)) == 0 &&
	    io_write_all(public_fd, line, (size_t)n) == 0)
		r = 0;
	else
		err_sys(e, "write a host key");
	ssh_string_free_char(text);
	ssh_string_free_char(public);
	ssh_key_free(key);
	return r;
}
