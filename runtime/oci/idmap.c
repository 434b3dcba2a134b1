/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/program.h"
#include "runtime/oci/json.h"

#define RANGES_MAX 340	/* the kernel's */

/* "inside outside count" lines. */
static int map_text(struct buf *b, const json_t *list, struct err *e)
{
	const json_t *v;
	size_t i;

	if (json_array_size(list) > RANGES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d id mappings", RANGES_MAX);
	json_array_foreach(list, i, v)
		if (buf_addf(b, e, "%llu %llu %llu\n", (unsigned long long)oci_u64(v, "containerID", 0),
			     (unsigned long long)oci_u64(v, "hostID", 0), (unsigned long long)oci_u64(v, "size", 0)) < 0)
			return -1;
	return 0;
}

static int write_map(pid_t pid, const char *file, const json_t *list, struct err *e)
{
	autobuf struct buf b = BUF_INIT(65536);
	char path[48];
	autoclose int fd = -1;

	if (map_text(&b, list, e) < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	/* in one write, as the kernel wants it */
	if (fd < 0 || write(fd, b.data ? b.data : "", b.len) != (ssize_t)b.len)
		return err_sys(e, "write %s", path);
	return 0;
}

static int by_helper(const char *program, pid_t pid, const json_t *list, struct err *e)
{
	char text[RANGES_MAX][3][24], number[16], path[64];
	const char *argv[2 + RANGES_MAX * 3 + 1];
	const json_t *v;
	size_t i, n = 0;
	int status;

	snprintf(number, sizeof(number), "%d", (int)pid);
	snprintf(path, sizeof(path), "/usr/bin/%s", program);
	argv[n++] = program;
	argv[n++] = number;
	json_array_foreach(list, i, v) {
		if (i == RANGES_MAX)
			return err_set(e, ERR_LIMIT, "more than %d id mappings", RANGES_MAX);
		snprintf(text[i][0], sizeof(text[i][0]), "%llu", (unsigned long long)oci_u64(v, "containerID", 0));
		snprintf(text[i][1], sizeof(text[i][1]), "%llu", (unsigned long long)oci_u64(v, "hostID", 0));
		snprintf(text[i][2], sizeof(text[i][2]), "%llu", (unsigned long long)oci_u64(v, "size", 0));
		argv[n++] = text[i][0];
		argv[n++] = text[i][1];
		argv[n++] = text[i][2];
	}
	argv[n] = NULL;
	if (process_run(path, argv, -1, &status, e) < 0)
		return err_wrap(e, "map more than our own id");
	return status ? err_set(e, ERR_DENIED, "%s refused the id mappings; hint: /etc/subuid and /etc/subgid", program) : 0;
}

static int is_own_id(const json_t *list, uint32_t own)
{
	const json_t *v = json_array_get(list, 0);

	return json_array_size(list) == 1 && oci_u64(v, "size", 0) == 1 && oci_u64(v, "hostID", 0) == own;
}

int oci_idmap_write(pid_t pid, const json_t *uids, const json_t *gids, struct err *e)
{
	char path[48];

	if (geteuid() == 0)
		return write_map(pid, "gid_map", gids, e) < 0 || write_map(pid, "uid_map", uids, e) < 0 ? -1 : 0;
	if (is_own_id(gids, getegid())) {
		snprintf(path, sizeof(path), "/proc/%d/setgroups", (int)pid);
		if (io_write_file(AT_FDCWD, path, "deny", e) < 0 || write_map(pid, "gid_map", gids, e) < 0)
			return -1;
	} else if (by_helper("newgidmap", pid, gids, e) < 0) {
		return -1;
	}
	return is_own_id(uids, geteuid()) ? write_map(pid, "uid_map", uids, e) : by_helper("newuidmap", pid, uids, e);
}

/* the parent, which holds the other end */
static int hold_namespace(void *parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != *(const pid_t *)parent)
		return 1;
	for (;;)
		pause();
	return 0;
}

/* The host's id for the container's; -1 if there is none. */
static int64_t host_id(const json_t *map, uint64_t id)
{
	const json_t *v;
	size_t i;

	json_array_foreach(map, i, v) {
		const uint64_t from = oci_u64(v, "containerID", 0);

		if (id >= from && id - from < oci_u64(v, "size", 0))
			return (int64_t)(oci_u64(v, "hostID", 0) + id - from);
	}
	return -1;
}

/* "0-1-10#@20-2-5" up to ';'.  A new reference, or NULL. */
static json_t *read_triplets(const char *s, const json_t *container, struct err *e)
{
	json_t *list = json_array();

	while (*s && *s != ';') {
		unsigned long long fs, host, count;
		const int relative = *s == '@';
		int used = 0;

		if (sscanf(s + relative, "%llu-%llu-%llu%n", &fs, &host, &count, &used) != 3 || fs > UINT32_MAX ||
		    host > UINT32_MAX || count > UINT32_MAX || (relative && host_id(container, host) < 0)) {
			err_set(e, ERR_INVALID, "option idmap: '%.64s' is not FS-HOST-COUNT", s);
			json_decref(list);
			return NULL;
		}
		if (relative)
			host = (unsigned long long)host_id(container, host);
		json_array_append_new(list, json_pack("{s:I, s:I, s:I}", "containerID", (json_int_t)fs, "hostID",
						      (json_int_t)host, "size", (json_int_t)count));
		s += relative + used;
		s += *s == '#';
	}
	return list;
}

static int read_spec(const char *spec, const json_t *linux_part, json_t **ret_uids, json_t **ret_gids, struct err *e)
{
	const char *s = spec;

	while (s && *s) {
		const int users = !strncmp(s, "uids=", 5);
		json_t **to = users ? ret_uids : ret_gids;

		if ((!users && strncmp(s, "gids=", 5) != 0) || *to)
			return err_set(e, ERR_INVALID, "option idmap: '%.64s' is not uids=... and gids=...", s);
		*to = read_triplets(s + 5, oci_get(linux_part, users ? "uidMappings" : "gidMappings"), e);
		if (!*to)
			return -1;
		s = strchr(s, ';');
		s = s ? s + 1 : NULL;
	}
	return 0;
}

int oci_idmap_for_mount(const json_t *mount, const char *spec, const json_t *linux_part, struct err *e)
{
	autojson json_t *own_uids = NULL, *own_gids = NULL;
	const json_t *uids = oci_get(mount, "uidMappings"), *gids = oci_get(mount, "gidMappings");
	static char stack[16384] __attribute__((aligned(16)));
	char path[48];
	int fd = -1, r;
	pid_t me = getpid(), pid;

	if (read_spec(spec, linux_part, &own_uids, &own_gids, e) < 0)
		return -1;
	if (own_uids || own_gids) {
		uids = own_uids;
		gids = own_gids;
	}
	if (!json_array_size(uids) && !json_array_size(gids)) {
		uids = oci_get(linux_part, "uidMappings");
		gids = oci_get(linux_part, "gidMappings");
	}
	if (!json_array_size(uids) || !json_array_size(gids))
		return err_set(e, ERR_INVALID, "an id-mapped mount needs both uidMappings and gidMappings, of its own or of "
			       "the container's user namespace");
	pid = clone(hold_namespace, stack + sizeof(stack), CLONE_NEWUSER | SIGCHLD, &me);
	if (pid < 0)
		return err_sys(e, "make a user namespace for an id-mapped mount");
	r = oci_idmap_write(pid, uids, gids, e);
	if (r == 0) {
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			err_sys(e, "open %s", path);
	}
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return fd;
}
