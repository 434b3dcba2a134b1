/* SPDX-License-Identifier: Apache-2.0 */
/* One container of a request: finding it, and what is known of it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/api/boxlist.h"
#include "manager/docker/docker.h"
#include "manager/engine/id.h"
#include "manager/host/restart.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/pings.h"
#include "manager/keeper/request.h"

#define REF_MAX 256
#define LIVE_MAX (1u << 20)

const char *docker_called(const struct http_request *rq)
{
	const char *ref = http_param(rq, "id");

	return ref + (*ref == '/');
}

void box_clear(struct box *b)
{
	memset(b, 0, sizeof(*b));
	b->sock = b->lock_fd = -1;
	b->registry = (struct registry){ .run_fd = -1,
					 .state_fd = -1,
					 .sandboxes_fd = -1,
					 .names_fd = -1,
					 .ids_fd = -1,
					 .kept_fd = -1 };
}

int docker_find_named(struct box *b, struct http_request *rq, const char *name, struct err *e)
{
	char ref[REF_MAX];
	struct err ignored;

	if (box_open(b, rq, e) < 0)
		return -1;
	if (!name || !name[0])
		return docker_fail(rq, 400, e, "no container is named");
	if (engine_ref(name, ref, sizeof(ref)) < 0)
		return docker_fail(rq, 404, e, "No such container: %.200s", name);
	if (registry_find(&b->registry, ref, b->id, &b->kept, e) < 0)
		return e->code == ERR_INVALID
			       ? docker_fail(rq, 400, e,
					     "Multiple IDs found with provided prefix: %.100s",
					     name)
			       : docker_fail(rq, 404, e, "No such container: %.200s",
					     name + (*name == '/'));
	http_audit(rq, "id", b->id);
	/* one whose keeper was killed does not run, and its record is on the disk */
	if (!b->kept && registry_clear_dead(&b->registry, b->id, PINGS_MS, 0, &ignored) == 1)
		b->kept = 1;
	return 0;
}

int docker_find(struct box *b, struct http_request *rq, struct err *e)
{
	return docker_find_named(b, rq, http_param(rq, "id"), e);
}

int docker_find_running(struct box *b, struct http_request *rq, struct err *e)
{
	if (docker_find(b, rq, e) < 0)
		return -1;
	return b->kept ? docker_fail(rq, 409, e, "Container %.200s is not running",
				     docker_called(rq))
		       : 0;
}

int docker_connect(struct box *b, struct err *e)
{
	b->sock = keeper_connect(&b->registry, b->id, e);
	if (b->sock < 0 && e->code == ERR_NOT_FOUND)
		return docker_fail(b->rq, 409, e, "Container %.200s is not running",
				   docker_called(b->rq));
	return b->sock < 0 ? -1 : 0;
}

static json_t *load(struct box *b, const char *file)
{
	struct err ignored;

	return registry_load(&b->registry, b->id, file, &ignored);
}

static json_t *load_live(struct box *b)
{
	autobuf struct buf text = BUF_INIT(LIVE_MAX);
	struct err ignored;
	char path[100];

	snprintf(path, sizeof(path), "%s/record.json", b->id);
	if (io_read_file(b->registry.sandboxes_fd, path, &text, &ignored) < 0)
		return NULL;
	return json_parse(text.data ? text.data : "", text.len, LIVE_MAX, path, &ignored);
}

/* What only its keeper knows; one that ends just now says nothing, and then does not run. */
static void ask_keeper(struct dview *d, struct box *b)
{
	autojson json_t *ping = protocol_request(OP_ping), *health = protocol_request(OP_health),
			*network = protocol_request(OP_network);
	autojson json_t *answer = NULL;
	struct err ignored;

	if (b->sock < 0)
		b->sock = keeper_connect(&b->registry, b->id, &ignored);
	if (b->sock < 0)
		return;
	d->ping = box_call(b, ping, NULL, 0, NULL, &ignored);
	if (!d->ping)
		return;
	if (json_object_get(d->ping, "health")) {
		answer = box_call(b, health, NULL, 0, NULL, &ignored);
		if (answer)
			json_object_set(d->ping, "health_detail", answer);
	}
	if (strcmp(engine_network_mode(&d->v), "none")) {
		json_t *net = box_call(b, network, NULL, 0, NULL, &ignored);

		d->network = json_incref(json_object_get(net, "network"));
		json_decref(net);
	}
	d->v.network = d->network;
}

int dview_load(struct dview *d, struct box *b, int live, struct err *e)
{
	memset(d, 0, sizeof(*d));
	d->live = b->kept ? NULL : load_live(b);
	d->record = load(b, "record.json");
	if (!d->record)
		d->record = json_incref(d->live);
	if (!d->record)
		return docker_fail(b->rq, 404, e, "No such container: %.200s",
				   docker_called(b->rq));
	d->asked = load(b, ENGINE_FILE_NAME);
	d->image = load(b, "image.json");
	d->v = (struct engine_view){ .id = b->id,
				     .record = d->record,
				     .live = d->live,
				     .asked = d->asked,
				     .image = d->image,
				     .runs = !b->kept };
	if (!b->kept && live)
		ask_keeper(d, b);
	if (!b->kept && live && !d->ping && b->sock < 0 && path_has(b->registry.kept_fd, b->id))
		d->v.runs = 0;
	d->v.ping = d->ping;
	d->v.restarting = b->kept && restart_pending(&b->registry, b->id) > 0;
	return 0;
}

void dview_release(struct dview *d)
{
	json_decref(d->record);
	json_decref(d->live);
	json_decref(d->ping);
	json_decref(d->asked);
	json_decref(d->image);
	json_decref(d->network);
	memset(d, 0, sizeof(*d));
}

int docker_verb(struct http_request *rq, const char *verb, const char *option, const char *id,
		struct err *e)
{
	const char *argv[] = { "berth", verb, "--json", option ? option : id, option ? id : NULL,
			       NULL };

	return spawn_berth(rq, argv, 1, -1, NULL, e);
}
