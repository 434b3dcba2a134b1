/* SPDX-License-Identifier: Apache-2.0 */
/* Start and end of the service, recovery at the start, its figures. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/volume.h"
#include "manager/keeper/keeper.h"
#include "manager/objects/storage.h"
#include "manager/service/dlog.h"
#include "manager/service/state.h"

/* ---- whether the stores answer ---- */

/*
 * Readiness: whether sandboxes can be made and stored now. The store is asked at each question; the
 * object store is asked beside the scans, because it may take long to fail. Until it has answered
 * once the result is unknown.
 */

#define GOOD_MS 60000	/* time from a good answer to the next question */
#define BAD_MS 5000

static void note_storage_answer(struct service *s, const struct err *why)
{
	int was;

	pthread_mutex_lock(&s->lock);
	was = s->storage_state;
	s->storage_state = why ? STORAGE_FAILS : STORAGE_ANSWERS;
	s->storage_looked_ms = clock_ms();
	if (why)
		s->storage_error = *why;
	pthread_mutex_unlock(&s->lock);
	if (why && was != STORAGE_FAILS)
		dlog_error("storage", why);
	else if (!why && was == STORAGE_FAILS)
		dlog_note(DLOG_NOTICE, "the storage takes objects again");
}

static void probe_storage(struct service *s, const char *name)
{
	struct err e;
	int r = storage_probe(s->storage, name, &e);

	/* an end of berthd cuts it short, which says nothing of the storage */
	if (r == 0 || !storage_use_stopped_ms())
		note_storage_answer(s, r < 0 ? &e : NULL);
}

void ready_look(struct service *s)
{
	uint64_t now = clock_ms();
	int due;

	pthread_mutex_lock(&s->lock);
	due = s->storage_state == STORAGE_UNKNOWN || now - s->storage_looked_ms >= (s->storage_state == STORAGE_FAILS ? BAD_MS : GOOD_MS);
	pthread_mutex_unlock(&s->lock);
	if (s->storage && due)
		chore_begin(s, probe_storage, s->host, "");
}

int service_ready(struct service *s, struct err *e)
{
	int r = 0;

	if (ledger_ping(s->ledger, e) < 0)
		return err_wrap(e, "the store does not answer");
	if (!s->storage)
		return 0;
	pthread_mutex_lock(&s->lock);
	if (s->storage_state == STORAGE_UNKNOWN)
		r = err_set(e, ERR_BUSY, "the storage has not answered yet");
	else if (s->storage_state == STORAGE_FAILS)
		*e = s->storage_error;
	if (s->storage_state == STORAGE_FAILS)
		r = -1;
	pthread_mutex_unlock(&s->lock);
	return r < 0 && e->code != ERR_BUSY ? err_wrap(e, "the storage cannot be used") : r;
}

/* ---- start and end ---- */

#define STACK_BYTES (1u << 20)

static int open_ledger(struct service *s, struct err *e)
{
	char password[256];
	struct ledger_options o = {
		.url = s->conf.store_url, .user = s->conf.store_user, .password = password, .prefix = s->conf.store_prefix,
		.retry_ms = s->conf.store_retry_ms, .sync_full = !strcmp(s->conf.store_sync, "full"),
	};
	int r;

	if (service_read_secret(s->conf.store_password_file, password, sizeof(password), e) < 0)
		return -1;
	r = ledger_open(&s->ledger, &o, e);
	explicit_bzero(password, sizeof(password));
	return r;
}

void service_failed(struct service *s, const char *what, const char *name, const struct err *why)
{
	s->failed++;
	dlog_json(DLOG_ERROR, json_pack("{s:s,s:s,s:s,s:s,s:o}", "event", "error", "what", what, "sandbox", name, "code", err_name(why->code),
					"message", dlog_text(why->msg)));
}

/* ---- what an earlier one left ---- */

struct found {
	struct service *s;
	json_t *names;
};

static int find_ours(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct found *f = ctx;
	struct err ignored;
	struct record r = { .j = json_parse(value, strlen(value), RECORD_MAX, key, &ignored), .version = version };

	if (r.j && record_is_ours(f->s, &r) && !record_is_over(&r) && !record_is(&r, STATE_RECYCLED))
		json_array_append_new(f->names, json_string(key + strlen(RECORD_PREFIX)));
	record_close(&r);
	return 0;
}

