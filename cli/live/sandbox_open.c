/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/sandbox_open.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "manager/host/record.h"
#include "manager/host/restart.h"

#define LOOK_FIRST_MS 5
#define LOOK_MS 100
#define FILES_TRIES 100 /* while another command starts or ends it */
#define FILES_LOOK_MS 5
#define ENDS_MS 30000

void sandbox_ref_init(struct sandbox_ref *s)
{
	memset(s, 0, sizeof(*s));
	s->sock = -1;
	s->registry = (struct registry)REGISTRY_INIT;
}

int sandbox_ref_registry(struct sandbox_ref *s, struct err *e)
{
	if (config_load(&s->config, e) < 0)
		return -1;
	return registry_open(&s->registry, &s->config, e);
}

int sandbox_ref_find(struct sandbox_ref *s, const char *ref, struct err *e)
{
	char id[sizeof(s->id)];

	if (s->registry.run_fd < 0 && sandbox_ref_registry(s, e) < 0)
		return -1;
	/* ref may be the id that is there from a look before */
	if (registry_find(&s->registry, ref, id, &s->kept, e) < 0)
		return -1;
	memcpy(s->id, id, sizeof(id));
	/* one that runs has a keeper that understands its own files */
	return s->kept ? record_check_format(&s->registry, s->id, e) : 0;
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

int sandbox_ref_connect_files(struct sandbox_ref *s, const char *ref, int start, struct err *e)
{
	int tries, result = -1;

	for (tries = 0; tries < FILES_TRIES; tries++) {
		if (sandbox_ref_find(s, ref, e) < 0)
			return -1;
		if (!s->kept || start)
			return sandbox_ref_connect(s, ref, start, e);
		result = resident_start_files(&s->registry, s->id, e);
		if (result == 0 || e->code != ERR_EXISTS)
			break;
		poll(NULL, 0, FILES_LOOK_MS);
	}
	if (result < 0)
		return -1;
	s->for_files = 1;
	s->sock = keeper_connect(&s->registry, s->id, e);
	return s->sock < 0 ? -1 : 0;
}

/* Nothing is left of it when its keeper closes the connection. */
static void await_files_end(struct sandbox_ref *s)
{
	struct pollfd p = { .fd = s->sock, .events = POLLIN };
	char rest[4096];

	if (s->sock < 0 || shutdown(s->sock, SHUT_WR) < 0)
		return;
	while (poll(&p, 1, ENDS_MS) == 1 && recv(s->sock, rest, sizeof(rest), MSG_DONTWAIT) > 0)
		;
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
	if (s->for_files)
		await_files_end(s);
	fd_close(&s->sock);
	registry_close(&s->registry);
}
