/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/time/forkspec.h"

#include <string.h>

#include "base/mem.h"
#include "manager/host/labels.h"
#include "manager/ops/params.h"
#include "manager/ops/settleopt.h"

/* A path of the caller's directory would mean another one at the next start. */
static int check_volume(const char *value, struct err *e)
{
	const size_t n = strcspn(value, ":");

	return value[0] == '/' || !memchr(value, '/', n) ?
		       0 :
		       err_set(e, ERR_INVALID,
			       "volume '%.80s': neither a name nor an absolute path; "
			       "hint: berth volume create NAME",
			       value);
}

int forkspec_add(json_t *more, int id, const char *value, struct err *e)
{
	autofree char *settled = NULL;

	if (id == PARAM_LABEL && labels_refuse_own(value, e) < 0)
		return -1;
	if ((id == PARAM_VOLUME && check_volume(value, e) < 0) || (value && settleopt(id, value, &settled, e) < 0))
		return -1;
	return params_keep(more, param_of(id)->opt.name, settled ? settled : value, e);
}

static const char *name_of(const json_t *pair)
{
	const char *s = json_string_value(json_array_get(pair, 0));

	return s ? s : "";
}

/* A fork of what berthd's manager keeps is not the manager's. */
static int marks_managed(const json_t *pair)
{
	const char *value = json_string_value(json_array_get(pair, 1));

	return (!strcmp(name_of(pair), "mark") || !strcmp(name_of(pair), "label")) && value &&
	       !strncmp(value, LABEL_MANAGED "=", sizeof(LABEL_MANAGED));
}

/* A list of the fork comes beside the first one's; a rule takes the place of all rules, a network of all that goes with it. */
static int is_replaced(const json_t *pair, const json_t *more)
{
	const struct param *own = param_named(name_of(pair)), *now;
	json_t *one;
	size_t i;

	json_array_foreach (more, i, one) {
		now = param_named(name_of(one));
		if (!own || !now)
			continue;
		if (now->group == PARAM_G_RULE ? own->group == PARAM_G_RULE :
		    now->group == PARAM_G_NETWORK ?
			    own->group >= PARAM_G_RULE && own->group <= PARAM_G_OF_NETWORK :
			    own == now && now->opt.kind != OPT_LIST)
			return 1;
	}
	return 0;
}

json_t *forkspec_of(const json_t *spec, const json_t *more, struct err *e)
{
	json_t *fork = json_deep_copy(spec), *options = json_array(), *pair;
	size_t i;

	json_array_foreach (json_object_get(fork, "options"), i, pair)
		if (!is_replaced(pair, more) && !marks_managed(pair))
			json_array_append(options, pair);
	if (!fork || !options || json_array_extend(options, (json_t *)(size_t)more) < 0 ||
	    json_object_set_new(fork, "options", options) < 0) {
		json_decref(fork);
		err_nomem(e);
		return NULL;
	}
	return fork;
}
