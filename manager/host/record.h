/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record - reads and writes record.json, the facts about a sandbox for ps, inspect and the next
 * start.
 *
 * Only this file knows the name of that file and its members. A sandbox has up to two records:
 * that of its run, below run_dir, which ends with the run; and that of a lasting sandbox, below
 * state_dir, which the next start reads. A dirfd here is the registry's sandboxes_fd for the
 * first and its kept_fd for the second.
 */
#ifndef BERTH_MANAGER_HOST_RECORD_H
#define BERTH_MANAGER_HOST_RECORD_H

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct registry;
struct claim;

#define RECORD_FILE "record.json"

/*
 * The members of a record. record_NAME(record) is the text ("" when absent, see record_has_NAME()),
 * the number (0), the flag (0), or the array or object, borrowed (NULL); record_set_NAME(record, v)
 * sets it, and takes over an array or an object.
 */
#define RECORD_MEMBERS(X) \
	X(id, TEXT) X(name, TEXT) X(image, TEXT) X(created, TEXT) X(started, TEXT) \
	X(finished, TEXT) X(stop_reason, TEXT) X(start_error, TEXT) X(error, TEXT) \
	X(supervisor_pid, NUMBER) X(init_pid, NUMBER) \
	X(fork_of, TEXT) X(zygote, FLAG) \
	X(command, JSON) X(init_command, TEXT) X(verdict, JSON) X(labels, JSON) X(mounts, JSON) \
	X(network, JSON) X(networks, JSON) \
	X(service, FLAG) X(tty, FLAG) X(stdin_open, FLAG) X(stop_signal, TEXT) \
	X(stop_timeout_ms, NUMBER) X(restart, TEXT) X(restarts, NUMBER) \
	X(stopped_by_hand, FLAG) X(guardian_pid, NUMBER) X(guardian, TEXT) \
	X(auto_remove, FLAG) X(idle_timeout_ms, NUMBER) X(expires_ms, NUMBER) \
	X(pause_at_end, FLAG) X(stop_at_end, FLAG) X(resume_ttl_ms, NUMBER) \
	X(owner_process, TEXT) X(owner_pid, NUMBER) X(owner_grace_ms, NUMBER) \
	X(budget_cpu_ms, NUMBER) X(budget_used_ms, NUMBER) X(budget_time_ms, NUMBER) \
	X(budget_time_used_ms, NUMBER) X(budget_io_bytes, NUMBER) X(budget_io_used_bytes, NUMBER) \
	X(budget_net_bytes, NUMBER) X(budget_net_used_bytes, NUMBER)

