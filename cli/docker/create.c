/* SPDX-License-Identifier: Apache-2.0 */
/* docker create and run. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/docker/verbs.h"
#include "cli/live/lifecycle.h"
#include "cli/live/resident.h"
#include "manager/engine/host.h"
#include "manager/engine/image.h"
#include "manager/engine/links.h"
#include "manager/engine/name.h"
#include "manager/engine/objects.h"
#include "manager/host/conf.h"
#include "manager/host/registry.h"
#include "manager/host/volume.h"
#include "manager/ops/call.h"
#include "rootfs/store/ref.h"

/* ---- flags ---- */

/*
 * The flags of docker run and docker create, each with what becomes of it here: taken, accepted
 * and ignored, or refused with the words behind it.
 */

#define NO_LIMIT "sandboxes have no such limit, and one that does not hold is not taken"

/* Those of run alone stand last. */
#define RUN_ONLY 3
#define NAME_TRIES 100	/* for a name whose container has gone each time */
#define NAME_LOOK_MS 20
static const struct opt options[] = {
	{ "add-host", 0, OPT_LIST, "list", "Add a custom host-to-IP mapping (host:ip)",
	  DOOR_TAKEN },
	{ "annotation", 0, OPT_LIST, "map", "Add an annotation to the container", DOOR_IGNORED },
	{ "attach", 'a', OPT_LIST, "list", "Attach to STDIN, STDOUT or STDERR", DOOR_TAKEN },
	{ "blkio-weight", 0, OPT_VALUE, "uint16", "Block IO (relative weight), 10 to 1000",
	  DOOR_TAKEN },
	{ "blkio-weight-device", 0, OPT_LIST, "list", "Block IO weight (relative device weight)",
	  DOOR_REFUSED, COMPLETE_NONE, "--blkio-weight is of every device" },
	{ "cap-add", 0, OPT_LIST, "list", "Add Linux capabilities", DOOR_TAKEN },
	{ "cap-drop", 0, OPT_LIST, "list", "Drop Linux capabilities", DOOR_TAKEN },
	{ "cgroup-parent", 0, OPT_VALUE, "string", "Optional parent cgroup for the container",
	  DOOR_REFUSED, COMPLETE_NONE,
	  "[cgroup] parent in berth.toml names it for all" },
	{ "cgroupns", 0, OPT_VALUE, "string", "Cgroup namespace to use: private", DOOR_TAKEN },
	{ "cidfile", 0, OPT_VALUE, "string", "Write the container ID to the file",
	  DOOR_TAKEN, COMPLETE_FILE },
	{ "cpu-count", 0, OPT_VALUE, "int", "CPU count (Windows only)", DOOR_IGNORED },
	{ "cpu-percent", 0, OPT_VALUE, "int", "CPU percent (Windows only)", DOOR_IGNORED },
	{ "cpu-period", 0, OPT_VALUE, "int", "Limit CPU CFS (Completely Fair Scheduler) period",
	  DOOR_TAKEN },
	{ "cpu-quota", 0, OPT_VALUE, "int", "Limit CPU CFS (Completely Fair Scheduler) quota",
	  DOOR_TAKEN },
	{ "cpu-rt-period", 0, OPT_VALUE, "int", "Limit CPU real-time period in microseconds",
	  DOOR_REFUSED, COMPLETE_NONE, NO_LIMIT },
	{ "cpu-rt-runtime", 0, OPT_VALUE, "int", "Limit CPU real-time runtime in microseconds",
	  DOOR_REFUSED, COMPLETE_NONE, NO_LIMIT },
	{ "cpu-shares", 'c', OPT_VALUE, "int", "CPU shares (relative weight)", DOOR_TAKEN },
	{ "cpus", 0, OPT_VALUE, "decimal", "Number of CPUs", DOOR_TAKEN },
	{ "cpuset-cpus", 0, OPT_VALUE, "string", "CPUs in which to allow execution (0-3, 0,1)",
	  DOOR_TAKEN },
	{ "cpuset-mems", 0, OPT_VALUE, "string", "MEMs in which to allow execution (0-3, 0,1)",
	  DOOR_REFUSED, COMPLETE_NONE, NO_LIMIT },
	{ "device", 0, OPT_LIST, "list", "Add a host device to the container", DOOR_TAKEN },
	{ "device-cgroup-rule", 0, OPT_LIST, "list",
	  "Add a rule to the cgroup allowed devices list",
	  DOOR_REFUSED, COMPLETE_NONE,
	  "--device names what it may use" },
	{ "device-read-bps", 0, OPT_LIST, "list",
	  "Limit read rate (bytes per second) from a device",
	  DOOR_TAKEN },
	{ "device-read-iops", 0, OPT_LIST, "list",
	  "Limit read rate (IO per second) from a device",
	  DOOR_TAKEN },
	{ "device-write-bps", 0, OPT_LIST, "list",
	  "Limit write rate (bytes per second) to a device",
	  DOOR_TAKEN },
	{ "device-write-iops", 0, OPT_LIST, "list",
	  "Limit write rate (IO per second) to a device",
	  DOOR_TAKEN },
	{ "disable-content-trust", 0, OPT_FLAG, NULL, "Skip image verification", DOOR_IGNORED },
	{ "dns", 0, OPT_LIST, "list", "Set custom DNS servers", DOOR_TAKEN },
	{ "dns-option", 0, OPT_LIST, "list", "Set DNS options", DOOR_TAKEN },
	{ "dns-opt", 0, OPT_LIST, "list", "Set DNS options", DOOR_TAKEN },
	{ "dns-search", 0, OPT_LIST, "list", "Set custom DNS search domains", DOOR_TAKEN },
	{ "domainname", 0, OPT_VALUE, "string", "Container NIS domain name", DOOR_TAKEN },
	{ "entrypoint", 0, OPT_VALUE, "string", "Overwrite the default ENTRYPOINT of the image",
	  DOOR_TAKEN },
	{ "env", 'e', OPT_LIST, "list", "Set environment variables", DOOR_TAKEN },
	{ "env-file", 0, OPT_LIST, "list", "Read in a file of environment variables",
	  DOOR_TAKEN, COMPLETE_FILE },
	{ "expose", 0, OPT_LIST, "list", "Expose a port or a range of ports", DOOR_TAKEN },
	{ "gpus", 0, OPT_VALUE, "gpu-request",
	  "GPU devices to add to the container ('all' to pass all GPUs)",
	  DOOR_TAKEN },
	{ "group-add", 0, OPT_LIST, "list", "Add additional groups to join", DOOR_TAKEN },
	{ "health-cmd", 0, OPT_VALUE, "string", "Command to run to check health", DOOR_TAKEN },
	{ "health-interval", 0, OPT_VALUE, "duration",
	  "Time between running the check (ms|s|m|h)",
	  DOOR_TAKEN },
	{ "health-retries", 0, OPT_VALUE, "int",
	  "Consecutive failures needed to report unhealthy",
	  DOOR_TAKEN },
	{ "health-start-interval", 0, OPT_VALUE, "duration",
	  "Time between running the check during the start period (ms|s|m|h)",
	  DOOR_TAKEN },
	{ "health-start-period", 0, OPT_VALUE, "duration",
	  "Start period for the container to initialize before failures count (ms|s|m|h)",
	  DOOR_TAKEN },
	{ "health-timeout", 0, OPT_VALUE, "duration",
	  "Maximum time to allow one check to run (ms|s|m|h)",
	  DOOR_TAKEN },
	{ "hostname", 'h', OPT_VALUE, "string", "Container host name", DOOR_TAKEN },
	{ "init", 0, OPT_FLAG, NULL, "Run an init inside the container: there always is one",
	  DOOR_TAKEN },
	{ "interactive", 'i', OPT_FLAG, NULL, "Keep STDIN open even if not attached",
	  DOOR_TAKEN },
	{ "io-maxbandwidth", 0, OPT_VALUE, "bytes",
	  "Maximum IO bandwidth limit for the system drive (Windows only)",
	  DOOR_IGNORED },
	{ "io-maxiops", 0, OPT_VALUE, "uint",
	  "Maximum IOps limit for the system drive (Windows only)",
	  DOOR_IGNORED },
	{ "ip", 0, OPT_VALUE, "string", "IPv4 address (e.g., 172.30.100.104)", DOOR_TAKEN },
	{ "ip6", 0, OPT_VALUE, "string", "IPv6 address (e.g., 2001:db8::33)", DOOR_TAKEN },
	{ "ipc", 0, OPT_VALUE, "string", "IPC mode to use: private", DOOR_TAKEN },
	{ "isolation", 0, OPT_VALUE, "string", "Container isolation technology (Windows only)",
	  DOOR_IGNORED },
	{ "kernel-memory", 0, OPT_VALUE, "bytes", "Kernel memory limit",
	  DOOR_REFUSED, COMPLETE_NONE,
	  "--memory counts the kernel's, too" },
	{ "label", 'l', OPT_LIST, "list", "Set meta data on a container", DOOR_TAKEN },
	{ "label-file", 0, OPT_LIST, "list", "Read in a line delimited file of labels",
	  DOOR_TAKEN, COMPLETE_FILE },
	{ "link", 0, OPT_LIST, "list", "Add link to another container", DOOR_TAKEN },
	{ "link-local-ip", 0, OPT_LIST, "list", "Container IPv4/IPv6 link-local addresses",
	  DOOR_REFUSED, COMPLETE_NONE,
	  "berth chooses the addresses of a network" },
	{ "log-driver", 0, OPT_VALUE, "string",
	  "Logging driver for the container: json-file, local or none",
	  DOOR_TAKEN },
	{ "log-opt", 0, OPT_LIST, "list", "Log driver options; [manager] log_size is the bound",
	  DOOR_TAKEN },
	{ "mac-address", 0, OPT_VALUE, "string",
	  "Container MAC address (e.g., 92:d0:c6:0a:29:33)", DOOR_TAKEN },
	{ "memory", 'm', OPT_VALUE, "bytes", "Memory limit", DOOR_TAKEN },
	{ "memory-reservation", 0, OPT_VALUE, "bytes", "Memory soft limit", DOOR_TAKEN },
	{ "memory-swap", 0, OPT_VALUE, "bytes",
	  "Swap limit equal to memory plus swap: '-1' to enable unlimited swap",
	  DOOR_TAKEN },
	{ "memory-swappiness", 0, OPT_VALUE, "int", "Tune container memory swappiness (0 to 100)",
	  DOOR_TAKEN },
	{ "mount", 0, OPT_LIST, "mount", "Attach a filesystem mount to the container",
	  DOOR_TAKEN },
	{ "name", 0, OPT_VALUE, "string", "Assign a name to the container", DOOR_TAKEN },
	{ "network", 0, OPT_LIST, "network", "Connect a container to a network", DOOR_TAKEN },
	{ "net", 0, OPT_LIST, "network", "Connect a container to a network", DOOR_TAKEN },
	{ "network-alias", 0, OPT_LIST, "list", "Add network-scoped alias for the container",
	  DOOR_TAKEN },
	{ "net-alias", 0, OPT_LIST, "list", "Add network-scoped alias for the container",
	  DOOR_TAKEN },
	{ "no-healthcheck", 0, OPT_FLAG, NULL, "Disable any container-specified HEALTHCHECK",
	  DOOR_TAKEN },
	{ "oom-kill-disable", 0, OPT_FLAG, NULL, "Disable OOM Killer",
	  DOOR_REFUSED, COMPLETE_NONE,
	  "a container over its memory limit is ended" },
	{ "oom-score-adj", 0, OPT_VALUE, "int", "Tune host's OOM preferences (-1000 to 1000)",
	  DOOR_TAKEN },
	{ "pid", 0, OPT_VALUE, "string", "PID namespace to use: its own", DOOR_TAKEN },
	{ "pids-limit", 0, OPT_VALUE, "int", "Tune container pids limit (set -1 for unlimited)",
	  DOOR_TAKEN },
	{ "platform", 0, OPT_VALUE, "string", "Set platform if server is multi-platform capable",
	  DOOR_TAKEN },
	{ "privileged", 0, OPT_FLAG, NULL,
	  "Give extended privileges to this container: what [docker] allow grants",
	  DOOR_TAKEN },
	{ "publish", 'p', OPT_LIST, "list", "Publish a container's port(s) to the host",
	  DOOR_TAKEN },
	{ "publish-all", 'P', OPT_FLAG, NULL, "Publish all exposed ports to random ports",
	  DOOR_TAKEN },
	{ "pull", 0, OPT_VALUE, "string",
	  "Pull image before running (\"always\", \"missing\", \"never\") (default \"missing\")",
	  DOOR_TAKEN, COMPLETE_WORDS,
	  "always missing never" },
	{ "quiet", 'q', OPT_FLAG, NULL, "Suppress the pull output", DOOR_TAKEN },
	{ "read-only", 0, OPT_FLAG, NULL, "Mount the container's root filesystem as read only",
	  DOOR_TAKEN },
	{ "restart", 0, OPT_VALUE, "string",
	  "Restart policy to apply when a container exits (default \"no\")",
	  DOOR_TAKEN },
	{ "rm", 0, OPT_FLAG, NULL, "Automatically remove the container when it exits",
	  DOOR_TAKEN },
	{ "runtime", 0, OPT_VALUE, "string",
	  "Runtime to use for this container: it is always berth",
	  DOOR_IGNORED },
	{ "security-opt", 0, OPT_LIST, "list", "Security Options", DOOR_TAKEN },
	{ "shm-size", 0, OPT_VALUE, "bytes", "Size of /dev/shm", DOOR_TAKEN },
	{ "stop-signal", 0, OPT_VALUE, "string", "Signal to stop the container", DOOR_TAKEN },
	{ "stop-timeout", 0, OPT_VALUE, "int", "Timeout (in seconds) to stop a container",
	  DOOR_TAKEN },
	{ "storage-opt", 0, OPT_LIST, "list",
	  "Storage driver options for the container: size=SIZE, which holds",
	  DOOR_TAKEN },
	{ "sysctl", 0, OPT_LIST, "map", "Sysctl options", DOOR_TAKEN },
	{ "tmpfs", 0, OPT_LIST, "list", "Mount a tmpfs directory", DOOR_TAKEN },
	{ "tty", 't', OPT_FLAG, NULL, "Allocate a pseudo-TTY", DOOR_TAKEN },
	{ "ulimit", 0, OPT_LIST, "ulimit", "Ulimit options", DOOR_TAKEN },
	{ "use-api-socket", 0, OPT_FLAG, NULL, "Bind mount Docker API socket and required auth",
	  DOOR_REFUSED, COMPLETE_NONE,
	  "a socket of the host's is never given to a container" },
	{ "user", 'u', OPT_VALUE, "string", "Username or UID (format: <name|uid>[:<group|gid>])",
	  DOOR_TAKEN },
	{ "userns", 0, OPT_VALUE, "string", "User namespace to use: its own", DOOR_TAKEN },
	{ "uts", 0, OPT_VALUE, "string", "UTS namespace to use: its own", DOOR_TAKEN },
	{ "volume", 'v', OPT_LIST, "list", "Bind mount a volume", DOOR_TAKEN },
	{ "volume-driver", 0, OPT_VALUE, "string",
	  "Optional volume driver for the container: local",
	  DOOR_IGNORED },
	{ "volumes-from", 0, OPT_LIST, "list", "Mount volumes from the specified container(s)",
	  DOOR_TAKEN },
	{ "workdir", 'w', OPT_VALUE, "string", "Working directory inside the container",
	  DOOR_TAKEN },
	{ "detach", 'd', OPT_FLAG, NULL, "Run container in background and print container ID",
	  DOOR_TAKEN },
	{ "detach-keys", 0, OPT_VALUE, "string",
	  "Override the key sequence for detaching a container",
	  DOOR_TAKEN },
	{ "sig-proxy", 0, OPT_FLAG, NULL, "Proxy received signals to the process (default true)",
	  DOOR_TAKEN },
};

