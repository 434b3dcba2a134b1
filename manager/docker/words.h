/* SPDX-License-Identifier: Apache-2.0 */
/* words - the command line of a berth program that makes an object: berth NOUN VERB --json
 * OPTION... -- NAME */
#ifndef BERTH_MANAGER_DOCKER_WORDS_H
#define BERTH_MANAGER_DOCKER_WORDS_H

#include "manager/api/http.h"

#define WORDS_MAX 160

struct words {
	const char *v[WORDS_MAX];
	char *owned[WORDS_MAX];
	size_t n, owned_n;
};

void words_begin(struct words *w, const char *noun, const char *verb);
void words_release(struct words *w);
/* Each of an object of strings as --label=KEY=VALUE. */
int words_labels(struct words *w, const json_t *labels, struct err *e);
/* The label that keeps the client's name of an object, where berth's is another. */
int words_called(struct words *w, const char *called, const char *name, struct err *e);
/* Runs it: its JSON output, a new reference, or NULL with e. */
json_t *words_run(struct words *w, struct http_request *rq, const char *name, struct err *e);

#endif
