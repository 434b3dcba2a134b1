/* SPDX-License-Identifier: Apache-2.0 */
/* paramread - the readers that READ() names in params.def: values with a grammar of their own. */
#ifndef BERTH_MANAGER_OPS_PARAMREAD_H
#define BERTH_MANAGER_OPS_PARAMREAD_H

#include "manager/ops/params.h"

param_read_fn paramread_cpuset, paramread_io_rate, paramread_ulimit, paramread_env, paramread_env_file,
	paramread_workdir, paramread_mount, paramread_volume, paramread_tmpfs, paramread_device,
	paramread_gpus, paramread_network, paramread_add_host, paramread_alias, paramread_network_list,
	paramread_network_budget, paramread_cap_add, paramread_cap_drop, paramread_label, paramread_mark,
	paramread_label_file, paramread_owner_pid, paramread_budget, paramread_health_cmd,
	paramread_health_exec, paramread_stop_signal, paramread_restart;

#endif
