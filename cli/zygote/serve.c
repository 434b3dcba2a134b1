/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor of a zygote.  Upholds S48 of SECURITY.md. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/zygote/zygote.h"
#include "manager/host/journal.h"
#include "manager/host/labels.h"
#include "manager/host/record.h"
#include "manager/ops/settleopt.h"
#include "manager/zygote/list.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/kernel/listening.h"
#include "runtime/sandbox/attest.h"

/* ---- The supervisor ---- */

#define FORK_MS 5000  /* for the zygote to fork, before it is ended */
#define AGAIN_MS 1000 /* between branches that fail, doubled for each fork that cannot be made */
#define DOUBLINGS_MAX 6
#define KEEPER_MS 5000 /* for a keeper to remove its sandbox when the zygote has ended */

static void end_branch(struct zygote *z, struct branch *b)
{
	struct err ignored;

	while (b->pid && waitpid(b->pid, NULL, 0) < 0 && errno == EINTR)
		;
	/* one that the host had no room for may have it now */
	if (b->state == BRANCH_BUSY && !z->failures)
		z->next_try_ms = 0;
	/* of a branch that was killed: its fork counts no more, and the range does */
	registry_give_back(&z->registry, &z->inner[b - z->branch], &ignored);
	if (b->state == BRANCH_MAKING) { /* it failed: not at once again */
		z->next_try_ms = clock_ms() + (AGAIN_MS << z->failures);
		if (z->mode == ZYGOTE_AHEAD && z->failures < DOUBLINGS_MAX)
			z->failures++;
	}
	fd_close(&b->pidfd);
	fd_close(&b->sock);
	*b = (struct branch){.state = BRANCH_NONE};
}

static void graft(struct zygote *z, struct branch *b, const struct home_ask *ask, const int *fds,
		  size_t n)
{
	struct home_answer a = {.err = {.code = ERR_NONE}};
	struct graft_place p = {.init = ask->init, .leaf = ask->leaf[0] ? ask->leaf : NULL};
	size_t i, names = GRAFT_NS_COUNT - !ask->has_time;

	if (n != 2 + ask->tasks + names || ask->tasks > CGROUP_JOIN_MAX) {
		err_set(&a.err, ERR_INTERNAL, "a branch asked for a fork with %zu descriptors", n);
	} else {
		p.cgroup_fd = fds[0];
		p.control_fd = fds[1];
		p.task_count = ask->tasks;
		memcpy(p.task_fd, fds + 2, ask->tasks * sizeof(int));
		for (i = 0; i < GRAFT_NS_COUNT; i++)
			p.ns_fd[i] = i < names ? fds[2 + ask->tasks + i] : -1;
		if (graft_fork(&z->stock, &p, FORK_MS, &a.graft, &a.err) == 0) {
			a.err.code = ERR_NONE;
			if (b->pid)
				b->state = BRANCH_IDLE;
			z->failures = 0;
		} else if (z->failures < DOUBLINGS_MAX) {
			z->failures++;
		}
	}
	(void)!send(b->sock, &a, sizeof(a), MSG_NOSIGNAL);
}

static void serve_branch(struct zygote *z, struct branch *b)
{
	int fds[2 + CGROUP_JOIN_MAX + GRAFT_NS_COUNT];
	struct home_ask ask;
	size_t n = 0, i;
	ssize_t got = fdpass_recv_flags(b->sock, &ask, sizeof(ask), fds, ARRAY_LEN(fds), &n,
					MSG_DONTWAIT);

	ask.leaf[sizeof(ask.leaf) - 1] = '\0';
	if (got == (ssize_t)sizeof(ask) && ask.word == HOME_GRAFT)
		graft(z, b, &ask, fds, n);
	else if (got == (ssize_t)sizeof(ask) && ask.word == HOME_TAKEN)
		b->state = BRANCH_BUSY;
	else if (got == (ssize_t)sizeof(ask) && ask.word == HOME_READY) {
		b->state = BRANCH_IDLE;
		z->failures = 0;
	}
	for (i = 0; i < n; i++)
		close(fds[i]);
	if (!b->pid && got == 0) /* its keeper has ended */
		end_branch(z, b);
}

struct spec_inside zygote_inside(const struct zygote *z, size_t i)
{
	return (struct spec_inside){.userns_fd = -1,
				    .pidns_fd = -1,
				    .owner_uid = z->claim.id_base + z->stock.uid,
				    .owner_gid = z->claim.id_base + z->stock.gid,
				    .id_at = (uint32_t)(i + 1) * SPEC_IDS};
}

