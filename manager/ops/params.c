/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "manager/host/labels.h"
#include "manager/host/nets.h"
#include "manager/host/volume.h"
#include "manager/ops/devices.h"
#include "manager/ops/healthopts.h"
#include "manager/ops/mountspec.h"
#include "manager/ops/optvalues.h"
#include "manager/ops/runopts.h"
#include "runtime/kernel/caps.h"

/* ---- the rows, and their texts ---- */

/* Readers of values with a grammar of their own: the functions that READ() names in params.def. */

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

/* Adds entry, from the heap, which is consumed; NULL: an earlier step failed. */
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

static int add_device_option(void *ctx, const char *name, struct err *e)
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
	return deviceopts_check(v, e) < 0 ? -1 : add_device_option(o, v, e);
}

static int read_gpus(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return deviceopts_gpus(v, add_device_option, o, e);
}

/* ---- its network -------------------------------------------------------------------------------- */

static int read_network_mode(struct runopts *o, const struct param *p, const char *v, struct err *e)
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

/* Adds to a list; the row's min is its enum netopts_list. */
static int read_network_list(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	return netopts_add(&o->net, (enum netopts_list)p->min, v, e);
}

/* Sets a budget; the row's min is its enum netopts_budget. */
static int read_network_budget(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	return netopts_set(&o->net, (enum netopts_budget)p->min, v, e);
}

/* ---- its rights, its labels ----------------------------------------------------------------------- */

static int add_cap_option(uint64_t *set, const char *v, struct err *e)
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
	return add_cap_option(&o->caps_added, v, e);
}

static int read_cap_drop(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return add_cap_option(&o->caps_dropped, v, e);
}

static int add_label_option(void *ctx, const char *text, struct err *e)
{
	struct runopts *o = ctx;

	return labels_add(&o->labels, text, e);
}

static int read_own_label(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return labels_add(&o->marks, v, e);
}

/* Adds a label. An older berth kept its own labels among the others, in spec.json. */
static int read_label(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	return labels_are_own(v) ? read_own_label(o, p, v, e) : add_label_option(o, v, e);
}