const struct command door_run = {
	.name = "run",
	.args = "[OPTIONS] IMAGE [COMMAND] [ARG...]",
	.summary = "Create and run a new container from an image",
	.opts = options,
	.opt_count = ARRAY_LEN(options),
	.complete = COMPLETE_IMAGE,
	.run = door_run_main,
	.flags = DOOR_FLAGS_FIRST,
};

const struct command door_create = {
	.name = "create",
	.args = "[OPTIONS] IMAGE [COMMAND] [ARG...]",
	.summary = "Create a new container",
	.opts = options,
	.opt_count = ARRAY_LEN(options) - RUN_ONLY,
	.complete = COMPLETE_IMAGE,
	.run = door_create_main,
	.flags = DOOR_FLAGS_FIRST,
};

/* ---- create and run ---- */

/* ---- make ------------------------------------------------------------------------------------ */

/* [docker] allow and binds are the operator's word for either door; without a file nothing is allowed.  binds has CONF_BINDS_MAX bytes. */
static int rules_of(const struct config *c, char *binds, struct engine_rules *ret, struct err *e)
{
	autofree struct conf *conf = NULL;
	unsigned allow = 0;

	binds[0] = '\0';
	if (c->file[0]) {
		conf = calloc(1, sizeof(*conf));
		if (!conf)
			return err_nomem(e);
		if (conf_load(conf, c, e) < 0)
			return -1;
		allow = engine_host_allow(conf->docker_allow);
		memcpy(binds, conf->docker_binds, CONF_BINDS_MAX);
	}
	engine_host_rules(c, allow, binds, ret);
	return 0;
}

