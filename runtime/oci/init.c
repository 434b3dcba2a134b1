/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The container's process, from its birth to execve: a flat list of named steps.
 *
 * It was forked from the runtime, holds its memory and descriptors (all of them
 * close-on-exec), and is in the namespaces of the container except, at first,
 * the cgroup one.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/oci/container.h"
#include "runtime/oci/hooks.h"
#include "runtime/oci/json.h"
#include "runtime/oci/log.h"
#include "runtime/oci/step.h"

static int has_ns(const struct oci_container *c, enum oci_ns ns)
{
	return (c->new_ns >> ns & 1) != 0;
}

/* ---- steps ---------------------------------------------------------------------------- */

/*
 * Ties the process to the runtime that makes the container, until it is made; no process may trace
 * it (E01).
 */
static int tie_to_runtime(struct oci_container *c, struct err *e)
{
	/* an ordinary user's runtime could not map the ids of a process that it may not trace: not before that */
	if ((!c->in_userns || c->mapped) && prctl(PR_SET_DUMPABLE, 0) < 0)
		return err_sys(e, "forbid being traced");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_sys(e, "tie the container to its maker");
	return 0;
}

static int oci_init_cgroups(struct oci_container *c, struct err *e)
{
	/* the engine's own pinning is not the container's: its cpuset decides */
	oci_process_affinity_all();
	return c->enter_v2 ? oci_cgroup_enter(&c->state->cgroup, NULL, e) : oci_cgroup_join(&c->state->cgroup, e);
}

static int become_root(struct oci_container *c, struct err *e)
{
	struct oci_message m;

	if (!c->in_userns)
		return 0;
	if (has_ns(c, NS_USER)) {
		/* the runtime's end is ours */
		if (oci_message_recv(c->sock, &m, NULL) != 1 || m.kind != OCI_MAPPED)
			_exit(1);
	}
	/* EINVAL: a map without 0, where the user's own id comes later */
	if (setresgid(0, 0, 0) < 0 && errno != EINVAL)
		return err_sys(e, "become root of the user namespace");
	if (setresuid(0, 0, 0) < 0 && errno != EINVAL)
		return err_sys(e, "become root of the user namespace");
	c->mapped = 1;
	/* cleared by the change of ids */
	return tie_to_runtime(c, e);
}

static int leave_cgroupns(struct oci_container *c, struct err *e)
{
	if (has_ns(c, NS_CGROUP) && unshare(CLONE_NEWCGROUP) < 0)
		return err_sys(e, "make a cgroup namespace");
	return 0;
}

static int start_session(struct oci_container *c, struct err *e)
{
	(void)c;
	if (setsid() < 0 && errno != EPERM)
		return err_sys(e, "start a session");
	return 0;
}

/* A session keyring of its own, so that none of the caller's keys are reachable (K08). */
static int oci_init_keyring(struct oci_container *c, struct err *e)
{
	if (!c->no_new_keyring && syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, c->id) < 0 && errno != ENOSYS)
		return errno == EDQUOT ? err_hint((err_sys(e, "make a session keyring"), e), "/proc/sys/kernel/keys") :
					 err_sys(e, "make a session keyring");
	return 0;
}

static int raise_loopback(struct oci_container *c, struct err *e)
{
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	autoclose int fd = -1;

	if (!has_ns(c, NS_NET))
		return 0;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		return err_sys(e, "bring up the loopback interface");
	return 0;
}

static int set_names(struct oci_container *c, struct err *e)
{
	const char *host = oci_str(c->config, "hostname"), *domain = oci_str(c->config, "domainname");

	if (host && *host && sethostname(host, strlen(host)) < 0)
		return err_sys(e, "set the hostname to '%.64s'", host);
	if (domain && *domain && setdomainname(domain, strlen(domain)) < 0)
		return err_sys(e, "set the domainname to '%.64s'", domain);
	return 0;
}

static int oci_init_mounts(struct oci_container *c, struct err *e)
{
	umask(0);
	return oci_rootfs_prepare(c, e);
}

static json_t *hook_state(const struct oci_container *c, enum oci_status status)
{
	json_t *state = oci_state_json(c->state, status);

	/* as the hook sees it: inside */
	json_object_set_new(state, "pid", json_integer(getpid()));
	return state;
}

