/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docker - the Engine API of Docker, served by berthd on a socket of its own.
 *
 * The documents are manager/engine's.  A container is a sandbox: berth ps lists it, its keeper owns
 * it, and what Docker knows of it beyond that is a file in its directory (ENGINE_FILE_NAME).  So
 * berthd may be killed at any time.  In memory are only the clients that wait for a start, and the
 * execs that this process was asked for.
 */
#ifndef BERTH_MANAGER_DOCKER_DOCKER_H
#define BERTH_MANAGER_DOCKER_DOCKER_H

#include "base/buf.h"
#include "base/detachkeys.h"
#include "base/err.h"
#include "base/json.h"
#include "manager/api/api.h"
#include "manager/api/http.h"
#include "manager/engine/containers.h"
#include "manager/engine/system.h"
#include "manager/host/conf.h"
#include "manager/host/journal.h"

#define DOCKER_API ENGINE_API
#define DOCKER_API_MIN ENGINE_API_MIN

struct arrivals;
struct execs;

struct docker {
	struct http_server *http;
	struct arrivals *arrivals;
	struct execs *execs;
	unsigned allow;	       /* bits of enum engine_allow, as they were at the start */
	char binds[CONF_BINDS_MAX]; /* [docker] binds, as it was at the start */
	char socket_path[108]; /* ours to remove, or "" */
};

/*
 * Listens where [docker] socket of a's configuration says; with "" it does nothing.  0, or -1 with
 * nothing left.
 */
int docker_start(struct api *a, struct err *e);
/* No new clients from here on; docker_stop() waits for those that are there, and frees it. */
void docker_ending(struct api *a);
void docker_stop(struct api *a, unsigned grace_ms);

static inline struct docker *docker_of(const struct http_request *rq)
{
	return api_of(rq)->docker;
}

extern const struct http_route docker_system_routes[], docker_container_routes[],
	docker_life_routes[], docker_stream_routes[], docker_exec_routes[], docker_archive_routes[],
	docker_image_routes[], docker_look_routes[], docker_event_routes[], docker_volume_routes[],
	docker_network_routes[], docker_build_routes[], docker_buildkit_routes[], docker_swarm_routes[];

/* ---- errors (door.c) ---- */

