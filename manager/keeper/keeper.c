/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/phases.h"
#include "manager/host/journal.h"
#include "manager/host/record.h"
#include "manager/host/rights.h"
#include "manager/keeper/keeper_session.h"
#include "manager/keeper/keeper_state.h"
#include "runtime/kernel/tty.h"
#include "runtime/sandbox/attest.h"
#include "runtime/sandbox/writable.h"

#define FILES_MAX 16384

/* ---- the loop ---------------------------------------------------------------- */

enum watch_kind { WATCH_LISTEN, WATCH_INIT, WATCH_SIGNAL, WATCH_OOM, WATCH_CLIENT, WATCH_COMMAND, WATCH_INPUT, WATCH_SESSION, WATCH_STATUS,
		  WATCH_NETWORK, WATCH_FILTERS, WATCH_OWNER, WATCH_CALLER, WATCH_CHECKPOINT,
		  WATCH_DRAINED, WATCH_CODE };

struct watch {
	enum watch_kind kind;
	int index, which;
};

#define WATCHES_MAX (10 + KEEPER_CLIENTS + 4 * KEEPER_COMMANDS + 3 * KEEPER_SESSIONS)

struct watches {
	struct pollfd p[WATCHES_MAX];
	struct watch w[WATCHES_MAX];
	nfds_t n;
};

static void add_watch(struct watches *ws, int fd, enum watch_kind kind, int index, int which)
{
	if (fd < 0)
		return;
	ws->p[ws->n] = (struct pollfd){ .fd = fd, .events = kind == WATCH_INPUT ? POLLOUT : POLLIN };
	ws->w[ws->n++] = (struct watch){ kind, index, which };
}

static void watch_keeper_fds(struct keeper *k, struct watches *ws)
{
	int i;

	ws->n = 0;
	add_watch(ws, k->sandbox.sock, WATCH_INIT, 0, 0);
	add_watch(ws, k->signal_fd, WATCH_SIGNAL, 0, 0);
	add_watch(ws, k->sandbox.cgroup.oom_fd, WATCH_OOM, 0, 0);
	add_watch(ws, k->listen_fd, WATCH_LISTEN, 0, 0);
	add_watch(ws, sandbox_meter(&k->sandbox)->notice_fd, WATCH_NETWORK, 0, 0);
	add_watch(ws, k->sandbox.filters.fd, WATCH_FILTERS, 0, 0);
	add_watch(ws, k->owner_fd, WATCH_OWNER, 0, 0);
	add_watch(ws, k->code.status_fd, WATCH_CODE, 0, 0);
	add_watch(ws, k->checkpoint.pid ? k->checkpoint.sock : -1, WATCH_CHECKPOINT, 0, 0);
	for (i = 0; i < KEEPER_COMMANDS; i++) {
		if (!k->commands[i])
			continue;
		if (!keeper_follow_lags(k, k->commands[i]) && !keeper_main_rests(k, k->commands[i]))
			add_watch(ws, k->commands[i]->out_fd[0], WATCH_COMMAND, i, 0);
		if (!keeper_follow_lags(k, k->commands[i]) && !keeper_main_rests(k, k->commands[i]))
			add_watch(ws, k->commands[i]->out_fd[1], WATCH_COMMAND, i, 1);
		if (k->commands[i]->draining)
			add_watch(ws, k->commands[i]->silence.fd, WATCH_DRAINED, i, 0);
		if (keeper_send_waits(k, k->commands[i]))
			add_watch(ws, k->commands[i]->in_fd, WATCH_INPUT, i, 0);
	}
	for (i = 0; i < KEEPER_SESSIONS; i++) {
		struct keeper_session *s = &k->sessions[i];

		if (!s->name[0])
			continue;
		add_watch(ws, s->out_fd, WATCH_SESSION, i, 0);
		add_watch(ws, s->err_fd, WATCH_SESSION, i, 1);
		add_watch(ws, s->status_fd, WATCH_STATUS, i, 0);
	}
	for (i = 0; i < KEEPER_CLIENTS; i++)
		add_watch(ws, k->clients[i].fd, WATCH_CLIENT, i, 0);
}

