/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real sandboxes: made by the berth program, spoken to through their keepers.  A
 * record says below which directories its sandbox lives, so that berthds of one
 * machine that share a store can serve each other's.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/forget.h"
#include "manager/host/record.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/keeper/wire.h"
#include "manager/ops/call.h"
#include "manager/ops/settleopt.h"
#include "manager/service/state.h"

#define ANSWER_MAX 65536

/* ---- the berth program ---- */

static int run_berth(const char *berth_path, json_t *call, char *const *env, struct buf *out, struct err *e)
{
	struct called c;

	return call_start(berth_path, env, call, -1, &c, e) < 0 ? -1 : call_finish(&c, NULL, NULL, out, e);
}

/* The child has our environment with the directories of our configuration, which may come from a test's own. */
int driver_run(const char *berth_path, json_t *call, struct buf *out, struct err *e)
{
	return run_berth(berth_path, call, NULL, out, e);
}

int driver_berth(struct service *s, json_t *call, struct buf *out, struct err *e)
{
	return driver_run(s->berth_path, call, out, e);
}

/* ---- where a record's sandbox lives ---- */

static int open_place(struct service *s, const struct record *r, struct config *c, struct registry *reg, struct err *e)
{
	const char *run_dir = record_own(r, "run_dir"), *state_dir = record_own(r, "state_dir");

	*c = s->config;
	if (!record_is_ours(s, r) && run_dir[0] == '/' && strlen(run_dir) < sizeof(c->run_dir) &&
	    state_dir[0] == '/' && strlen(state_dir) < sizeof(c->state_dir)) {
		snprintf(c->run_dir, sizeof(c->run_dir), "%s", run_dir);
		snprintf(c->state_dir, sizeof(c->state_dir), "%s", state_dir);
	}
	return registry_open(reg, c, e);
}

/*
 * A sandbox whose removal was interrupted has no spec.json any more, and looks like one that
 * berth run kept: it does not run.
 */
static int connect_keeper(struct registry *reg, const struct record *r, struct err *e)
{
	int sock = keeper_connect(reg, record_str(r, "container_id"), e);

	if (sock < 0 && e->code == ERR_INVALID)
		e->code = ERR_NOT_FOUND;
	return sock;
}

int driver_connect(struct service *s, const struct record *r, struct err *e)
{
	struct registry reg;
	struct config c;
	int sock;

	if (record_is_ours(s, r))
		return connect_keeper(&s->registry, r, e);
	if (record_run(r) == RUN_ARCHIVED)
		return err_set(e, ERR_NOT_FOUND, "sandbox %s is archived", r->name);
	if (home_check(s, r, e) < 0 || open_place(s, r, &c, &reg, e) < 0)
		return -1;
	sock = connect_keeper(&reg, r, e);
	registry_close(&reg);
	return sock;
}

/* The volume that make_call() gave it. */
static int replace_workspace(json_t *options, const char *mount_dir, struct err *e)
{
	static const char target[] = ":" WORK_DIR WORK_WORDS, older[] = ":" WORK_DIR ":rw";
	json_t *pair;
	size_t i;

	json_array_foreach(options, i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0)), *value = json_string_value(json_array_get(pair, 1));
		const char *colon = value ? strchr(value, ':') : NULL;

		if (name && colon && !strcmp(name, "volume") && (!strcmp(colon, target) || !strcmp(colon, older)))
			return json_array_set_new(pair, 1, json_sprintf("%s%s", mount_dir, target)) < 0 ? err_nomem(e) : 0;
	}
	return err_set(e, ERR_CORRUPT, "spec.json names no workspace");
}

static int remember_options(struct registry *reg, const struct record *r, json_t *options, const char *mount_dir, struct err *e)
{
	const char *id = record_str(r, "container_id");
	autojson json_t *spec = registry_load(reg, id, "spec.json", e);
	json_t *kept = NULL;

	if (!spec)
		return -1;
	if (json_get_arr(spec, "options", &kept, "spec.json", e) <= 0 || json_array_extend(kept, options) < 0)
		return err_set(e, ERR_CORRUPT, "spec.json of sandbox %s has no options", r->name);
	return (mount_dir && replace_workspace(kept, mount_dir, e) < 0) || sources_note(spec, e) < 0 ? -1
		: registry_save(reg, id, "spec.json", spec, e);
}

int driver_remember(struct service *s, const struct record *r, json_t *options, const char *mount_dir, struct err *e)
{
	struct registry reg;
	struct config c;
	int result;

	if (record_is_ours(s, r))
		return remember_options(&s->registry, r, options, mount_dir, e);
	if (open_place(s, r, &c, &reg, e) < 0)
		return -1;
	result = remember_options(&reg, r, options, mount_dir, e);
	registry_close(&reg);
	return result;
}

