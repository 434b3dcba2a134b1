/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remote - berth's commands, done by a berthd somewhere else.
 *
 * A program of its own (berth-remote), which berth becomes when it is given --host or
 * BERTH_HOST, so that berth links no HTTP library.  The options are those of
 * the same tables; a command or an option that cannot be done from afar is refused.
 */
#ifndef BERTH_CLI_REMOTE_REMOTE_H
#define BERTH_CLI_REMOTE_REMOTE_H

#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "cli/command.h"

struct remote {
	const struct command *command;
	json_t *options;	/* long name -> array of values (true for a flag) */
	char **words;		/* operands */
	int count;
	int json;
	int status;		/* the exit status, when all went well */
	const char *unix_path;	/* or NULL */
	char base[512];		/* "http://host:port" */
	const char *token;	/* or NULL */
};

/* "unix:///path", "http://host:port" or "https://host". */
int remote_open(struct remote *r, const char *url, struct err *e);

/* ---- http.c: one request each; thread-safe ---- */

struct remote_io {
	/* the body: bytes of a descriptor (-1: none), or a JSON object (borrowed) */
	int in_fd;
	const json_t *json;
	/* where a good reply goes: called with pieces; NULL: collected for remote_call() */
	int (*take)(void *ctx, const char *data, size_t n, struct err *e);
	void *ctx;
};

/* path is escaped already.  0, or -1 with berthd's own error. */
int remote_transfer(const struct remote *r, const char *method, const char *path, const struct remote_io *io, struct err *e);
/* A take of remote_io: writes the bytes as they arrive. */
int remote_to_stdout(void *ctx, const char *data, size_t n, struct err *e);
/* The reply as JSON (a new reference, an empty object without one), or NULL. */
json_t *remote_call(const struct remote *r, const char *method, const char *path, const json_t *body, struct err *e);
/* Appends to path "?key=value" or "&key=value", escaped. */
int remote_query(struct buf *path, const char *key, const char *value, struct err *e);
/* Appends text to path, escaped: a slash too. */
int remote_escape(struct buf *path, const char *text, struct err *e);
/* "/v1/sandboxes/ID" and rest, with ID escaped. */
int remote_path(struct buf *path, const char *id, const char *rest, struct err *e);

/* ---- exec.c: events, an object a line ---- */

struct remote_events {
	struct remote *r;
	struct buf line;	/* BUF_INIT(REMOTE_LINE_MAX) */
	json_t *verdict;	/* once it came; the owner's */
	char *box;		/* exec: whose stdin is ours, else NULL; run: "", until it is told */
	int is_zygote;		/* that is a zygote, and command one of its runs */
	char made[65];
	pthread_t feeder;
	int fed;		/* stdin is on its way */
	char command[64];
	int json;		/* print events as they are */
	int (*started)(struct remote_events *ev, struct err *e);	/* or NULL: command, and of a run made, are known */
	void *started_ctx;
};
#define REMOTE_LINE_MAX (8u << 20)

/* For remote_io: ctx is a struct remote_events; output goes to our stdout and stderr. */
int remote_take_events(void *ctx, const char *data, size_t n, struct err *e);
/*
 * POSTs body, which asks for a stream with an open stdin: output goes to ours, our stdin there,
 * and the verdict is reported. box is of struct remote_events.
 */
int remote_stream(struct remote *r, const char *path, const json_t *body, const char *box,
		  int is_zygote, struct err *e);
/* "KEY" or "KEY_hex" of j, to a descriptor. */
int remote_write_data(const json_t *j, const char *key, int fd, struct err *e);
/* Tells people why the command of verdict ended, as the verb does at home (runtime/sandbox/reason.h). */
void remote_tell_reason(const struct remote *r, const json_t *verdict);
/* The verdict to --status-fd and --json, and the exit status from it. */
int remote_report(struct remote *r, const json_t *verdict, struct err *e);

/* ---- terminal.c ---- */

/* Our terminal joined to that of the run, which body asks for: until its end, or ours, when the sandbox goes. */
int remote_run_terminal(struct remote *r, json_t *body, struct err *e);
/* Starts body (detached, with a terminal) and joins our terminal to it until its end. */
int remote_exec_terminal(struct remote *r, const char *path, json_t *body, struct err *e);
int remote_attach(struct remote *r, struct err *e);
int remote_shell(struct remote *r, struct err *e);

