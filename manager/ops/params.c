/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/params.h"

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

/* Values with a grammar of their own: the functions that READ() names in params.def. */

/* ---- limits ------------------------------------------------------------------------------------ */

static int read_cpuset(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return limitopts_cpuset(v, &o->spec.limits, e);
}

static int read_io_rate(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	struct limitopts_io rate;

	(void)p;
	return limitopts_io_parse(v, &rate, e) < 0 ? -1 : runopts_push(&o->io_rates, v, e);
}

static int read_ulimit(struct runopts *o, const struct param *p, const char *v, struct err *e)
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

static int read_env(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return own_env(o, envopts_settle(v, e), e);
}

static int read_env_file(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return envopts_file(v, add_env_line, o, e);
}

static int read_workdir(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	o->workdir = v;
	return v[0] == '/' ? 0 : err_set(e, ERR_INVALID, "'%.200s' must be an absolute path in the sandbox", v);
}

static int own_mount(struct runopts *o, int r, char *owned, struct err *e)
{
	return r < 0 ? -1 : runopts_own(o, owned, e);
}

static int read_mount(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	char *owned = NULL;
	const int r = mountspec_mount(&o->spec, v, &owned, e);

	(void)p;
	return own_mount(o, r, owned, e);
}

static int read_volume(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	char *owned = NULL;
	const int r = mountspec_volume(&o->spec, v, &owned, e);

	(void)p;
	return own_mount(o, r, owned, e);
}

static int read_tmpfs(struct runopts *o, const struct param *p, const char *v, struct err *e)
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

static int read_device(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return deviceopts_check(v, e) < 0 ? -1 : add_device(o, v, e);
}

static int read_gpus(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return deviceopts_gpus(v, add_device, o, e);
}

/* ---- its network -------------------------------------------------------------------------------- */

static int read_network(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return netopts_mode(&o->net, v, &o->spec.network, e);
}

static int read_add_host(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return netopts_host(&o->net, v, e);
}

static int read_alias(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return netopts_alias(&o->net, v, e);
}

static int read_ip(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return netopts_ip(&o->net, v, e);
}

/* The row's min is its enum netopts_list. */
static int read_network_list(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	return netopts_add(&o->net, (enum netopts_list)p->min, v, e);
}

/* The row's min is its enum netopts_budget. */
static int read_network_budget(struct runopts *o, const struct param *p, const char *v, struct err *e)
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

static int read_cap_add(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return add_caps(&o->caps_added, v, e);
}

static int read_cap_drop(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return add_caps(&o->caps_dropped, v, e);
}

static int add_label(void *ctx, const char *text, struct err *e)
{
	struct runopts *o = ctx;

	return labels_add(&o->labels, text, e);
}

static int read_mark(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return labels_add(&o->marks, v, e);
}

/* An older berth kept its own among the others, in spec.json. */
static int read_label(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	return labels_are_own(v) ? read_mark(o, p, v, e) : add_label(o, v, e);
}

static int read_label_file(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return envopts_lines(v, add_label, o, e);
}

/* ---- its life ------------------------------------------------------------------------------------- */

static int read_owner_pid(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	if (!strcmp(v, "0"))
		return o->life.owner[0] = '\0', 0;
	return procid_parse(v, o->life.owner, e);
}

static int read_budget(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return livebudget_parse(v, &o->life.budget, e);
}

static int read_health_cmd(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return healthopts_shell(o, v, e);
}

static int read_health_exec(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return healthopts_words(o, json_loads(v, JSON_REJECT_DUPLICATES, NULL), e);
}

static int read_stop_signal(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	uint64_t signo;

	(void)p;
	if (signal_number(v, &signo, e) < 0)
		return -1;
	o->life.service.service.stop_signal = (int)signo;
	return 0;
}

static int read_restart(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return restart_parse(v, &o->life.service.service.restart, e);
}

/* ---- the table ---------------------------------------------------------------------------------- */

#define DAY_MS 86400000ULL
#define YEAR_MS (366 * DAY_MS)

