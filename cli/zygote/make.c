/* SPDX-License-Identifier: Apache-2.0 */
/* The zygote itself: its sandbox, its preload, and whether it can be forked. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/zygote/zygote.h"
#include "manager/host/labels.h"
#include "manager/host/record.h"
#include "manager/zygote/owner.h"
#include "runtime/sandbox/attest.h"

#define BACKLOG 128

/* Ranges of ids for its forks, each with the promise of a sandbox: what they may take is bounded
 * from here on. */
static int reserve(struct zygote *z, struct err *e)
{
	size_t i;

	for (i = 0; i < z->max; i++) {
		if (registry_claim_range(&z->registry, &z->claim, &z->promise, &z->inner[i], e) < 0)
			return err_wrap(e, "reserve fork %zu of %u", i + 1, z->max);
		z->inner_base[i] = z->inner[i].id_base;
	}
	return 0;
}

static int launch(struct zygote *z, struct err *e)
{
	char scratch[sizeof(z->config.run_dir) + 80];
	struct launch_place where = {scratch, -1, 0, z->registry.state_fd, scratch};
	struct spec *s = &z->opts.spec;
	int in[2], out[2], std[3], r;
	struct job job;

	snprintf(s->id, sizeof(s->id), "%s", z->claim.id);
	s->id_base = z->claim.id_base;
	z->spec = *s;
	z->spec.network = NETWORK_NONE;
	z->spec.net_policy = z->spec.net_egress = NULL;
	z->spec.inner_base = z->inner_base;
	z->spec.inner_count = z->max;
	snprintf(scratch, sizeof(scratch), "%s/sandboxes/%s", z->config.run_dir, s->id);
	if (s->disk_bytes > s->limits.memory_bytes / 2)
		z->disk_fd = fcntl(z->registry.state_fd, F_DUPFD_CLOEXEC, 3);
	where.disk_dirfd = z->disk_fd;
	if (volumes_open(&z->volumes, &z->registry, &z->spec, z->promise.tenant, scratch, e) < 0 ||
	    sandbox_launch(&z->sandbox, &where, e) < 0 || attest_ready(&z->sandbox, e) < 0)
		return -1;
	if (pipe2(in, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	z->in_fd = in[1];
	if (pipe2(out, O_CLOEXEC) < 0) {
		close(in[0]);
		return err_sys(e, "make a pipe");
	}
	z->out_fd = out[0];
	std[0] = in[0];
	std[1] = std[2] = out[1];
	job = sandbox_job(&z->spec, INIT_LAST | INIT_MAKE_CWD | INIT_QUIET);
	r = sandbox_exec(&z->sandbox, 1, &job, std, e);
	close(in[0]);
	close(out[1]);
	return r;
}

/* Keeps the end of what the preload writes; 1 when the agent says that it is done. */
static int hear(struct zygote *z)
{
	const size_t half = sizeof(z->output) / 2;
	ssize_t n;
	char *at;

	if (z->output_len > half) {
		memmove(z->output, z->output + z->output_len - half, half);
		z->output_len = half;
	}
	n = read(z->out_fd, z->output + z->output_len, sizeof(z->output) - 1 - z->output_len);
	if (n <= 0)
		return 0;
	z->output_len += (size_t)n;
	z->output[z->output_len] = '\0';
	at = memmem(z->output, z->output_len, z->ready, strlen(z->ready));
	if (!at)
		return 0;
	z->output_len = (size_t)(at - z->output);
	z->output[z->output_len] = '\0';
	return 1;
}

/* The last line that the preload wrote, which says why it ended; "" without one. */
static void last_words(const struct zygote *z, char *ret, size_t size)
{
	size_t end = z->output_len, at;

	while (end && (z->output[end - 1] == '\n' || z->output[end - 1] == '\r'))
		end--;
	for (at = end; at && z->output[at - 1] != '\n'; at--)
		;
	if (end - at > size / 2)
		at = end - size / 2;
	snprintf(ret, size, "%s%.*s", at < end ? ": " : "", (int)(end - at), z->output + at);
}

/* The preload, or berth-init, ended instead. */
static int preload_ended(struct zygote *z, struct err *e)
{
	struct init_reply r;
	char why[256];
	int got = sandbox_reply(&z->sandbox, &r, 1, e);

	while (got > 0 && z->out_fd >= 0 &&
	       poll(&(struct pollfd){.fd = z->out_fd, .events = POLLIN}, 1, 0) == 1 &&
	       z->output_len < sizeof(z->output) / 2) {
		size_t before = z->output_len;

		hear(z);
		if (z->output_len == before)
			break;
	}
	if (got > 0 && (r.type == INIT_EXEC_FAILED || r.type == INIT_SETUP_FAILED)) {
		*e = r.err;
		return -1;
	}
	last_words(z, why, sizeof(why));
	if (got > 0 && r.type == INIT_EXITED && r.exited)
		return err_set(e, ERR_INVALID, "the preload ended with exit status %u%s", r.value,
			       why);
	return err_set(e, ERR_INVALID, "the preload was killed%s",
		       got > 0 ? "" : ", perhaps for its memory");
}

static int await_preload(struct zygote *z, struct err *e)
{
	const uint64_t until = clock_ms() + z->preload_ms;
	struct pollfd p[3] = {{.fd = z->out_fd, .events = POLLIN},
			      {.fd = z->sandbox.sock, .events = POLLIN},
			      {.fd = z->told}}; /* its end alone */
	uint64_t now;

	while ((now = clock_ms()) < until) {
		if (poll(p, 3, (int)(until - now)) < 0 && errno != EINTR)
			return err_sys(e, "wait for the preload");
		if (p[0].revents & POLLIN && hear(z))
			return 0;
		if (p[1].revents)
			return preload_ended(z, e);
		if (p[2].revents)
			return err_set(e, ERR_BUSY, "nobody waits for the zygote any more");
		if (p[0].revents & POLLHUP && !(p[0].revents & POLLIN))
			p[0].fd = -1;
	}
	err_set(e, ERR_TIMEOUT, "the preload has not ended after %llu ms",
		(unsigned long long)z->preload_ms);
	return err_hint(e, "--preload-timeout gives it more time"), -1;
}

/* Its only process besides init. */
static int find_process(struct zygote *z, struct err *e)
{
	char text[4096], *p = text;

	if (cgroup_read(z->sandbox.cgroup.v2_fd, "cgroup.procs", text, sizeof(text)) < 0)
		return err_sys(e, "look at the zygote's processes");
	while (*p) {
		long pid = strtol(p, &p, 10);

		if (pid != z->sandbox.pid && !z->stock.pid)
			z->stock.pid = (pid_t)pid;
		p += strspn(p, "\n");
	}
	return z->stock.pid ? 0 : err_set(e, ERR_BUSY, "the zygote has ended");
}

static int examine(struct zygote *z, struct err *e)
{
	z->stock = (struct graft_stock){.init = z->sandbox.pid,
					.cgroup_fd = z->sandbox.cgroup.v2_fd,
					.caps = z->spec.caps,
					.workdir = z->spec.workdir};
	/* forks inherit the filter whose listener this is, and count in no budget: they load none
	 */
	fd_close(&z->sandbox.filters.fd);
	return find_process(z, e) < 0 ? -1 : graft_examine(&z->stock, z->claim.id_base, e);
}

static int listen_at(struct zygote *z, const char *name, struct err *e)
{
	autoclose int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un a;

	zygote_address(z->claim.dir_fd, name, &a);
	if (sock < 0 || bind(sock, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(sock, BACKLOG) < 0)
		return err_sys(e, "listen for clients of the zygote");
	return take_fd(&sock);
}

static int save(struct zygote *z, struct err *e)
{
	autojson json_t *record = NULL, *file = NULL;
	autofree char *text = NULL;
	char created[CLOCK_UTC];

	clock_utc(clock_now(CLOCK_REALTIME).tv_sec, created);
	record = record_new(z->claim.id, z->opts.name ? z->opts.name : "", z->image_ref,
			    RECORD_RUNNING, created);
	file = json_pack("{s:s,s:s,s:s,s:s,s:O,s:i,s:i,s:i,s:I,s:I,s:O,s:O*}", "id", z->claim.id,
			 "name",
			 z->opts.name ? z->opts.name : "", "image", z->image_ref, "created",
			 created, "preload", z->command, "pool", (int)z->pool, "forks", (int)z->max,
			 "pid", (int)z->stock.pid, "memory_bytes",
			 (json_int_t)z->spec.limits.memory_bytes, "cpu_milli",
			 (json_int_t)z->spec.limits.cpu_milli, "options", z->options, "seccomp",
			 z->seccomp);
	text = file ? json_dumps(file, JSON_COMPACT) : NULL;
	if (!record || !text)
		return err_nomem(e);
	record_set_supervisor_pid(record, (uint64_t)getpid());
	record_set_init_pid(record, (uint64_t)z->sandbox.pid);
	record_set_command(record, json_incref(z->command));
	record_set_labels(record, labels_with_image(z->opts.labels, z->image.image.labels));
	return record_save_run(&z->claim, record, e) < 0 ||
			       io_replace_file(z->claim.dir_fd, ZYGOTE_FILE, text, strlen(text),
					       0600, 0, e) < 0 ?
		       -1 :
		       0;
}

int zygote_make(struct zygote *z, struct err *e)
{
	z->sandbox.spec = &z->spec;
	if (registry_claim(&z->registry, z->opts.name, 0, &z->promise, &z->claim, e) < 0 ||
	    (z->tenant && zygote_own(&z->registry, &z->claim, &z->limits, z->max, e) < 0) ||
	    reserve(z, e) < 0 || launch(z, e) < 0 || await_preload(z, e) < 0 || examine(z, e) < 0 ||
	    (z->home_fd = listen_at(z, ZYGOTE_HOME, e)) < 0 ||
	    (z->listen_fd = listen_at(z, ZYGOTE_SOCKET, e)) < 0)
		return -1;
	return save(z, e);
}
