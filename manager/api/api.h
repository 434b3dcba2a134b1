/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api - what the handlers of berthd share.
 *
 * A handler gets it by api_of(rq).  It holds no sandbox's state: every request
 * opens the registry by itself, as every berth command does, so berthd may die
 * at any time and nothing is lost with it.
 */
#ifndef BERTH_MANAGER_API_API_H
#define BERTH_MANAGER_API_API_H

#include <pthread.h>
#include <stdatomic.h>

#include "manager/api/http.h"
#include "manager/host/config.h"
#include "manager/host/registry.h"
#include "manager/ops/call.h"

struct tokens;
struct events;
struct livein;
struct mcphub;
struct boxindex;
struct pings_memory;
struct watchhub;
struct once_table;
struct docker;
struct preview_server;
struct sshdoor;
struct uisessions;

struct api {
	pthread_rwlock_t lock;		/* guards config and tokens, which SIGHUP exchanges */
	struct config config;
	char config_source[4096];	/* where config comes from */
	int config_may_be_absent;
	char config_staged[sizeof(((struct config *)0)->run_dir) + 32];	/* a copy that is being looked at */
	int run_fd;			/* run_dir, once the configuration is accepted */
	struct tokens *tokens;
	char berth_path[4096];		/* the program for cold verbs */
	struct events *events;
	struct pings_memory *pings;	/* what keepers answered for the lists */
	struct boxindex *boxes;		/* the sandboxes as GET /v1/sandboxes shows them (boxlist.c) */
	pthread_mutex_t livein_lock;
	struct livein *livein;
	_Atomic int ready;
	uint64_t started_ms;
	_Atomic uint64_t execs, creates;	/* for /metrics */
	struct http_server *http;
	struct otlp *otlp;		/* or NULL */
	struct uisessions *ui;		/* who is signed in to the page */
	struct mcphub *mcp;		/* sessions of /mcp */
	struct once_table *once;	/* the keys of requests that make sandboxes */
	struct watchhub *watches;	/* of directories, for E2B's clients */
	pthread_mutex_t e2b_lock;
	int e2b_has_secret;
	/* the secret from which the keys of sandboxes are made (e2b_key.c) */
	unsigned char e2b_secret[32];
	struct docker *docker;		/* the Engine API, when it is on (manager/docker) */
	struct preview_server *previews;	/* NULL: there are none (preview.h) */
	struct sshdoor *ssh;		/* NULL: it is not on (sshdoor.h) */
	void *manager;			/* pools and sessions, when they are on */
};

static inline struct api *api_of(const struct http_request *rq)
{
	return http_context(rq);
}

/* Loads configuration and tokens, finds berth.  0, or -1 with nothing held. */
int api_init(struct api *a, struct err *e);
/*
 * Before any thread: a copy of the configuration in run_dir is what the programs that berthd starts read from now
 * on, so that an edit that was not reloaded, or was refused, changes nothing for them either.
 */
int api_accept_config(struct api *a, struct err *e);
/* Reads configuration and tokens again; an error leaves everything unchanged. */
int api_reload(struct api *a, struct err *e);
void api_release(struct api *a);
/* A copy of the present configuration. */
void api_config(struct api *a, struct config *ret);
/* The limits of one tenant in this server. */
void api_share_of(void *context, const struct http_who *who, struct http_share_limits *ret);
/* Whether the client of a request that lasts has its rights still (S53). */
int api_holds(void *context, const struct http_who *who);
/* Whether the page is served now. */
int api_has_ui(void *context);
int api_check_token(void *context, const char *token, struct http_who *ret);
/* The key of one sandbox, or an address that it signed (e2b_key.c). */
int api_check_key(void *context, struct http_request *rq, struct http_who *ret, struct err *e);

extern const struct http_route system_routes[], port_routes[], preview_routes[], sandbox_routes[], checkpoint_routes[],
	portable_routes[], stored_routes[], zygote_routes[],
	exec_routes[], session_routes[], command_routes[],
	file_routes[], image_routes[], ui_routes[], volume_routes[], event_routes[], work_routes[],
	network_routes[], mcp_routes[], runcode_routes[], e2b_sandbox_routes[],
	e2b_network_routes[], e2b_pause_routes[], e2b_snapshot_routes[], e2b_process_routes[],
	e2b_file_routes[], e2b_watch_routes[], e2b_code_routes[];

/* ---- one sandbox of a request (box.c) ---- */

