/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sandbox/attest.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/caps.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/kernel/landlock.h"

#define PROC_FILE_MAX (1u << 20)

int attest_ready(struct sandbox *sb, struct err *e)
{
	struct init_request rq = { .magic = INIT_MAGIC, .type = INIT_PING, .expect = sandbox_expect(sb->spec) };
	struct init_reply r;
	int got;

	/* a set-up that just failed has closed the socket, and said why first */
	if (fdpass_send(sb->sock, &rq, sizeof(rq), NULL, 0) < 0 && errno != EPIPE && errno != ECONNRESET)
		return err_sys(e, "ask the sandbox's init");
	got = sandbox_reply(sb, &r, 1, e);
	if (got < 0)
		return -1;
	if (got && r.type == INIT_SETUP_FAILED) {
		*e = r.err;
		return -1;
	}
	if (!got || r.type != INIT_STATUS)
		return err_set(e, ERR_INTERNAL, "the sandbox's init did not answer");
	return 0;
}

static json_t *lines_of(const char *text)
{
	json_t *a = json_array();

	while (a && *text) {
		size_t n = strcspn(text, "\n");

		if (n)
			json_array_append_new(a, json_stringn_nocheck(text, n));
		text += n + (text[n] == '\n');
	}
	return a;
}

static int read_attested_proc(pid_t pid, const char *file, struct buf *b, struct err *e)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	return io_read_file(AT_FDCWD, path, b, e);
}

/* "Key:\tvalue\n" of /proc/PID/status, or "". */
static const char *attested_status_field(const char *text, const char *key, char *out, size_t n)
{
	const char *p = strstr(text, key);

	out[0] = '\0';
	if (p) {
		p += strlen(key);
		while (*p == '\t' || *p == ' ')
			p++;
		snprintf(out, n, "%.*s", (int)strcspn(p, "\n"), p);
	}
	return out;
}

static json_t *cap_names(const char *hex)
{
	uint64_t mask = strtoull(hex, NULL, 16);
	json_t *a = json_array();
	unsigned i;

	for (i = 0; i < 64; i++)
		if (mask & 1ULL << i)
			json_array_append_new(a, json_string(caps_name(i) ? caps_name(i) : "unknown"));
	return a;
}

static int attest_status(json_t *j, pid_t pid, struct err *e)
{
	static const struct { const char *key, *name; } sets[] = {
		{ "\nCapBnd:", "bounding" }, { "\nCapPrm:", "init_permitted" }, { "\nCapEff:", "init_effective" },
		{ "\nCapInh:", "inheritable" }, { "\nCapAmb:", "ambient" },
	};
	autobuf struct buf b = BUF_INIT(PROC_FILE_MAX);
	json_t *caps = json_object();
	char v[256];
	size_t i;

	json_object_set_new(j, "capabilities", caps);
	if (read_attested_proc(pid, "status", &b, e) < 0)
		return -1;
	for (i = 0; i < ARRAY_LEN(sets); i++)
		json_object_set_new(caps, sets[i].name, cap_names(attested_status_field(b.data, sets[i].key, v, sizeof(v))));
	json_object_set_new(j, "no_new_privs", json_boolean(atoi(attested_status_field(b.data, "\nNoNewPrivs:", v, sizeof(v)))));
	json_object_set_new(j, "seccomp_mode", json_integer(atoi(attested_status_field(b.data, "\nSeccomp:", v, sizeof(v)))));
	json_object_set_new(j, "seccomp_filters",
			    json_integer(atoi(attested_status_field(b.data, "\nSeccomp_filters:", v, sizeof(v)))));
	json_object_set_new(j, "groups", json_string(attested_status_field(b.data, "\nGroups:", v, sizeof(v))));
	json_object_set_new(j, "host_uids", json_string(attested_status_field(b.data, "\nUid:", v, sizeof(v))));
	json_object_set_new(j, "speculation_store_bypass",
			    json_string(attested_status_field(b.data, "\nSpeculation_Store_Bypass:", v, sizeof(v))));
	return 0;
}

static int add_namespaces(json_t *j, pid_t pid, struct err *e)
{
	static const char *const kinds[] = { "user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time" };
	json_t *o = json_object();
	size_t i;

	json_object_set_new(j, "namespaces", o);
	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		char path[64], theirs[64], ours[64];
		ssize_t n, m;
		json_t *one = json_object();

		snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, kinds[i]);
		n = readlink(path, theirs, sizeof(theirs) - 1);
		snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i]);
		m = readlink(path, ours, sizeof(ours) - 1);
		json_object_set_new(o, kinds[i], one);
		if (n < 0 || m < 0) {
			json_object_set_new(one, "supported", json_false());
			continue;
		}
		theirs[n] = ours[m] = '\0';
		json_object_set_new(one, "inode", json_string(theirs));
		json_object_set_new(one, "own", json_boolean(strcmp(theirs, ours) != 0));
	}
	(void)e;
	return 0;
}

