/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/runopts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/run/deviceopts.h"
#include "cli/run/envopts.h"
#include "cli/run/limitopts.h"
#include "cli/run/mountspec.h"
#include "manager/host/labels.h"
#include "runtime/kernel/caps.h"
#include "runtime/sandbox/nethelper.h"

#define STRINGS_MAX 65536
#define DEFAULT_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static int push(struct runopts_strings *l, const char *s, struct err *e)
{
	/* the array doubles at each power of two */
	if ((l->count & (l->count - 1)) == 0) {
		size_t cap = l->count ? l->count * 2 : 8;
		const char **v;

		if (l->count >= STRINGS_MAX)
			return err_set(e, ERR_LIMIT, "more than %d of them", STRINGS_MAX);
		if (l->count == 0 || l->count >= 8) {
			v = realloc(l->v, cap * sizeof(*v));
			if (!v)
				return err_nomem(e);
			l->v = v;
		}
	}
	l->v[l->count++] = s;
	return 0;
}

void runopts_init(struct runopts *o, const struct config *c)
{
	struct spec *s = &o->spec;

	memset(o, 0, sizeof(*o));
	o->config = c;
	s->hostname = c->hostname;
	s->disk_bytes = c->disk_bytes;
	s->disk_inodes = c->disk_inodes;
	s->tmp_bytes = c->tmp_bytes;
	s->shm_bytes = 64 << 20;
	s->network = NETWORK_NONE;
	s->joined.netns_fd = s->joined.init_fd = -1;
	s->limits = (struct cgroup_limits){
		.memory_bytes = c->memory_bytes, .swap_bytes = c->swap_bytes, .cpu_milli = c->cpu_milli,
		.pids = c->pids, .oom_group = 1,
	};
	rlimits_default(&s->rlimits);
	s->grace_ms = c->grace_ms;
	s->cgroup_parent = c->cgroup_parent;
	o->seccomp = c->seccomp;
}

void runopts_release(struct runopts *o)
{
	size_t i;

	for (i = 0; i < o->owned.count; i++)
		free((char *)o->owned.v[i]);
	free(o->owned.v);
	free(o->env.v);
	free(o->argv.v);
	free(o->full_env.v);
	free(o->device_names.v);
	free(o->io_rates.v);
	devices_free(o->devices);
	netopts_release(&o->net);
	json_decref(o->labels);
	if (o->has_custom)
		seccomp_profile_release(&o->custom);
	memset(o, 0, sizeof(*o));
}

static int keep(struct runopts *o, char *s, struct err *e)
{
	if (push(&o->owned, s, e) < 0) {
		free(s);
		return -1;
	}
	return 0;
}

static int own_env(struct runopts *o, char *entry, struct err *e)
{
	return !entry || keep(o, entry, e) < 0 ? -1 : push(&o->env, entry, e);
}

static int add_env_line(void *ctx, const char *line, struct err *e)
{
	struct runopts *o = ctx;
	char *own = strdup(line);

	return own ? own_env(o, own, e) : err_nomem(e);
}

static int add_label(void *ctx, const char *text, struct err *e)
{
	struct runopts *o = ctx;

	return labels_add(&o->labels, text, e);
}

static int size_or_unlimited(const char *v, const char *what, uint64_t min, uint64_t *ret, struct err *e)
{
	if (!strcmp(v, "unlimited")) {
		*ret = CGROUP_UNLIMITED;
		return 0;
	}
	return num_size(v, what, min, 1ULL << 60, ret, e);
}

static int set_network(struct runopts *o, int id, const char *v, struct err *e)
{
	switch (id) {
	case RUNOPT_NETWORK:
		o->network_set = 1;
		return netopts_mode(&o->net, v, &o->spec.network, e);
	case RUNOPT_ADD_HOST:
		return netopts_host(&o->net, v, e);
	case RUNOPT_ALIAS:
		return netopts_alias(&o->net, v, e);
	case RUNOPT_NETWORK_BYTES:
		return netopts_set(&o->net, NETOPTS_BYTES, v, e);
	case RUNOPT_NETWORK_CONNECTIONS:
		return netopts_set(&o->net, NETOPTS_CONNECTIONS, v, e);
	case RUNOPT_NETWORK_RATE:
		return netopts_set(&o->net, NETOPTS_RATE, v, e);
	default:
		return netopts_add(&o->net, id == RUNOPT_ALLOW_HOST ? NETOPTS_ALLOW_HOST : id == RUNOPT_DENY_HOST ? NETOPTS_DENY_HOST :
				   id == RUNOPT_ALLOW_NET ? NETOPTS_ALLOW_NET : id == RUNOPT_DENY_NET ? NETOPTS_DENY_NET :
				   id == RUNOPT_DNS ? NETOPTS_DNS : NETOPTS_PUBLISH, v, e);
	}
}

