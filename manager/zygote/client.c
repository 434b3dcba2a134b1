/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/zygote/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/zygote/list.h"
#include "manager/zygote/wire.h"
#include "runtime/kernel/fdpass.h"

/* ---- code in a fork ---- */

void zygote_address(int dir_fd, const char *name, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", dir_fd, name);
}

static int open_zygote_dir(struct registry *r, const char *ref, const char *id, struct err *e)
{
	autoclose int dir = openat(r->sandboxes_fd, id,
				   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0 || !path_has(dir, ZYGOTE_FILE))
		return err_set(e, ERR_INVALID,
			       "sandbox %.80s is not a zygote; hint: berth zygote ls", ref);
	return take_fd(&dir);
}

int zygote_open(struct registry *r, const char *ref, char ret_id[65], struct err *e)
{
	int kept;

	if (registry_find(r, ref, ret_id, &kept, e) < 0) {
		if (e->code != ERR_NOT_FOUND)
			return -1;
	} else if (zygote_is_meant(r, ref, ret_id)) {
		return open_zygote_dir(r, ref, ret_id, e);
	}
	return err_set(e, ERR_NOT_FOUND, "zygote '%.80s' not found; hint: berth zygote ls", ref);
}

int zygote_busy(const char *zygote, uint64_t waited_ms, struct err *e)
{
	return err_set(e, ERR_BUSY,
		       "no fork of zygote %.80s was free within %g s, as all are in use; hint: again later, a longer "
		       "--queue-timeout of berth run --zygote, or berth zygote create --forks",
		       zygote, (double)waited_ms / 1000);
}

/* Those that wait are as many as its socket holds. */
static int queue_is_full(const char *zygote, struct err *e)
{
	return err_set(e, ERR_BUSY, "too many runs wait for a fork of zygote %.80s; hint: again later, or berth zygote create --forks",
		       zygote);
}

int zygote_connect(int dir_fd, const char *name, int flags, const char *ref, struct err *e)
{
	struct sockaddr_un a;
	autoclose int sock = -1;

	zygote_address(dir_fd, name, &a);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
	if (sock < 0 || connect(sock, (struct sockaddr *)&a, sizeof(a)) < 0) {
		if (errno == ECONNREFUSED || errno == ENOENT)
			return err_set(
				e, ERR_NOT_FOUND,
				"zygote %.80s has ended; hint: berth zygote create makes it again",
				ref);
		return errno == EAGAIN ? queue_is_full(ref, e) :
					 err_sys(e, "connect to zygote %.80s", ref);
	}
	return take_fd(&sock);
}

static int connect_to(struct registry *r, const char *ref, struct err *e)
{
	char id[65];
	autoclose int dir = zygote_open(r, ref, id, e);

	return dir < 0 ? -1 :
			 zygote_connect(dir, ZYGOTE_SOCKET, SOCK_NONBLOCK, ref, e);
}

/* What agent.py reads, in its order. */
static int pack_zygote_request(const struct zygote_request *q, struct buf *b, struct err *e)
{
	const json_t *one;
	size_t i;

	if (buf_add(b, q->cwd, strlen(q->cwd) + 1, e) < 0 ||
	    buf_add(b, q->name, strlen(q->name) + 1, e) < 0 ||
	    buf_addf(b, e, "%zu", json_array_size(q->env)) < 0 || buf_add(b, "", 1, e) < 0)
		return -1;
	json_array_foreach (q->env, i, one)
		if (buf_add(b, json_string_value(one), json_string_length(one) + 1, e) < 0)
			return -1;
	if (buf_addf(b, e, "%zu", q->argc) < 0 || buf_add(b, "", 1, e) < 0)
		return -1;
	for (i = 0; i < q->argc; i++)
		if (buf_add(b, q->argv[i], strlen(q->argv[i]) + 1, e) < 0)
			return -1;
	return buf_add(b, q->code, q->code_len, e);
}

int zygote_request_file(const struct zygote_request *q, struct err *e)
{
	autobuf struct buf b = BUF_INIT(ZYGOTE_REQUEST_MAX);
	autoclose int file = -1;

	if (pack_zygote_request(q, &b, e) < 0)
		return err_wrap(e, "the code with its variables and arguments");
	file = memfd_create("berth-request", MFD_CLOEXEC);
	if (file < 0 || io_write_all(file, b.data, b.len) < 0)
		return err_sys(e, "write the code to memory");
	/* whoever gets it shall not keep us from emptying it: vm.memfd_noexec permits seals */
	(void)!fcntl(file, F_ADD_SEALS, F_SEAL_SEAL);
	return take_fd(&file);
}

