/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_cgroup - makes the cgroup of an OCI container, at the place that its configuration names
 * (config-linux.md, "Control groups").
 *
 * A container has one directory per hierarchy: on a v2 host one, on a v1 or hybrid host one per v1
 * hierarchy and one in the v2 tree if that is mounted, for CLONE_INTO_CGROUP and cgroup.kill. The
 * plan is recorded in the container's state before the first directory is made, so that whatever a
 * crash leaves can be found.
 */
#ifndef BERTH_RUNTIME_OCI_CGROUP_H
#define BERTH_RUNTIME_OCI_CGROUP_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define OCI_CGROUP_PARTS 20
#define OCI_CGROUP_UNIFIED "unified"

struct oci_cgroup_part {
	char name[64];	/* as in /proc/self/cgroup: "memory", "cpu,cpuacct", "systemd"; OCI_CGROUP_UNIFIED */
	char *dir;	/* on the host */
	size_t root_len;	/* the part of dir that is the hierarchy's mount */
	size_t theirs_len;	/* the part that systemd has made and keeps; at least root_len */
	int join_fd;	/* v1: the open `tasks` file; -1 */
	int dir_fd;	/* -1 until created or opened */
};

struct oci_cgroup {
	int v2;		/* one unified hierarchy with the controllers; else v1 or hybrid */
	size_t count;
	struct oci_undo *undo;	/* used by oci_resources_update() only; else NULL */
	struct oci_cgroup_part part[OCI_CGROUP_PARTS];
};

/*
 * Decides the directories.  path is linux.cgroupsPath or NULL: absolute from
 * each hierarchy's mount; relative or absent (then id), from this process's own
 * cgroup.  c is uninitialised storage.
 */
int oci_cgroup_plan(struct oci_cgroup *c, const char *path, const char *id, struct err *e);
/* As oci_cgroup_plan(), for the cgroup "container" in the scope of systemd at scope (from the v2 mount). */
int oci_cgroup_plan_scope(struct oci_cgroup *c, const char *scope, struct err *e);
/*
 * Checks the directories: ERR_BUSY if one has processes. Call it before anything is recorded that a
 * removal would act on.
 */
int oci_cgroup_check_vacant(const struct oci_cgroup *c, struct err *e);
/* Makes the directories and their missing parents; refuses one with processes in it (ERR_BUSY). */
int oci_cgroup_create(struct oci_cgroup *c, struct err *e);
/* Removes the directories that a failed create made and that are empty. */
void oci_cgroup_unmake(const struct oci_cgroup *c);
/* Opens the directories that exist; a missing one is no error. */
int oci_cgroup_open(struct oci_cgroup *c, struct err *e);
void oci_cgroup_release(struct oci_cgroup *c);

/* Converts the plan to JSON, a new reference, and back. c is uninitialised storage. */
json_t *oci_cgroup_to_json(const struct oci_cgroup *c);
int oci_cgroup_from_json(struct oci_cgroup *c, const json_t *j, struct err *e);

/* Returns the open directory of a v1 controller or of OCI_CGROUP_UNIFIED; -1 if there is none. */
int oci_cgroup_fd(const struct oci_cgroup *c, const char *controller);
/* Returns the v2 directory for clone3(2), CLONE_INTO_CGROUP; or -1. */
int oci_cgroup_clone_fd(const struct oci_cgroup *c);
/* Joins the v1 hierarchies; the first call of the new process. */
int oci_cgroup_join(const struct oci_cgroup *c, struct err *e);
/*
 * As oci_cgroup_join(), and joins the v2 one, for a process that was not born in it; sub (or NULL)
 * is a cgroup below each.
 */
int oci_cgroup_enter(const struct oci_cgroup *c, const char *sub, struct err *e);

/* Sends sig to every process in the cgroup and below. SIGKILL is atomic if cgroup.kill exists. */
int oci_cgroup_signal(const struct oci_cgroup *c, int sig, struct err *e);
/* Lists the host's pids of all processes in the cgroup and below, sorted; the caller frees *ret. */
int oci_cgroup_pids(const struct oci_cgroup *c, pid_t **ret, size_t *ret_count, struct err *e);
int oci_cgroup_freeze(const struct oci_cgroup *c, int on, struct err *e);
/* Returns 1 if it is frozen (or about to be), 0 if not. */
int oci_cgroup_frozen(const struct oci_cgroup *c);
/* Kills the processes in it, waits, and removes the directories. Missing ones are no error. */
int oci_cgroup_destroy(struct oci_cgroup *c, struct err *e);

/* ---- every cgroup at and below one ---- */

/*
 * oci_cgroup_walk - visits every cgroup at and below one, at any number and depth.
 *
 * Holds two descriptors and no stack per level: down by name, back by "..", which must be the
 * same directory as on the way down (a cgroup cannot move to another parent). Time is linear in
 * the number of cgroups, and ends at a deadline, so a container that makes cgroups faster than
 * they are walked cannot keep us for ever.
 */

struct oci_cgroup_walk {
	/* Called on the way down, the top first; NULL: nothing. -1 with e ends the walk. */
	int (*enter)(void *ctx, int fd, struct err *e);
	/*
	 * Called on the way back for a cgroup whose descendants are done, with the cgroup above it
	 * and its name; not for the top; NULL: nothing.
	 */
	int (*leave)(void *ctx, int above, const char *name, struct err *e);
	void *ctx;
	uint64_t end;	/* clock_ms(); past it ERR_TIMEOUT */
};

/* Walks. fd stays the caller's. A cgroup that is removed meanwhile is no error. */
int oci_cgroup_walk(int fd, const struct oci_cgroup_walk *w, struct err *e);

#endif
