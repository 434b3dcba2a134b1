/* SPDX-License-Identifier: Apache-2.0 */
/*
 * launch - creates one sandbox: the supervisor's half.
 *
 * The other half is child.c. When sandbox_launch() returns 0, everything was handed over, and no
 * code of the payload has run; attest_ready() waits until init runs, and init checks its own
 * confinement before the first command. After any failure sandbox_destroy() restores the state
 * before.
 */
#ifndef BERTH_RUNTIME_SANDBOX_LAUNCH_H
#define BERTH_RUNTIME_SANDBOX_LAUNCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/kernel/cgroup.h"
#include "runtime/kernel/rlimits.h"
#include "runtime/kernel/silence.h"
#include "runtime/sandbox/filterwatch.h"
#include "runtime/sandbox/initproto.h"
#include "runtime/sandbox/layerguard.h"
#include "runtime/sandbox/mountplan.h"
#include "runtime/sandbox/nethelper.h"
#include "runtime/sandbox/spec.h"

struct job;

struct sandbox {
	const struct spec *spec;
	struct cgroup cgroup;
	pid_t pid;	/* init, in our pid namespace; 0 if it was not made or was reaped */
	int pidfd;
	int proc_fd;	/* init's directory in /proc */
	/*
	 * with one command: its "io" file, which counts its block I/O and that of the processes
	 * that it reaped; else -1
	 */
	int io_fd;
	uint64_t read_bytes, written_bytes;	/* from io_fd, and from killed processes, once it is reaped */
	int killed;
	int sock;	/* to init */
	int leader_fd;	/* pidfd of a fork of a zygote; else -1 */
	int base_fd;	/* the writable layer's file system */
	int host_fd;	/* borrowed: the host directory with its file (launch_place); -1: it is in memory */
	struct layerguard guard;	/* of base_fd; the supervisor looks when layerguard_next() says so */
	int pts_fd;	/* the sandbox's /dev/pts, when terminals are wanted */
	struct nethelper net;	/* for bridge and egress */
	struct nethelper proxy;	/* for a member of a network with a policy */
	struct nethelper relay;	/* for ports that the kernel cannot lead to (spec.net_relay) */
	struct filterwatch filters;
	int control_fd;	/* resident: the directory that MOUNTPLAN_CONTROL shows */
	int mntns_fd;	/* see sandbox_hold_mounts() */
	struct silence silence;	/* with one command that has a limit of silence */
	/* last, because it is large: sandbox_init() does not clear it */
	struct mountplan plan;
};

/* The host directories in which a sandbox keeps its files. */
struct launch_place {
	const char *scratch;	/* an existing directory, for old kernels' overlay */
	int disk_dirfd;		/* the directory for a file-backed writable layer; -1: keep the layer in
				 * memory */
	int lasting;		/* the layer outlives the run, and may exist already (writable_lasting()) */
	int models_fd;		/* where blank file systems for the layer are kept (blankfs.h); -1: nowhere */
	const char *net_log_dir;	/* egress: where the log of requests goes; NULL: nowhere */
	uint64_t disk_reserve;	/* bytes of the host's disk that no layer gets (layerguard.h) */
};

/* Returns the helper whose rules, budgets and counters are the sandbox's. */
static inline struct nethelper *sandbox_meter(struct sandbox *sb)
{
	return sb->spec->net_egress ? &sb->proxy : &sb->net;
}

/* Returns the published ports, as freeport_describe() has them; borrowed, NULL: none. */
static inline json_t *sandbox_ports(const struct sandbox *sb)
{
	return json_object_get(sb->spec->net_relay ? sb->relay.told : sb->net.told, "ports");
}

/* Empty storage that sandbox_destroy() accepts. */
void sandbox_init(struct sandbox *sb, const struct spec *s);
int sandbox_launch(struct sandbox *sb, const struct launch_place *where, struct err *e);
/* The state that init must find in itself before it starts anything (T10). */
struct init_expect sandbox_expect(const struct spec *s);
/*
 * Asks init to start a command with std as its descriptors 0 to 2. Does not wait: INIT_STARTED
 * (unless INIT_QUIET) or INIT_EXEC_FAILED follows, then INIT_EXITED.
 */