/* As the client of a daemon does: what is missing is fetched, and said on stderr. */
static int have_image(const struct door_args *a, const struct config *c, struct err *e)
{
	const char *image = a->words[0], *pull = door_value(a, "pull");
	const int always = pull && !strcmp(pull, "always"), quiet = door_on(a, "quiet");
	char room[400];
	struct ref ref;
	int r;

	if (pull && !always && strcmp(pull, "missing") && strcmp(pull, "never"))
		return err_set(e, ERR_INVALID,
			       "invalid pull option: '%.40s': must be one of "
			       "\"always\", \"missing\" or \"never\"",
			       pull);
	if (strncmp(image, "sha256:", 7) && ref_parse(image, &ref, e) < 0)
		return err_set(e, ERR_INVALID, "invalid reference format");
	if (always && strcmp(image, "host"))
		return door_fetch(image, door_value(a, "platform"), quiet, e);
	r = engine_host_image(c, image, e);
	if (r == 0 || e->code != ERR_NOT_FOUND || (pull && !strcmp(pull, "never")))
		return r;
	if (!quiet)
		door_say(0, "Unable to find image '%s' locally",
			 engine_image_tagged(image, room, sizeof(room)));
	return door_fetch(image, door_value(a, "platform"), quiet, e);
}

static void tell_warnings(const struct engine_create *c)
{
	const json_t *one;
	size_t i;

	json_array_foreach (c->warnings, i, one)
		door_say(0, "WARNING: %s", json_string_value(one));
}