const struct keeper_part *const keeper_parts[] = {
#define X(name) &keeper_part_##name,
	KEEPER_PARTS(X)
#undef X
	NULL
};

static int next_keeper_timeout(struct keeper *k)
{
	uint64_t at = 0, now = clock_ms();
	size_t i;

	for (i = 0; keeper_parts[i]; i++)
		at = clock_earlier(at, keeper_parts[i]->next(k));
	if (k->oom_until_ms)
		at = now + 5;
	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i])
			at = clock_earlier(at, keeper_command_next_deadline(k->commands[i]));
	for (i = 0; i < KEEPER_SESSIONS; i++)
		if (k->sessions[i].name[0])
			at = clock_earlier(at, session_next_deadline(&k->sessions[i]));
	return clock_poll_ms(at, now, 60000);
}

static void serve_keeper_deadlines(struct keeper *k)
{
	uint64_t now = clock_ms();
	int i;

	keeper_part_health.check(k, now);	/* first: a check of a frozen sandbox has no deadline */
	if (k->oom_until_ms) {
		keeper_command_check_oom(k);
		if (now >= k->oom_until_ms)
			k->oom_until_ms = 0;
	}
	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i])
			keeper_command_deadline(k, k->commands[i], now);
	for (i = 0; i < KEEPER_SESSIONS; i++)
		if (k->sessions[i].name[0])
			session_deadline(k, &k->sessions[i], now);
	for (i = 0; keeper_parts[i]; i++)
		if (keeper_parts[i] != &keeper_part_health)
			keeper_parts[i]->check(k, now);
}

static const char init_ended[] = "its init ended";

static void serve_init(struct keeper *k)
{
	struct init_reply r;
	struct err e;
	int got = 1, n;

	for (n = 0; n < 16 && got == 1; n++)
		if ((got = sandbox_reply(&k->sandbox, &r, 0, &e)) == 1)
			keeper_command_reply(k, &r);
	keeper_command_announce(k);
	if (got == 0 || (got < 0 && e.code != ERR_BUSY)) {
		k->stopping = 1;	/* init is gone, or says what only a hostile one would */
		k->stop_reason = init_ended;
	}
}

/* Signals that mean nothing to a keeper, but would end it uncleanly. */
static const int ends[] = { SIGTERM, SIGINT, SIGQUIT }, says_nothing[] = { SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF };

static void take_signal(struct keeper *k)
{
	struct signalfd_siginfo si;
	size_t i;

	if (read(k->signal_fd, &si, sizeof(si)) != sizeof(si))
		return;
	for (i = 0; i < ARRAY_LEN(ends); i++)
		if ((int)si.ssi_signo == ends[i]) {
			k->stop_reason = "the keeper was told to end by a signal";
			/* a service is given the time to end well, as the host may go down */
			keeper_stop_begin(k, k->main.service ? keeper_main_grace_ms(k) : 0);
		}
}

static void serve_watched(struct keeper *k, const struct watch *w)
{
	/* a client's operation decides whether it counts: a mere question changes nothing */
	if (w->kind != WATCH_LISTEN && w->kind != WATCH_CLIENT)
		keeper_idle_move(k);
	switch (w->kind) {
	case WATCH_LISTEN:
		keeper_accept(k);
		break;
	case WATCH_INIT:
		serve_init(k);
		break;
	case WATCH_SIGNAL:
		take_signal(k);
		break;
	case WATCH_OOM:
		keeper_command_oom(k);
		break;
	case WATCH_CLIENT:
		if (k->clients[w->index].fd >= 0)
			keeper_serve_client(k, w->index);
		break;
	case WATCH_COMMAND:
		if (k->commands[w->index])
			keeper_command_read(k, k->commands[w->index], w->which);
		break;
	case WATCH_DRAINED:
		keeper_silence_drained(k, k->commands[w->index]);
		break;
	case WATCH_INPUT:
		if (k->commands[w->index])
			keeper_send_ready(k, k->commands[w->index]);
		break;
	case WATCH_SESSION:
		if (k->sessions[w->index].name[0])
			session_read(k, &k->sessions[w->index], w->which);
		break;
	case WATCH_NETWORK:
		keeper_network_notice(k);
		break;
	case WATCH_CHECKPOINT:
		keeper_checkpoint_note(k);
		break;
	case WATCH_CODE:
		keeper_code_status(k);
		break;
	case WATCH_OWNER:
		keeper_owner_ended(k);
		break;
	case WATCH_FILTERS:
		filterwatch_serve(&k->sandbox.filters, k->sandbox.cgroup.v2_fd);
		break;
	case WATCH_CALLER:	/* the caller no longer waits for the start */
		k->stopping = 1;
		break;
	case WATCH_STATUS:
		if (k->sessions[w->index].name[0])
			session_status(k, &k->sessions[w->index]);
		break;
	}
}

