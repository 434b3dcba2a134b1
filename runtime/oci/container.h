/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_container - a container while it is made.  Theory of operation:
 *
 *   runtime   reads the bundle, records the container, makes its cgroups, and
 *             clones the container's process into its new namespaces.  Then both
 *             work at once: the runtime maps ids, writes limits, compiles the
 *             filter, runs hooks; the process mounts.
 *   process   (oci_init.c) everything inside: joins cgroups, root, mounts, /dev,
 *             terminal, hooks of the container; then waits to be started and
 *             becomes the user's program.  Nothing of ours stays in the container.
 *   joiner    only where namespaces are joined by path: a fork that joins them
 *             and clones the process as its sibling, so that the runtime never
 *             leaves its own.
 *
 * The two speak over a socket pair: struct oci_message.  Between create and
 * start the process listens on start.sock in the container's state directory;
 * `start` is then its other end.  An end of file after OCI_GO means that execve
 * succeeded, as every descriptor is close-on-exec, or that the process died:
 * oci_never_executed() tells.
 */
#ifndef BERTH_RUNTIME_OCI_CONTAINER_H
#define BERTH_RUNTIME_OCI_CONTAINER_H

#include <jansson.h>
#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "runtime/oci/mount.h"
#include "runtime/oci/process.h"
#include "runtime/oci/seccomp.h"
#include "runtime/oci/state.h"
#include "runtime/oci/systemd.h"

enum oci_ns { NS_USER, NS_MOUNT, NS_PID, NS_NET, NS_IPC, NS_UTS, NS_CGROUP, NS_TIME, OCI_NS_COUNT };

struct oci_ns_type {
	const char *word;	/* its name in the configuration */
	const char *file;	/* its file in /proc/PID/ns */
	int flag;		/* CLONE_NEW* */
};
extern const struct oci_ns_type oci_ns_types[OCI_NS_COUNT];

enum oci_message_kind {
	OCI_FAILED = 1,	/* from the process: its error; it ends. value 1: from a startContainer hook */
	OCI_MAPPED,	/* from the runtime: ids are mapped */
	OCI_HOOKS,	/* from the process: mounted; it waits while the runtime runs its hooks */
	OCI_HOOKED,	/* from the runtime: the hooks are done */
	OCI_READY,	/* from the process: made, and waiting to be started */
	OCI_GO,		/* from the runtime: execute; the filter's instructions follow */
	OCI_LISTENER,	/* from the process: value is the number of its seccomp notification descriptor */
	OCI_TERMINAL,	/* from the process: with the master of its terminal */
	OCI_IDMAP,	/* from the process: with a detached mount, of the entry value of mounts, whose ids only
			 * the runtime may map; it waits */
	OCI_IDMAPPED,	/* from the runtime: they are mapped */
};

struct oci_message {
	uint32_t kind;
	int32_t value;
	struct err err;
};

struct oci_filter_head {
	uint32_t kind;	/* OCI_GO */
	uint32_t count, flags, notify;
};

struct oci_container {
	const char *id, *bundle;	/* bundle: absolute, as given */
	json_t *config;
	const json_t *process, *linux_part;
	char rootfs[PATH_MAX];	/* absolute */
	uint32_t new_ns;	/* bit N: enum oci_ns N is made */
	int ns_fd[OCI_NS_COUNT];	/* joined; -1 */
	int in_userns;		/* a new or joined user namespace */
	int no_pivot, no_new_keyring;
	int preserve_fds, listen_fds;
	int wait_start;		/* create: wait on the socket; run: go on */
	int step;		/* a step of a build: step.h */
	struct oci_mount *mounts;
	size_t mount_count;
	int root_fd;		/* the root's mount, detached, if the process could not resolve its path;
				 * else -1 */
	int default_dev_fd[6];	/* in a user namespace: the host's null, zero, full, random, urandom, tty as mounts; -1 */
	int *device_fd;		/* the same for each of linux.devices; NULL */
	size_t device_count;
	int null_fd;		/* the host's /dev/null as a read-only mount, which masks files; -1 */
	int proc_mount_fd, sys_mount_fd;	/* the process's mounts at /proc and /sys; -1 */
	unsigned long propagation;	/* propagation of the root: MS_* */
	int sock;		/* this side's end of the pair */
	int console_fd;		/* connected to --console-socket; -1 */
	int listen_fd;		/* start.sock; -1 */
	int proc_fd;		/* the host's /proc */
	int inside;		/* the host's root is gone */
	int hook_fds[2];	/* where hooks in the container write; -1: to its stderr */
	int mapped;		/* in the process: its user namespace has its ids */
	struct oci_scope scope;	/* scope of systemd, with its program; helper.pid 0: none */
	int enter_v2;		/* the process was not born in the v2 cgroup, and joins that itself */
	struct oci_seccomp filter;	/* the runtime's, until it is sent */
	struct oci_state *state;
};

