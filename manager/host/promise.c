/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S41 of SECURITY.md. */
#include "manager/host/promise.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/host/ranges.h"
#include "runtime/sandbox/layerhome.h"
#include "runtime/sandbox/writable.h"

#define UNLIMITED UINT64_MAX

/* The largest possible use of an "unlimited" sandbox. */
static uint64_t of_memory(uint64_t bytes)
{
	struct sysinfo i;

	return bytes != UNLIMITED ? bytes : sysinfo(&i) == 0 ? (uint64_t)i.totalram * i.mem_unit : 1ULL << 40;
}

static uint64_t of_cpus(uint64_t milli)
{
	long n = milli == UNLIMITED ? sysconf(_SC_NPROCESSORS_ONLN) : 0;

	return milli != UNLIMITED ? milli : n > 0 ? (uint64_t)n * 1000 : 1000;
}

static void add_sum(uint64_t *sum, uint64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum))
		*sum = UINT64_MAX;
}

static void add_promise(struct promise_sum *s, uint64_t memory, uint64_t cpu, uint64_t disk)
{
	s->count++;
	add_sum(&s->disk_bytes, disk);
	if (__builtin_add_overflow(s->memory_bytes, of_memory(memory), &s->memory_bytes))
		s->memory_bytes = UINT64_MAX;
	if (__builtin_add_overflow(s->cpu_milli, of_cpus(cpu), &s->cpu_milli))
		s->cpu_milli = UINT64_MAX;
}

/* The ids of all directories, living and lasting, each once and in order. */
struct ids {
	char (*v)[sizeof(((struct range_note *)0)->id)];
	size_t count, room;
	struct err *e;
};