void zygote_accept_home(struct zygote *z)
{
	struct home_place place = {.err = {.code = ERR_NONE}};
	autoclose int sock = accept4(z->home_fd, NULL, NULL, SOCK_CLOEXEC);
	struct graft_place p;
	int fds[2] = {-1, -1};
	size_t i, k;

	for (i = 0; i < z->max && z->branch[i].state != BRANCH_NONE; i++)
		;
	if (sock < 0)
		return;
	for (k = 0; k < GRAFT_NS_COUNT; k++)
		p.ns_fd[k] = -1;
	if (z->mode == ZYGOTE_AHEAD) {
		err_set(&place.err, ERR_UNSUPPORTED, "sandboxes cannot live in a zygote of node");
	} else if (i == z->max) {
		err_set(&place.err, ERR_BUSY,
			"all %u places of the zygote are taken, those of waiting forks too; hint: "
			"again later, or berth zygote create --forks",
			z->max);
	} else if (graft_open_namespaces(z->stock.init, &p, &place.err) == 0) {
		place.err.code = ERR_NONE;
		place.id_base = z->inner_base[i];
		place.inside = zygote_inside(z, i);
		fds[0] = p.ns_fd[GRAFT_USER];
		fds[1] = p.ns_fd[GRAFT_PID];
	}
	if (fdpass_send(sock, &place, sizeof(place), fds, fds[0] < 0 ? 0 : 2) == 0 && fds[0] >= 0)
		z->branch[i] = (struct branch){BRANCH_BUSY, 0, -1, take_fd(&sock)};
	for (k = 0; k < GRAFT_NS_COUNT; k++)
		fd_close(&p.ns_fd[k]);
}

/*
 * Keeps z->pool forks waiting, and one for each client that waits itself: of these, so many are
 * made at a time that no CPU is idle while one waits for the kernel.
 */
static void fill_pool(struct zygote *z)
{
	size_t i, ready = 0, wanted = z->pool, free_slot = z->max;
	struct err ignored;

	if (clock_ms() < z->next_try_ms)
		return;
	for (i = 0; i < z->max; i++) {
		ready += z->branch[i].state == BRANCH_MAKING || z->branch[i].state == BRANCH_IDLE;
		if (z->branch[i].state == BRANCH_NONE && free_slot == z->max)
			free_slot = i;
	}
	/* the kernel looks for our socket among all of the host's: not without a need */
	if (free_slot < z->max && ready < z->at_once && wanted < z->at_once) {
		const size_t waiting = backlog_count(z->listen_fd);

		if (waiting > wanted)
			wanted = waiting < z->at_once ? waiting : z->at_once;
	}
	for (; free_slot < z->max && ready < wanted; free_slot++) {
		if (z->branch[free_slot].state != BRANCH_NONE)
			continue;
		if (branch_start(z, free_slot, &ignored) < 0) {
			z->next_try_ms = clock_ms() + AGAIN_MS;
			return;
		}
		ready++;
	}
}

/* Whether one of its branches is in one of two states. */
static int has_branch(const struct zygote *z, enum branch_state a, enum branch_state b)
{
	size_t i;

	for (i = 0; i < z->max; i++)
		if (z->branch[i].state == a || z->branch[i].state == b)
			return 1;
	return 0;
}

/* A fork is idle or about to be: then a client needs nothing of us. */
static int has_spare(const struct zygote *z)
{
	return has_branch(z, BRANCH_MAKING, BRANCH_IDLE);
}

