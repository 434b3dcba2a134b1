/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/caps.h"

#include <linux/capability.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

static const char *const names[] = {
	[CAP_CHOWN] = "CAP_CHOWN", [CAP_DAC_OVERRIDE] = "CAP_DAC_OVERRIDE",
	[CAP_DAC_READ_SEARCH] = "CAP_DAC_READ_SEARCH", [CAP_FOWNER] = "CAP_FOWNER",
	[CAP_FSETID] = "CAP_FSETID", [CAP_KILL] = "CAP_KILL", [CAP_SETGID] = "CAP_SETGID",
	[CAP_SETUID] = "CAP_SETUID", [CAP_SETPCAP] = "CAP_SETPCAP",
	[CAP_LINUX_IMMUTABLE] = "CAP_LINUX_IMMUTABLE", [CAP_NET_BIND_SERVICE] = "CAP_NET_BIND_SERVICE",
	[CAP_NET_BROADCAST] = "CAP_NET_BROADCAST", [CAP_NET_ADMIN] = "CAP_NET_ADMIN",
	[CAP_NET_RAW] = "CAP_NET_RAW", [CAP_IPC_LOCK] = "CAP_IPC_LOCK", [CAP_IPC_OWNER] = "CAP_IPC_OWNER",
	[CAP_SYS_MODULE] = "CAP_SYS_MODULE", [CAP_SYS_RAWIO] = "CAP_SYS_RAWIO",
	[CAP_SYS_CHROOT] = "CAP_SYS_CHROOT", [CAP_SYS_PTRACE] = "CAP_SYS_PTRACE",
	[CAP_SYS_PACCT] = "CAP_SYS_PACCT", [CAP_SYS_ADMIN] = "CAP_SYS_ADMIN", [CAP_SYS_BOOT] = "CAP_SYS_BOOT",
	[CAP_SYS_NICE] = "CAP_SYS_NICE", [CAP_SYS_RESOURCE] = "CAP_SYS_RESOURCE",
	[CAP_SYS_TIME] = "CAP_SYS_TIME", [CAP_SYS_TTY_CONFIG] = "CAP_SYS_TTY_CONFIG",
	[CAP_MKNOD] = "CAP_MKNOD", [CAP_LEASE] = "CAP_LEASE", [CAP_AUDIT_WRITE] = "CAP_AUDIT_WRITE",
	[CAP_AUDIT_CONTROL] = "CAP_AUDIT_CONTROL", [CAP_SETFCAP] = "CAP_SETFCAP",
	[CAP_MAC_OVERRIDE] = "CAP_MAC_OVERRIDE", [CAP_MAC_ADMIN] = "CAP_MAC_ADMIN",
	[CAP_SYSLOG] = "CAP_SYSLOG", [CAP_WAKE_ALARM] = "CAP_WAKE_ALARM",
	[CAP_BLOCK_SUSPEND] = "CAP_BLOCK_SUSPEND", [CAP_AUDIT_READ] = "CAP_AUDIT_READ",
	[CAP_PERFMON] = "CAP_PERFMON", [CAP_BPF] = "CAP_BPF",
	[CAP_CHECKPOINT_RESTORE] = "CAP_CHECKPOINT_RESTORE",
};
_Static_assert(sizeof(names) / sizeof(names[0]) == CAPS_LAST + 1, "one name per capability");

#define BIT(c) (1ULL << (c))

uint64_t caps_default(void)
{
	return BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) | BIT(CAP_KILL) |
	       BIT(CAP_SETGID) | BIT(CAP_SETUID) | BIT(CAP_NET_BIND_SERVICE);
}

const char *caps_name(unsigned bit)
{
	return bit <= CAPS_LAST ? names[bit] : NULL;
}

int caps_parse(const char *name, uint64_t *ret_mask, struct err *e)
{
	size_t i;

	if (!strcasecmp(name, "ALL")) {
		*ret_mask = CAPS_ALL;
		return 0;
	}
	for (i = 0; i < ARRAY_LEN(names); i++) {
		if (!strcasecmp(name, names[i]) || !strcasecmp(name, names[i] + strlen("CAP_"))) {
			*ret_mask = BIT(i);
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "'%.64s' is not a capability; hint: a name of capabilities(7) such as "
		       "NET_RAW, or ALL", name);
}
