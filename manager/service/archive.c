/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives: a whole sandbox in the storage, which any berthd that shares store and
 * storage brings back.
 *
 * An archive of NAME is two folders, archives/NAME/sandbox (the writable layer as a
 * file, the image's record and what a start needs) and archives/NAME/workspace.  The
 * record says "archived" only when both are there whole, and only then the host's
 * files go.  What stays is state_dir/manager/archived/ID with the name in it: the range of
 * ids the files belong to must not go to another while they are away.
 *
 * A restore makes everything below archived/ID.part and moves it to its place whole.
 * On another host it also gets a range of ids of that host, the path of its workspace
 * there, and the image must be there or be fetched.  Of two that restore at once, the
 * one whose record is written first has it; archives_look() clears what the other made.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/host/forget.h"
#include "manager/host/names.h"
#include "manager/host/ranges.h"
#include "manager/host/registry.h"
#include "manager/objects/storage.h"
#include "manager/ops/call.h"
#include "manager/service/state.h"
#include "rootfs/store/image.h"
#include "runtime/kernel/quota.h"
#include "runtime/sandbox/layerhome.h"
#include "runtime/sandbox/writable.h"

#define ARCHIVED "manager/archived"
#define NAME_FILE "name"	/* file below ARCHIVED/ID */
#define SPEC_MAX (1u << 20)

static void archive_path(const struct record *r, const char *part, char out[200])
{
	snprintf(out, 200, "archives/%s/%s", r->name, part);
}

static int owns_workspace(const struct record *r)
{
	return json_is_true(json_object_get(json_object_get(r->j, "berth"), "own_workspace")) && record_str(r, "mount_dir")[0];
}

static int has_archive(const struct record *r)
{
	return json_is_true(json_object_get(json_object_get(r->j, "berth"), "archive"));
}

static int drop_stored(struct service *s, const struct record *r, struct err *e)
{
	char path[200];

	if (!s->storage)
		return err_set(e, ERR_UNSUPPORTED, "sandbox %s is archived, and there is no storage now", r->name);
	archive_path(r, "sandbox", path);
	if (storage_delete_folder(s->storage, path, e) < 0)
		return -1;
	archive_path(r, "workspace", path);
	return storage_delete_folder(s->storage, path, e);
}

#define SANDBOX_SHA256 "archive_sandbox_sha256"
#define WORKSPACE_SHA256 "archive_workspace_sha256"

/* Upholds S55 of SECURITY.md: the storage is not trusted, the record in the ledger is. */
static int put_known(struct service *s, struct record *r, const char *part, const char *member, int dir, struct err *e)
{
	struct storage_stats st = { 0 };
	char path[200];

	archive_path(r, part, path);
	if (storage_put_folder(s->storage, path, dir, NULL, &st, e) < 0)
		return -1;
	record_set_own(r, member, json_string(st.sha256));
	return 0;
}

/* Reads the known archive: 1; 0 if there is none. */
static int get_known(struct service *s, const struct record *r, const char *part, const char *member, int dir, struct err *e)
{
	const char *sha256 = record_own(r, member);
	struct storage_stats st = { 0 };
	char path[200];
	int any;

	pthread_rwlock_rdlock(&s->conf_lock);
	any = s->conf.storage_accept_unsigned;
	pthread_rwlock_unlock(&s->conf_lock);
	archive_path(r, part, path);
	if (!sha256[0] && !any)
		return err_set(e, ERR_CORRUPT, "the ledger has no digest of %.200s, which an older berth stored; hint: if nobody else could "
			       "write the storage, set [storage] accept_unsigned = true in "
			       "berth.toml until it has started",
			       path);
	return storage_get_folder(s->storage, path, sha256[0] ? sha256 : NULL, dir, 1, &st, e);
}

static int store_sandbox_archive(struct service *s, struct registry *reg, struct record *r, struct err *e)
{
	const char *id = record_str(r, "container_id");
	autoclose int dir = openat(reg->kept_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), work = -1;

	if (dir < 0)
		return err_sys(e, "open the files of sandbox %s", r->name);
	if (owns_workspace(r)) {
		work = workspace_open(r, e);
		/* checked before the layer is sent, whose gigabytes would be sent for nothing */
		if (work < 0 || storage_check_folder(work, e) < 0)
			return work < 0 ? -1 : err_wrap(e, "archive the workspace of sandbox %s", r->name);
	}
	if (record_str(r, "storage_path")[0] && workspace_upload(s, r, e) < 0)
		return -1;
	/* a folder in the storage has no devices and attributes, which overlayfs marks with; a file holds all */
	if (layerhome_bring_back(dir, e) < 0 || writable_to_file(dir, e) < 0 ||
	    put_known(s, r, "sandbox", SANDBOX_SHA256, dir, e) < 0)
		return -1;
	return work < 0 ? 0 : put_known(s, r, "workspace", WORKSPACE_SHA256, work, e);
}

static int open_archived(struct registry *reg, struct err *e)
{
	int fd;

	if (mkdirat(reg->state_fd, ARCHIVED, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make directory " ARCHIVED);
	fd = openat(reg->state_fd, ARCHIVED, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open directory " ARCHIVED) : fd;
}

/*
 * Reserves its ids before anything is removed: they stay taken, and archives_look() finds the
 * remains of a crash by the reservation.
 */
static int reserve_archived_ids(struct registry *reg, const struct record *r, struct err *e)
{
	const char *id = record_str(r, "container_id");
	autoclose int dir = open_archived(reg, e), own = -1;

	if (dir < 0)
		return -1;
	if (mkdirat(dir, id, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "reserve the ids of sandbox %s", r->name);
	own = openat(dir, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (own < 0 || fsync(dir) < 0)
		return err_sys(e, "reserve the ids of sandbox %s", r->name);
	return io_replace_file(own, NAME_FILE, r->name, strlen(r->name), 0600, 1, e);
}

static int unreserve(struct registry *reg, const char *id, struct err *e)
{
	autoclose int dir = open_archived(reg, e);
	char part[80];

	/* together with the remains of a restore that crashed and was not repeated */
	snprintf(part, sizeof(part), "%.64s.part", id);
	return dir < 0 || path_remove_tree(dir, part, e) < 0 ? -1 : path_remove_tree(dir, id, e);
}

static int drop_from_host(struct service *s, struct registry *reg, const struct record *r, struct err *e)
{
	if (registry_forget(reg, record_str(r, "container_id"), e) < 0)
		return err_wrap(e, "remove the files of sandbox %s", r->name);
	return owns_workspace(r) ? workspace_remove(s, r, e) : 0;
}

int archive_make(struct service *s, struct record *r, struct err *e)
{
	struct registry reg;
	struct claim c;
	struct err ignored;
	int result = registry_open(&reg, &s->config, e);

	if (result < 0)
		return -1;
	/* keeps other processes from starting or removing it meanwhile */
	if (forget_claim(&reg, record_str(r, "container_id"), &c, e) < 0) {
		registry_close(&reg);
		return -1;
	}
	result = store_sandbox_archive(s, &reg, r, e);
	/* refused until the error is mended: no earlier look at the pieces that were sent is needed */
	if (result < 0 && (e->code == ERR_LIMIT || e->code == ERR_INVALID) && !has_archive(r))
		drop_stored(s, r, &ignored);
	if (result == 0)
		result = reserve_archived_ids(&reg, r, e);
	if (result == 0) {
		record_set_run(r, RUN_ARCHIVED);
		record_set_own(r, "archive", json_true());
		record_clear_failed(r);
		record_set_own(r, "archived_ms", json_integer((json_int_t)clock_wall_ms()));
		record_touch(r);
		result = record_save(s, r, NULL, 0, e);
	}
	if (result == 0)
		result = drop_from_host(s, &reg, r, e);
	registry_release(&reg, &c, &ignored);
	if (result == 0)
		place_drop(s, r->name);
	registry_close(&reg);
	return result;
}

/* ---- and back ---- */

/* Returns 1 if all layers of the sandbox's image are in the store; 0 if not; -1. */
static int has_layers(struct service *s, const struct image *im, struct err *e)
{
	char path[sizeof(s->config.state_dir) + 8];
	autoclose int store = -1;
	size_t i;

	snprintf(path, sizeof(path), "%s/store", s->config.state_dir);
	store = store_open(path, e);
	if (store < 0)
		return -1;
	for (i = 0; i < im->layer_count; i++) {
		autoclose int fd = image_layer_open(store, im, i, e);

		if (fd < 0)
			return 0;
	}
	return 1;
}

/* Gets the very same image, by its digest: the name may stand for another by now. */
static int need_image(struct service *s, const struct record *r, int dir, const char *ref, struct err *e)
{
	autobuf struct buf out = BUF_INIT(65536);
	autofree char *exact = NULL;
	struct image im = { 0 };
	struct conf_pool pool;
	struct err why = { 0 };
	int got;

	if (!path_has(dir, IMAGE_PIN))
		return 0;	/* "host", or a directory, which the start looks for */
	if (image_load_pin(dir, &im, e) < 0)
		return -1;
	got = has_layers(s, &im, e);
	if (got == 0 && asprintf(&exact, strchr(ref, '@') ? "%s" : "%s@%s", ref, im.digest) < 0) {
		exact = NULL;
		got = err_nomem(e);
	}
	if (got == 0 && conf_pool_copy(s, record_str(r, "sandbox_type"), &pool, NULL, &why) == 0 && strcmp(chosen_pull(r, &pool), "never")) {
		json_t *call = call_of("pull", exact, NULL);

		call_flag(call, "quiet");
		if (driver_berth(s, call, &out, &why) == 0)
			got = has_layers(s, &im, e);
	}
	if (got == 0)
		err_set(e, ERR_NOT_FOUND, "image %.120s, which sandbox %s was made from, is missing on this host%s%.120s; hint: berth pull it, "
			"or berth image save on host %.64s and berth image load here", exact, r->name, why.msg[0] ? ": " : "", why.msg,
			record_own(r, "host"));
	image_release(&im);
	return got > 0 ? 0 : -1;
}

/* Mounts of the workspace, which has another path here. */
static int move_spec(json_t *spec, const char *from, const char *to, struct err *e)
{
	json_t *options = json_object_get(spec, "options"), *pair;
	size_t i, n = strlen(from);

	json_array_foreach(options, i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0)), *value = json_string_value(json_array_get(pair, 1));
		autofree char *text = NULL;

		if (!name || !value || strcmp(name, "volume") || !n || strncmp(value, from, n) || value[n] != ':')
			continue;
		if (asprintf(&text, "%s%s", to, value + n) < 0) {
			text = NULL;
			return err_nomem(e);
		}
		json_array_set_new(pair, 1, json_string(text));
	}
	return 0;
}

/* Turns the files of another host into ours; dir is not in its place yet. */
static int make_ours(struct service *s, struct registry *reg, struct record *r, int dir, struct err *e)
{
	autobuf struct buf b = BUF_INIT(SPEC_MAX);
	autojson json_t *spec = NULL;
	autofree char *text = NULL;
	const char *ref = "";
	uint32_t from, to;
	char path[512];

	if (io_read_file(dir, "spec.json", &b, e) < 0)
		return -1;
	spec = json_parse(b.data ? b.data : "", b.len, SPEC_MAX, "spec.json", e);
	if (!spec || json_check_version(spec, REGISTRY_FORMAT, "spec.json of the archive", e) < 0 ||
	    json_get_str(spec, "image", &ref, "spec.json", e) < 0 || need_image(s, r, dir, ref, e) < 0)
		return -1;
	if (ranges_move(reg, record_str(r, "container_id"), dir, &from, &to, e) < 0 || writable_shift(dir, from, to, e) < 0)
		return -1;
	if (owns_workspace(r)) {
		workspace_path(s, record_str(r, "session_id"), path);
		if (move_spec(spec, record_str(r, "mount_dir"), path, e) < 0)
			return -1;
		json_object_set_new(r->j, "mount_dir", json_string(path));
	}
	text = json_dumps(spec, JSON_COMPACT);
	return text ? io_replace_file(dir, "spec.json", text, strlen(text), 0600, 1, e) : err_nomem(e);
}

static int fetch_sandbox_archive(struct service *s, struct registry *reg, struct record *r, struct err *e)
{
	const char *id = record_str(r, "container_id");
	autoclose int dir = open_archived(reg, e), part = -1;
	char temp[80];
	struct err ignored;
	struct promise promise;
	int got;

	if (dir < 0 || tenancy_of_record(s, r, &promise, e) < 0)
		return -1;
	snprintf(temp, sizeof(temp), "%s.part", id);
	if (mkdirat(dir, temp, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make directory %s", temp);
	part = openat(dir, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (part < 0)
		return err_sys(e, "open directory %s", temp);
	got = get_known(s, r, "sandbox", SANDBOX_SHA256, part, e);
	if (got < 0 && e->code == ERR_CORRUPT)
		path_remove_tree(dir, temp, &ignored);
	if (got < 1)
		return got < 0 ? -1 : err_set(e, ERR_NOT_FOUND, "the archive of sandbox %s is not in the storage", r->name);
	if (!record_is_ours(s, r) && make_ours(s, reg, r, part, e) < 0)
		return -1;
	if (fsync(part) < 0)
		return err_sys(e, "bring back the files of sandbox %s", r->name);
	return registry_bring_back(reg, dir, temp, id, &promise, e) < 0 ? -1 : registry_rename(reg, id, r->name, e);
}

static int get_workspace(struct service *s, const struct record *r, struct err *e)
{
	autoclose int dir = -1, work = -1;
	const char *name;
	uint32_t had;
	int got;

	if (!owns_workspace(r))
		return 0;
	dir = workspace_open_above(r, &name, e);
	if (dir < 0)
		return -1;
	if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "make the workspace %s", name);
	work = workspace_open(r, e);
	if (work < 0 || workspace_bound(s, r, e) < 0)
		return -1;
	/* independent of the umask; the archive has the mode, unless an older berthd made it */
	if (fchmod(work, 0755) < 0)
		return err_sys(e, "make the workspace %s", name);
	if (quota_obey(&had, e) < 0)
		return -1;
	got = get_known(s, r, "workspace", WORKSPACE_SHA256, work, e);
	quota_obey_end(had);
	return got == 0 ? err_set(e, ERR_NOT_FOUND, "the archived workspace of sandbox %s is not in the storage", r->name) : got < 0 ? -1 : 0;
}

static int bring_back(struct service *s, struct registry *reg, struct record *r, struct err *e)
{
	const char *id = record_str(r, "container_id");
	int ours = record_is_ours(s, r);

	if (reserve_archived_ids(reg, r, e) < 0)
		return -1;
	/* a crash of ours may have left it whole; one from another host would be outdated */
	if (!ours && registry_forget(reg, id, e) < 0)
		return -1;
	if (!path_has(reg->kept_fd, id) && fetch_sandbox_archive(s, reg, r, e) < 0)
		return -1;
	if (get_workspace(s, r, e) < 0)
		return -1;
	record_set_run(r, RUN_STOPPED);
	record_set_home(s, r);
	/* refused when another has it by now */
	return record_save(s, r, NULL, 0, e) < 0 ? -1 : unreserve(reg, id, e);
}

int archive_restore(struct service *s, struct record *r, struct err *e)
{
	uint64_t memory = record_own_u64(r, "memory_bytes"), cpu = record_own_u64(r, "cpu_milli");
	static const struct admission_asker patient = { .gone = NULL };
	struct registry reg;
	struct config c;
	int result;

	if (!s->storage)
		return err_set(e, ERR_UNSUPPORTED, "sandbox %s is archived, and there is no storage now", r->name);
	if (!place_has(s, r->name) && place_enter(s, r->name, memory, cpu, &patient, e) < 0)
		return -1;
	result = tenancy_open(s, &c, &reg, e);
	if (result == 0) {
		result = bring_back(s, &reg, r, e);
		tenancy_close(&reg);
	}
	if (result < 0)
		place_drop(s, r->name);
	else
		place_made(s, r->name, record_str(r, "container_id"));
	return result;
}

static int drop_reservation(struct service *s, const struct record *r, struct err *e)
{
	struct registry reg;
	int result = registry_open(&reg, &s->config, e);

	if (result < 0)
		return -1;
	result = unreserve(&reg, record_str(r, "container_id"), e);
	registry_close(&reg);
	return result;
}

int archive_drop(struct service *s, struct record *r, int anyway, struct err *e)
{
	/* a crash may have come between the reservation and the record of the archive */
	if (!has_archive(r))
		return record_str(r, "container_id")[0] && record_is_ours(s, r) ? drop_reservation(s, r, e) : 0;
	if (drop_stored(s, r, e) < 0 && !anyway)
		return -1;
	return drop_reservation(s, r, e);
}

/* ---- looking over ---- */

/* Looks at a reservation: the present state of its record decides. */
static int look_at_reservation(struct service *s, struct registry *reg, int dir, const char *id, const char *name, struct err *e)
{
	autorecord struct record r = { .j = NULL };
	char part[80], path[512];
	int known = record_load(s, NULL, name, 0, &r, e) == 0;

	if (!known && e->code != ERR_NOT_FOUND)
		return -1;
	if (known && record_is_ours(s, &r) && !record_is_over(&r))
		/* a restore that was cut short after its record was written */
		return record_run(&r) != RUN_ARCHIVED ? unreserve(reg, id, e) : 0;
	/* another host has it, or none */
	snprintf(part, sizeof(part), "%.64s.part", id);
	if (path_remove_tree(dir, part, e) < 0)
		return -1;
	if (known) {
		workspace_path(s, record_str(&r, "session_id"), path);
		/* hosts may share the directory of workspaces, and then it is at work there */
		if (registry_forget(reg, id, e) < 0)
			return -1;
		if (owns_workspace(&r) && strcmp(path, record_str(&r, "mount_dir"))) {
			json_object_set_new(r.j, "mount_dir", json_string(path));
			if (workspace_remove(s, &r, e) < 0)
				return -1;
		}
	}
	return unreserve(reg, id, e);
}

void archives_look(struct service *s)
{
	struct registry reg;
	struct dirent *de;
	struct err e;
	DIR *d = NULL;
	int fd;

	if (registry_open(&reg, &s->config, &e) < 0)
		return;
	fd = openat(reg.state_fd, ARCHIVED, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		d = fdopendir(fd);
	while (d && (de = readdir(d))) {
		autobuf struct buf name = BUF_INIT(65);
		char path[300];

		snprintf(path, sizeof(path), "%.200s/" NAME_FILE, de->d_name);
		if (!path_is_name(de->d_name) || io_read_file(dirfd(d), path, &name, &e) < 0 || !name.data || !path_is_name(name.data))
			continue;
		/* a process that archives or restores it right now has it locked */
		if (oplock_try_alone(s->ops, name.data, &e) < 0)
			continue;
		look_at_reservation(s, &reg, dirfd(d), de->d_name, name.data, &e);
		oplock_alone_end(s->ops, name.data);
	}
	if (d)
		closedir(d);
	else
		fd_close(&fd);
	registry_close(&reg);
}