/* Until the zygote ends, or we are told to. */
static void serve_zygote(struct zygote *z, int signal_fd)
{
	static struct pollfd p[4 + 2 * SPEC_INNER_MAX];
	const long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	z->at_once = cpus < 2 ? 2 : (unsigned)cpus + 1;
	for (;;) {
		uint64_t now = clock_ms();
		int look, timeout = -1;
		size_t i;

		fill_pool(z);
		look = !has_spare(z) && has_branch(z, BRANCH_NONE, BRANCH_NONE);
		if (now < z->next_try_ms) {
			timeout = (int)(z->next_try_ms - now);
			look = 0;
		}
		p[0] = (struct pollfd){.fd = z->sandbox.sock, .events = POLLIN};
		p[1] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
		p[2] = (struct pollfd){.fd = look ? z->listen_fd : -1, .events = POLLIN};
		p[3] = (struct pollfd){.fd = z->home_fd, .events = POLLIN};
		for (i = 0; i < z->max; i++) {
			const struct branch *b = &z->branch[i];
			const int is = b->state != BRANCH_NONE;

			p[4 + 2 * i] = (struct pollfd){.fd = is ? b->sock : -1, .events = POLLIN};
			p[5 + 2 * i] = (struct pollfd){.fd = is ? b->pidfd : -1, .events = POLLIN};
		}
		if (poll(p, 4 + 2 * z->max, timeout) < 0 && errno != EINTR)
			return;
		if (p[0].revents || p[1].revents)
			return;
		for (i = 0; i < z->max; i++) {
			if (p[4 + 2 * i].revents & POLLIN)
				serve_branch(z, &z->branch[i]);
			if (p[5 + 2 * i].revents)
				end_branch(z, &z->branch[i]);
		}
		if (p[3].revents)
			zygote_accept_home(z);
	}
}

/* Its sandbox has died with ours, and it removes that. */
static void await_fork_keeper(const struct branch *b)
{
	const uint64_t until = clock_ms() + KEEPER_MS;
	struct pollfd p = {.fd = b->sock};
	uint64_t now;

	while ((now = clock_ms()) < until && poll(&p, 1, (int)(until - now)) <= 0)
		;
}

/*
 * Its forks die with it, and their branches remove them. The kernel keeps its pid namespace until
 * they have reaped theirs, so they are told first: one may wait for a fork that we do not make.
 */
static void take_down_zygote(struct zygote *z)
{
	struct err ignored;
	size_t i;
	int failed;

	for (i = 0; i < z->max; i++)
		if (z->branch[i].state != BRANCH_NONE)
			shutdown(z->branch[i].sock, z->branch[i].pid ? SHUT_RDWR : SHUT_WR);
	failed = sandbox_destroy(&z->sandbox, &ignored) < 0;
	for (i = 0; i < z->max; i++)
		if (z->branch[i].state != BRANCH_NONE) {
			if (!z->branch[i].pid)
				await_fork_keeper(&z->branch[i]);
			end_branch(z, &z->branch[i]);
		}
	for (i = 0; i < z->max; i++)
		fd_close(&z->inner[i].slot_fd);
	volumes_close(&z->volumes);
	fd_close(&z->listen_fd);
	fd_close(&z->home_fd);
	fd_close(&z->in_fd);
	fd_close(&z->preload.out_fd);
	if (failed)
		registry_abandon(&z->claim);
	registry_release(&z->registry, &z->claim, &ignored);
}

/* SIGCHLD is blocked for graft_fork(), which takes it. */
static int block_zygote_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	sigdelset(&set, SIGCHLD);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void detach_zygote_supervisor(void)
{
	autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int i;

	setsid();
	for (i = 0; i < 3; i++)
		dup2(null, i);
}

/* The tenant of berthd whose it is hears of it, too. */
static void tell_event(struct zygote *z, const char *event, const char *id, const char *image)
{
	events_add(&z->registry, event, id,
		   json_pack("{s:s*,s:s*,s:s*}", "image", image, "name", z->opts.name, "tenant",
			     z->tenant));
}

struct started {
	struct err err;
	char id[65];
};

static void supervisor(struct zygote *z, int told) __attribute__((noreturn));
static void supervisor(struct zygote *z, int told)
{
	struct started s = {.err = {.code = ERR_NONE}};
	int signal_fd;

	detach_zygote_supervisor();
	signal_fd = block_zygote_signals();
	z->told = told;
	if (zygote_make(z, &s.err) < 0) {
		take_down_zygote(z);
		(void)!io_write_all(told, &s, sizeof(s));
		(void)!io_write_all(told, z->preload.output, z->preload.output_len);
		_exit(1);
	}
	s.err.code = ERR_NONE; /* what was tried first on an older kernel has failed */
	snprintf(s.id, sizeof(s.id), "%s", z->claim.id);
	tell_event(z, "zygote-create", s.id, z->image_ref);
	/* who asked for it may be gone, and then nobody would ever learn its id */
	if (io_write_all(told, &s, sizeof(s)) == 0) {
		fd_close(&z->told);
		serve_zygote(z, signal_fd);
	}
	snprintf(s.id, sizeof(s.id), "%s", z->claim.id);
	take_down_zygote(z);
	tell_event(z, "zygote-end", s.id, NULL);
	_exit(0);
}