/* Mount point, options, type: of each line of mountinfo (proc_pid_mountinfo(5)). */
static int attest_mounts(json_t *j, pid_t pid, struct err *e)
{
	autobuf struct buf b = BUF_INIT(PROC_FILE_MAX);
	json_t *a = json_array();
	char *line, *save = NULL;

	json_object_set_new(j, "mounts", a);
	if (read_attested_proc(pid, "mountinfo", &b, e) < 0)
		return -1;
	for (line = strtok_r(b.data, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char target[512], options[256], type[64] = "";
		const char *dash = strstr(line, " - ");

		if (sscanf(line, "%*s %*s %*s %*s %511s %255s", target, options) != 2 || !dash ||
		    sscanf(dash, " - %63s", type) != 1)
			continue;
		json_array_append_new(a, json_pack("{s:s,s:s,s:s,s:b}", "target", target, "options", options, "type", type,
						   "shared", strstr(line, " shared:") != NULL));
	}
	return 0;
}

static int add_lines(json_t *j, const char *key, pid_t pid, const char *file, struct err *e)
{
	autobuf struct buf b = BUF_INIT(PROC_FILE_MAX);

	if (read_attested_proc(pid, file, &b, e) < 0)
		return -1;
	json_object_set_new(j, key, lines_of(b.data ? b.data : ""));
	return 0;
}

static void add_attested_file(json_t *o, int dirfd, const char *file)
{
	char text[512];

	if (dirfd >= 0 && cgroup_read(dirfd, file, text, sizeof(text)) >= 0) {
		text[strcspn(text, "\n")] = '\0';
		json_object_set_new(o, file, json_string(text));
	}
}

static void add_limits(json_t *j, const struct cgroup *cg)
{
	static const char *const v2[] = {
		"memory.max",  "memory.swap.max", "memory.oom.group", "cpu.max", "pids.max",
		"cpuset.cpus", "io.weight",       "io.bfq.weight",    "io.max",
	};
	json_t *o = json_object();
	size_t i;

	json_object_set_new(j, "cgroup_mode", json_string(cg->ops->name));
	json_object_set_new(j, "limits", o);
	for (i = 0; i < ARRAY_LEN(v2); i++)
		add_attested_file(o, cg->v2_fd, v2[i]);
	add_attested_file(o, cg->v1_fd[V1_MEMORY], "memory.limit_in_bytes");
	add_attested_file(o, cg->v1_fd[V1_MEMORY], "memory.memsw.limit_in_bytes");
	add_attested_file(o, cg->v1_fd[V1_CPU], "cpu.cfs_quota_us");
	add_attested_file(o, cg->v1_fd[V1_CPU], "cpu.cfs_period_us");
	add_attested_file(o, cg->v1_fd[V1_PIDS], "pids.max");
	add_attested_file(o, cg->v1_fd[V1_CPUSET], "cpuset.cpus");
	add_attested_file(o, cg->v1_fd[V1_BLKIO], "blkio.bfq.weight");
	add_attested_file(o, cg->v1_fd[V1_BLKIO], "blkio.throttle.read_bps_device");
	add_attested_file(o, cg->v1_fd[V1_BLKIO], "blkio.throttle.read_iops_device");
	add_attested_file(o, cg->v1_fd[V1_DEVICES], "devices.list");
}

json_t *attest_report(pid_t pid, const struct cgroup *cg, struct err *e)
{
	json_t *j = json_object();
	struct utsname u;

	if (!j) {
		err_nomem(e);
		return NULL;
	}
	if (!uname(&u))
		json_object_set_new(j, "kernel", json_string(u.release));
	json_object_set_new(j, "landlock_abi", json_integer(landlock_abi()));
	if (attest_status(j, pid, e) < 0 || add_namespaces(j, pid, e) < 0 ||
	    add_lines(j, "uid_map", pid, "uid_map", e) < 0 || add_lines(j, "gid_map", pid, "gid_map", e) < 0 ||
	    attest_mounts(j, pid, e) < 0 || add_lines(j, "rlimits", pid, "limits", e) < 0 ||
	    add_lines(j, "cgroups", pid, "cgroup", e) < 0) {
		json_decref(j);
		return NULL;
	}
	add_limits(j, cg);
	return j;
}