/*
 * caller_fd: the loop lasts only while the main command begins and this pipe is read; -1: until
 * the end.
 */
static void keeper_loop(struct keeper *k, int caller_fd)
{
	struct watches *ws = calloc(1, sizeof(*ws));
	const struct timespec *wait;
	struct timespec t;
	nfds_t i;
	int n;

	while (ws && !k->stopping && (caller_fd < 0 || keeper_main_pends(k))) {
		watch_keeper_fds(k, ws);
		add_watch(ws, caller_fd, WATCH_CALLER, 0, 0);
		wait = keeper_quiet(k, next_keeper_timeout(k), &t);
		if (k->trim)
			keeper_trim(k);	/* right before, so that little is used again until something happens */
		n = ppoll(ws->p, ws->n, wait, NULL);
		if (n < 0 && errno != EINTR)
			break;
		keeper_woke(k, n);
		for (i = 0; i < ws->n && !k->stopping; i++)
			if (ws->p[i].revents)
				serve_watched(k, &ws->w[i]);
		serve_keeper_deadlines(k);
	}
	free(ws);
}

/* ---- birth and death ----------------------------------------------------------- */

static int listen_on(struct keeper *k, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	k->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* by the directory's descriptor: a run_dir longer than sun_path works too */
	snprintf(a.sun_path, sizeof(a.sun_path), "/proc/self/fd/%d/" KEEPER_SOCKET, k->claim.dir_fd);
	if (k->listen_fd < 0 || bind(k->listen_fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    fchmodat(k->claim.dir_fd, KEEPER_SOCKET, 0600, 0) < 0 || listen(k->listen_fd, 64) < 0)
		return err_sys(e, "listen on the keeper's socket");
	return 0;
}

static int take_keeper_signals(struct keeper *k, struct err *e)
{
	sigset_t set;
	size_t i;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigemptyset(&set);
	for (i = 0; i < ARRAY_LEN(ends); i++)
		sigaddset(&set, ends[i]);
	for (i = 0; i < ARRAY_LEN(says_nothing); i++)
		sigaddset(&set, says_nothing[i]);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0 || (k->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
		return err_sys(e, "take signals");
	return 0;
}

static int start_keeper(struct keeper *k, const struct keeper_start *ks, struct err *e)
{
	k->let_go = ks->let_go;
	k->let_go_ctx = ks->let_go_ctx;
	if (ks->for_files)
		keeper_files_begin(k);
	if (take_keeper_signals(k, e) < 0 || keeper_owner_begin(k, e) < 0 || keeper_memory_even(e) < 0 ||
	    sandbox_launch(&k->sandbox, &ks->where, e) < 0 || keeper_memory_count(k, e) < 0)
		return -1;
	if (k->main.service)
		keeper_leaf_ahead(k);	/* while init begins */
	if (attest_ready(&k->sandbox, e) < 0 || keeper_join_begin(k, e) < 0 ||
	    keeper_code_begin(k, ks->home_fd, e) < 0 ||
	    keeper_health_begin(k, &ks->health, e) < 0 ||
	    keeper_main_begin(k, e) < 0)
		return -1;
	if (k->main.service && k->main.service->restart.when != RESTART_NO)
		restart_note_guardian(ks->record, getppid());
	if (k->for_files) {
		sandbox_settle(&k->sandbox);
		return listen_on(k, e);
	}
	/* from here on the sandbox stays; before, gc removes it if the caller is killed */
	if ((ks->fresh ? record_save_kept : record_save_turn)(ks->registry, ks->spec->id, ks->record, e) < 0)
		return -1;
	record_set_supervisor_pid(ks->record, (uint64_t)getpid());
	record_set_init_pid(ks->record, (uint64_t)k->sandbox.pid);
	record_set_ports(ks->record, sandbox_ports(&k->sandbox));
	if (record_save_run(&k->claim, ks->record, e) < 0)
		return -1;
	if (!ks->fresh)
		session_states_load(k);
	sandbox_settle(&k->sandbox);
	return listen_on(k, e) < 0 ? -1 : keeper_network_rules_begin(k, e);
}

/* A client that waits for a command gets the command's end, not only ours. */
static void tell_ends(struct keeper *k)
{
	const int asked = k->stop_reason != init_ended;
	struct err ignored;
	int i, live = 0;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		live |= k->commands[i] && !k->commands[i]->ended;
	if (!live)
		return;
	cgroup_kill(&k->sandbox.cgroup, &ignored);
	cgroup_wait_empty(&k->sandbox.cgroup, KEEPER_DYING_MS, &ignored);
	for (i = 0; i < KEEPER_SESSIONS; i++)
		if (k->sessions[i].name[0])
			session_lost(k, &k->sessions[i], asked);
	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i])
			keeper_command_lost(k, k->commands[i], asked);
}