/* What the preload wrote, when it failed; our own error follows on a line of its own. */
static void show_output(int fd)
{
	char text[4096], last = '\n';
	ssize_t n;

	while ((n = read(fd, text, sizeof(text))) > 0) {
		(void)!io_write_all(STDERR_FILENO, text, (size_t)n);
		last = text[n - 1];
	}
	if (last != '\n')
		(void)!io_write_all(STDERR_FILENO, "\n", 1);
}

int zygote_start(struct zygote *z, char ret_id[65], struct err *e)
{
	struct started s;
	autoclose int hear_fd = -1;
	int fds[2], got;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	hear_fd = fds[0];
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		if (fork() == 0)
			supervisor(z, fds[1]);
		_exit(0);
	}
	close(fds[1]);
	if (pid < 0)
		return err_sys(e, "fork the zygote's supervisor");
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	got = io_read_exact(hear_fd, &s, sizeof(s));
	if (got != 1)
		return err_set(e, ERR_INTERNAL, "the zygote's supervisor died");
	if (s.err.code != ERR_NONE) {
		show_output(hear_fd);
		*e = s.err;
		return -1;
	}
	memcpy(ret_id, s.id, sizeof(s.id));
	return 0;
}

/* ---- Its sandbox, its preload ---- */

/* The zygote itself: its sandbox, its preload, and whether it can be forked. */

#define BACKLOG 4096 /* runs that wait for a fork; the kernel lowers it to net.core.somaxconn */

/* Ranges of ids for its forks, each with the promise of a sandbox: what they may take is bounded
 * from here on. */
static int reserve_zygote_forks(struct zygote *z, struct err *e)
{
	size_t i;

	for (i = 0; i < z->max; i++) {
		if (registry_claim_range(&z->registry, &z->claim, &z->promise, &z->inner[i], e) < 0)
			return err_wrap(e, "reserve fork %zu of %u", i + 1, z->max);
		z->inner_base[i] = z->inner[i].id_base;
	}
	return 0;
}

static int launch_zygote(struct zygote *z, struct err *e)
{
	char scratch[sizeof(z->config.run_dir) + 80];
	struct launch_place where = {scratch, -1, 0, z->registry.state_fd, scratch, 0};
	struct spec *s = &z->opts.spec;

	snprintf(s->id, sizeof(s->id), "%s", z->claim.id);
	s->id_base = z->claim.id_base;
	z->spec = *s;
	z->spec.network = NETWORK_NONE;
	z->spec.net_policy = z->spec.net_egress = z->spec.net_relay = NULL;
	z->spec.inner_base = z->inner_base;
	z->spec.inner_count = z->max;
	snprintf(scratch, sizeof(scratch), "%s/sandboxes/%s", z->config.run_dir, s->id);
	if (spec_wants_disk(s))
		z->disk_fd = fcntl(z->registry.state_fd, F_DUPFD_CLOEXEC, 3);
	where.disk_dirfd = z->disk_fd;
	where.disk_reserve = z->config.disk_reserve_bytes;
	z->noted = json_pack("{s:O}", "options", z->options);
	if (!z->noted)
		return err_nomem(e);
	if (sources_note(z->noted, e) < 0 ||
	    volumes_open(&z->volumes, &z->registry, &z->spec, z->promise.tenant, scratch, e) < 0 ||
	    sandbox_launch(&z->sandbox, &where, e) < 0 || attest_ready(&z->sandbox, e) < 0)
		return -1;
	return 0;
}

/* Its only process besides init. */
static int find_process(struct zygote *z, struct err *e)
{
	char text[4096], *p = text;

	if (cgroup_read(z->sandbox.cgroup.v2_fd, "cgroup.procs", text, sizeof(text)) < 0)
		return err_sys(e, "look at the zygote's processes");
	while (*p) {
		long pid = strtol(p, &p, 10);

		if (pid != z->sandbox.pid && !z->stock.pid)
			z->stock.pid = (pid_t)pid;
		p += strspn(p, "\n");
	}
	return z->stock.pid ? 0 : err_set(e, ERR_BUSY, "the zygote has ended");
}

