/* SPDX-License-Identifier: Apache-2.0 */
/*
 * e2b - what the routes of E2B's API share (the control plane of infra/spec/openapi.yml, and of a
 * sandbox's envd process.proto, filesystem.proto and envd.yaml, as its SDKs 2.10 to 2.51 use them).
 *
 * A sandbox of E2B's is one of berth's, with labels: E2B_FACE, its template, its metadata.  A
 * request about what is in a sandbox names it in the field E2b-Sandbox-Id.  A process of E2B's is a
 * detached command, and its number is that of its first process in the sandbox.
 */
#ifndef BERTH_MANAGER_API_E2B_H
#define BERTH_MANAGER_API_E2B_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/netaddr.h"
#include "manager/api/api.h"
#include "manager/host/labels.h"
#include "manager/keeper/fileclient.h"

/*
 * e2b_accounts - the users and groups of a sandbox, for E2B's answers: where a user's home is, and
 * the names of a file's owner and group.
 *
 * The text of /etc/passwd and /etc/group is the sandbox's and hostile.  It decides only what is
 * said and where a relative path begins: init reads the same files when it starts a command or the
 * file helper, and that reading decides the rights.
 */

struct accounts {
	struct buf passwd, group; /* "" if the sandbox has none */
	int has_passwd, has_group;
};

/* Reads nothing yet. */
void accounts_init(struct accounts *a);
void accounts_release(struct accounts *a);
/* The home of a user as init chooses it: NAME, UID or NAME|OTHER.  sock is the keeper's. */
int accounts_home(struct accounts *a, int sock, const char *user, char ret[1024], struct err *e);
/* Reads both files, before another operation begins on sock. */
void accounts_read(struct accounts *a, int sock);
/* The name of a user or a group after that, or its number if it has no name. */
void accounts_owner(const struct accounts *a, unsigned uid, char ret[65]);
void accounts_group(const struct accounts *a, unsigned gid, char ret[65]);

/* The same of given texts; pure.  1, or 0 if no line fits. */
int accounts_find(const char *passwd, const char *name, size_t n, char ret_home[1024]);
int accounts_name(const char *text, unsigned id, char ret[65]);

#define E2B_FACE LABEL_FACE
#define E2B_TEMPLATE "e2b.template" /* labels, as that one */
#define E2B_METADATA "e2b.metadata"
/* Of a snapshot: a sandbox of the face E2B_SNAPSHOT that was never started, and of which create
 * makes forks. */
#define E2B_SNAPSHOT "e2b-snapshot"
#define E2B_SNAPSHOT_OF "e2b.snapshot.of" /* labels: the id of its origin */
#define E2B_SNAPSHOT_NAME "e2b.snapshot.name"
#define E2B_USER "user|0" /* E2B's images have a user of that name; in others root takes its place */
#define E2B_ROOT "0"	  /* needs no /etc/passwd */

#define E2B_NOTE "e2b.json"	 /* beside the record: what the client said of its network */

/* Between the sandbox's id and the token, in what an SDK gives as X-Access-Token: older ones say
 * the id nowhere else. */
#define E2B_TOKEN_MARK "."

/* {"code":404,"message":...}: of the control plane, and of files. */
json_t *e2b_error(const struct err *e);
/* {"code":"not_found","message":...}: of the Connect protocol. */
json_t *e2b_connect_error(const struct err *e);

/* The sandbox of E2b-Sandbox-Id and its keeper; ERR_NOT_FOUND is a 502, as E2B's proxy says of one
 * that is gone. */
int e2b_connect(struct box *b, struct http_request *rq, struct err *e);
/* Translates E2B's create into a body of POST /v1/sandboxes: a new reference, or NULL with e. */
json_t *e2b_create_request(const json_t *body, json_int_t timeout, int pauses, struct err *e);
/*
 * Changes the rules of the sandbox of b, which was found and has a network that rules can change: as of a create's
 * allow_internet_access and network.  ERR_INVALID, ERR_UNSUPPORTED.
 */