/* One write, which waits for the disk, of all that the end changes. */
static void record_end(struct keeper *k)
{
	struct err ignored;
	autojson json_t *record = record_load_kept(k->registry, k->claim.id, &ignored);
	int changed;

	if (!record)
		return;
	changed = keeper_stop_note(k, record);
	changed |= keeper_main_note(k, record);
	changed |= keeper_life_note(k, record);
	changed |= keeper_budget_note(k, record);
	if (changed)
		record_save_turn(k->registry, k->claim.id, record, &ignored);
}

static void end_keeper(struct keeper *k)
{
	struct err ignored;
	char id[65];
	int i, locked, left;

	memcpy(id, k->claim.id, sizeof(id));
	keeper_checkpoint_end(k);
	tell_ends(k);
	keeper_code_end(k, k->stop_reason != init_ended);
	/* a rename changes the record at the same time, too (registry_rename()), and must not be undone */
	locked = registry_lock(k->registry, &ignored) == 0;
	record_end(k);
	if (locked)
		registry_unlock(k->registry);
	keeper_network_last(k);
	keeper_disk_last(k);
	keeper_journal_end(k);
	for (i = 0; i < KEEPER_SESSIONS; i++)
		if (k->sessions[i].name[0])
			session_release(k, &k->sessions[i]);
	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i])
			keeper_command_remove(k, k->commands[i]);
	keeper_leaves_release(k);
	cgroup_freeze(&k->sandbox.cgroup, 0, &ignored);
	keeper_join_end(k);
	left = sandbox_destroy(&k->sandbox, &ignored) < 0;
	if (left) {
		registry_abandon(&k->claim);
	} else {
		if (k->announced)
			keeper_network_save(k);
		registry_release(k->registry, &k->claim, &ignored);
	}
	/* who hears of the end may remove it */
	if (k->announced)
		events_add(k->registry, "stop", id, json_pack("{s:s}", "reason", k->stop_reason ? k->stop_reason : "requested"));
	if (!left)
		keeper_life_end(k, id);
	/* clients wait until their connections end, when nothing is left; later ones too */
	fd_close(&k->listen_fd);
	for (i = 0; i < KEEPER_CLIENTS; i++)
		fd_close(&k->clients[i].fd);
}

/* The keeper has nothing of the caller's but what it was given. */
static void detach_keeper(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), i;

	io_allow_files(FILES_MAX);	/* a session holds fifteen, a command ten */
	setsid();
	for (i = 0; i < 3 && null >= 0; i++)
		dup2(null, i);
	fd_close(&null);
	(void)!chdir("/");
	umask(077);
	prctl(PR_SET_NAME, "berth-keeper");
	if (phases_on)
		phases_on->keeper = getpid();
}

