/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/codefork.h"

#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/live/lifecycle.h"
#include "cli/live/resident.h"
#include "cli/live/resident_zygote.h"
#include "manager/ops/settleopt.h"
#include "manager/ops/params.h"

/* Its owner is this process. */
static json_t *options(struct err *e)
{
	autofree char *owner = NULL;
	char pid[24];
	json_t *list;

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	if (settleopt(PARAM_OWNER_PID, pid, &owner, e) < 0)
		return NULL;
	list = json_pack("[[s,s],[s,s],[s,s]]", "auto-remove", "", "owner-pid", owner,
			 "owner-grace", "0");
	if (!list)
		err_nomem(e);
	return list;
}

int codefork_begin(struct sandbox_ref *s, const char *zygote, struct err *e)
{
	const struct resident_whose whose = {.name = "", .tenant = ""};
	autojson json_t *own = options(e), *spec = NULL;

	if (!own || sandbox_ref_registry(s, e) < 0)
		return -1;
	spec = resident_zygote_spec(&s->registry, zygote, own, e);
	if (!spec || resident_create(&s->registry, &whose, spec, s->id, e) < 0)
		return -1;
	s->sock = keeper_connect(&s->registry, s->id, e);
	return s->sock < 0 ? -1 : 0;
}

void codefork_end(struct sandbox_ref *s)
{
	struct err ignored;

	if (s->id[0])
		lifecycle_remove(&s->registry, s->id, 1, &ignored);
}
