/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S3 of SECURITY.md. */
#include "manager/host/hostids.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "runtime/sandbox/spec.h"

#define PLACES "places"
#define STATE ".state"
#define RUN ".run"
#define KEY 32
#define SUBIDS_MAX_BYTES (1u << 20)
#define OWN_ENTRY "berth"	/* an entry with this name keeps useradd away from our ranges */

/*
 * Ids that systemd assigns by itself (docs/UIDS-GIDS.md of systemd). Those of homed and of
 * DynamicUser= are below 65536, which [ids] base cannot be.
 */
static const struct reserved {
	uint32_t first, last;
	const char *whose;
} reserved[] = {
	{ 524288, 1879048191, "the ids that systemd-nspawn gives to containers" },
	{ 2147352576, 2147418111, "the ids that systemd keeps for images of foreign systems" },
};
#define FOREIGN (&reserved[1])

int hostids_is_foreign(uint32_t slot)
{
	return slot == FOREIGN->first / SPEC_IDS;
}

static uint64_t fnv(uint64_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211);
	return h;
}

void hostids_hash(const char *text, uint64_t ret[2])
{
	ret[0] = text[0] ? fnv(UINT64_C(14695981039346656037), text) : 0;
	ret[1] = text[0] ? fnv(UINT64_C(0x6265727468642121), text) : 0;
}

/* ---- /etc/subuid and /etc/subgid ---- */

/* A line is NAME:FIRST:COUNT; shadow ignores others, and so does this. */
static int add_sub(struct hostids *h, char *line, int is_group, struct err *e)
{
	char *first = strchr(line, ':'), *count = first ? strchr(first + 1, ':') : NULL;
	struct hostids_sub s = { .is_group = is_group };
	struct hostids_sub *grown;
	struct err ignored;
	uint64_t n;

	if (!count)
		return 0;
	*first++ = *count++ = '\0';
	if (!strcmp(line, OWN_ENTRY) || num_u64(first, "id", 0, UINT32_MAX, &s.first, &ignored) < 0 ||
	    num_u64(count, "count", 1, UINT32_MAX, &n, &ignored) < 0)
		return 0;
	if (h->sub_count == HOSTIDS_SUBIDS)
		return err_set(e, ERR_LIMIT, "/etc/subuid and /etc/subgid have more than %d entries", HOSTIDS_SUBIDS);
	s.last = s.first + n - 1;
	snprintf(s.who, sizeof(s.who), "%s", line);
	if (!(h->sub_count & (h->sub_count - 1))) {
		grown = realloc(h->subs, (h->sub_count ? h->sub_count * 2 : 1) * sizeof(*grown));
		if (!grown)
			return err_nomem(e);
		h->subs = grown;
	}
	h->subs[h->sub_count++] = s;
	return 0;
}

static int read_subs(struct hostids *h, const char *path, int is_group, struct err *e)
{
	autobuf struct buf b = BUF_INIT(SUBIDS_MAX_BYTES);
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *line, *next;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open %s", path);
	if (io_read_all(fd, &b, path, e) < 0 || buf_add(&b, "", 1, e) < 0)
		return -1;
	for (line = b.data; line && *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		if (add_sub(h, line, is_group, e) < 0)
			return -1;
	}
	return 0;
}

static int read_all_subs(struct hostids *h, struct err *e)
{
	return read_subs(h, "/etc/subuid", 0, e) < 0 || read_subs(h, "/etc/subgid", 1, e) < 0 ? -1 : 0;
}

static const struct hostids_sub *sub_within(const struct hostids *h, uint64_t first, uint64_t last)
{
	size_t i;

	for (i = 0; i < h->sub_count; i++)
		if (h->subs[i].first <= last && h->subs[i].last >= first)
			return &h->subs[i];
	return NULL;
}

const struct hostids_sub *hostids_sub_of(const struct hostids *h, uint32_t slot)
{
	return sub_within(h, (uint64_t)slot * SPEC_IDS, (uint64_t)slot * SPEC_IDS + SPEC_IDS - 1);
}

