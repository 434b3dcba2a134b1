/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/fileop/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/fileop/look.h"
#include "runtime/fileop/stream.h"
#include "runtime/fileop/write.h"

#define CHANGES (IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB)
#define SELF (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT | IN_IGNORED)

/* A watched directory; rel is "" for the requested one. */
struct watched {
	int wd;
	char *rel;
};

struct watch {
	int fd;
	const char *root;
	int recursive, entries;
	struct watched v[WATCH_DIRS_MAX]; /* sorted by wd, which the kernel counts up */
	size_t n;
	uint32_t filled; /* cookie of the file of ours that the last event moved away; 0: none */
	int replaces;    /* the file that is being written replaces another */
	uint32_t moving; /* cookie of the directory that the last event moved away; 0: none */
	char from[PATH_MAX];
};

/* ---- names ------------------------------------------------------------------------------- */

static int join_watched_path(char ret[PATH_MAX], const char *a, const char *b)
{
	const char *slash = a[0] && b[0] && strcmp(a, "/") ? "/" : "";
	int n = snprintf(ret, PATH_MAX, "%s%s%s", a, slash, b);

	return n < PATH_MAX ? 0 : -1;
}

static unsigned depth_of(const char *rel)
{
	unsigned n = rel[0] != '\0';

	for (; *rel; rel++)
		n += *rel == '/';
	return n;
}

static void tell_change(const struct watch *w, char what, const char *rel)
{
	char path[PATH_MAX];
	struct stat st;

	printf("%c %s%c", what, rel, '\0');
	if (!w->entries || what == WATCH_START)
		return;
	if (join_watched_path(path, w->root, rel) == 0 && lstat(path, &st) == 0)
		look_record(AT_FDCWD, path, rel, &st);
	else
		printf("%c%c", '\0', '\0');
}

static int is_temp(const char *name)
{
	return !strncmp(name, WRITE_TEMP, strlen(WRITE_TEMP));
}

/* The kernel calls a file without a name (O_TMPFILE) "#" and its number. */
static int is_nameless(const struct watch *w, const char *rel, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	return name[0] == '#' && name[1] && !name[1 + strspn(name + 1, "0123456789")] &&
	       join_watched_path(path, w->root, rel) == 0 && lstat(path, &st) < 0 && errno == ENOENT;
}

/* ---- the table ----------------------------------------------------------------------------- */

