/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sandbox/verdict.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "runtime/sandbox/spec.h"

static const char *const names[] = {
#define X(sym, name, ...) name,
	VERDICT_CAUSES(X)
#undef X
};
_Static_assert(sizeof(names) / sizeof(names[0]) == CAUSE_COUNT, "one name per cause");

const char *verdict_cause_name(enum verdict_cause c)
{
	return c < CAUSE_COUNT ? names[c] : "unknown";
}

static enum verdict_cause decide_cause(const struct verdict_facts *f)
{
	int failed = !f->ended || !f->exited || f->value != 0 || f->timed_out || f->cpu_timed_out;
	int died_of_kill = !f->ended || (!f->exited && f->value == SIGKILL);

	/* an OOM kill somewhere in the tree is the cause only if it took the command with it or made it fail */
	if (f->killed_for_oom || (f->usage.oom_kills && (died_of_kill || failed)))
		return CAUSE_OOM;
	/* before timeout: a fork bomb that runs into the limit usually runs into the timeout next */
	if (f->usage.pids_events && (failed || f->left_behind))
		return CAUSE_PIDS;
	if (f->cpu_timed_out)
		return CAUSE_CPU_TIMEOUT;
	if (f->timed_out)
		return f->silent ? CAUSE_SILENT : CAUSE_TIMEOUT;
	if (f->killed_by_us)
		return CAUSE_KILLED_BY;
	if (!f->ended)
		return CAUSE_LOST;
	if (!f->exited && f->value == SIGSYS)
		return CAUSE_SECCOMP;
	if (f->disk_full && failed)
		return CAUSE_DISK;
	if (f->network_exhausted && failed)
		return CAUSE_NETWORK;
	return f->exited ? CAUSE_EXIT : CAUSE_SIGNAL;
}

void verdict_decide(const struct verdict_facts *f, struct verdict *ret)
{
	ret->facts = *f;
	ret->cause = decide_cause(f);
}

int verdict_exit_status(const struct verdict *v)
{
	const struct verdict_facts *f = &v->facts;

	if (f->timed_out || f->cpu_timed_out)
		return 124;
	if (v->cause == CAUSE_OOM && (!f->ended || !f->exited))
		return 128 + SIGKILL;
	if (!f->ended)
		return v->cause == CAUSE_LOST ? 125 : 128 + SIGKILL;
	return f->exited ? (int)f->value : 128 + (int)f->value;
}

static const char *signal_name(uint32_t n)
{
	const char *s = sigabbrev_np((int)n);

	return s ? s : "unknown";
}

static int add_network_verdict(const struct netcounters *n, int is_bridge, struct buf *out, struct err *e)
{
	if (is_bridge)
		return buf_addf(out, e, ",\"network\":{\"denied\":%" PRIu64 ",\"over_limit\":%" PRIu64 ",\"bytes_in\":%" PRIu64
				",\"bytes_out\":%" PRIu64 ",\"budget_exhausted\":%s}", n->denied, n->over, n->bytes_in, n->bytes_out,
				n->exhausted ? "true" : "false");
	return buf_addf(out, e, ",\"network\":{\"requests\":%" PRIu64 ",\"allowed\":%" PRIu64 ",\"denied\":%" PRIu64
			",\"failed\":%" PRIu64 ",\"bytes_in\":%" PRIu64 ",\"bytes_out\":%" PRIu64 ",\"budget_exhausted\":%s}",
			n->requests, n->allowed, n->denied, n->failed, n->bytes_in, n->bytes_out, n->exhausted ? "true" : "false");
}

int verdict_json(const struct verdict *v, struct buf *out, struct err *e)
{
	const struct verdict_facts *f = &v->facts;
	const struct cgroup_usage *u = &f->usage;

	if (buf_addf(out, e, "{\"cause\":\"%s\",\"exit_status\":%d", names[v->cause], verdict_exit_status(v)) < 0)
		return -1;
	if (f->ended && f->exited && buf_addf(out, e, ",\"exit_code\":%u", f->value) < 0)
		return -1;
	if (f->ended && !f->exited &&
	    buf_addf(out, e, ",\"signal\":%u,\"signal_name\":\"SIG%s\"", f->value, signal_name(f->value)) < 0)
		return -1;
	if (buf_addf(out, e, ",\"timed_out\":%s,\"wall_ms\":%" PRIu64 ",\"cpu_ms\":%" PRIu64
			",\"peak_memory_bytes\":%" PRIu64 ",\"read_bytes\":%" PRIu64 ",\"write_bytes\":%" PRIu64
			",\"oom_kills\":%" PRIu64 ",\"pids_refused\":%" PRIu64 ",\"disk_full\":%s,\"left_behind\":%u",
			f->timed_out || f->cpu_timed_out ? "true" : "false", f->wall_ms, u->cpu_us / 1000,
			u->memory_peak_bytes, u->read_bytes, u->write_bytes, u->oom_kills, u->pids_events,
			f->disk_full ? "true" : "false", f->left_behind) < 0)
		return -1;
	if (f->has_disk_errors && buf_addf(out, e, ",\"disk_errors\":%" PRIu64, f->disk_errors) < 0)
		return -1;
	if (f->has_network && add_network_verdict(&f->network, f->network_is_bridge, out, e) < 0)
		return -1;
	if (f->loosened && (buf_adds(out, ",\"loosened\":[", e) < 0 || loosen_names(f->loosened, out, e) < 0 || buf_adds(out, "]", e) < 0))
		return -1;
	return buf_adds(out, "}", e);
}