/* ---- options ---- */

/* The last value of an option, or NULL; and whether it was given. */
const char *remote_value(const struct remote *r, const char *name);
int remote_flag(const struct remote *r, const char *name);
/* Sets key of body from option name, as what it is; absent: nothing is done. */
int remote_set_string(const struct remote *r, json_t *body, const char *key, const char *name);
int remote_set_ms(const struct remote *r, json_t *body, const char *key, const char *name, struct err *e);
int remote_set_list(const struct remote *r, json_t *body, const char *key, const char *name);
/* The options that were given, but those named in except (" name name "), as values of JSON: a new object. */
json_t *remote_params(const struct remote *r, const char *except);
/* Prints j, which it consumes, as the command does at home: with --json in one line. */
int remote_tell(const struct remote *r, json_t *j, struct err *e);
/* Prints j, which it consumes, on one line of stdout. */
int remote_print(json_t *j, struct err *e);

/* ---- the commands, one function each ---- */

struct remote_verb {
	const char *name;
	int min, max;			/* operands */
	const char *options;		/* the options that it has besides --json: " name name "; "*": all */
	int (*run)(struct remote *r, struct err *e);
	unsigned of;			/* it also has the options that a sandbox has for this operation (manager/ops/params.h) */
};

extern const struct remote_verb remote_verbs[];		/* verbs.c; the last has no name */
int remote_exec(struct remote *r, struct err *e);
int remote_sh(struct remote *r, struct err *e);
int remote_output(struct remote *r, struct err *e);
int remote_send(struct remote *r, struct err *e);
int remote_file(struct remote *r, struct err *e);
int remote_cp(struct remote *r, struct err *e);
int remote_image(struct remote *r, struct err *e);
int remote_pull(struct remote *r, struct err *e);
int remote_push(struct remote *r, struct err *e);
int remote_login(struct remote *r, struct err *e);
int remote_logout(struct remote *r, struct err *e);
int remote_save(struct remote *r, struct err *e);
int remote_load(struct remote *r, struct err *e);
int remote_run(struct remote *r, struct err *e);
int remote_create(struct remote *r, struct err *e);
int remote_code(struct remote *r, struct err *e);
int remote_commit(struct remote *r, struct err *e);
int remote_logs(struct remote *r, struct err *e);
/* objects.c: the same for networks and for volumes, as the command's name says. */
int remote_port(struct remote *r, struct err *e);
int remote_object_ls(struct remote *r, struct err *e);
int remote_object_create(struct remote *r, struct err *e);
int remote_object_inspect(struct remote *r, struct err *e);
int remote_object_rm(struct remote *r, struct err *e);
int remote_object_prune(struct remote *r, struct err *e);
int remote_network_update(struct remote *r, struct err *e);
int remote_network_change(struct remote *r, struct err *e);
/* checkpoint.c */
int remote_checkpoint(struct remote *r, struct err *e);
int remote_checkpoints(struct remote *r, struct err *e);
int remote_checkpoint_rm(struct remote *r, struct err *e);
int remote_undo(struct remote *r, struct err *e);
int remote_checkpoint_export(struct remote *r, struct err *e);
int remote_checkpoint_import(struct remote *r, struct err *e);
/* What an import or a restore made: the options left out, and the sandbox's id. */
void remote_print_made(const char *who, const json_t *made);
int remote_checkpoint_store(struct remote *r, struct err *e);
int remote_checkpoint_stored(struct remote *r, struct err *e);
int remote_checkpoint_restore(struct remote *r, struct err *e);
int remote_checkpoint_discard(struct remote *r, struct err *e);
int remote_fork(struct remote *r, struct err *e);
/* zygote.c */
int remote_zygote_create(struct remote *r, struct err *e);
int remote_zygote_ls(struct remote *r, struct err *e);
int remote_zygote_inspect(struct remote *r, struct err *e);
int remote_zygote_rm(struct remote *r, struct err *e);
int remote_run_zygote(struct remote *r, struct err *e);
/* "/v1/zygotes/ID" and rest, with ID escaped. */
int remote_zygote_path(struct buf *path, const char *zygote, const char *rest, struct err *e);
/* POSTs our image, options and command to path, and prints the id. */
int remote_create_at(struct remote *r, const char *path, struct err *e);
/* The body of a create, of our image and options: a new reference, or NULL. */
json_t *remote_create_body(struct remote *r);

#endif
