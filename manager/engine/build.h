/* SPDX-License-Identifier: Apache-2.0 */
/* build - what POST /build asks as words of berth build, and its progress in Docker's.  Pure. */
#ifndef BERTH_MANAGER_ENGINE_BUILD_H
#define BERTH_MANAGER_ENGINE_BUILD_H

#include "base/err.h"
#include "base/json.h"

#define ENGINE_BUILD_ARGS 200 /* build arguments, labels and names */
/* For a client that names images to take steps from: buildah's --cache-from is another thing. */
#define ENGINE_BUILD_CACHE_FROM                                                                      \
	"[Warning] --cache-from is not used: steps come from earlier builds on this host alone"
/* Each client of BuildKit's is told this remedy: DOCKER_BUILDKIT alone leads docker and compose to POST /build. */
#define ENGINE_NO_BUILDKIT                                                                         \
	"BuildKit is not served here: set DOCKER_BUILDKIT=0 and use docker build or docker compose build"

struct engine_build {
	json_t *words; /* of berth build */
	int tags;      /* names that the client gave */
	long long memory, swap, quota, period; /* as Docker counts them; 0: not said */
};

int engine_build_init(struct engine_build *b, struct err *e);
void engine_build_release(struct engine_build *b);
/*
 * One parameter of the query, value NULL when it is absent; "pull" and "nocache" when they are wanted.
 * ERR_INVALID, ERR_UNSUPPORTED.
 */
int engine_build_set(struct engine_build *b, const char *key, const char *value, struct err *e);
/* After the last parameter: what several of them say; a build without a tag makes an image that the door shows without a name. */
int engine_build_end(struct engine_build *b, struct err *e);
/* Whether a "cachefrom" of the query names images. */
int engine_build_wants_cache(const char *value);
/* Keeps the text of an event that begins a step. */
void engine_build_note_step(const json_t *event, char *step, size_t n);
/*
 * Docker's words for a step that failed, from the message of berth build and the last step, as
 * "errorDetail": a new object; other messages as they stand.
 */
json_t *engine_build_error(const char *message, const char *step);
/* Docker's lines for one event of berth build --json: a new array, empty where none is told. */
json_t *engine_build_lines(const json_t *event, int quiet);

#endif
