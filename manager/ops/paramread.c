/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/paramread.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "manager/host/labels.h"
#include "manager/ops/deviceopts.h"
#include "manager/ops/envopts.h"
#include "manager/ops/healthopts.h"
#include "manager/ops/limitopts.h"
#include "manager/ops/mountspec.h"
#include "manager/ops/runopts.h"
#include "manager/ops/signals.h"
#include "runtime/kernel/caps.h"

/* ---- limits ------------------------------------------------------------------------------------ */

int paramread_cpuset(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return limitopts_cpuset(v, &o->spec.limits, e);
}

int paramread_io_rate(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	struct limitopts_io rate;

	(void)p;
	return limitopts_io_parse(v, &rate, e) < 0 ? -1 : runopts_push(&o->io_rates, v, e);
}

int paramread_ulimit(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	struct rlimits one = { 0 };
	size_t i;

	(void)p;
	if (rlimits_parse(&one, v, e) < 0)
		return -1;
	for (i = 0; i < RLIMITS_COUNT; i++)
		if (one.set & 1u << i)
			o->spec.rlimits.v[i] = one.v[i];
	o->spec.rlimits.set |= one.set;
	o->ulimits_asked |= one.set;
	return 0;
}

/* ---- what its commands see ---------------------------------------------------------------------- */

/* entry is of the heap, and consumed; NULL: it failed already. */
static int own_env(struct runopts *o, char *entry, struct err *e)
{
	return !entry || runopts_own(o, entry, e) < 0 ? -1 : runopts_push(&o->env, entry, e);
}

static int add_env_line(void *ctx, const char *line, struct err *e)
{
	char *own = strdup(line);

	return own ? own_env(ctx, own, e) : err_nomem(e);
}

int paramread_env(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return own_env(o, envopts_settle(v, e), e);
}

int paramread_env_file(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return envopts_file(v, add_env_line, o, e);
}

int paramread_workdir(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	o->workdir = v;
	return v[0] == '/' ? 0 : err_set(e, ERR_INVALID, "'%.200s' must be an absolute path in the sandbox", v);
}

static int own_mount(struct runopts *o, int r, char *owned, struct err *e)
{
	return r < 0 ? -1 : runopts_own(o, owned, e);
}

int paramread_mount(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	char *owned = NULL;
	const int r = mountspec_mount(&o->spec, v, &owned, e);

	(void)p;
	return own_mount(o, r, owned, e);
}

int paramread_volume(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	char *owned = NULL;
	const int r = mountspec_volume(&o->spec, v, &owned, e);

	(void)p;
	return own_mount(o, r, owned, e);
}

int paramread_tmpfs(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	char *owned = NULL;
	const int r = mountspec_tmpfs(&o->spec, v, &owned, e);

	(void)p;
	return own_mount(o, r, owned, e);
}

static int add_device(void *ctx, const char *name, struct err *e)
{
	struct runopts *o = ctx;
	char *own = strdup(name);

	if (!own)
		return err_nomem(e);
	return runopts_own(o, own, e) < 0 ? -1 : runopts_push(&o->device_names, own, e);
}

int paramread_device(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return deviceopts_check(v, e) < 0 ? -1 : add_device(o, v, e);
}

int paramread_gpus(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return deviceopts_gpus(v, add_device, o, e);
}

/* ---- its network -------------------------------------------------------------------------------- */

int paramread_network(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return netopts_mode(&o->net, v, &o->spec.network, e);
}

int paramread_add_host(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return netopts_host(&o->net, v, e);
}

int paramread_alias(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return netopts_alias(&o->net, v, e);
}

/* The row's min is its enum netopts_list. */
int paramread_network_list(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	return netopts_add(&o->net, (enum netopts_list)p->min, v, e);
}

/* The row's min is its enum netopts_budget. */
int paramread_network_budget(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	return netopts_set(&o->net, (enum netopts_budget)p->min, v, e);
}

/* ---- its rights, its labels ----------------------------------------------------------------------- */

static int add_caps(uint64_t *set, const char *v, struct err *e)
{
	uint64_t caps;

	if (caps_parse(v, &caps, e) < 0)
		return -1;
	*set |= caps;
	return 0;
}

int paramread_cap_add(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return add_caps(&o->caps_added, v, e);
}

int paramread_cap_drop(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return add_caps(&o->caps_dropped, v, e);
}

static int add_label(void *ctx, const char *text, struct err *e)
{
	struct runopts *o = ctx;

	return labels_add(&o->labels, text, e);
}

/* An older berth kept its own among the others, in spec.json. */
int paramread_label(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	return labels_are_own(v) ? paramread_mark(o, p, v, e) : add_label(o, v, e);
}

int paramread_mark(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return labels_add(&o->marks, v, e);
}

int paramread_label_file(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return envopts_lines(v, add_label, o, e);
}

/* ---- its life ------------------------------------------------------------------------------------- */

int paramread_owner_pid(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	if (!strcmp(v, "0"))
		return o->life.owner[0] = '\0', 0;
	return procid_parse(v, o->life.owner, e);
}

int paramread_budget(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return livebudget_parse(v, &o->life.budget, e);
}

int paramread_health_cmd(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return healthopts_shell(o, v, e);
}

int paramread_health_exec(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return healthopts_words(o, json_loads(v, JSON_REJECT_DUPLICATES, NULL), e);
}

int paramread_stop_signal(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	uint64_t signo;

	(void)p;
	if (signal_number(v, &signo, e) < 0)
		return -1;
	o->life.service.service.stop_signal = (int)signo;
	return 0;
}

int paramread_restart(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return restart_parse(v, &o->life.service.service.restart, e);
}
