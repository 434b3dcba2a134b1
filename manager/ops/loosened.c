/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protections that the given options remove: collected once all options are read, and
 * reported once.
 */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "manager/ops/runopts.h"
#include "runtime/kernel/caps.h"
#include "runtime/sandbox/spec.h"

#define TEXT_MAX 4096

static uint32_t bit(enum loosened which, int is)
{
	return is ? 1u << which : 0;
}

static int more_unlimited(uint64_t has, uint64_t usual)
{
	return has == CGROUP_UNLIMITED && usual != CGROUP_UNLIMITED;
}

/* strict < standard < dev; the rank of a file is unknown. */
static int is_looser(const char *profile, const char *usual)
{
	static const char *const order[] = { "strict", "standard", "dev" };
	size_t has = 0, had = 0;

	while (has < ARRAY_LEN(order) && strcmp(profile, order[has]))
		has++;
	while (had < ARRAY_LEN(order) && strcmp(usual, order[had]))
		had++;
	return has == ARRAY_LEN(order) ? strcmp(profile, usual) != 0 : has > had;
}

uint32_t runopts_loosened(const struct runopts *o)
{
	const struct spec *s = &o->spec;
	const struct config *c = o->config;
	uint32_t set = bit(LOOSE_NETWORK, s->network == NETWORK_HOST) | bit(LOOSE_CAPS, (s->caps & ~caps_default()) != 0) |
		       bit(LOOSE_CONNECTIONS, s->network == NETWORK_BRIDGE && netopts_is_unlimited(&o->net, NETOPTS_CONNECTIONS)) |
		       bit(LOOSE_MEMORY, more_unlimited(s->limits.memory_bytes, c->memory_bytes)) |
		       bit(LOOSE_SWAP, more_unlimited(s->limits.swap_bytes, c->swap_bytes)) |
		       bit(LOOSE_CPUS, more_unlimited(s->limits.cpu_milli, c->cpu_milli)) |
		       bit(LOOSE_DEVICES, o->device_names.count > 0) |
		       bit(LOOSE_PIDS, more_unlimited(s->limits.pids, c->pids));

	if (s->unconfined_seccomp)
		return set | bit(LOOSE_SECCOMP, strcmp(c->seccomp, "unconfined") != 0);
	return set | bit(LOOSE_PROFILE, strcmp(c->seccomp, "unconfined") && is_looser(o->seccomp, c->seccomp));
}

void runopts_tell_loosened(const struct runopts *o, const char *prog)
{
	autobuf struct buf b = BUF_INIT(TEXT_MAX);
	struct err ignored;

	if (o->spec.loosened && loosen_text(o->spec.loosened, &b, &ignored) == 0)
		log_note(prog, "less confined than by default: %s", b.data);
}
