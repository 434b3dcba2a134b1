/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_check - checks of values of a configuration that have a grammar, for config_keys.
 *
 * what names the value; ERR_CONFIG.
 */
#ifndef BERTH_MANAGER_HOST_CONFIG_CHECK_H
#define BERTH_MANAGER_HOST_CONFIG_CHECK_H

#include "base/err.h"

/* refuse or skip */
int config_check_hooks(const char *v, const char *what, struct err *e);
/* stop or remove */
int config_check_idle(const char *v, const char *what, struct err *e);
/* never or command */
int config_check_checkpoint(const char *v, const char *what, struct err *e);
/* The name of an interface. */
int config_check_interface(const char *v, const char *what, struct err *e);
/* One range of addresses; any number of them, separated by blanks or commas. */
int config_check_range(const char *v, const char *what, struct err *e);
int config_check_ranges(const char *v, const char *what, struct err *e);

#endif
