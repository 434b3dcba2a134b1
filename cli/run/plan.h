/* SPDX-License-Identifier: Apache-2.0 */
/* plan - what --dry-run prints: mounts, limits, capabilities, filters, command. */
#ifndef BERTH_CLI_RUN_PLAN_H
#define BERTH_CLI_RUN_PLAN_H

#include "runtime/sandbox/spec.h"

int plan_print(const struct spec *s, const char *image, int as_json, struct err *e);

#endif
