/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup - life, death, limits and accounting of a sandbox (cgroups(7)).
 *
 * Two back ends behind one struct of functions:
 *   v2      one unified hierarchy with all controllers.
 *   hybrid  controllers on v1 hierarchies and an empty v2 tree: the v2 tree
 *           for life and death (CLONE_INTO_CGROUP, cgroup.kill, cgroup.freeze,
 *           cpu.stat), the v1 ones for limits.
 * A limit that the host cannot enforce is ERR_UNSUPPORTED and names the missing
 * controller.  Every limit is read back after it was written.
 *
 * Everything lives below one cgroup per hierarchy, the parent ("berth"), and is
 * named after the sandbox, so that it can be found and removed by name alone.
 */
#ifndef BERTH_RUNTIME_KERNEL_CGROUP_H
#define BERTH_RUNTIME_KERNEL_CGROUP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/json.h"

enum cgroup_mode { CGROUP_NONE, CGROUP_V2, CGROUP_HYBRID };

enum cgroup_v1 { V1_MEMORY, V1_CPU, V1_PIDS, V1_BLKIO, V1_DEVICES, V1_CPUSET, CGROUP_V1_COUNT };

#define CGROUP_JOIN_MAX CGROUP_V1_COUNT
#define CGROUP_UNLIMITED UINT64_MAX
enum { HELD_CPU, HELD_PEAK, HELD_OOM, HELD_PIDS, HELD_IO, HELD_PROCS, CGROUP_HELD_MAX };

/* Bits with the values of BPF_DEVCG_ACC_*. */
enum cgroup_access { DEVICE_MKNOD = 1, DEVICE_READ = 2, DEVICE_WRITE = 4 };

/* A device that may be used besides those that all sandboxes have. */
struct cgroup_device {
	char type;		/* 'c' or 'b' */
	unsigned major, minor;
	unsigned access;	/* a set of enum cgroup_access */
};

#define CGROUP_DEVICES_MAX 64

enum cgroup_io_kind { IO_READ, IO_WRITE, IO_READ_OPS, IO_WRITE_OPS, CGROUP_IO_KINDS };

/* The rates at which one disk may be read and written: bytes, then operations a second. */
struct cgroup_io_rate {
	unsigned major, minor;
	uint64_t v[CGROUP_IO_KINDS];	/* CGROUP_UNLIMITED: no limit */
};

#define CGROUP_IO_RATES_MAX 8

struct cgroup_limits {
	uint64_t memory_bytes;	/* CGROUP_UNLIMITED: no limit */
	uint64_t swap_bytes;	/* on top of memory; 0: no swap */
	uint64_t cpu_milli;	/* thousandths of a CPU; CGROUP_UNLIMITED: no limit */
	uint64_t pids;
	char cpuset[256];	/* "0-1,3"; "": not restricted */
	uint64_t cpu_weight;	/* 1..10000; 0: leave unchanged */
	uint64_t io_weight;	/* 1..10000; 0: leave unchanged */
	struct cgroup_io_rate io_rates[CGROUP_IO_RATES_MAX];	/* rates of disks that are not listed stay */
	unsigned io_rate_count;
	int oom_group;		/* an OOM ends every process, not one */
	const struct cgroup_device *devices;	/* borrowed; used by create and complete only */
	size_t device_count;
	int no_io;		/* block I/O is counted by other means: no blkio cgroup (hybrid) */
};

struct cgroup_usage {
	uint64_t cpu_us;
	uint64_t memory_peak_bytes;
	uint64_t memory_bytes;	/* set by cgroup_usage_now() only */
	uint64_t read_bytes, write_bytes;
	uint64_t oom_kills;	/* processes killed for memory */
	uint64_t pids_events;	/* forks refused by the pids limit */
	uint64_t pids;		/* set by cgroup_usage_now() only */
};

#define CGROUP_MEMORY_STAT 64	/* members of cgroup_memory_stat() at most; Linux 6.12 has 59 */

struct cgroup {
	const struct cgroup_ops *ops;	/* NULL: not open */
	char parent[65], name[65];
	int v2_fd;			/* the sandbox's directory in the v2 tree */
	int v1_fd[CGROUP_V1_COUNT];	/* hybrid only */
	int own_devices;		/* hybrid: it has a devices cgroup that differs from that of all
					 * sandboxes */
	int join_fd[CGROUP_JOIN_MAX];	/* `tasks` files to which the child itself writes "0" */
	int oom_fd;			/* hybrid: eventfd, readable when memory ran out */
	int oom_control_fd;		/* hybrid: memory.oom_control, while oom_fd is there */
	int held[CGROUP_HELD_MAX];	/* files that are read often and stay open: see cgroup_hold() */
	int holds;
};

