/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/sandbox_status.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/host/record.h"
#include "manager/host/restart.h"
#include "manager/keeper/keeper.h"
#include "manager/keeper/pings.h"
#include "manager/keeper/protocol.h"
#include "runtime/kernel/cgroup.h"

/* ---- status ---- */

static void set_state(json_t *record, const json_t *answer)
{
	if (json_object_get(answer, "state"))
		json_object_set(record, "status", json_object_get(answer, "state"));
}

static void set_status_members(json_t *record, const json_t *answer)
{
	static const char *const keys[] = { "idle_ms", "busy", "commands", "sessions", "health" };
	size_t i;

	set_state(record, answer);
	for (i = 0; i < ARRAY_LEN(keys); i++)
		json_object_set(record, keys[i], json_object_get(answer, keys[i]));
}

static void set_state_and_health(json_t *record, const json_t *answer)
{
	set_state(record, answer);
	json_object_set(record, "health", json_object_get(answer, "health"));
}

/* The word becomes the whole: the last results, too. */
static void ask_health(struct registry *r, json_t *record)
{
	autojson json_t *rq = protocol_request(OP_health), *answer = NULL;
	const char *id = record_id(record);
	struct err ignored;
	autoclose int sock = id[0] ? keeper_connect_within(r, id, PINGS_MS, &ignored) : -1;

	json_object_del(record, "health");
	if (sock >= 0 && rq)
		answer = keeper_call(sock, rq, NULL, 0, NULL, &ignored);
	if (!answer)
		return;
	json_object_del(answer, "v");
	json_object_set(record, "health", answer);
}

void sandbox_status_ask(struct registry *r, json_t *record)
{
	autojson json_t *list = json_pack("[O]", record);

	if (list)
		pings_ask(r, list, set_state_and_health);
	if (json_object_get(record, "health"))
		ask_health(r, record);
}

void sandbox_status_restart(struct registry *r, json_t *record)
{
	const char *id = record_id(record);

	if (id[0] && restart_is_due(record) && restart_pending(r, id))
		record_set_status(record, RECORD_RESTARTING);
}

static int is_record_over(const json_t *record)
{
	const enum record_status status = record_status(record);

	return status == RECORD_EXITED || status == RECORD_STOPPED;
}

void sandbox_status_ask_all(struct registry *r, json_t *list)
{
	json_t *record;
	size_t i;

	json_array_foreach(list, i, record)
		if (is_record_over(record))
			sandbox_status_restart(r, record);
	pings_look(r, list, set_status_members);
}

/* ---- processes ---- */

/* The number after "KEY:" in /proc/PID/status, the last one of the line with last. */
static unsigned long long proc_status_value(const char *text, const char *key, int last)
{
	char find[32];
	const char *p, *end, *word;

	snprintf(find, sizeof(find), "\n%s:", key);
	p = strstr(text, find);
	if (!p)
		return 0;
	p += strlen(find);
	end = strchrnul(p, '\n');
	if (last)
		for (word = p; word < end; word++)
			if ((*word == '\t' || *word == ' ') && word + 1 < end)
				p = word;
	return strtoull(p, NULL, 10);
}

static void read_cmdline(long pid, const char *status, char *out, size_t n)
{
	char path[40], raw[512];
	int len, i;

	snprintf(path, sizeof(path), "/proc/%ld/cmdline", pid);
	len = cgroup_read(AT_FDCWD, path, raw, sizeof(raw));
	if (len > 0) {
		for (i = 0; i + 1 < len; i++)
			raw[i] = raw[i] ? raw[i] : ' ';
	} else {
		snprintf(raw, sizeof(raw), "[%.60s",
			 strncmp(status, "Name:\t", 6) ? "?" : status + 6);
		raw[strcspn(raw, "\n")] = '\0';
		strncat(raw, "]", sizeof(raw) - strlen(raw) - 1);
	}
	log_clean(out, n, raw, 0);
}

static unsigned long long cpu_ms(long pid)
{
	char path[40], text[1024], *p;
	unsigned long long user = 0, system = 0;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	if (cgroup_read(AT_FDCWD, path, text, sizeof(text)) <= 0 || !(p = strrchr(text, ')')))
		return 0;
	sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system);
	return (user + system) * 1000 / (unsigned long long)sysconf(_SC_CLK_TCK);
}

struct list {
	json_t *json;
	size_t max, more;
	const char *leaf; /* the cgroup that is read */
};

static void add_process(void *ctx, pid_t pid)
{
	struct list *l = ctx;
	char path[40], status[8192], command[600], state[2] = "?";
	const char *p;

	if (json_array_size(l->json) >= l->max) {
		l->more++;
		return;
	}
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (cgroup_read(AT_FDCWD, path, status, sizeof(status)) <= 0)
		return; /* it has ended meanwhile */
	p = strstr(status, "\nState:\t");
	if (p)
		state[0] = p[8];
	read_cmdline(pid, status, command, sizeof(command));
	json_array_append_new(l->json,
			      json_pack("{s:I,s:I,s:I,s:s,s:s,s:I,s:I,s:I,s:I,s:s}", "pid",
					(json_int_t)proc_status_value(status, "NSpid", 1), "host_pid",
					(json_int_t)pid, "host_ppid", (json_int_t)proc_status_value(status, "PPid", 0),
						"of", l->leaf, "state", state, "host_uid",
					(json_int_t)proc_status_value(status, "Uid", 0), "threads",
					(json_int_t)proc_status_value(status, "Threads", 0), "cpu_ms",
					(json_int_t)cpu_ms(pid), "memory_bytes",
					(json_int_t)proc_status_value(status, "VmRSS", 0) * 1024,
					"command", command));
}

json_t *processes_list(const struct sandbox_ref *s, size_t max, size_t *ret_more, struct err *e)
{
	struct list list = { .max = max, .leaf = "" };
	struct cgroup c;
	DIR *d;
	struct dirent *entry;
	int fd;

	if (cgroup_open(&c, s->config.cgroup_parent, s->id, e) < 0)
		return NULL;
	list.json = json_array();
	cgroup_each_process(c.v2_fd, add_process, &list);
	fd = openat(c.v2_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	while (d && (entry = readdir(d))) {
		autoclose int leaf =
			entry->d_type == DT_DIR && entry->d_name[0] != '.' ?
				openat(c.v2_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) :
				-1;

		if (leaf < 0)
			continue;
		list.leaf = entry->d_name;
		cgroup_each_process(leaf, add_process, &list);
	}
	if (d)
		closedir(d);
	else
		fd_close(&fd);
	cgroup_release(&c);
	if (ret_more)
		*ret_more = list.more;
	return list.json;
}

/* ---- ports ---- */

json_t *ports_of(struct registry *r, const char *id, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_network), *answer = NULL;
	autoclose int sock = keeper_connect(r, id, e);
	json_t *network = NULL, *ports;

	if (sock < 0)
		return NULL;
	answer = keeper_call(sock, rq, NULL, 0, NULL, e);
	if (!answer || json_get_obj(answer, "network", &network, "answer", e) < 0)
		return NULL;
	ports = json_object_get(network, "ports");
	return ports ? json_incref(ports) : json_array();
}
