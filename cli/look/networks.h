/* SPDX-License-Identifier: Apache-2.0 */
/* networks - the table of networks that have a name, for berth network ls here and from afar. */
#ifndef BERTH_CLI_LOOK_NETWORKS_H
#define BERTH_CLI_LOOK_NETWORKS_H

#include "base/json.h"

/* list: records with "members", as networks_list() of cmd_network.c has them. */
void networks_print(const json_t *list);

#endif