static char **argv_of_words(const json_t *words)
{
	const size_t n = json_array_size(words);
	char **argv = calloc(n + 1, sizeof(*argv));
	size_t i;

	for (i = 0; argv && i < n; i++)
		argv[i] = (char *)(size_t)json_string_value(json_array_get(words, i));
	return argv;
}

/* --cidfile must not be there before, and has the whole id. */
static int write_cidfile(const char *path, const char *id, struct err *e)
{
	autoclose int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd < 0)
		return err_sys(e, "container ID file %s", path);
	return io_write_all(fd, id, strlen(id)) < 0 ? err_sys(e, "write %s", path) : 0;
}

static int check_cidfile(const char *path, struct err *e)
{
	struct stat st;

	return path && !lstat(path, &st) ?
		       err_set(e, ERR_EXISTS,
			       "container ID file found, make sure the other container "
			       "isn't running or delete %.200s",
			       path) :
		       0;
}

struct making {
	const struct door_args *a;
	struct sandbox_ref *s;
	struct engine_create *c;
	json_t *body;
};

/* What is beside the sandbox is there before anybody can see it, or it runs. */
static int put_beside(void *ctx, const struct claim *claim, struct err *e)
{
	const struct making *m = ctx;
	const char *cidfile = door_value(m->a, "cidfile");
	char id[ENGINE_ID];

	if (engine_host_write(&m->s->registry, claim->id, m->c, m->body, e) < 0 ||
	    engine_links_tell(&m->s->registry, claim->id, m->c->linked, e) < 0)
		return -1;
	tell_warnings(m->c);
	if (!cidfile)
		return 0;
	engine_id(claim->id, id);
	return write_cidfile(cidfile, id, e);
}