json_t *driver_ping(struct service *s, const struct record *r, struct err *e)
{
	autoclose int sock = driver_connect(s, r, e);
	autojson json_t *rq = NULL;

	if (sock < 0)
		return NULL;
	rq = protocol_request(OP_ping);
	return keeper_call(sock, rq, NULL, 0, NULL, e);
}

int driver_guard(int sock, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_guard);

	request_set_guard(rq, 1);
	return wire_request(sock, rq, NULL, 0, e);
}

static int stop_keeper(struct service *s, int sock, struct err *e)
{
	const struct stop_request how = { .own_grace = 1, .drain_ms = service_drain_ms(s) };

	return keeper_ask_to_stop(sock, &how, e) < 0 && e->code != ERR_NOT_FOUND ? -1 : 0;
}

int driver_stop(struct service *s, const struct record *r, struct err *e)
{
	const char *id = record_str(r, "container_id");
	autoclose int sock = driver_connect(s, r, e);
	struct registry reg;
	struct err ignored;
	struct config c;

	if (sock < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (stop_keeper(s, sock, e) < 0 || open_place(s, r, &c, &reg, e) < 0)
		return -1;
	record_note_stopped(&reg, id, NULL, &ignored);
	registry_close(&reg);
	return 0;
}

/* Runs berth in the directories, and by the configuration, of this machine's berthd that made the sandbox. */
static int berth_of(struct service *s, const struct record *r, json_t *call, struct buf *out, struct err *e)
{
	static const char *const names[] = { "BERTH_STATE_DIR", "BERTH_RUN_DIR", "BERTH_CONFIG" };
	char ours[ARRAY_LEN(names)][400];
	autofree char **env = NULL;
	size_t i, k, n = 0;

	while (environ[n])
		n++;
	env = calloc(n + ARRAY_LEN(names) + 1, sizeof(*env));
	if (!env) {
		json_decref(call);
		return err_nomem(e);
	}
	snprintf(ours[0], sizeof(ours[0]), "%s=%.300s", names[0], record_own(r, "state_dir"));
	snprintf(ours[1], sizeof(ours[1]), "%s=%.300s", names[1], record_own(r, "run_dir"));
	snprintf(ours[2], sizeof(ours[2]), "%s=%.300s/" CONFIG_ACCEPTED, names[2], record_own(r, "run_dir"));
	for (i = n = 0; environ[i]; i++) {
		for (k = 0; k < ARRAY_LEN(names) && strncmp(environ[i], names[k], strlen(names[k])); k++)
			;
		if (k == ARRAY_LEN(names))
			env[n++] = environ[i];
	}
	for (k = 0; k < ARRAY_LEN(names); k++)
		env[n++] = ours[k];
	return run_berth(s->berth_path, call, env, out, e);
}

int driver_start(struct service *s, const struct record *r, struct err *e)
{
	const char *id = record_str(r, "container_id");
	autobuf struct buf out = BUF_INIT(ANSWER_MAX);

	if (record_is_ours(s, r))
		return driver_berth(s, call_of("start", id, NULL), &out, e);
	return home_check(s, r, e) < 0 ? -1 : berth_of(s, r, call_of("start", id, NULL), &out, e);
}

static int forget_registry_entry(struct registry *reg, const char *id, struct err *e)
{
	unsigned cleared;
	struct err ignored;

	if (forget_alone(reg, id, e) < 0)
		return -1;
	/* a keeper that died at it leaves its half of the record */
	if (path_has(reg->sandboxes_fd, id))
		registry_gc(reg, &cleared, &ignored);
	return 0;
}

int driver_remove(struct service *s, const struct record *r, struct err *e)
{
	const char *id = record_str(r, "container_id");
	struct registry reg;
	struct config c;
	int sock, result = 0;

	if (!id[0])
		return driver_remove_name(s, r->name, e);
	sock = driver_connect(s, r, e);
	if (sock < 0 && e->code != ERR_NOT_FOUND)
		return -1;
	if (sock >= 0) {
		result = stop_keeper(s, sock, e);
		close(sock);
	}
	/* a sandbox that another host archived is on no host */
	if (result < 0 || (!record_is_ours(s, r) && record_run(r) == RUN_ARCHIVED))
		return result;
	if (open_place(s, r, &c, &reg, e) < 0)
		return -1;
	result = forget_registry_entry(&reg, id, e);
	registry_close(&reg);
	return result;
}

int driver_exists(struct service *s, const char *id)
{
	return path_has(s->registry.kept_fd, id) ||
	       path_has(s->registry.sandboxes_fd, id);
}

int driver_remove_name(struct service *s, const char *name, struct err *e)
{
	autobuf struct buf out = BUF_INIT(ANSWER_MAX);
	json_t *call = call_of("rm", name, NULL);

	call_flag(call, "force");
	return driver_berth(s, call, &out, e);
}

/* ---- commands ---- */

/* Appends as much as fits, and counts the rest. */
static void keep_bounded(struct buf *b, uint64_t *dropped, const char *p, size_t n)
{
	size_t room = b->max > b->len ? b->max - b->len : 0, take = n < room ? n : room;
	struct err ignored;

	if (take && buf_add(b, p, take, &ignored) < 0)
		take = 0;
	*dropped += n - take;
}

static int read_program_output(int *fd, struct buf *b, uint64_t *dropped)
{
	char piece[65536];
	ssize_t n = read(*fd, piece, sizeof(piece));

	if (n > 0) {
		keep_bounded(b, dropped, piece, (size_t)n);
		return 1;
	}
	if (n == 0 || (errno != EAGAIN && errno != EINTR))
		fd_close(fd);
	return 0;
}

static int feed_program_stdin(int *fd, const char **at)
{
	size_t n = strlen(*at);
	ssize_t w = n ? write(*fd, *at, n) : 0;

	if (w > 0)
		*at += w;
	if (!**at || (w < 0 && errno != EAGAIN && errno != EINTR))
		fd_close(fd);
	return 0;
}

/* Takes one packet: 1 if the program has ended, 0 for any other packet. */
static int take_verdict_packet(int sock, json_t **ret_verdict, struct err *e)
{
	autojson json_t *msg = NULL;
	size_t n = 0;
	int r = wire_recv(sock, 0, &msg, NULL, 0, &n, e);

	if (r == 0)
		return err_set(e, ERR_BUSY, "the sandbox was stopped or removed meanwhile");
	if (r < 0 || wire_check(msg, e) < 0)
		return -1;
	if (!json_object_get(msg, "ended"))
		return 0;
	*ret_verdict = json_incref(json_object_get(msg, "verdict"));
	return 1;
}

static int follow_program(struct service_use *u, int in, int out, int err, const char *text, struct service_output *ret, struct err *e)
{
	autoclose int in_fd = in, out_fd = out, err_fd = err;
	int r = 0, i;

	if (!text || !*text)
		fd_close(&in_fd);
	while (r == 0) {
		struct pollfd p[4] = {
			{ .fd = u->sock, .events = POLLIN }, { .fd = out_fd, .events = POLLIN }, { .fd = err_fd, .events = POLLIN },
			{ .fd = in_fd, .events = POLLOUT },
		};

		if (poll(p, 4, 250) < 0 && errno != EINTR)
			return err_sys(e, "wait for a command");
		if (u->who && u->who->gone && u->who->gone(u->who->gone_ctx))
			return err_set(e, ERR_NET, "the client has gone");
		if (p[1].revents)
			read_program_output(&out_fd, &ret->out, &ret->out_dropped);
		if (p[2].revents)
			read_program_output(&err_fd, &ret->err, &ret->err_dropped);
		if (p[3].revents)
			feed_program_stdin(&in_fd, &text);
		if (p[0].revents)
			r = take_verdict_packet(u->sock, &ret->verdict, e);
	}
	/* the bytes that are there when the leader has ended; end-of-file may never come */
	for (i = 0; r == 1 && i < 4096 && out_fd >= 0 && read_program_output(&out_fd, &ret->out, &ret->out_dropped); i++)
		;
	for (i = 0; r == 1 && i < 4096 && err_fd >= 0 && read_program_output(&err_fd, &ret->err, &ret->err_dropped); i++)
		;
	return r < 0 ? -1 : 0;
}

int service_exec(struct service_use *u, json_t *argv, json_t *env, const char *in_text, uint64_t timeout_ms,
		 struct service_output *ret, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_exec);
	int p[3][2] = { { -1, -1 }, { -1, -1 }, { -1, -1 } }, i, r = -1;

	request_set_argv(rq, json_incref(argv));
	request_set_timeout_ms(rq, timeout_ms);
	if (env)
		request_set_env(rq, json_incref(env));
	for (i = 0; i < 3; i++) {
		if (pipe2(p[i], O_CLOEXEC) < 0) {
			err_sys(e, "make a pipe");
			goto out;
		}
		/* our end only */
		if (fcntl(p[i][i == 0], F_SETFL, O_NONBLOCK) < 0) {
			err_sys(e, "set up a pipe");
			goto out;
		}
	}
	if (wire_request(u->sock, rq, (int[3]){ p[0][0], p[1][1], p[2][1] }, 3, e) < 0)
		goto out;
	fd_close(&p[0][0]);
	fd_close(&p[1][1]);
	fd_close(&p[2][1]);
	r = follow_program(u, take_fd(&p[0][1]), take_fd(&p[1][0]), take_fd(&p[2][0]), in_text, ret, e);
out:
	for (i = 0; i < 3; i++) {
		fd_close(&p[i][0]);
		fd_close(&p[i][1]);
	}
	return r;
}
