/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a keeper's own memory is counted, and which process the kernel kills first when memory
 * runs out.
 */
#include <fcntl.h>
#include <sys/sysinfo.h>

#include "base/io.h"
#include "manager/keeper/keeper_state.h"
#include "runtime/kernel/cgroup.h"

/* Half of the host's for all keepers, and of a small host what one may take. */
static uint64_t all_keepers_bytes(void)
{
	struct sysinfo i;
	uint64_t half = sysinfo(&i) == 0 ? (uint64_t)i.totalram * i.mem_unit / 2 : 0;

	return half > KEEPER_MEMORY + (64U << 20) ? half : KEEPER_MEMORY + (64U << 20);
}

int keeper_memory_count(const struct keeper *k, struct err *e)
{
	return cgroup_join_keepers(k->spec->cgroup_parent, all_keepers_bytes(), e);
}

int keeper_memory_even(struct err *e)
{
	char now[16];

	if (cgroup_read(AT_FDCWD, "/proc/self/oom_score_adj", now, sizeof(now)) < 0)
		return err_sys(e, "read oom_score_adj");
	return now[0] == '-' ? io_write_file(AT_FDCWD, "/proc/self/oom_score_adj", "0", e) : 0;
}