static int read_label_file(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	(void)p;
	return envopts_lines(v, add_label_option, o, e);
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

/* "ROWSxCOLUMNS" */
static int read_terminal_size(struct runopts *o, const struct param *p, const char *v, struct err *e)
{
	struct keeper_service *s = &o->life.service.service;
	const char *x = strchr(v, 'x');
	char rows[8];

	snprintf(rows, sizeof(rows), "%.*s", x ? (int)(x - v) : 0, v);
	if (!x || x - v >= (int)sizeof(rows))
		return err_set(e, ERR_INVALID, "--%s takes ROWSxCOLUMNS such as 24x80, not '%.40s'", p->opt.name, v);
	return num_u64(rows, "rows", p->min, p->max, &s->rows, e) < 0 ? -1 : num_u64(x + 1, "columns", p->min, p->max, &s->cols, e);
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
#define HANDLED .read = NULL	/* read by the command that has it */

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

/* ---- options as JSON ---- */

/*
 * Converts options between JSON and the lists that spec.json keeps, and finds which option replaces
 * another.
 */

int params_keep(json_t *list, const char *name, const char *value, struct err *e)
{
	return json_array_append_new(list, json_pack("[s,s]", name, value ? value : "")) < 0 ?
		       err_set(e, ERR_INVALID, "the value is not valid UTF-8") :
		       0;
}

/* ---- from JSON --------------------------------------------------------------------------------- */

static const char *const wanted[] = {
	[PARAM_FLAG] = "true or false",
	[PARAM_SIZE] = "a number of bytes or a text such as \"512m\"",
	[PARAM_COUNT] = "a whole number",
	[PARAM_MILLI] = "a number such as 0.5",
	[PARAM_TIME] = "a number of seconds or a text such as \"10m\"",
	[PARAM_TEXT] = "a string",
	[PARAM_LIST] = "a string or an array of strings",
	[PARAM_PAIRS] = "an array of strings NAME=VALUE, or an object of strings",
};

static char *refuse_type(const struct param *p, struct err *e)
{
	err_set(e, ERR_INVALID, "option %s is not %s", p->opt.name, wanted[p->type]);
	return NULL;
}

/* Formats v with the fewest decimals that read back as v, never with an exponent; NULL beyond 10^18. */
static char *real_text(double v)
{
	char text[64];
	int decimals;

	if (!(v > -1e18 && v < 1e18))
		return NULL;
	for (decimals = 0; decimals < 20; decimals++) {
		snprintf(text, sizeof(text), "%.*f", decimals, v);
		if (strtod(text, NULL) == v)
			break;
	}
	return strdup(text);
}

char *param_text(const struct param *p, const json_t *value, struct err *e)
{
	const int takes_number = p->number_too || (p->type != PARAM_TEXT && p->type != PARAM_FLAG);
	char *text = NULL;

	if (json_is_string(value)) {
		if (p->type == PARAM_FLAG)
			return refuse_type(p, e);
		if (strlen(json_string_value(value)) != json_string_length(value)) {
			err_set(e, ERR_INVALID, "option %s holds a NUL character", p->opt.name);
			return NULL;
		}
		text = strdup(json_string_value(value));
	} else if (takes_number && json_is_integer(value)) {
		if (asprintf(&text, "%" JSON_INTEGER_FORMAT, json_integer_value(value)) < 0)
			text = NULL;
	} else if (takes_number && json_is_real(value)) {
		text = real_text(json_real_value(value));
		if (!text)
			return refuse_type(p, e);
	} else {
		return refuse_type(p, e);
	}
	if (!text)
		err_nomem(e);
	return text;
}

int param_number(const struct param *p, const json_t *value, uint64_t *ret, struct err *e)
{
	autofree char *text = param_text(p, value, e);

	return text ? param_parse(p, text, ret, e) : -1;
}

static int keep_one(const struct param *p, const json_t *value, json_t *list, struct err *e)
{
	autofree char *text = NULL;

	if (p->type == PARAM_FLAG && json_is_true(value))
		return params_keep(list, p->opt.name, "", e);
	text = param_text(p, value, e);
	return text ? params_keep(list, p->opt.name, text, e) : -1;
}

/*
 * Checks options from another machine: a variable's NAME alone would take the value that it has
 * here, and labels of berth's own are not the client's.
 */
static int check_from_afar(const json_t *list, struct err *e)
{
	const json_t *pair;
	size_t i;

	json_array_foreach(list, i, pair) {
		const struct param *p = param_named(json_string_value(json_array_get(pair, 0)));
		const char *value = json_string_value(json_array_get(pair, 1));

		if (p->opt.id == PARAM_ENV && !strchr(value, '='))
			return err_set(e, ERR_INVALID, "options.env holds something else than NAME=VALUE");
		if (p->opt.id == PARAM_LABEL && labels_refuse_own(value, e) < 0)
			return -1;
	}
	return 0;
}

json_t *param_pairs(const struct param *p, const json_t *value, struct err *e)
{
	json_t *pairs = json_array(), *one;
	const char *name;

	json_object_foreach((json_t *)(uintptr_t)value, name, one) {
		autofree char *text = param_text(p, one, e);

		/* a name with "=" in it would be another name */
		if (text && !strchr(name, '=') && json_array_append_new(pairs, json_sprintf("%s=%s", name, text)) == 0)
			continue;
		if (text)
			refuse_type(p, e);
		json_decref(pairs);
		return NULL;
	}
	return pairs;
}

static int keep_values(const struct param *p, const json_t *value, json_t *list, struct err *e)
{
	autojson json_t *pairs = NULL;
	const json_t *one;
	size_t i;

	if (json_is_object(value) && p->type == PARAM_PAIRS) {
		pairs = param_pairs(p, value, e);
		return pairs ? keep_values(p, pairs, list, e) : -1;
	}
	if (!json_is_array(value))
		return keep_one(p, value, list, e);
	if (p->opt.kind != OPT_LIST && json_array_size(value) != 1)
		return refuse_type(p, e), -1;
	json_array_foreach((json_t *)(uintptr_t)value, i, one)
		if (keep_one(p, one, list, e) < 0)
			return -1;
	return 0;
}

int params_from_json(const json_t *options, unsigned of, json_t *list, struct err *e)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)options, name, value) {
		const struct param *p = param_named(name);

		/* a request from another machine has the name as a member of its own */
		if (!p || !(p->of & of) || (of & PARAM_FROM_AFAR && (p->hidden || p->opt.id == PARAM_NAME)))
			return err_set(e, ERR_USAGE, "'%.60s' is not an option here", name);
		if (json_is_null(value) || json_is_false(value))
			continue;
		if (keep_values(p, value, list, e) < 0)
			return -1;
	}
	return of & PARAM_FROM_AFAR ? check_from_afar(list, e) : 0;
}

