/* SPDX-License-Identifier: Apache-2.0 */
/* berth-oci events. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/oci/cli.h"
#include "runtime/oci/state.h"
#include "runtime/oci/stats.h"

static struct events_args {
	int stats;
	uint64_t interval_ms;
} args = { .interval_ms = 5000 };

enum { E_STATS, E_INTERVAL };

static const struct oci_option events_options[] = {
	[E_STATS] = { "stats", 0, NULL, "print the counters once" },
	[E_INTERVAL] = { "interval", 0, "TIME", "print them this often (default: 5s)" },
	{ NULL },
};

static int set(void *ctx, size_t index, const char *value, struct err *e)
{
	struct events_args *a = ctx;

	if (index == E_STATS) {
		a->stats = 1;
		return 0;
	}
	if (num_duration_ms(value, "--interval", 86400000, &a->interval_ms, e) < 0)
		return -1;
	return a->interval_ms ? 0 : err_set(e, ERR_USAGE, "duration interval must be greater than 0");
}

static void print_event(const char *type, const char *id, json_t *data)
{
	json_t *j = json_pack("{s:s, s:s}", "type", type, "id", id);

	if (data)
		json_object_set_new(j, "data", data);
	oci_print_json(j, 0);
	fflush(stdout);
}

/* Until the container's process ends; an OOM kill is seen within a second. */
static int follow(const struct oci_state *st, uint64_t interval_ms, struct err *e)
{
	autoclose int pidfd = (int)syscall(SYS_pidfd_open, st->pid, 0);
	uint64_t ooms = oci_stats_ooms(&st->cgroup), waited = 0;

	if (pidfd < 0)
		return err_sys(e, "open the container's process");
	for (;;) {
		struct pollfd p = { .fd = pidfd, .events = POLLIN };
		const uint64_t left = interval_ms - waited, step = left > 1000 ? 1000 : left;
		const int ended = poll(&p, 1, (int)step) > 0;
		const uint64_t now = oci_stats_ooms(&st->cgroup);

		for (; ooms < now; ooms++)
			print_event("oom", st->id, NULL);
		if (ended)
			return 0;
		waited += step;
		if (waited >= interval_ms) {
			print_event("stats", st->id, oci_stats(&st->cgroup));
			waited = 0;
		}
	}
}

static int run(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	const struct events_args *a = ctx;
	enum oci_status status;
	struct oci_state st;
	int r = -1;

	(void)count;
	if (oci_root(g, e) < 0 || oci_state_load(&st, g->root_fd, operands[0], e) < 0)
		return -1;
	status = oci_state_status(&st);
	if (status == OCI_STOPPED || status == OCI_CREATING) {
		err_set(e, ERR_BUSY, "container with id %s is not running", st.id);
	} else if (oci_cgroup_open(&st.cgroup, e) == 0) {
		r = 0;
		if (a->stats)
			print_event("stats", st.id, oci_stats(&st.cgroup));
		else
			r = follow(&st, a->interval_ms, e);
	}
	oci_state_release(&st);
	return r;
}

const struct oci_verb oci_verb_events = {
	.name = "events", .args = "ID", .summary = "print what a container uses, and when it ran out of memory",
	.options = events_options, .min = 1, .max = 1, .set = set, .run = run, .ctx = &args,
};
