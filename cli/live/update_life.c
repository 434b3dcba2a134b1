/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/update_life.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/live/resident.h"
#include "manager/host/record.h"
#include "manager/host/restart.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/protocol.h"
#include "manager/ops/params.h"

static int is_of_health(const struct param *p)
{
	return p->group >= PARAM_G_HEALTH;
}

static void ask_for(json_t *rq, const struct param *p, const char *value, const json_t *health,
		    uint64_t grace_ms)
{
	if (p->opt.id == PARAM_RESTART)
		request_set_restart(rq, value);
	else if (p->opt.id == PARAM_OWNER_PID)
		request_set_owner(rq, strcmp(value, "0") ? value : "");
	else if (p->opt.id == PARAM_OWNER_GRACE)
		request_set_owner_grace_ms(rq, grace_ms);
	else
		request_set_health(rq, json_deep_copy(health));
}

int update_life_ask(struct registry *r, const char *id, const json_t *spec, const json_t *options,
		    json_t *rq, struct err *e)
{
	autojson json_t *health = NULL;
	uint64_t grace_ms = 0;
	const json_t *pair;
	size_t i;

	json_array_foreach(options, i, pair) {
		const struct param *p = param_named(json_string_value(json_array_get(pair, 0)));

		if (p->group != PARAM_G_LIFE && !is_of_health(p))
			continue;
		if (!health && !(health = resident_check_life(r, id, spec, &grace_ms, e)))
			return -1;
		ask_for(rq, p, json_string_value(json_array_get(pair, 1)), health, grace_ms);
	}
	return 0;
}

int update_life_record(struct registry *r, const char *id, const json_t *rq, struct err *e)
{
	const char *restart = request_restart(rq, NULL), *owner = request_owner(rq, NULL);
	autojson json_t *record = restart || owner ? record_load_kept(r, id, e) : NULL;
	struct restart_policy p;

	if (!restart && !owner)
		return 0;
	if (!record || (restart && restart_parse(restart, &p, e) < 0))
		return -1;
	if (restart)
		restart_note(record, &p, 0);
	if (owner && owner[0]) {
		record_set_owner_process(record, owner);
		record_set_owner_pid(record, (uint64_t)atoi(owner));
	} else if (owner) {
		record_drop_owner(record);
	}
	return record_save_kept(r, id, record, e);
}

int update_guardian_begin(struct update_guardian *g, struct registry *r, const char *id,
			  json_t *rq, struct err *e)
{
	const char *restart = request_restart(rq, NULL);
	int fds[2];

	if (!restart || !strcmp(restart, "no") || restart_is_guarded(r, id))
		return 0;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	fflush(NULL);
	g->pid = fork();
	if (g->pid == 0) {
		close(fds[1]);
		guardian_become(id, 0, fds[0]);
	}
	close(fds[0]);
	g->go_fd = fds[1];
	if (g->pid < 0) {
		g->pid = 0;
		fd_close(&g->go_fd);
		return err_sys(e, "fork a guardian");
	}
	request_set_guardian_pid(rq, (uint64_t)g->pid);
	return 0;
}

void update_guardian_end(struct update_guardian *g, int ok)
{
	if (ok && g->pid)
		io_write_all(g->go_fd, "", 1);
	fd_close(&g->go_fd);
	if (!ok && g->pid)
		waitpid(g->pid, NULL, 0);
	g->pid = 0;
}
