/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S19 of SECURITY.md. */
#include "cli/live/resident.h"
#include "manager/keeper/netclient.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/phases.h"
#include "cli/live/sandbox_open.h"
#include "cli/run/imageuse.h"
#include "cli/run/specshow.h"
#include "cli/run/volumes.h"
#include "manager/host/forget.h"
#include "manager/host/journal.h"
#include "manager/host/labels.h"
#include "manager/host/netmembers.h"
#include "manager/host/nets.h"
#include "manager/host/promise.h"
#include "manager/host/record.h"
#include "manager/host/restart.h"
#include "manager/host/tenant.h"
#include "manager/keeper/wire.h"
#include "manager/ops/healthopts.h"
#include "manager/ops/serviceopts.h"
#include "manager/ops/runopts.h"
#include "manager/ops/settleopt.h"
#include "manager/zygote/wire.h"
#include "runtime/sandbox/nethelper.h"
#include "runtime/sandbox/writable.h"

/* ---- its network ---- */

/* What the network of a lasting sandbox needs of others before it starts. */

/* Options are pairs; of several the last counts. */
static json_t *network_option(const json_t *spec)
{
	json_t *list = json_object_get(spec, "options");
	size_t i;

	for (i = json_array_size(list); i-- > 0;) {
		json_t *pair = json_array_get(list, i);
		const char *name = json_string_value(json_array_get(pair, 0));

		if (name && !strcmp(name, "network"))
			return pair;
	}
	return NULL;
}

/* A tenant's network by its key: no other can be meant, now or at a later start. */
static int pin_name(struct runopts *o, const char *tenant, json_t *spec, struct err *e)
{
	const size_t n = strcspn(o->net.name, "@");
	json_t *pair = network_option(spec);
	char key[NETS_NAME_MAX + 1];

	/* as a copy of a sandbox of its own has it */
	if (o->net.name[n] && !strcmp(o->net.name + n + 1, tenant))
		return 0;
	if (nets_key(o->net.name, tenant, key, e) < 0)
		return -1;
	memcpy(o->net.name, key, sizeof(key));
	return !pair ? err_set(e, ERR_INTERNAL, "a network that no option names") :
	       json_array_set_new(pair, 1, json_string(key)) < 0 ? err_nomem(e) : 0;
}

/*
 * A sandbox that is being made with --network container:REF joins that sandbox at every start,
 * however it is renamed: spec says the id from now on.
 */
static int resident_network_pin(struct registry *r, struct runopts *o, const char *tenant, json_t *spec,
				struct err *e)
{
	json_t *pair = o->net.joins[0] ? network_option(spec) : NULL;
	char id[65], text[sizeof(NETOPTS_CONTAINER) + sizeof(id)];

	if (tenant[0] && o->net.name[0])
		return pin_name(o, tenant, spec, e);
	if (!pair)
		return 0;
	if (netguest_find(r, o->net.joins, tenant, id, e) < 0)
		return -1;
	snprintf(text, sizeof(text), NETOPTS_CONTAINER "%s", id);
	memcpy(o->net.joins, id, sizeof(id));
	return json_array_set_new(pair, 1, json_string(text)) < 0 ? err_nomem(e) : 0;
}

/* Before runopts_finish() of a start: the network that it joins, if it joins one. */
static int resident_network_open(struct registry *r, struct runopts *o, const char *tenant,
				 struct netguest *ret, struct err *e)
{
	return o->net.joins[0] ? netguest_open(r, o->net.joins, tenant, ret, &o->spec, e) : 0;
}

/* The part of the network's budgets that earlier runs used. */
static int load_used(struct registry *r, struct spec *s, struct err *e)
{
	autojson json_t *used = registry_load(r, s->id, NETWORK_USED_FILE, e);

	if (!used)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (json_get_u64(used, "bytes", &s->net_used_bytes, NETWORK_USED_FILE, e) < 0 ||
	    json_get_u64(used, "connections", &s->net_used_connections, NETWORK_USED_FILE, e) < 0)
		return err_wrap(e, "sandbox %s", s->id);
	return 0;
}

/* After runopts_finish(): the directory for what berth-net writes, and what of its budgets earlier runs used. */
static int resident_network_settle(struct registry *r, struct spec *s, const char *scratch,
				   struct err *e)
{
	if (s->network != NETWORK_JOINED)	/* it has the files of the other */
		s->net_dir = scratch;
	return spec_needs_nethelper(s) ? load_used(r, s, e) : 0;
}

