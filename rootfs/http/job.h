/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job - one request of berth-image, which may take several exchanges.
 *
 * serve.c has the list of requests, and those that are one exchange; upload.c pushes a blob.
 */
#ifndef BERTH_ROOTFS_HTTP_JOB_H
#define BERTH_ROOTFS_HTTP_JOB_H

#include "base/json.h"
#include "rootfs/http/exchange.h"

#define ENDPOINTS_MAX 8
#define REPO_MAX 512

enum job_kind { JOB_PING, JOB_MANIFEST, JOB_BLOB, JOB_PUSH_BLOB, JOB_HAVE_BLOB, JOB_PUSH_MANIFEST };

struct endpoint {
	struct http_site *site;
	char base[ORIGIN_TEXT_MAX];
	char repo[REPO_MAX];
};

enum upload_step { UPLOAD_LOOK, UPLOAD_OPEN, UPLOAD_SEND, UPLOAD_ASK };

struct upload {
	enum upload_step step;
	uint64_t chunk;		/* bytes of a PATCH; 0: everything in one PUT */
	uint64_t at;		/* bytes that the registry reported to have */
	uint64_t part;		/* bytes of the PATCH or PUT under way */
	uint64_t reached;	/* most bytes ever sent */
	uint64_t best;		/* value of at when the count of tries last began anew */
	int closing;		/* the PUT is under way */
	int troubled;		/* a part of the upload has failed before */
	char session[ORIGIN_URL_MAX];
};

struct job {
	struct serve *serve;
	struct job *next;
	enum job_kind kind;
	json_int_t id;
	struct endpoint at[ENDPOINTS_MAX];
	size_t at_count, at_now;
	struct exchange x;
	int fd;
	char ref[160];		/* tag or digest */
	char type[128];
	char from[REPO_MAX];	/* repository to mount a blob from; "" if none */
	uint64_t size;
	uint64_t shown;		/* bytes last reported */
	struct upload upload;
	int mounted, over;
};

/* Tells berth-image that the job has ended. */
void job_end(struct job *j, int existed);
void job_fail(struct job *j, const struct err *e);
/* Sets the exchange's URL, and the scope that its token needs. */
void job_set_url(struct job *j, const char *what, const char *ref);
void job_set_scope(struct job *j, const char *actions);

/* ---- upload.c ---- */

/* Begins a job that pushes a blob, or only asks whether the registry has it. */
void upload_start(struct job *j);
/* Call it after each exchange of the job, also a failed one. */
void upload_ended(struct job *j);
/* Call it before an attempt is made again. */
void upload_retrying(struct job *j);
/* Returns the bytes that the registry has or is getting. */
uint64_t upload_sent(const struct job *j);

#endif