int e2b_network_change(struct http_request *rq, struct box *b, const json_t *access, const json_t *network, struct err *e);
/*
 * Stores the client's wishes for the network; network may be NULL.  What it does not say of
 * requests from outside (allowPublicTraffic, maskRequestHost) stays as it was.
 */
int e2b_network_note(struct box *b, const json_t *access, const json_t *network, struct err *e);
/* Adds the stored wishes to a description of the sandbox. */
void e2b_network_tell(struct box *b, json_t *description);
/* Gives the fork id the stored wishes of b.  Removes it when that fails. */
int e2b_network_inherit(struct http_request *rq, struct box *b, const char *id, struct err *e);
/*
 * The Host that a server in a sandbox gets by network.maskRequestHost, where ${PORT} stands for the
 * port; ERR_INVALID for a mask that no Host can be.  Pure (e2b_rules.c).
 */
#define E2B_HOST_SIZE 264
int e2b_masked_host(const char *mask, unsigned port, char ret[E2B_HOST_SIZE], struct err *e);
/* "timeout" of a body, in seconds: ERR_INVALID. */
int e2b_timeout(const json_t *body, json_int_t *ret, struct err *e);

/* What becomes of a sandbox at the end of its time, and after that. */
struct e2b_lifecycle {
	int pauses; /* it is paused, and not removed */
	int drops_memory; /* that pause stops it */
	json_int_t resume_s; /* any request lets it go on, for so many seconds; 0: none does */
};
/*
 * "autoPause", "autoPauseMemory" and "autoResume" of create, with its timeout: ERR_INVALID, also
 * of an autoResume without a pause that keeps the memory, as E2B refuses it.
 */
int e2b_lifecycle_of(const json_t *body, json_int_t timeout, struct e2b_lifecycle *ret,
		     struct err *e);
struct e2b_lifecycle e2b_lifecycle_in(const json_t *record);
/* More time for one that is made, until e2b_pause_at_end() has been called. */
#define E2B_PAUSE_SPARE_S 60
/* Gives the sandbox id so many seconds from now on, and then a pause.  Removes it when that fails. */
int e2b_pause_at_end(struct http_request *rq, const char *id, json_int_t timeout,
		     const struct e2b_lifecycle *l, struct err *e);
/* Of the keeper's answer to a ping, NULL: it has stopped. */
int e2b_is_paused(const json_t *live);
/*
 * What stands for that answer of a stopped sandbox: that it is paused, and the limits that it has
 * at its next start.  A new reference, NULL without memory.
 */
json_t *e2b_when_stopped(struct box *b, const char *id);

/* The answer of create for a sandbox: a new reference, or NULL with e. */
json_t *e2b_answer(struct http_request *rq, const char *id, const char *template, struct err *e);
/* Replies with it. */
int e2b_reply_new(struct http_request *rq, int status, const char *id, const char *template,
		  struct err *e);
/* The label of a record, or NULL. */
const char *e2b_label(const json_t *record, const char *key);
/*
 * The sandbox of E2B's that {id} names, its record, and its keeper's answer to a ping; both new
 * references.  ERR_NOT_FOUND for one that does not run or is of another face.
 */
int e2b_look(struct box *b, struct http_request *rq, json_t **ret_record, json_t **ret_live,
	     struct err *e);
/* Also one that has stopped: then *ret_live is NULL. */
int e2b_look_at_any(struct box *b, struct http_request *rq, json_t **ret_record, json_t **ret_live,
		    struct err *e);
/* Whether the "templateID" of a create is a snapshot that the caller has (e2b_snapshot.c). */
int e2b_is_snapshot(struct http_request *rq, struct err *e);
/* Makes a sandbox of that snapshot, with request and own as of api_create(); returns its answer. */
json_t *e2b_from_snapshot(struct http_request *rq, const json_t *request, const json_t *own,
			  struct err *e);
