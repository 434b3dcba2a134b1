/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of a keeper: exec, and the shells of sessions.
 *
 * Life of one: STARTING (asked of init) -> started -> ended (leader reaped) ->
 * concluded (verdict) -> removed.  Its cgroup outlives it while processes it
 * left behind are in there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/keeper/keeper_state.h"
#include "runtime/kernel/tty.h"
#include "runtime/sandbox/writable.h"

#define ARGS_MAX 65536
#define OUTPUT_CHUNK 65536

struct keeper_command *keeper_command_find(struct keeper *k, uint32_t seq)
{
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i] && k->commands[i]->seq == seq)
			return k->commands[i];
	return NULL;
}

/* Room for one more: the oldest ended and unread one goes first. */
static int make_room(struct keeper *k, int *ret_slot, struct err *e)
{
	int i, ended = 0, oldest = -1;

	*ret_slot = -1;
	for (i = 0; i < KEEPER_COMMANDS; i++) {
		struct keeper_command *c = k->commands[i];

		if (!c) {
			*ret_slot = *ret_slot < 0 ? i : *ret_slot;
		} else if (c->concluded && c->detached) {
			ended++;
			if (oldest < 0 || c->seq < k->commands[oldest]->seq)
				oldest = i;
		}
	}
	if (oldest >= 0 && (ended >= KEEPER_ENDED_KEPT || *ret_slot < 0)) {
		keeper_command_remove(k, k->commands[oldest]);
		*ret_slot = oldest;
	}
	return *ret_slot < 0 ? err_set(e, ERR_LIMIT, "%d commands are running already", KEEPER_COMMANDS) : 0;
}

struct keeper_command *keeper_command_new(struct keeper *k, const struct cgroup_limits *l, struct err *e)
{
	struct keeper_command *c;
	int slot;

	if (make_room(k, &slot, e) < 0)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c) {
		err_nomem(e);
		return NULL;
	}
	c->seq = k->next_seq++;
	c->client = c->session = c->in_fd = c->out_fd[0] = c->out_fd[1] = -1;
	ring_init(&c->out[0], k->head_max, k->tail_max);
	ring_init(&c->out[1], k->head_max, k->tail_max);
	if (keeper_leaf(k, c->seq, l, &c->leaf, e) < 0) {
		free(c);
		return NULL;
	}
	k->commands[slot] = c;
	return c;
}

static void drop_leaf(struct keeper *k, struct keeper_command *c)
{
	struct err ignored;

	if (!c->leaf.ops)
		return;
	if (c->concluded && !c->facts.left_behind) {
		keeper_leaf_drop(k, &c->leaf);
		return;
	}
	/* what runs in there is killed now */
	if (cgroup_destroy(&c->leaf, &ignored) < 0) {
		/* its name remains below the sandbox's, whose removal takes it along */
	}
	cgroup_release(&c->leaf);
}

void keeper_command_remove(struct keeper *k, struct keeper_command *c)
{
	int i;

	keeper_follow_removed(k, c);
	drop_leaf(k, c);
	fd_close(&c->in_fd);
	fd_close(&c->out_fd[0]);
	fd_close(&c->out_fd[1]);
	ring_release(&c->out[0]);
	ring_release(&c->out[1]);
	free(c->text);
	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i] == c)
			k->commands[i] = NULL;
	free(c);
}

json_t *keeper_command_verdict(const struct verdict *v)
{
	autobuf struct buf b = BUF_INIT(4096);
	struct err ignored;

	if (verdict_json(v, &b, &ignored) < 0)
		return json_null();
	return json_parse(b.data, b.len, b.len, "verdict", &ignored);
}

/* ---- requests ---------------------------------------------------------------------- */

struct strings {
	const char **v;
	size_t n;
};

static int add_string(struct strings *l, const char *s, struct err *e)
{
	const char **v;

	if (l->n >= ARGS_MAX)
		return err_set(e, ERR_LIMIT, "more than %d strings", ARGS_MAX);
	v = reallocarray(l->v, l->n + 1, sizeof(*v));
	if (!v)
		return err_nomem(e);
	l->v = v;
	l->v[l->n++] = s;
	return 0;
}

