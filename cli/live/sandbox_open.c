/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/sandbox_open.h"

#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/host/restart.h"

#define LOOK_FIRST_MS 5
#define LOOK_MS 100

void sandbox_ref_init(struct sandbox_ref *s)
{
	memset(s, 0, sizeof(*s));
	s->sock = -1;
	s->registry = (struct registry){ .run_fd = -1, .state_fd = -1, .sandboxes_fd = -1, .names_fd = -1, .ids_fd = -1,
					 .kept_fd = -1 };
}

int sandbox_ref_registry(struct sandbox_ref *s, struct err *e)
{
	if (config_load(&s->config, e) < 0)
		return -1;
	return registry_open(&s->registry, &s->config, e);
}

int sandbox_ref_find(struct sandbox_ref *s, const char *ref, struct err *e)
{
	if (s->registry.run_fd < 0 && sandbox_ref_registry(s, e) < 0)
		return -1;
	if (registry_find(&s->registry, ref, s->id, &s->kept, e) < 0)
		return -1;
	/* one that runs has a keeper that understands its own files */
	return s->kept ? registry_check_format(&s->registry, s->id, e) : 0;
}

int sandbox_ref_connect(struct sandbox_ref *s, const char *ref, int start, struct err *e)
{
	if (sandbox_ref_find(s, ref, e) < 0)
		return -1;
	if (!s->kept) {
		s->sock = keeper_connect(&s->registry, s->id, e);
		if (s->sock >= 0 || !start || e->code != ERR_NOT_FOUND)
			return s->sock < 0 ? -1 : 0;
	}
	if (!start)
		return keeper_not_running(&s->registry, s->id, e);
	if (resident_start(&s->registry, s->id, e) < 0)
		return -1;
	s->sock = keeper_connect(&s->registry, s->id, e);
	return s->sock < 0 ? -1 : 0;
}

int sandbox_ref_await_run(struct sandbox_ref *s, uint64_t until_ms, struct err *e)
{
	int gap_ms = LOOK_FIRST_MS;
	int coming;

	for (;;) {
		/* first: a guardian ends when the run that it has made has a keeper */
		coming = restart_is_coming(&s->registry, s->id);
		s->sock = keeper_connect(&s->registry, s->id, e);
		if (s->sock >= 0)
			return 1;
		if (e->code != ERR_NOT_FOUND && e->code != ERR_INVALID)
			return -1;
		if (!coming)
			return 0;
		if (until_ms && clock_ms() >= until_ms)
			return err_set(e, ERR_TIMEOUT, "sandbox %s is not started again in time; "
				       "hint: berth logs %s", s->id, s->id);
		poll(NULL, 0, gap_ms);
		gap_ms = gap_ms * 2 < LOOK_MS ? gap_ms * 2 : LOOK_MS;
	}
}

void sandbox_ref_close(struct sandbox_ref *s)
{
	fd_close(&s->sock);
	registry_close(&s->registry);
}