static int set_time(const char *v, const char *name, uint64_t *ret_ms, int *ret_given,
		    struct err *e)
{
	if (num_duration_ms(v, name, 366ULL * 86400000, ret_ms, e) < 0)
		return -1;
	*ret_given = 1;
	return 0;
}

static int set_limit(struct runopts *o, int id, const char *v, struct err *e)
{
	struct spec *s = &o->spec;
	struct rlimits one = { 0 };
	struct limitopts_io rate;
	size_t i;

	switch (id) {
	case RUNOPT_MEMORY:
		return size_or_unlimited(v, "memory", 512 << 10, &s->limits.memory_bytes, e);
	case RUNOPT_SWAP:
		return size_or_unlimited(v, "swap", 0, &s->limits.swap_bytes, e);
	case RUNOPT_CPUS:
		if (!strcmp(v, "unlimited"))
			return s->limits.cpu_milli = CGROUP_UNLIMITED, 0;
		return num_milli(v, "cpus", 10, 4096000, &s->limits.cpu_milli, e);
	case RUNOPT_CPU_TIME:
		return num_duration_ms(v, "cpu-time", 366ULL * 86400000, &s->cpu_time_ms, e);
	case RUNOPT_CPU_WEIGHT:
		return num_u64(v, "cpu-weight", 1, 10000, &s->limits.cpu_weight, e);
	case RUNOPT_CPUSET:
		return limitopts_cpuset(v, &s->limits, e);
	case RUNOPT_IO_WEIGHT:
		return num_u64(v, "io-weight", 1, 10000, &s->limits.io_weight, e);
	case RUNOPT_IO_RATE:
		return limitopts_io_parse(v, &rate, e) < 0 ? -1 : push(&o->io_rates, v, e);
	case RUNOPT_PIDS:
		if (!strcmp(v, "unlimited"))
			return s->limits.pids = CGROUP_UNLIMITED, 0;
		return num_u64(v, "pids", 2, 4194304, &s->limits.pids, e);
	case RUNOPT_DISK:
		return num_size(v, "disk", 1 << 20, 1ULL << 50, &s->disk_bytes, e);
	case RUNOPT_DISK_INODES:
		o->inodes_set = 1;
		return num_u64(v, "disk-inodes", 64, 1ULL << 31, &s->disk_inodes, e);
	case RUNOPT_TMP_SIZE:
		return num_size(v, "tmp-size", 4096, 1ULL << 50, &s->tmp_bytes, e);
	case RUNOPT_SHM_SIZE:
		return num_size(v, "shm-size", 4096, 1ULL << 50, &s->shm_bytes, e);
	case RUNOPT_TIMEOUT:
		return set_time(v, "timeout", &s->timeout_ms, &s->timeout_given, e);
	case RUNOPT_MAX_SILENT:
		return set_time(v, "max-silent-time", &s->max_silent_ms, &s->max_silent_given, e);
	case RUNOPT_GRACE:
		return num_duration_ms(v, "grace", 86400000, &s->grace_ms, e);
	default:
		if (rlimits_parse(&one, v, e) < 0)
			return -1;
		for (i = 0; i < RLIMITS_COUNT; i++)
			if (one.set & 1u << i)
				s->rlimits.v[i] = one.v[i];
		s->rlimits.set |= one.set;
		o->ulimits_asked |= one.set;
		return 0;
	}
}

static int add_mount(struct runopts *o, int id, const char *v, struct err *e)
{
	char *owned = NULL;
	int r = id == RUNOPT_MOUNT ? mountspec_mount(&o->spec, v, &owned, e) :
		id == RUNOPT_VOLUME ? mountspec_volume(&o->spec, v, &owned, e) :
				      mountspec_tmpfs(&o->spec, v, &owned, e);

	return r < 0 ? -1 : keep(o, owned, e);
}