/* ---- create and start ---- */

#define IN_USE_LOOK_MS 5
#define IN_USE_TRIES 2000

struct resident {
	struct runopts opts;
	struct imageuse image;
	struct volumes volumes;
	struct netguest guest;
	struct zygote_home home;
	struct claim claim;
	int disk_fd;
	const struct tenant *tenant;	/* the tenant that will own it; or NULL */
	const char *fork_of;	/* or NULL: a start after the first one reads the old record */
	int no_start;	/* only its files are made, and its record */
	int for_files;	/* only its files are worked on (struct keeper_start) */
	const char *id;	/* of one that was made before */
	struct resident_again again;
	int spawned;	/* the keeper had the claim, and has released it or left it to gc */
};

#define RESIDENT_UNSAID(who) { .image = IMAGEUSE_INIT, .disk_fd = -1, \
			       .guest = NETGUEST_NONE, .home = { .sock = -1 }, \
			       .claim = { .dir_fd = -1, .slot_fd = -1 }, .id = (who) }

/* Its time to live began when it was made, or when update said so: then the old record knows. */
static struct keeper_life life_of(const struct resident *x, const struct config *c, const json_t *old)
{
	struct keeper_life l = { .idle_timeout_ms = c->idle_timeout_ms, .auto_remove = x->opts.life.auto_remove,
				 .remove_idle = !strcmp(c->idle_action, "remove") };

	memcpy(l.owner, x->opts.life.owner, sizeof(l.owner));
	l.owner_grace_ms = x->opts.life.owner_grace_ms;
	l.budget = x->opts.life.budget;
	l.budget_used = livebudget_used_of(old);
	l.pause_at_end = record_pause_at_end(old);
	l.stop_at_end = record_stop_at_end(old);
	l.resume_ttl_ms = (uint64_t)record_resume_ttl_ms(old);
	if (runopts_given(&x->opts, PARAM_IDLE_TIMEOUT))
		l.idle_timeout_ms = x->opts.life.idle_timeout_ms;
	l.expires_ms = record_has_expiry(old) ? (uint64_t)record_expires_ms(old) :
		       x->opts.life.ttl_ms ? clock_wall_ms() + x->opts.life.ttl_ms : 0;
	return l;
}

/* At a start the old record tells when it was created. */
static json_t *make_resident_record(const struct resident *x, const json_t *old, const char *image, const char *name)
{
	json_t *record;
	const char *known = record_created(old), *fork_of = x->fork_of ? x->fork_of : record_fork_of(old);
	const char *network = x->opts.net.name, *joins = x->opts.net.joins;
	char started[JOURNAL_TIME];
	struct timespec begun;

	clock_gettime(CLOCK_REALTIME, &begun);
	journal_time(&begun, started);
	record = record_new(x->claim.id, name, image, RECORD_RUNNING, known[0] ? known : started);
	if (!record)
		return NULL;
	record_set_started(record, started);
	if (fork_of[0])
		record_set_fork_of(record, fork_of);
	record_set_command(record, json_array());
	record_set_network(record, json_pack("{s:s,s:s*,s:s*}", "mode",
					     spec_network_name(x->opts.spec.network), "network",
					     network[0] ? network : NULL, "container",
					     joins[0] ? joins : NULL));
	record_set_labels(record, runopts_labels(&x->opts, x->image.image.labels));
	if (x->home.sock >= 0)
		json_object_set_new(record_labels(record), ZYGOTE_LABEL,
				    json_string(x->home.zygote));
	if (record_networks(old))
		record_set_networks(record, json_incref(record_networks(old)));
	if (x->opts.life.service.is_service &&
	    serviceopts_tell(&x->opts.life.service, &x->opts.spec, record) < 0) {
		json_decref(record);
		return NULL;
	}
	return record;
}

static int open_image_of(struct registry *r, struct resident *x, const char *image, struct err *e)
{
	if (imageuse_open_pinned(&x->image, r, x->disk_fd, image, &x->opts.spec, e) == 0)
		return x->tenant ? imageuse_check_seen(&x->image, x->tenant, r->config, image, e) :
				   0;
	return e->code == ERR_UNSUPPORTED ? err_wrap(e, "sandbox %s", x->claim.id) : -1;
}

