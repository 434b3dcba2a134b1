/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daytona - what the routes of Daytona's API share: the control plane below /api, and the toolbox of
 * a sandbox, as @daytona/sdk 0.216 and the SDKs of 2025 (0.18 to 0.25) use them.
 *
 * A sandbox of Daytona's is one of the manager's, so [session]'s scans stop, archive and remove it by
 * its intervals.  Its id is that of berth.  What only Daytona has a word for (labels, public, the
 * snapshot's name) is in "daytona" of the manager's "meta".  The toolbox works in any sandbox that
 * the caller may see.  Upholds S63 of SECURITY.md.
 */
#ifndef BERTH_MANAGER_API_DAYTONA_H
#define BERTH_MANAGER_API_DAYTONA_H

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "manager/api/api.h"

#define DAYTONA_FACE "daytona"	/* value of LABEL_FACE */
#define DAYTONA_META "daytona"	/* member of the manager's "meta" */

/* {"statusCode":404,"error":"Not Found","message":...,"code":"NOT_FOUND",...} */
json_t *daytona_error(const struct err *e);
/* What rows of Daytona's tables end with. */
#define DAYTONA_ERRORS .shape_error = daytona_error, .error_schema = "Document"
/* The two rows of a toolbox's route: below toolboxProxyUrl, and as the SDKs of 2025 ask. */
#define DAYTONA_TOOLBOX(method, path, ...)                                                                             \
	{ method, "/api/toolbox/{id}" path, __VA_ARGS__, DAYTONA_ERRORS },                                             \
	{                                                                                                              \
		method, "/api/toolbox/{id}/toolbox" path, __VA_ARGS__, DAYTONA_ERRORS                                  \
	}

/*
 * The generation of the client's SDK, by X-Daytona-SDK-Version: they differ in how they read lists and
 * logs.  Without the field it is an old one.
 */
enum daytona_age {
	DAYTONA_OLD,	/* before 0.103: bare lists, logs as text */
	DAYTONA_MARKED,	/* before 0.170: logs with marks in front of each stream's bytes */
	DAYTONA_NEW,
};
enum daytona_age daytona_age(const struct http_request *rq);
#define DAYTONA_MARK_BYTES 3
extern const char daytona_marks[2][DAYTONA_MARK_BYTES + 1];	/* of stdout, of stderr */
/* http://HOST/PATH as the client reached us; a new string, or NULL. */
char *daytona_address(const struct http_request *rq, const char *path);

/* What of a sandbox decides where and as whom the toolbox works. */
struct daytona_place {
	struct box box;
	char user[128];	/* "": the one of the image */
	char workdir[1024];
};

/* Connects to the sandbox that {id} names. daytona_leave() in every case. */
int daytona_enter(struct daytona_place *p, struct http_request *rq, struct err *e);
void daytona_leave(struct daytona_place *p);
/* The path as of the working directory; ERR_INVALID if it is too long or "". */
int daytona_path(const struct daytona_place *p, const char *path, char ret[4096], struct err *e);
/* The file helper's user, or NULL. */
const char *daytona_user(const struct daytona_place *p);
/* A verb of the file helper's; its text in out, which may be NULL. */
int daytona_file(struct daytona_place *p, const char *const *argv, struct buf *out, struct err *e);
/* Writes a file, with its parents. */
int daytona_write(struct daytona_place *p, struct http_request *rq, const char *path, const char *data, size_t n, struct err *e);

/* How long a foreground command of the door may take, and what of its output is kept. */
#define DAYTONA_OUTPUT_HEAD (2u << 20)
#define DAYTONA_OUTPUT_TAIL (2u << 20)

struct daytona_run {
	json_t *argv, *env;	/* consumed; env may be NULL */
	const char *workdir;	/* NULL: the working directory */
	const char *input;	/* NULL: none */
	size_t input_n;
	uint64_t timeout_ms;	/* 0: none */
};

struct daytona_ran {
	struct buf text[2];	/* stdout and stderr, their middle left out if they are long */
	int status;
	int timed_out;
};

/* Runs a command to its end. daytona_ran_release() in every case. */
int daytona_execute(struct http_request *rq, struct daytona_run *run, struct daytona_ran *ret, struct err *e);
/* After an error of a start: 1 if it says that the image has no such program. */
int daytona_lacks(const struct err *e, const char *program);
void daytona_ran_release(struct daytona_ran *r);
/* Makes the image name of a Dockerfile without a context (daytona_object.c). ERR_DENIED for a tenant. */
int daytona_build(struct http_request *rq, const char *dockerfile, const char *name, struct err *e);
/* Text of a reply: what is no UTF-8 becomes U+FFFD. */
json_t *daytona_text(const char *p, size_t n);

extern const struct http_route daytona_sandbox_routes[], daytona_object_routes[], daytona_process_routes[],
	daytona_session_routes[], daytona_pty_routes[], daytona_file_routes[], daytona_git_routes[], daytona_refused_routes[];

#endif