static int add_device(void *ctx, const char *name, struct err *e)
{
	struct runopts *o = ctx;
	char *own = strdup(name);

	if (!own)
		return err_nomem(e);
	return keep(o, own, e) < 0 ? -1 : push(&o->device_names, own, e);
}

static int set_device(struct runopts *o, int id, const char *v, struct err *e)
{
	if (id == RUNOPT_GPUS)
		return deviceopts_gpus(v, add_device, o, e);
	return deviceopts_check(v, e) < 0 ? -1 : add_device(o, v, e);
}

int runopts_devices(struct runopts *o, struct err *e)
{
	struct spec *s = &o->spec;
	struct devices *d;
	size_t i;

	if (limitopts_io_settle(o->io_rates.v, o->io_rates.count, o->config->state_dir, &s->limits,
				e) < 0)
		return -1;
	if (!o->device_names.count)
		return 0;
	d = o->devices = calloc(1, sizeof(*d));
	if (!d)
		return err_nomem(e);
	if (deviceopts_resolve(d, o->config, o->device_names.v, o->device_names.count, e) < 0)
		return -1;
	for (i = 0; i < d->mount_count; i++) {
		if (s->mount_count == SPEC_MOUNTS_MAX)
			return err_set(e, ERR_LIMIT, "more than %d mounts", SPEC_MOUNTS_MAX);
		s->mounts[s->mount_count++] = d->mounts[i];
	}
	s->devices = d->at;
	s->device_count = d->count;
	s->limits.devices = d->may;
	s->limits.device_count = d->may_count;
	return 0;
}

static int add_caps(uint64_t *set, const char *v, struct err *e)
{
	uint64_t caps;

	if (caps_parse(v, &caps, e) < 0)
		return -1;
	*set |= caps;
	return 0;
}

int runopts_set(struct runopts *o, int id, const char *v, struct err *e)
{
	switch (id) {
	case RUNOPT_ENV:
		return own_env(o, envopts_settle(v, e), e);
	case RUNOPT_ENV_FILE:
		return envopts_file(v, add_env_line, o, e);
	case RUNOPT_LABEL:
	case RUNOPT_LABEL_FILE:
		return id == RUNOPT_LABEL ? add_label(o, v, e) : envopts_lines(v, add_label, o, e);
	case RUNOPT_WORKDIR:
		o->workdir = v;
		return v[0] == '/' ? 0 : err_set(e, ERR_INVALID, "'%.200s' must be an absolute path in the sandbox", v);
	case RUNOPT_USER:
		o->user = v;
		return v[0] ? 0 : err_set(e, ERR_INVALID, "the user is empty; hint: a name or a number");
	case RUNOPT_HOSTNAME:
		return o->spec.hostname = v, 0;
	case RUNOPT_MOUNT:
	case RUNOPT_VOLUME:
	case RUNOPT_TMPFS:
		return add_mount(o, id, v, e);
	case RUNOPT_DEVICE:
	case RUNOPT_GPUS:
		return set_device(o, id, v, e);
	case RUNOPT_NO_TMPFS:
	case RUNOPT_READ_ONLY:
		return *(id == RUNOPT_READ_ONLY ? &o->spec.read_only : &o->spec.no_tmpfs) = 1, 0;
	case RUNOPT_NETWORK:
	case RUNOPT_ADD_HOST:
	case RUNOPT_ALIAS:
	case RUNOPT_NETWORK_BYTES:
	case RUNOPT_NETWORK_CONNECTIONS:
	case RUNOPT_NETWORK_RATE:
	case RUNOPT_ALLOW_HOST:
	case RUNOPT_DENY_HOST:
	case RUNOPT_ALLOW_NET:
	case RUNOPT_DENY_NET:
	case RUNOPT_DNS:
	case RUNOPT_PUBLISH:
		return set_network(o, id, v, e);
	case RUNOPT_CAP_ADD:
	case RUNOPT_CAP_DROP:
		return add_caps(id == RUNOPT_CAP_ADD ? &o->caps_added : &o->caps_dropped, v, e);
	case RUNOPT_SECCOMP:
		return o->seccomp = v, 0;
	case RUNOPT_NAME:
		o->name = v;
		return v[0] ? 0 : err_set(e, ERR_INVALID, "the name is empty");
	case RUNOPT_TTY:
		return o->spec.tty = 1, 0;
	case RUNOPT_INTERACTIVE:
		return o->interactive = 1, 0;
	case RUNOPT_ENTRYPOINT:
		return o->entrypoint = v, 0;
	default:
		return set_limit(o, id, v, e);
	}
}