int hostids_overlap(const struct config *c, char *ret, size_t n, struct err *e)
{
	const uint64_t first = c->id_base, last = first + (uint64_t)c->id_count * SPEC_IDS - 1;
	struct hostids h = HOSTIDS_INIT;
	const struct hostids_sub *s;
	int result = read_all_subs(&h, e);
	size_t i;

	if (result == 0 && (s = sub_within(&h, first, last))) {
		result = HOSTIDS_SUBIDS_OF;
		snprintf(ret, n, "[ids] %" PRIu64 " to %" PRIu64 " overlaps %" PRIu64 " to %" PRIu64 " of '%.32s' in %s",
			 first, last, s->first, s->last, s->who, s->is_group ? "/etc/subgid" : "/etc/subuid");
	}
	for (i = 0; result == 0 && i < ARRAY_LEN(reserved); i++) {
		if (reserved[i].first > last || reserved[i].last < first)
			continue;
		result = HOSTIDS_SYSTEMS;
		snprintf(ret, n, "[ids] %" PRIu64 " to %" PRIu64 " overlaps %s, %" PRIu32 " to %" PRIu32, first, last,
			 reserved[i].whose, reserved[i].first, reserved[i].last);
	}
	hostids_close(&h);
	return result;
}

/* ---- the other state directories ---- */

void hostids_close(struct hostids *h)
{
	while (h->place_count)
		fd_close(&h->places[--h->place_count].slots_fd);
	free(h->places);
	free(h->subs);
	fd_close(&h->places_fd);
	fd_close(&h->fd);
	*h = (struct hostids)HOSTIDS_INIT;
}

/* Names from the paths of both directories. */
static void hostids_key(const struct config *c, char ret[KEY + 1])
{
	char both[sizeof(c->state_dir) + sizeof(c->run_dir) + 1];
	uint64_t hash[2];

	snprintf(both, sizeof(both), "%s\n%s", c->state_dir, c->run_dir);
	hostids_hash(both, hash);
	snprintf(ret, KEY + 1, "%016" PRIx64 "%016" PRIx64, hash[0], hash[1]);
}

static int link_one(int places, const char *key, const char *kind, const char *target, struct err *e)
{
	char name[KEY + 8];

	snprintf(name, sizeof(name), "%s%s", key, kind);
	return symlinkat(target, places, name) < 0 && errno != EEXIST ? err_sys(e, "link %s in the places of ids_dir", target) : 0;
}

