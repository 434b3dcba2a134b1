/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration in a bundle: read, and checked before anything is made. */
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/oci/container.h"
#include "runtime/oci/create.h"
#include "runtime/oci/json.h"
#include "runtime/oci/notify.h"
#include "runtime/oci/step.h"

const struct oci_ns_type oci_ns_types[OCI_NS_COUNT] = {
	[NS_USER] = { "user", "user", CLONE_NEWUSER }, [NS_MOUNT] = { "mount", "mnt", CLONE_NEWNS },
	[NS_PID] = { "pid", "pid", CLONE_NEWPID }, [NS_NET] = { "network", "net", CLONE_NEWNET },
	[NS_IPC] = { "ipc", "ipc", CLONE_NEWIPC }, [NS_UTS] = { "uts", "uts", CLONE_NEWUTS },
	[NS_CGROUP] = { "cgroup", "cgroup", CLONE_NEWCGROUP }, [NS_TIME] = { "time", "time", CLONE_NEWTIME },
};

static int check_oci_version(const json_t *config, struct err *e)
{
	const char *v = oci_str(config, "ociVersion");

	if (strncmp(v, "1.", 2) != 0 || v[2] < '0' || v[2] > '9')
		return err_set(e, ERR_UNSUPPORTED, "config.json: ociVersion '%.32s' is not 1.x, which this runtime knows", v);
	return 0;
}

static int read_namespaces(struct oci_container *c, struct err *e)
{
	const json_t *list = oci_get(c->linux_part, "namespaces"), *v;
	uint32_t seen = 0;
	size_t i;
	int n;

	for (n = 0; n < OCI_NS_COUNT; n++)
		c->ns_fd[n] = -1;
	json_array_foreach(list, i, v) {
		const char *type = oci_str(v, "type"), *path = oci_str(v, "path");

		for (n = 0; n < OCI_NS_COUNT; n++)
			if (!strcmp(type, oci_ns_types[n].word))
				break;
		if (n == OCI_NS_COUNT)
			return err_set(e, ERR_INVALID, "linux.namespaces: '%.32s' is not a namespace", type);
		if (seen >> n & 1)
			return err_set(e, ERR_INVALID, "linux.namespaces: duplicated namespace '%s'", type);
		seen |= 1u << n;
		if (!path || !*path) {
			c->new_ns |= 1u << n;
			continue;
		}
		if (path[0] != '/')
			return err_set(e, ERR_INVALID, "linux.namespaces: path '%.200s' is not absolute", path);
		c->ns_fd[n] = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		if (c->ns_fd[n] < 0)
			return err_sys(e, "open %s namespace %s", type, path);
	}
	/* the runtime of a step is root of a user namespace itself */
	c->in_userns = (seen >> NS_USER & 1) != 0 || c->step;
	return 0;
}

static int check_bundle_namespaces(const struct oci_container *c, struct err *e)
{
	const json_t *uids = oci_get(c->linux_part, "uidMappings"), *gids = oci_get(c->linux_part, "gidMappings");
	const char *host = oci_str(c->config, "hostname"), *domain = oci_str(c->config, "domainname");
	const int own_uts = (c->new_ns >> NS_UTS & 1) || c->ns_fd[NS_UTS] >= 0;

	if (c->new_ns >> NS_USER & 1 && (!json_array_size(uids) || !json_array_size(gids)))
		return err_set(e, ERR_INVALID, "a new user namespace needs linux.uidMappings and linux.gidMappings");
	if (!c->in_userns && (json_array_size(uids) || json_array_size(gids)))
		return err_set(e, ERR_INVALID, "linux.uidMappings and gidMappings need a user namespace in linux.namespaces");
	if (!own_uts && ((host && *host) || (domain && *domain)))
		return err_set(e, ERR_INVALID, "hostname and domainname need a uts namespace of the container's own: "
			       "unable to set hostname without a private UTS namespace");
	if (json_object_size(oci_get(c->linux_part, "timeOffsets")) && !(c->new_ns >> NS_TIME & 1))
		return err_set(e, ERR_INVALID, "linux.timeOffsets need a new time namespace in linux.namespaces");
	if (oci_get(c->linux_part, "intelRdt"))
		return err_set(e, ERR_UNSUPPORTED, "linux.intelRdt is not supported by this runtime: cache and bandwidth shares "
			       "would not be enforced; hint: leave it out");
	if (json_object_size(oci_get(c->linux_part, "netDevices")) && !(c->new_ns >> NS_NET & 1) && c->ns_fd[NS_NET] < 0)
		return err_set(e, ERR_INVALID, "linux.netDevices need a network namespace of the container's own");
	return 0;
}