/* The place of wd in the list. */
static size_t watched_index(const struct watch *w, int wd)
{
	size_t from = 0, to = w->n;

	while (from < to) {
		size_t mid = (from + to) / 2;

		if (w->v[mid].wd < wd)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

static struct watched *find_watched(struct watch *w, int wd)
{
	size_t at = watched_index(w, wd);

	return at < w->n && w->v[at].wd == wd ? &w->v[at] : NULL;
}

static void drop_watched(struct watch *w, struct watched *one)
{
	free(one->rel);
	memmove(one, one + 1, (size_t)(&w->v[--w->n] - one) * sizeof(*one));
}

static int note_watched(struct watch *w, int wd, const char *rel, struct err *e)
{
	struct watched *one = find_watched(w, wd);
	char *copy = strdup(rel);
	size_t at;

	if (!copy)
		return err_nomem(e);
	if (one) { /* the same directory under another name: it was renamed */
		free(one->rel);
		one->rel = copy;
		return 0;
	}
	at = watched_index(w, wd);
	memmove(&w->v[at + 1], &w->v[at], (w->n++ - at) * sizeof(*w->v));
	w->v[at] = (struct watched){ wd, copy };
	return 0;
}

/*
 * Returns the part of one's name that follows the name of a directory above it; "" for the
 * directory itself.
 */
static const char *below_of(const struct watched *one, const char *rel)
{
	size_t n = strlen(rel);

	if (strncmp(one->rel, rel, n) != 0 || (one->rel[n] && one->rel[n] != '/'))
		return NULL;
	return one->rel + n;
}

/* A directory went elsewhere, with those in it. */
static void forget_watched_tree(struct watch *w, const char *rel)
{
	size_t i;

	for (i = w->n; i--;)
		if (below_of(&w->v[i], rel)) {
			inotify_rm_watch(w->fd, w->v[i].wd);
			drop_watched(w, &w->v[i]);
		}
}

/* ---- directories ------------------------------------------------------------------------------
 */

static int add_error(const char *rel, const char *path, struct err *e)
{
	if (errno == ENOSPC)
		return err_set(e, ERR_LIMIT,
			       "the host lets this sandbox watch no more directories; hint: "
			       "sysctl fs.inotify.max_user_watches");
	if (!rel[0] && errno == ENOTDIR && access(path, F_OK) == 0)
		return err_set(e, ERR_INVALID, "%.300s is not a directory", path);
	/* a subdirectory that was removed meanwhile, or may not be read, has nothing to report */
	if (rel[0] && (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP))
		return 0;
	return write_path_error(e, "watch", path);
}

static int err_too_deep(const struct watch *w, struct err *e)
{
	return err_set(e, ERR_LIMIT, "%.200s has directories more than %d deep", w->root,
		       WATCH_DEPTH_MAX);
}

/* Adds a watch: 1, or 0 if the directory does not exist, or -1. */
static int add_watched_dir(struct watch *w, const char *rel, struct err *e)
{
	const uint32_t mask =
		CHANGES | IN_ONLYDIR | (rel[0] ? IN_DONT_FOLLOW : IN_DELETE_SELF | IN_MOVE_SELF);
	char path[PATH_MAX];
	int wd;

	if (join_watched_path(path, w->root, rel) < 0)
		return 0;
	if (w->n == WATCH_DIRS_MAX)
		return err_set(e, ERR_LIMIT,
			       "%.200s has more than %d directories; hint: watch one below it",
			       w->root, WATCH_DIRS_MAX);
	if (depth_of(rel) > WATCH_DEPTH_MAX)
		return err_too_deep(w, e);
	wd = inotify_add_watch(w->fd, path, mask);
	if (wd < 0)
		return add_error(rel, path, e);
	return note_watched(w, wd, rel, e) < 0 ? -1 : 1;
}

static int is_watchable_dir(DIR *d, const struct dirent *de)
{
	struct stat st;

	if (de->d_type != DT_UNKNOWN)
		return de->d_type == DT_DIR;
	return fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/*
 * Reports rel and everything below it. In a new directory, entries that were made before its
 * watch are reported now; entries made meanwhile may be reported twice.
 */
static int walk_watched_tree(struct watch *w, const char *rel, int is_new, struct err *e)
{
	char path[PATH_MAX], below[PATH_MAX];
	struct dirent *de;
	int r = add_watched_dir(w, rel, e);
	DIR *d;

	if (r <= 0 || !w->recursive || join_watched_path(path, w->root, rel) < 0)
		return r;
	d = opendir(path);
	while (d && r >= 0 && (de = readdir(d))) {
		if (look_is_dots(de->d_name) || is_temp(de->d_name) ||
		    join_watched_path(below, rel, de->d_name) < 0)
			continue;
		if (is_new)
			tell_change(w, WATCH_CREATE, below);
		if (is_watchable_dir(d, de))
			r = walk_watched_tree(w, below, is_new, e);
	}
	if (d)
		closedir(d);
	return r < 0 ? -1 : 1;
}

/*
 * Renames a directory inside the tree. Its watches stay, because they belong to directories and not
 * to names, and events that the kernel has queued since are found by them.
 */
static int move_watched(struct watch *w, const char *from, const char *to, struct err *e)
{
	size_t i;

	for (i = w->n; i--;) {
		const char *below = below_of(&w->v[i], from);
		char *rel = NULL;

		if (!below)
			continue;
		if (asprintf(&rel, "%s%s", to, below) < 0)
			return err_nomem(e);
		free(w->v[i].rel);
		w->v[i].rel = rel;
		if (depth_of(rel) > WATCH_DEPTH_MAX)
			return err_too_deep(w, e);
	}
	return 0;
}

/* ---- events --------------------------------------------------------------------------------- */

static char change_letter(uint32_t mask)
{
	return mask & (IN_CREATE | IN_MOVED_TO) ? WATCH_CREATE :
	       mask & IN_MOVED_FROM             ? WATCH_RENAME :
	       mask & IN_DELETE                 ? WATCH_REMOVE :
	       mask & IN_MODIFY                 ? WATCH_WRITE :
						  WATCH_CHMOD;
}

/*
 * Handles the events of a file that berth writes under a temporary name and then renames: they are
 * reported as a write to the file. Returns 1 if the event belongs to such a file.
 */
static int take_filled(struct watch *w, const struct inotify_event *ev)
{
	const struct watched *one = find_watched(w, ev->wd);
	const uint32_t cookie = w->filled;
	char rel[PATH_MAX];

	w->filled = 0;
	if (!ev->len || !one)
		return 0;
	if (is_temp(ev->name)) {
		w->filled = ev->mask & IN_MOVED_FROM ? ev->cookie : 0;
		w->replaces = !strncmp(ev->name, WRITE_TEMP_OLD, strlen(WRITE_TEMP_OLD));
		return 1;
	}
	if (!cookie || !(ev->mask & IN_MOVED_TO) || ev->cookie != cookie ||
	    join_watched_path(rel, one->rel, ev->name) < 0)
		return 0;
	/* a new file has got its owner and mode, too: E2B's clients expect these three events */
	if (!w->replaces) {
		tell_change(w, WATCH_CREATE, rel);
		tell_change(w, WATCH_CHMOD, rel);
	}
	tell_change(w, WATCH_WRITE, rel);
	return 1;
}

/* Tells whether the event shows where the directory of the last event was moved: 1, 0, or -1. */
static int take_move(struct watch *w, const struct inotify_event *ev, struct err *e)
{
	const struct watched *one = find_watched(w, ev->wd);
	const uint32_t cookie = w->moving;
	char rel[PATH_MAX];

	w->moving = 0;
	if (!cookie)
		return 0;
	if (ev->mask & IN_MOVED_TO && ev->cookie == cookie && one &&
	    join_watched_path(rel, one->rel, ev->name) == 0) {
		tell_change(w, WATCH_CREATE, rel);
		return move_watched(w, w->from, rel, e) < 0 ? -1 : 1;
	}
	forget_watched_tree(w, w->from);
	return 0;
}

/* Handles an event: 1 to go on, 0 if the directory is gone, -1. */
static int take_watch_event(struct watch *w, const struct inotify_event *ev, struct err *e)
{
	int moved = take_move(w, ev, e);
	struct watched *one = find_watched(w, ev->wd);
	char rel[PATH_MAX];

	if (moved != 0)
		return moved;
	if (take_filled(w, ev))
		return 1;

	if (ev->mask & IN_Q_OVERFLOW)
		return err_set(e, ERR_LIMIT,
			       "changes came faster than they were read; hint: watch "
			       "again, a smaller directory");
	if (!one)
		return 1;
	if (ev->mask & SELF && !one->rel[0]) {
		tell_change(w, WATCH_REMOVE, ".");
		return 0;
	}
	if (ev->mask & IN_IGNORED)
		drop_watched(w, one);
	if (ev->mask & SELF || !ev->len || join_watched_path(rel, one->rel, ev->name) < 0)
		return 1;
	if (ev->mask & (IN_MODIFY | IN_ATTRIB) && is_nameless(w, rel, ev->name))
		return 1;
	if (w->recursive && ev->mask & IN_MOVED_FROM && ev->mask & IN_ISDIR) {
		w->moving = ev->cookie;
		snprintf(w->from, sizeof(w->from), "%s", rel);
	}
	tell_change(w, change_letter(ev->mask), rel);
	if (w->recursive && ev->mask & IN_ISDIR && ev->mask & (IN_CREATE | IN_MOVED_TO))
		return walk_watched_tree(w, rel, !!(ev->mask & IN_CREATE), e) < 0 ? -1 : 1;
	return 1;
}

/* Waits for the next events, with SIGTERM unblocked, and reads them. */
static ssize_t read_watch_events(const struct watch *w, char *buf, size_t max, struct err *e)
{
	struct pollfd p = { .fd = w->fd, .events = POLLIN };
	sigset_t none;

	sigemptyset(&none);
	if (!stream_interrupted && ppoll(&p, 1, NULL, &none) < 0 && errno != EINTR)
		return err_sys(e, "wait for changes");
	if (stream_interrupted)
		return err_set(e, ERR_BUSY, "interrupted");
	return p.revents ? read(w->fd, buf, max) : 0;
}

static int follow_watch(struct watch *w, struct err *e)
{
	_Alignas(struct inotify_event) char buf[65536];
	ssize_t n, at;
	int r = 1;

	while (r > 0) {
		if (fflush(stdout))
			return err_sys(e, "tell of changes");
		n = read_watch_events(w, buf, sizeof(buf), e);
		if (n < 0)
			return -1;
		for (at = 0; r > 0 && at < n;) {
			const struct inotify_event *ev = (const void *)(buf + at);

			at += (ssize_t)(sizeof(*ev) + ev->len);
			r = take_watch_event(w, ev, e);
		}
	}
	return r;
}

int watch_tell(char **a, struct err *e)
{
	static struct watch w;
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	w.root = a[1];
	w.recursive = strchr(a[0], 'r') != NULL;
	w.entries = strchr(a[0], 'e') != NULL;
	w.fd = inotify_init1(IN_CLOEXEC);
	if (w.fd < 0 && errno == EMFILE)
		return err_set(e, ERR_LIMIT,
			       "the host lets this sandbox have no more watches; hint: sysctl "
			       "fs.inotify.max_user_instances");
	if (w.fd < 0)
		return err_sys(e, "watch");
	if (walk_watched_tree(&w, "", 0, e) < 0)
		return -1;
	tell_change(&w, WATCH_START, "");
	return follow_watch(&w, e);
}