/* It is made, and not started yet: all its files exist, as for a stopped sandbox. */
static int save_created(struct registry *r, const struct resident *x, json_t *record, struct err *e)
{
	record_set_status(record, RECORD_CREATED);
	record_drop_started(record);
	return record_save_kept(r, x->claim.id, record, e);
}

/*
 * No network, no clock, and only its clients end it: nothing of it counts as a run of the
 * sandbox.
 */
static void launch_for_files(struct resident *x, struct keeper_start *ks)
{
	struct spec *s = &x->opts.spec;

	s->network = NETWORK_NONE;
	s->net_policy = s->net_egress = s->net_relay = NULL;
	s->timeout_ms = 0;
	ks->for_files = 1;
	ks->life = (struct keeper_life){ 0 };
	ks->health.argv = NULL;
	ks->service = NULL;
	record_drop_networks(ks->record);
}

/* Those of its own range, or of its place in a zygote. */
static int settle_ids(struct registry *r, struct resident *x, const json_t *spec, struct err *e)
{
	struct spec *s = &x->opts.spec;

	s->id_base = x->claim.id_base;
	return x->no_start || x->for_files ?
		       resident_zygote_files(spec, x->disk_fd, s, e) :
		       resident_zygote_open(r, spec, x->disk_fd, &x->home, s, e);
}

static void let_go_of_resident(void *ctx)
{
	volumes_close(ctx);
}

/* Opens what it mounts of the host, as it was noted when the sandbox was made. */
static int open_sources(struct registry *r, struct resident *x, json_t *spec, struct err *e)
{
	const int changed = x->no_start ? 0 : sources_open(spec, &x->opts.spec, e);

	return changed > 0 ? registry_save(r, x->claim.id, SPEC_FILE, spec, e) : changed;
}

/* Everything but the claim, which create and start make differently. */
static int launch_resident(struct registry *r, struct resident *x, json_t *spec, const char *name, int fresh, struct err *e)
{
	char scratch[sizeof(r->config->run_dir) + 80], log_dir[sizeof(r->config->state_dir) + 80];
	struct spec *s = &x->opts.spec;
	struct serviceopts *svc = &x->opts.life.service;
	const struct image *im;
	struct keeper_start ks = { .registry = r, .claim = &x->claim, .spec = s, .output_head_bytes = 1 << 20,
				   .output_tail_bytes = 1 << 20, .fresh = fresh,
				   .home_fd = -1 };
	struct err ignored;
	autojson json_t *record = NULL, *old = record_load_kept(r, x->claim.id, &ignored);
	const char *image = NULL;

	if (json_get_str(spec, "image", &image, SPEC_FILE, e) < 1)
		return err_set(e, ERR_CORRUPT, "%s names no image", SPEC_FILE);
	x->disk_fd = registry_keep_dir(r, x->claim.id, e);
	if (x->disk_fd < 0 || resident_settle_time(&x->opts, e) < 0 || open_image_of(r, x, image, e) < 0 ||
	    imageuse_pin(&x->image, x->disk_fd, e) < 0)
		return -1;
	im = x->image.has_image ? &x->image.image : NULL;
	snprintf(s->id, sizeof(s->id), "%s", x->claim.id);
	if (open_sources(r, x, spec, e) < 0 || (!x->for_files && runopts_devices(&x->opts, e) < 0) ||
	    (!x->no_start && !x->for_files &&
	     resident_network_open(r, &x->opts, x->claim.promise->tenant, &x->guest, e) < 0) ||
	    runopts_finish(&x->opts, im, svc->words, svc->word_count, e) < 0 ||
	    serviceopts_finish(&x->opts, im, e) < 0 ||
	    resident_check_budget(&x->opts.life.budget, s, e) < 0 ||
	    (svc->is_service && healthopts_take_image(&x->opts, im, e) < 0))
		return -1;
	s->resident = 1;
	s->passing = x->opts.life.auto_remove;
	s->tty = 0;
	s->limits.oom_group = 0;	/* each command's cgroup has its own; init must live */
	snprintf(scratch, sizeof(scratch), "%s/sandboxes/%s", r->config->run_dir, s->id);
	snprintf(log_dir, sizeof(log_dir), "%s/sandboxes/%s", r->config->state_dir, s->id);
	ks.where = (struct launch_place){ scratch, x->disk_fd, 1, r->state_fd, log_dir, r->config->disk_reserve_bytes };
	s->name = name;
	if (settle_ids(r, x, spec, e) < 0 || resident_network_settle(r, s, scratch, e) < 0 ||
	    volumes_open(&x->volumes, r, s, x->claim.promise->tenant, scratch, e) < 0)
		return -1;
	ks.hold_fd = x->image.hold_fd;
	ks.home_fd = x->home.sock;
	ks.let_go = let_go_of_resident;
	ks.let_go_ctx = &x->volumes;
	record = make_resident_record(x, old, image, name);
	if (!record)
		return err_nomem(e);
	ks.life = life_of(x, r->config, old);
	ks.health = x->opts.life.health;
	keeper_life_tell(&ks.life, record);
	if (x->no_start)
		return save_created(r, x, record, e);
	ks.record = record;
	ks.service = svc->is_service ? &svc->service : NULL;
	if (x->for_files)
		launch_for_files(x, &ks);
	x->spawned = 1;
	if (keeper_spawn(&ks, e) < 0)
		return -1;
	if (fresh)
		runopts_tell(&x->opts, "berth create");
	return 0;
}