static int add_id(void *ctx, const char *name)
{
	struct ids *l = ctx;

	if (strlen(name) >= sizeof(l->v[0]))
		return 0;	/* not a sandbox of ours */
	if (l->count == l->room) {
		size_t room = l->room ? l->room * 2 : 64;
		void *v = realloc(l->v, room * sizeof(l->v[0]));

		if (!v)
			return err_nomem(l->e);
		l->v = v;
		l->room = room;
	}
	snprintf(l->v[l->count++], sizeof(l->v[0]), "%s", name);
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int list_ids(struct registry *r, struct ids *ret, struct err *e)
{
	size_t i, n = 0;

	*ret = (struct ids){ .e = e };
	if (registry_each(r->sandboxes_fd, add_id, ret, e) < 0 || registry_each(r->kept_fd, add_id, ret, e) < 0)
		return -1;
	if (ret->count)
		qsort(ret->v, ret->count, sizeof(ret->v[0]), by_text);
	for (i = 0; i < ret->count; i++)
		if (!n || strcmp(ret->v[n - 1], ret->v[i]))
			memmove(ret->v[n++], ret->v[i], sizeof(ret->v[0]));
	ret->count = n;
	return 0;
}

struct sums {
	struct promise_sum all, tenants;
	uint64_t tenant[2];	/* whose */
	const char *except, *tenant_name;
	int with_open;		/* open_bytes is wanted: a look at each layer */
	int (*skip)(void *ctx, const char *id);
	void *ctx;
};

/*
 * What the layer of a sandbox may still take. A layer of `berth run` has no name (O_TMPFILE), so its
 * whole promise counts.
 */
static uint64_t open_bytes_of(const struct registry *r, const char *id, uint64_t disk)
{
	uint64_t used = 0;
	struct statfs fs;
	struct stat st;
	char path[96];

	snprintf(path, sizeof(path), "%s/" WRITABLE_FILE, id);
	if (fstatat(r->kept_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		used = (uint64_t)st.st_blocks * 512;
	} else {
		/* a directory of a project of its own: its statfs(2) is that of the quota */
		autoclose int dir = -1;

		snprintf(path, sizeof(path), "%s/" WRITABLE_DIR, id);
		dir = openat(r->kept_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (dir >= 0 && fstatfs(dir, &fs) == 0 && fs.f_blocks >= fs.f_bfree)
			used = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	}
	return used < disk ? disk - used : 0;
}

static void add_open(const struct registry *r, struct sums *s, const char *id, uint64_t disk, int is_inner)
{
	if (s->with_open && disk)
		add_sum(&s->all.open_bytes, is_inner ? disk : open_bytes_of(r, id, disk));
}

/* A sandbox that an older berth made. */
static void add_unknown(struct registry *r, struct sums *s, const char *id)
{
	autojson json_t *owner = NULL;
	const char *name;
	struct err ignored;

	add_promise(&s->all, r->config->memory_bytes, r->config->cpu_milli, r->config->disk_bytes);
	add_open(r, s, id, r->config->disk_bytes, 0);
	if (!s->tenant_name || !s->tenant_name[0])
		return;
	owner = registry_load(r, id, REGISTRY_OWNER, &ignored);
	name = json_string_value(json_object_get(owner, "name"));
	if (name && !strcmp(name, s->tenant_name))
		add_promise(&s->tenants, r->config->memory_bytes, r->config->cpu_milli, r->config->disk_bytes);
}

static void add_notes(struct registry *r, struct sums *s, const struct range_note *notes, size_t count, const struct ids *ids, char *known)
{
	size_t i;

	for (i = 0; i < count; i++) {
		const struct range_note *n = &notes[i];
		const char *at = n->id[0] && !n->id[sizeof(n->id) - 1] && ids->count ?
				 bsearch(n->id, ids->v, ids->count, sizeof(ids->v[0]), by_text) : NULL;
		size_t k = at ? (size_t)(at - ids->v[0]) / sizeof(ids->v[0]) : 0;
		const int inner = ranges_kind(n) == RANGES_INNER;
		const uint64_t disk = ranges_disk(n, inner ? 0 : r->config->disk_bytes);

		if (!at || (!inner && (known[k] || ranges_kind(n) != RANGES_PROMISED)))
			continue;
		known[k] |= !inner;
		add_promise(&s->all, n->memory_bytes, ranges_cpu(n), disk);
		add_open(r, s, n->id, disk, inner);
		if ((s->tenant[0] || s->tenant[1]) && n->tenant[0] == s->tenant[0] && n->tenant[1] == s->tenant[1])
			add_promise(&s->tenants, n->memory_bytes, ranges_cpu(n), disk);
	}
	for (i = 0; i < ids->count; i++)
		if (!known[i])
			add_unknown(r, s, ids->v[i]);
}

/* The registry is locked. */
static int sum_up(struct registry *r, struct sums *s, struct err *e)
{
	struct range_note *notes = NULL;
	autofree char *known = NULL;
	struct ids ids = { .v = NULL };
	size_t count = 0, i, n = 0;
	int result = list_ids(r, &ids, e);

	for (i = 0; result == 0 && i < ids.count; i++)
		if ((!s->except || strcmp(ids.v[i], s->except)) && (!s->skip || !s->skip(s->ctx, ids.v[i])))
			memmove(ids.v[n++], ids.v[i], sizeof(ids.v[0]));
	ids.count = n;
	known = calloc(1, ids.count + 1);
	if (result == 0 && !known)
		result = err_nomem(e);
	if (result == 0)
		result = ranges_read(r, &notes, &count, e);
	if (result == 0)
		add_notes(r, s, notes, count, &ids, known);
	free(notes);
	free(ids.v);
	return result;
}

static int exceeds(uint64_t sum, uint64_t more, uint64_t max)
{
	return max && (more > max || sum > max - more);
}

/* Multiplies the limit of one sandbox. */
static uint64_t limit_times(uint64_t one, unsigned count)
{
	uint64_t all;

	return __builtin_mul_overflow(one, (uint64_t)count, &all) ? UINT64_MAX : all;
}

static int check_tenant_sums(const struct promise *p, uint64_t disk_bytes, unsigned count, const struct promise_sum *s,
			     struct err *e)
{
	uint64_t memory = limit_times(of_memory(p->memory_bytes), count);
	uint64_t cpu = limit_times(of_cpus(p->cpu_milli), count), disk = limit_times(disk_bytes, count);

	if (exceeds(s->count, count, p->max_sandboxes))
		return err_set(e, ERR_LIMIT, "tenant %s has %" PRIu64 " sandboxes, and may have %" PRIu64 "; hint: remove some, or [tenant] "
			       "sandboxes in berth.toml", p->tenant, s->count, p->max_sandboxes);
	if (exceeds(s->memory_bytes, memory, p->max_memory_bytes))
		return err_set(e, ERR_LIMIT, "the sandboxes of tenant %s may take %" PRIu64 " of %" PRIu64 " bytes of memory, %" PRIu64
			       " more do not fit; hint: remove some, or [tenant] memory_total in berth.toml", p->tenant, s->memory_bytes,
			       p->max_memory_bytes, memory);
	if (exceeds(s->cpu_milli, cpu, p->max_cpu_milli))
		return err_set(e, ERR_LIMIT, "the sandboxes of tenant %s may take %g of %g CPUs, %g more do not fit; hint: remove some, or "
			       "[tenant] cpu_total in berth.toml", p->tenant, (double)s->cpu_milli / 1000,
			       (double)p->max_cpu_milli / 1000, (double)cpu / 1000);
	if (disk && exceeds(s->disk_bytes, disk, p->max_disk_bytes))
		return err_set(e, ERR_LIMIT, "the sandboxes of tenant %s may write %" PRIu64 " of %" PRIu64 " bytes of disk, %" PRIu64
			       " more do not fit; hint: remove some, ask for less, or [tenant] disk_total in berth.toml", p->tenant,
			       s->disk_bytes, p->max_disk_bytes, disk);
	return 0;
}

/* ---- disk ---- */

static uint64_t promised_disk(const struct registry *r, const struct promise *p)
{
	return p->disk_bytes == PROMISE_SAME ? r->config->disk_bytes : p->disk_bytes;
}

struct noted_disk {
	uint64_t preset, sum;
};

static void add_noted_disk(void *ctx, const struct range_note *n)
{
	struct noted_disk *d = ctx;

	if (n->id[0])
		add_sum(&d->sum, ranges_disk(n, d->preset));
}

/*
 * Layers are sparse files, so the file system must have what they may still take: less than it has
 * free, times the operator's factor. Those in the pool have the pool's own bound.
 */
static int has_room_on_disk(struct registry *r, const struct promise *p, unsigned count, const char *except, struct err *e)
{
	const uint64_t more = limit_times(promised_disk(r, p), count), factor = r->config->disk_overcommit_milli;
	struct sums s = { .except = except, .with_open = 1 };
	/* the promises of all notes, those of sandboxes that have gone too */
	struct noted_disk noted = { .preset = r->config->disk_bytes };
	uint64_t free_bytes, room;
	struct statfs fs;

	if (!factor || !more || path_has(r->state_fd, LAYERHOME_POOL "/" LAYERHOME_IMAGE))
		return 0;
	if (fstatfs(r->state_fd, &fs) < 0)
		return err_sys(e, "measure the file system of %s", r->config->state_dir);
	free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
	room = free_bytes / 1000 > UINT64_MAX / factor ? UINT64_MAX : free_bytes / 1000 * factor;
	if (ranges_each(r, add_noted_disk, &noted, e) < 0)
		return -1;
	if (more <= room && noted.sum <= room - more)
		return 0;
	if (sum_up(r, &s, e) < 0)
		return -1;
	if (more <= room && s.all.open_bytes <= room - more)
		return 0;
	if (p->tenant[0])
		return err_set(e, ERR_LIMIT, "this host has no room for %" PRIu64 " bytes of disk more; hint: ask for less, or again later; the "
			       "operator's key is [admission] disk_overcommit in berth.toml", more);
	/* what would not fit an idle host is a mistake, and not a host that is full */
	return err_set(e, more > room ? ERR_INVALID : ERR_LIMIT, "the file system of state_dir has %" PRIu64 " bytes free, and sandboxes "
		       "may still write %" PRIu64 "; %" PRIu64 " more do not fit %g times what is free; hint: berth rm or berth prune, "
		       "a smaller --disk, or [admission] disk_overcommit in berth.toml", free_bytes, s.all.open_bytes, more,
		       (double)factor / 1000);
}

static int has_room_for_promise(struct registry *r, const struct promise *p, unsigned count, const char *except,
		struct err *e)
{
	const struct config *c = r->config;
	struct sums s = { .except = except, .tenant_name = p->tenant };
	uint64_t memory, cpu;

	if (has_room_on_disk(r, p, count, except, e) < 0)
		return -1;
	if (!c->admit_memory_bytes && !c->admit_cpu_milli && !p->tenant[0])
		return 0;
	ranges_tenant(p->tenant, s.tenant);
	if (sum_up(r, &s, e) < 0)
		return -1;
	memory = limit_times(of_memory(p->memory_bytes), count);
	cpu = limit_times(of_cpus(p->cpu_milli), count);
	/* tenants must not learn what others have */
	if (p->tenant[0] && (exceeds(s.all.memory_bytes, memory, c->admit_memory_bytes) || exceeds(s.all.cpu_milli, cpu, c->admit_cpu_milli)))
		return err_set(e, ERR_LIMIT, "this host has no room for %" PRIu64 " bytes of memory and %g CPUs more; hint: ask for less, or again "
			       "later; the operator's key is [admission] in berth.toml", memory, (double)cpu / 1000);
	if (exceeds(s.all.memory_bytes, memory, c->admit_memory_bytes))
		return err_set(e, ERR_LIMIT, "%" PRIu64 " of %" PRIu64 " bytes of memory are promised, %" PRIu64 " more do not fit; hint: "
			       "remove sandboxes, or [admission] memory in berth.toml", s.all.memory_bytes, c->admit_memory_bytes, memory);
	if (exceeds(s.all.cpu_milli, cpu, c->admit_cpu_milli))
		return err_set(e, ERR_LIMIT, "%g of %g CPUs are promised, %g more do not fit; hint: remove sandboxes, or [admission] cpus "
			       "in berth.toml", (double)s.all.cpu_milli / 1000, (double)c->admit_cpu_milli / 1000, (double)cpu / 1000);
	return p->tenant[0] ? check_tenant_sums(p, promised_disk(r, p), count, &s.tenants, e) : 0;
}

int promise_fits(struct registry *r, const struct promise *p, const char *except, struct err *e)
{
	return has_room_for_promise(r, p, 1, except, e);
}

int promise_fits_all(struct registry *r, const struct promise *p, unsigned count, struct err *e)
{
	int result;

	if (registry_lock(r, e) < 0)
		return -1;
	result = has_room_for_promise(r, p, count, NULL, e);
	registry_unlock(r);
	return result;
}

/* The tenant of a sandbox that an older berth made, from its file. */
static void load_promise_tenant(struct registry *r, const char *id, struct promise *p)
{
	struct err ignored;
	autojson json_t *owner = registry_load(r, id, REGISTRY_OWNER, &ignored);
	const char *name = json_string_value(json_object_get(owner, "name"));

	snprintf(p->tenant, sizeof(p->tenant), "%s", name ? name : "");
}

static int is_more(const struct promise *p, const struct range_note *old)
{
	uint64_t tenant[2];

	ranges_tenant(p->tenant, tenant);
	return of_memory(p->memory_bytes) > of_memory(old->memory_bytes) || of_cpus(p->cpu_milli) > of_cpus(ranges_cpu(old)) ||
	       (p->tenant[0] && (tenant[0] != old->tenant[0] || tenant[1] != old->tenant[1]));
}

/* The promise of a note, or the default if it records none. */
static struct range_note recorded_promise(const struct registry *r, const struct range_note *note)
{
	struct range_note old = *note;

	if (ranges_kind(&old) != RANGES_PROMISED) {
		old.memory_bytes = r->config->memory_bytes;
		old.cpu_disk = r->config->cpu_milli;
		old.version = 0;
	}
	return old;
}

static int change_promise(struct registry *r, const char *id, const struct range_place *at, struct promise *p, int force,
			  struct promise *ret_old, struct err *e)
{
	const struct range_note old = recorded_promise(r, &at->note);

	if (p->memory_bytes == PROMISE_SAME)
		p->memory_bytes = old.memory_bytes;
	if (p->cpu_milli == PROMISE_SAME)
		p->cpu_milli = ranges_cpu(&old);
	if (p->disk_bytes == PROMISE_SAME && old.version & RANGES_DISK)
		p->disk_bytes = ranges_disk(&old, 0);
	if (!force && is_more(p, &old) && promise_fits(r, p, id, e) < 0)
		return -1;
	if (ret_old)
		*ret_old = (struct promise){ .memory_bytes = old.memory_bytes, .cpu_milli = ranges_cpu(&old), .disk_bytes = PROMISE_SAME };
	if (!p->tenant[0] && ranges_kind(&old) != RANGES_PROMISED)
		load_promise_tenant(r, id, p);
	return ranges_promise(at, p, e);
}

int promise_change(struct registry *r, const char *id, const struct promise *p, int force, struct promise *ret_old, struct err *e)
{
	struct promise copy = *p;
	struct range_place at;
	int result;

	if (registry_lock(r, e) < 0)
		return -1;
	result = ranges_find(r, id, &at, e);
	if (result == 0) {
		result = change_promise(r, id, &at, &copy, force, ret_old, e);
		close(at.notes_fd);
	}
	registry_unlock(r);
	return result;
}

struct running {
	int (*skip)(void *ctx, const char *id);
	void *ctx;
	uint64_t count;
};

static int count_running(void *ctx, const char *id)
{
	struct running *n = ctx;

	n->count += !n->skip || !n->skip(n->ctx, id);
	return 0;
}

int promise_sum(struct registry *r, int (*skip)(void *ctx, const char *id), void *ctx, struct promise_sum *ret, struct err *e)
{
	struct sums s = { .skip = skip, .ctx = ctx };
	struct running running = { skip, ctx, 0 };
	int result;

	if (registry_lock(r, e) < 0)
		return -1;
	result = sum_up(r, &s, e);
	if (result == 0)
		result = registry_each(r->sandboxes_fd, count_running, &running, e) < 0 ? -1 : 0;
	registry_unlock(r);
	*ret = s.all;
	ret->running = running.count;
	return result;
}
