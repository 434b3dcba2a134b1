/* SPDX-License-Identifier: Apache-2.0 */
#include "seccomp/profile_words.h"

#include <linux/capability.h>
#include <linux/seccomp.h>
#include <string.h>

#include "base/mem.h"

#define MAX_ERRNO 4095	/* the kernel's; larger values are cut down to it */

static const struct {
	const char *name;
	uint32_t action;
	int data;
} actions[] = {
	{ "SCMP_ACT_ALLOW", SECCOMP_RET_ALLOW, 0 },
	{ "SCMP_ACT_ERRNO", SECCOMP_RET_ERRNO, 1 },
	{ "SCMP_ACT_KILL", SECCOMP_RET_KILL_THREAD, 0 },
	{ "SCMP_ACT_KILL_THREAD", SECCOMP_RET_KILL_THREAD, 0 },
	{ "SCMP_ACT_KILL_PROCESS", SECCOMP_RET_KILL_PROCESS, 0 },
	{ "SCMP_ACT_TRAP", SECCOMP_RET_TRAP, 0 },
	{ "SCMP_ACT_TRACE", SECCOMP_RET_TRACE, 1 },
	{ "SCMP_ACT_LOG", SECCOMP_RET_LOG, 0 },
};

int profile_word_action(const char *s, uint32_t *ret_action, int *ret_data, const char *path, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(actions); i++)
		if (strcmp(actions[i].name, s) == 0) {
			*ret_action = actions[i].action;
			*ret_data = actions[i].data;
			return 0;
		}
	if (strcmp(s, "SCMP_ACT_NOTIFY") == 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "%s: SCMP_ACT_NOTIFY needs a supervisor process, which berth has none of", path);
	return err_set(e, ERR_INVALID, "%s: unknown action \"%.64s\"", path, s);
}

static const struct {
	const char *name;
	enum scmp_compare op;
} operators[] = {
	{ "SCMP_CMP_NE", SCMP_CMP_NE }, { "SCMP_CMP_LT", SCMP_CMP_LT },
	{ "SCMP_CMP_LE", SCMP_CMP_LE }, { "SCMP_CMP_EQ", SCMP_CMP_EQ },
	{ "SCMP_CMP_GE", SCMP_CMP_GE }, { "SCMP_CMP_GT", SCMP_CMP_GT },
	{ "SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ },
};

int profile_word_operator(const char *s, enum scmp_compare *ret_op, const char *path, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(operators); i++)
		if (strcmp(operators[i].name, s) == 0) {
			*ret_op = operators[i].op;
			return 0;
		}
	return err_set(e, ERR_INVALID, "%s: unknown operator \"%.64s\"", path, s);
}

/* OCI runtime specification, config-linux, "seccomp". */
static const char *const architectures[] = {
	"SCMP_ARCH_X86", "SCMP_ARCH_X86_64", "SCMP_ARCH_X32", "SCMP_ARCH_ARM", "SCMP_ARCH_AARCH64",
	"SCMP_ARCH_MIPS", "SCMP_ARCH_MIPS64", "SCMP_ARCH_MIPS64N32", "SCMP_ARCH_MIPSEL",
	"SCMP_ARCH_MIPSEL64", "SCMP_ARCH_MIPSEL64N32", "SCMP_ARCH_PPC", "SCMP_ARCH_PPC64",
	"SCMP_ARCH_PPC64LE", "SCMP_ARCH_S390", "SCMP_ARCH_S390X", "SCMP_ARCH_PARISC",
	"SCMP_ARCH_PARISC64", "SCMP_ARCH_RISCV64", "SCMP_ARCH_LOONGARCH64", "SCMP_ARCH_M68K",
	"SCMP_ARCH_SH", "SCMP_ARCH_SHEB",
};

int profile_word_architecture(const char *s, const char *path, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(architectures); i++)
		if (strcmp(architectures[i], s) == 0)
			return 0;
	return err_set(e, ERR_INVALID, "%s: unknown architecture \"%.64s\"", path, s);
}

int profile_word_flag(const char *s, const char *path, struct err *e)
{
	/*
	 * TSYNC: berth loads filters in a process with one thread.  SPEC_ALLOW turns
	 * a CPU mitigation off; it permits, so leaving it on is no breach.
	 */
	if (strcmp(s, "SECCOMP_FILTER_FLAG_TSYNC") == 0 || strcmp(s, "SECCOMP_FILTER_FLAG_SPEC_ALLOW") == 0)
		return 0;
	if (strcmp(s, "SECCOMP_FILTER_FLAG_LOG") == 0 ||
	    strcmp(s, "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV") == 0)
		return err_set(e, ERR_UNSUPPORTED, "%s: berth does not apply %s", path, s);
	return err_set(e, ERR_INVALID, "%s: unknown flag \"%.64s\"", path, s);
}

int profile_word_errno(const char *s, uint64_t *ret_errno, const char *path, struct err *e)
{
	const char *name;
	int i;

	for (i = 1; i <= MAX_ERRNO; i++) {
		name = strerrorname_np(i);
		if (name && strcmp(name, s) == 0) {
			*ret_errno = (uint64_t)i;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "%s: unknown errno name \"%.64s\"", path, s);
}

static const char *const capabilities[] = {
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
	"CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE",
	"CAP_NET_BROADCAST", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_IPC_OWNER",
	"CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_SYS_PACCT",
	"CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE", "CAP_SYS_TIME",
	"CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL",
	"CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG", "CAP_WAKE_ALARM",
	"CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
};
_Static_assert(ARRAY_LEN(capabilities) == CAP_LAST_CAP + 1, "every capability has a name");

int profile_word_cap(const char *s, unsigned *ret_bit, const char *path, struct err *e)
{
	unsigned i;

	for (i = 0; i < ARRAY_LEN(capabilities); i++)
		if (strcmp(capabilities[i], s) == 0) {
			*ret_bit = i;
			return 0;
		}
	return err_set(e, ERR_INVALID, "%s: unknown capability \"%.64s\"", path, s);
}

const char *profile_word_native_arch(void)
{
#if defined(__x86_64__)
	return "amd64";
#elif defined(__aarch64__)
	return "arm64";
#endif
}
