/* SPDX-License-Identifier: Apache-2.0 */
/* The zygote itself: its sandbox, its preload, and whether it can be forked. */
#include <fcntl.h>
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
#include "manager/ops/settleopt.h"
#include "manager/zygote/list.h"
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
	z->noted = json_pack("{s:O}", "options", z->options);
	if (!z->noted)
		return err_nomem(e);
	if (sources_note(z->noted, e) < 0 ||
	    volumes_open(&z->volumes, &z->registry, &z->spec, z->promise.tenant, scratch, e) < 0 ||
	    sandbox_launch(&z->sandbox, &where, e) < 0 || attest_ready(&z->sandbox, e) < 0)
		return -1;
	return 0;
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

static int open_sockets(struct zygote *z, struct err *e)
{
	return (z->home_fd = listen_at(z, ZYGOTE_HOME, e)) < 0 ||
			       (z->listen_fd = listen_at(z, ZYGOTE_SOCKET, e)) < 0 ?
		       -1 :
		       0;
}

static int save(struct zygote *z, struct err *e)
{
	autojson json_t *record = NULL, *file = NULL;
	autofree char *text = NULL;
	char created[CLOCK_UTC];

	clock_utc(clock_now(CLOCK_REALTIME).tv_sec, created);
	record = record_new(z->claim.id, z->opts.name ? z->opts.name : "", z->image_ref,
			    RECORD_RUNNING, created);
	file = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:O,s:i,s:i,s:I,s:I,s:O,s:O*,s:O}", "id",
			 z->claim.id, "name", z->opts.name ? z->opts.name : "", "image",
			 z->image_ref, "created", created, "interpreter", z->interpreter, "mode",
			 z->mode == ZYGOTE_AHEAD ? "ahead" : "fork", "preload", z->command, "pool",
			 (int)z->pool, "forks", (int)z->max, "memory_bytes",
			 (json_int_t)z->spec.limits.memory_bytes, "cpu_milli",
			 (json_int_t)z->spec.limits.cpu_milli, "options", z->options, "seccomp",
			 z->seccomp, "sources", json_object_get(z->noted, "sources"));
	if (file && z->stock.pid)
		json_object_set_new(file, "pid", json_integer(z->stock.pid));
	text = file ? json_dumps(file, JSON_COMPACT) : NULL;
	if (!record || !text)
		return err_nomem(e);
	record_set_supervisor_pid(record, (uint64_t)getpid());
	record_set_init_pid(record, (uint64_t)z->sandbox.pid);
	record_set_command(record, json_incref(z->command));
	record_set_labels(record, runopts_labels(&z->opts, z->image.image.labels));
	return record_save_run(&z->claim, record, e) < 0 ||
			       io_replace_file(z->claim.dir_fd, ZYGOTE_FILE, text, strlen(text),
					       0600, 0, e) < 0 ?
		       -1 :
		       0;
}

static int make_fork(struct zygote *z, struct err *e)
{
	struct job job = sandbox_job(&z->spec, INIT_LAST | INIT_MAKE_CWD | INIT_QUIET);

	z->preload.end_fd = z->told;
	if (preload_start(&z->preload, &z->sandbox, &job, &z->in_fd, e) < 0 ||
	    preload_await(&z->preload, &z->sandbox, e) < 0 || examine(z, e) < 0)
		return -1;
	return open_sockets(z, e);
}

static int make_ahead(struct zygote *z, struct err *e)
{
	z->stock.init = z->sandbox.pid;
	return open_sockets(z, e) < 0 || ahead_try(z, e) < 0 ? -1 : 0;
}

int zygote_make(struct zygote *z, struct err *e)
{
	z->sandbox.spec = &z->spec;
	if (registry_claim(&z->registry, z->opts.name, 0, &z->promise, &z->claim, e) < 0 ||
	    (z->tenant && zygote_own(&z->registry, &z->claim, &z->limits, z->max, e) < 0) ||
	    reserve(z, e) < 0 || launch(z, e) < 0 ||
	    (z->mode == ZYGOTE_AHEAD ? make_ahead(z, e) : make_fork(z, e)) < 0)
		return -1;
	return save(z, e);
}
