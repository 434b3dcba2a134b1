/* SPDX-License-Identifier: Apache-2.0 */
/* signals - the names and numbers of signals, as options and requests give them. */
#ifndef BERTH_MANAGER_OPS_SIGNALS_H
#define BERTH_MANAGER_OPS_SIGNALS_H

#include <stdint.h>

#include "base/err.h"

/* The number of a signal by its name, with or without SIG, or as digits; -1 and ERR_INVALID for any other word. */
int signal_number(const char *word, uint64_t *ret, struct err *e);

#endif