/* On its other networks before it starts; else nothing of it is left. */
static int join_further_networks(struct sandbox_ref *s, const struct engine_create *c, struct err *e)
{
	struct err ignored;
	json_t *join;
	size_t i;

	json_array_foreach (c->joins, i, join) {
		json_t *call = json_deep_copy(join);
		autojson json_t *said = NULL;

		call_operand(call, s->id);
		said = door_ask(call, e);
		if (!said) {
			lifecycle_remove(&s->registry, s->id, 1, &ignored);
			return -1;
		}
	}
	return 0;
}

static int make_container_sandbox(struct making *m, int starts, struct err *e)
{
	const struct engine_berth asker = door_berth(NULL);
	const char *name = door_value(m->a, "name");
	struct resident_whose whose = {
		.tenant = "",
		.no_start = 1,
		.awaited = !door_on(m->a, "detach"),
		.fill = put_beside,
		.ctx = m,
	};
	autofree char **words = NULL;
	int r, tries = 0;

	/* the image comes first: its volumes and its directory are read, too */
	if (engine_create_name(m->c, name ? name : "", e) < 0 ||
	    have_image(m->a, &m->s->config, e) < 0 || engine_create_read(m->c, m->body, e) < 0 ||
	    engine_host_directories(m->c->directories, e) < 0 ||
	    engine_volumes_make(&asker, m->c->volumes, 0, e) < 0 ||
	    engine_volumes_make(&asker, m->c->anonymous, 1, e) < 0)
		return -1;
	words = argv_of_words(m->c->words);
	if (!words)
		return err_nomem(e);
	whose.name = m->c->name;
	whose.no_start = !starts || json_array_size(m->c->joins);
	while ((r = lifecycle_create(m->s, &whose, words, e)) < 0 && m->c->called[0] && e->code == ERR_EXISTS && tries++ < NAME_TRIES)
		/* what had the name may have gone since */
		if (engine_host_name_taken(&m->s->registry, m->c->called, e) < 0 || poll(NULL, 0, NAME_LOOK_MS) < 0)
			return -1;
	if (r == 0)
		r = join_further_networks(m->s, m->c, e);
	if (r < 0)
		engine_network_missing(e);
	return r;
}

