/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/keeper/livebudget.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "manager/host/record.h"

#define TIME_MAX UINT64_C(31622400000) /* a year */
#define BYTES_MAX (UINT64_C(1) << 60)

#define OF_RECORD(limit, used) \
	record_set_budget_##limit, record_set_budget_##used, record_budget_##used

const struct livebudget_row livebudget_rows[] = {
	[LIVEBUDGET_CPU] = { "cpu", 1, "cpu_ms", "cpu_used_ms", OF_RECORD(cpu_ms, used_ms), "60s" },
	[LIVEBUDGET_TIME] = { "time", 1, "time_ms", "time_used_ms",
			      OF_RECORD(time_ms, time_used_ms), "1h" },
	[LIVEBUDGET_IO] = { "io", 0, "io_bytes", "io_used_bytes",
			    OF_RECORD(io_bytes, io_used_bytes), "1g" },
	[LIVEBUDGET_NET] = { "net", 0, "net_bytes", "net_used_bytes",
			     OF_RECORD(net_bytes, net_used_bytes), "1g" },
};

static int not_a_budget(const char *text, struct err *e)
{
	return err_set(e, ERR_INVALID,
		       "'%.80s' is not a budget; "
		       "hint: cpu=60s, or several of cpu=60s,time=1h,io=1g,net=1g",
		       text);
}

/* "KEY=VALUE" or "KEY=+VALUE" of n bytes. */
static int parse_one(const char *word, size_t n, const char *text, struct livebudget *ret,
		     struct err *e)
{
	char one[80], *value;
	size_t k;
	int r;

	if (n >= sizeof(one))
		return not_a_budget(text, e);
	memcpy(one, word, n);
	one[n] = '\0';
	value = strchr(one, '=');
	if (!value)
		return not_a_budget(text, e);
	*value++ = '\0';
	value += *value == '+';
	for (k = 0; k < LIVEBUDGET_KINDS && strcmp(one, livebudget_rows[k].word); k++)
		;
	if (k == LIVEBUDGET_KINDS || ret->v[k])
		return not_a_budget(text, e);
	r = livebudget_rows[k].is_time ?
		    num_duration_ms(value, "budget", TIME_MAX, &ret->v[k], e) :
		    num_size(value, "budget", 1, BYTES_MAX, &ret->v[k], e);
	if (r == 0 && !ret->v[k])
		return err_set(e, ERR_INVALID, "a budget of nothing; hint: %s=%s", one,
			       livebudget_rows[k].sample);
	return r;
}

int livebudget_parse(const char *text, struct livebudget *ret, struct err *e)
{
	struct livebudget b = { { 0 } };
	const char *p = text;

	for (;; p++) {
		const size_t n = strcspn(p, ",");

		if (parse_one(p, n, text, &b, e) < 0)
			return -1;
		p += n;
		if (!*p)
			break;
	}
	*ret = b;
	return 0;
}

json_t *livebudget_text(const struct livebudget *b)
{
	char text[LIVEBUDGET_KINDS * 40];
	int n = 0;
	size_t k;

	text[0] = '\0';
	for (k = 0; k < LIVEBUDGET_KINDS; k++)
		if (b->v[k])
			n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%s=%llu%s",
				      n ? "," : "", livebudget_rows[k].word,
				      (unsigned long long)b->v[k],
				      livebudget_rows[k].is_time ? "ms" : "");
	return json_string(text);
}

int livebudget_add(struct livebudget *b, const struct livebudget *more, const char *id,
		   struct err *e)
{
	struct livebudget sum = *b;
	size_t k;

	for (k = 0; k < LIVEBUDGET_KINDS; k++) {
		const struct livebudget_row *row = &livebudget_rows[k];
		const uint64_t most = row->is_time ? TIME_MAX : BYTES_MAX;

		if (more->v[k] && !b->v[k])
			return err_set(e, ERR_INVALID,
				       "sandbox %s has no budget of %s; "
				       "hint: berth create --budget %s=%s",
				       id, row->word, row->word, row->sample);
		if (more->v[k] > most - b->v[k])
			return err_set(e, ERR_INVALID, "a budget of %s has at most %llu %s",
				       row->word, (unsigned long long)most,
				       row->is_time ? "ms" : "bytes");
		sum.v[k] += more->v[k];
	}
	*b = sum;
	return 0;
}

int livebudget_is_set(const struct livebudget *b)
{
	size_t k;

	for (k = 0; k < LIVEBUDGET_KINDS; k++)
		if (b->v[k])
			return 1;
	return 0;
}

json_t *livebudget_json(const struct livebudget *b, const struct livebudget *used)
{
	json_t *j = json_object();
	size_t k;

	for (k = 0; k < LIVEBUDGET_KINDS; k++) {
		if (!b->v[k])
			continue;
		json_object_set_new(j, livebudget_rows[k].limit, json_integer((json_int_t)b->v[k]));
		json_object_set_new(j, livebudget_rows[k].used,
				    json_integer((json_int_t)used->v[k]));
	}
	return j;
}

void livebudget_tell(const struct livebudget *b, const struct livebudget *used, json_t *record)
{
	size_t k;

	for (k = 0; k < LIVEBUDGET_KINDS; k++) {
		if (!b->v[k])
			continue;
		livebudget_rows[k].keep(record, b->v[k]);
		livebudget_rows[k].keep_used(record, used->v[k]);
	}
}

struct livebudget livebudget_used_of(const json_t *record)
{
	struct livebudget used;
	size_t k;

	for (k = 0; k < LIVEBUDGET_KINDS; k++)
		used.v[k] = (uint64_t)livebudget_rows[k].used_of(record);
	return used;
}
