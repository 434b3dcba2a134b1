/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S46 of SECURITY.md. */
/*
 * home - decides to which of the berthds that share a store a sandbox belongs.
 *
 * A home is a state directory.  It has a name of its own, made once at random and kept in manager/home: host names,
 * paths and even both together are the same on many hosts, and the boot id changes when a host is started again.
 * A record names the home of its sandbox, the host, and the boot (machine) in which it was last seen to run.
 *
 * ours:      of our home, whatever was started again since.  Scans and the start act on these only, reaping also on those of
 *            another home of this machine whose berthd is dead.
 * here:      ours, or of another home of this machine: its keeper can be reached through the directories in the record.
 * elsewhere: all others.  We know nothing of them but what the record says, so what would act on them is refused.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/service/state.h"

#define HOME_FILE "home"
#define LOCK_TRIES 200
#define LOCK_PAUSE_NS 10000000
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

static int new_home(struct service *s, int dir, struct err *e)
{
	unsigned char raw[16];

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return err_sys(e, "get random bytes");
	hex_format(s->home, raw, sizeof(raw));
	return io_replace_file(dir, HOME_FILE, s->home, strlen(s->home), 0600, 1, e);
}

/*
 * Locks the home, so that it has one berthd, even with several run directories. A second berthd
 * would not find the first one's sandboxes in its own run directory, and would record them as
 * stopped and as its own.
 */
static int lock_home(struct service *s, int dir, struct err *e)
{
	int left;

	s->home_fd = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	if (s->home_fd < 0)
		return err_sys(e, "open %s/manager", s->config.state_dir);
	/* children of a killed berthd hold it until they execute */
	for (left = LOCK_TRIES; flock(s->home_fd, LOCK_EX | LOCK_NB) < 0; left--) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, "lock %s/manager", s->config.state_dir);
		if (!left)
			return err_set(e, ERR_BUSY, "another berthd has the state directory %s; hint: "
				       "each berthd has a [paths] state_dir of its own",
				       s->config.state_dir);
		nanosleep(&(struct timespec){ .tv_nsec = LOCK_PAUSE_NS }, NULL);
	}
	return 0;
}