struct box {
	struct http_request *rq;
	struct config config;
	struct registry registry;
	char id[65];
	int kept;	/* it does not run */
	int ended;	/* its keeper has closed the connection, for good */
	int sock;	/* to its keeper, or -1 */
	int lock_fd;	/* see box_lock(), or -1 */
};

/* An empty box, which box_close() accepts before any of the others. */
void box_init(struct box *b, struct http_request *rq);
/* The registry alone. */
int box_open(struct box *b, struct http_request *rq, struct err *e);
/* Also finds the sandbox that {id} names; a sandbox of another client is ERR_NOT_FOUND. */
int box_find(struct box *b, struct http_request *rq, struct err *e);
int box_find_ref(struct box *b, struct http_request *rq, const char *ref, struct err *e);
/* For ERR_EXISTS of a name: hides the owner and the id from tenants. Always -1. */
int box_name_taken(struct http_request *rq, const char *name, struct err *e);
/*
 * After box_find(): one request at a time changes the life of a sandbox (start, stop, remove, ...);
 * the others wait for it, and are ERR_NOT_FOUND when it is removed meanwhile.
 */
int box_lock(struct box *b, struct err *e);
/* Also connects to the keeper; ERR_BUSY (409) when the sandbox does not run. */
int box_connect(struct box *b, struct http_request *rq, struct err *e);
int box_connect_ref(struct box *b, struct http_request *rq, const char *ref, struct err *e);
void box_close(struct box *b);
/* 1 if the client may see the sandbox. */
int box_allowed(struct box *b, const char *id);
/* Sends rq with descriptors; a long request goes in a memfd. */
int box_send(struct box *b, json_t *request, const int *fds, size_t count, struct err *e);
/*
 * The next answer, a new reference, checked for an error; notices during the wait that the client
 * has gone.
 */
json_t *box_receive(struct box *b, int wait_ms, int *fds, size_t max, size_t *ret_count, struct err *e);
/* The next answer, whose bytes are added to data (OP_follow and the like). */
json_t *box_receive_data(struct box *b, int wait_ms, struct buf *data, struct err *e);
/* Both; ret_fd may be NULL. */
json_t *box_call(struct box *b, json_t *request, const int *fds, size_t count, int *ret_fd, struct err *e);
/* One question to the keeper of the sandbox the request names, consumed; its answer is the reply. */
int box_answer(struct http_request *rq, json_t *request, struct err *e);
/*
 * Writes bytes of the body to a file helper. If the helper has ended early, that is no error
 * here (*fd becomes -1): its last line gives the reason.
 */
int box_upload(struct http_request *rq, int *fd, const char *data, size_t n, struct err *e);

/* The registry, and the zygote of that name or id: ERR_NOT_FOUND if it is not the caller's. */
int api_find_zygote(struct box *b, struct http_request *rq, const char *ref, struct err *e);

/* A signal's number of its name or number in JSON, or -1 with e. */
int api_signal_number(const json_t *v, struct err *e);

/*
 * What body (schema Create) asks for: {"id","name"}, a new reference, or NULL with e. own: options
 * of berth create that berthd adds, for which the asker needs no right; or NULL.  If the client goes before it
 * has the answer, so does the sandbox; but one with the key of its request (LABEL_REQUEST, once.h) waits for the
 * client to ask again.
 */
json_t *api_create(struct http_request *rq, const json_t *body, const json_t *own,
		   struct err *e);

/* Changes the sandbox of b, which was found, by options of berth update, as far as its asker may. */
int api_update(struct http_request *rq, struct box *b, const json_t *options, struct err *e);
/*
 * A checkpoint of the sandbox of b, which was found, as body says (schema CheckpointCreate): its
 * answer (CheckpointMade), a new reference, or NULL with e.
 */
json_t *api_checkpoint(struct box *b, const json_t *body, struct err *e);
/*
 * The same of one that runs, for berthd alone: it does not count among those that the sandbox
 * keeps, so no other goes for it, and it is not the head.  Without berthd the next one removes it.
 */
json_t *api_own_checkpoint(struct box *b, struct err *e);
/* Removes a checkpoint; best effort. */
void api_drop_checkpoint(const struct box *b, const char *checkpoint);
/*
 * Forks the sandbox of b, which was found, as body says (schema Fork, and "no-start"), and with
 * the options own, as of api_create(): {"checkpoint","forks":[{"id","name"}]}, a new reference, or
 * NULL with e.
 */
json_t *api_fork(struct http_request *rq, const struct box *b, const json_t *body,
		 const json_t *own, struct err *e);