static int run_hooks(struct oci_container *c, const char *name, const char *cwd, char **env, struct err *e)
{
	const struct oci_hooks h = { c->config, cwd, env, c->inside ? c->hook_fds : NULL };
	autojson json_t *state = hook_state(c, OCI_CREATED);

	return oci_hooks_run(&h, name, state, 0, e);
}

static int wait_for_hooks(struct oci_container *c, struct err *e)
{
	struct oci_message m;

	if (oci_hooks_any(c->config, "prestart") || oci_hooks_any(c->config, "createRuntime")) {
		if (oci_message_send(c->sock, OCI_HOOKS, 0) < 0 || oci_message_recv(c->sock, &m, NULL) != 1 ||
		    m.kind != OCI_HOOKED)
			_exit(1);
	}
	return oci_hooks_any(c->config, "createContainer") ? run_hooks(c, "createContainer", c->rootfs, NULL, e) : 0;
}

/* The files that annotations name are the host's: opened while it is there to be seen. */
static int open_hook_output(struct oci_container *c, struct err *e)
{
	return oci_hooks_any(c->config, "startContainer") ? oci_hooks_output(c->config, c->hook_fds, e) : 0;
}

/* A working directory that is missing is made while the root can be written: 0755 and root's, as runc does. */
static int oci_init_cwd(struct oci_container *c, struct err *e)
{
	struct err ignored;
	int fd;

	(void)e;
	if (!c->process)
		return 0;
	/* if it cannot be made, entering it reports the error */
	fd = oci_place(c->root_fd, oci_str(c->process, "cwd"), 1, &ignored);
	fd_close(&fd);
	return 0;
}

static int oci_init_terminal(struct oci_container *c, struct err *e)
{
	struct oci_message m = { .kind = OCI_TERMINAL };
	autoclose int master = -1;

	if (!oci_true(c->process, "terminal"))
		return 0;
	master = oci_console_take(c->process, oci_has_mounts(c) || oci_mounts_on_host(c), e);
	if (master < 0)
		return -1;
	if (c->console_fd >= 0)
		return oci_console_send(c->console_fd, master, e);
	if (fdpass_send(c->sock, &m, sizeof(m), &master, 1) < 0)
		return err_sys(e, "hand over the terminal");
	return 0;
}

static int set_sysctls(struct oci_container *c, struct err *e)
{
	return oci_sysctl_write(c, e);
}

int oci_personality_set(const json_t *linux_part, struct err *e)
{
	const json_t *p = oci_get(linux_part, "personality");
	const char *domain = oci_str(p, "domain");

	if (!p)
		return 0;
	if (json_array_size(oci_get(p, "flags")))
		return err_set(e, ERR_UNSUPPORTED, "linux.personality: flags are not supported (the spec names none)");
	if (strcmp(domain, "LINUX") != 0 && strcmp(domain, "LINUX32") != 0)
		return err_set(e, ERR_INVALID, "linux.personality: domain '%.32s' is not LINUX or LINUX32", domain);
	if (personality(!strcmp(domain, "LINUX32") ? PER_LINUX32 : PER_LINUX) < 0)
		return err_sys(e, "set the personality %s", domain);
	return 0;
}

static int set_personality(struct oci_container *c, struct err *e)
{
	return oci_personality_set(c->linux_part, e);
}

static int set_memory_policy(struct oci_container *c, struct err *e)
{
	return oci_mempolicy_set(c->linux_part, e);
}

static int prepare_process(struct oci_container *c, struct oci_process *p, struct err *e)
{
	struct err again;

	/* root may be kept from a directory that the user may enter (NFS, another's user namespace): tried again later */
	if (oci_process_chdir(p, &again) < 0) {
		if (again.os_errno != EACCES && again.os_errno != EPERM) {
			*e = again;
			return -1;
		}
	}
	if (oci_process_prepare(p, e) < 0)
		return -1;
	oci_process_own_stdio(c->process);
	return 0;
}

/* ---- being started ------------------------------------------------------------------------- */

/*
 * Releases descriptors: after this, paths of the image are looked up, and a created container may
 * wait for days. So it keeps only the descriptors that it was given and those with which it waits.
 */
