/* SPDX-License-Identifier: Apache-2.0 */
/* Changes limits of a living sandbox, and its share of [admission] with them. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/ops/params.h"
#include "manager/service/state.h"

struct search {
	struct service *s;
	const char *id;
	struct service_limits *l;
};

static int look(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct search *f = ctx;
	struct err ignored;
	struct record r = { .j = json_parse(value, strlen(value), RECORD_MAX, key, &ignored), .version = version };

	if (r.j && record_is_ours(f->s, &r) && (record_is(&r, STATE_RUNNING) || record_is(&r, STATE_WARM)) &&
	    !strcmp(record_str(&r, "container_id"), f->id)) {
		snprintf(f->l->name, sizeof(f->l->name), "%s", record_str(&r, "container_name"));
		f->l->memory_bytes[0] = f->l->memory_bytes[1] = record_own_u64(&r, "memory_bytes");
		f->l->cpu_milli[0] = f->l->cpu_milli[1] = record_own_u64(&r, "cpu_milli");
	}
	record_close(&r);
	return 0;
}

/* A new limit, NULL for none, in place of *limit.  Unlimited where nothing is promised: the sandbox counts as before. */
static int read_limit(enum param_id id, const json_t *v, uint64_t most, uint64_t *limit, struct err *e)
{
	uint64_t n;

	if (!v)
		return 0;
	if (param_number(param_of(id), v, &n, e) < 0)
		return -1;
	if (n == UINT64_MAX)
		return most ? err_set(e, ERR_LIMIT, "unlimited is more than [admission] has") : 0;
	*limit = n;
	return 0;
}

static int read_limits(struct service *s, const json_t *memory, const json_t *cpus, struct service_limits *l, struct err *e)
{
	struct admission_limits has;

	pthread_mutex_lock(&s->admission.lock);
	has = s->admission.limits;
	pthread_mutex_unlock(&s->admission.lock);
	return read_limit(PARAM_MEMORY, memory, has.memory_bytes, &l->memory_bytes[1], e) < 0 ||
	       read_limit(PARAM_CPUS, cpus, has.cpu_milli, &l->cpu_milli[1], e) < 0 ? -1 : 0;
}

int service_limits_begin(struct service *s, const char *id, const json_t *memory, const json_t *cpus, struct service_limits *l, struct err *e)
{
	struct search f = { s, id, l };

	l->name[0] = '\0';
	if ((!memory && !cpus) || ledger_scan(s->ledger, RECORD_PREFIX, look, &f, e) < 0)
		return memory || cpus ? -1 : 0;
	if (!l->name[0])
		return 0;
	return read_limits(s, memory, cpus, l, e) < 0 ? -1 : place_change(s, l->name, l->memory_bytes[1], l->cpu_milli[1], e);
}

static int write_down(struct record *r, void *ctx, struct err *e)
{
	const struct service_limits *l = ctx;

	(void)e;
	record_set_own(r, "memory_bytes", json_integer((json_int_t)l->memory_bytes[1]));
	record_set_own(r, "cpu_milli", json_integer((json_int_t)l->cpu_milli[1]));
	return 1;
}

int service_limits_end(struct service *s, const struct service_limits *l, int done, struct err *e)
{
	if (!l->name[0])
		return 0;
	if (!done)
		return place_change(s, l->name, l->memory_bytes[0], l->cpu_milli[0], NULL);
	return record_change(s, l->name, write_down, (void *)(size_t)l, e);
}
