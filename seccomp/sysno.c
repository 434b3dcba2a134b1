/* SPDX-License-Identifier: Apache-2.0 */
#include "seccomp/sysno.h"

#include <seccomp.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"

/* libseccomp names architectures by the kernel's audit values. */
_Static_assert(SCMP_ARCH_X86_64 == AUDIT_ARCH_X86_64, "libseccomp's token is the audit value");
_Static_assert(SCMP_ARCH_AARCH64 == AUDIT_ARCH_AARCH64, "libseccomp's token is the audit value");

/* Linux 6.5 to 6.18.  From 424 on all architectures share one numbering. */
static const struct {
	const char *name;
	uint32_t arch;	/* 0: all */
	int nr;
} later[] = {
	{ "uretprobe", AUDIT_ARCH_X86_64, 335 },
	{ "uprobe", AUDIT_ARCH_X86_64, 336 },
	{ "cachestat", 0, 451 },
	{ "fchmodat2", 0, 452 },
	{ "map_shadow_stack", 0, 453 },
	{ "futex_wake", 0, 454 },
	{ "futex_wait", 0, 455 },
	{ "futex_requeue", 0, 456 },
	{ "statmount", 0, 457 },
	{ "listmount", 0, 458 },
	{ "lsm_get_self_attr", 0, 459 },
	{ "lsm_set_self_attr", 0, 460 },
	{ "lsm_list_modules", 0, 461 },
	{ "mseal", 0, 462 },
	{ "setxattrat", 0, 463 },
	{ "getxattrat", 0, 464 },
	{ "listxattrat", 0, 465 },
	{ "removexattrat", 0, 466 },
};

int sysno_resolve(uint32_t arch, const char *name)
{
	int nr = seccomp_syscall_resolve_name_arch(arch, name);
	size_t i;

	if (nr >= 0 && nr < SYSNO_MAX)
		return nr;
	/* negative: unknown, or libseccomp's pseudo number for "not on this architecture" */
	for (i = 0; i < ARRAY_LEN(later); i++)
		if (strcmp(later[i].name, name) == 0 && (!later[i].arch || later[i].arch == arch))
			return later[i].nr;
	return -1;
}
