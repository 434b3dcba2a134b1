/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec - all settings of one sandbox.
 *
 * Plain data, filled by cli/ or manager/ from options, configuration and image; the runtime only
 * reads it. Strings are borrowed: they outlive the sandbox's launch. spec_check() is the one place
 * that checks whether it is consistent.
 */
#ifndef BERTH_RUNTIME_SANDBOX_SPEC_H
#define BERTH_RUNTIME_SANDBOX_SPEC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/kernel/rlimits.h"
#include "seccomp/seccomp.h"

#define SPEC_IDS 65536u		/* uids and gids of one sandbox */
#define SPEC_MOUNTS_MAX 64
#define SPEC_HOST_MAX 63
#define SPEC_HOST_NAMES (3 * SPEC_HOST_MAX + 4)
#define SPEC_LAYERS_MAX 128

enum spec_network {
	NETWORK_NONE,
	NETWORK_HOST,
	NETWORK_BRIDGE,
	NETWORK_EGRESS,
	NETWORK_JOINED,	/* the network namespace of another sandbox */
	NETWORK_COUNT,
};

enum spec_mount_kind { SPEC_BIND, SPEC_TMPFS, SPEC_VOLUME };

struct spec_mount {
	enum spec_mount_kind kind;
	const char *source;	/* bind: absolute on the host; volume: its name */
	int source_fd;		/* an O_PATH descriptor of the source; bind: or -1: the path is opened,
				 * through no link */
	int resolved;		/* bind: the option promises that its path has no links (nolinks) */
	int replaceable;	/* bind: another directory may replace it at the next start */
	int links;		/* bind: the path may lead through links, because it is the operator's own
				 * (CDI) */
	int source_is_mount;	/* source_fd is a detached mount */
	const char *sub;	/* volume: a directory below its top, or NULL */
	int owner_auto;		/* bind: the ids that the directory's owner gets in the sandbox */
	uint32_t owner_uid, owner_gid;
	uint64_t quota_bytes;	/* bind: quota of the directory; 0: none of berth's */
	const char *target;	/* absolute in the sandbox */
	int writable;
	int exec;
	int nosymfollow;
	uint64_t size_bytes, inodes;	/* tmpfs only */
	uint32_t mode;			/* tmpfs only */
};

/* A node in /dev besides those that all sandboxes have. */
struct spec_device {
	const char *target;	/* below /dev */
	const char *source;	/* host path of the device */
	dev_t rdev;
	mode_t mode;		/* with its type */
	uint32_t uid, gid;	/* in the sandbox */
	unsigned access;	/* a set of enum cgroup_access, which limits.devices grants */
};

/* The sandbox whose network namespace this one enters (manager/keeper/netclient.h); all borrowed. */
struct spec_joined {
	const char *id;
	int netns_fd;	/* -1: not opened yet */
	int init_fd;	/* a pidfd: the network ends with that process */
	enum spec_network mode;	/* how that namespace was made */
	int proxied;
	const char *hostname, *hosts;	/* from its files; netopts_finish() takes them */
};

/* The zygote in whose namespaces a sandbox is made that will take its fork (birth.h). */
struct spec_inside {
	int userns_fd, pidns_fd;
	/* host ids of the zygote's process, which will own the user namespace */
	uid_t owner_uid;
	gid_t owner_gid;
	uint32_t id_at;	/* what the zygote's user namespace calls the sandbox's first id */
};

/* forks of one zygote: their ranges of ids fit into a page of uid_map */
#define SPEC_INNER_MAX 128

struct spec {
	char id[65];
	const char *name;	/* the name on its network; NULL: none */
	const char *hostname;
	const char *domainname;	/* of NIS, as uname(2) tells it; NULL: none */

	/* the command */
	const char *const *argv;
	size_t argc;
	const char *const *env;
	size_t env_count;
	const char *user;
	const char *workdir;
	int tty;
	int resident;		/* a keeper runs many commands in it: leaf cgroups, a control directory */
	/*
	 * The sandbox's files are removed with it: its writable layer on disk is never synced, so
	 * that neither fsync(2) in it nor its end waits for the disk.
	 */
	int passing;

	/* the root file system: layers lowest first, as O_PATH directory fds */
	int layer_fd[SPEC_LAYERS_MAX];
	size_t layer_count;
	int host_image;		/* the layers are the skeleton; expose the host's /usr */
	int read_only;
	int no_tmpfs;		/* /tmp and /run are those of the image */
	int cgroup_files;	/* asked for: the files of its cgroups of version 1, too */
	unsigned cgroup_v1;	/* bits of enum cgroup_v1: those that this host has, and that are asked for */
	uint64_t disk_bytes, disk_inodes;
	uint64_t tmp_bytes;
	uint64_t shm_bytes;
	struct spec_mount mounts[SPEC_MOUNTS_MAX];
	int sources_resolved;	/* the paths of binds are resolved already, and not again
				 * (manager/ops/settleopt.h) */
	size_t mount_count;

	const struct spec_device *devices;
	size_t device_count;