#define RECORD_IS_TEXT(member) \
	static inline const char *record_##member(const json_t *record) \
	{ \
		const char *s = json_string_value(json_object_get(record, #member)); \
		return s ? s : ""; \
	} \
	static inline int record_has_##member(const json_t *record) \
	{ \
		return json_is_string(json_object_get(record, #member)); \
	} \
	static inline void record_set_##member(json_t *record, const char *v) \
	{ \
		json_object_set_new(record, #member, json_string(v)); \
	}
#define RECORD_IS_NUMBER(member) \
	static inline int64_t record_##member(const json_t *record) \
	{ \
		return json_integer_value(json_object_get(record, #member)); \
	} \
	static inline void record_set_##member(json_t *record, uint64_t v) \
	{ \
		json_object_set_new(record, #member, json_integer((json_int_t)v)); \
	}
#define RECORD_IS_FLAG(member) \
	static inline int record_##member(const json_t *record) \
	{ \
		return json_is_true(json_object_get(record, #member)); \
	} \
	static inline void record_set_##member(json_t *record, int v) \
	{ \
		json_object_set_new(record, #member, json_boolean(v)); \
	}
#define RECORD_IS_JSON(member) \
	static inline json_t *record_##member(const json_t *record) \
	{ \
		return json_object_get(record, #member); \
	} \
	static inline int record_set_##member(json_t *record, json_t *v) \
	{ \
		return json_object_set_new(record, #member, v); \
	}
#define X(member, type) RECORD_IS_##type(member)
RECORD_MEMBERS(X)
#undef X

/* Tells whether the record says when it expires, or that it never does. */
static inline int record_has_expiry(const json_t *record)
{
	return json_object_get(record, "expires_ms") != NULL;
}

/* Removes the process that owns the sandbox. */
static inline void record_drop_owner(json_t *record)
{
	json_object_del(record, "owner_process");
	json_object_del(record, "owner_pid");
	json_object_del(record, "owner_grace_ms");
}

/* That of a run: what berth-net listens at, in the member "ports" of its network; NULL: at none. */
static inline void record_set_ports(json_t *record, json_t *ports)
{
	if (json_array_size(ports))
		json_object_set(record_network(record), "ports", ports);
}

/* Nobody has started it yet. */
static inline void record_drop_started(json_t *record)
{
	json_object_del(record, "started");
}

/* Notes that the sandbox is on its first network only. */
static inline void record_drop_networks(json_t *record)
{
	json_object_del(record, "networks");
}

/* Sets the time; 0: it does not expire, which is written as null. */
static inline void record_set_expiry(json_t *record, uint64_t at_ms)
{
	json_object_set_new(record, "expires_ms",
			    at_ms ? json_integer((json_int_t)at_ms) : json_null());
}

/*
 * Its status. PAUSED and RESTARTING are in no file: a keeper or a guardian reports them. NEWER
 * is the status of the substitute for a record of a newer format; NONE means absent, or an
 * unknown word.
 */
enum record_status {
	RECORD_NONE, RECORD_CREATED, RECORD_RUNNING, RECORD_PAUSED, RECORD_STOPPED, RECORD_EXITED,
	RECORD_RESTARTING, RECORD_NEWER, RECORD_STATUSES,
};
enum record_status record_status(const json_t *record);
void record_set_status(json_t *record, enum record_status status);
/* Returns the word for a status. */
const char *record_status_name(enum record_status status);
/* Corrects a record that is on disk only: its sandbox does not run, even if the record says otherwise. */
void record_settle_kept(json_t *record);

/* Makes a record with its first members, in the order in which they are shown; NULL without memory. */
json_t *record_new(const char *id, const char *name, const char *image, enum record_status status,
		   const char *created);

/* Tells whether there is a record; errno as fstatat(2) sets it. */
int record_is_there(int dirfd, const char *id);
/* Tells whether the record is an empty file, as a power cut leaves one that was not synced. */
int record_is_empty(int dirfd, const char *id);
/*
 * Reads the record below dirfd, or makes the substitute for one of a newer format, with the reason
 * in "error": 1. 0: the record is just being made or removed, or damaged; rm -f and gc know the
 * sandbox by its directory.
 */
int record_read(int dirfd, const char *id, json_t **ret, struct err *e);
/* As record_read(), in the sandbox's own directory. */
int record_read_in(int dirfd, const char *id, json_t **ret, struct err *e);
/* Checks the sandbox's records: 0, or -1 with ERR_UNSUPPORTED if one is of a newer format. */
int record_check_format(struct registry *r, const char *id, struct err *e);

/* Loads the record of the run: a new reference or NULL. */
json_t *record_load_run(struct registry *r, const char *id, struct err *e);
/* Loads the record of a lasting sandbox. ERR_UNSUPPORTED if it is of a newer format. */
json_t *record_load_kept(struct registry *r, const char *id, struct err *e);

/*
 * Writes the record of a claimed sandbox's run. A reader cannot parse a half-written one, and
 * treats it as missing.
 */
int record_save_run(const struct claim *c, const json_t *record, struct err *e);
/* Empties the record in the directory of a run that is over, because it has a command line. */
int record_void(int dirfd);
/* Rewrites the record of another process's run; does nothing if the run has ended. */
int record_replace_run(struct registry *r, const char *id, const json_t *record, struct err *e);
/*
 * Writes the record of a lasting sandbox; it is on disk before this returns unless the sandbox is
 * removed at its end. ENOENT if its directory is gone.
 */
int record_save_kept(struct registry *r, const char *id, const json_t *record, struct err *e);
/*
 * As record_save_kept(), for a start or an end of a sandbox that has a record: after a power cut it
 * has this record or the one before, and does not run with either. So it costs one commit of the
 * file system's journal in place of two.
 */
int record_save_turn(struct registry *r, const char *id, const json_t *record, struct err *e);
/* Removes the record: the sandbox no longer exists, and its remains are to be removed. */
void record_drop_kept(struct registry *r, const char *id);
/* Tells whether the sandbox is neither kept nor running, so that no command can name it. */
int record_is_gone(struct registry *r, const char *id);
/* As record_save_kept(), and makes the directory if it is missing: the sandbox lasts from then on. */
int record_keep(struct registry *r, const char *id, const json_t *record, struct err *e);
/*
 * Records that a lasting sandbox has stopped, with the reason unless that is NULL. Does nothing if
 * it has no record, or is being removed.
 */
int record_note_stopped(struct registry *r, const char *id, const char *reason, struct err *e);

#endif
