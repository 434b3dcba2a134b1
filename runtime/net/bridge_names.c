/* SPDX-License-Identifier: Apache-2.0 */
/* The names that a member has on its network, in the table that the resolvers of all read. */
#include <stdio.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/net/bridge.h"
#include "runtime/net/bridge_state.h"
#include "runtime/net/nametable.h"

#define SHORT_ID 12

int bridge_take_names(struct bridge *b, struct err *e)
{
	const json_t *aliases = json_object_get(b->policy_json, "aliases"), *v;
	const char *names[NAMETABLE_NAMES];
	struct nametable t;
	char short_id[SHORT_ID + 1];
	size_t n = 0, i;
	int r;

	if (!b->kind.peers)
		return 0;
	snprintf(short_id, sizeof(short_id), "%s", b->id);
	if (b->sandbox[0])
		names[n++] = b->sandbox;
	names[n++] = short_id;
	json_array_foreach(aliases, i, v)
		if (n < NAMETABLE_NAMES && json_is_string(v))
			names[n++] = json_string_value(v);
	if (nametable_open(&t, b->pool.dir_fd, e) < 0)
		return -1;
	r = nametable_set(&t, (uint32_t)b->number, names, n, e);
	nametable_close(&t);
	return r;
}

void bridge_forget_names(struct bridge *b, uint64_t number)
{
	struct nametable t;
	struct err ignored;

	if (!path_has(b->pool.dir_fd, NAMETABLE_FILE) ||
	    nametable_open(&t, b->pool.dir_fd, &ignored) < 0)
		return;
	nametable_forget(&t, (uint32_t)number);
	nametable_close(&t);
}

/* With its recorded aliases. */
static int rename_by(struct bridge *b, const json_t *record, struct err *e)
{
	if (json_get_u64(record, "number", &b->number, "record", e) < 1 ||
	    json_get_obj(record, "policy", &b->policy_json, "record", e) < 1)
		return err_set(e, ERR_CORRUPT, "the record of the network of sandbox %s is "
					       "malformed", b->id);
	return bridge_take_names(b, e);
}

int bridge_rename(const json_t *job, struct err *e)
{
	autojson json_t *record = NULL;
	struct bridge b;
	int r = bridge_load(&b, job, e);

	if (r == 0 && bridge_lock(&b, e) < 0)
		r = -1;
	if (r == 0) {
		record = pool_recorded(&b.pool, b.id, e);
		if (!record)	/* it has just ended */
			r = e->code == ERR_NOT_FOUND ? 0 : -1;
		else
			r = rename_by(&b, record, e);
		bridge_unlock(&b);
	}
	if (r == 0)
		bridge_answer(NULL);
	bridge_unload(&b);
	return r;
}