int service_undo(struct service *s, struct record *r, struct err *e)
{
	int tries;

	for (tries = 0; tries < 2000 && service_is_making(r->name); tries++)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	if (driver_remove_name(s, r->name, e) < 0)
		return -1;
	if (json_is_true(json_object_get(json_object_get(r->j, "berth"), "own_workspace")) && workspace_remove(s, r, e) < 0)
		return -1;
	return record_delete(s, r, e);
}

static int take_over_one(struct service *s, const char *name, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	autojson json_t *state = NULL;
	int was_running;

	if (record_load(s, NULL, name, 0, &r, e) < 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	if (record_is(&r, STATE_CREATING))
		return service_undo(s, &r, e);
	if (record_run(&r) == RUN_ARCHIVED)
		return 0;
	if (place_take_over(s, name, record_str(&r, "container_id"), record_own_u64(&r, "memory_bytes"), record_own_u64(&r, "cpu_milli"), e) < 0)
		return -1;
	state = driver_ping(s, &r, e);
	if (state) {
		s->adopted++;
		return 0;
	}
	if (e->code != ERR_NOT_FOUND)
		return -1;
	/* a warm sandbox that does not run is useless; one that berth rm has removed is over */
	if (record_is(&r, STATE_WARM) || !driver_exists(s, record_str(&r, "container_id")))
		return service_release_record(s, &r, 0, e);
	place_stopped(s, name);
	was_running = record_run(&r) == RUN_RUNS;
	if (!was_running && !strcmp(record_own(&r, "machine"), s->machine))
		return 0;
	if (was_running) {
		record_set_run(&r, RUN_STOPPED);
		record_set_own(&r, "stopped_ms", json_integer((json_int_t)clock_wall_ms()));
	}
	/* as of this boot: another berthd may drive it */
	record_set_home(s, &r);
	return record_save(s, &r, NULL, 0, e);
}

static int take_over_records(struct service *s, struct err *e)
{
	struct found f = { s, json_array() };
	struct registry reg;
	struct err ignored;
	unsigned cleared;
	json_t *name;
	size_t i;
	int r;

	/* keepers that died: first of all, so that what follows sees the living only */
	if (registry_open(&reg, &s->config, e) < 0)
		return -1;
	registry_gc(&reg, &cleared, &ignored);
	volume_gc(&reg, &cleared, &ignored);
	registry_close(&reg);
	r = sessions_move(s, e) < 0 || ledger_scan(s->ledger, RECORD_PREFIX, find_ours, &f, e) < 0 ? -1 : 0;
	json_array_foreach(f.names, i, name) {
		if (r == 0 && take_over_one(s, json_string_value(name), e) < 0) {
			/*
			 * a sandbox that cannot be taken over now is looked at again by the scans;
			 * the others must not wait for it
			 */
			service_failed(s, "take over", json_string_value(name), e);
			/* an uncounted sandbox would let others exceed the limits */
			r = e->code == ERR_NOMEM ? -1 : 0;
		}
	}
	json_decref(f.names);
	return r;
}

/* ---- threads ---- */

static int start_service_threads(struct service *s, struct err *e)
{
	pthread_attr_t a;
	int r;

	pthread_attr_init(&a);
	pthread_attr_setstacksize(&a, STACK_BYTES);
	r = pthread_create(&s->scanner, &a, scan_loop, s);
	if (r == 0) {
		s->threads = 1;
		r = pthread_create(&s->filler, &a, pool_filler, s);
		s->threads += r == 0;
	}
	pthread_attr_destroy(&a);
	return r ? err_errno(e, r, "start a thread") : owners_start(s, e);
}

static void stop_threads(struct service *s)
{
	/*
	 * an upload may take hours: the parts that it has not removed from the host are there at
	 * the next start
	 */
	storage_use_stop(0);
	owners_stop(s);
	pthread_mutex_lock(&s->lock);
	s->stopping = 1;
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->lock);
	if (s->threads > 0)
		pthread_join(s->scanner, NULL);
	if (s->threads > 1)
		pthread_join(s->filler, NULL);
	s->threads = 0;
	chores_wait(s);
	storage_use_resume();
}

