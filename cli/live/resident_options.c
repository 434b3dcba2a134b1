/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/resident_options.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "manager/ops/lifeopts.h"
#include "manager/ops/params.h"
#include "runtime/kernel/cgroup_io.h"

/* The row of an option that spec.json may have. */
static const struct param *row_of(const char *name)
{
	const struct param *p = name ? param_named(name) : NULL;

	return p && p->of & PARAM_OF_CREATE && !(p->of & PARAM_OF_REQUEST) ? p : NULL;
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

int resident_is_service(const json_t *spec)
{
	const json_t *pair;
	size_t i;

	json_array_foreach(json_object_get(spec, "options"), i, pair) {
		const struct param *p = row_of(json_string_value(json_array_get(pair, 0)));

		if (p && p->opt.id == PARAM_SERVICE)
			return 1;
	}
	return 0;
}

int resident_apply(struct runopts *o, const json_t *spec, struct err *e)
{
	struct life *l = &o->life;
	json_t *list = NULL, *pair;
	size_t i;

	if (json_get_arr(spec, "options", &list, SPEC_FILE, e) < 0 || json_get_str(spec, "seccomp", &o->seccomp_text, SPEC_FILE, e) < 0)
		return -1;
	o->spec.sources_resolved = json_object_get(spec, "sources") != NULL;
	json_array_foreach(list, i, pair) {
		const struct param *p = row_of(json_string_value(json_array_get(pair, 0)));
		const char *value = json_string_value(json_array_get(pair, 1));

		if (!p || (p->type != PARAM_FLAG && !value))
			return err_set(e, ERR_CORRUPT, "%s: option %zu is unknown; hint: it was written by a newer berth", SPEC_FILE, i);
		if (params_read(o, p, value, e) < 0)
			return err_wrap(e, "option --%s", p->opt.name);
	}
	if (l->auto_remove && l->service.service.restart.when != RESTART_NO)
		return err_set(e, ERR_INVALID, "a sandbox that is removed when it stops cannot be "
			       "restarted; hint: either --restart or --auto-remove");
	if (healthopts_finish(o, l->service.is_service, e) < 0)
		return -1;
	return serviceopts_words(&l->service, spec, e);
}

/* line: NAME or NAME=VALUE */
static int check_option(struct runopts *o, char *line, const char *what, struct err *e)
{
	char *value = strchr(line, '=');
	const struct param *p;

	if (value)
		*value++ = '\0';
	p = row_of(line);
	if (!p || p->opt.id == PARAM_NAME)
		return err_set(e, ERR_CONFIG, "%s: '%.64s' is not an option here; hint: berth create --help", what, line);
	if ((p->type == PARAM_FLAG) != !value)
		return err_set(e, ERR_CONFIG, value ? "%s: option %s takes no value; hint: \"%s\"" :
			       "%s: option %s wants a value; hint: \"%s=VALUE\"", what, line, line);
	if (params_read(o, p, value, e) == 0)
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

int resident_settle_time(struct runopts *o, struct err *e)
{
	const struct config *c = o->config;
	struct spec *s = &o->spec;

	if (s->cpu_time_ms)
		return err_set(e, ERR_INVALID, "--cpu-time is a limit of berth run, not of a sandbox that lives; hint: --cpus, or "
			       "--ulimit cpu=SECONDS for each process");
	s->timeout_given = runopts_given(o, PARAM_TIMEOUT) || config_is_set(c, "sandbox", "timeout");
	if (!runopts_given(o, PARAM_TIMEOUT))
		s->timeout_ms = c->timeout_ms;
	s->max_silent_given = runopts_given(o, PARAM_MAX_SILENT_TIME);
	if (!s->max_silent_given)
		s->max_silent_ms = c->max_silent_ms;
	return 0;
}