int home_open(struct service *s, int dir, struct err *e)
{
	autobuf struct buf boot = BUF_INIT(63), home = BUF_INIT(sizeof(s->home));
	autoclose int fd = -1;

	if (lock_home(s, dir, e) < 0 || io_read_file(AT_FDCWD, BOOT_ID, &boot, e) < 0)
		return -1;
	snprintf(s->machine, sizeof(s->machine), "%.36s", boot.data ? boot.data : "");
	fd = openat(dir, HOME_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? new_home(s, dir, e) : err_sys(e, "open %s/manager/" HOME_FILE, s->config.state_dir);
	if (io_read_all(fd, &home, HOME_FILE, e) < 0)
		return -1;
	if (home.len != sizeof(s->home) - 1 || strspn(home.data, "0123456789abcdef") != home.len)
		return err_set(e, ERR_CORRUPT, "%s/manager/" HOME_FILE " does not hold 32 hexadecimal digits", s->config.state_dir);
	memcpy(s->home, home.data, sizeof(s->home) - 1);
	return 0;
}

int record_is_ours(const struct service *s, const struct record *r)
{
	const char *home = record_own(r, "home"), *id = record_str(r, "container_id");

	if (home[0])
		return !strcmp(home, s->home);
	/* written before homes had names: two hosts may have the same paths, but not the same sandbox */
	return !strcmp(record_own(r, "state_dir"), s->config.state_dir) && !strcmp(record_own(r, "host"), s->host) &&
	       (!strcmp(record_own(r, "machine"), s->machine) || (id[0] && driver_exists((struct service *)(size_t)s, id)));
}

int record_is_elsewhere(const struct service *s, const struct record *r)
{
	return record_run(r) != RUN_ARCHIVED && strcmp(record_own(r, "machine"), s->machine) && !record_is_ours(s, r);
}

int home_check(const struct service *s, const struct record *r, struct err *e)
{
	if (!record_is_elsewhere(s, r))
		return 0;
	return err_set(e, ERR_ELSEWHERE, "sandbox %s is on host %.64s, and this is host %.64s; hint: send the request to the berthd of host %.64s",
		       r->name, record_own(r, "host"), s->host, record_own(r, "host"));
}

void record_set_home(const struct service *s, struct record *r)
{
	record_set_own(r, "home", json_string(s->home));
	record_set_own(r, "machine", json_string(s->machine));
	record_set_own(r, "host", json_string(s->host));
	record_set_own(r, "state_dir", json_string(s->config.state_dir));
	record_set_own(r, "run_dir", json_string(s->config.run_dir));
}

/* ---- what a berthd that died left behind on this machine ---- */

/*
 * A berthd that has gone. No other process saw it, and no client could renew a lease with it since
 * we noticed.
 */
struct absent {
	struct absent *next;
	uint64_t since_ms;	/* wall clock */
	char run_dir[];
};

/* Each berthd holds the lock of its run directory for as long as it lives. */
static int is_berthd_there(const char *run_dir)
{
	autoclose int dir = open(run_dir, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;

	fd = dir < 0 ? -1 : openat(dir, SERVICE_LOCK, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno != ENOENT;	/* a process that cannot be looked at may be alive */
	return flock(fd, LOCK_SH | LOCK_NB) < 0;
}

/* Returns since when it is absent; 0: it is there. */
static uint64_t absent_since(struct service *s, const char *run_dir)
{
	struct absent **at, *a;
	uint64_t now = clock_wall_ms(), since = 0;
	int there = is_berthd_there(run_dir);

	pthread_mutex_lock(&s->lock);
	for (at = &s->absent; *at && strcmp((*at)->run_dir, run_dir); at = &(*at)->next)
		;
	a = *at;
	if (there && a) {
		*at = a->next;
		free(a);
	} else if (!there && !a && (a = calloc(1, sizeof(*a) + strlen(run_dir) + 1))) {
		strcpy(a->run_dir, run_dir);
		a->since_ms = now;
		a->next = s->absent;
		s->absent = a;
	}
	if (!there && a)
		since = a->since_ms;
	pthread_mutex_unlock(&s->lock);
	return since;
}

int home_minds(struct service *s, const struct record *r, uint64_t timeout_ms)
{
	const char *run_dir = record_own(r, "run_dir");
	uint64_t since;

	if (record_is_ours(s, r))
		return 1;
	if (strcmp(record_own(r, "machine"), s->machine) || run_dir[0] != '/')
		return 0;
	since = absent_since(s, run_dir);
	return since && clock_wall_ms() - since >= timeout_ms;
}

/* Text of a file of the process, or nothing. */
static void read_process_file(const char *pid, const char *file, struct buf *b)
{
	char path[64];
	struct err ignored;

	snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, file);
	if (io_read_file(AT_FDCWD, path, b, &ignored) < 0)
		b->len = 0;
}

/* The keeper, which lives on, is called berth-keeper.  A sandbox's may call itself anything. */
static int is_berth(const char *pid)
{
	autobuf struct buf comm = BUF_INIT(64);
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%.20s", pid);
	if (pid[0] < '1' || pid[0] > '9' || stat(path, &st) < 0 || st.st_uid != geteuid())
		return 0;
	read_process_file(pid, "comm", &comm);
	return comm.len && !strcmp(comm.data, "berth\n");
}

int service_is_making(const char *name)
{
	DIR *d = opendir("/proc");
	struct dirent *de;
	int found = 0;

	while (d && !found && (de = readdir(d))) {
		autobuf struct buf b = BUF_INIT(65536);

		if (!is_berth(de->d_name))
			continue;
		read_process_file(de->d_name, "cmdline", &b);
		found = b.len && memmem(b.data, b.len, name, strlen(name));
	}
	if (d)
		closedir(d);
	return found;
}

static pid_t parent_of(const char *pid)
{
	autobuf struct buf b = BUF_INIT(1024);
	const char *end;
	int parent = 0;

	read_process_file(pid, "stat", &b);
	end = b.len ? strrchr(b.data, ')') : NULL;
	return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? (pid_t)parent : 0;
}

int service_is_earlier_making(void)
{
	DIR *d = opendir("/proc");
	const struct dirent *de;
	int found = 0;

	while (d && !found && (de = readdir(d))) {
		autobuf struct buf b = BUF_INIT(65536);

		if (!is_berth(de->d_name))
			continue;
		read_process_file(de->d_name, "cmdline", &b);
		/* the words "berth op"; its parent is a berthd, or was one that has ended */
		found = b.len > 9 && !memcmp(b.data, "berth\0op", 9) && parent_of(de->d_name) != getpid();
	}
	if (d)
		closedir(d);
	return found;
}

void home_free(struct service *s)
{
	struct absent *a;

	while ((a = s->absent)) {
		s->absent = a->next;
		free(a);
	}
	fd_close(&s->home_fd);
}

/* The workspace of one that was reaped, or restored, is still of use. */
static int has_workspace(const struct record *r)
{
	autoclose int there = -1;
	struct err ignored;

	if (record_is(r, STATE_RELEASED) && json_is_true(json_object_get(json_object_get(r->j, "berth"), "own_workspace")))
		there = workspace_open(r, &ignored);
	return there >= 0;
}

int home_clear_over(struct service *s, const struct record *r, struct err *e)
{
	const char *id = record_str(r, "container_id");
	int is_there, has;

	if ((!record_is_over(r) && !record_is(r, STATE_RECYCLED)) || !id[0] || !record_is_ours(s, r))
		return 0;
	is_there = driver_exists(s, id);
	has = has_workspace(r);
	if (!is_there && !has)
		return 0;
	tools_forget(s, r->name);
	if ((is_there && driver_remove(s, r, e) < 0) || (has && workspace_remove(s, r, e) < 0))
		return -1;
	place_drop(s, r->name);
	return 1;
}
