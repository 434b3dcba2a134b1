/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_state - the containers' records on disk: one directory each below the state root (--root,
 * 0700).
 *
 *   state.json    written new, then renamed
 *   config.json   the configuration as it was at create
 *   making.sock   there while the container is being created
 *   start.sock    the same, renamed once it is created, until its program runs
 *
 * The directory is made first and removed last; state.json names the cgroups before they exist. If
 * a command dies, at any point, `delete --force` clears what it left.
 *
 * A command that changes the container holds a lock (flock) on the directory. A create holds the
 * state root's lock, shared, until it has the new directory's. So a directory without a lock and
 * without a process in its state.json, seen after taking the root's lock exclusively, was left by a
 * killed create.
 */
#ifndef BERTH_RUNTIME_OCI_STATE_H
#define BERTH_RUNTIME_OCI_STATE_H

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "runtime/oci/cgroup.h"

#define OCI_SOCKET "start.sock"
#define OCI_MAKING_SOCKET "making.sock"
#define OCI_SPEC_VERSION "1.2.0"

enum oci_status { OCI_CREATING, OCI_CREATED, OCI_RUNNING, OCI_PAUSED, OCI_STOPPED };

struct oci_state {
	char id[256];
	int dir_fd;	/* -1 */
	json_t *doc;	/* state.json */
	pid_t pid;	/* 0: no process was recorded */
	int making;	/* no process was recorded, and a create is under way */
	uint64_t start_time;
	struct oci_cgroup cgroup;
};

/* Returns NULL if id may name a container: letters, digits, "_+-." and at most 255; else what is wrong. */
const char *oci_id_fault(const char *id);
/*
 * Opens the state root; with make it is made if missing, else ERR_NOT_FOUND. dir NULL:
 * /run/berth-oci, or below $XDG_RUNTIME_DIR for a caller who is not the host's root.
 */
int oci_root_open(const char *dir, int make, struct err *e);

/* Makes the container's directory and locks it; ERR_EXISTS.  st is uninitialised storage; st->doc is an empty object. */
int oci_state_new(struct oci_state *st, int root_fd, const char *id, struct err *e);
/* Writes st->doc to state.json. */
int oci_state_save(const struct oci_state *st, struct err *e);
/*
 * Loads a container; ERR_NOT_FOUND. A directory without state.json (its create was killed) loads
 * with an empty doc.
 */
int oci_state_load(struct oci_state *st, int root_fd, const char *id, struct err *e);
/* As oci_state_load(), after waiting until no command makes or changes the container; it stays locked. */
int oci_state_load_locked(struct oci_state *st, int root_fd, const char *id, struct err *e);
/* As oci_state_load_locked(), but does not wait for a create: ERR_BUSY. */
int oci_state_load_made(struct oci_state *st, int root_fd, const char *id, struct err *e);
void oci_state_release(struct oci_state *st);
/* Removes the directory with everything in it. */
int oci_state_remove(struct oci_state *st, int root_fd, struct err *e);
void oci_state_unlock(const struct oci_state *st);

enum oci_status oci_state_status(const struct oci_state *st);
const char *oci_status_name(enum oci_status s);
/* Returns the state that the spec defines (runtime.md, "State"), for `state` and hooks. A new reference. */
json_t *oci_state_json(const struct oci_state *st, enum oci_status status);

/* Returns field 22 of /proc/PID/stat, or 0; *ret_letter (or NULL) is its state letter. */
uint64_t oci_start_time(pid_t pid, char *ret_letter);
/*
 * Tells whether pid, dead or alive, is still the forked process and has executed no program; 0 too
 * if it does not exist.
 */
int oci_never_executed(pid_t pid);

/* Writes pid, without a newline, to path (absolute): to a new file, which is then renamed. */
int oci_pid_file_write(const char *path, pid_t pid, struct err *e);

#endif