static int send_request(int sock, const struct zygote_request *q, const int std[3], struct err *e)
{
	const struct zygote_ask ask = {.timeout_ms = q->timeout_ms};
	autoclose int file = zygote_request_file(q, e);
	const int fds[4] = {std[0], std[1], std[2], file};

	if (file < 0)
		return -1;
	return fdpass_send(sock, &ask, sizeof(ask), fds, ARRAY_LEN(fds)) < 0 ?
		       err_sys(e, "send the code to the zygote") :
		       0;
}

static void pass_signals(int sock, int signal_fd)
{
	struct signalfd_siginfo si;
	struct zygote_signal s;

	while (read(signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		s.signo = si.ssi_signo;
		(void)!send(sock, &s, sizeof(s), MSG_NOSIGNAL);
	}
}

int zygote_hear(int sock, int *ret_status, struct buf *ret_verdict, struct err *e)
{
	struct zygote_answer a;
	char packet[sizeof(a) + (64 << 10)];
	ssize_t n = recv(sock, packet, sizeof(packet), 0);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n < (ssize_t)sizeof(a))
		return err_set(e, ERR_BUSY, "the zygote has ended; hint: berth zygote ls");
	memcpy(&a, packet, sizeof(a));
	if (a.type == ZYGOTE_FAILED) {
		*e = a.err;
		return -1;
	}
	*ret_status = a.status;
	if (buf_add(ret_verdict, packet + sizeof(a), (size_t)n - sizeof(a), e) < 0)
		return -1;
	return (int)a.type;
}

void zygote_kill(int sock)
{
	const struct zygote_signal s = {.signo = SIGKILL};

	(void)!send(sock, &s, sizeof(s), MSG_NOSIGNAL);
}

int zygote_ask_for(struct registry *r, const struct zygote_request *q, const int std[3],
		   struct err *e)
{
	autoclose int sock = connect_to(r, q->zygote, e);

	return sock < 0 || send_request(sock, q, std, e) < 0 ? -1 : take_fd(&sock);
}

static int check_zygote_env(const json_t *env, struct err *e)
{
	const json_t *one;
	size_t i;

	json_array_foreach (env, i, one)
		if (json_string_value(one)[0] == '=' || !strchr(json_string_value(one), '='))
			return err_set(e, ERR_INVALID, "'%.80s' of \"env\" is not NAME=VALUE",
				       json_string_value(one));
	return 0;
}

/* The strings of an array, borrowed; NULL without memory. */
static char **strings_of(const json_t *list)
{
	char **v = calloc(json_array_size(list) + 1, sizeof(*v));
	size_t i;

	for (i = 0; v && i < json_array_size(list); i++)
		v[i] = (char *)(uintptr_t)json_string_value(json_array_get(list, i));
	return v;
}

int zygote_ask_json(struct registry *r, const char *zygote, const json_t *rq, const int std[3],
		    struct err *e)
{
	autobuf struct buf code = BUF_INIT(ZYGOTE_REQUEST_MAX);
	const json_t *args = json_object_get(rq, "args");
	const char *cwd = json_string_value(json_object_get(rq, "workdir"));
	autofree char **argv = strings_of(args);
	struct zygote_request q = {
		.zygote = zygote,
		.cwd = cwd ? cwd : ZYGOTE_WORKDIR,
		.name = "<string>",
		.env = json_object_get(rq, "env"),
		.argv = argv,
		.argc = json_array_size(args),
		.timeout_ms = UINT64_MAX,
	};
	int given = json_get_bytes(rq, "code", &code, "request", e);

	if (!argv)
		return err_nomem(e);
	if (given <= 0)
		return given < 0 ? -1 : err_set(e, ERR_INVALID, "no \"code\" given");
	if (q.cwd[0] != '/')
		return err_set(e, ERR_INVALID, "working directory '%.200s' must be absolute",
			       q.cwd);
	if (json_get_u64(rq, "timeout_ms", &q.timeout_ms, "request", e) < 0 ||
	    check_zygote_env(q.env, e) < 0)
		return -1;
	q.code = code.data ? code.data : "";
	q.code_len = code.len;
	return zygote_ask_for(r, &q, std, e);
}

int zygote_run(struct registry *r, const struct zygote_request *q, const int std[3], int signal_fd,
	       struct buf *ret_verdict, int *ret_status, struct err *e)
{
	autoclose int sock = zygote_ask_for(r, q, std, e);
	const uint64_t until = clock_ms() + q->wait_ms;
	int taken = 0, got;