/* The link to the state directory comes last: with it the place counts. */
static int enlist(int places, const char *key, const struct config *c, struct err *e)
{
	char name[KEY + 8];
	struct stat st;

	snprintf(name, sizeof(name), "%s" STATE, key);
	if (fstatat(places, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (link_one(places, key, RUN, c->run_dir, e) < 0 || link_one(places, key, STATE, c->state_dir, e) < 0)
		return -1;
	return fsync(places) < 0 && errno != EINVAL ? err_sys(e, "write the places of ids_dir") : 0;
}

struct looker {
	struct hostids *h;	/* NULL: only remove links of directories that are gone */
	const struct registry *r;
	int places;
	const char *own;
	struct stat state;	/* stat of r's state directory */
	struct err *e;
};

/* Keeps the notes of a place; takes slots_fd. */
static int keep_place(struct looker *l, const char *name, int slots_fd)
{
	struct hostids_place p = { .slots_fd = slots_fd }, *grown;
	ssize_t n = readlinkat(l->places, name, p.path, sizeof(p.path) - 1);
	struct hostids *h = l->h;

	p.path[n < 0 ? 0 : n] = '\0';
	snprintf(p.key, sizeof(p.key), "%.*s", KEY, name);
	grown = h->place_count < HOSTIDS_PLACES ? realloc(h->places, (h->place_count + 1) * sizeof(*grown)) : NULL;
	if (!grown) {
		fd_close(&p.slots_fd);
		return h->place_count < HOSTIDS_PLACES ? err_nomem(l->e) :
			       err_set(l->e, ERR_LIMIT, "more than %d state directories share the ids of this host; hint: remove those "
				       "that are not used any more, such as %.200s", HOSTIDS_PLACES, p.path);
	}
	h->places = grown;
	h->places[h->place_count++] = p;
	return 0;
}

/* A name in places: the notes of another state directory are kept open, one that is gone is forgotten. */
static int look_at_place(void *ctx, const char *name)
{
	char other[KEY + 32];
	struct looker *l = ctx;
	struct stat st;
	int fd;

	if (strlen(name) != KEY + strlen(STATE) || strcmp(name + KEY, STATE) || (l->own && !strncmp(name, l->own, KEY)))
		return 0;
	if (fstatat(l->places, name, &st, 0) < 0) {
		if (errno != ENOENT && errno != ENOTDIR)
			return err_sys(l->e, "look at another state directory, places/%s in ids_dir", name);
		snprintf(other, sizeof(other), "%.*s" RUN, KEY, name);
		unlinkat(l->places, name, 0);
		unlinkat(l->places, other, 0);
		return 0;
	}
	/* the same directory by another path is not another one */
	if (!l->h || (st.st_dev == l->state.st_dev && st.st_ino == l->state.st_ino))
		return 0;
	snprintf(other, sizeof(other), "%s/ids/" HOSTIDS_NOTES, name);
	fd = openat(l->places, other, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	/* without notes it has given out no range */
	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(l->e, "read the id ranges of another state directory, places/%s in ids_dir", name);
	return keep_place(l, name, fd);
}

/* The places are locked meanwhile, so that none is forgotten that was just added. */
static int look_at_all(struct looker *l, struct err *e)
{
	int failed = 0, result;

	while (flock(l->places, LOCK_EX) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock the places of ids_dir");
	if (l->own && enlist(l->places, l->own, l->r->config, e) < 0)
		return -1;
	result = path_each_entry(l->places, look_at_place, l, &failed);
	return failed ? err_sys(e, "read the places of ids_dir") : result;
}

int hostids_open(struct hostids *h, const struct registry *r, struct err *e)
{
	struct looker l = { .h = h, .r = r, .e = e };
	char own[KEY + 1];

	*h = (struct hostids)HOSTIDS_INIT;
	h->fd = path_open_private_dir(r->config->ids_dir, e);
	if (h->fd < 0)
		return err_wrap(e, "[paths] ids_dir");
	h->places_fd = path_make_dir(h->fd, PLACES, e);
	if (h->places_fd < 0 || fstat(r->state_fd, &l.state) < 0)
		return h->places_fd < 0 ? -1 : err_sys(e, "look at the state directory");
	hostids_key(r->config, own);
	l.places = h->places_fd;
	l.own = own;
	if (look_at_all(&l, e) < 0 || read_all_subs(h, e) < 0)
		return -1;
	flock(h->places_fd, LOCK_UN);
	return 0;
}

void hostids_prune(const struct config *c)
{
	autoclose int fd = open(c->ids_dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autoclose int places = fd < 0 ? -1 : openat(fd, PLACES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct looker l = { .places = places };
	struct err ignored;

	if (places >= 0)
		look_at_all(&l, &ignored);
}

/* ---- one slot ---- */

int hostids_lock(const struct hostids *h, uint32_t slot, struct err *e)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1 };
	autoclose int fd = -1;
	char name[24];

	/* each claim opens its file anew: a lock belongs to the open file description, and ends with its last descriptor */
	snprintf(name, sizeof(name), "held-%u", slot % HOSTIDS_LOCK_FILES);
	fd = openat(h->fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "open the lock of id range %u", slot);
	if (fcntl(fd, F_OFD_SETLK, &l) < 0)
		return err_code_sys(e, errno == EAGAIN || errno == EACCES ? ERR_BUSY : ERR_SYS, "lock id range %u", slot);
	return take_fd(&fd);
}

/* Tells whether the place has a directory of that sandbox: 1, 0, or -1 with errno. */
static int place_has_sandbox(const struct hostids *h, const struct hostids_place *p, const char *where, const char *id)
{
	char path[KEY + HOSTIDS_NOTE + 40];

	snprintf(path, sizeof(path), "%s%s/%s", p->key, where, id);
	return path_has(h->places_fd, path) ? 1 : errno == ENOENT ? 0 : -1;
}

const struct hostids_place *hostids_other(const struct hostids *h, uint32_t slot, int running,
					  int *ret_error, struct err *e)
{
	size_t i;

	*ret_error = 0;
	for (i = 0; i < h->place_count; i++) {
		const struct hostids_place *p = &h->places[i];
		char id[HOSTIDS_NOTE + 1] = "";
		int found;

		if (pread(p->slots_fd, id, HOSTIDS_NOTE, (off_t)slot * HOSTIDS_NOTE) < 0) {
			*ret_error = err_sys(e, "read the id ranges of %s", p->path);
			return NULL;
		}
		if (!path_is_name(id))
			continue;
		found = place_has_sandbox(h, p, RUN "/sandboxes", id);
		if (found == 0 && !running)
			found = place_has_sandbox(h, p, STATE "/sandboxes", id);
		/* its files are in an archive, and still belong to these ids (manager/service/workspace.c) */
		if (found == 0 && !running)
			found = place_has_sandbox(h, p, STATE "/manager/archived", id);
		if (found < 0)
			*ret_error = err_sys(e, "look for sandbox %s of %s", id, p->path);
		if (found)
			return found < 0 ? NULL : p;
	}
	return NULL;
}
