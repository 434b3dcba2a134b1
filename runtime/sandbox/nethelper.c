/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S14 of SECURITY.md. */
#include "runtime/sandbox/nethelper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/program.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/net/names.h"
#include "runtime/net/netcount.h"
#include "runtime/net/netgroup.h"

#define ANSWER_MS 120000	/* time to set up; a loaded host is slow, and may have modules of the kernel
				 * to load */
#define UPDATE_MS 5000
#define RESOLV_MAX 65536

void nethelper_init(struct nethelper *h)
{
	memset(h, 0, sizeof(*h));
	h->proc.sock = h->resolver.sock = h->notice_fd = -1;
}

/* Puts berth-net's job into a sealed memory file. */
static int job_file(const char *text, struct err *e)
{
	autoclose int fd = memfd_create("berth-net-job", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || io_write_all(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) < 0)
		return err_sys(e, "hand over the network's set-up");
	return take_fd(&fd);
}

/* A page that can neither shrink nor grow: reading it never faults. */
static int counters_file(struct netcounters **ret, struct err *e)
{
	autoclose int fd = memfd_create("berth-net-counters", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p;

	if (fd < 0 || ftruncate(fd, sizeof(**ret)) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return err_sys(e, "make the network's counters");
	p = mmap(NULL, sizeof(**ret), PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return err_sys(e, "map the network's counters");
	*ret = p;
	return take_fd(&fd);
}

static int spawn_net_helper(struct helper *h, const char *verb, int *fds, struct err *e)
{
	char *argv[] = { (char *)NETHELPER_PROGRAM, (char *)verb, NULL };
	autoclose int program = program_open(NETHELPER_PROGRAM, e);

	return program < 0 ? -1 : helper_start(h, program, argv, fds + HELPER_SOCK + 1,
					  NETHELPER_FDS - HELPER_SOCK - 1, e);
}

static int open_helper_log(const char *dir, const char *name, struct err *e)
{
	char path[400];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? err_sys(e, "open %s", path) : fd;
}

/* Makes a file that is mounted now and written by berth-net later. */
static int make_network_file(const char *dir, const char *name, struct err *e)
{
	autoclose int fd = -1;
	char path[400];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return fd < 0 || fchmod(fd, 0644) < 0 ? err_sys(e, "make %s", path) : 0;
}

/* Makes the job for berth-net, as a sealed file; the uid is of the sandbox's own range. */
static int make_job(const struct spec *s, const char *policy, struct err *e)
{
	autobuf struct buf job = BUF_INIT(2 * 1024 * 1024);
	char names[SPEC_HOST_NAMES];

	/* an id of the sandbox's own range, which no other process of the host has, and which the
	 * image does not use */
	if (buf_addf(&job, e,
		     "{\"id\":\"%s\",\"name\":\"%s\",\"uid\":%u,\"hostname\":\"%s\",\"files\":"
		     "\"%s\",\"used_bytes\":%llu,\"used_connections\":%llu,\"lasts\":%s,"
		     "\"policy\":%s}",
		     s->id, s->name ? s->name : "", s->id_base + SPEC_IDS - 1, spec_host_names(s, names),
		     s->net_dir ? s->net_dir : "", (unsigned long long)s->net_used_bytes,
		     (unsigned long long)s->net_used_connections, s->resident ? "true" : "false",
		     policy) < 0)
		return -1;
	return job_file(job.data, e);
}

static void no_fds(int fds[NETHELPER_FDS])
{
	int i;

	for (i = 0; i < NETHELPER_FDS; i++)
		fds[i] = -1;
}

/* group_dir: of a network whose members share a budget and a log; or NULL. */
static int start_proxy(struct nethelper *h, const struct spec *s, const char *policy, int netns_fd,
		       const char *log_dir, const char *group_dir, struct err *e)
{
	autoclose int job = make_job(s, policy, e), counters = -1, log = -1, old = -1, notice = -1;
	autoclose int group = -1;
	int fds[NETHELPER_FDS], sv[2];

	if (job < 0 || (counters = counters_file(&h->counters, e)) < 0 ||
	    (group_dir && (group = netgroup_open(group_dir, e)) < 0))
		return -1;
	if (log_dir && ((log = open_helper_log(log_dir, NETHELPER_LOG_NAME, e)) < 0 ||
			(old = open_helper_log(log_dir, NETHELPER_LOG_OLD_NAME, e)) < 0))
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0)
		return err_sys(e, "make the socket of the network helper");
	h->notice_fd = sv[0];
	notice = sv[1];
	no_fds(fds);
	fds[NETHELPER_NETNS] = netns_fd;
	fds[NETHELPER_JOB] = job;
	fds[NETHELPER_COUNTERS] = counters;
	fds[NETHELPER_LOG] = log;
	fds[NETHELPER_LOG_OLD] = old;
	fds[NETHELPER_NOTICE] = notice;
	fds[NETHELPER_GROUP] = group;
	return spawn_net_helper(&h->proc, "egress", fds, e);
}

/* A job in a namespace, of a process that tells in its answer whether it stays. */
static int start_in(struct nethelper *h, const char *verb, const struct spec *s, const char *policy, int netns_fd, struct err *e)
{
	autoclose int job = make_job(s, policy, e);
	int fds[NETHELPER_FDS];

	if (job < 0)
		return -1;
	no_fds(fds);
	fds[NETHELPER_NETNS] = netns_fd;
	fds[NETHELPER_JOB] = job;
	return spawn_net_helper(&h->proc, verb, fds, e);
}

static int start_bridge(struct nethelper *h, const struct spec *s, int netns_fd, struct err *e)
{
	if (make_network_file(s->net_dir, "resolv.conf", e) < 0 || make_network_file(s->net_dir, "hosts", e) < 0)
		return -1;
	h->bridge = 1;
	return start_in(h, "bridge", s, s->net_policy, netns_fd, e);
}

int nethelper_start(struct nethelper *h, const struct spec *s, int netns_fd, const char *log_dir,
		    struct err *e)
{
	return s->network == NETWORK_EGRESS ?
		       start_proxy(h, s, s->net_policy, netns_fd, log_dir, NULL, e) :
		       start_bridge(h, s, netns_fd, e);
}

int nethelper_start_member(struct nethelper *h, const struct spec *s, int netns_fd, struct err *e)
{
	return !s->net_egress ? 0 : start_proxy(h, s, s->net_egress, netns_fd, s->net_group_dir,
						s->net_group_dir, e);
}

int nethelper_start_relay(struct nethelper *h, const struct spec *s, int netns_fd, struct err *e)
{
	return s->net_relay ? start_in(h, "relay", s, s->net_relay, netns_fd, e) : 0;
}

int nethelper_watch(struct nethelper *h, const struct spec *s, struct err *e)
{
	if (s->network != NETWORK_JOINED)
		return 0;
	h->notice_fd = fcntl(s->joined.init_fd, F_DUPFD_CLOEXEC, 3);
	return h->notice_fd < 0 ? err_sys(e, "watch sandbox %s", s->joined.id) : 0;
}

int nethelper_ready(struct nethelper *h, struct err *e)
{
	if (!h->proc.pid)
		return 0;
	if (helper_answer(&h->proc, ANSWER_MS, &h->told, e) < 0)
		return err_wrap(e, "network");
	if (!h->counters && !nethelper_serves(h, "loopback") && !nethelper_serves(h, "resolver"))
		helper_end(&h->proc, 0);	/* bridge: all is made */
	return 0;
}

/*
 * Calls a verb. With `soon` we do not wait for its end: it has answered, and does its slow removals
 * while we end.
 */
static int call_in(const char *verb, const char *job, int netns_fd, int soon, json_t **ret_answer,
		   struct err *e)
{
	autoclose int job_fd = job_file(job, e);
	int fds[NETHELPER_FDS], i;
	struct helper h = { .sock = -1 };
	int r;

	for (i = 0; i < NETHELPER_FDS; i++)
		fds[i] = -1;
	if (job_fd < 0)
		return -1;
	fds[NETHELPER_JOB] = job_fd;
	fds[NETHELPER_NETNS] = netns_fd;
	r = spawn_net_helper(&h, verb, fds, e);
	if (r == 0)
		r = helper_answer(&h, ANSWER_MS, ret_answer, e);
	if (r == 0 && soon)
		fd_close(&h.sock);
	else
		helper_end(&h, r < 0 ? SIGKILL : 0);
	return r;
}

static int call_net_helper(const char *verb, const char *job, int soon, json_t **ret_answer, struct err *e)
{
	return call_in(verb, job, -1, soon, ret_answer, e);
}

int nethelper_call(const char *verb, const char *job, json_t **ret_answer, struct err *e)
{
	return call_net_helper(verb, job, 0, ret_answer, e);
}

static int bridge_job(struct buf *job, const char *id, const char *extra, const char *policy, struct err *e)
{
	return buf_addf(job, e, "{\"id\":\"%s\"%s,\"policy\":%s}", id, extra, policy);
}

int nethelper_bridge(const char *verb, const char *id, const char *extra, const char *policy, json_t **ret_answer, struct err *e)
{
	autobuf struct buf job = BUF_INIT(2 * 1024 * 1024);

	return bridge_job(&job, id, extra, policy, e) < 0 ? -1 : call_net_helper(verb, job.data, 0, ret_answer, e);
}

static int change_bridge(const struct spec *s, const char *policy, int netns_fd, struct err *e)
{
	autobuf struct buf job = BUF_INIT(2 * 1024 * 1024);

	return bridge_job(&job, s->id, "", policy, e) < 0 ?
	       -1 : call_in("bridge-change", job.data, netns_fd, 0, NULL, e);
}

int nethelper_update(struct nethelper *h, const struct spec *s, const char *policy, int netns_fd,
		     uint64_t *ret_cut, struct err *e)
{
	autojson json_t *told = NULL;
	autoclose int fd = -1;
	char byte = 'u';

	*ret_cut = 0;
	/*
	 * packets are judged one by one: the next packet of a connection that is no longer
	 * allowed is dropped
	 */
	if (h->bridge)
		return change_bridge(s, policy, netns_fd, e);
	if (!h->proc.pid || !h->counters)
		return err_set(e, ERR_NOT_FOUND, "the sandbox has no proxy");
	fd = job_file(policy, e);
	if (fd < 0)
		return -1;
	if (fdpass_send(h->proc.sock, &byte, 1, &fd, 1) < 0)
		return err_code_sys(e, ERR_NET, "reach the sandbox's proxy");
	if (helper_answer(&h->proc, UPDATE_MS, &told, e) < 0)
		return err_wrap(e, "change the network policy");
	return json_get_u64(told, "cut", ret_cut, "answer of the proxy", e) < 0 ? -1 : 0;
}

/*
 * Returns the resolver of the network it was made with, or the one that a bridge without a name has
 * by now.
 */
static struct helper *resolver_of(struct nethelper *h)
{
	return nethelper_serves(h, "resolver") ? &h->proc : &h->resolver;
}

/* The resolver that stays with the sandbox hears of a network. */
static int tell_resolver(struct helper *h, const json_t *message, int fd, struct err *e)
{
	autofree char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

	if (!text)
		return err_nomem(e);
	if (fdpass_send(h->sock, text, strlen(text), &fd, fd >= 0) < 0)
		return err_code_sys(e, ERR_NET, "reach the sandbox's resolver");
	return helper_answer(h, UPDATE_MS, NULL, e);
}

static int tell_names(struct nethelper *h, const json_t *place, const json_t *told, struct err *e)
{
	const char *dir = json_string_value(json_object_get(place, "dir"));
	const char *address6 = json_string_value(json_object_get(told, "address6"));
	autojson json_t *message = json_pack("{s:O,s:O,s:O,s:b}", "join",
					     json_object_get(place, "network"), "pool",
					     json_object_get(place, "pool"), "pool6",
					     json_object_get(place, "pool6"), "with6",
					     address6 && address6[0]);
	autofree char *path = NULL;
	autoclose int fd = -1;

	if (!dir || asprintf(&path, "%s/names", dir) < 0)
		return err_nomem(e);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open %s", path) : tell_resolver(resolver_of(h), message, fd, e);
}

/* The search domains and options that the sandbox was made with, not those of berth's own lines. */
static int keeps_resolv_line(const char *line)
{
	return (!strncmp(line, "search ", 7) || !strncmp(line, "options ", 8)) && !strstr(NAMES_OWN_RESOLVER, line);
}

/* Of the file that the sandbox sees, in place. */
static int use_resolver(const char *net_dir, struct err *e)
{
	autobuf struct buf old = BUF_INIT(RESOLV_MAX), fresh = BUF_INIT(RESOLV_MAX);
	char path[400], *line, *save = NULL;
	autoclose int fd = -1;

	snprintf(path, sizeof(path), "%s/resolv.conf", net_dir);
	fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open %s", path);
	if (io_read_all(fd, &old, path, e) < 0 || buf_adds(&fresh, NAMES_OWN_RESOLVER, e) < 0)
		return -1;
	for (line = old.data ? strtok_r(old.data, "\n", &save) : NULL; line; line = strtok_r(NULL, "\n", &save))
		if (keeps_resolv_line(line) && buf_addf(&fresh, e, "%s\n", line) < 0)
			return -1;
	return ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0 || io_write_all(fd, fresh.data, fresh.len) < 0 ?
		       err_sys(e, "write %s", path) : 0;
}

/*
 * The bridge without a name has no resolver before its sandbox joins a network.  From then on there
 * is one until the sandbox ends: programs inside may have read its address.
 */
static int need_resolver(struct nethelper *h, const struct spec *s, int netns_fd, struct err *e)
{
	autoclose int job = -1;
	int fds[NETHELPER_FDS];

	if (resolver_of(h)->pid)
		return 0;
	if (!h->bridge || s->net_egress || !s->net_dir)
		return err_set(e, ERR_NOT_FOUND, "the sandbox has no resolver");
	job = make_job(s, s->net_policy, e);
	if (job < 0)
		return -1;
	no_fds(fds);
	fds[NETHELPER_NETNS] = netns_fd;
	fds[NETHELPER_JOB] = job;
	if (spawn_net_helper(&h->resolver, "bridge-resolver", fds, e) == 0 &&
	    helper_answer(&h->resolver, ANSWER_MS, NULL, e) == 0 && use_resolver(s->net_dir, e) == 0)
		return 0;
	helper_end(&h->resolver, SIGKILL);
	if (e->os_errno == EADDRINUSE)
		err_hint(e, "end the program in the sandbox that listens on port 53");
	return err_wrap(e, "network");
}

int nethelper_join(struct nethelper *h, const struct spec *s, const char *name, int netns_fd,
		   unsigned interface, const json_t *policy, json_t **ret_told, struct err *e)
{
	autofree char *text = json_dumps(policy, JSON_COMPACT);
	autobuf struct buf job = BUF_INIT(2 * 1024 * 1024);
	autojson json_t *told = NULL;
	struct err second;

	if (need_resolver(h, s, netns_fd, e) < 0)
		return -1;
	if (!text || buf_addf(&job, e, "{\"id\":\"%s\",\"name\":\"%s\",\"interface\":%u,"
			      "\"policy\":%s}", s->id, name, interface, text) < 0)
		return text ? -1 : err_nomem(e);
	if (call_in("bridge", job.data, netns_fd, 0, &told, e) < 0)
		return err_wrap(e, "network");
	if (tell_names(h, json_object_get(policy, "bridge"), told, e) < 0) {
		nethelper_part(h, s, policy, &second);
		return -1;
	}
	*ret_told = json_incref(told);
	return 0;
}

int nethelper_part(struct nethelper *h, const struct spec *s, const json_t *policy, struct err *e)
{
	autofree char *text = json_dumps(policy, JSON_COMPACT);
	autojson json_t *message = json_pack("{s:O}", "part",
					     json_object_get(json_object_get(policy, "bridge"),
							     "network"));
	struct err ignored;

	/* an ended resolver knows no names */
	if (resolver_of(h)->pid)
		tell_resolver(resolver_of(h), message, -1, &ignored);
	return text ? nethelper_bridge("bridge-down", s->id, "", text, NULL, e) : err_nomem(e);
}

static int leave_bridge(struct nethelper *h, const struct spec *s, struct err *e)
{
	autobuf struct buf job = BUF_INIT(2 * 1024 * 1024);
	autojson json_t *told = NULL;

	if (bridge_job(&job, s->id, "", s->net_policy, e) < 0 || call_net_helper("bridge-down", job.data, 1, &told, e) < 0 ||
	    json_get_u64(told, "bytes_in", &h->last.bytes_in, "answer of the network helper", e) < 0)
		return -1;
	return json_get_u64(told, "bytes_out", &h->last.bytes_out, "answer of the network helper", e) < 0 ? -1 : 0;
}

int nethelper_stop(struct nethelper *h, const struct spec *s, struct err *e)
{
	int r = 0;

	helper_end(&h->proc, SIGKILL);
	helper_end(&h->resolver, SIGKILL);
	fd_close(&h->notice_fd);
	if (h->counters) {
		h->last = *h->counters;
		munmap(h->counters, sizeof(*h->counters));
	}
	h->counters = NULL;
	if (h->bridge)
		r = leave_bridge(h, s, e);
	json_decref(h->told);
	h->told = NULL;
	if (r == 0)
		h->bridge = 0;
	return r;
}

/* ---- what berth-net counts ---- */

/* The counters of berth-net, and whether it still runs. */

int nethelper_serves(const struct nethelper *h, const char *what)
{
	return json_is_true(json_object_get(h->told, what));
}

static int is_zombie(pid_t pid)
{
	siginfo_t si = { 0 };

	return waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0 && si.si_pid == pid;
}

static int lives(const struct helper *h)
{
	return h->pid > 0 && kill(h->pid, 0) == 0 && !is_zombie(h->pid);
}

int nethelper_lives(const struct nethelper *h)
{
	return lives(&h->proc);
}

int nethelper_count(const struct nethelper *h, const struct spec *s, struct netcounters *ret, struct err *e)
{
	const char *table = json_string_value(json_object_get(h->told, "bridge"));
	struct netcount n;

	if (h->counters) {
		*ret = *h->counters;
		return 1;
	}
	if (!h->bridge || !table)
		return 0;
	if (netcount_read(table, s->id, &n, e) < 0)
		return -1;
	*ret = (struct netcounters){ .denied = n.refused, .bytes_in = n.bytes_in, .bytes_out = n.bytes_out, .over = n.over,
				     .exhausted = (uint64_t)n.exhausted };
	return 1;
}

uint64_t nethelper_used(const struct netcounters *c, const struct spec *s)
{
	return s->net_used_bytes + c->bytes_in + c->bytes_out;
}

static void describe_counts(json_t *j, const struct nethelper *h, const struct netcounters *c)
{
	const struct { const char *key; uint64_t v; int bridge, egress; } rows[] = {
		{ "requests", c->requests, 0, 1 }, { "allowed", c->allowed, 0, 1 }, { "denied", c->denied, 1, 1 },
		{ "failed", c->failed, 0, 1 }, { "over_limit", c->over, 1, 0 }, { "bytes_in", c->bytes_in, 1, 1 },
		{ "bytes_out", c->bytes_out, 1, 1 }, { "open", c->open, 0, 1 }, { "cut", c->cut, 0, 1 },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++)
		if (h->bridge ? rows[i].bridge : rows[i].egress)
			json_object_set_new(j, rows[i].key, json_integer((json_int_t)rows[i].v));
	json_object_set_new(j, "budget_exhausted", json_boolean(c->exhausted != 0));
}

static void describe_server(json_t *j, const struct nethelper *h)
{
	static const char *const kinds[] = { "loopback", "resolver" };
	const char *state;
	size_t i;

	if (h->resolver.pid)
		json_object_set_new(j, "resolver",
				    json_string(lives(&h->resolver) ? "running" : "gone"));
	if (!h->proc.pid)
		return;
	state = nethelper_lives(h) ? "running" : "gone";
	if (h->counters)
		json_object_set_new(j, "proxy", json_string(state));
	for (i = 0; i < ARRAY_LEN(kinds); i++)
		if (nethelper_serves(h, kinds[i]))
			json_object_set_new(j, kinds[i], json_string(state));
}

void nethelper_describe_relay(const struct nethelper *h, json_t *network)
{
	json_t *ports = json_object_get(h->told, "ports");

	if (!ports)
		return;
	json_object_set(network, "ports", ports);
	describe_server(network, h);
}

json_t *nethelper_describe(const struct nethelper *h, const struct spec *s)
{
	json_t *j = json_object();
	struct netcounters c;
	struct err e;
	int got;

	if (!j)
		return NULL;
	json_object_set_new(j, "mode", json_string(spec_network_name(
					       s->net_egress && !h->bridge ? NETWORK_EGRESS :
									     s->network)));
	if (h->bridge && h->told)
		json_object_update(j, h->told);
	if (s->network == NETWORK_JOINED) {
		json_object_set_new(j, "container", json_string(s->joined.id));
		json_object_set_new(j, "state", json_string(h->notice_fd < 0 ? "lost" : "joined"));
		json_object_set_new(j, "inside",
				    json_string(spec_network_name(s->joined.mode)));
	}
	got = nethelper_count(h, s, &c, &e);
	if (got > 0)
		describe_counts(j, h, &c);
	else if (got < 0)
		json_object_set_new(j, "error", json_string(e.msg));
	/* a proxy that has died lets nothing through: fail closed, and say so */
	describe_server(j, h);
	return j;
}
