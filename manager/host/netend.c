/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/netend.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/list.h"
#include "manager/host/netjoin.h"
#include "manager/host/nets.h"
#include "manager/host/record.h"
#include "runtime/sandbox/nethelper.h"

#define RECORD_MAX (2u << 20)

struct members {
	struct registry *r;
	const char *name;
	json_t *list;
};

static void add_addresses(const struct members *m, const char *id, json_t *row)
{
	static const char *const keys[] = { "address", "address6" };
	autobuf struct buf b = BUF_INIT(RECORD_MAX);
	autojson json_t *j = NULL;
	struct err ignored;
	char path[200];
	size_t i;

	snprintf(path, sizeof(path), NETS_DIR "/%s/members/%s.json", m->name, id);
	if (io_read_file(m->r->state_fd, path, &b, &ignored) < 0)
		return;
	j = json_parse(b.data ? b.data : "", b.len, RECORD_MAX, "record", &ignored);
	for (i = 0; j && i < ARRAY_LEN(keys); i++)
		if (json_object_get(j, keys[i]))
			json_object_set(row, keys[i], json_object_get(j, keys[i]));
}

static int note_member(void *ctx, const char *id, int kept, json_t *record)
{
	const struct members *m = ctx;
	const char *on = json_string_value(json_object_get(record_network(record), "network"));
	json_t *row;

	/* one that was made on the bridge without a name, or on none, may have joined later */
	if ((!on || strcmp(on, m->name)) && !netjoin_is_on(record, m->name))
		return 0;
	row = json_pack("{s:s,s:O?,s:s}", "id", id, "name", json_object_get(record, "name"),
			"status",
			kept ? "stopped" : "running");
	if (row && !kept)
		add_addresses(m, id, row);
	return json_array_append_new(m->list, row);
}

json_t *netend_members(struct registry *r, const char *name, struct err *e)
{
	struct members m = { r, name, json_array() };

	if (m.list && registry_list(r, 1, note_member, &m, e) == 0)
		return m.list;
	if (!m.list)
		err_nomem(e);
	json_decref(m.list);
	return NULL;
}

static int bury(int dir, const char *name, struct err *e)
{
	char hidden[80];

	snprintf(hidden, sizeof(hidden), ".%s", name);
	if (path_remove_tree(dir, hidden, e) < 0)
		return -1;
	if (renameat(dir, name, dir, hidden) < 0 && errno != ENOENT)
		return err_sys(e, "remove the network %s", name);
	return path_remove_tree(dir, hidden, e);
}

static int close_network(struct registry *r, const char *name, struct err *e)
{
	autojson json_t *place = nets_place(r->config, name, e);
	autojson json_t *policy = place ? json_pack("{s:O}", "bridge", place) : NULL;
	autofree char *text = policy ? json_dumps(policy, JSON_COMPACT) : NULL;

	char extra[sizeof(r->config->run_dir) + 40];

	if (!text)
		return place ? err_nomem(e) : -1;
	snprintf(extra, sizeof(extra), ",\"sandboxes\":\"%s/sandboxes\"", r->config->run_dir);
	return nethelper_bridge("bridge-remove", "", extra, text, NULL, e);
}

int netend_remove(struct registry *r, const char *name, struct err *e)
{
	autoclose int dir = nets_open(r->config, e), lock = -1;
	autojson json_t *record = NULL, *members = NULL;
	size_t n;

	if (dir < 0 || (lock = nets_lock(dir, e)) < 0 || !(record =
							   nets_load(r->config, name, e)) ||
	    !(members = netend_members(r, name, e)))
		return -1;
	n = json_array_size(members);
	if (n)
		return err_set(e, ERR_BUSY, "network %s has %zu member%s, living or stopped; hint: "
					    "berth "
			       "network inspect %s names them", name, n, n == 1 ? "" : "s", name);
	if (close_network(r, name, e) < 0)
		return -1;
	return bury(dir, name, e);
}

struct clearing {
	struct registry *r;
	int dir;
	struct err *e;
};

static int clear_hidden(void *ctx, const char *name)
{
	const struct clearing *x = ctx;

	return path_remove_tree(x->dir, name, x->e);
}

/* Closed, and not gone: its removal was cut short. */
static int clear_closed(void *ctx, const char *name)
{
	const struct clearing *x = ctx;
	char path[120];

	snprintf(path, sizeof(path), "%s/members/closed", name);
	if (!path_has(x->dir, path))
		return 0;
	return close_network(x->r, name, x->e) < 0 ? -1 : bury(x->dir, name, x->e);
}

int netend_clear(struct registry *r, struct err *e)
{
	struct clearing x = { r, -1, e };
	autoclose int dir = -1, lock = -1;

	if (!path_has(r->state_fd, NETS_DIR))
		return 0;
	dir = x.dir = nets_open(r->config, e);
	if (dir < 0 || (lock = nets_lock(dir, e)) < 0 || nets_each_in(dir, 1, clear_hidden, &x,
								      e) != 0)
		return -1;
	return nets_each_in(dir, 0, clear_closed, &x, e);
}