static void close_resident(struct resident *x)
{
	imageuse_close(&x->image, &x->opts.spec);
	volumes_close(&x->volumes);
	netguest_close(&x->guest);
	zygote_home_close(&x->home);
	runopts_release(&x->opts);
	fd_close(&x->disk_fd);
	/* the keeper has its own copies, and with them the locks */
	fd_close(&x->claim.dir_fd);
	fd_close(&x->claim.slot_fd);
}

/* Checks the options against the tenant's limits, before anything is made. */
static int read_resident_options(struct resident *x, const struct config *c, struct tenant *t, const char *tenant, json_t *spec, struct promise *ret,
				 struct err *e)
{
	const struct cgroup_limits *l = &x->opts.spec.limits;

	if (tenant[0] && (tenant_load(t, c, tenant, e) < 0 || tenant_cap_defaults(t, c, json_object_get(spec, "options"), e) < 0))
		return -1;
	if (resident_apply(&x->opts, spec, e) < 0 || (tenant[0] && tenant_check_spec(t, &x->opts.spec, e) < 0))
		return -1;
	*ret = tenant[0] ? tenant_promise(t, l->memory_bytes, l->cpu_milli, x->opts.spec.disk_bytes) :
		       resident_zygote_promise(spec, &x->opts.spec);
	return 0;
}

int resident_check_room(struct registry *r, const char *tenant, const json_t *spec, unsigned count,
			struct err *e)
{
	struct resident x = RESIDENT_UNSAID("");
	autojson json_t *own = json_deep_copy(spec);
	struct promise promise;
	struct tenant t = { 0 };
	int result = own ? 0 : err_nomem(e);

	runopts_init(&x.opts, r->config);
	if (result == 0)
		result = read_resident_options(&x, r->config, &t, tenant, own, &promise, e);
	if (result == 0)
		result = promise_fits_all(r, &promise, count, e);
	close_resident(&x);
	return result;
}

/* Its owner is recorded beside it before anybody can see it. */
static int save_resident_owner(struct registry *r, const char *id, const char *tenant, struct err *e)
{
	autojson json_t *owner = tenant[0] ? json_pack("{s:s}", "name", tenant) : NULL;

	return owner ? registry_save_ahead(r, id, REGISTRY_OWNER, owner, e) : 0;
}

/* Writes a file that becomes durable with the record; doc may be NULL. */
static int save_before_record(struct registry *r, const char *id, const char *file, const json_t *doc,
			      int passing, struct err *e)
{
	if (!doc)
		return 0;
	return passing ? registry_save_passing(r, id, file, doc, e) :
			 registry_save_ahead(r, id, file, doc, e);
}

/* Expired sandboxes take no place from others. */
static int claim(struct registry *r, const char *name, const struct promise *p, struct claim *ret, struct err *e)
{
	struct err ignored;
	unsigned expired;

	if (registry_claim(r, name, 1, p, ret, e) == 0)
		return 0;
	return e->code == ERR_LIMIT && expire_stopped(r, &expired, &ignored) == 0 && expired ? registry_claim(r, name, 1, p, ret, e) : -1;
}

