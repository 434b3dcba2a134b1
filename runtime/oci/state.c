/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/userns.h"
#include "runtime/oci/json.h"

const char *oci_id_fault(const char *id)
{
	if (strchr(id, '/'))
		return "is not a name: invalid character `/` in the container ID";
	if (!*id)
		return "is empty";
	if (strlen(id) > 255)
		return "is longer than 255 bytes";
	/* "." and ".." are no names of a container; the kernel keeps names of keyrings with a dot for itself */
	if (id[0] == '.')
		return "is invalid: it begins with '.'";
	if (strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-.") != strlen(id))
		return "is invalid: it holds other bytes than letters, digits, '_', '+', '-' and '.'";
	return NULL;
}

static const char *oci_root_default(void)
{
	static char dir[512];
	const char *run = userns_is_host_root() ? NULL : getenv("XDG_RUNTIME_DIR");

	if (!run || *run != '/')
		return "/run/berth-oci";
	snprintf(dir, sizeof(dir), "%.400s/berth-oci", run);
	return dir;
}

int oci_root_open(const char *dir, int make, struct err *e)
{
	char path[4096];
	char *slash;
	int fd;

	if (!dir)
		dir = oci_root_default();
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	if (errno == ENOENT && !make)
		return err_set(e, ERR_NOT_FOUND,
			       "state directory %s does not exist: no container was made there",
			       dir);
	if (errno != ENOENT)
		return err_sys(e, "open state directory %s", dir);
	if ((size_t)snprintf(path, sizeof(path), "%s", dir) >= sizeof(path))
		return err_set(e, ERR_INVALID, "--root is too long");
	for (slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(path, 0711) < 0 && errno != EEXIST)
			return err_sys(e, "make directory %s", path);
		*slash = '/';
	}
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make state directory %s", path);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "open state directory %s", dir) : fd;
}

static void prepare_oci_state(struct oci_state *st, const char *id)
{
	memset(st, 0, sizeof(*st));
	snprintf(st->id, sizeof(st->id), "%s", id);
	st->dir_fd = -1;
}

static int check_id(const char *id, struct err *e)
{
	const char *fault = oci_id_fault(id);

	return fault ? err_set(e, ERR_INVALID, "container id '%.64s' %s", id, fault) : 0;
}

/* Waits for the lock of a directory. */
static int lock_state_dir(int fd, int how, const char *id, struct err *e)
{
	while (flock(fd, how) < 0)
		if (errno != EINTR)
			return err_sys(e, "lock container '%s'", id);
	return 0;
}