/* ---- birth ---- */

static struct admission_limits limits_of(const struct config *c)
{
	return (struct admission_limits){ c->max_sandboxes, c->admit_memory_bytes, c->admit_cpu_milli, c->queue_length,
					  c->queue_timeout_ms };
}

static void release_service(struct service *s)
{
	ledger_close(s->ledger);
	storage_close(s->storage);
	tools_free(s->tools);
	owners_free(s->owners);
	oplocks_free(s->ops);
	registry_close(&s->registry);
	admission_release(&s->admission);
	sessions_free(s);
	places_free(s);
	home_free(s);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->wake);
	pthread_rwlock_destroy(&s->conf_lock);
	free(s);
}

static int set_service_up(struct service *s, struct err *e)
{
	struct admission_limits l;
	char dir[sizeof(s->config.state_dir) + 16];
	autoclose int fd = -1;

	if (conf_load(&s->conf, &s->config, e) < 0)
		return -1;
	memcpy(s->host, s->conf.host, sizeof(s->host));
	l = limits_of(&s->config);
	admission_set_limits(&s->admission, &l);
	snprintf(dir, sizeof(dir), "%s/manager", s->config.state_dir);
	if (registry_open(&s->registry, &s->config, e) < 0 || (fd = path_open_private_dir(dir, e)) < 0 || home_open(s, fd, e) < 0 ||
	    open_ledger(s, e) < 0 ||
	    (s->conf.storage_url[0] && storage_open(&s->storage, &s->conf, e) < 0) || !(s->ops = oplocks_new(e)) ||
	    !(s->tools = tools_new(e)) || !(s->owners = owners_new(e)) || take_over_records(s, e) < 0)
		return -1;
	return start_service_threads(s, e);
}

int service_new(struct service **ret, const struct config *c, const char *berth_path, struct err *e)
{
	struct service *s = calloc(1, sizeof(*s));
	struct admission_limits none = { 0 };
	pthread_condattr_t a;

	if (!s)
		return err_nomem(e);
	s->config = *c;
	s->cleanup_interval_ms = c->cleanup_interval_ms;
	s->started_ms = clock_wall_ms();
	s->home_fd = -1;
	s->registry = (struct registry)REGISTRY_INIT;
	snprintf(s->berth_path, sizeof(s->berth_path), "%s", berth_path);
	pthread_rwlock_init(&s->conf_lock, NULL);
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&a);
	pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &a);
	pthread_condattr_destroy(&a);
	admission_init(&s->admission, &none);
	if (set_service_up(s, e) < 0) {
		stop_threads(s);
		release_service(s);
		return -1;
	}
	*ret = s;
	return 0;
}

/* The settings that berthd holds open, or has written into records. */
static int is_another_place(const struct service *s, const struct config *c, const struct conf *conf)
{
	const struct conf *o = &s->conf;

	return strcmp(conf->store_url, o->store_url) || strcmp(conf->host, s->host) || strcmp(c->state_dir, s->config.state_dir) ||
	       strcmp(c->run_dir, s->config.run_dir) || strcmp(c->ids_dir, s->config.ids_dir) || strcmp(conf->storage_url, o->storage_url) ||
	       strcmp(conf->storage_endpoint, o->storage_endpoint) || strcmp(conf->storage_addressing, o->storage_addressing) ||
	       strcmp(conf->storage_region, o->storage_region) ||
	       strcmp(conf->storage_credentials, o->storage_credentials) || conf->storage_retry_ms != o->storage_retry_ms;
}

int service_reload(struct service *s, const struct config *c, struct err *e)
{
	struct conf *conf = malloc(sizeof(*conf));
	struct admission_limits l;
	int r = conf ? service_load_conf(conf, c, s->berth_path, e) : err_nomem(e);

	if (r == 0 && is_another_place(s, c, conf))
		r = err_set(e, ERR_CONFIG, "store.url, [storage], session.host and [paths] do not change while berthd runs; hint: start it "
			    "again");
	if (r == 0) {
		pthread_rwlock_wrlock(&s->conf_lock);
		s->cleanup_interval_ms = c->cleanup_interval_ms;
		s->conf = *conf;
		pthread_rwlock_unlock(&s->conf_lock);
		l = limits_of(c);
		admission_set_limits(&s->admission, &l);
		pool_poke(s);
	}
	free(conf);
	return r;
}