int resident_create(struct registry *r, const struct resident_whose *whose, json_t *spec,
		    char ret_id[65], struct err *e)
{
	const char *name = whose->name, *tenant = whose->tenant;
	struct resident x = { .no_start = whose->no_start, .fork_of = whose->fork_of, .image = IMAGEUSE_INIT, .disk_fd = -1,
			      .guest = NETGUEST_NONE,
			      .home = { .sock = -1 },
			      .claim = { .dir_fd = -1, .slot_fd = -1 } };
	struct promise promise;
	struct tenant t = { 0 };
	struct err ignored;
	char id[65];
	int result;

	runopts_init(&x.opts, r->config);
	x.tenant = tenant[0] ? &t : NULL;
	result = sources_note(spec, e);
	if (result == 0)
		result = read_resident_options(&x, r->config, &t, tenant, spec, &promise, e);
	if (result == 0 && tenant[0] && imageuse_own(r, &t, spec) < 0)
		result = err_nomem(e);
	if (result == 0)
		result = resident_network_pin(r, &x.opts, tenant, spec, e);
	phase_enter(PHASE_CLAIM);
	if (result == 0)
		result = claim(r, name, &promise, &x.claim, e);
	memcpy(id, x.claim.id, sizeof(id));
	if (phases_on)
		memcpy(phases_on->id, id, sizeof(id));
	if (result == 0 && (save_resident_owner(r, id, tenant, e) < 0 ||
			    save_before_record(r, id, SPEC_FILE, spec, x.opts.life.auto_remove, e) < 0 ||
			    save_before_record(r, id, REGISTRY_ASKED, whose->asked, x.opts.life.auto_remove, e) < 0))
		result = -1;
	x.opts.life.service.service.awaited = whose->awaited;
	if (result == 0 && whose->fill)
		result = whose->fill(whose->ctx, &x.claim, e);
	if (result == 0) {
		autojson json_t *labels = runopts_labels(&x.opts, NULL);

		/* with the marks, where a name that berth spells otherwise stands as its client gave it */
		events_add(r, "create", id,
			   json_pack("{s:s,s:O*,s:O*,s:o*}", "name", name,
				     "image", json_object_get(spec, "image"), "zygote",
				     json_object_get(json_object_get(spec, "zygote"), "id"),
				     "labels", labels_for_event(labels)));
		result = launch_resident(r, &x, spec, name, 1, e);
		if (result < 0)
			events_add(r, "create-failed", id, json_pack("{s:s}", "error", e->msg));
	}
	if (result == 0 && x.no_start)
		result = registry_release(r, &x.claim, e);
	if (result < 0 && id[0]) {
		if (!x.spawned)
			registry_release(r, &x.claim, &ignored);
		registry_forget(r, id, &ignored);
	}
	close_resident(&x);
	if (result < 0)
		return writable_tell_host_full(r->config->state_dir, e);
	memcpy(ret_id, id, sizeof(id));
	return 0;
}

/* A sandbox of an older berth has no promise recorded yet. */
static void load_owner_promise(struct registry *r, const char *id, struct promise *p)
{
	struct err ignored;
	autojson json_t *owner = registry_load(r, id, REGISTRY_OWNER, &ignored);
	const char *name = json_string_value(json_object_get(owner, "name"));

	snprintf(p->tenant, sizeof(p->tenant), "%s", name ? name : "");
}

static int remove_expired(struct registry *r, const char *id, struct err *e)
{
	if (forget_alone(r, id, e) < 0)
		return -1;
	events_add(r, "rm", id, json_pack("{s:s}", "reason", "expired"));
	return err_set(e, ERR_NOT_FOUND, "the time of sandbox %s was over, and it is removed now", id);
}

int resident_start(struct registry *r, const char *id, struct err *e)
{
	return resident_start_again(r, id, &(struct resident_again){ 0 }, e);
}

int resident_claim(struct registry *r, const char *id, const struct promise *p, struct claim *ret,
		   struct err *e)
{
	int tries;

	for (tries = 0; tries < IN_USE_TRIES; tries++) {
		if (registry_reclaim(r, id, p, ret, e) == 0)
			return 0;
		/* busy: the lock of its ids goes a moment after its directory (registry_release()) */
		if (e->code != ERR_BUSY &&
		    (e->code != ERR_EXISTS || record_is_there(r->sandboxes_fd, id)))
			return -1;
		poll(NULL, 0, IN_USE_LOOK_MS);
	}
	return err_set(e, ERR_BUSY, "the files of sandbox %s are in use by another command; hint: "
		       "try again", id);
}

