/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S56 of SECURITY.md. */
#include "manager/host/rights.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "seccomp/seccomp.h"

#define BOTH (RIGHTS_KEEPER | RIGHTS_DAEMON)

/* systemd/berthd.service bounds berthd to the same; tests/attack/test_rights.py compares. */
static const struct {
	unsigned char cap, who;
	const char *why;
} kept[] = {
	{ CAP_CHOWN, BOTH, "cgroups, sockets and terminals become the sandbox's" },
	{ CAP_DAC_OVERRIDE, BOTH, "files and cgroups that belong to the sandbox's ids" },
	{ CAP_FOWNER, BOTH, "modes of those" },
	{ CAP_FSETID, BOTH, "files are copied with their set-id bits" },
	{ CAP_KILL, BOTH, "signals to the sandbox's processes" },
	{ CAP_SETGID, BOTH, "berth-net and copiers take ids of the sandbox" },
	{ CAP_SETUID, BOTH, "berth-net and copiers take ids of the sandbox" },
	{ CAP_SETPCAP, BOTH, "children drop their bounding sets" },
	{ CAP_NET_ADMIN, BOTH, "networks joined while it lives, rules, counters" },
	{ CAP_SYS_ADMIN, BOTH, "namespaces entered, mounts of claims, layers frozen for checkpoints" },
	{ CAP_SYS_CHROOT, BOTH, "a mount namespace is entered; berth-net's empty root" },
	{ CAP_SYS_PTRACE, BOTH, "/proc of the sandbox's processes, and its namespaces" },
	{ CAP_SYS_RESOURCE, BOTH, "limits of the host's files, quotas" },
	{ CAP_NET_BIND_SERVICE, BOTH, "port 53 of a resolver; published ports below 1024" },
	{ CAP_DAC_READ_SEARCH, RIGHTS_DAEMON, "trees of images are read as they are" },
	{ CAP_SETFCAP, RIGHTS_DAEMON, "file capabilities of layers; maps of ids" },
	{ CAP_MKNOD, RIGHTS_DAEMON, "the nodes of a sandbox's /dev" },
};

static uint64_t kept_by(enum rights_of who)
{
	uint64_t set = 0;
	size_t i;

	for (i = 0; i < ARRAY_LEN(kept); i++)
		if (kept[i].who & who)
			set |= 1ULL << kept[i].cap;
	return set;
}

static int drop_own_capabilities(uint64_t keep, struct err *e)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];
	unsigned long cap;
	int i, has;

	for (cap = 0; (has = prctl(PR_CAPBSET_READ, cap, 0, 0, 0)) >= 0; cap++)
		/*
		 * Without CAP_SETPCAP, as in a container, the bounding set stays: after
		 * no_new_privs no execve(2) grants a capability that is not permitted now.
		 */
		if (has && !(keep >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0 && errno != EPERM)
			return err_sys(e, "drop capability %lu from the bounding set", cap);
	if (syscall(SYS_capget, &h, d) < 0)
		return err_sys(e, "read the capabilities");
	for (i = 0; i < 2; i++) {
		d[i].permitted &= (uint32_t)(keep >> (32 * i));
		d[i].effective &= d[i].permitted;
		d[i].inheritable = 0;
	}
	return syscall(SYS_capset, &h, d) < 0 ? err_sys(e, "drop capabilities") : 0;
}

/*
 * SPEC_ALLOW: older kernels slow a filtered process down as if it ran foreign code, but for this
 * flag.  LOG: what a keeper was refused is in the kernel's log (type=1326), as it is a bug or an
 * attack.
 */
static int load_own_filter(const struct seccomp_filter *f, struct err *e)
{
	const struct sock_fprog prog = { f->len, (struct sock_filter *)f->insns };

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW | SECCOMP_FILTER_FLAG_LOG, &prog) < 0)
		return err_filter(e, "berth's own seccomp filter", 0);
	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return err_set(e, ERR_INTERNAL, "the process is not confined: its filter or no_new_privs does not read back");
	return 0;
}

int rights_lay_down(enum rights_of who, struct err *e)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
	if (drop_own_capabilities(kept_by(who), e) < 0)
		return -1;
	return who == RIGHTS_KEEPER ? load_own_filter(&seccomp_builtin("keeper")->a, e) : 0;
}