/* The words of the columns of params.def. */
#define RUN PARAM_OF_RUN
#define CREATE PARAM_OF_CREATE
#define DETACHED PARAM_OF_DETACHED
#define MCP PARAM_OF_MCP
#define LASTING (RUN | CREATE | DETACHED | MCP)
#define SANDBOX (LASTING | PARAM_OF_ZYGOTE)
#define UPDATE PARAM_OF_UPDATE
#define FORK PARAM_OF_FORK
#define REQUEST PARAM_OF_REQUEST
#define ADMIN 0
#define TENANT PARAM_BY_TENANT
#define TENANT_NAMED PARAM_BY_TENANT_NAMED
#define IMPORT PARAM_BY_IMPORT
#define HOME PARAM_WITH_ZYGOTE
#define LOCAL PARAM_LOCAL
#define HERE PARAM_HERE
#define NO_ZYGOTE PARAM_NOT_OF_ZYGOTE
#define G_NONE PARAM_G_NONE
#define G_RULE PARAM_G_RULE
#define G_NETWORK PARAM_G_NETWORK
#define G_OF_NETWORK PARAM_G_OF_NETWORK
#define G_LIFE PARAM_G_LIFE
#define G_HEALTH PARAM_G_HEALTH
#define G_CHECK PARAM_G_CHECK
#define G_NO_CHECK PARAM_G_NO_CHECK
#define AT(place) .at = offsetof(struct runopts, place)
#define READ(fn) .read = read_##fn
#define HANDLED .read = NULL	/* by the command that has it */

#define KIND_FLAG OPT_FLAG
#define KIND_SIZE OPT_VALUE
#define KIND_COUNT OPT_VALUE
#define KIND_MILLI OPT_VALUE
#define KIND_TIME OPT_VALUE
#define KIND_TEXT OPT_VALUE
#define KIND_LIST OPT_LIST
#define KIND_PAIRS OPT_LIST

#define complete opt.complete
#define words opt.words
static const struct param table[] = {
#define PARAM(id_, name_, letter_, type_, arg_, min_, max_, place_, of_, rights_, group_, preset_, help_, ...)      \
	[PARAM_##id_] = {.opt = {.name = name_, .letter = letter_, .kind = KIND_##type_, .arg = arg_, .help = help_,  \
				 .id = PARAM_##id_, .preset = preset_},                                                \
			 .type = PARAM_##type_, .min = min_, .max = max_, place_, .of = of_, .rights = rights_,        \
			 .group = group_, __VA_ARGS__},
#include "manager/ops/params.def"
#undef PARAM
};
#undef complete
#undef words

const struct param *param_of(int id)
{
	return &table[id];
}

const struct param *param_named(const char *name)
{
	size_t i;

	for (i = PARAM_NONE + 1; i < ARRAY_LEN(table); i++)
		if (!strcmp(table[i].opt.name, name))
			return &table[i];
	return NULL;
}

const struct param *param_next(int id, unsigned of)
{
	for (id++; id < PARAM_END; id++)
		if (table[id].of & of)
			return &table[id];
	return NULL;
}

int param_is_told(const struct param *p, unsigned of)
{
	return !p->hidden && !(p->rights & PARAM_LOCAL) &&
	       !((of & PARAM_OF_ZYGOTE) && (p->rights & PARAM_NOT_OF_ZYGOTE));
}

int param_parse(const struct param *p, const char *value, uint64_t *to, struct err *e)
{
	const char *name = p->opt.name;
	uint64_t v;
	int r;

	if (p->unlimited && !strcmp(value, "unlimited"))
		return *to = CGROUP_UNLIMITED, 0;
	switch (p->type) {
	case PARAM_SIZE:
		r = num_size(value, name, p->min, p->max, &v, e);
		break;
	case PARAM_MILLI:
		r = num_milli(value, name, p->min, p->max, &v, e);
		break;
	case PARAM_TIME:
		r = num_duration_ms(value, name, p->max, &v, e);
		if (r == 0 && v < p->min)
			r = err_set(e, ERR_INVALID, "%s '%.40s' is shorter than %llums", name, value,
				    (unsigned long long)p->min);
		break;
	default:
		r = num_u64(value, name, p->min, p->max, &v, e);
	}
	if (r == 0)
		*to = v;
	return r;
}

int params_read(struct runopts *o, const struct param *p, const char *value, struct err *e)
{
	void *const to = (char *)o + p->at;
	int r = 0;

	if (p->read) {
		r = p->read(o, p, value, e);
	} else if (!p->at) {
		return err_set(e, ERR_INTERNAL, "option %s has no place", p->opt.name);
	} else if (p->type == PARAM_FLAG) {
		*(int *)to = 1;
	} else if (p->type == PARAM_TEXT) {
		if (strlen(value) < p->min)
			return err_set(e, ERR_INVALID, "the %s is empty", p->opt.name);
		*(const char **)to = value;
	} else {
		r = param_parse(p, value, to, e);
	}
	if (r == 0)
		runopts_note_given(o, p->opt.id);
	return r;
}