int sandbox_exec(struct sandbox *sb, uint32_t seq, const struct job *c, const int std[3], struct err *e);
/* Returns the spec's own command. */
struct job sandbox_job(const struct spec *s, uint32_t flags);
/* Copies a program that berth carries into a sealed memfd with these permissions. */
int sandbox_copy_program(const char *name, const char *start, const char *end, mode_t mode,
			 struct err *e);
/*
 * Returns the program of a sandbox's init, as a sealed memfd; unreadable: no process in a sandbox
 * can trace it.
 */
int sandbox_init_program(int unreadable, struct err *e);
/* Returns the helper for file work (runtime/fileop), as a sealed memfd for INIT_EXEC_FD. */
int sandbox_file_program(struct err *e);
/* Opens a terminal of the sandbox: both sides, close-on-exec. */
int sandbox_tty(struct sandbox *sb, int *ret_master, int *ret_slave, struct err *e);
/* Checks that none of these descriptors leads a command to the host's files: ERR_INVALID. */
int sandbox_check_std(const int std[3], struct err *e);
/* Makes a process that graft_fork() put into the sandbox command seq; pid is its id inside. */
int sandbox_adopt(struct sandbox *sb, uint32_t seq, int pid, uint32_t flags, struct err *e);
/* As sandbox_adopt(), without waiting for init, which answers INIT_STARTED or INIT_EXEC_FAILED. */
int sandbox_adopt_begin(struct sandbox *sb, uint32_t seq, int pid, uint32_t flags, struct err *e);
int sandbox_signal(struct sandbox *sb, uint32_t seq, int signo, struct err *e);
/*
 * Reads one reply of init, which is hostile input: 1, 0 when init is gone, -1 with ERR_CORRUPT for
 * a malformed reply. With wait 0 it never blocks: -1 with ERR_BUSY if there is no reply.
 */
int sandbox_reply(struct sandbox *sb, struct init_reply *ret, int wait, struct err *e);
/* Replaces an error of ours by the error that the child or init has reported, if there is one. Returns -1. */
int sandbox_prefer_error(struct sandbox *sb, struct err *e);
/* Sends SIGKILL to every process of the sandbox. */
int sandbox_kill(struct sandbox *sb, struct err *e);
/* Waits for init's end and reaps it; the whole pid namespace is gone then.  ERR_TIMEOUT. */
int sandbox_reap(struct sandbox *sb, int timeout_ms, struct err *e);
/*
 * Keeps the mounts beyond init's end; call it while the command runs. sandbox_destroy() then
 * releases them, which takes three RCU grace periods, for which the verdict need not wait.
 */
void sandbox_hold_mounts(struct sandbox *sb);
/* Replaces the directory mounted at target by another directory of the host (mounts_swap()). */
int sandbox_swap_mount(struct sandbox *sb, const char *target, const char *source, struct err *e);
/*
 * Closes descriptors that launching left open, at leisure: the kernel waits for an RCU grace period
 * at each.
 */
void sandbox_settle(struct sandbox *sb);
/* Kills all processes, removes the cgroups, closes everything. Idempotent. */
int sandbox_destroy(struct sandbox *sb, struct err *e);

/* ---- one command to run ---- */

/*
 * job - one command to run in a sandbox.
 *
 * Strings are borrowed. leaf, if given, is the cgroup in which the command is born (below the
 * sandbox's own); without it the command is in the sandbox's.
 */

struct job {
	const char *const *argv;
	size_t argc;
	const char *const *env;
	size_t env_count;
	const char *user;	/* "" is root */
	const char *workdir;	/* absolute in the sandbox, or "~" or "~/PATH" in the user's home */
	struct rlimits rlimits;
	uint32_t flags;		/* enum init_exec_flags: INIT_TTY, INIT_LAST, INIT_MAKE_CWD */
	int script_fd, status_fd;	/* with INIT_SHELL: the shell's descriptors 8 and 9 */
	int program_fd;		/* with INIT_EXEC_FD: the program to execute instead of argv[0] */
	const struct cgroup *leaf;
};

#endif