	if (sock < 0)
		return -1;
	for (;;) {
		struct pollfd p[2] = {{.fd = sock, .events = POLLIN},
				      {.fd = signal_fd, .events = POLLIN}};
		uint64_t now = clock_ms();

		if (!taken && now >= until)
			return zygote_busy(q->zygote, q->wait_ms, e);
		if (poll(p, 2, taken ? -1 : (int)(until - now)) < 0 && errno != EINTR)
			return err_sys(e, "wait for the fork");
		if (p[1].revents)
			pass_signals(sock, signal_fd);
		if (!p[0].revents)
			continue;
		got = zygote_hear(sock, ret_status, ret_verdict, e);
		if (got < 0 || got == ZYGOTE_VERDICT)
			return got < 0 ? -1 : 0;
		taken |= got == ZYGOTE_TAKEN;
	}
}

/* ---- a place in a zygote ---- */

#define ANSWER_S 10 /* more than the supervisor gives a zygote to fork */

static int zygote_has_ended(struct err *e)
{
	return err_set(e, ERR_BUSY, "the zygote has ended");
}

int zygote_home_open(struct registry *r, const char *zygote, struct zygote_home *ret, struct err *e)
{
	const struct timeval limit = {.tv_sec = ANSWER_S};
	char id[65];
	autoclose int dir = zygote_open(r, zygote, id, e);
	autoclose int sock = dir < 0 ? -1 : zygote_connect(dir, ZYGOTE_HOME, 0, zygote, e);
	struct home_place place;
	int fds[2] = {-1, -1};
	size_t n = 0;

	if (sock < 0)
		return -1;
	setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (fdpass_recv(sock, &place, sizeof(place), fds, 2, &n) != (ssize_t)sizeof(place))
		return zygote_has_ended(e);
	if (place.err.code != ERR_NONE) {
		*e = place.err;
		return -1;
	}
	if (n != 2) {
		fd_close(&fds[0]);
		return err_set(e, ERR_INTERNAL, "a place in a zygote without its namespaces");
	}
	*ret = (struct zygote_home){take_fd(&sock), "", place.id_base, place.inside};
	snprintf(ret->zygote, sizeof(ret->zygote), "%s", id);
	ret->inside.userns_fd = fds[0];
	ret->inside.pidns_fd = fds[1];
	return 0;
}

void zygote_home_close(struct zygote_home *h)
{
	if (h->sock < 0)
		return;
	fd_close(&h->sock);
	fd_close(&h->inside.userns_fd);
	fd_close(&h->inside.pidns_fd);
}

/* The `tasks` files of v1: of each hierarchy that of the leaf, where it has one. */
static size_t joins(const struct cgroup *c, const struct cgroup *leaf, int *ret_fd)
{
	struct cgroup both = *c;
	size_t i;

	for (i = 0; leaf && i < CGROUP_JOIN_MAX; i++)
		if (leaf->join_fd[i] >= 0)
			both.join_fd[i] = leaf->join_fd[i];
	return cgroup_joins(&both, ret_fd);
}

int zygote_home_fork(int sock, pid_t init, const struct cgroup *c, const struct cgroup *leaf,
		     int control, struct graft *ret, struct err *e)
{
	struct home_ask ask = {.word = HOME_GRAFT, .init = init};
	struct home_answer answer;
	int fds[2 + CGROUP_JOIN_MAX + GRAFT_NS_COUNT];
	struct graft_place p = {.init = init};
	size_t n = 0, i;
	int sent;

	for (i = 0; i < GRAFT_NS_COUNT; i++)
		p.ns_fd[i] = -1;
	snprintf(ask.leaf, sizeof(ask.leaf), "%s", leaf ? leaf->name : "");
	fds[n++] = leaf ? leaf->v2_fd : c->v2_fd;
	fds[n++] = control;
	ask.tasks = (uint32_t)joins(c, leaf, fds + n);
	n += ask.tasks;
	sent = graft_open_namespaces(init, &p, e);
	ask.has_time = p.ns_fd[GRAFT_TIME] >= 0;
	for (i = 0; i < GRAFT_NS_COUNT; i++)
		if (p.ns_fd[i] >= 0)
			fds[n++] = p.ns_fd[i];
	if (sent == 0 && (fdpass_send(sock, &ask, sizeof(ask), fds, n) < 0 ||
			  recv(sock, &answer, sizeof(answer), 0) != (ssize_t)sizeof(answer)))
		sent = zygote_has_ended(e);
	for (i = 0; i < GRAFT_NS_COUNT; i++)
		fd_close(&p.ns_fd[i]);
	if (sent < 0)
		return -1;
	if (answer.err.code != ERR_NONE) {
		*e = answer.err;
		return -1;
	}
	*ret = answer.graft;
	return 0;
}
