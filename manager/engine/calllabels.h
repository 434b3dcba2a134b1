/* SPDX-License-Identifier: Apache-2.0 */
/* calllabels - what the calls that make a network or a volume share: the client's labels, and its name. */
#ifndef BERTH_MANAGER_ENGINE_CALLLABELS_H
#define BERTH_MANAGER_ENGINE_CALLLABELS_H

#include "base/err.h"
#include "base/json.h"

/* Each of an object of strings as a label.  ERR_INVALID. */
int engine_call_labels(json_t *call, const json_t *labels, struct err *e);
/* The label that keeps the client's name of an object, where berth's is another. */
void engine_call_named(json_t *call, const char *called, const char *name);

#endif
