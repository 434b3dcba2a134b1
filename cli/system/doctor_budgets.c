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
#define ALL 10000
#define FLOWS 4096	/* of a sandbox on a bridge, or a sixteenth of the table (S29) */

struct shares {
	struct budget_limits sandbox, tenant;
};

struct row {
	uint64_t host, sandbox, tenant;
	int counted;	/* the three are numbers */
};

static uint64_t times(uint64_t a, uint64_t b)
{
	return a && b > BUDGET_UNLIMITED / a ? BUDGET_UNLIMITED : a * b;
}

/* For memory a tenant also has a maximum of the sum. */
static uint64_t sum(const struct tenant *t, uint64_t of_each)
{
	uint64_t all = times(t->sandboxes, of_each);

	return all < t->memory_total ? all : t->memory_total;
}

static int load(const struct config *c, struct shares *s, struct err *e)
{
	struct rlimits r;
	struct tenant t;
	uint64_t filters;

	if (tenant_load(&t, c, "", e) < 0)
		return -1;
	rlimits_default(&r);
	filters = budgets_filter_bytes();
	s->sandbox = (struct budget_limits){
		1, c->memory_bytes, c->pids, c->disk_bytes, r.v[RLIMIT_NOFILE].hard, FLOWS, filters,
	};
	s->tenant = (struct budget_limits){
		.sandboxes = t.sandboxes, .memory_bytes = sum(&t, t.memory_bytes), .pids = times(t.sandboxes, t.pids),
		.disk_bytes = times(t.sandboxes, t.disk_bytes), .files = r.v[RLIMIT_NOFILE].hard,
		.flows = times(t.sandboxes, FLOWS), .filter_bytes = times(t.sandboxes, filters),
	};
	return 0;
}

static struct row row_of(const struct budget *b, const struct shares *s)
{
	struct row r = { .host = budgets_knob(b), .counted = !!b->takes };

	if (b->takes) {
		r.sandbox = b->takes(&s->sandbox);
		r.tenant = b->takes(&s->tenant);
	}
	return r;
}

static const char *kind_of(const struct budget *b, const struct row *r)
{
	int over = b->kind == BUDGET_BOUNDED && r->counted && r->host && budgets_share(r->tenant, r->host) > ALL;

	return budget_kind_name(over ? BUDGET_OVERCOMMITTED : b->kind);
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

/* More than the host has is no share: a tenant then takes what there is. */
static void print_tenant(const struct row *r, uint64_t sandboxes)
{
	char who[64];

	snprintf(who, sizeof(who), ", a tenant's %" PRIu64 " together", sandboxes);
	if (r->host && budgets_share(r->tenant, r->host) > ALL)
		printf("%s all of it (they may have %.1f times as much)", who, (double)r->tenant / (double)r->host);
	else
		print_share(who, r->tenant, r->host);
}

static void print_row(const struct budget *b, const struct shares *s)
{
	struct row r = row_of(b, s);

	printf("%-14s%s", kind_of(b, &r), b->name);
	if (r.host)
		printf(", %.*s = %" PRIu64, (int)strcspn(b->knobs, " "), b->knobs, r.host);
	if (r.counted && r.sandbox) {
		print_share("\n              a sandbox takes at most", r.sandbox, r.host);
		print_tenant(&r, s->tenant.sandboxes);
	}
	printf("\n              counted by: %s\n              %s\n", b->counted, b->why);
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
	json_t *j = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:o}", "name", b->name, "kind", kind_of(b, &r), "knobs", b->knobs,
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
	json_object_set_new(root, "tenant_sandboxes", json_integer((json_int_t)s.tenant.sandboxes));
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
