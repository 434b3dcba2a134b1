/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/ops/runopts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "manager/host/labels.h"
#include "manager/ops/devices.h"
#include "manager/ops/mountspec.h"
#include "manager/ops/optvalues.h"
#include "runtime/kernel/caps.h"
#include "runtime/sandbox/nethelper.h"
#include "runtime/sandbox/spec.h"

#define STRINGS_MAX 262144	/* as many arguments of two bytes as the kernel takes with a stack of 8 MiB */
#define DEFAULT_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

int runopts_push(struct runopts_strings *l, const char *s, struct err *e)
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
	o->life = (struct life)LIFE_INIT;
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

	spec_close_sources(&o->spec);
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
	json_decref(o->marks);
	json_decref(o->life.health.argv);
	free(o->life.service.words);
	if (o->has_custom)
		seccomp_profile_release(&o->custom);
	memset(o, 0, sizeof(*o));
}

int runopts_own(struct runopts *o, char *s, struct err *e)
{
	if (runopts_push(&o->owned, s, e) < 0) {
		free(s);
		return -1;
	}
	return 0;
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

int runopts_seccomp_is_file(const char *value)
{
	return !seccomp_named(value) && (strchr(value, '/') || strstr(value, ".json"));
}

/*
 * Chooses the filter: a built-in profile, "unconfined", or a JSON file, which is stacked on
 * standard's deny-by-argument filter.
 */
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

json_t *runopts_labels(const struct runopts *o, const json_t *image_labels)
{
	json_t *all = labels_with_image(o->labels, image_labels);

	if (all && o->marks)
		json_object_update(all, o->marks);
	return all;
}

void runopts_note_given(struct runopts *o, int id)
{
	o->given[id / 64] |= 1ULL << id % 64;
}

int runopts_given(const struct runopts *o, int id)
{
	return !!(o->given[id / 64] & 1ULL << id % 64);
}

/* Sets a variable; later settings of a name replace earlier ones, in place. */
static int set_run_env(struct runopts_strings *env, const char *text, struct err *e)
{
	size_t n = strcspn(text, "=") + 1, i;

	for (i = 0; i < env->count; i++) {
		if (!strncmp(env->v[i], text, n)) {
			env->v[i] = text;
			return 0;
		}
	}
	return runopts_push(env, text, e);
}

/*
 * HTTP for all of them: clients that lack SOCKS (httpx, requests) fail on a socks5:// URL here,
 * even if they do not need it.
 */
#define PROXY_URL "http://127.0.0.1:3128"
_Static_assert(NETHELPER_PROXY_PORT == 3128, "the port in PROXY_URL");
#define MEMBER_ENV 5 /* the first ones: members of a network use plain HTTP among each other */
static const char *const proxy_env[] = {
	"NODE_USE_ENV_PROXY=1", /* otherwise Node.js reads none of the others */
	"https_proxy=" PROXY_URL, "HTTPS_PROXY=" PROXY_URL,
	"no_proxy=localhost,127.0.0.1,::1", "NO_PROXY=localhost,127.0.0.1,::1",
	"http_proxy=" PROXY_URL, "HTTP_PROXY=" PROXY_URL,
	"all_proxy=" PROXY_URL, "ALL_PROXY=" PROXY_URL,
};

#define JAVA_ENV "JAVA_TOOL_OPTIONS"
#define JAVA_PROXY(scheme) "-D" scheme ".proxyHost=127.0.0.1 -D" scheme ".proxyPort=3128"

/*
 * Adds the proxy for Java, which reads only this variable; the image may use it for options of its
 * own, so ours stand after them.
 */
static int add_java(struct runopts *o, int is_member, struct err *e)
{
	const char *had = "";
	char *all;
	size_t i;

	for (i = 0; i < o->full_env.count; i++)
		if (!strncmp(o->full_env.v[i], JAVA_ENV "=", sizeof(JAVA_ENV)))
			had = o->full_env.v[i] + sizeof(JAVA_ENV);
	if (asprintf(&all, JAVA_ENV "=%s%s" JAVA_PROXY("https") "%s", had, *had ? " " : "",
		     is_member ? "" : " " JAVA_PROXY("http")) < 0)
		return err_nomem(e);
	return runopts_own(o, all, e) < 0 ? -1 : set_run_env(&o->full_env, all, e);
}

/* Tells whether it is a Docker container, to which Docker adds no such variables; TERM goes with each terminal. */
static int is_docker_container(const struct runopts *o)
{
	const char *face = json_string_value(json_object_get(o->marks, LABEL_FACE));

	return face && !strcmp(face, "docker");
}

/*
 * Builds the environment in this order: berth's own, the image's, the proxy's, those of devices,
 * the caller's.
 */
static int build_run_env(struct runopts *o, const struct image *im, struct err *e)
{
	const size_t proxied = !spec_is_proxied(&o->spec) ? 0 :
			       spec_network_inside(&o->spec) == NETWORK_BRIDGE ? MEMBER_ENV :
			       ARRAY_LEN(proxy_env);
	char *host;
	size_t i;

	if (set_run_env(&o->full_env, DEFAULT_PATH, e) < 0 ||
	    (!is_docker_container(o) && set_run_env(&o->full_env, "PYTHONUNBUFFERED=1", e) < 0) ||
	    (o->spec.tty && !is_docker_container(o) && set_run_env(&o->full_env, "TERM=xterm-256color", e) < 0))
		return -1;
	if (asprintf(&host, "HOSTNAME=%s", o->spec.hostname) < 0)
		return err_nomem(e);
	if (runopts_own(o, host, e) < 0 || set_run_env(&o->full_env, host, e) < 0)
		return -1;
	for (i = 0; im && i < im->env_count; i++)
		if (set_run_env(&o->full_env, im->env[i], e) < 0)
			return -1;
	/* after the image's, whose proxy does not exist here */
	for (i = 0; i < proxied; i++)
		if (set_run_env(&o->full_env, proxy_env[i], e) < 0)
			return -1;
	if (proxied && add_java(o, proxied == MEMBER_ENV, e) < 0)
		return -1;
	for (i = 0; o->devices && i < o->devices->env_count; i++)
		if (set_run_env(&o->full_env, o->devices->env[i], e) < 0)
			return -1;
	for (i = 0; i < o->env.count; i++)
		if (set_run_env(&o->full_env, o->env.v[i], e) < 0)
			return -1;
	o->spec.env = o->full_env.v;
	o->spec.env_count = o->full_env.count;
	return 0;
}

/*
 * Builds the command: the entry point (ours replaces the image's and its Cmd), then the given
 * words, else the image's Cmd.
 */
static int build_argv(struct runopts *o, const struct image *im, char **command, size_t words, struct err *e)
{
	size_t i;

	if (o->entrypoint && o->entrypoint[0] && runopts_push(&o->argv, o->entrypoint, e) < 0)
		return -1;
	for (i = 0; !o->entrypoint && im && i < im->entrypoint_count; i++)
		if (runopts_push(&o->argv, im->entrypoint[i], e) < 0)
			return -1;
	for (i = 0; i < words; i++)
		if (runopts_push(&o->argv, command[i], e) < 0)
			return -1;
	for (i = 0; !words && !o->entrypoint && im && i < im->cmd_count; i++)
		if (runopts_push(&o->argv, im->cmd[i], e) < 0)
			return -1;
	if (!o->argv.count && o->spec.host_image && runopts_push(&o->argv, "/bin/sh", e) < 0)
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

	/* not requested, and on a small disk their table would leave no room */
	if (!runopts_given(o, PARAM_DISK_INODES) && s->disk_inodes > s->disk_bytes / DISK_BYTES_AN_INODE)
		s->disk_inodes = s->disk_bytes / DISK_BYTES_AN_INODE;
	if (o->config->network_enabled && !runopts_given(o, PARAM_NETWORK))
		s->network = NETWORK_BRIDGE;
	/* without an id, as in berth run, spec_check() refuses it */
	if (!strcmp(s->hostname, HOSTNAME_ID) && s->id[0])
		s->hostname = s->id;
	if (netopts_finish(&o->net, o->config, s, e) < 0)
		return -1;
	/* capabilities the kernel does not know cannot be held or dropped */
	for (i = CAPS_LAST + 1; i-- > 0;)
		if (prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0)
			break;	/* past the kernel's last one; mostly the first call already */
	possible = CAPS_ALL >> (CAPS_LAST - i);
	s->caps = o->caps_dropped == CAPS_ALL ? o->caps_added : (caps_default() | o->caps_added) & ~o->caps_dropped;
	s->caps &= possible;
	/*
	 * the attribute's name is in memory, out of a filter's reach: written there, it would give
	 * rights on the host (K16)
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
	s->cgroup_v1 = s->cgroup_files ? cgroup_shown(&s->limits) : 0;
	if (mountspec_owner(s, e) < 0)
		return -1;
	if (runopts_choose_seccomp(o, e) < 0 || rlimits_fit(&s->rlimits, o->ulimits_asked, e) < 0 ||
	    build_run_env(o, im, e) < 0)
		return -1;
	s->loosened = runopts_loosened(o);
	return build_argv(o, im, command, words, e);
}

/* ---- protections that are removed ---- */

/*
 * The protections that the given options remove: collected once all options are read, and
 * reported once.
 */

#define TEXT_MAX 4096

static uint32_t bit(enum loosened which, int is)
{
	return is ? 1u << which : 0;
}

static int more_unlimited(uint64_t has, uint64_t usual)
{
	return has == CGROUP_UNLIMITED && usual != CGROUP_UNLIMITED;
}

/* Compares profiles: strict < standard < dev; the rank of a file is unknown. */
static int is_looser(const char *profile, const char *usual)
{
	static const char *const order[] = { "strict", "standard", "dev" };
	size_t has = 0, had = 0;

	while (has < ARRAY_LEN(order) && strcmp(profile, order[has]))
		has++;
	while (had < ARRAY_LEN(order) && strcmp(usual, order[had]))
		had++;
	return has == ARRAY_LEN(order) ? strcmp(profile, usual) != 0 : has > had;
}

uint32_t runopts_loosened(const struct runopts *o)
{
	const struct spec *s = &o->spec;
	const struct config *c = o->config;
	uint32_t set = bit(LOOSE_NETWORK, s->network == NETWORK_HOST) | bit(LOOSE_CAPS, (s->caps & ~caps_default()) != 0) |
		       bit(LOOSE_CONNECTIONS, s->network == NETWORK_BRIDGE && netopts_is_unlimited(&o->net, NETOPTS_CONNECTIONS)) |
		       bit(LOOSE_MEMORY, more_unlimited(s->limits.memory_bytes, c->memory_bytes)) |
		       bit(LOOSE_SWAP, more_unlimited(s->limits.swap_bytes, c->swap_bytes)) |
		       bit(LOOSE_CPUS, more_unlimited(s->limits.cpu_milli, c->cpu_milli)) |
		       bit(LOOSE_DEVICES, o->device_names.count > 0) |
		       bit(LOOSE_PIDS, more_unlimited(s->limits.pids, c->pids));

	if (s->unconfined_seccomp)
		return set | bit(LOOSE_SECCOMP, strcmp(c->seccomp, "unconfined") != 0);
	return set | bit(LOOSE_PROFILE, strcmp(c->seccomp, "unconfined") && is_looser(o->seccomp, c->seccomp));
}

void runopts_tell(const struct runopts *o, const char *prog)
{
	autobuf struct buf b = BUF_INIT(TEXT_MAX);
	struct err ignored;

	if (netopts_is_unrouted(&o->net, o->config, &o->spec))
		log_note(prog, "this host does not forward IPv4 (net.ipv4.ip_forward is 0), so the sandbox has no way out; hint: sysctl "
			       "net.ipv4.ip_forward=1, or [network] forwarding = true in berth.toml");

	if (o->spec.loosened && loosen_text(o->spec.loosened, &b, &ignored) == 0)
		log_note(prog, "less confined than by default: %s", b.data);
}
