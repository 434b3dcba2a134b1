/* SPDX-License-Identifier: Apache-2.0 */
/* build - one run of berth build (cmd_build.c). */
#ifndef BERTH_CLI_IMAGE_BUILD_H
#define BERTH_CLI_IMAGE_BUILD_H

#include "base/buf.h"
#include "base/json.h"
#include "cli/live/sandbox_open.h"
#include "cli/run/imageuse.h"
#include "manager/host/buildcache.h"
#include "manager/host/volume.h"
#include "runtime/kernel/cgroup.h"

#define BUILD_DOCKERFILE_MAX (1u << 20)
#define BUILD_IGNORE "ignore" /* in its volume: a .dockerignore for the context of an archive */
#define BUILD_HEREDOCS "heredocs"
#define BUILD_KEPT "localhost/berth-base" /* the name in buildah's storage by which a base stays between builds; its tag is of the digest */
#define BUILD_MADE "localhost/berth-made:1" /* the result of the last build */
#define BUILD_IMAGE "image" /* in its volume: what buildah made, as docker save writes it, without the layers of the bases */

struct build {
	const char *context; /* a directory, or "-" */
	const char *file;
	const char *network;
	const char *target;
	enum imageuse_pull pull;
	uint64_t disk_bytes, memory_bytes; /* 0: as the configuration says */
	const char *iidfile, *output; /* files to write the digest and the image's files to, or NULL */
	json_t *tags, *words;              /* words: of buildah's, as the caller said them */
	json_t *secrets;		   /* id=ID[,src=FILE|,env=NAME], as they were given */
	json_t *limits;			   /* [NAME, VALUE] of its sandbox, as berth create has them */
	int quiet, json, no_cache;
	char digest[160]; /* at the end */

	struct sandbox_ref ref; /* the sandbox whose ids, network and cgroups it uses */
	struct cgroup cgroup, leaf;
	uint32_t id_base;
	int net_fd, context_fd; /* context_fd: a directory of the caller's, or -1 */
	char volume_name[40];
	struct volume volume; /* its own, or that of kept */
	struct buildcache kept; /* in use where its lock is */
	uint32_t owner; /* root of the build, as the volume stores it */
	json_t *base_names, *base_digests; /* images of the store that it may begin from */
	/* images of the store whose layers need not come out of the room: those, and the last that were built */
	json_t *layers_of;
	struct buf dockerfile;
	int has_heredocs; /* files of them, in BUILD_HEREDOCS of its volume */
	int omits_history; /* of a base that has none: then no step is kept either */
	int in_order; /* buildah came to its own end */
	int full; /* something that ran in it found no space */
	uint64_t end_ms; /* of clock_ms(): by then it has ended, as [build] time_limit says */
	char last[400]; /* the line that says most of a failure */
};

#define BUILD_INIT                                                                                 \
	{                                                                                          \
		.file = "Dockerfile", .network = "none", .pull = IMAGEUSE_MISSING,                 \
		.tags = json_array(), .words = json_array(), .limits = json_array(), .secrets = json_array(), .base_names = json_array(), \
		.base_digests = json_array(), .layers_of = json_array(), .kept = BUILDCACHE_INIT, .net_fd = -1, .context_fd = -1, \
		.volume = VOLUME_INIT, .dockerfile = BUF_INIT(BUILD_DOCKERFILE_MAX)                \
	}

int build_add_tag(struct build *b, const char *name, struct err *e);
int build_add_word(struct build *b, const char *option, const char *value, struct err *e);
int build_add_limit(struct build *b, const char *name, const char *value, struct err *e);
int build_add_secret(struct build *b, const char *text, struct err *e);
/* All of it; what it made for itself is removed again.  ERR_UNSUPPORTED without buildah. */
int build_run(struct build *b, struct err *e);
void build_release(struct build *b);

/*
 * dockerfile.c: ERR_INVALID in Docker's words for a Dockerfile that Docker does not begin to build, ERR_LIMIT
 * past the bounds of one; name is for errors, target a stage or NULL.  Names of stages become lower case in text.
 * What buildah is to read goes to out, in the same lines, and the files of here-documents to heredocs->files.
 */
struct heredoc_reader;
int dockerfile_check(char *text, const char *name, const char *target, struct heredoc_reader *heredocs, struct buf *out, struct err *e);
/* buildfiles.c: the context and the Dockerfile, the latter in b->dockerfile, into the volume. */
int build_take_context(struct build *b, struct err *e);
#define BUILD_BASES_MAX 32 /* images that a Dockerfile names */
/* Whether a list of the kept volume has it; a list that is NULL has none. */
int build_is_digest_in(const json_t *list, const char *digest);
/* The images that it may begin from, and lists of them and of their layers. */
int build_take_bases(struct build *b, struct err *e);
/* buildsecret.c: the secrets into the volume, and the words for buildah that name them there. */
int build_take_secrets(struct build *b, struct err *e);
/* What buildah has to be told by files. */
int build_write_settings(struct build *b, struct err *e);
struct buildroom_task;
/* Starts t in the room of the build (buildroom.h): its pid, or -1. */
pid_t build_start(struct build *b, const struct buildroom_task *t, struct err *e);
struct pollfd;
/* Until what wait asks for: ERR_TIMEOUT at the end of the build's time, ERR_BUSY after a signal. */
int build_wait(const struct build *b, struct pollfd *wait, struct err *e);
/* The end of a process of the build, which an error of the build (failed) or of build_wait() brings about. */
int build_await(const struct build *b, pid_t pid, int failed, int *ret_status, struct err *e);
/* berth with these words to its end; in_fd and out_fd may be -1.  -1 with its error. */
int build_berth(const char *const *argv, int in_fd, int out_fd, struct err *e);

#endif
