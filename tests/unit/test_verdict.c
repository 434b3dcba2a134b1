/* SPDX-License-Identifier: Apache-2.0 */
/* Facts in, cause and exit status out. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "runtime/sandbox/reason.h"
#include "runtime/sandbox/verdict.h"

#define EXITED(n) .ended = 1, .exited = 1, .value = (n)
#define DIED(n) .ended = 1, .exited = 0, .value = (n)

static const struct {
	const char *name;
	struct verdict_facts f;
	enum verdict_cause cause;
	int status;
} table[] = {
	{ "success", { EXITED(0) }, CAUSE_EXIT, 0 },
	{ "failure", { EXITED(1) }, CAUSE_EXIT, 1 },
	{ "the largest exit code", { EXITED(255) }, CAUSE_EXIT, 255 },
	{ "an exit code that looks like a timeout", { EXITED(124) }, CAUSE_EXIT, 124 },
	{ "an exit code that looks like a signal", { EXITED(137) }, CAUSE_EXIT, 137 },
	{ "children left behind", { EXITED(0), .left_behind = 3 }, CAUSE_EXIT, 0 },
	{ "SIGTERM from inside", { DIED(SIGTERM) }, CAUSE_SIGNAL, 143 },
	{ "SIGSEGV", { DIED(SIGSEGV) }, CAUSE_SIGNAL, 139 },
	{ "SIGKILL from inside", { DIED(SIGKILL) }, CAUSE_SIGNAL, 137 },
	{ "a real-time signal", { DIED(64) }, CAUSE_SIGNAL, 192 },
	{ "a forbidden system call", { DIED(SIGSYS) }, CAUSE_SECCOMP, 159 },
	{ "exit code 159 is no seccomp kill", { EXITED(159) }, CAUSE_EXIT, 159 },

	{ "timeout, then TERM", { DIED(SIGTERM), .timed_out = 1 }, CAUSE_TIMEOUT, 124 },
	{ "timeout, then KILL", { DIED(SIGKILL), .timed_out = 1 }, CAUSE_TIMEOUT, 124 },
	{ "timeout, and TERM was handled", { EXITED(0), .timed_out = 1 }, CAUSE_TIMEOUT, 124 },
	{ "timeout, init went too", { .timed_out = 1 }, CAUSE_TIMEOUT, 124 },
	{ "silence", { DIED(SIGTERM), .timed_out = 1, .silent = 1 }, CAUSE_SILENT, 124 },
	{ "CPU time", { DIED(SIGKILL), .cpu_timed_out = 1 }, CAUSE_CPU_TIMEOUT, 124 },
	{ "CPU time, init went too", { .cpu_timed_out = 1 }, CAUSE_CPU_TIMEOUT, 124 },
	{ "CPU time before wall time", { DIED(SIGKILL), .cpu_timed_out = 1, .timed_out = 1 }, CAUSE_CPU_TIMEOUT, 124 },
	{ "timeout before seccomp", { DIED(SIGSYS), .timed_out = 1 }, CAUSE_TIMEOUT, 124 },

	{ "oom, the command died", { DIED(SIGKILL), .usage.oom_kills = 1 }, CAUSE_OOM, 137 },
	{ "oom, everything died", { .usage.oom_kills = 2 }, CAUSE_OOM, 137 },
	{ "oom, we completed the kill", { .killed_for_oom = 1 }, CAUSE_OOM, 137 },
	{ "oom of a child made it fail", { EXITED(1), .usage.oom_kills = 1 }, CAUSE_OOM, 1 },
	{ "oom of a child did not matter", { EXITED(0), .usage.oom_kills = 1 }, CAUSE_EXIT, 0 },
	{ "oom before the timeout it led to", { DIED(SIGKILL), .usage.oom_kills = 1, .timed_out = 1 }, CAUSE_OOM, 124 },
	{ "SIGKILL without oom is a signal", { DIED(SIGKILL), .usage.oom_kills = 0 }, CAUSE_SIGNAL, 137 },

	{ "forks refused and it failed", { EXITED(1), .usage.pids_events = 9 }, CAUSE_PIDS, 1 },
	{ "forks refused, to no harm", { EXITED(0), .usage.pids_events = 9 }, CAUSE_EXIT, 0 },
	{ "forks refused, it went and left children", { EXITED(0), .usage.pids_events = 9, .left_behind = 50 }, CAUSE_PIDS, 0 },
	{ "a fork bomb that met the timeout", { .timed_out = 1, .usage.pids_events = 9 }, CAUSE_PIDS, 124 },

	{ "disk full and it failed", { EXITED(1), .disk_full = 1 }, CAUSE_DISK, 1 },
	{ "disk full, to no harm", { EXITED(0), .disk_full = 1 }, CAUSE_EXIT, 0 },
	{ "disk full and it crashed", { DIED(SIGBUS), .disk_full = 1 }, CAUSE_DISK, 135 },
	{ "seccomp before disk", { DIED(SIGSYS), .disk_full = 1 }, CAUSE_SECCOMP, 159 },

	{ "told to stop", { .killed_by_us = 1 }, CAUSE_KILLED_BY, 137 },
	{ "told to stop, and it ended by TERM", { DIED(SIGTERM), .killed_by_us = 1 }, CAUSE_KILLED_BY, 143 },
	{ "init ended without a word", { 0 }, CAUSE_LOST, 125 },
	{ "lost, whatever value says", { .value = 0, .exited = 1 }, CAUSE_LOST, 125 },
};

Test(verdict, the_facts_decide_cause_and_exit_status)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(table); i++) {
		struct verdict v;

		verdict_decide(&table[i].f, &v);
		cr_expect_eq(v.cause, table[i].cause, "%s: %s, not %s", table[i].name, verdict_cause_name(v.cause),
			     verdict_cause_name(table[i].cause));
		cr_expect_eq(verdict_exit_status(&v), table[i].status, "%s: exit status %d, not %d", table[i].name,
			     verdict_exit_status(&v), table[i].status);
	}
}

/* Every combination: whatever was killed never looks like success, and every status fits a process's. */
Test(verdict, nothing_that_was_killed_ends_in_status_zero)
{
	static const uint32_t values[] = { 0, 1, SIGKILL, SIGTERM, SIGSYS };
	unsigned bits;
	size_t i;

	for (bits = 0; bits < 1024; bits++) {
		for (i = 0; i < ARRAY_LEN(values); i++) {
			struct verdict_facts f = {
				.ended = bits & 1, .exited = bits >> 1 & 1, .timed_out = bits >> 2 & 1,
				.cpu_timed_out = bits >> 3 & 1, .killed_for_oom = bits >> 4 & 1,
				.killed_by_us = bits >> 5 & 1, .disk_full = bits >> 6 & 1, .left_behind = bits >> 7 & 1,
				.usage.oom_kills = bits >> 8 & 1, .usage.pids_events = bits >> 9 & 1, .value = values[i],
			};
			struct verdict v;
			int status;

			if (f.ended && !f.exited && !f.value)
				continue;	/* there is no signal 0 */
			verdict_decide(&f, &v);
			status = verdict_exit_status(&v);
			cr_expect(status >= 0 && status <= 255, "%u: %d", bits, status);
			if (f.timed_out || f.cpu_timed_out || !f.ended || !f.exited)
				cr_expect_neq(status, 0, "bits %#x value %u: cause %s", bits, values[i],
					      verdict_cause_name(v.cause));
		}
	}
}