/* The key of that sandbox, a new reference, or NULL with e (e2b_key.c). */
json_t *e2b_key(struct http_request *rq, const char *id, struct err *e);
/* Whether "GET /health" asks for a sandbox's envd; then it is answered here. */
int e2b_is_health(struct http_request *rq);
int e2b_health(struct http_request *rq, struct err *e);

/*
 * The user of the field Authorization ("Basic"), or of the query's username, as init reads it.
 * E2B_USER if none is given, or E2B's own name of it.
 */
struct e2b_user {
	char name[72];
};
int e2b_user_of(struct http_request *rq, const char *named, struct e2b_user *ret, struct err *e);
/* After an error: 1 when it may be tried again, as root: an older keeper does not know E2B_USER, and
 * the image has no such user.  Changes u. */
int e2b_user_retry(struct e2b_user *u, const struct err *e);
/* "NAME=VALUE" strings of an object, a new reference, or NULL with ERR_INVALID. */
json_t *e2b_env(const json_t *envs, struct err *e);
/* After an error of a start: a directory that the user may not enter is the client's mistake. */
void e2b_judge_cwd(struct err *e);
/* The path as of the user's home: "~", "x" and "/x".  0 or -1 with e. */
int e2b_place(struct box *b, struct accounts *a, const struct e2b_user *u, const char *path,
	      char ret[4096], struct err *e);

/* A verb of the file helper's, as that user; its text in out, which may be NULL. */
int e2b_file(struct box *b, struct e2b_user *u, const char *const *argv, struct buf *out,
	     struct err *e);
/* "-rw-r--r--", as Go writes a mode. */
void e2b_mode_text(unsigned mode, char ret[11]);
/* The entry of a path in filesystem.proto: EntryInfo, a new reference, or NULL with e. */
json_t *e2b_entry(struct box *b, struct accounts *a, struct e2b_user *u, const char *path,
		  struct err *e);
/* The same of a record, after accounts_read(). */
json_t *e2b_entry_of(const struct accounts *a, const char *path, const struct filerecord *r);

/*
 * e2b_rules - E2B's rules of a sandbox's network, as rules of berth's.
 *
 * With E2B what is allowed goes before what is denied, and with berth a denial wins: the ranges to
 * deny are those of denyOut without those of allowOut.  Names that are allowed take berth's egress
 * mode, whose proxy knows them.  Rules only take away from what the configuration of berthd gives a
 * sandbox, so a tenant may have them (S19).  Pure.
 */

#define E2B_RANGES_MAX 256 /* of a policy (netpolicy.h) */

struct e2b_ranges {
	struct netcidr v[E2B_RANGES_MAX];
	size_t n;
};

struct e2b_rules {
	struct e2b_ranges allow, deny; /* deny: without what is allowed, once settled */
	json_t *names;	/* that are allowed */
	int closed;	/* nothing is allowed */
};

/* Whether a member says something: not null, false or empty. */
int e2b_rules_given(const json_t *object, const char *key);
/* ERR_UNSUPPORTED for a member of a network that berth does not keep, ERR_INVALID. */
int e2b_rules_check(const json_t *network, struct err *e);
/*
 * What allow_internet_access and the members allowOut and denyOut of network ask for; r is zeroed,
 * and r->names is the caller's to release, also after an error. ERR_INVALID, ERR_LIMIT.
 */
int e2b_rules_read(const json_t *access, const json_t *network, struct e2b_rules *r, struct err *e);
/*
 * {"allow-host": [...], "deny-net": [...]} for a sandbox in egress mode, or one on the bridge; a
 * new reference, or NULL: ERR_DENIED for an address that is not public, ERR_UNSUPPORTED.
 */
json_t *e2b_rules_options(const struct e2b_rules *r, int egress, struct err *e);
/* ERR_UNSUPPORTED: there is no network that rules could open. */
int e2b_rules_refuse_none(struct err *e);
/*
 * The options of the network that a create of E2B's asks for, which its caller needs no right to:
 * they take away from what [sandbox] network_enabled (enabled) gives. NULL with E2B's own error.
 */
json_t *e2b_rules_of_create(const json_t *body, int enabled, struct err *e);

#endif