static void warn_of_local_resolver(const struct door_args *a)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)door_list(a, "dns"), i, one)
		if (!strncmp(json_string_value(one), "127.", 4) || !strcmp(json_string_value(one), "::1")) {
			door_say(0, "WARNING: Localhost DNS setting (--dns=%.60s) may fail in containers.", json_string_value(one));
			return;
		}
}

/* starts: nothing is left of it if it cannot be started. */
static int create_docker_container(const struct door_args *a, struct sandbox_ref *s, int starts, json_t **ret_body,
		  struct err *e)
{
	const struct engine_berth asker = door_berth(NULL);
	struct engine_create c = { 0 };
	struct making m = { a, s, &c, NULL };
	char binds[CONF_BINDS_MAX];
	autojson json_t *others = NULL, *links = NULL;
	struct engine_rules rules;
	int r;

	warn_of_local_resolver(a);
	m.body = *ret_body = door_body(a, e);
	if (!*ret_body || check_cidfile(door_value(a, "cidfile"), e) < 0 ||
	    sandbox_ref_registry(s, e) < 0 || rules_of(&s->config, binds, &rules, e) < 0)
		return -1;
	others = engine_load_others(&s->registry, *ret_body, e);
	links = others ? engine_links_read(&s->registry, *ret_body, e) : NULL;
	r = links && engine_check_modes(&s->registry, *ret_body, e) == 0 ? engine_create_init(&c, &rules, e) : -1;
	c.others = others;
	c.links = links;
	/* nothing is left of a container that could not be made */
	if (r == 0 && (r = make_container_sandbox(&m, starts, e)) < 0)
		engine_volumes_drop(&asker, c.anonymous);
	engine_create_release(&c);
	return r;
}

/* ---- run ------------------------------------------------------------------------------------- */

static int said_to(const struct door_args *a, const char *stream)
{
	const json_t *list = door_list(a, "attach"), *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, one)
		if (!strcasecmp(json_string_value(one), stream))
			return 1;
	return 0;
}

static struct door_join join_of(const struct door_args *a)
{
	const json_t *asked = door_list(a, "attach");
	const int some = json_array_size(asked) > 0;
	struct door_join j = {
		.in = door_on(a, "interactive") && (!some || said_to(a, "stdin")),
		.out = !some || said_to(a, "stdout"),
		.err = !some || said_to(a, "stderr"),
		.keys = door_value(a, "detach-keys"),
		.ends = 1,
		.all = 1,
	};

	j.no_signals = json_is_false(json_object_get(a->o, "sig-proxy"));
	return j;
}

/* Docker's client does not wait for a container whose output goes nowhere: its id is its answer. */
static int joins_output(const struct door_args *a)
{
	return !json_array_size(door_list(a, "attach")) || said_to(a, "stdout") || said_to(a, "stderr");
}

static int check_streams(const struct door_args *a)
{
	const json_t *list = door_list(a, "attach"), *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, one) {
		const char *word = json_string_value(one);

		if (strcasecmp(word, "stdin") && strcasecmp(word, "stdout") && strcasecmp(word, "stderr"))
			return door_say(DOOR_USAGE, "invalid argument \"%.60s\" for \"-a, --attach\" flag: valid streams are STDIN, STDOUT "
					"and STDERR", word);
	}
	return json_array_size(list) && door_on(a, "detach") ? door_say(1, "Conflicting options: -a and -d") : 0;
}