void service_ending(struct service *s, uint64_t grace_ms)
{
	if (s)
		storage_use_stop(grace_ms);
}

int service_end(struct service *s, struct err *e)
{
	static const struct service_who manager = { .name = "", .admin = 1 };
	int result = 0;

	if (!s)
		return 0;
	admission_close(&s->admission);
	stop_threads(s);
	if (!strcmp(s->conf.on_shutdown, "clean")) {
		storage_use_stop(s->conf.shutdown_timeout_ms);
		result = service_cleanup(s, &manager, 0, e) < 0 ? -1 : 1;
		storage_use_resume();
	}
	release_service(s);
	return result;
}

/* ---- stats ---- */

struct tally {
	struct service *s;
	json_t *states, *pools;
	json_int_t sessions;
};

static void count_member(json_t *obj, const char *key)
{
	json_object_set_new(obj, key, json_integer(json_integer_value(json_object_get(obj, key)) + 1));
}

static int tally_record(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct tally *t = ctx;
	struct err ignored;
	struct record r = { .j = json_parse(value, strlen(value), RECORD_MAX, key, &ignored), .version = version };

	if (r.j) {
		count_member(t->states, record_is(&r, STATE_RUNNING) ? record_own(&r, "status") : record_str(&r, "state"));
		if (record_is(&r, STATE_WARM) && record_is_ours(t->s, &r))
			count_member(t->pools, record_str(&r, "sandbox_type"));
	}
	record_close(&r);
	return 0;
}

static int tally_session(void *ctx, const char *key, const char *value, uint64_t version)
{
	struct tally *t = ctx;

	(void)key;
	(void)value;
	(void)version;
	t->sessions++;
	return 0;
}

static json_t *pool_stats(struct service *s, const json_t *warm)
{
	json_t *out = json_object();
	size_t i;

	pthread_rwlock_rdlock(&s->conf_lock);
	for (i = 0; i < s->conf.pool_count; i++) {
		const struct conf_pool *p = &s->conf.pools[i];

		json_object_set_new(out, p->name,
				    json_pack("{s:s,s:s,s:I,s:I}", "image", p->image, "zygote",
					      p->zygote, "size", (json_int_t)p->size, "warm",
					      json_integer_value(json_object_get(warm, p->name))));
	}
	pthread_rwlock_unlock(&s->conf_lock);
	return out;
}

static int by_size(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The median of the last claims; 0 without any. */
static json_int_t median_claim_us(struct service *s)
{
	uint32_t last[CLAIMS_KEPT];
	size_t n;

	pthread_mutex_lock(&s->lock);
	n = s->claims_noted < CLAIMS_KEPT ? s->claims_noted : CLAIMS_KEPT;
	memcpy(last, s->claim_last_us, sizeof(last));
	pthread_mutex_unlock(&s->lock);
	qsort(last, n, sizeof(*last), by_size);
	return n ? last[n / 2] : 0;
}

json_t *service_stats(struct service *s, struct err *e)
{
	struct tally t = { s, json_object(), json_object(), 0 };
	struct admission *a = &s->admission;
	json_t *j = NULL;

	if (record_scan_all(s, tally_record, &t, e) == 0 && ledger_scan(s->ledger, "sessions/", tally_session, &t, e) == 0) {
		pthread_mutex_lock(&a->lock);
		j = json_pack("{s:s,s:s,s:s,s:O,s:I,s:o,s:{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I},s:I}", "host", s->host, "store",
			      ledger_name(s->ledger), "storage", s->storage ? storage_name(s->storage) : "none", "states", t.states,
			      "sessions", t.sessions, "pools", pool_stats(s, t.pools),
			      "admission", "sandboxes", (json_int_t)a->count, "max_sandboxes", (json_int_t)a->limits.count,
			      "memory_bytes", (json_int_t)a->memory_bytes, "max_memory_bytes", (json_int_t)a->limits.memory_bytes,
			      "cpu_milli", (json_int_t)a->cpu_milli, "max_cpu_milli", (json_int_t)a->limits.cpu_milli,
			      "waiting", (json_int_t)a->waiting, "refused", (json_int_t)a->refused,
			      "operations", (json_int_t)oplock_count(s->ops, NULL));
		pthread_mutex_unlock(&a->lock);
		json_object_set_new(j, "counts", json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "created", (json_int_t)s->created,
			"released", (json_int_t)s->released, "claimed", (json_int_t)s->claimed, "claim_missed", (json_int_t)s->claim_missed,
			"reaped", (json_int_t)s->reaped, "restored", (json_int_t)s->restored, "archived", (json_int_t)s->archived,
			"failed", (json_int_t)s->failed, "adopted", (json_int_t)s->adopted));
		json_object_set_new(j, "claim_median_us", json_integer(median_claim_us(s)));
		pthread_mutex_lock(&s->lock);
		json_object_set_new(j, "pool_error", s->fill_error[0] ? json_string(s->fill_error) : json_null());
		pthread_mutex_unlock(&s->lock);
	}
	json_decref(t.states);
	json_decref(t.pools);
	return j;
}