/* The networks that it is on: its first one, or the kind that stands for one, and those that it joined. */
static json_t *networks_of(const json_t *record)
{
	const json_t *first = json_object_get(record, "network"), *row;
	const char *name = json_string_value(json_object_get(first, "network")), *mode = json_string_value(json_object_get(first, "mode"));
	json_t *all = json_array();
	size_t i;

	if (!name && mode && (!strcmp(mode, "bridge") || !strcmp(mode, "none") || !strcmp(mode, "host")))
		name = mode;
	if (name)
		json_array_append_new(all, json_string(name));
	json_array_foreach(record_networks(record), i, row)
		json_array_append(all, json_object_get(row, "network"));
	return all;
}

static json_t *volumes_of(const struct spec *spec)
{
	json_t *all = json_array();
	size_t i;

	for (i = 0; i < spec->mount_count; i++)
		if (spec->mounts[i].kind == SPEC_VOLUME)
			json_array_append_new(all, json_string(spec->mounts[i].source));
	return all;
}

static void announce_start(struct keeper *k, const json_t *record)
{
	phases_end();
	if (k->for_files)
		return;
	k->announced = 1;
	keeper_event(k, "start", json_pack("{s:O*,s:O*,s:o,s:o}", "name", json_object_get(record, "name"),
					   "image", json_object_get(record, "image"), "networks", networks_of(record),
					   "volumes", volumes_of(k->spec)));
}

void keeper_main(const struct keeper_start *ks, int ready_fd, int go_fd)
{
	struct keeper *k = calloc(1, sizeof(*k));
	struct err e = { 0 };
	int r = -1;

	detach_keeper();
	if (!k) {
		err_nomem(&e);
	} else {
		k->registry = ks->registry;
		k->claim = *ks->claim;
		k->listen_fd = k->signal_fd = k->fileop_fd = k->owner_fd = k->notes_fd = -1;
		k->code = (struct keeper_code)KEEPER_CODE_NONE;
		k->spec = ks->spec;
		k->head_max = ks->output_head_bytes;
		k->tail_max = ks->output_tail_bytes;
		k->life = ks->life;
		k->record = ks->record;
		k->next_seq = 1;
		k->created_ms = k->busy_ms = k->idle_checked_ms = clock_ms();
		keeper_clients_begin(k);
		sandbox_init(&k->sandbox, ks->spec);
		k->main.service = ks->service;
		r = start_keeper(k, ks, &e);
		spec_close_sources(ks->spec);
		/* from now on it reads what the sandbox writes; no client is served with more rights (S56) */
		if (r == 0)
			r = rights_lay_down(RIGHTS_KEEPER, &e);
	}
	if (r == 0 && keeper_main_pends(k)) {
		keeper_loop(k, ready_fd);
		r = keeper_main_result(k, &e);
	}
	if (r == 0)
		e.code = ERR_NONE;	/* errors in there were overcome on the way */
	/* report a failure when nothing is left, so that the caller need not wait for us */
	if (r < 0 && k)
		end_keeper(k);
	if (io_write_all(ready_fd, &e, sizeof(e)) < 0 && k) {
		/* the caller was killed meanwhile, so no client knows this sandbox */
		if (r == 0)
			end_keeper(k);
		if (ks->fresh) {
			events_add(ks->registry, "create-failed", ks->spec->id, json_pack("{s:s}", "error", "berth create was killed"));
			registry_forget(ks->registry, ks->spec->id, &e);
		}
		r = -1;
	}
	close(ready_fd);
	if (r == 0 && go_fd >= 0)
		(void)!io_write_all(go_fd, "", 1);
	fd_close(&go_fd);
	if (r == 0) {
		announce_start(k, ks->record);
		mem_keep_small();
#ifndef __SANITIZE_ADDRESS__ /* its shadow memory exceeds any bound */
		/* the buffers together need less: only a keeper that overflows one fails (D13) */
		(void)!setrlimit(RLIMIT_DATA, &(struct rlimit){ KEEPER_MEMORY, KEEPER_MEMORY });
#endif
		session_states_start(k);
		k->trim = 1;	/* the code that made the sandbox will not run any more */
		keeper_loop(k, -1);
		end_keeper(k);
	}
	_exit(r < 0);
}
