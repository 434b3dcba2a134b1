/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth-systemd: asks systemd for the scope of a container (runtime/oci/systemd.h), is its first
 * process, and stays until its caller hangs up. It is a separate program, so that only callers
 * that need it load libsystemd. By org.freedesktop.systemd1(5).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-bus.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/program.h"
#include "runtime/oci/systemd.h"

#define MOUNT "/sys/fs/cgroup"
#define DEST "org.freedesktop.systemd1"
#define MANAGER DEST, "/org/freedesktop/systemd1", DEST ".Manager"
/* for a job, and for a scope of the same name that is ending */
#define WAIT_USEC UINT64_C(30000000)
#define TRY_USEC 20000

struct job {
	const char *path;
	char result[32];	/* "" until it is done */
};

static uint64_t now_usec(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static int bus_fail(struct err *e, int r, const sd_bus_error *why, const char *what)
{
	if (why && why->message)
		return err_set(e, ERR_SYS, "%s: %s (%s)", what, why->message, why->name);
	errno = -r;
	return err_sys(e, "%s", what);
}

/* The system bus; where none runs, the socket that systemctl uses, which is root's alone. */
static int open_bus(sd_bus **ret, struct err *e)
{
	int r = sd_bus_open_system(ret);

	if (r >= 0)
		return 0;
	*ret = NULL;
	r = sd_bus_new(ret);
	if (r >= 0)
		r = sd_bus_set_address(*ret, "unix:path=/run/systemd/private");
	if (r >= 0)
		r = sd_bus_start(*ret);
	return r < 0 ? bus_fail(e, r, NULL, "reach systemd") : 0;
}

/* Signal JobRemoved: id, path of the job, unit, result. */
static int job_removed(sd_bus_message *m, void *ctx, sd_bus_error *ignored)
{
	const char *path, *unit, *result;
	struct job *job = ctx;
	uint32_t id;

	(void)ignored;
	if (sd_bus_message_read(m, "uoss", &id, &path, &unit, &result) >= 0 && job->path && !strcmp(path, job->path))
		snprintf(job->result, sizeof(job->result), "%s", result);
	return 0;
}

static int scope_message(sd_bus *bus, sd_bus_message **ret, const char *unit, const char *slice)
{
	int r = sd_bus_message_new_method_call(bus, ret, MANAGER, "StartTransientUnit");

	if (r < 0)
		return r;
	/* the limits are those of the cgroup below; TasksMax has a default, and DefaultDependencies would stop it before the engine */
	return sd_bus_message_append(*ret, "ssa(sv)a(sa(sv))", unit, "replace", 7,
				     "Description", "s", "container of berth-oci", "Slice", "s", slice, "Delegate", "b", 1,
				     "PIDs", "au", 1, (uint32_t)getpid(), "DefaultDependencies", "b", 0, "TasksMax", "t", UINT64_MAX,
				     "CollectMode", "s", "inactive-or-failed", 0);
}

/* A scope whose processes have just ended exists for another moment. */
static int start_unit(sd_bus *bus, const char *unit, const char *slice, sd_bus_message **ret, struct err *e)
{
	const uint64_t until = now_usec() + WAIT_USEC / 3;

	for (;;) {
		sd_bus_error why = SD_BUS_ERROR_NULL;
		sd_bus_message *m = NULL;
		int r = scope_message(bus, &m, unit, slice), exists, over;

		if (r >= 0)
			r = sd_bus_call(bus, m, WAIT_USEC, &why, ret);
		sd_bus_message_unref(m);
		exists = sd_bus_error_has_name(&why, DEST ".UnitExists");
		over = r >= 0 || !exists || now_usec() >= until;
		if (r < 0 && over)
			bus_fail(e, r, &why, "start a scope");
		if (exists && over)
			e->code = ERR_EXISTS;
		sd_bus_error_free(&why);
		if (over)
			return r < 0 ? -1 : 0;
		sd_bus_call_method(bus, MANAGER, "ResetFailedUnit", NULL, NULL, "s", unit);
		nanosleep(&(struct timespec){ .tv_nsec = TRY_USEC * 1000 }, NULL);
	}
}

static int wait_job(sd_bus *bus, struct job *job, struct err *e)
{
	const uint64_t until = now_usec() + WAIT_USEC;
	int r = 0;

	while (!job->result[0] && r >= 0) {
		uint64_t now = now_usec();

		r = sd_bus_process(bus, NULL);
		if (r == 0 && now < until)
			r = sd_bus_wait(bus, until - now);
		if (now >= until)
			return err_set(e, ERR_TIMEOUT, "systemd did not make the scope within %d s", (int)(WAIT_USEC / 1000000));
	}
	if (r < 0)
		return bus_fail(e, r, NULL, "wait for the scope");
	return !strcmp(job->result, "done") ? 0 : err_set(e, ERR_SYS, "systemd's job for the scope ended as '%s'", job->result);
}

/* The path's last part is the unit: it is the scope that we are in. */
static int check_unit(const char *path, const char *unit, struct err *e)
{
	const char *slash = strrchr(path, '/');

	return slash && !strcmp(slash + 1, unit) ? 0 : err_set(e, ERR_SYS, "systemd did not take this process into %s: it is in %s", unit, path);
}

/* Out of the scope's own cgroup, where processes would keep its controllers from what is below it. */
static int move_down(const char *path, struct err *e)
{
	char leaf[PATH_MAX + 64];
	autoclose int fd = -1;

	snprintf(leaf, sizeof(leaf), MOUNT "%s/" OCI_SCOPE_LEAF, path);
	if (mkdir(leaf, 0755) < 0)
		return err_sys(e, "make cgroup %s", leaf);
	snprintf(leaf, sizeof(leaf), MOUNT "%s/" OCI_SCOPE_LEAF "/cgroup.procs", path);
	fd = open(leaf, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, "0", 1) != 1 ? err_sys(e, "enter cgroup %s", leaf) : 0;
}

/* Where systemd has put us: "0::PATH" of /proc/self/cgroup. */
static int own_cgroup(char *out, size_t size, struct err *e)
{
	autobuf struct buf text = BUF_INIT(65536);
	const char *at;

	if (io_read_file(AT_FDCWD, "/proc/self/cgroup", &text, e) < 0)
		return -1;
	at = strstr(text.data, "0::");
	if (!at || strcspn(at + 3, "\n") >= size)
		return err_set(e, ERR_SYS, "this process has no v2 cgroup");
	snprintf(out, size, "%.*s", (int)strcspn(at + 3, "\n"), at + 3);
	return 0;
}

static int scope(const char *unit, const char *slice, char *path, size_t size, struct err *e)
{
	sd_bus_message *reply = NULL;
	struct job job = { NULL, "" };
	sd_bus *bus = NULL;
	int r = open_bus(&bus, e), got;

	if (r == 0) {
		/* on a bus any process can send it */
		const char *sender = sd_bus_is_bus_client(bus) > 0 ? DEST : NULL;

		got = sd_bus_match_signal(bus, NULL, sender, "/org/freedesktop/systemd1", DEST ".Manager", "JobRemoved", job_removed, &job);
		if (got >= 0)
			got = sd_bus_call_method(bus, MANAGER, "Subscribe", NULL, NULL, "");
		r = got < 0 ? bus_fail(e, got, NULL, "listen to systemd") : start_unit(bus, unit, slice, &reply, e);
	}
	if (r == 0) {
		got = sd_bus_message_read(reply, "o", &job.path);
		r = got < 0 ? bus_fail(e, got, NULL, "read systemd's answer") : wait_job(bus, &job, e);
	}
	sd_bus_message_unref(reply);
	sd_bus_flush_close_unref(bus);
	return r < 0 || own_cgroup(path, size, e) < 0 || check_unit(path, unit, e) < 0 ? -1 : move_down(path, e);
}

static int tell_systemd_answer(const struct err *e, const char *text)
{
	const struct iovec part[] = { { (void *)e, sizeof(*e) }, { (void *)text, strlen(text) } };
	const struct msghdr m = { .msg_iov = (struct iovec *)part, .msg_iovlen = ARRAY_LEN(part) };

	return sendmsg(HELPER_SOCK, &m, MSG_NOSIGNAL) < 0;
}

int main(int argc, char **argv)
{
	autofree char *answer = NULL;
	autojson json_t *told = NULL;
	char path[PATH_MAX], end;
	struct err e = { 0 };
	struct stat st;

	if (argc == 2 && !strcmp(argv[1], "--version"))
		return puts("berth-systemd " BERTH_VERSION) < 0;
	if (argc != 4 || strcmp(argv[1], "scope") != 0 || fstat(HELPER_SOCK, &st) < 0 || !S_ISSOCK(st.st_mode)) {
		fputs("berth-systemd: berth-oci starts this program for --systemd-cgroup; hint: man berth-oci\n", stderr);
		return 2;
	}
	if (scope(argv[2], argv[3], path, sizeof(path), &e) < 0)
		return tell_systemd_answer(&e, ""), 1;
	told = json_pack("{s:s}", "cgroup", path);
	answer = json_dumps(told, JSON_COMPACT);
	if (!answer || tell_systemd_answer(&e, answer))
		return 1;
	while (recv(HELPER_SOCK, &end, 1, 0) > 0)
		;
	return 0;
}