static json_t *json_of(const struct verdict_facts *f, char *text, size_t n)
{
	struct buf b = BUF_INIT(4096);
	struct verdict v;
	struct err e = { 0 };
	json_t *j;

	verdict_decide(f, &v);
	cr_assert_eq(verdict_json(&v, &b, &e), 0, "%s", e.msg);
	j = json_parse(b.data, b.len, b.len, "verdict", &e);
	cr_assert(j, "%s: %s", e.msg, b.data);
	snprintf(text, n, "%s", b.data);
	buf_release(&b);
	return j;
}

static json_int_t number(const json_t *j, const char *key)
{
	return json_integer_value(json_object_get(j, key));
}

Test(verdict, every_row_is_one_line_of_json_that_agrees)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(table); i++) {
		const struct verdict_facts *f = &table[i].f;
		char text[4096];
		autojson json_t *j = json_of(f, text, sizeof(text));

		cr_expect_null(strchr(text, '\n'));
		cr_expect_str_eq(json_string_value(json_object_get(j, "cause")), verdict_cause_name(table[i].cause));
		cr_expect_eq(number(j, "exit_status"), table[i].status, "%s", table[i].name);
		cr_expect_eq(!!json_object_get(j, "exit_code"), f->ended && f->exited, "%s: %s", table[i].name, text);
		cr_expect_eq(!!json_object_get(j, "signal"), f->ended && !f->exited, "%s: %s", table[i].name, text);
		cr_expect_eq(!!json_object_get(j, "signal_name"), f->ended && !f->exited, "%s", table[i].name);
		cr_expect_eq(json_is_true(json_object_get(j, "timed_out")), f->timed_out || f->cpu_timed_out, "%s", table[i].name);
	}
}