/* Reads the mounts before the clone, while the host's files can be opened (oci_rootfs.c). */
int oci_mounts_read(struct oci_container *c, struct err *e);
/* Opens, for a user namespace, the files that its root could not open. */
int oci_mounts_open(struct oci_container *c, struct err *e);

/* Maps the ids of fd, a detached mount of the process for mounts[index]: the answer to OCI_IDMAP. */
int oci_mounts_idmap(struct oci_container *c, int index, int fd, struct err *e);

/* The number of the mount that fd is on (proc_pid_fdinfo(5)); -1. */
long oci_mount_id(int fd);

/* Tells whether the container has a mount namespace of its own, made or joined. */
int oci_has_mounts(const struct oci_container *c);
/*
 * Tells whether its mounts are made in the runtime's namespace, on the root's own directory. Root
 * of a user namespace may mount nothing there, and such a container is a change of root alone.
 */
int oci_mounts_on_host(const struct oci_container *c);
/*
 * Call it before anything is mounted on the host: doc, of state.json, gets the data that
 * oci_rootmount_remove() needs.
 */
int oci_rootmount_note(const struct oci_container *c, json_t *doc, struct err *e);
int oci_rootmount_attach(struct oci_container *c, struct err *e);
/* Unmounts the root with everything below it. Idempotent. */
int oci_rootmount_remove(const json_t *doc, struct err *e);

/* Called in the process, in this order: */
int oci_rootfs_prepare(struct oci_container *c, struct err *e);	/* root and mounts, the host's root still below */
int oci_rootfs_enter(struct oci_container *c, struct err *e);	/* pivot_root, the host's root detached */
int oci_rootfs_finish(struct oci_container *c, struct err *e);	/* masks, read-only, propagation */
/* Makes the nodes of linux.devices before the clone, with a user namespace, where they can be made. */
int oci_dev_open(struct oci_container *c, struct err *e);
/* Removes the host's names of the nodes, once the container has them. */
void oci_dev_forget(const struct oci_container *c);
int oci_dev_make(struct oci_container *c, int root_fd, struct err *e);	/* /dev: nodes and links */
int oci_cgroup_mount(struct oci_container *c, struct oci_mount *m, int target_fd, struct err *e);
/* Moves interfaces of the host (linux.netDevices) into the container's network namespace (rtnetlink(7)). */
int oci_netdevs_move(const struct oci_container *c, struct err *e);
int oci_sysctl_write(const struct oci_container *c, struct err *e);
/* Checks a sysctl: ERR_INVALID if it does not belong to one of the container's own namespaces. */
int oci_sysctl_check(const struct oci_container *c, struct err *e);

/*
 * Opens the place of m, a procfs or sysfs, below root_fd: a plain directory, made if missing. An
 * O_PATH descriptor; ERR_DENIED if the image has a link or file there.
 */
int oci_kernelfs_place(int root_fd, const struct oci_mount *m, const char *path, struct err *e);
/*
 * Checks a mount on /proc: ERR_DENIED for anything but procfs at /proc itself, and for a mount on a
 * file of procfs that engines do not cover.
 */
int oci_kernelfs_check(const struct oci_mount *m, const char *path, int target, struct err *e);
/*
 * Notes that m is attached at path: if that is /proc or /sys, oci_kernelfs_open() begins at it; the
 * last of several counts.
 */
int oci_kernelfs_keep(struct oci_container *c, const struct oci_mount *m, const char *path, struct err *e);
/* Spells path, which begins with a slash, as "/a/b"; otherwise "//proc" would not be taken for /proc. */
void oci_kernelfs_spell(char *path);
/*
 * Opens path, O_PATH, in the container's root. A path below /proc or /sys is opened from the
 * mount that was made there, because another container with the same tree may have renamed its
 * mount point, and a path that is not found is not masked (S25). -1 with errno.
 */