static int add_array(struct strings *l, const json_t *rq, const char *key, int is_env, struct err *e)
{
	json_t *a = NULL, *s;
	size_t i, j;

	if (json_get_arr(rq, key, &a, "request", e) < 0)
		return -1;
	json_array_foreach(a, i, s) {
		const char *text = json_string_value(s);

		if (!text || strlen(text) != json_string_length(s) || (is_env && !strchr(text, '=')))
			return err_set(e, ERR_INVALID, "\"%s\" holds something else than %s", key,
				       is_env ? "NAME=VALUE" : "strings");
		for (j = 0; is_env && j < l->n; j++) {
			if (!strncmp(l->v[j], text, strcspn(text, "=") + 1)) {
				l->v[j] = text;
				break;
			}
		}
		if ((!is_env || j == l->n) && add_string(l, text, e) < 0)
			return -1;
	}
	return 0;
}

static int get_u64_or(const json_t *rq, const char *key, uint64_t preset, uint64_t *ret, struct err *e)
{
	*ret = preset;
	return json_get_u64(rq, key, ret, "request", e) < 0 ? -1 : 0;
}

static int get_limits(const struct keeper *k, const json_t *rq, struct cgroup_limits *l, struct err *e)
{
	const struct cgroup_limits *all = k->limits_changed ? &k->limits : &k->spec->limits;

	*l = (struct cgroup_limits){ .swap_bytes = CGROUP_UNLIMITED, .oom_group = 1 };
	if (get_u64_or(rq, "memory_bytes", CGROUP_UNLIMITED, &l->memory_bytes, e) < 0 ||
	    get_u64_or(rq, "cpu_milli", CGROUP_UNLIMITED, &l->cpu_milli, e) < 0 ||
	    get_u64_or(rq, "pids", CGROUP_UNLIMITED, &l->pids, e) < 0)
		return -1;
	if (l->memory_bytes != CGROUP_UNLIMITED)
		l->swap_bytes = 0;
	/* v1 refuses it without a reason (EINVAL), v2 takes it and gives no more than the sandbox has */
	if (l->cpu_milli != CGROUP_UNLIMITED && l->cpu_milli > all->cpu_milli)
		return err_set(e, ERR_INVALID, "a command cannot have more CPUs than its sandbox, which has %g; hint: berth update --cpus",
			       (double)all->cpu_milli / 1000);
	return 0;
}

static int get_rlimits(const json_t *rq, struct rlimits *r, struct err *e)
{
	json_t *a = NULL, *s;
	struct rlimits one;
	size_t i;
	int j;

	if (json_get_arr(rq, "ulimits", &a, "request", e) < 0)
		return -1;
	json_array_foreach(a, i, s) {
		memset(&one, 0, sizeof(one));
		if (!json_is_string(s))
			return err_set(e, ERR_INVALID, "\"ulimits\" holds something else than strings");
		if (rlimits_parse(&one, json_string_value(s), e) < 0)
			return -1;
		for (j = 0; j < RLIMITS_COUNT; j++)
			if (one.set & 1u << j)
				r->v[j] = one.v[j];
		r->set |= one.set;
		if (rlimits_fit(r, one.set, e) < 0)
			return -1;
	}
	return 0;
}