/* ---- one option in the place of another ---------------------------------------------------------- */

static const struct param *param_of_pair(const json_t *pair)
{
	const char *name = json_string_value(json_array_get(pair, 0));

	return name ? param_named(name) : NULL;
}

static int is_health_param(const struct param *p)
{
	return p->group == PARAM_G_HEALTH || p->group == PARAM_G_CHECK || p->group == PARAM_G_NO_CHECK;
}

/* Tells whether two options judge the same thing: allow-host and deny-host do, and allow-net and deny-net. */
static int judge_the_same(const struct param *a, const struct param *b)
{
	return !strcmp(strchr(a->opt.name, '-'), strchr(b->opt.name, '-'));
}

int params_update_replaces(const json_t *now, const json_t *before)
{
	const struct param *a = param_of_pair(now), *b = param_of_pair(before);
	const json_t *value = json_array_get(now, 1), *old = json_array_get(before, 1);

	if (!a || !b)
		return 0;
	if (a->group == PARAM_G_RULE && b->group == PARAM_G_RULE)
		return judge_the_same(a, b) && json_equal(value, old);
	if (is_health_param(a) && is_health_param(b))
		return a == b || a->group == PARAM_G_NO_CHECK || b->group == PARAM_G_NO_CHECK ||
		       (a->group == PARAM_G_CHECK && b->group == PARAM_G_CHECK);
	if (a->opt.id == PARAM_IO_RATE && a == b)
		return limitopts_io_same(json_string_value(value), json_string_value(old));
	return a == b;
}

/* ---- what a tenant may give ---- */

static int is_named_volume(const json_t *value)
{
	const char *text = json_string_value(value);
	char name[VOLUME_NAME_MAX + 1];

	return text && volume_of_option("volume", text, name) && path_is_name(name);
}

/* Tells whether all are volumes by name; a path, or what could be one, is the host's. */
static int are_named(const json_t *value)
{
	const json_t *one;
	size_t i;

	if (!json_is_array(value))
		return is_named_volume(value);
	json_array_foreach ((json_t *)(size_t)value, i, one)
		if (!is_named_volume(one))
			return 0;
	return 1;
}

/*
 * Tells whether a tenant's sandbox may be on the network: none, which takes a right away, or a
 * network of its own by name, that is, no mode and no key. The owner is added when the sandbox is
 * made.
 */
static int may_be_on(const char *network)
{
	struct err ignored;

	return !strcmp(network, "none") ||
	       (path_is_name(network) && nets_check_name(network, &ignored) == 0);
}

/* Upholds S19 of SECURITY.md. */
static int is_tenant_option(const char *option, const json_t *value)
{
	const struct param *p = param_named(option);

	if (!p)
		return 0;
	if (p->rights & PARAM_BY_TENANT)
		return 1;
	if (!value || !(p->rights & PARAM_BY_TENANT_NAMED))
		return 0;
	return p->opt.id == PARAM_VOLUME ? are_named(value) :
					   json_is_string(value) && may_be_on(json_string_value(value));
}

int tenantopts_check(const char *option, const json_t *value, struct err *e)
{
	return is_tenant_option(option, value) ?
		       0 :
		       err_set(e, ERR_DENIED, "option %s needs an admin token", option);
}

int tenantopts_check_change(const char *option, struct err *e)
{
	const int life = !strcmp(option, "idle-timeout") || !strncmp(option, "owner-", 6);

	if (is_tenant_option(option, NULL))
		return 0;
	return err_set(e, ERR_DENIED, "%s needs an admin token",
		       life || !strncmp(option, "io-", 3) ? option : "a rule of the network");
}