int oci_state_new(struct oci_state *st, int root_fd, const char *id, struct err *e)
{
	int r;

	prepare_oci_state(st, id);
	if (check_id(id, e) < 0 || lock_state_dir(root_fd, LOCK_SH, id, e) < 0)
		return -1;
	if (mkdirat(root_fd, id, 0711) < 0) {
		r = errno;
		flock(root_fd, LOCK_UN);
		return r == EEXIST ? err_set(e, ERR_EXISTS, "container with id '%s' already exists", id) :
				     err_errno(e, r, "make the state directory of container '%s'", id);
	}
	st->dir_fd = openat(root_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	r = st->dir_fd < 0 ? err_sys(e, "open the state directory of container '%s'", id) : lock_state_dir(st->dir_fd, LOCK_EX, id, e);
	flock(root_fd, LOCK_UN);
	if (r == 0 && !(st->doc = json_object()))
		r = err_nomem(e);
	if (r == 0)
		return 0;
	unlinkat(root_fd, id, AT_REMOVEDIR);
	oci_state_release(st);
	return -1;
}

int oci_state_save(const struct oci_state *st, struct err *e)
{
	autofree char *text = json_dumps(st->doc, JSON_COMPACT);

	if (!text)
		return err_nomem(e);
	return io_replace_file(st->dir_fd, "state.json", text, strlen(text), 0600, 0, e);
}

static int read_doc(struct oci_state *st, struct err *e)
{
	json_decref(st->doc);
	st->doc = oci_json_load(st->dir_fd, "state.json", e);
	if (!st->doc && e->code == ERR_NOT_FOUND)
		st->doc = json_object();
	if (!st->doc || !json_is_object(st->doc))
		return err_wrap(e, "state of container '%s'", st->id);
	st->pid = (pid_t)json_integer_value(json_object_get(st->doc, "pid"));
	st->start_time = (uint64_t)json_integer_value(json_object_get(st->doc, "startTime"));
	return 0;
}

/*
 * Tells whether another process holds the lock. Our own shared lock is held for a moment and blocks
 * nobody.
 */
static int is_state_dir_locked(int dir_fd)
{
	if (flock(dir_fd, LOCK_SH | LOCK_NB) < 0)
		return errno == EWOULDBLOCK;
	flock(dir_fd, LOCK_UN);
	return 0;
}

#define RECORD_MS 2000	/* time from the lock to a first state.json, on a very slow machine */

/* Reads it, and if no process is recorded, whether it is being made: then once it is recorded, as its bundle is asked for. */
static int read_unlocked(struct oci_state *st, struct err *e)
{
	const uint64_t end = clock_ms() + RECORD_MS;

	for (;;) {
		if (read_doc(st, e) < 0)
			return -1;
		if (st->pid)
			return 0;
		/* the lock first, then the file: it may have been made between the two looks */
		st->making = is_state_dir_locked(st->dir_fd);
		if (read_doc(st, e) < 0)
			return -1;
		if (st->pid)
			st->making = 0;
		if (!st->making || json_object_get(st->doc, "id") || clock_ms() >= end)
			return 0;
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
}

/* Checks that the directory still belongs to the id: it may have been deleted while we waited. */
static int check_container_dir(const struct oci_state *st, int root_fd, struct err *e)
{
	struct stat own, now;

	if (fstat(st->dir_fd, &own) == 0 && fstatat(root_fd, st->id, &now, AT_SYMLINK_NOFOLLOW) == 0 && own.st_ino == now.st_ino)
		return 0;
	return err_set(e, ERR_NOT_FOUND, "container '%s' does not exist", st->id);
}

enum lock_mode { UNLOCKED, LOCKED, LOCKED_IF_MADE };

static int read_in_mode(struct oci_state *st, int root_fd, enum lock_mode mode, struct err *e)
{
	if (mode == LOCKED_IF_MADE && flock(st->dir_fd, LOCK_EX | LOCK_NB) < 0) {
		if (read_unlocked(st, e) < 0)
			return -1;
		if (oci_state_status(st) == OCI_CREATING)
			return err_set(e, ERR_BUSY, "cannot delete container '%s' that is not stopped: creating", st->id);
		st->making = 0;
	}
	if (mode == UNLOCKED)
		return read_unlocked(st, e) < 0 || (!st->pid && check_container_dir(st, root_fd, e) < 0) ? -1 : 0;
	return lock_state_dir(st->dir_fd, LOCK_EX, st->id, e) < 0 || read_doc(st, e) < 0 ? -1 : check_container_dir(st, root_fd, e);
}

static int load_oci_state(struct oci_state *st, int root_fd, const char *id, enum lock_mode mode, struct err *e)
{
	json_t *cgroup;

	prepare_oci_state(st, id);
	if (check_id(id, e) < 0)
		return -1;
	st->dir_fd = openat(root_fd, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (st->dir_fd < 0)
		return errno == ENOENT || errno == ENOTDIR ?
		       err_set(e, ERR_NOT_FOUND, "container '%s' does not exist", id) :
		       err_sys(e, "open the state directory of container '%s'", id);
	/*
	 * a process that has just made the directory holds its lock before it releases the
	 * root's
	 */
	if (!path_has(st->dir_fd, "state.json")) {
		if (lock_state_dir(root_fd, LOCK_EX, id, e) < 0)
			goto fail;
		flock(root_fd, LOCK_UN);
	}
	if (read_in_mode(st, root_fd, mode, e) < 0)
		goto fail;
	cgroup = json_object_get(st->doc, "cgroup");
	if (cgroup && oci_cgroup_from_json(&st->cgroup, cgroup, e) < 0)
		goto fail;
	return 0;
fail:
	oci_state_release(st);
	return -1;
}

int oci_state_load(struct oci_state *st, int root_fd, const char *id, struct err *e)
{
	return load_oci_state(st, root_fd, id, UNLOCKED, e);
}

int oci_state_load_locked(struct oci_state *st, int root_fd, const char *id, struct err *e)
{
	return load_oci_state(st, root_fd, id, LOCKED, e);
}

int oci_state_load_made(struct oci_state *st, int root_fd, const char *id, struct err *e)
{
	return load_oci_state(st, root_fd, id, LOCKED_IF_MADE, e);
}

void oci_state_release(struct oci_state *st)
{
	json_decref(st->doc);
	st->doc = NULL;
	oci_cgroup_release(&st->cgroup);
	oci_state_unlock(st);
	fd_close(&st->dir_fd);
}

int oci_state_remove(struct oci_state *st, int root_fd, struct err *e)
{
	static const char *const names[] = { "state.json", "config.json", OCI_SOCKET, OCI_MAKING_SOCKET };
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++)
		unlinkat(st->dir_fd, names[i], 0);
	if (unlinkat(root_fd, st->id, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	return path_remove_tree(root_fd, st->id, e);
}

void oci_state_unlock(const struct oci_state *st)
{
	/* explicitly: the container's process has inherited the descriptor */
	if (st->dir_fd >= 0)
		flock(st->dir_fd, LOCK_UN);
}

#define STAT_SIZE 1024

/*
 * Gives field number (3 or more, proc(5)) of /proc/PID/stat, in text; NULL if there is no such
 * process.
 */
static const char *stat_field(pid_t pid, int number, char text[STAT_SIZE])
{
	char path[32], *p;
	autoclose int fd = -1;
	ssize_t n;
	int i;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || (n = read(fd, text, STAT_SIZE - 1)) <= 0)
		return NULL;
	text[n] = '\0';
	/* the name may hold anything but its last parenthesis */
	p = strrchr(text, ')');
	if (!p || !p[1])
		return NULL;
	for (i = 3, p += 2; *p && i < number; p++)
		i += *p == ' ';
	return p;
}

uint64_t oci_start_time(pid_t pid, char *ret_letter)
{
	char text[STAT_SIZE];
	const char *p = stat_field(pid, 22, text);

	if (!p)
		return 0;
	if (ret_letter)
		*ret_letter = strrchr(text, ')')[2];
	return strtoull(p, NULL, 10);
}

int oci_never_executed(pid_t pid)
{
	/* PF_FORKNOEXEC, the 1 of ps(1)'s F: taken away at execve, before it closes descriptors, and kept by a zombie */
	const unsigned long forked_only = 0x40;
	char text[STAT_SIZE];
	const char *p = stat_field(pid, 9, text);

	return p && strtoul(p, NULL, 10) & forked_only;
}

enum oci_status oci_state_status(const struct oci_state *st)
{
	struct oci_cgroup *c = (struct oci_cgroup *)&st->cgroup;
	struct err ignored;
	uint64_t t;
	char letter;

	if (!st->pid)
		return st->making ? OCI_CREATING : OCI_STOPPED;
	t = oci_start_time(st->pid, &letter);
	if (!t || t != st->start_time || letter == 'Z' || letter == 'X')
		return OCI_STOPPED;
	if (oci_cgroup_open(c, &ignored) == 0 && oci_cgroup_frozen(c))
		return OCI_PAUSED;
	if (!oci_never_executed(st->pid))
		return OCI_RUNNING;
	return path_has(st->dir_fd, OCI_SOCKET) ? OCI_CREATED : OCI_CREATING;
}

const char *oci_status_name(enum oci_status s)
{
	static const char *const names[] = { "creating", "created", "running", "paused", "stopped" };

	return names[s];
}

json_t *oci_state_json(const struct oci_state *st, enum oci_status status)
{
	json_t *j = json_pack("{s:s, s:s}", "ociVersion", OCI_SPEC_VERSION, "id", st->id);
	json_t *annotations = oci_get(st->doc, "annotations");
	const char *bundle = oci_str(st->doc, "bundle");

	if (status != OCI_STOPPED && status != OCI_CREATING)
		json_object_set_new(j, "pid", json_integer(st->pid));
	json_object_set_new(j, "status", json_string(oci_status_name(status)));
	json_object_set_new(j, "bundle", json_string(bundle ? bundle : ""));
	if (annotations)
		json_object_set(j, "annotations", annotations);
	return j;
}

int oci_pid_file_write(const char *path, pid_t pid, struct err *e)
{
	char dir[PATH_MAX], text[16], *slash;
	autoclose int fd = -1;

	snprintf(dir, sizeof(dir), "%s", path);
	slash = strrchr(dir, '/');
	if (!slash)
		return err_set(e, ERR_INTERNAL, "pid file %s is not absolute", path);
	*slash++ = '\0';
	fd = open(dir[0] ? dir : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open the directory of pid file %s", path);
	snprintf(text, sizeof(text), "%d", (int)pid);
	return io_replace_file(fd, slash, text, strlen(text), 0644, 0, e);
}
