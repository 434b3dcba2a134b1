/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/system/doctor_budgets.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/command.h"
#include "manager/host/tenant.h"
#include "runtime/kernel/rlimits.h"
#include "runtime/probe/budgets.h"

#define QUARTER 2500
#define FLOWS 4096	/* of a sandbox on a bridge, or a sixteenth of the table (S29) */

struct shares {
	struct budget_limits sandbox, tenant;
	uint64_t tenants_sandboxes;
};

struct row {
	uint64_t host, sandbox, tenant;
	int counted;	/* the three are numbers */
};

static int load(const struct config *c, struct shares *s, struct err *e)
{
	struct rlimits r;
	struct tenant t;

	if (tenant_load(&t, c, "", e) < 0)
		return -1;
	rlimits_default(&r);
	s->tenants_sandboxes = t.sandboxes;
	s->sandbox = (struct budget_limits){ c->memory_bytes, c->pids, c->disk_bytes, r.v[RLIMIT_NOFILE].hard, FLOWS };
	s->tenant = (struct budget_limits){ t.memory_bytes, t.pids, t.disk_bytes, r.v[RLIMIT_NOFILE].hard, FLOWS };
	return 0;
}

static struct row row_of(const struct budget *b, const struct shares *s)
{
	struct row r = { .host = budgets_knob(b), .counted = !!b->takes };

	if (b->takes) {
		r.sandbox = b->takes(&s->sandbox);
		r.tenant = b->takes(&s->tenant);
		r.tenant = r.tenant > BUDGET_UNLIMITED / s->tenants_sandboxes ? BUDGET_UNLIMITED : r.tenant * s->tenants_sandboxes;
	}
	return r;
}

static void print_share(const char *who, uint64_t takes, uint64_t host)
{
	uint64_t share = budgets_share(takes, host);

	if (takes == BUDGET_UNLIMITED)
		printf("%s without bound", who);
	else if (share == BUDGET_UNLIMITED)
		printf("%s %" PRIu64, who, takes);
	else
		printf("%s %" PRIu64 " (%.1f %%)", who, takes, (double)share / 100);
}

static void print_row(const struct budget *b, const struct shares *s)
{
	struct row r = row_of(b, s);

	printf("%-12s%s", budget_kind_name(b->kind), b->name);
	if (r.host)
		printf(", %.*s = %" PRIu64, (int)strcspn(b->knobs, " "), b->knobs, r.host);
	if (r.counted && r.sandbox) {
		print_share("\n            a sandbox takes at most", r.sandbox, r.host);
		print_share(", a tenant", r.tenant, r.host);
	}
	printf("\n            counted by: %s\n            %s\n", b->counted, b->why);
}

static void add_share(json_t *j, const char *who, uint64_t takes, uint64_t host)
{
	uint64_t share = budgets_share(takes, host);
	char name[40];

	json_object_set_new(j, who, takes > INT64_MAX ? json_null() : json_integer((json_int_t)takes));
	snprintf(name, sizeof(name), "%s_percent", who);
	json_object_set_new(j, name, share == BUDGET_UNLIMITED ? json_null() : json_real((double)share / 100));
}

static json_t *row_json(const struct budget *b, const struct shares *s)
{
	struct row r = row_of(b, s);
	json_t *j = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:o}", "name", b->name, "kind", budget_kind_name(b->kind), "knobs", b->knobs,
			      "counted_by", b->counted, "why", b->why, "test", b->test, "host",
			      r.host && r.host <= INT64_MAX ? json_integer((json_int_t)r.host) : json_null());

	if (r.counted) {
		add_share(j, "sandbox", r.sandbox, r.host);
		add_share(j, "tenant", r.tenant, r.host);
	}
	return j;
}

int doctor_budgets(const struct config *c, int json, struct err *e)
{
	autojson json_t *root = json_object(), *list = json_array();
	struct shares s;
	size_t i;

	if (load(c, &s, e) < 0)
		return -1;
	for (i = 0; i < budget_count; i++)
		if (json)
			json_array_append_new(list, row_json(&budgets[i], &s));
		else if (budgets[i].kind != BUDGET_IRRELEVANT)
			print_row(&budgets[i], &s);
	if (!json)
		return 0;
	json_object_set_new(root, "tenant_sandboxes", json_integer((json_int_t)s.tenants_sandboxes));
	json_object_set(root, "budgets", list);
	return command_print_json(root, JSON_INDENT(2), e);
}

void doctor_budgets_find(const struct config *c, struct host_finding *f)
{
	struct shares s;
	size_t i, n = 0;
	struct err e;

	f->state = HOST_OK;
	if (load(c, &s, &e) < 0) {
		f->state = HOST_LIMITED;
		snprintf(f->detail, sizeof(f->detail), "%.230s", e.msg);
		return;
	}
	for (i = 0; i < budget_count; i++) {
		struct row r = row_of(&budgets[i], &s);
		uint64_t share = budgets_share(r.sandbox, r.host);

		if (budgets[i].kind != BUDGET_BOUNDED || !r.counted || share == BUDGET_UNLIMITED || share < QUARTER ||
		    n >= sizeof(f->detail))
			continue;
		n += (size_t)snprintf(f->detail + n, sizeof(f->detail) - n, "%s%" PRIu64 " %% of the %s (%.*s)", n ? ", " :
				      "one default sandbox may take ", share / 100, budgets[i].name,
				      (int)strcspn(budgets[i].knobs, " "), budgets[i].knobs);
	}
	if (!n) {
		snprintf(f->detail, sizeof(f->detail), "a default sandbox may take less than a quarter of each that all share");
		return;
	}
	f->state = HOST_LIMITED;
	snprintf(f->effect, sizeof(f->effect), "runs, and a few hostile sandboxes can use that up: raise it with sysctl, or lower "
		 "[sandbox] pids_limit; see berth doctor --budgets");
}