/* Pipes for a detached command; ours are non-blocking. */
static int make_pipes(struct keeper_command *c, int std[3], struct err *e)
{
	int in[2], out[2], err[2];

	if (pipe2(in, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	std[0] = in[0];
	c->in_fd = in[1];
	if (pipe2(out, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	c->out_fd[0] = out[0];
	std[1] = out[1];
	if (pipe2(err, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	c->out_fd[1] = err[0];
	std[2] = err[1];
	if (fcntl(c->in_fd, F_SETFL, O_NONBLOCK) < 0 || fcntl(out[0], F_SETFL, O_NONBLOCK) < 0 ||
	    fcntl(err[0], F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "set up a pipe");
	return 0;
}

/* The descriptors of the command: the client's own, a terminal, or pipes of ours. */
static int arrange_stdio(struct keeper *k, struct keeper_command *c, int tty, const int *fds, size_t count,
			 int std[3], int *ret_master, struct err *e)
{
	int slave;

	if (tty) {
		if (sandbox_tty(&k->sandbox, ret_master, &slave, e) < 0)
			return -1;
		std[0] = slave;
		std[1] = dup(slave);
		std[2] = dup(slave);
		return 0;
	}
	if (c->detached)
		return make_pipes(c, std, e);
	if (count != 3)
		return err_set(e, ERR_INVALID, "exec takes three descriptors, not %zu", count);
	for (int i = 0; i < 3; i++)
		std[i] = dup(fds[i]);
	return 0;
}

/* A terminal that clients come to and leave: the keeper holds its master side and remembers the last of its output. */
static int keep_terminal(struct keeper *k, struct keeper_command *c, const json_t *rq, int *master, struct err *e)
{
	c->tty = 1;
	c->out_fd[0] = take_fd(master);
	c->in_fd = fcntl(c->out_fd[0], F_DUPFD_CLOEXEC, 3);
	ring_init(&c->out[0], 0, k->head_max + k->tail_max);
	if (c->in_fd < 0 || fcntl(c->in_fd, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "set up the terminal");
	return keeper_resize(c->in_fd, rq, e);
}

static char *text_of(const struct strings *argv)
{
	autobuf struct buf b = BUF_INIT(256);
	struct err ignored;
	size_t i;

	for (i = 0; i < argv->n; i++)
		if (buf_addf(&b, &ignored, "%s%.80s", i ? " " : "", argv->v[i]) < 0)
			break;
	return b.data ? strdup(b.data) : NULL;
}

static int launch_command(struct keeper *k, struct keeper_command *c, const json_t *rq, const int *fds, size_t count,
			  int *ret_master, struct err *e)
{
	struct strings argv = { 0 }, env = { 0 };
	const char *user = k->spec->user, *workdir = k->spec->workdir;
	struct job job = { .rlimits = k->spec->rlimits, .leaf = &c->leaf };
	int std[3] = { -1, -1, -1 }, tty = 0, result = -1, i;
	size_t j;

	if (json_get_bool(rq, "tty", &tty, "request", e) < 0 || json_get_str(rq, "user", &user, "request", e) < 0 ||
	    json_get_str(rq, "workdir", &workdir, "request", e) < 0 ||
	    get_u64_or(rq, "grace_ms", k->spec->grace_ms, &c->grace_ms, e) < 0 ||
	    get_rlimits(rq, &job.rlimits, e) < 0 || add_array(&argv, rq, "argv", 0, e) < 0)
		goto out;
	if (argv.n && keeper_policy_argv(k, argv.v, argv.n, e) < 0)
		goto out;
	for (j = 0; j < k->spec->env_count; j++)
		if (add_string(&env, k->spec->env[j], e) < 0)
			goto out;
	if ((tty && add_string(&env, "TERM=xterm-256color", e) < 0) || add_array(&env, rq, "env", 1, e) < 0)
		goto out;
	if (!argv.n || workdir[0] != '/') {
		err_set(e, ERR_INVALID, argv.n ? "the working directory must be absolute" : "no command given");
		goto out;
	}
	if (arrange_stdio(k, c, tty, fds, count, std, ret_master, e) < 0)
		goto out;
	if (tty && c->detached && keep_terminal(k, c, rq, ret_master, e) < 0)
		goto out;
	c->text = text_of(&argv);
	job.argv = argv.v;
	job.argc = argv.n;
	job.env = env.v;
	job.env_count = env.n;
	job.user = user;
	job.workdir = workdir;
	job.flags = INIT_MAKE_CWD | (tty ? INIT_TTY : 0) | (c->silent ? INIT_LATE_START : 0);
	result = sandbox_exec(&k->sandbox, c->seq, &job, std, e);
out:
	for (i = 0; i < 3; i++)
		fd_close(&std[i]);
	free(argv.v);
	free(env.v);
	return result;
}

/* A name is one command's as long as it runs. */
static int check_name(struct keeper *k, const json_t *rq, const char **ret, struct err *e)
{
	int i;

	*ret = "";
	if (json_get_str(rq, "name", ret, "request", e) < 0)
		return -1;
	if ((*ret)[0] && !path_is_name(*ret))
		return err_set(e, ERR_INVALID, "name '%.40s' is malformed; hint: a-z 0-9 _ . -", *ret);
	for (i = 0; (*ret)[0] && i < KEEPER_COMMANDS; i++)
		if (k->commands[i] && !k->commands[i]->ended && !strcmp(k->commands[i]->name, *ret))
			return err_set(e, ERR_EXISTS, "command c%u is named %s already", k->commands[i]->seq, *ret);
	return 0;
}

uint64_t keeper_timeout(const struct keeper *k, int is_text)
{
	return is_text || k->spec->timeout_given ? k->spec->timeout_ms : 0;
}

int keeper_command_exec(struct keeper *k, int client, const json_t *rq, const int *fds, size_t count, struct err *e)
{
	struct cgroup_limits limits;
	struct keeper_command *c;
	uint64_t timeout_ms;
	autoclose int master = -1;
	const char *name;
	int detach = 0, silent = 0, is_text = 0;
	json_t *answer;

	if (json_get_bool(rq, "detach", &detach, "request", e) < 0 || json_get_bool(rq, "silent", &silent, "request", e) < 0 ||
	    json_get_bool(rq, "is_text", &is_text, "request", e) < 0 || get_limits(k, rq, &limits, e) < 0 ||
	    get_u64_or(rq, "timeout_ms", keeper_timeout(k, is_text), &timeout_ms, e) < 0 || check_name(k, rq, &name, e) < 0)
		return -1;
	c = keeper_command_new(k, &limits, e);
	if (!c)
		return -1;
	c->detached = detach;
	c->silent = silent && !detach;
	c->client = client;
	snprintf(c->name, sizeof(c->name), "%s", name);
	if (launch_command(k, c, rq, fds, count, &master, e) < 0) {
		keeper_command_remove(k, c);
		return -1;
	}
	c->started_ms = clock_ms();
	keeper_network_begin(k, &c->facts);
	if (timeout_ms)
		c->deadline_ms = c->started_ms + timeout_ms;
	if (master >= 0) {
		/* the terminal goes straight to the client: no proxy in the data path */
		answer = json_pack("{s:b}", "terminal", 1);
		keeper_answer(k, client, answer, &master, 1);
	}
	return 0;
}

struct keeper_command *keeper_command_of(struct keeper *k, const json_t *rq, struct err *e)
{
	const char *id = NULL;
	struct keeper_command *c = NULL;
	char *end;
	unsigned long n;

	if (json_get_str(rq, "command", &id, "request", e) < 0)
		return NULL;
	if (id && id[0] == 'c' && id[1] >= '0' && id[1] <= '9') {
		n = strtoul(id + 1, &end, 10);
		if (!*end && n <= UINT32_MAX)
			c = keeper_command_find(k, (uint32_t)n);
	}
	if (!c || c->session >= 0) {
		err_set(e, ERR_NOT_FOUND, "no command '%.40s'; hint: berth commands lists them", id ? id : "");
		return NULL;
	}
	return c;
}

/* ---- how it ends ---------------------------------------------------------------------- */

static uint32_t count_leaf(const struct cgroup *leaf)
{
	char text[16384], *p;
	uint32_t n = 0;

	if (cgroup_read(leaf->v2_fd, "cgroup.procs", text, sizeof(text)) <= 0)
		return 0;
	for (p = text; *p; p++)
		n += *p == '\n';
	return n;
}

static void tell_end(struct keeper *k, int client, const struct keeper_command *c)
{
	char id[24];

	snprintf(id, sizeof(id), "c%u", c->seq);
	keeper_answer_verdict(k, client, json_pack("{s:s,s:b}", "command", id, "ended", 1), &c->verdict, NULL, 0);
}

static void tell_waiters(struct keeper *k, struct keeper_command *c)
{
	int i;

	for (i = 0; i < KEEPER_CLIENTS; i++) {
		if (k->clients[i].fd >= 0 && k->clients[i].waits == c->seq) {
			k->clients[i].waits = 0;
			tell_end(k, i, c);
		}
	}
}

/* It has ended and left no process: a detached one is kept for who asks for its output and verdict. */
static void put_away(struct keeper *k, struct keeper_command *c)
{
	if (!c->detached) {
		keeper_command_remove(k, c);
		return;
	}
	/* its output may wait for a slow reader: that is closed where it ends */
	drop_leaf(k, c);
	fd_close(&c->in_fd);
}

static void announce(struct keeper *k, struct keeper_command *c);

static void note_end(struct keeper *k, struct keeper_command *c)
{
	char id[24];
	int i;

	announce(k, c);
	snprintf(id, sizeof(id), "c%u", c->seq);
	for (i = 0; i < 2 && c->detached && !c->tty; i++)
		keeper_log_dropped(k, id, i ? "stderr" : "stdout", c->out[i].total - c->logged[i]);
	if (!c->helper)
		keeper_event_end(k, "exit", &c->verdict, json_pack("{s:s}", "command", id));
}

/* A limit of time holds for all of a command: what the first process's end left running ends now. */
static void end_by_limit(struct keeper_command *c)
{
	struct err ignored;

	if (c->facts.timed_out && count_leaf(&c->leaf) && cgroup_kill(&c->leaf, &ignored) == 0)
		cgroup_wait_empty(&c->leaf, KEEPER_DYING_MS, &ignored);
}

static void conclude(struct keeper *k, struct keeper_command *c)
{
	struct err ignored;
	int which;

	/* what is in the pipes now is all that counts: nobody waits for end-of-file (L03) */
	for (which = 0; which < 2; which++)
		keeper_command_read(k, c, which);
	c->facts.wall_ms = clock_ms() - c->started_ms;
	end_by_limit(c);
	c->facts.left_behind = count_leaf(&c->leaf);
	cgroup_usage(&c->leaf, &c->facts.usage, &ignored);
	writable_full(k->sandbox.base_fd, &c->facts.disk_full, &ignored);
	keeper_network_end(k, &c->facts);
	verdict_decide(&c->facts, &c->verdict);
	c->concluded = 1;
	c->deadline_ms = c->kill_at_ms = 0;
	if (c->client >= 0)
		tell_end(k, c->client, c);
	c->client = -1;
	k->rest = 1;
	tell_waiters(k, c);
	keeper_follow_news(k, c);
	keeper_busy(k);
	note_end(k, c);
	if (!c->facts.left_behind)
		put_away(k, c);
}

#define EVENT_TEXT 200

/* What an event says of a text: its beginning, in whole characters. */
static size_t text_length(const char *text)
{
	size_t n = text ? strnlen(text, EVENT_TEXT) : 0;

	while (n && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	return n;
}

static void started(struct keeper *k, struct keeper_command *c, int pid)
{
	struct err ignored;
	char id[24];

	c->started = 1;
	if (c->session >= 0) {
		k->sessions[c->session].shell_ns_pid = (uint32_t)pid;
		return;
	}
	/* its client went, or somebody killed it, before it was born: the kill found an empty cgroup */
	if (c->facts.killed_by_us)
		cgroup_kill(&c->leaf, &ignored);
	snprintf(id, sizeof(id), "c%u", c->seq);
	if (!c->silent)
		keeper_answer(k, c->client, json_pack("{s:s,s:b,s:i}", "command", id, "started", 1, "pid", pid), NULL, 0);
	c->unannounced = !c->helper;
	if (c->detached)
		c->client = -1;
}

static void announce(struct keeper *k, struct keeper_command *c)
{
	char id[24];

	if (!c->unannounced)
		return;
	c->unannounced = 0;
	snprintf(id, sizeof(id), "c%u", c->seq);
	keeper_event(k, "exec", json_pack("{s:s,s:s#}", "command", id, "text", c->text ? c->text : "", text_length(c->text)));
}

void keeper_command_announce(struct keeper *k)
{
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i])
			announce(k, k->commands[i]);
}

void keeper_command_reply(struct keeper *k, const struct init_reply *r)
{
	struct keeper_command *c = keeper_command_find(k, r->seq);

	if (!c || c->ended)
		return;
	if (r->type == INIT_STARTED) {
		started(k, c, r->pid);
	} else if (r->type == INIT_EXEC_FAILED) {
		if (c->session >= 0)
			session_shell_failed(k, c->session, &r->err);
		else
			keeper_answer_error(k, c->client, &r->err);
		keeper_command_remove(k, c);
	} else if (r->type == INIT_EXITED) {
		c->ended = 1;
		c->facts.ended = 1;
		c->facts.exited = (int)r->exited;
		c->facts.value = r->value;
		if (c->session >= 0) {
			session_shell_ended(k, c->session, c);
			keeper_command_remove(k, c);
		} else {
			conclude(k, c);
		}
	}
}

void keeper_command_killed(struct keeper *k, struct keeper_command *c)
{
	const struct init_reply r = { .type = INIT_EXITED, .seq = c->seq, .value = 9 };
	struct err ignored;

	cgroup_kill(&c->leaf, &ignored);
	cgroup_wait_empty(&c->leaf, KEEPER_DYING_MS, &ignored);
	keeper_command_reply(k, &r);
}

void keeper_command_lost(struct keeper *k, struct keeper_command *c, int killed_by_us)
{
	if (c->ended || c->helper || c->session >= 0)
		return;
	c->ended = 1;
	c->facts.killed_by_us |= killed_by_us;
	conclude(k, c);
}

void keeper_command_stands_still(struct keeper *k)
{
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i] && !k->commands[i]->ended && k->commands[i]->kill_at_ms == UINT64_MAX)
			keeper_command_killed(k, k->commands[i]);
}

void keeper_command_read(struct keeper *k, struct keeper_command *c, int which)
{
	char buf[OUTPUT_CHUNK];
	struct err ignored;
	uint64_t before = c->out[which].total;
	int rounds;
	ssize_t n;

	for (rounds = 0; rounds < 16 && c->out_fd[which] >= 0 && !keeper_follow_lags(k, c); rounds++) {
		n = read(c->out_fd[which], buf, sizeof(buf));
		if (n > 0) {
			ring_add(&c->out[which], buf, (size_t)n, &ignored);
			keeper_log_command(k, c, which, buf, (size_t)n);
		} else if (n == 0 || (errno != EAGAIN && errno != EINTR))
			fd_close(&c->out_fd[which]);
		else
			break;
	}
	if (c->out[which].total != before) {
		keeper_busy(k);
		keeper_follow_news(k, c);
	}
}

uint64_t keeper_command_next_deadline(const struct keeper_command *c)
{
	if (c->concluded)
		return c->leaf.ops ? c->lingers_checked_ms + 1000 : 0;
	if (c->kill_at_ms && c->kill_at_ms != UINT64_MAX)
		return c->kill_at_ms;
	return c->facts.timed_out ? 0 : c->deadline_ms;
}

void keeper_command_deadline(struct keeper *k, struct keeper_command *c, uint64_t now)
{
	struct err ignored;

	if (c->concluded) {
		/* it answered, but left processes behind: its cgroup goes when they do */
		if (c->leaf.ops && now >= c->lingers_checked_ms + 1000) {
			c->lingers_checked_ms = now;
			if (!count_leaf(&c->leaf))
				put_away(k, c);
		}
		return;
	}
	if (c->deadline_ms && !c->facts.timed_out && now >= c->deadline_ms) {
		c->facts.timed_out = 1;
		c->kill_at_ms = now + c->grace_ms;
		if (c->grace_ms)
			sandbox_signal(&k->sandbox, c->seq, 15, &ignored);
	}
	if (c->kill_at_ms && c->kill_at_ms != UINT64_MAX && now >= c->kill_at_ms) {
		c->kill_at_ms = UINT64_MAX;
		cgroup_kill(&c->leaf, &ignored);
		if (k->paused || k->held_by)
			keeper_command_stands_still(k);
	}
}

/* v1 has no oom.group: where the kernel killed one process of a command, the rest follows. */
void keeper_command_check_oom(struct keeper *k)
{
	struct cgroup_usage u;
	struct err ignored;
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++) {
		struct keeper_command *c = k->commands[i];

		if (!c || c->ended || c->session >= 0 || c->facts.killed_for_oom ||
		    cgroup_usage(&c->leaf, &u, &ignored) < 0 || !u.oom_kills)
			continue;
		c->facts.killed_for_oom = 1;
		cgroup_kill(&c->leaf, &ignored);
	}
}

/* A foreground command ends with its client: nobody is left to answer to (L13). */
void keeper_command_client_gone(struct keeper *k, int client)
{
	struct err ignored;
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++) {
		struct keeper_command *c = k->commands[i];

		if (!c || c->client != client)
			continue;
		c->client = -1;
		if (!c->detached && c->session < 0) {
			c->facts.killed_by_us = 1;
			cgroup_kill(&c->leaf, &ignored);
		}
	}
}

/* ---- the other operations --------------------------------------------------------------- */

static json_t *describe(const struct keeper_command *c)
{
	char id[24];
	json_t *j;

	snprintf(id, sizeof(id), "c%u", c->seq);
	j = json_pack("{s:s,s:s,s:s,s:b,s:b,s:I,s:I,s:I}", "command", id, "text", c->text ? c->text : "", "state",
		      c->concluded ? "ended" : c->started ? "running" : "starting", "detached", c->detached, "tty", c->tty,
		      "stdout_bytes", (json_int_t)c->out[0].total, "stderr_bytes", (json_int_t)c->out[1].total, "age_ms",
		      (json_int_t)(clock_ms() - c->started_ms));
	if (c->name[0])
		json_object_set_new(j, "name", json_string(c->name));
	if (c->concluded)
		json_object_set_new(j, "verdict", keeper_command_verdict(&c->verdict));
	return j;
}

static int op_commands(struct keeper *k, int client)
{
	json_t *list = json_array();
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i] && k->commands[i]->session < 0)
			json_array_append_new(list, describe(k->commands[i]));
	keeper_answer(k, client, json_pack("{s:o}", "commands", list), NULL, 0);
	return 0;
}

static int op_output(struct keeper *k, int client, struct keeper_command *c, const json_t *rq, struct err *e)
{
	autobuf struct buf b = BUF_INIT(WIRE_DATA_MAX);
	uint64_t from, start, next, max;
	const char *stream = "stdout";
	int which;
	autoclose int fd = -1;

	if (get_u64_or(rq, "from", 0, &from, e) < 0 || get_u64_or(rq, "max", 16 << 20, &max, e) < 0 ||
	    json_get_str(rq, "stream", &stream, "request", e) < 0)
		return -1;
	which = !strcmp(stream, "stderr");
	if (!which && strcmp(stream, "stdout"))
		return err_set(e, ERR_INVALID, "'%.20s' is neither stdout nor stderr", stream);
	keeper_command_read(k, c, which);
	if (ring_read(&c->out[which], from, (size_t)max, &b, &start, &next, e) < 0)
		return -1;
	fd = wire_data(b.data ? b.data : "", b.len, e);
	if (fd < 0)
		return -1;
	keeper_answer(k, client, json_pack("{s:I,s:I,s:I,s:I,s:b}", "from", (json_int_t)start, "next", (json_int_t)next,
					   "total", (json_int_t)c->out[which].total, "dropped",
					   (json_int_t)ring_dropped(&c->out[which]), "ended", c->concluded), &fd, 1);
	return 0;
}

static int op_signal(struct keeper *k, int client, struct keeper_command *c, const json_t *rq, struct err *e)
{
	uint64_t signo = 15;
	int all = 0;

	if (json_get_u64(rq, "signal", &signo, "request", e) < 0 || json_get_bool(rq, "all", &all, "request", e) < 0)
		return -1;
	if (signo < 1 || signo > 64)
		return err_set(e, ERR_INVALID, "signal %llu does not exist", (unsigned long long)signo);
	if (c->ended)
		return err_set(e, ERR_NOT_FOUND, "command c%u has ended", c->seq);
	c->facts.killed_by_us |= signo == 9;
	if (all && signo == 9 ? cgroup_kill(&c->leaf, e) < 0 : sandbox_signal(&k->sandbox, c->seq, (int)signo, e) < 0)
		return -1;
	keeper_answer(k, client, json_pack("{s:b}", "signalled", 1), NULL, 0);
	return 0;
}

static int op_wait(struct keeper *k, int client, struct keeper_command *c)
{
	if (c->concluded)
		tell_end(k, client, c);
	else
		k->clients[client].waits = c->seq;
	return 0;
}

/* The foreground command of this very client. */
static int op_forward(struct keeper *k, int client, const json_t *rq, struct err *e)
{
	uint64_t signo = 0;
	int i;

	if (json_get_u64(rq, "signal", &signo, "request", e) < 0)
		return -1;
	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i] && k->commands[i]->client == client && !k->commands[i]->ended)
			return sandbox_signal(&k->sandbox, k->commands[i]->seq, (int)signo, e);
	return 0;	/* it ended meanwhile: no answer is expected either way */
}

int keeper_command_op(struct keeper *k, int client, const char *op, const json_t *rq, const int *fds, size_t count, struct err *e)
{
	static const char *const with_command[] = { "output", "send", "signal", "wait" };
	struct keeper_command *c;
	size_t i;

	if (!strcmp(op, "exec"))
		return keeper_command_exec(k, client, rq, fds, count, e);
	if (!strcmp(op, "commands"))
		return op_commands(k, client);
	if (!strcmp(op, "forward"))
		return op_forward(k, client, rq, e);
	for (i = 0; i < ARRAY_LEN(with_command) && strcmp(op, with_command[i]); i++)
		;
	if (i == ARRAY_LEN(with_command) || !json_object_get(rq, "command"))
		return 1;	/* not ours */
	c = keeper_command_of(k, rq, e);
	if (!c)
		return -1;
	switch (i) {
	case 0:
		return op_output(k, client, c, rq, e);
	case 1:
		return keeper_send(k, client, c, rq, fds, count, e);
	case 2:
		return op_signal(k, client, c, rq, e);
	default:
		return op_wait(k, client, c);
	}
}