	/* confinement */
	enum spec_network network;
	struct spec_joined joined;	/* with NETWORK_JOINED */
	const char *net_dir;	/* bridge: the host's directory for the resolv.conf and hosts that berth makes */
	const char *hosts;	/* more lines of /etc/hosts, if berth-net does not write it */
	const char *net_policy;	/* bridge, egress: JSON for berth-net (netpolicy.h, net/bridge.h) */
	/* for a member of a network with a policy: the proxy's policy, and the network's directory */
	const char *net_egress, *net_group_dir;
	const char *net_relay;	/* none, egress, internal: JSON of the published ports, for berth-net */
	uint64_t net_used_bytes, net_used_connections;	/* used of its budgets before this start */
	uint64_t caps;		/* bounding set */
	int unconfined_seccomp;
	const struct seccomp_profile *seccomp;	/* loaded unless unconfined */
	const char *seccomp_name;
	int hide_pids;		/* strict: hidepid=ptraceable */
	uint32_t id_base;	/* first host uid and gid of the range of SPEC_IDS */
	const struct spec_inside *inside;	/* for a fork of a zygote; else NULL */
	uint32_t project;	/* project for the quota of its layer; 0: id_base */
	/* for a zygote: first host ids of its forks' ranges, which it calls SPEC_IDS * (i + 1) */
	const uint32_t *inner_base;
	size_t inner_count;

	/* limits */
	struct cgroup_limits limits;
	struct rlimits rlimits;
	uint64_t timeout_ms;	/* 0: none; for a resident sandbox: of each command */
	int timeout_given;	/* resident: the caller gave a timeout, so it applies to exec too */
	uint64_t grace_ms;
	/* silence after which a command is ended; 0: none; for a resident sandbox: of each command */
	uint64_t max_silent_ms;
	int max_silent_given;
	uint64_t cpu_time_ms;	/* 0: none */

	const char *cgroup_parent;
	uint32_t loosened;	/* of enum loosened: the protections that options removed */
};

/* Tells whether init has a filter of berth's own, not only the one that watches: under a built-in profile. */
int spec_init_filtered(const struct spec *s);
/* 1 if the writable layer of one that does not last is too large for memory: a file of the state directory. */
int spec_wants_disk(const struct spec *s);
/* The names that its /etc/hosts gives its own address: "HOSTNAME", or "HOSTNAME.DOMAIN HOSTNAME".  out. */
const char *spec_host_names(const struct spec *s, char out[SPEC_HOST_NAMES]);
/* "none", "host", "bridge", "egress", "container" */
const char *spec_network_name(enum spec_network n);
/* Returns the mode of its network namespace; for a joining sandbox, that of the other sandbox. */
enum spec_network spec_network_inside(const struct spec *s);
/* Tells whether its connections go through a proxy of its own. */
int spec_is_proxied(const struct spec *s);
/* Tells whether berth-net must make this network. */
int spec_needs_nethelper(const struct spec *s);
/* Tells whether berth-net is handed its network namespace: it makes the network, or relays ports into it. */
int spec_hands_netns(const struct spec *s);
/* Tells whether a host directory is mounted writable: then no set-id file may be made in the sandbox. */
int spec_writes_host(const struct spec *s);
/*
 * Closes the descriptors of host directories; their numbers become -1. Call it after the launch,
 * because an open one keeps a file system of the host from being unmounted.
 */
void spec_close_sources(struct spec *s);
/* Checks the spec: 0, or ERR_INVALID or ERR_UNSUPPORTED naming what and why. */
int spec_check(const struct spec *s, struct err *e);

/* ---- options that loosen it ---- */

/*
 * loosen - records how options make a sandbox less confined than the default.
 *
 * A set of bits in the spec; 0 for most sandboxes, which costs them nothing. Settings of the
 * host's configuration do not count, because they are the default of that host.
 */

/* X(enum, stable name, the option and what it takes away) */
#define LOOSENED(X) \
	X(LOOSE_NETWORK, "network-host", "--network host (the host's own network, its loopback included)") \
	X(LOOSE_CONNECTIONS, "connections-unlimited", "--network-connections unlimited (it can fill the host's table of connections)") \
	X(LOOSE_CAPS, "cap-add", "--cap-add (capabilities beyond the default ones)") \
	X(LOOSE_SECCOMP, "seccomp-unconfined", "--seccomp unconfined (no filter of system calls)") \
	X(LOOSE_PROFILE, "seccomp-profile", "--seccomp (a profile other than the host's default, and not strict)") \
	X(LOOSE_MEMORY, "memory-unlimited", "--memory unlimited (it can use up the host's memory)") \
	X(LOOSE_SWAP, "swap-unlimited", "--swap unlimited (it can use up the host's swap)") \
	X(LOOSE_CPUS, "cpus-unlimited", "--cpus unlimited (it can use all CPUs)") \
	X(LOOSE_DEVICES, "device", "--device (devices of the host)") \
	X(LOOSE_PIDS, "pids-unlimited", "--pids unlimited (it can use up the host's process ids)")

enum loosened {
#define X(sym, name, text) sym,
	LOOSENED(X)
#undef X
	LOOSE_COUNT
};

/* Appends the stable names as members of a JSON array, without its brackets. */
int loosen_names(uint32_t set, struct buf *out, struct err *e);
/* Appends a text for people, separated by commas. */
int loosen_text(uint32_t set, struct buf *out, struct err *e);

#endif