/*
 * Annotations of crun that would change how the container is confined or who hears of it, and that
 * this runtime does not act on.
 */
static int check_annotations(const struct oci_container *c, struct err *e)
{
	static const struct { const char *name, *hint; } refused[] = {
		{ "run.oci.handler", "leave it out, and the program runs as a container's process" },
		{ "run.oci.pidfd_receiver", "use --pidfd-socket" },
		{ "run.oci.seccomp_bpf_data", "write the filter as linux.seccomp" },
		{ "run.oci.seccomp.plugins", "use linux.seccomp.listenerPath" },
		{ "run.oci.seccomp.receiver", "use linux.seccomp.listenerPath" },
	};
	const json_t *annotations = oci_get(c->config, "annotations");
	size_t i;

	for (i = 0; i < ARRAY_LEN(refused); i++)
		if (oci_str(annotations, refused[i].name) && *oci_str(annotations, refused[i].name))
			return err_set(e, ERR_UNSUPPORTED, "annotation %s is not supported by this runtime; hint: %s",
				       refused[i].name, refused[i].hint);
	return 0;
}

static int find_rootfs(struct oci_container *c, struct err *e)
{
	const char *path = oci_str(oci_get(c->config, "root"), "path");
	char joined[PATH_MAX];
	struct stat st;

	if (!path || !*path)
		return err_set(e, ERR_INVALID, "config.json: root.path is missing");
	if ((size_t)snprintf(joined, sizeof(joined), "%s%s%s", path[0] == '/' ? "" : c->bundle, path[0] == '/' ? "" : "/",
			     path) >= sizeof(joined))
		return err_set(e, ERR_INVALID, "root.path is too long");
	if (!realpath(joined, c->rootfs))
		return err_sys(e, "invalid rootfs: %s", joined);
	if (stat(c->rootfs, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_set(e, ERR_INVALID, "invalid rootfs: %s is not a directory", c->rootfs);
	if (!strcmp(c->rootfs, "/"))
		return err_set(e, ERR_INVALID, "invalid rootfs: the host's root cannot be a container's");
	return 0;
}

/* Checks the terminal, which has one reader: either an engine's socket, or us. */
static int check_terminal(const struct oci_container *c, const struct oci_request *r, struct err *e)
{
	const int terminal = oci_true(c->process, "terminal");

	if (terminal && !r->console_socket && !r->run)
		return err_set(e, ERR_USAGE, "cannot allocate tty if runc will detach without setting console socket: "
			       "process.terminal is true; hint: --console-socket");
	if (!terminal && r->console_socket)
		return err_set(e, ERR_USAGE, "cannot use console socket if runc will not detach or allocate tty: "
			       "process.terminal is not true");
	return 0;
}

int oci_bundle_load(struct oci_container *c, const struct oci_request *r, int root_fd,
		    struct buf *text, struct err *e)
{
	const char *file = r->config_file ? r->config_file : "config.json";

	c->config = oci_json_read(AT_FDCWD, file, text, e);
	if (!c->config)
		return e->code == ERR_NOT_FOUND ? err_wrap(e, "bundle %s: JSON specification file not found", r->bundle) : -1;
	if (oci_schema_check(c->config, OCI_CONFIG, file, e) < 0 || check_oci_version(c->config, e) < 0)
		return -1;
	if ((c->step && oci_step_rewrite(c->config, e) < 0) || oci_notify_plan(c->config, root_fd, r->id, e) < 0)
		return -1;
	c->process = oci_get(c->config, "process");
	c->linux_part = oci_get(c->config, "linux");
	if (c->process && oci_str(c->process, "cwd")[0] != '/')
		return err_set(e, ERR_INVALID, "process.cwd '%.100s' is not an absolute path", oci_str(c->process, "cwd"));
	if (check_annotations(c, e) < 0 || find_rootfs(c, e) < 0 || read_namespaces(c, e) < 0 || check_bundle_namespaces(c, e) < 0 ||
	    oci_mounts_read(c, e) < 0 || oci_sysctl_check(c, e) < 0 ||
	    oci_mempolicy_check(c->linux_part, e) < 0 || check_terminal(c, r, e) < 0)
		return -1;
	return 0;
}