int oci_kernelfs_open(const struct oci_container *c, int root, const char *path);

/*
 * Implements copy-symlink: makes a link like the source at path, instead of mounting its target.
 * *ret_done is 0 if the source is no link.
 */
int oci_place_link(int root_fd, const struct oci_mount *m, const char *path, int *ret_done,
		   struct err *e);
/* Spells the place of dest below the root as "/a/b". ERR_INVALID if it is too long. */
int oci_place_spell(const struct oci_container *c, const char *dest, char path[PATH_MAX],
		    struct err *e);
/*
 * Returns the source of m within the root if an earlier entry of mounts makes it; NULL otherwise.
 * The text is in source, which is the caller's.
 */
const char *oci_source_made_earlier(const struct oci_container *c, const struct oci_mount *m,
				    char source[PATH_MAX]);
/*
 * Opens a place below root_fd, resolved as if that were "/": an existing one, or a new directory or
 * empty file. Missing targets of links are made too. Returns an O_PATH descriptor.
 */
int oci_place(int root_fd, const char *path, int directory, struct err *e);

/*
 * Opens a terminal of the container's devpts, makes it the controlling one and
 * stdin, stdout and stderr; on /dev/console too when console.  Returns the master.
 */
int oci_console_take(const json_t *process, int console, struct err *e);
/*
 * Sets up a terminal that we copy ourselves: a newline stays a newline. The caller's terminal, if
 * any, adds the carriage return, and a pipe needs none.
 */
void oci_console_plain(int master);
/* Connects to --console-socket. */
int oci_console_connect(const char *path, struct err *e);
int oci_console_send(int fd, int master, struct err *e);
/* Implements --pidfd-socket: sends a pidfd of pid, with the message "pidfd". */
int oci_pidfd_send(const char *path, pid_t pid, struct err *e);

/* Sets linux.personality for the calling process. */
int oci_personality_set(const json_t *linux_part, struct err *e);

/*
 * Sets linux.memoryPolicy for the calling process. ERR_INVALID for an unknown one, which
 * oci_mempolicy_check() reports beforehand.
 */
int oci_mempolicy_set(const json_t *linux_part, struct err *e);
int oci_mempolicy_check(const json_t *linux_part, struct err *e);
/* Lists the modes and flags that are known, for `features`; NULL at the end. */
const char *oci_mempolicy_mode(size_t i);
const char *oci_mempolicy_flag(size_t i);

/* ---- bundle.c, create.c ---- */

struct oci_request;
/*
 * Reads and checks the configuration, in the bundle's directory; its text goes to text, and its
 * content to c, which stays the caller's to release.
 */
int oci_bundle_load(struct oci_container *c, const struct oci_request *r, int root_fd,
		    struct buf *text, struct err *e);
/* Clones the container's process, which calls oci_init(); returns its pid. */
pid_t oci_clone(struct oci_container *c, int runtime_sock, struct err *e);

/* Runs the container's process; does not return. */
void oci_init(struct oci_container *c) __attribute__((noreturn));

/* ---- oci_message.c ---- */

/* Sends kind alone.  -1 with errno. */
int oci_message_send(int sock, enum oci_message_kind kind, int value);
/* Receives a message: 1 and *ret; 0 when the other side has ended; -1. */
int oci_message_recv(int sock, struct oci_message *ret, int *ret_fd);
/* Reports the process's error, and exits. */
void oci_message_fail(int sock, const struct err *e, int in_hook) __attribute__((noreturn));
/* Sends OCI_GO with the filter. */
int oci_filter_send(int sock, const struct oci_seccomp *f, struct err *e);
int oci_filter_recv(int sock, struct oci_seccomp *f, struct err *e);
/*
 * Closes every descriptor but 0, 1, 2, those passed on and the n of list (-1: none). Later lookups
 * of the image's paths, also the kernel's at execve(2), could otherwise be led through an open
 * descriptor (CVE-2024-21626, E03, E04).
 */
int oci_keep_only(int preserve_fds, const int *list, size_t n, struct err *e);
int oci_tell_listener(int sock, int listener, struct err *e);
void oci_reset_signals(void);

#endif
