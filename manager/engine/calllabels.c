/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/calllabels.h"

#include <string.h>

#include "manager/engine/name.h"
#include "manager/host/labels.h"
#include "manager/ops/call.h"

int engine_call_labels(json_t *call, const json_t *labels, struct err *e)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(size_t)labels, key, v) {
		if (!json_is_string(v))
			return err_set(e, ERR_INVALID, "invalid JSON: label %.80s is not a string",
				       key);
		if (labels_refuse_own(key, e) < 0)
			return -1;
		call_set(call, "label", json_sprintf("%s=%s", key, json_string_value(v)));
	}
	return 0;
}

void engine_call_named(json_t *call, const char *called, const char *name)
{
	if (strcmp(called, name))
		call_set(call, "label", json_sprintf(ENGINE_NAME_LABEL "=%s", called));
}