/* Of a sandbox that an older berth made, or whose operator takes what is there now. */
static int adopt_sources(struct registry *r, struct resident *x, json_t *spec, struct err *e)
{
	int changed;

	if (x->again.accept_sources)
		sources_forget(spec);
	changed = x->again.accept_sources ? (sources_note(spec, e) < 0 ? -1 : 1) : sources_adopt(spec, e);
	return changed > 0 ? registry_save(r, x->id, SPEC_FILE, spec, e) : changed;
}

static int start_kept_resident(struct registry *r, struct resident *x, json_t *spec, const json_t *record,
			       struct err *e)
{
	struct promise promise;
	const char *name = "";
	struct err ignored;
	const char *id = x->id;

	if (json_get_str(record, "name", &name, RECORD_FILE, e) < 0)
		return -1;
	if (expire_is_over(record))
		return remove_expired(r, id, e);
	if (adopt_sources(r, x, spec, e) < 0 || resident_apply(&x->opts, spec, e) < 0)
		return -1;
	promise = resident_zygote_promise(spec, &x->opts.spec);
	load_owner_promise(r, id, &promise);
	if (resident_claim(r, id, x->for_files ? NULL : &promise, &x->claim, e) < 0)
		return -1;
	x->claim.promise = &promise;
	x->opts.life.service.service.restarts = x->again.restarts;
	x->opts.life.service.service.backoff_ms = x->again.backoff_ms;
	x->opts.life.service.service.awaited = x->again.awaited;
	if (launch_resident(r, x, spec, name, 0, e) == 0)
		return 0;
	if (!x->spawned)
		registry_release(r, &x->claim, &ignored);
	return -1;
}

static int start_resident(struct registry *r, struct resident *x, struct err *e)
{
	autojson json_t *spec = registry_load(r, x->id, SPEC_FILE, e);
	autojson json_t *record = spec ? record_load_kept(r, x->id, e) : NULL;
	struct err ignored;
	int result;

	if (!spec && e->code == ERR_NOT_FOUND) {
		/*
		 * a sandbox that is being removed loses its files one by one, and nobody else
		 * can claim it meanwhile
		 */
		if (registry_reclaim(r, x->id, NULL, &x->claim, e) < 0)
			return -1;
		registry_release(r, &x->claim, &ignored);
		close_resident(x);
		return err_set(e, ERR_INVALID, "sandbox %s was kept by berth run and cannot be started; hint: berth create makes "
			       "sandboxes that can", x->id);
	}
	if (!record)
		return -1;
	runopts_init(&x->opts, r->config);
	result = start_kept_resident(r, x, spec, record, e);
	close_resident(x);
	return result;
}

int resident_start_again(struct registry *r, const char *id, const struct resident_again *how, struct err *e)
{
	struct resident x = RESIDENT_UNSAID(id);

	x.again = *how;
	return start_resident(r, &x, e) < 0 ? writable_tell_host_full(r->config->state_dir, e) : 0;
}

int resident_start_files(struct registry *r, const char *id, struct err *e)
{
	struct resident x = RESIDENT_UNSAID(id);

	x.for_files = 1;
	return start_resident(r, &x, e);
}

/* ---- stop ---- */

/* The end of a lasting sandbox: its keeper is asked, and killed when it does not answer. */

static int ask_to_stop(struct registry *r, const char *id, const struct stop_request *how, struct err *e)
{
	const int waits = how->own_grace || how->grace_ms;
	autoclose int sock = keeper_connect_within(r, id, waits ? KEEPER_CONNECT_MS : KEEPER_STUCK_MS, e);

	return sock < 0 ? -1 : keeper_ask_to_stop(sock, how, e);
}

int resident_stop(struct registry *r, const char *id, const struct stop_request *how, struct err *e)
{
	const int at_once = !how->own_grace && !how->grace_ms;
	const int is_run = at_once && keeper_is_run(r, id);
	int result = is_run ? keeper_kill(r, id, e) : ask_to_stop(r, id, how, e);

	if (is_run)
		return result;	/* a berth run --keep has written its own record */
	if (result < 0 && e->code == ERR_TIMEOUT && at_once) {
		restart_cancel(r, id);
		result = keeper_kill(r, id, e);
	}
	if (result < 0)
		return -1;
	if (record_note_stopped(r, id, NULL, e) == 0)
		return 0;
	/* it has ended all the same: a full disk keeps nobody from stopping what fills it */
	return e->os_errno == ENOSPC || e->os_errno == EDQUOT ? 1 : -1;
}