static int run_error(const struct err *e)
{
	const char *hint = strstr(e->msg, "; hint: ");
	char text[600];

	if (e->code == ERR_EXEC || e->code == ERR_EXEC_NOT_FOUND)
		return door_exec_failed("docker: Error response from daemon: failed to create task "
					"for container",
					e);
	snprintf(text, sizeof(text), "%.*s", hint ? (int)(hint - e->msg) : 504, e->msg);
	return door_say(DOOR_USAGE,
			"docker: Error response from daemon: %s%s%s%s\n\nRun 'docker "
			"run --help' for more information",
			text, hint ? " (remedy: " : "", hint ? hint + 8 : "", hint ? ")" : "");
}

/* One with --rm goes when its start fails, as it would at its end. */
static int start_it(const struct door_args *a, struct sandbox_ref *s, unsigned awaited,
		    struct err *e)
{
	struct err ignored;

	if (!s->kept || door_start_it(s, awaited, e) == 0)
		return 0;
	if (door_on(a, "rm"))
		lifecycle_remove(&s->registry, s->id, 1, &ignored);
	return -1;
}

static int run_joined(const struct door_args *a, struct sandbox_ref *s, int *ret_status,
		      struct err *e)
{
	const struct door_join j = join_of(a);
	char id[ENGINE_ID];

	if (!joins_output(a)) {
		engine_id(s->id, id);
		printf("%s\n", id);
		fflush(stdout);
	}
	if (start_it(a, s, 1, e) < 0 || door_join(s, &j, ret_status, e) < 0)
		return -1;
	if (door_on(a, "rm") && *ret_status >= 0)
		door_await_removal(s);
	else if (*ret_status >= 0 && !door_value(a, "restart"))
		door_await_end(s);
	/* left running by the detach keys */
	*ret_status = *ret_status < 0 ? 0 : *ret_status;
	return 0;
}

static int start_detached_container(const struct door_args *a, struct sandbox_ref *s, struct err *e)
{
	char id[ENGINE_ID];

	engine_id(s->id, id);
	/* if it cannot be started it stays, as docker's does: then its id is of use, too */
	if (!door_on(a, "rm"))
		printf("%s\n", id);
	if (start_it(a, s, 0, e) < 0)
		return -1;
	if (door_on(a, "rm"))
		printf("%s\n", id);
	return 0;
}

int door_run_main(const struct command *self, int argc, char **argv)
{
	struct err e = { 0 };
	struct door_args a;
	struct sandbox_ref s;
	json_t *body = NULL;
	int status = 0, r;

	sandbox_ref_init(&s);
	if (!door_parse(&a, self, argc, argv, 1, -1)) {
		status = a.status;
	} else if (door_on(&a, "tty") && door_on(&a, "interactive") && !door_on(&a, "detach") &&
		   !isatty(STDIN_FILENO)) {
		status = door_say(1, "the input device is not a TTY");
	} else if ((status = check_streams(&a)) == 0) {
		r = create_docker_container(&a, &s, door_on(&a, "rm"), &body, &e);
		if (r == 0)
			r = door_on(&a, "detach") ? start_detached_container(&a, &s, &e) :
						    run_joined(&a, &s, &status, &e);
		if (r < 0)
			status = run_error(&e);
		if (s.registry.run_fd >= 0)
			/* the leftovers of others */
			registry_gc_some(&s.registry);
	}
	json_decref(body);
	sandbox_ref_close(&s);
	door_release(&a);
	return status;
}

int door_create_main(const struct command *self, int argc, char **argv)
{
	struct err e = { 0 };
	struct door_args a;
	struct sandbox_ref s;
	json_t *body = NULL;
	char id[ENGINE_ID];
	int status = 0;

	sandbox_ref_init(&s);
	if (!door_parse(&a, self, argc, argv, 1, -1)) {
		status = a.status;
	} else if (create_docker_container(&a, &s, 0, &body, &e) < 0) {
		status = door_error(&e);
	} else {
		engine_id(s.id, id);
		printf("%s\n", id);
	}
	json_decref(body);
	sandbox_ref_close(&s);
	door_release(&a);
	return status;
}