int runopts_seccomp_is_file(const char *value)
{
	return !seccomp_named(value) && (strchr(value, '/') || strstr(value, ".json"));
}

/* A built-in profile, "unconfined", or a JSON file: stacked on standard's deny-by-argument filter. */
int runopts_choose_seccomp(struct runopts *o, struct err *e)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	struct spec *s = &o->spec;
	const char *text;

	s->seccomp_name = o->seccomp;
	if (!strcmp(o->seccomp, "unconfined")) {
		s->unconfined_seccomp = 1;
		return 0;
	}
	s->seccomp = seccomp_named(o->seccomp);
	s->hide_pids = !strcmp(o->seccomp, "strict");
	if (s->seccomp)
		return 0;
	if (!runopts_seccomp_is_file(o->seccomp))
		return err_set(e, ERR_INVALID, "'%.80s' is not a seccomp profile; hint: strict, standard, dev, unconfined or "
			       "the path of a JSON file", o->seccomp);
	if (!o->seccomp_text && io_read_file(AT_FDCWD, o->seccomp, &b, e) < 0)
		return err_wrap(e, "seccomp profile %s", o->seccomp);
	text = o->seccomp_text ? o->seccomp_text : b.data ? b.data : "";
	if (seccomp_from_json(text, o->seccomp_text ? strlen(text) : b.len, s->caps, &o->custom, e) < 0)
		return err_wrap(e, "seccomp profile %s", o->seccomp);
	o->has_custom = 1;
	o->custom.a = seccomp_builtin("standard")->a;
	s->seccomp = &o->custom;
	return 0;
}

/* Later settings of a name replace earlier ones, in place. */
static int set_env(struct runopts_strings *env, const char *text, struct err *e)
{
	size_t n = strcspn(text, "=") + 1, i;

	for (i = 0; i < env->count; i++) {
		if (!strncmp(env->v[i], text, n)) {
			env->v[i] = text;
			return 0;
		}
	}
	return push(env, text, e);
}

/* HTTP for all of them: clients that lack SOCKS (httpx, requests) fail on a socks5:// here, even where they need none. */
#define PROXY_URL "http://127.0.0.1:3128"
_Static_assert(NETHELPER_PROXY_PORT == 3128, "the port in PROXY_URL");
#define MEMBER_ENV 4 /* the first: on a network, plain HTTP is what members speak to each other */
static const char *const proxy_env[] = {
	"https_proxy=" PROXY_URL, "HTTPS_PROXY=" PROXY_URL,
	"no_proxy=localhost,127.0.0.1,::1", "NO_PROXY=localhost,127.0.0.1,::1",
	"http_proxy=" PROXY_URL, "HTTP_PROXY=" PROXY_URL,
	"all_proxy=" PROXY_URL, "ALL_PROXY=" PROXY_URL,
};

/* Order: berth's own, the image's, those of the proxy, of devices, the caller's. */
static int build_env(struct runopts *o, const struct image *im, struct err *e)
{
	const size_t proxied = !spec_is_proxied(&o->spec) ? 0 :
			       spec_network_inside(&o->spec) == NETWORK_BRIDGE ? MEMBER_ENV :
			       ARRAY_LEN(proxy_env);
	char *host;
	size_t i;

	if (set_env(&o->full_env, DEFAULT_PATH, e) < 0 || set_env(&o->full_env, "PYTHONUNBUFFERED=1", e) < 0 ||
	    (o->spec.tty && set_env(&o->full_env, "TERM=xterm-256color", e) < 0))
		return -1;
	if (asprintf(&host, "HOSTNAME=%s", o->spec.hostname) < 0)
		return err_nomem(e);
	if (keep(o, host, e) < 0 || set_env(&o->full_env, host, e) < 0)
		return -1;
	for (i = 0; im && i < im->env_count; i++)
		if (set_env(&o->full_env, im->env[i], e) < 0)
			return -1;
	/* after the image's: its proxy is not there */
	for (i = 0; i < proxied; i++)
		if (set_env(&o->full_env, proxy_env[i], e) < 0)
			return -1;
	for (i = 0; o->devices && i < o->devices->env_count; i++)
		if (set_env(&o->full_env, o->devices->env[i], e) < 0)
			return -1;
	for (i = 0; i < o->env.count; i++)
		if (set_env(&o->full_env, o->env.v[i], e) < 0)
			return -1;
	o->spec.env = o->full_env.v;
	o->spec.env_count = o->full_env.count;
	return 0;
}

