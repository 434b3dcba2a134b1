/* SPDX-License-Identifier: Apache-2.0 */
/* paramid - a number for each row of params.def. */
#ifndef BERTH_MANAGER_OPS_PARAMID_H
#define BERTH_MANAGER_OPS_PARAMID_H

enum param_id {
	PARAM_NONE,
#define PARAM(id, ...) PARAM_##id,
#include "manager/ops/params.def"
#undef PARAM
	PARAM_END	/* a command's own ids start here */
};

#define PARAM_GIVEN_WORDS ((PARAM_END + 63) / 64)

#endif
