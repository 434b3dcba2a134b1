/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/resident_options.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "runtime/kernel/cgroup_io.h"

/* The options that make a sandbox, shared by create and the reading of spec.json. */
static const struct opt options[] = { RESIDENT_TABLE };

static const struct opt *option_of(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(options); i++)
		if (!strcmp(options[i].name, name))
			return &options[i];
	return NULL;
}

int resident_time(const char *name, const char *value, uint64_t *ret_ms, struct err *e)
{
	return num_duration_ms(value, name, 366ULL * 86400000, ret_ms, e);
}

int resident_check_budget(const struct livebudget *b, const struct spec *s, struct err *e)
{
	if (b->v[LIVEBUDGET_NET] && !spec_needs_nethelper(s))
		return err_set(e, ERR_INVALID,
			       "the traffic of the network mode %s is not counted, so a budget of "
			       "net cannot be enforced; hint: --network egress or bridge",
			       spec_network_name(s->network));
	return b->v[LIVEBUDGET_IO] ? cgroup_io_counts(e) : 0;
}

static int set_option(struct runopts *o, struct resident_life *l, int id, const char *value, struct err *e)
{
	const int health = healthopts_set(&l->health, id, value, e);
	const int service = health <= 0 ? health : serviceopts_set(&l->service, id, value, e);

	if (service <= 0)
		return service;
	switch (id) {
	case RESIDENT_IDLE_TIMEOUT:
		l->has_idle_timeout = 1;
		return resident_time("idle-timeout", value, &l->idle_timeout_ms, e);
	case RESIDENT_TTL:
		return resident_time("ttl", value, &l->ttl_ms, e);
	case RESIDENT_BUDGET:
		return livebudget_parse(value, &l->budget, e);
	case RESIDENT_AUTO_REMOVE:
		l->auto_remove = 1;
		return 0;
	case RESIDENT_OWNER_PID:
		return procid_parse(value, l->owner, e);
	case RESIDENT_OWNER_GRACE:
		return resident_time("owner-grace", value, &l->owner_grace_ms, e);
	default:
		return runopts_set(o, id, value, e);
	}
}

int resident_is_service(const json_t *spec)
{
	const json_t *pair;
	size_t i;

	json_array_foreach(json_object_get(spec, "options"), i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));
		const struct opt *opt = name ? option_of(name) : NULL;

		if (opt && opt->id == RESIDENT_SERVICE)
			return 1;
	}
	return 0;
}

int resident_apply(struct runopts *o, struct resident_life *l, const json_t *spec, struct err *e)
{
	json_t *list = NULL, *pair;
	size_t i;

	if (json_get_arr(spec, "options", &list, SPEC_FILE, e) < 0 || json_get_str(spec, "seccomp", &o->seccomp_text, SPEC_FILE, e) < 0)
		return -1;
	json_array_foreach(list, i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));
		const char *value = json_string_value(json_array_get(pair, 1));
		const struct opt *opt = name ? option_of(name) : NULL;

		if (!opt || (opt->kind != OPT_FLAG && !value))
			return err_set(e, ERR_CORRUPT, "%s: option %zu is unknown; hint: it was written by a newer berth", SPEC_FILE, i);
		if (set_option(o, l, opt->id, value, e) < 0)
			return err_wrap(e, "option --%s", name);
	}
	if (l->auto_remove && l->service.service.restart.when != RESTART_NO)
		return err_set(e, ERR_INVALID, "a sandbox that is removed when it stops cannot be "
			       "restarted; hint: either --restart or --auto-remove");
	if (healthopts_finish(&l->health, l->service.is_service, e) < 0)
		return -1;
	return serviceopts_words(&l->service, spec, e);
}

void resident_life_release(struct resident_life *l)
{
	healthopts_release(&l->health);
	serviceopts_release(&l->service);
}

/* line: NAME or NAME=VALUE */
static int check_option(struct runopts *o, char *line, const char *what, struct err *e)
{
	char *value = strchr(line, '=');
	struct resident_life unused = RESIDENT_LIFE_UNSAID;
	const struct opt *opt;
	int r;

	if (value)
		*value++ = '\0';
	opt = option_of(line);
	if (!opt || opt->id == RUNOPT_NAME)
		return err_set(e, ERR_CONFIG, "%s: '%.64s' is not an option here; hint: berth create --help", what, line);
	if ((opt->kind == OPT_FLAG) != !value)
		return err_set(e, ERR_CONFIG, value ? "%s: option %s takes no value; hint: \"%s\"" :
			       "%s: option %s wants a value; hint: \"%s=VALUE\"", what, line, line);
	r = set_option(o, &unused, opt->id, value, e);
	resident_life_release(&unused);
	if (r == 0)
		return 0;
	e->code = ERR_CONFIG;
	return err_wrap(e, "%s: option %s", what, line);
}

int resident_check_options(const struct config *c, const char *lines, const char *what, struct err *e)
{
	autofree char *copy = strdup(lines);
	struct runopts o;
	char *line, *save = NULL;
	int r = copy ? 0 : err_nomem(e);

	runopts_init(&o, c);
	for (line = copy ? strtok_r(copy, "\n", &save) : NULL; line && r == 0; line = strtok_r(NULL, "\n", &save))
		r = check_option(&o, line, what, e);
	runopts_release(&o);
	return r;
}

int resident_check_config(const struct config *c, struct err *e)
{
	struct runopts o;
	int r;

	runopts_init(&o, c);
	r = runopts_choose_seccomp(&o, e);
	runopts_release(&o);
	if (r == 0)
		return 0;
	e->code = ERR_CONFIG;
	return err_wrap(e, "sandbox.seccomp");
}

int resident_settle_time(struct spec *s, const struct config *c, struct err *e)
{
	if (s->cpu_time_ms)
		return err_set(e, ERR_INVALID, "--cpu-time is a limit of berth run, not of a sandbox that lives; hint: --cpus, or "
			       "--ulimit cpu=SECONDS for each process");
	if (!s->timeout_given) {
		s->timeout_ms = c->timeout_ms;
		s->timeout_given = config_is_set(c, "sandbox", "timeout");
	}
	if (!s->max_silent_given)
		s->max_silent_ms = c->max_silent_ms;
	return 0;
}