/* The minor version of the API that the request asks for; the newest, if it names none. */
int docker_api_minor(const struct http_request *rq);
/* {"message":...} */
json_t *docker_error_json(const struct err *e);
/* -1, and this status for the reply. */
int docker_fail(struct http_request *rq, int status, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* "1", "true", "True": any of Docker's ways to say yes. */
int docker_query_flag(const struct http_request *rq, const char *name);
/* A number of a query, or preset where it is absent; -1 with 400. */
int docker_query_int(struct http_request *rq, const char *name, long preset, long *ret,
		     struct err *e);

/*
 * How the operations of manager/engine are carried out for a request: by berth programs.  room holds
 * the configuration for those on networks; NULL: none of them is.
 */
struct engine_berth docker_berth(struct http_request *rq, struct config *room);

/* ---- containers (route_container.c) ---- */

/* box_find() in Docker's words: 404 "No such container: X". */
int docker_find(struct box *b, struct http_request *rq, struct err *e);
/* The same of a name that is not in the path; NULL: 400. */
int docker_find_named(struct box *b, struct http_request *rq, const char *name, struct err *e);
/* And it runs: 409 "Container X is not running". */
int docker_find_running(struct box *b, struct http_request *rq, struct err *e);
/* Turns an error of its keeper into this meaning: the container stopped meanwhile. */
int docker_connect(struct box *b, struct err *e);
/* The same for box_call(): the container stopped before its keeper answered. */
json_t *docker_call(struct box *b, json_t *request, struct err *e);

/*
 * docker_find(), connected to a keeper that serves operations on files: a stopped container gets
 * a keeper for files only, which ends when b is closed.
 */
int docker_open_files(struct box *b, struct http_request *rq, struct err *e);

/* docker_find(), for the operations of manager/engine/containers.h; ret borrows b. */
int docker_container(struct engine_container *ret, struct box *b, struct http_request *rq, struct err *e);

/* An empty box, which box_close() accepts. */
void box_clear(struct box *b);

/* Of b; live: its keeper is asked, too.  -1 when it is gone. */
int docker_load(struct engine_loaded *l, struct box *b, int live, struct err *e);
/* The name it is called by in messages: the reference of the request. */
const char *docker_called(const struct http_request *rq);

/*
 * After a failure: 404 in Docker's words when another client removed the container meanwhile, and
 * else what it was.  -1.
 */
int docker_explain(struct box *b, struct http_request *rq, struct err *e);

/* ---- those who wait for a start (route_stream.c) ---- */

enum arrival_news { ARRIVAL_NONE, ARRIVAL_STARTED, ARRIVAL_FAILED };

struct arrival {
	struct arrival *next, **prev; /* NULL: not in the list */
	struct arrivals *list;
	char id[65];
	int fd; /* readable when there are news; -1: none */
	enum arrival_news news;
	int announced; /* the keeper was told that it comes */
};

struct arrivals *arrivals_new(void);
void arrivals_free(struct arrivals *l);
int arrival_join(struct arrivals *l, struct arrival *a, const char *id, struct err *e);
/* Accepts a struct that is zero but for fd -1. */
void arrival_leave(struct arrival *a);
unsigned arrivals_count(struct arrivals *l, const char *id);
void arrivals_tell(struct arrivals *l, const char *id, enum arrival_news news);
/*
 * Waits until the sandbox of b runs: ARRIVAL_STARTED; ARRIVAL_FAILED when its start failed, or it
 * is gone; -1 with e when the client is.  stays: the caller comes to the keeper even so, else the
 * keeper does not wait for it.
 */
int arrival_wait(struct arrival *a, struct box *b, int stays, struct http_request *rq, struct err *e);

/* ---- a command's output and input (pump.c) ---- */

struct pump {
	struct box *box; /* connected: its connection is for the output */
	const char *command;
	uint64_t from[2];
	int want[2];	 /* stdout, stderr */
	int raw;	 /* a terminal's bytes, without frames */
	int input;	 /* the client's bytes are for stdin */
	int input_ends;	 /* its end is that of stdin, too */
	struct detach_keys keys; /* of a terminal: typed, they end the connection and nothing else */
	json_t *verdict; /* at the command's end; the caller's to free */
};

/*
 * Until the command has ended and the client has its output, or the client typed its detach keys
 * (0, keys.detached says which), or the client is gone (-1).
 */
int pump_run(struct pump *p, struct http_request *rq, int fd, const char *extra, size_t n,
	     struct err *e);
/* The keys of a query or a body, NULL or "" for Docker's own; 400 for what are none. */
int pump_keys(struct pump *p, struct http_request *rq, const char *text, struct err *e);
/* Where the output of a command is now, and whether it runs: from is set.  ERR_NOT_FOUND. */
int pump_look(struct pump *p, struct err *e);

#define DOCKER_RAW_STREAM "application/vnd.docker.raw-stream"
#define DOCKER_FRAMES "application/vnd.docker.multiplexed-stream"

/*
 * execs - the execs that clients of this berthd made: their commands, and their states.
 *
 * Docker makes an exec before it starts it, so this small description is kept in memory; the
 * command itself is the keeper's, and lives on without it. At most EXECS_MAX of EXECS_BYTES_MAX
 * together are kept: a new one replaces the oldest that are over or were never started (S54).
 */

#define EXECS_MAX 4096
#define EXECS_BYTES_MAX (16u << 20)
#define EXEC_ID 65

enum exec_state { EXEC_NEW, EXEC_STARTS, EXEC_RUNS, EXEC_ENDED };

/* A copy of one; release gives back its body. */
struct exec {
	char id[EXEC_ID], box[EXEC_ID], command[24];
	enum exec_state state;
	int exit_code;
	json_t *body;
};

struct execs *execs_new(void);
void execs_free(struct execs *x);
/* Copies body.  ERR_LIMIT while all of them run. */
int execs_add(struct execs *x, const char *box, const json_t *body, char ret_id[EXEC_ID],
	      struct err *e);
/* 1 found, and then release it. */
int execs_get(struct execs *x, const char *id, struct exec *ret);
/* The id of the exec that runs, or ran, as this command of the box: 1, or 0 without one. */
int execs_of_command(struct execs *x, const char *box, const char *command, char ret_id[EXEC_ID]);
/* The ids of those of the box that run: a new array, or null without any. */
json_t *execs_running(struct execs *x, const char *box);
void exec_release(struct exec *e);
/* Changes it from new to starting: 1; 0: it is not new; -1: there is none. */
int execs_begin(struct execs *x, const char *id);
void execs_started(struct execs *x, const char *id, const char *command);
void execs_ended(struct execs *x, const char *id, int exit_code);

/* imageflow - images that come: from a registry, or as the body of a request. */

/* A program that reads the body on its stdin; its answer is JSON, a new reference. */
int imageflow_begin(struct http_request *rq, json_t *call, struct err *e);
http_feed imageflow_feed;
json_t *imageflow_end(struct http_request *rq, struct err *e);
/* Adds j, which it consumes, as a line of Docker's progress. */
int imageflow_line(struct buf *out, json_t *j, struct err *e);

/* POST /images/create: fromImage, or fromSrc=- with the body. */
http_begin imageflow_create_begin;
http_handler imageflow_create;

/* POST /images/{name}/push: to where its name says, or with tag= that one of its tags. */
http_handler imageflow_push;

/* GET /distribution/{name}/json: what a registry has under that name. */
http_handler imageflow_look;

/* Of images, shared by routes (route_image.c). */
int docker_store(struct http_request *rq, struct err *e);
/* -1: an error that says "not found" in Docker's words, or as it is. */
int docker_no_image(struct http_request *rq, const char *name, struct err *e);

/* logs - GET /containers/{id}/logs: the journal of a sandbox as Docker's stream. */

/* A time of a query as the journal has it; "" where it is absent.  -1 with 400. */
int docker_query_time(struct http_request *rq, const char *name, char out[JOURNAL_TIME],
		      struct err *e);
/* What the log of b has now, to a connection that became a stream; tty: without frames. */
int docker_logs_send(struct box *b, struct http_request *rq, int fd, int tty, const int want[2],
		     struct err *e);
int docker_logs(struct http_request *rq, struct err *e);

#endif