struct cgroup_ops {
	const char *name;
	/*
	 * Makes the cgroups in which a process can be born (v2: with its limits); ERR_EXISTS if
	 * they exist.
	 */
	int (*create)(struct cgroup *c, const struct cgroup_limits *l, struct err *e);
	/*
	 * Makes the further cgroups that the process joins, with their limits. NULL: the back end
	 * has none.
	 */
	int (*complete)(struct cgroup *c, const struct cgroup_limits *l, struct err *e);
	/* Opens the cgroups that exist, for cleaning up; missing ones are no error. */
	int (*open)(struct cgroup *c, struct err *e);
	/* Changes the limits of a live cgroup; reads each back. */
	int (*limit)(struct cgroup *c, const struct cgroup_limits *l, struct err *e);
	/*
	 * Removes the limits of a live cgroup that are CGROUP_UNLIMITED in l; limit() leaves
	 * them as they are.
	 */
	int (*lift)(struct cgroup *c, const struct cgroup_limits *l, struct err *e);
	/* Reads the use so far; with now, also the present use. */
	int (*usage)(struct cgroup *c, int now, struct cgroup_usage *ret, struct err *e);
	/*
	 * Makes a sandbox's cgroup ready for leaves: its init, pid, moves to a leaf of its own
	 * where it must.
	 */
	int (*house)(struct cgroup *c, int pid, struct err *e);
	/* As create, for a leaf of an existing sandbox: c->name is "ID/LEAF". */
	int (*create_leaf)(struct cgroup *c, const struct cgroup_limits *l, struct err *e);
	/* Removes the directories; ERR_BUSY while a process is in them. */
	int (*remove)(struct cgroup *c, struct err *e);
};

/*
 * Bits of enum cgroup_v1: the hierarchies of version 1 in which a sandbox with these limits has a cgroup of its own
 * that shows them; 0 on hosts with version 2.
 */
unsigned cgroup_shown(const struct cgroup_limits *l);
/* Returns the kind of hierarchy mounted at /sys/fs/cgroup. */
enum cgroup_mode cgroup_detect(void);

/*
 * c is uninitialised storage before these; cgroup_release() closes it in any state. cgroup_begin()
 * is enough for a process to be born in it; then cgroup_complete() must follow, and the process
 * join (cgroup_join_self()) before it may do anything. If cgroup_complete() fails, cgroup_destroy()
 * removes what was made.
 */
int cgroup_begin(struct cgroup *c, const char *parent, const char *name, const struct cgroup_limits *l, struct err *e);
int cgroup_complete(struct cgroup *c, const struct cgroup_limits *l, struct err *e);
/* Both. */
int cgroup_create(struct cgroup *c, const char *parent, const char *name,
		  const struct cgroup_limits *l, struct err *e);
/*
 * Makes a leaf of the sandbox `of` for one command, with limits of its own (NULL: none). owner, a
 * host uid, may put new processes into it (clone3(2), CLONE_INTO_CGROUP): it is init, which is root
 * in the sandbox and has no rights here.
 */
int cgroup_create_leaf(struct cgroup *c, const struct cgroup *of, const char *name,
		       const struct cgroup_limits *l, uint32_t owner, struct err *e);
int cgroup_open(struct cgroup *c, const char *parent, const char *name, struct err *e);
void cgroup_release(struct cgroup *c);

/* Removes the parent cgroups that have no cgroup below them any more. */
void cgroup_remove_parent(const char *parent);
/*
 * Moves the calling process, which has one thread and will be a keeper, to the one cgroup of all
 * keepers below the parent, which counts their memory instead of the cgroups of their callers.
 * Half of the host's memory, or least if that is more, limits all keepers together, unless a limit
 * is set already; when it is reached, the kernel kills the largest. On v1 that is a memory cgroup
 * only; on v2 the parent's device rules apply in it too. Without the memory controller this does
 * nothing.
 */
int cgroup_join_keepers(const char *parent, uint64_t least, struct err *e);
/* Removes the keepers' cgroup; waits shortly for keepers that are about to end. */
void cgroup_remove_keepers(const char *parent);
int cgroup_usage(struct cgroup *c, struct cgroup_usage *ret, struct err *e);
int cgroup_usage_now(struct cgroup *c, struct cgroup_usage *ret, struct err *e);
/* memory.stat of a directory, or of a cgroup, as numbers by name; a new object, empty where it cannot be read. */
json_t *cgroup_memory_stat(int dir_fd);
json_t *cgroup_memory_stat_of(const struct cgroup *c);
/* SIGKILL to every process below, atomically (cgroup.kill, Linux 5.14; else freeze and kill each). */
int cgroup_kill(struct cgroup *c, struct err *e);
/*
 * Time to wait for the end of a process after SIGKILL. A process ends once its files are closed,
 * and it may have a million of them: cgroup_more_ms() says how much longer that may take.
 */