/* Entry point (ours replaces the image's and its Cmd), then the words given, else the image's Cmd. */
static int build_argv(struct runopts *o, const struct image *im, char **command, size_t words, struct err *e)
{
	size_t i;

	if (o->entrypoint && o->entrypoint[0] && push(&o->argv, o->entrypoint, e) < 0)
		return -1;
	for (i = 0; !o->entrypoint && im && i < im->entrypoint_count; i++)
		if (push(&o->argv, im->entrypoint[i], e) < 0)
			return -1;
	for (i = 0; i < words; i++)
		if (push(&o->argv, command[i], e) < 0)
			return -1;
	for (i = 0; !words && !o->entrypoint && im && i < im->cmd_count; i++)
		if (push(&o->argv, im->cmd[i], e) < 0)
			return -1;
	if (!o->argv.count && o->spec.host_image && push(&o->argv, "/bin/sh", e) < 0)
		return -1;
	o->spec.argv = o->argv.v;
	o->spec.argc = o->argv.count;
	return 0;
}

int runopts_finish(struct runopts *o, const struct image *im, char **command, size_t words, struct err *e)
{
	struct spec *s = &o->spec;
	uint64_t possible = 0;
	unsigned i;

	/* nobody asked for them, and on a small disk their table would leave no room */
	if (!o->inodes_set && s->disk_inodes > s->disk_bytes / DISK_BYTES_AN_INODE)
		s->disk_inodes = s->disk_bytes / DISK_BYTES_AN_INODE;
	if (o->config->network_enabled && !o->network_set)
		s->network = NETWORK_BRIDGE;
	/* without an id, as in berth run, spec_check() refuses it */
	if (!strcmp(s->hostname, HOSTNAME_ID) && s->id[0])
		s->hostname = s->id;
	if (netopts_finish(&o->net, o->config, s, e) < 0)
		return -1;
	/* capabilities the kernel does not know cannot be held or dropped */
	for (i = CAPS_LAST + 1; i-- > 0;)
		if (prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0)
			break;	/* the kernel's last; mostly the first asked for */
	possible = CAPS_ALL >> (CAPS_LAST - i);
	s->caps = o->caps_dropped == CAPS_ALL ? o->caps_added : (caps_default() | o->caps_added) & ~o->caps_dropped;
	s->caps &= possible;
	/*
	 * the name is in memory, out of a filter's reach: written there, it would give rights on
	 * the host (K16)
	 */
	if (s->caps & 1ULL << CAP_SETFCAP && spec_writes_host(s))
		return err_set(e, ERR_INVALID, "with CAP_SETFCAP a sandbox could leave programs with capabilities in a host directory that it "
			       "may write; hint: --cap-drop SETFCAP, or the volume without :rw");
	if (s->caps & 1ULL << CAP_NET_ADMIN && s->network == NETWORK_BRIDGE &&
	    netopts_has(&o->net, NETOPTS_RATE))
		return err_set(e, ERR_INVALID, "with CAP_NET_ADMIN a sandbox could remove its "
			       "--network-rate; hint: --cap-drop NET_ADMIN");
	s->workdir = o->workdir ? o->workdir : im && im->workdir[0] ? im->workdir : o->config->work_dir;
	s->user = o->user ? o->user : im && im->user[0] ? im->user : o->config->user;
	if (mountspec_owner(s, e) < 0)
		return -1;
	if (runopts_choose_seccomp(o, e) < 0 || rlimits_fit(&s->rlimits, o->ulimits_asked, e) < 0 ||
	    build_env(o, im, e) < 0)
		return -1;
	s->loosened = runopts_loosened(o);
	return build_argv(o, im, command, words, e);
}
