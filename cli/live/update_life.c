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
#include "manager/keeper/guardian.h"
#include "manager/keeper/request.h"

static const struct opt table[] = { UPDATE_LIFE_TABLE };

static const struct opt *row_of(int id)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].id == id)
			return &table[i];
	return NULL;
}

int update_life_option(json_t *options, int id, const char *value, struct err *e)
{
	const struct opt *row = row_of(id);
	char owner[PROCID_SIZE];

	if (!row)
		return 1;
	if (id == UPDATE_OWNER_PID && strcmp(value, "0")) {
		if (procid_parse(value, owner, e) < 0)
			return -1;
		value = owner;
	}
	return json_array_append_new(options, json_pack("[s,s]", row->name, value ? value : "")) <
	       0 ? err_set(e, ERR_INVALID, "the value is not valid UTF-8") : 0;
}

static int is_health(const char *name)
{
	return !strncmp(name, "health-", 7) || !strncmp(name, "no-health", 9);
}

static int is_no_health(const char *name)
{
	return !strncmp(name, "no-health", 9);
}

/* Whether it sets a check, or removes it. */
static int says_check(const char *name)
{
	return !strcmp(name, "health-cmd") || !strcmp(name, "health-exec") || is_no_health(name);
}

int update_life_replaces(const char *now, const char *before)
{
	if (!is_health(now) || !is_health(before))
		return !strcmp(now, before);
	return is_no_health(now) || is_no_health(before) || !strcmp(now, before) ||
	       (says_check(now) && says_check(before));
}

int update_life_takes_back(const json_t *pair)
{
	const char *name = json_string_value(json_array_get(pair, 0));
	const char *value = json_string_value(json_array_get(pair, 1));

	return name && value && !strcmp(name, "owner-pid") && !strcmp(value, "0");
}

static void ask_for(json_t *rq, const char *name, const char *value, const json_t *health,
		    uint64_t grace_ms)
{
	if (!strcmp(name, "restart"))
		request_set_restart(rq, value);
	else if (!strcmp(name, "owner-pid"))
		request_set_owner(rq, strcmp(value, "0") ? value : "");
	else if (!strcmp(name, "owner-grace"))
		request_set_owner_grace_ms(rq, grace_ms);
	else if (is_health(name))
		request_set_health(rq, json_deep_copy(health));
}

int update_life_ask(struct registry *r, const char *id, const json_t *spec, const json_t *options,
		    json_t *rq, struct err *e)
{
	autojson json_t *health = NULL;
	uint64_t grace_ms = 0;
	const json_t *pair;
	size_t i, j;

	json_array_foreach(options, i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));
		int ours = 0;

		for (j = 0; j < ARRAY_LEN(table); j++)
			ours |= !strcmp(table[j].name, name);
		if (!ours)
			continue;
		if (!health && !(health = resident_check_life(r, id, spec, &grace_ms, e)))
			return -1;
		ask_for(rq, name, json_string_value(json_array_get(pair, 1)), health, grace_ms);
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