Test(verdict, the_numbers_are_those_of_the_facts)
{
	const struct verdict_facts f = {
		DIED(SIGTERM), .wall_ms = 1, .left_behind = 2, .disk_full = 1,
		.usage = { .cpu_us = 3999, .memory_peak_bytes = 4, .read_bytes = 5, .write_bytes = 6, .oom_kills = 0, .pids_events = 0 },
	};
	char text[4096];
	autojson json_t *j = json_of(&f, text, sizeof(text));

	cr_expect_eq(number(j, "wall_ms"), 1);
	cr_expect_eq(number(j, "left_behind"), 2);
	cr_expect_eq(number(j, "cpu_ms"), 3);
	cr_expect_eq(number(j, "peak_memory_bytes"), 4);
	cr_expect_eq(number(j, "read_bytes"), 5);
	cr_expect_eq(number(j, "write_bytes"), 6);
	cr_expect_eq(number(j, "signal"), SIGTERM);
	cr_expect_str_eq(json_string_value(json_object_get(j, "signal_name")), "SIGTERM");
	cr_expect(json_is_true(json_object_get(j, "disk_full")));
}

Test(verdict, an_unknown_signal_still_gives_json)
{
	const struct verdict_facts f = { DIED(40) };
	char text[4096];
	autojson json_t *j = json_of(&f, text, sizeof(text));

	cr_expect_eq(number(j, "signal"), 40);
	cr_expect(json_is_string(json_object_get(j, "signal_name")));
}

Test(verdict, the_causes_have_the_documented_names)
{
	static const char *const names[] = {
		"exit", "signal", "timeout", "silent", "cpu-timeout", "oom", "pids", "disk", "network", "seccomp", "killed-by", "lost",
	};
	unsigned i;

	cr_assert_eq(ARRAY_LEN(names), CAUSE_COUNT);
	for (i = 0; i < CAUSE_COUNT; i++)
		cr_expect_str_eq(verdict_cause_name(i), names[i]);
	cr_expect_str_eq(verdict_cause_name(CAUSE_COUNT), "unknown");
}

Test(verdict, a_bridge_has_counters_of_packets)
{
	const struct verdict_facts f = {
		EXITED(7), .has_network = 1, .network_is_bridge = 1, .network_exhausted = 1,
		.network = { .denied = 2, .over = 3, .bytes_in = 4, .bytes_out = 5, .exhausted = 1 },
	};
	char text[4096];
	autojson json_t *j = json_of(&f, text, sizeof(text));
	const json_t *n = json_object_get(j, "network");

	cr_expect_str_eq(json_string_value(json_object_get(j, "cause")), "network");
	cr_expect_eq(number(n, "denied"), 2);
	cr_expect_eq(number(n, "over_limit"), 3);
	cr_expect_eq(number(n, "bytes_in"), 4);
	cr_expect_eq(number(n, "bytes_out"), 5);
	cr_expect(json_is_true(json_object_get(n, "budget_exhausted")));
	cr_expect_null(json_object_get(n, "requests"));
}

Test(verdict, a_full_buffer_is_an_error_not_a_cut_object)
{
	const struct verdict_facts f = { EXITED(0) };
	struct buf b = BUF_INIT(40);
	struct verdict v;
	struct err e = { 0 };

	verdict_decide(&f, &v);
	cr_expect_eq(verdict_json(&v, &b, &e), -1);
	cr_expect_eq(e.code, ERR_LIMIT);
	buf_release(&b);
}

static const char *reason_of(const char *text)
{
	static struct buf b;
	autojson json_t *verdict = json_loads(text, 0, NULL);
	struct err e;
	int r;

	cr_assert(verdict);
	buf_release(&b);
	b = (struct buf)BUF_INIT(1024);
	r = reason_text(verdict, &b, &e);
	cr_assert(r >= 0);
	return r ? b.data : "";
}

Test(verdict, people_are_told_what_the_exit_status_does_not_say)
{
	cr_assert_str_eq(reason_of("{\"cause\":\"exit\",\"exit_code\":3}"), "");
	cr_assert_str_eq(reason_of("{\"cause\":\"of another version\"}"), "");
	cr_assert_str_eq(reason_of("{\"cause\":\"oom\",\"signal\":9,\"peak_memory_bytes\":67108864}"),
			 "killed: the memory limit was reached (64 MiB in use)");
	cr_assert_str_eq(reason_of("{\"cause\":\"disk\",\"exit_code\":1}"), "failed with 1: the disk of the sandbox is full");
	cr_assert_str_eq(reason_of("{\"cause\":\"timeout\",\"exit_code\":0,\"timed_out\":true,\"wall_ms\":1290}"),
			 "killed: its time limit was reached (after 1.2 s)");
	cr_assert_str_eq(reason_of("{\"cause\":\"signal\",\"signal\":11,\"signal_name\":\"SIGSEGV\"}"), "ended by SIGSEGV");
}
