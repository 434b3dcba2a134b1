/* SPDX-License-Identifier: Apache-2.0 */
/* The names that a member has on its network, in the table that the resolvers of all read. */
#include <stdio.h>

#include "base/mem.h"
#include "base/path.h"
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