static int examine_zygote(struct zygote *z, struct err *e)
{
	z->stock = (struct graft_stock){.init = z->sandbox.pid,
					.cgroup_fd = z->sandbox.cgroup.v2_fd,
					.caps = z->spec.caps,
					.workdir = z->spec.workdir};
	/* forks inherit the filter whose listener this is, and count in no budget: they load none
	 */
	fd_close(&z->sandbox.filters.fd);
	return find_process(z, e) < 0 ? -1 : graft_examine(&z->stock, z->claim.id_base, e);
}

static int listen_for_zygote_clients(struct zygote *z, const char *name, struct err *e)
{
	autoclose int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a;

	zygote_address(z->claim.dir_fd, name, &a);
	if (sock < 0 || bind(sock, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(sock, BACKLOG) < 0)
		return err_sys(e, "listen for clients of the zygote");
	return take_fd(&sock);
}

static int open_sockets(struct zygote *z, struct err *e)
{
	return (z->home_fd = listen_for_zygote_clients(z, ZYGOTE_HOME, e)) < 0 ||
			       (z->listen_fd = listen_for_zygote_clients(z, ZYGOTE_SOCKET, e)) < 0 ?
		       -1 :
		       0;
}

static int save_zygote(struct zygote *z, struct err *e)
{
	autojson json_t *record = NULL, *file = NULL;
	autofree char *text = NULL;
	char created[CLOCK_UTC];

	clock_utc(clock_now(CLOCK_REALTIME).tv_sec, created);
	record = record_new(z->claim.id, z->opts.name ? z->opts.name : "", z->image_ref,
			    RECORD_RUNNING, created);
	file = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:O,s:i,s:i,s:I,s:I,s:O,s:O*,s:O}", "id",
			 z->claim.id, "name", z->opts.name ? z->opts.name : "", "image",
			 z->image_ref, "created", created, "interpreter", z->interpreter, "mode",
			 z->mode == ZYGOTE_AHEAD ? "ahead" : "fork", "preload", z->command, "pool",
			 (int)z->pool, "forks", (int)z->max, "memory_bytes",
			 (json_int_t)z->spec.limits.memory_bytes, "cpu_milli",
			 (json_int_t)z->spec.limits.cpu_milli, "options", z->options, "seccomp",
			 z->seccomp, "sources", json_object_get(z->noted, "sources"));
	if (file && z->stock.pid)
		json_object_set_new(file, "pid", json_integer(z->stock.pid));
	text = file ? json_dumps(file, JSON_COMPACT) : NULL;
	if (!record || !text)
		return err_nomem(e);
	record_set_supervisor_pid(record, (uint64_t)getpid());
	record_set_init_pid(record, (uint64_t)z->sandbox.pid);
	record_set_zygote(record, 1);
	record_set_command(record, json_incref(z->command));
	record_set_labels(record, runopts_labels(&z->opts, z->image.image.labels));
	return record_save_run(&z->claim, record, e) < 0 ||
			       io_replace_file(z->claim.dir_fd, ZYGOTE_FILE, text, strlen(text),
					       0600, 0, e) < 0 ?
		       -1 :
		       0;
}

static int make_forked_zygote(struct zygote *z, struct err *e)
{
	struct job job = sandbox_job(&z->spec, INIT_LAST | INIT_MAKE_CWD | INIT_QUIET);

	z->preload.end_fd = z->told;
	if (preload_start(&z->preload, &z->sandbox, &job, &z->in_fd, e) < 0 ||
	    preload_await(&z->preload, &z->sandbox, e) < 0 || examine_zygote(z, e) < 0)
		return -1;
	return open_sockets(z, e);
}

static int make_ahead(struct zygote *z, struct err *e)
{
	z->stock.init = z->sandbox.pid;
	return open_sockets(z, e) < 0 || ahead_try(z, e) < 0 ? -1 : 0;
}

int zygote_make(struct zygote *z, struct err *e)
{
	z->sandbox.spec = &z->spec;
	if (registry_claim(&z->registry, z->opts.name, 0, &z->promise, &z->claim, e) < 0 ||
	    (z->tenant && zygote_own(&z->registry, &z->claim, &z->limits, z->max, e) < 0) ||
	    reserve_zygote_forks(z, e) < 0 || launch_zygote(z, e) < 0 ||
	    (z->mode == ZYGOTE_AHEAD ? make_ahead(z, e) : make_forked_zygote(z, e)) < 0)
		return -1;
	return save_zygote(z, e);
}
