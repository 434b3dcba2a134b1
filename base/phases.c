/* SPDX-License-Identifier: Apache-2.0 */
#include "base/phases.h"

#include <stdio.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"

struct phases *phases_on;

static const char *const names[] = {
	[PHASE_IMAGE] = "image",       [PHASE_CLAIM] = "claim",	      [PHASE_CGROUP] = "cgroup",
	[PHASE_PROCESS] = "process",   [PHASE_NETWORK] = "network",   [PHASE_WRITABLE] = "writable",
	[PHASE_MOUNTS] = "mounts",     [PHASE_INIT] = "init",	      [PHASE_CONNECT] = "connect",
	[PHASE_COMMAND] = "command",   [PHASE_REMOVE] = "remove",
};
_Static_assert(sizeof(names) / sizeof(names[0]) == PHASE_COUNT, "a name for each phase");

static uint64_t phase_now_us(void)
{
	struct timespec t = clock_now(CLOCK_MONOTONIC);

	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

int phases_begin(struct err *e)
{
	void *page;

	if (phases_on)
		return 0;
	page = mmap(NULL, sizeof(*phases_on), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return err_sys(e, "map a page for the times");
	phases_on = page;
	return 0;
}

void phases_end(void)
{
	if (phases_on)
		munmap(phases_on, sizeof(*phases_on));
	phases_on = NULL;
}

static void stop_phase(struct phases *p, uint64_t now)
{
	if (p->begun)
		p->us[p->now] += now - p->since_us;
	p->begun = 0;
	p->since_us = now;
}

void phases_switch(enum phase p)
{
	stop_phase(phases_on, phase_now_us());
	phases_on->now = p;
	phases_on->begun = 1;
}

const char *phases_name(enum phase p)
{
	return names[p];
}

void phases_tell(const char *prog)
{
	uint64_t total = 0;
	int i;

	if (!phases_on)
		return;
	stop_phase(phases_on, phase_now_us());
	for (i = 0; i < PHASE_COUNT; i++) {
		if (phases_on->us[i])
			log_note(prog, "%-8s %9.3f ms", names[i], (double)phases_on->us[i] / 1000);
		total += phases_on->us[i];
	}
	log_note(prog, "%-8s %9.3f ms", "total", (double)total / 1000);
}

json_t *phases_json(void)
{
	json_t *j = json_object();
	uint64_t total = 0;
	char key[32];
	int i;

	if (!phases_on || !j)
		return j;
	stop_phase(phases_on, phase_now_us());
	for (i = 0; i < PHASE_COUNT; i++) {
		snprintf(key, sizeof(key), "%s_ms", names[i]);
		if (phases_on->us[i])
			json_object_set_new(j, key, json_real((double)phases_on->us[i] / 1000));
		total += phases_on->us[i];
	}
	json_object_set_new(j, "total_ms", json_real((double)total / 1000));
	return j;
}