/* NAME{label="KEY"} VALUE for each member of an object. */
static int print_metric_of_each(struct buf *out, const char *name, const char *type, const char *help, const char *label,
				json_t *values, const char *member, struct err *e)
{
	const char *key;
	json_t *v;

	if (buf_addf(out, e, "# HELP berth_manager_%s %s\n# TYPE berth_manager_%s %s\n", name, help, name, type) < 0)
		return -1;
	json_object_foreach(values, key, v)
		if (buf_addf(out, e, "berth_manager_%s{%s=\"%s\"} %" JSON_INTEGER_FORMAT "\n", name, label, key,
			     json_integer_value(member ? json_object_get(v, member) : v)) < 0)
			return -1;
	return 0;
}

/* What [admission] counts and bounds; of a bound 0 means none. */
static const struct {
	const char *key, *help;
} admission_metrics[] = {
	{ "sandboxes", "Sandboxes that count against [admission]." },
	{ "max_sandboxes", "The bound of their number, 0 without one." },
	{ "memory_bytes", "Memory promised to them." },
	{ "max_memory_bytes", "The bound of that memory, 0 without one." },
	{ "cpu_milli", "CPU promised to them, in thousandths of one." },
	{ "max_cpu_milli", "The bound of that CPU, 0 without one." },
	{ "waiting", "Creates that wait for room." },
	{ "refused", "Creates refused for want of room, since berthd started." },
};

static int print_admission(struct buf *out, const json_t *admission, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(admission_metrics); i++)
		if (buf_addf(out, e, "# HELP berth_manager_admission_%s %s\n# TYPE berth_manager_admission_%s gauge\n"
			     "berth_manager_admission_%s %" JSON_INTEGER_FORMAT "\n", admission_metrics[i].key, admission_metrics[i].help,
			     admission_metrics[i].key, admission_metrics[i].key,
			     json_integer_value(json_object_get(admission, admission_metrics[i].key))) < 0)
			return -1;
	return 0;
}

int service_metrics(struct service *s, struct buf *out, struct err *e)
{
	autojson json_t *j = service_stats(s, e);

	if (!j)
		return -1;
	if (print_metric_of_each(out, "sandboxes", "gauge", "Sandboxes of the manager, by state.", "state", json_object_get(j, "states"), NULL, e) < 0 ||
	    buf_addf(out, e, "# HELP berth_manager_sessions Sessions that own sandboxes.\n# TYPE berth_manager_sessions gauge\n"
		     "berth_manager_sessions %" JSON_INTEGER_FORMAT "\n", json_integer_value(json_object_get(j, "sessions"))) < 0 ||
	    print_metric_of_each(out, "pool_warm", "gauge", "Sandboxes that wait for a client, by pool.", "pool", json_object_get(j, "pools"), "warm", e) < 0 ||
	    print_metric_of_each(out, "events_total", "counter", "What happened to the manager's sandboxes.", "event",
				 json_object_get(j, "counts"), NULL, e) < 0 ||
	    print_admission(out, json_object_get(j, "admission"), e) < 0)
		return -1;
	return histogram_print(&s->claim_took, "claim", "How long claims of warm sandboxes took.", out, e);
}
