/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth top: the processes of a sandbox, as the kernel lists them: by its
 * cgroup, so that nothing in it can hide.  Names and arguments are hostile text.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "runtime/kernel/cgroup.h"

enum { OPT_JSON = 1 };

static const struct opt options[] = {
	{ "json", 0, OPT_FLAG, NULL, "print a JSON array, errors as JSON too", OPT_JSON },
};

static int set_option(void *ctx, int id, const char *value, struct err *e)
{
	(void)id;
	(void)value;
	(void)e;
	*(int *)ctx = 1;
	return 0;
}

/* The number after "KEY:" in /proc/PID/status, the last one of the line with last. */
static unsigned long long status_value(const char *text, const char *key, int last)
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
		snprintf(raw, sizeof(raw), "[%.60s", strncmp(status, "Name:\t", 6) ? "?" : status + 6);
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

static void add_process(json_t *list, long pid, const char *leaf)
{
	char path[40], status[8192], command[600], state[2] = "?";
	const char *p;

	snprintf(path, sizeof(path), "/proc/%ld/status", pid);
	if (cgroup_read(AT_FDCWD, path, status, sizeof(status)) <= 0)
		return;		/* it has ended meanwhile */
	p = strstr(status, "\nState:\t");
	if (p)
		state[0] = p[8];
	read_cmdline(pid, status, command, sizeof(command));
	json_array_append_new(list, json_pack("{s:I,s:I,s:s,s:s,s:I,s:I,s:I,s:I,s:s}", "pid",
					      (json_int_t)status_value(status, "NSpid", 1), "host_pid", (json_int_t)pid,
					      "of", leaf, "state", state, "host_uid", (json_int_t)status_value(status, "Uid", 0),
					      "threads", (json_int_t)status_value(status, "Threads", 0), "cpu_ms",
					      (json_int_t)cpu_ms(pid), "memory_bytes",
					      (json_int_t)status_value(status, "VmRSS", 0) * 1024, "command", command));
}

static void add_cgroup(json_t *list, int dirfd, const char *leaf)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	autoclose int fd = openat(dirfd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	struct err ignored;
	char *p, *end;

	if (fd < 0 || io_read_all(fd, &b, "cgroup.procs", &ignored) < 0 || !b.len)
		return;
	for (p = b.data; *p; p = *end ? end + 1 : end) {
		long pid = strtol(p, &end, 10);

		if (end == p)
			break;
		if (pid > 0)
			add_process(list, pid, leaf);
	}
}

/* The sandbox's own cgroup, init's leaf, and one leaf per command. */
static json_t *list_processes(const struct sandbox_ref *s, struct err *e)
{
	struct cgroup c;
	json_t *list;
	DIR *d;
	struct dirent *entry;
	int fd;

	if (cgroup_open(&c, s->config.cgroup_parent, s->id, e) < 0)
		return NULL;
	list = json_array();
	add_cgroup(list, c.v2_fd, "");
	fd = openat(c.v2_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	while (d && (entry = readdir(d))) {
		autoclose int leaf = entry->d_type == DT_DIR && entry->d_name[0] != '.' ?
			openat(c.v2_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

		if (leaf >= 0)
			add_cgroup(list, leaf, entry->d_name);
	}
	if (d)
		closedir(d);
	else
		fd_close(&fd);
	cgroup_release(&c);
	return list;
}

static int top(const char *ref, int json, struct err *e)
{
	autojson json_t *list = NULL;
	struct sandbox_ref s;
	const json_t *p;
	size_t i;

	sandbox_ref_init(&s);
	if (sandbox_ref_connect(&s, ref, 0, e) == 0)
		list = list_processes(&s, e);
	sandbox_ref_close(&s);
	if (!list)
		return -1;
	if (json) {
		return command_print_json(list, JSON_COMPACT, e);
	}
	printf("%6s  %8s  %-6s  %1s  %9s  %10s  %s\n", "PID", "HOST PID", "OF", "S", "CPU(ms)", "MEMORY(K)", "COMMAND");
	json_array_foreach(list, i, p)
		printf("%6lld  %8lld  %-6s  %1s  %9lld  %10lld  %.80s\n", (long long)json_integer_value(json_object_get(p, "pid")),
		       (long long)json_integer_value(json_object_get(p, "host_pid")),
		       json_string_value(json_object_get(p, "of")), json_string_value(json_object_get(p, "state")),
		       (long long)json_integer_value(json_object_get(p, "cpu_ms")),
		       (long long)json_integer_value(json_object_get(p, "memory_bytes")) / 1024,
		       json_string_value(json_object_get(p, "command")));
	return 0;
}

static int top_main(const struct command *self, int argc, char **argv)
{
	struct err e = { 0 };
	int rest, help = 0, json = 0, r;

	r = command_options(self, argc, argv, set_option, &json, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	if (r == 0 && rest + 1 != argc)
		r = err_set(&e, ERR_USAGE, "one sandbox is wanted; hint: berth top ID");
	if (r == 0)
		r = top(argv[rest], json, &e);
	return r < 0 ? command_fail(self, &e, json) : 0;
}

const struct command cmd_top = {
	.name = "top",
	.args = "SANDBOX",
	.summary = "list the processes of a sandbox",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_SANDBOX,
	.run = top_main,
};
