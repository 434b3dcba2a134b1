/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sandbox/reason.h"

#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "runtime/sandbox/verdict.h"

static const struct {
	const char *cause, *why, *option, *live;
} causes[] = {
#define X(sym, name, why, option, live) [sym] = { name, why, option, live },
	VERDICT_CAUSES(X)
#undef X
};

static enum verdict_cause find_cause(const json_t *verdict)
{
	const char *cause = json_string_value(json_object_get(verdict, "cause"));
	enum verdict_cause c = 0;

	while (c < CAUSE_COUNT && (!cause || strcmp(causes[c].cause, cause)))
		c++;
	return c;
}

static int add_amount(enum verdict_cause c, const json_t *verdict, struct buf *out, struct err *e)
{
	json_int_t ms = json_integer_value(json_object_get(verdict, "wall_ms"));
	json_int_t bytes = json_integer_value(json_object_get(verdict, "peak_memory_bytes"));

	if (c == CAUSE_TIMEOUT)
		return buf_addf(out, e, " (after %lld.%lld s)", (long long)ms / 1000, (long long)ms % 1000 / 100);
	if (c == CAUSE_OOM && bytes >= 1 << 20)
		return buf_addf(out, e, " (%lld MiB in use)", (long long)bytes >> 20);
	return 0;
}

int reason_text(const json_t *verdict, struct buf *out, struct err *e)
{
	enum verdict_cause c = find_cause(verdict);
	const json_t *code = json_object_get(verdict, "exit_code");
	const char *signal = json_string_value(json_object_get(verdict, "signal_name"));
	int killed = !code || json_is_true(json_object_get(verdict, "timed_out"));

	if (c == CAUSE_COUNT || !causes[c].why)
		return 0;
	if (c == CAUSE_SIGNAL)
		return buf_addf(out, e, "ended by %s", signal ? signal : "a signal") < 0 ? -1 : 1;
	if (c == CAUSE_LOST)
		return buf_adds(out, causes[c].why, e) < 0 ? -1 : 1;
	if (killed ? buf_adds(out, "killed", e) < 0 :
		     buf_addf(out, e, "failed with %lld", (long long)json_integer_value(code)) < 0)
		return -1;
	return buf_addf(out, e, ": %s", causes[c].why) < 0 || add_amount(c, verdict, out, e) < 0 ? -1 : 1;
}

int reason_hint(const json_t *verdict, int lives, struct buf *out, struct err *e)
{
	enum verdict_cause c = find_cause(verdict);
	const char *hint = c == CAUSE_COUNT ? NULL : lives ? causes[c].live : causes[c].option;

	return hint ? buf_addf(out, e, "hint: %s", hint) : 0;
}

int reason_tell(const char *prog, const json_t *verdict, int lives)
{
	int is_lost = find_cause(verdict) == CAUSE_LOST, r;
	autobuf struct buf text = BUF_INIT(1024), hint = BUF_INIT(256);
	struct err ignored;

	if (!is_lost && !isatty(STDERR_FILENO))
		return 0;
	r = reason_text(verdict, &text, &ignored);
	if (r > 0 && reason_hint(verdict, lives, &hint, &ignored) == 0)
		log_note(prog, hint.len ? "%s; %s" : "%s%s", text.data, hint.len ? hint.data : "");
	return is_lost;
}

void reason_tell_text(const char *prog, const struct buf *verdict)
{
	struct err ignored;
	autojson json_t *j = verdict->len ? json_parse(verdict->data, verdict->len, verdict->len, "verdict", &ignored) : NULL;

	if (j)
		reason_tell(prog, j, 0);
}