#define CGROUP_END_MS 5000
/*
 * Call it when a wait of CGROUP_END_MS or longer is over: returns ms to wait further, 0 to give
 * up. It waits while the number of the host's open files shrinks; *files is 0 at first.
 */
unsigned cgroup_more_ms(uint64_t *files);
/* Waits until no process is left; ERR_TIMEOUT after timeout_ms, extended as above. */
int cgroup_wait_empty(struct cgroup *c, unsigned timeout_ms, struct err *e);
int cgroup_freeze(struct cgroup *c, int on, struct err *e);
/*
 * Waits until all processes in the frozen cgroup v2_fd, and in those below it, stand still, that
 * is, none is in a system call. 1; 0 if one was in the kernel for all of timeout_ms.
 */
int cgroup_wait_still(int v2_fd, unsigned timeout_ms);
/* Kills, waits and removes; success if the cgroup is gone already. */
int cgroup_destroy(struct cgroup *c, struct err *e);
/* As cgroup_destroy(), but waits at most this long for the killed processes (ERR_TIMEOUT). */
int cgroup_destroy_within(struct cgroup *c, unsigned ms, struct err *e);
/*
 * Joins the v1 hierarchies, in the child. A thread that moves itself through `tasks` takes no
 * global lock; moving another by cgroup.procs costs an RCU grace period, 15 ms here.
 * Async-signal-safe. -1 with errno.
 */
int cgroup_join_self(const int *join_fd, size_t n);
/* Gives the descriptors for cgroup_join_self(), and returns how many. */
size_t cgroup_joins(const struct cgroup *c, int ret_fd[CGROUP_JOIN_MAX]);

/* Shared by the back ends: small control files by directory fd. */
int cgroup_read(int dirfd, const char *file, char *buf, unsigned n);	/* length, or -1 with errno */
int cgroup_write(int dirfd, const char *file, const char *text);	/* 0, or -1 with errno */
uint64_t cgroup_stat_value(const char *text, const char *key);		/* "key N" line; 0 when absent */
int cgroup_has_word(const char *list, const char *word);
/* Calls each for every process of the cgroup at dirfd; for none if the list cannot be read. */
void cgroup_each_process(int dirfd, void (*each)(void *ctx, pid_t pid), void *ctx);
/* As cgroup_read(), for a file of dirfd that stays open as c->held[slot] if the cgroup holds its files. */
int cgroup_read_held(struct cgroup *c, int slot, int dirfd, const char *file, char *buf, unsigned n);
/*
 * Keeps the files open that cgroup_usage() reads, for a cgroup whose use is read often.
 */
void cgroup_hold(struct cgroup *c);
/* Writes value (unlimited for CGROUP_UNLIMITED) and reads it back. */
int cgroup_set(int dirfd, const char *file, uint64_t value, const char *unlimited, struct err *e);
/*
 * Binds the cgroup to the CPUs of list ("0-1,3"); effective is the file that lists the CPUs it may
 * use. ERR_INVALID with that list if `list` has others, which a kernel may accept silently
 * (cgroup-v2.rst, cpuset.cpus.effective).
 */
int cgroup_set_cpus(int dirfd, const char *list, const char *effective, struct err *e);
/* Returns 1 if got, a number read from a control file, is what the kernel makes of value. */
int cgroup_same_limit(const char *file, const char *got, uint64_t value);

/* ---- pressure ---- */

/*
 * pressure - how long tasks of a cgroup waited for CPU, memory or I/O
 * (Documentation/accounting/psi.rst).
 *
 * It reads cpu.pressure, memory.pressure and io.pressure of a directory of the v2 tree. A kernel
 * may lack them, or be booted with psi=0.
 */

enum pressure_kind { PRESSURE_CPU, PRESSURE_MEMORY, PRESSURE_IO, PRESSURE_COUNT };

/* Shares in hundredths of a per cent, over 10, 60 and 300 s. */
struct pressure_line {
	unsigned avg10, avg60, avg300;
	uint64_t total_us;
};

struct pressure {
	struct pressure_line some;	/* at least one task waited */
	struct pressure_line full;	/* all tasks waited, so no work was done */
};

/* Returns "cpu", "memory" or "io". */
const char *pressure_name(enum pressure_kind kind);
/* Reads the pressure of the cgroup dirfd: 1, or 0 if the kernel does not report it. */
int pressure_read(int dirfd, enum pressure_kind kind, struct pressure *ret);
/* Parses the text of such a file; pure. */
int pressure_parse(const char *text, struct pressure *ret);

#endif