/*
 * The reply: first (consumed) as the event "started", then the command's output and verdict
 * (route_command.c). end(ctx) is always called last, and b exists until then.
 */
int api_follow(struct http_request *rq, struct box *b, const char *command, json_t *first, void (*end)(void *ctx), void *ctx,
	       struct err *e);

/* ---- stdin of commands that an exec request of another connection runs (route_command.c) ---- */

/* Takes fd over: bytes may be sent to this command until livein_remove().  ERR_NOMEM. */
int livein_add(struct api *a, const char *box, const char *command, int fd, struct err *e);
void livein_remove(struct api *a, const char *box, const char *command);
/* A copy of its descriptor, or -1 without one. */
int livein_open(struct api *a, const char *box, const char *command);
void livein_close_input(struct api *a, const char *box, const char *command);
/*
 * Writes all of data to such a copy, as fast as it is read; *sent grows.  ERR_NOT_FOUND when it
 * reads no more.
 */
int livein_write(struct http_request *rq, int fd, const char *data, size_t n, uint64_t *sent,
		 struct err *e);

/* ---- the berth program, for cold verbs (spawn.c) ---- */

/*
 * Carries the call out, which it consumes, and waits: 0 with what it wrote on stdout in out (at most
 * its ceiling), or -1 with the error it told as JSON.  finish: it is let end even when the client
 * goes.  in_fd -1 is no stdin.
 */
int spawn_berth(struct http_request *rq, json_t *call, int finish, int in_fd, struct buf *out, struct err *e);
/* The two halves of spawn_berth(), for a program that the caller feeds meanwhile. */
int spawn_start(struct http_request *rq, json_t *call, int in_fd, struct called *ret, struct err *e);
int spawn_finish(struct http_request *rq, struct called *c, int finish, struct buf *out, struct err *e);
/* As spawn_berth(); the output is parsed as JSON: a new reference, or NULL. */
json_t *spawn_json(struct http_request *rq, json_t *call, int finish, struct err *e);
json_t *spawn_json_fed(struct http_request *rq, json_t *call, int finish, int in_fd, struct err *e);
/*
 * Sends the program's output as the reply, as it arrives; cuts the reply if the program fails
 * half-way.
 */
int spawn_reply(struct http_request *rq, json_t *call, const char *type, struct err *e);
/* Removes sandbox id, whatever it does. */
int api_remove(struct http_request *rq, const char *id, struct err *e);
/* The same for one whose id no client would ever learn. */
void api_forget(struct http_request *rq, const char *id);
/* Names the tenant that asks, so that berth applies [tenant]; nothing for an administrator. */
void spawn_tenant(struct http_request *rq, json_t *call);

/* A command of berth volume (ls, inspect, rm, create), as the tenant that asks: a new reference, or NULL (route_volume.c). */
json_t *api_volume(struct http_request *rq, const char *command, const char *name, int changes, struct err *e);

/* ---- route_image.c ---- */

/* The images that the caller sees, under the names that it gives them: a new array, or NULL. */
json_t *api_images(struct http_request *rq, struct err *e);
/* What is known of one of them: ERR_NOT_FOUND if it is not there for the caller. */
json_t *api_image(struct http_request *rq, const char *ref, struct err *e);
/* image rm, as the tenant that asks. */
int api_remove_image(struct http_request *rq, const char *ref, int force, struct err *e);

/*
 * In an answer about images, an object or a list of them, gives a tenant's own images the names
 * that the tenant gave them: NAME, not NAME@TENANT. For an administrator nothing changes.
 */
void api_show_image_names(struct http_request *rq, json_t *j);
/* ERR_DENIED when a tenant's request has an option that is not in the list (to a NULL). */
int api_check_options(struct http_request *rq, const json_t *options, const char *const *allowed,
		      struct err *e);

/* daemon - what berthd consists of: the table of all routes, and the threads behind them. */

/* All routes, in the order they are tried; the last table is NULL. */
extern const struct http_route *const daemon_routes[];

/* Starts the threads, after api_init(), and after signals are blocked. */
int daemon_start(struct api *a, struct err *e);
/* api_reload(), and ends the MCP sessions whose token has its role no longer. */
int daemon_reload(struct api *a, struct err *e);
/* Ends the threads, and api_release(). */
void daemon_end(struct api *a);
/* http_options.on_audit: publishes the audit line of a request that changed something. */
void daemon_on_audit(void *context, const json_t *line);

#endif