static int oci_init_release_fds(struct oci_container *c, struct oci_process *p, struct err *e)
{
	if (oci_process_look(p, e) < 0)
		return -1;

	const int keep[] = { c->sock, c->wait_start ? c->listen_fd : -1, oci_log_fd(), p->apparmor_fd, p->selinux_fd,
			     c->hook_fds[0], c->hook_fds[1] };

	c->proc_fd = p->proc_fd = c->root_fd = -1;
	return oci_keep_only(c->preserve_fds, keep, ARRAY_LEN(keep), e);
}

static void exit_by_signal(int sig)
{
	_exit(128 + sig);
}

/*
 * Takes the signals that ask it to end, which pid 1 of a namespace would otherwise not get; the
 * program's own dispositions come at the start.
 */
static void listen_for_the_end(void)
{
	static const int signals[] = { SIGHUP, SIGINT, SIGTERM };
	size_t i;

	for (i = 0; i < ARRAY_LEN(signals); i++)
		signal(signals[i], exit_by_signal);
}

/*
 * Reports that everything is made: the runtime sends limits and the filter, and may then end. A
 * program that it notifies may send a signal at once.
 */
static int report_ready(struct oci_container *c, struct err *e)
{
	if (c->wait_start && prctl(PR_SET_PDEATHSIG, 0) < 0)
		return err_sys(e, "outlive the maker");
	if (c->wait_start)
		listen_for_the_end();
	if (oci_message_send(c->sock, OCI_READY, 0) < 0)
		_exit(1);
	return 0;
}

/* Waits for the other end: `start`, or still the runtime. */
static int wait_for_start(struct oci_container *c, struct err *e)
{
	int fd;

	if (!c->wait_start)
		return 0;
	do
		fd = accept4(c->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
	if (fd < 0)
		return err_sys(e, "wait to be started");
	fd_close(&c->listen_fd);
	fd_close(&c->sock);
	c->sock = fd;
	return 0;
}

static int (*const steps[])(struct oci_container *c, struct err *e) = {
	tie_to_runtime,
	oci_init_cgroups,
	become_root,
	leave_cgroupns,
	start_session,
	oci_init_keyring,
	raise_loopback,
	set_names,
	oci_init_mounts,
	oci_init_cwd,
	wait_for_hooks,
	open_hook_output,
	oci_rootfs_enter,
	oci_init_terminal,
	oci_rootfs_finish,
	set_sysctls,
	set_personality,
	set_memory_policy,
};

void oci_init(struct oci_container *c)
{
	struct oci_process p = { .doc = c->process, .proc_fd = c->proc_fd, .in_userns = c->in_userns,
				 .listen_fds = c->listen_fds,
				 .keep_groups = oci_str(oci_get(c->config, "annotations"), "run.oci.keep_original_groups") != NULL };
	struct oci_seccomp filter = { 0 };
	struct err e = { 0 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(steps); i++)
		if (steps[i](c, &e) < 0)
			oci_message_fail(c->sock, &e, 0);
	c->inside = 1;
	if (oci_init_release_fds(c, &p, &e) < 0 || (c->process && prepare_process(c, &p, &e) < 0))
		oci_message_fail(c->sock, &e, 0);
	if (report_ready(c, &e) < 0 || oci_filter_recv(c->sock, &filter, &e) < 0 || wait_for_start(c, &e) < 0)
		oci_message_fail(c->sock, &e, 0);
	if (!c->process) {
		err_set(&e, ERR_INVALID, "the configuration has no process: nothing to start");
		oci_message_fail(c->sock, &e, 0);
	}
	oci_reset_signals();
	if (oci_process_become(&p, &filter, c->sock, &e) < 0 || (c->step && oci_step_seal(&e) < 0))
		oci_message_fail(c->sock, &e, 0);
	/* its program is the image's: it gets no more rights than the process, as with runc */
	if (oci_hooks_any(c->config, "startContainer") && run_hooks(c, "startContainer", NULL, p.env, &e) < 0)
		oci_message_fail(c->sock, &e, 1);
	fd_close(&c->hook_fds[0]);
	fd_close(&c->hook_fds[1]);
	/* the tie to `run` ends here: a foreground container outlives a killed runtime, as with runc */
	if (!c->wait_start)
		prctl(PR_SET_PDEATHSIG, 0);
	oci_process_exec(&p, &e);
	oci_message_fail(c->sock, &e, 0);
}
