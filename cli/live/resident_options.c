/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/live/resident.h"
#include "cli/run/imageuse.h"
#include "cli/run/specshow.h"
#include "manager/ops/healthopts.h"
#include "manager/ops/serviceopts.h"
#include "manager/ops/params.h"
#include "manager/ops/runopts.h"
#include "runtime/kernel/cgroup_io.h"

/* ---- reading and checking ---- */

/* The row of an option that spec.json may have. */
static const struct param *resident_option_row(const char *name)
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
		const struct param *p = resident_option_row(json_string_value(json_array_get(pair, 0)));

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
		const struct param *p = resident_option_row(json_string_value(json_array_get(pair, 0)));
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
	p = resident_option_row(line);
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

/* ---- the effective ones ---- */

/* The effective options of a lasting sandbox, for commands that show or change them. */

json_t *resident_describe(struct registry *r, const char *id, struct err *e)
{
	autojson json_t *spec = registry_load(r, id, SPEC_FILE, e);
	autoclose int dir = spec ? registry_keep_dir(r, id, e) : -1;
	struct image image = { 0 };
	json_t *result = NULL;
	struct err why = { 0 };
	struct runopts o;

	if (dir < 0)
		return NULL;
	runopts_init(&o, r->config);
	snprintf(o.spec.id, sizeof(o.spec.id), "%s", id);
	/* none: "host", or a directory, which say nothing themselves */
	if (image_load_pin(dir, &image, &why) < 0 && why.code != ERR_NOT_FOUND)
		*e = why;
	else if (resident_apply(&o, spec, e) == 0 && resident_settle_time(&o, e) == 0 &&
		 runopts_finish(&o, why.code ? NULL : &image, NULL, 0, e) == 0 && !(result = specjson_describe(&o.spec)))
		err_set(e, ERR_CORRUPT, "%s of sandbox %s cannot be described as UTF-8", SPEC_FILE, id);
	if (result && o.life.service.is_service &&
	    healthopts_take_image(&o, why.code ? NULL : &image, e) < 0) {
		json_decref(result);
		result = NULL;
	}
	specjson_asked(result, &o);
	if (result && o.life.health.argv)
		json_object_set_new(result, "healthcheck", health_spec_json(&o.life.health));
	runopts_release(&o);
	image_release(&image);
	return result;
}

json_t *resident_check_life(struct registry *r, const char *id, const json_t *spec,
			    uint64_t *ret_owner_grace_ms, struct err *e)
{
	autoclose int dir = registry_keep_dir(r, id, e);
	struct image image = { 0 };
	struct err why = { 0 };
	json_t *health = NULL;
	struct runopts o;
	int ok;

	if (dir < 0)
		return NULL;
	runopts_init(&o, r->config);
	ok = image_load_pin(dir, &image, &why) == 0 || why.code == ERR_NOT_FOUND;
	if (!ok)
		*e = why;
	ok = ok && resident_apply(&o, spec, e) == 0;
	if (ok && !o.life.service.is_service)	/* says which option only a service has */
		ok = serviceopts_finish(&o, NULL, e) == 0;
	else if (ok)
		ok = healthopts_take_image(&o, why.code ? NULL : &image, e) == 0;
	if (ok)
		health = o.life.health.argv ? health_spec_json(&o.life.health) : json_object();
	if (ok && !health)
		err_nomem(e);
	*ret_owner_grace_ms = o.life.owner_grace_ms;
	runopts_release(&o);
	image_release(&image);
	return health;
}
