/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks S6 of SECURITY.md. */
/* OCI, Docker and Podman profiles: what is read, what is refused and where. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "seccomp/seccomp.h"
#include "seccomp/sysno.h"

#define ALLOWED SECCOMP_RET_ALLOW
#define ERRNO_OF(n) (SECCOMP_RET_ERRNO | (n))
#define CAP(n) (UINT64_C(1) << (n))

static struct seccomp_profile load(const char *text, uint64_t caps)
{
	struct seccomp_profile p = { 0 };
	struct err e = { 0 };

	cr_assert_eq(seccomp_from_json(text, strlen(text), caps, &p, &e), 0, "%s\n%s", e.msg, text);
	cr_assert_not_null(p.b.insns);
	cr_assert_eq(p.a.insns, seccomp_builtin("standard")->a.insns);
	return p;
}

/* What filter b alone answers. */
static uint32_t ask(const struct seccomp_profile *p, const char *call, uint64_t a0, uint64_t a1)
{
	const struct seccomp_profile b = { "b", { 0 }, p->b };
	const uint64_t args[6] = { a0, a1, 0, 0, 0, 0 };
	int nr = sysno_resolve(SYSNO_ARCH_NATIVE, call);

	cr_assert_geq(nr, 0, "%s", call);
	return seccomp_simulate(&b, SYSNO_ARCH_NATIVE, nr, args);
}

Test(seccomp_json, an_oci_profile_does_what_it_says)
{
	static const uint64_t zeros[6];
	struct seccomp_profile p = load(
		"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":13,"
		"\"architectures\":[\"SCMP_ARCH_X86_64\",\"SCMP_ARCH_X86\",\"SCMP_ARCH_AARCH64\"],"
		"\"flags\":[\"SECCOMP_FILTER_FLAG_TSYNC\"],\"unknownTop\":1,"
		"\"syscalls\":[{\"names\":[\"read\",\"write\",\"no_such_call\",\"mmap2\"],\"action\":\"SCMP_ACT_ALLOW\"},"
		"{\"names\":[\"mkdirat\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":28},"
		"{\"names\":[\"mseal\"],\"action\":\"SCMP_ACT_KILL_PROCESS\",\"args\":null},"
		"{\"names\":[\"kill\"],\"action\":\"SCMP_ACT_LOG\",\"args\":[]},"
		"{\"names\":[\"exit\"],\"action\":\"SCMP_ACT_KILL\"},"
		"{\"names\":[\"sync\"],\"action\":\"SCMP_ACT_TRAP\"},"
		"{\"names\":[\"umask\"],\"action\":\"SCMP_ACT_TRACE\",\"errnoRet\":7}]}", 0);

	cr_expect_eq(ask(&p, "read", 0, 0), ALLOWED);
	cr_expect_eq(ask(&p, "write", ~0UL, ~0UL), ALLOWED);
	cr_expect_eq(ask(&p, "mkdirat", 0, 0), ERRNO_OF(28));
	cr_expect_eq(ask(&p, "openat", 0, 0), ERRNO_OF(13));
	cr_expect_eq(ask(&p, "mseal", 0, 0), SECCOMP_RET_KILL_PROCESS);
	cr_expect_eq(ask(&p, "kill", 0, 0), SECCOMP_RET_LOG);
	cr_expect_eq(ask(&p, "exit", 0, 0), SECCOMP_RET_KILL_THREAD);
	cr_expect_eq(ask(&p, "sync", 0, 0), SECCOMP_RET_TRAP);
	cr_expect_eq(ask(&p, "umask", 0, 0), SECCOMP_RET_TRACE | 7);
	/* by filter b alone, guard against newer calls included */
	p.a = (struct seccomp_filter){ 0 };
	cr_expect_eq(seccomp_simulate(&p, AUDIT_ARCH_I386, 3, zeros), SECCOMP_RET_KILL_PROCESS);
	cr_expect_eq(seccomp_simulate(&p, AUDIT_ARCH_I386, 470, zeros), SECCOMP_RET_KILL_PROCESS);
	if (SYSNO_ARCH_NATIVE == AUDIT_ARCH_X86_64)
		cr_expect_eq(seccomp_simulate(&p, AUDIT_ARCH_X86_64, 0x40000000, zeros), SECCOMP_RET_KILL_PROCESS);
	seccomp_profile_release(&p);
}

Test(seccomp_json, calls_newer_than_any_named_are_absent_under_an_errno_default)
{
	struct seccomp_profile p = load("{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":["
					"{\"names\":[\"openat2\"],\"action\":\"SCMP_ACT_ALLOW\"}]}", 0);

	cr_expect_eq(ask(&p, "clone3", 0, 0), ERRNO_OF(EPERM));		/* 435, before openat2 */
	cr_expect_eq(ask(&p, "openat2", 0, 0), ALLOWED);		/* 437 */
	cr_expect_eq(ask(&p, "pidfd_getfd", 0, 0), ERRNO_OF(ENOSYS));	/* 438 */
	cr_expect_eq(ask(&p, "removexattrat", 0, 0), ERRNO_OF(ENOSYS));
	seccomp_profile_release(&p);

	p = load("{\"defaultAction\":\"SCMP_ACT_KILL_PROCESS\",\"syscalls\":["
		 "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\"}]}", 0);
	cr_expect_eq(ask(&p, "removexattrat", 0, 0), SECCOMP_RET_KILL_PROCESS);
	seccomp_profile_release(&p);
}

Test(seccomp_json, filter_a_of_standard_still_denies)
{
	struct seccomp_profile p = load("{\"defaultAction\":\"SCMP_ACT_ALLOW\"}", ~0ULL);
	const uint64_t tiocsti[6] = { 0, 0x5412 }, zeros[6] = { 0 };

	cr_expect_eq(ask(&p, "ioctl", 0, 0x5412), ALLOWED);
	cr_expect_eq(seccomp_simulate(&p, SYSNO_ARCH_NATIVE, sysno_resolve(SYSNO_ARCH_NATIVE, "ioctl"), tiocsti),
		     ERRNO_OF(EIO));
	cr_expect_eq(seccomp_simulate(&p, SYSNO_ARCH_NATIVE, 435, zeros), ERRNO_OF(ENOSYS));
	cr_expect_eq(seccomp_simulate(&p, SYSNO_ARCH_NATIVE, 425, zeros), ALLOWED);
	seccomp_profile_release(&p);
	seccomp_profile_release(&p);
	seccomp_profile_release(NULL);
}

static const struct {
	const char *op;
	uint64_t value, two, yes, no;
} operators[] = {
	{ "SCMP_CMP_EQ", 5, 0, 5, 0x100000005 },
	{ "SCMP_CMP_NE", 5, 0, 6, 5 },
	{ "SCMP_CMP_LT", 5, 0, 4, 5 },
	{ "SCMP_CMP_LE", 5, 0, 5, 6 },
	{ "SCMP_CMP_GE", 5, 0, 5, 4 },
	{ "SCMP_CMP_GT", 5, 0, 0x100000000, 5 },
	{ "SCMP_CMP_MASKED_EQ", 0xff, 5, 0x1105, 6 },
};

Test(seccomp_json, every_operator_compares)
{
	char text[512];
	size_t i;

	for (i = 0; i < ARRAY_LEN(operators); i++) {
		snprintf(text, sizeof(text),
			 "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[{\"names\":[\"kill\"],"
			 "\"action\":\"SCMP_ACT_ERRNO\",\"args\":[{\"index\":1,\"value\":%lu,\"valueTwo\":%lu,"
			 "\"op\":\"%s\"}]}]}", operators[i].value, operators[i].two, operators[i].op);
		struct seccomp_profile p = load(text, 0);

		cr_expect_eq(ask(&p, "kill", 0, operators[i].yes), ERRNO_OF(EPERM), "%s", operators[i].op);
		cr_expect_eq(ask(&p, "kill", 0, operators[i].no), ALLOWED, "%s", operators[i].op);
		seccomp_profile_release(&p);
	}
}

Test(seccomp_json, args_are_anded_and_a_repeated_index_is_ored)
{
#define ARG(i, v) "{\"index\":" #i ",\"value\":" #v ",\"op\":\"SCMP_CMP_EQ\"}"
#define KILL_IF(args) "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":[{\"names\":[\"kill\"]," \
		      "\"action\":\"SCMP_ACT_ALLOW\",\"args\":[" args "]}]}"
	struct seccomp_profile p = load(KILL_IF(ARG(0, 1) "," ARG(1, 2)), 0);

	cr_expect_eq(ask(&p, "kill", 1, 2), ALLOWED);
	cr_expect_eq(ask(&p, "kill", 1, 3), ERRNO_OF(EPERM));
	seccomp_profile_release(&p);
	p = load(KILL_IF(ARG(0, 1) "," ARG(0, 2)), 0);
	cr_expect_eq(ask(&p, "kill", 1, 0), ALLOWED);
	cr_expect_eq(ask(&p, "kill", 2, 0), ALLOWED);
	cr_expect_eq(ask(&p, "kill", 3, 0), ERRNO_OF(EPERM));
	seccomp_profile_release(&p);
}

/* Shaped as moby's default.json */
static const char docker[] =
	"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":1,"
	"\"archMap\":[{\"architecture\":\"SCMP_ARCH_X86_64\",\"subArchitectures\":[\"SCMP_ARCH_X86\"]},"
	"{\"architecture\":\"SCMP_ARCH_RISCV64\",\"subArchitectures\":null}],\"syscalls\":["
	"{\"names\":[\"read\",\"removexattrat\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[],\"comment\":\"\","
	" \"includes\":{},\"excludes\":{}},"
	"{\"names\":[\"ptrace\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"minKernel\":\"4.8\"}},"
	"{\"names\":[\"kcmp\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"minKernel\":\"99.1\"}},"
	"{\"names\":[\"acct\"],\"action\":\"SCMP_ACT_ALLOW\",\"excludes\":{\"minKernel\":\"4.8\"}},"
	"{\"names\":[\"sync\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"arches\":[\"amd64\",\"arm64\"]}},"
	"{\"names\":[\"umask\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"arches\":[\"s390x\"]}},"
	"{\"names\":[\"getpid\"],\"action\":\"SCMP_ACT_ALLOW\",\"excludes\":{\"arches\":[\"amd64\",\"arm64\"]}},"
	"{\"names\":[\"bpf\",\"clone\",\"clone3\"],\"action\":\"SCMP_ACT_ALLOW\","
	" \"includes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}},"
	"{\"names\":[\"bpf\"],\"action\":\"SCMP_ACT_ALLOW\",\"includes\":{\"caps\":[\"CAP_BPF\"]}},"
	"{\"names\":[\"reboot\"],\"action\":\"SCMP_ACT_ALLOW\","
	" \"includes\":{\"caps\":[\"CAP_SYS_BOOT\",\"CAP_SYS_ADMIN\"]}},"
	"{\"names\":[\"clone\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,\"value\":2114060288,"
	" \"op\":\"SCMP_CMP_MASKED_EQ\"}],\"excludes\":{\"caps\":[\"CAP_SYS_ADMIN\"],\"arches\":[\"s390\"]}},"
	"{\"names\":[\"clone3\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":38,"
	" \"excludes\":{\"caps\":[\"CAP_SYS_ADMIN\"]}}]}";

Test(seccomp_json, a_docker_profile_follows_capabilities_architecture_and_kernel)
{
	struct seccomp_profile p = load(docker, 0);

	cr_expect_eq(ask(&p, "read", 0, 0), ALLOWED);
	cr_expect_eq(ask(&p, "ptrace", 0, 0), ALLOWED);
	cr_expect_eq(ask(&p, "kcmp", 0, 0), ERRNO_OF(EPERM));
	cr_expect_eq(ask(&p, "acct", 0, 0), ERRNO_OF(EPERM));
	cr_expect_eq(ask(&p, "sync", 0, 0), ALLOWED);
	cr_expect_eq(ask(&p, "umask", 0, 0), ERRNO_OF(EPERM));
	cr_expect_eq(ask(&p, "getpid", 0, 0), ERRNO_OF(EPERM));
	cr_expect_eq(ask(&p, "bpf", 0, 0), ERRNO_OF(EPERM));
	cr_expect_eq(ask(&p, "clone", 0x1200011, 0), ALLOWED);
	cr_expect_eq(ask(&p, "clone", 0x10000011, 0), ERRNO_OF(EPERM));
	cr_expect_eq(ask(&p, "clone3", 0, 0), ERRNO_OF(ENOSYS));
	seccomp_profile_release(&p);

	p = load(docker, CAP(CAP_SYS_ADMIN));
	cr_expect_eq(ask(&p, "bpf", 0, 0), ALLOWED);
	cr_expect_eq(ask(&p, "clone", 0x10000011, 0), ALLOWED);
	cr_expect_eq(ask(&p, "clone3", 0, 0), ALLOWED);
	cr_expect_eq(ask(&p, "reboot", 0, 0), ERRNO_OF(EPERM));
	seccomp_profile_release(&p);

	p = load(docker, CAP(CAP_BPF));
	cr_expect_eq(ask(&p, "bpf", 0, 0), ALLOWED);
	cr_expect_eq(ask(&p, "reboot", 0, 0), ERRNO_OF(EPERM));
	seccomp_profile_release(&p);
	p = load(docker, CAP(CAP_SYS_ADMIN) | CAP(CAP_SYS_BOOT));
	cr_expect_eq(ask(&p, "reboot", 0, 0), ALLOWED);
	seccomp_profile_release(&p);
}

Test(seccomp_json, podman_spells_errnos_by_name)
{
	struct seccomp_profile p = load(
		"{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":38,\"defaultErrno\":\"ENOSYS\",\"syscalls\":["
		"{\"names\":[\"sync\"],\"action\":\"SCMP_ACT_ERRNO\",\"errno\":\"EINVAL\"},"
		"{\"names\":[\"acct\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":1,\"errno\":\"EPERM\"}]}", 0);

	cr_expect_eq(ask(&p, "read", 0, 0), ERRNO_OF(ENOSYS));
	cr_expect_eq(ask(&p, "sync", 0, 0), ERRNO_OF(EINVAL));
	cr_expect_eq(ask(&p, "acct", 0, 0), ERRNO_OF(EPERM));
	seccomp_profile_release(&p);
}

Test(seccomp_json, of_two_contrary_entries_the_stricter_stands)
{
#define E_SETNS "{\"names\":[\"setns\"],\"action\":\"SCMP_ACT_ERRNO\",\"errnoRet\":1}"
#define A_SETNS "{\"names\":[\"setns\"],\"action\":\"SCMP_ACT_ALLOW\"}"
#define DOC(rules) "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":38,\"syscalls\":[" rules "]}"
	static const char *const orders[] = { DOC(E_SETNS "," A_SETNS), DOC(A_SETNS "," E_SETNS),
					      DOC(A_SETNS "," E_SETNS "," A_SETNS) };
	size_t i;

	for (i = 0; i < ARRAY_LEN(orders); i++) {
		struct seccomp_profile p = load(orders[i], 0);

		cr_expect_eq(ask(&p, "setns", 0, 0), ERRNO_OF(EPERM), "%s", orders[i]);
		seccomp_profile_release(&p);
	}
}

Test(seccomp_json, the_profile_podman_ships_is_read)
{
	autobuf struct buf b = BUF_INIT(1 << 20);
	struct seccomp_profile p;
	struct err e = { 0 };

	if (io_read_file(AT_FDCWD, "/usr/share/containers/seccomp.json", &b, &e) < 0)
		cr_skip_test("no /usr/share/containers/seccomp.json");
	p = load(b.data, 0);
	cr_expect_eq(ask(&p, "read", 0, 0), ALLOWED);
	cr_expect_eq(ask(&p, "userfaultfd", 0, 0), ERRNO_OF(EPERM));
	cr_expect_eq(ask(&p, "io_uring_setup", 0, 0), ERRNO_OF(ENOSYS));
	seccomp_profile_release(&p);
}

#define RULE(body) "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":[" body "]}"
#define DENY(body) RULE("{\"action\":\"SCMP_ACT_ERRNO\"," body "}")
static const struct {
	const char *text;
	int code;
	const char *says;
} bad[] = {
	{ "", ERR_CORRUPT, "seccomp profile" },
	{ "[]", ERR_CORRUPT, "not an object" },
	{ "{", ERR_CORRUPT, "line 1" },
	{ "{} x", ERR_CORRUPT, "line 1" },
	{ "{}", ERR_INVALID, "no \"defaultAction\"" },
	{ "{\"defaultAction\":3}", ERR_CORRUPT, "defaultAction" },
	{ "{\"defaultAction\":\"ALLOW\"}", ERR_INVALID, "defaultAction: unknown action \"ALLOW\"" },
	{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"defaultAction\":\"SCMP_ACT_ALLOW\"}", ERR_CORRUPT, "duplicate" },
	{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"defaultErrnoRet\":1}", ERR_INVALID, "takes no \"defaultErrnoRet\"" },
	{ "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":4096}", ERR_INVALID, "out of range" },
	{ "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":-1}", ERR_CORRUPT, "defaultErrnoRet" },
	{ "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrno\":\"ENOPE\"}", ERR_INVALID, "ENOPE" },
	{ "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"defaultErrnoRet\":1,\"defaultErrno\":\"ENOSYS\"}", ERR_INVALID,
	  "disagree" },
	{ "{\"defaultAction\":\"SCMP_ACT_NOTIFY\"}", ERR_UNSUPPORTED, "SCMP_ACT_NOTIFY" },
	{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"listenerPath\":\"/x\"}", ERR_UNSUPPORTED, "listenerPath" },
	{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"listenerMetadata\":\"x\"}", ERR_UNSUPPORTED, "listenerPath" },
	{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"architectures\":[\"SCMP_ARCH_VAX\"]}", ERR_INVALID,
	  "architectures[0]: unknown architecture \"SCMP_ARCH_VAX\"" },
	{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"architectures\":[7]}", ERR_CORRUPT, "architectures[0]" },
	{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"architectures\":{}}", ERR_CORRUPT, "architectures" },
	{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"archMap\":[{}]}", ERR_INVALID, "archMap[0]: no \"architecture\"" },
	{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"archMap\":[{\"architecture\":\"SCMP_ARCH_X86\"}],"
	  "\"architectures\":[\"SCMP_ARCH_X86\"]}", ERR_INVALID, "both" },
	{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"flags\":[\"SECCOMP_FILTER_FLAG_LOG\"]}", ERR_UNSUPPORTED, "flags[0]" },
	{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"flags\":[\"NO\"]}", ERR_INVALID, "flags[0]: unknown flag" },
	{ "{\"defaultAction\":\"SCMP_ACT_ALLOW\",\"syscalls\":{}}", ERR_CORRUPT, "syscalls" },
	{ RULE("3"), ERR_CORRUPT, "syscalls[0]: is not an object" },
	{ RULE("{\"names\":[\"read\"]}"), ERR_INVALID, "syscalls[0]: no \"action\"" },
	{ RULE("{\"names\":[\"read\"],\"action\":\"SCMP_ACT_NO\"}"), ERR_INVALID, "syscalls[0].action: unknown action" },
	{ RULE("{\"names\":[\"read\"],\"action\":\"SCMP_ACT_NOTIFY\"}"), ERR_UNSUPPORTED, "syscalls[0].action" },
	{ RULE("{\"names\":[\"read\"],\"action\":\"SCMP_ACT_KILL\",\"errnoRet\":1}"), ERR_INVALID, "takes no" },
	{ DENY("\"names\":[]"), ERR_INVALID, "no \"names\"" },
	{ DENY("\"names\":\"read\""), ERR_CORRUPT, "names" },
	{ DENY("\"names\":[1]"), ERR_CORRUPT, "element 0 is not a string" },
	{ DENY("\"names\":[\"re\\u0000ad\"]"), ERR_CORRUPT, "" },
	{ DENY("\"names\":[\"\"]"), ERR_INVALID, "names[0]" },
	{ DENY("\"names\":[\"Read!\"]"), ERR_INVALID, "names[0]: \"Read!\"" },
	{ DENY("\"names\":[\"read\",\"write\",\"read\"]"), ERR_INVALID, "names[2]: \"read\" is there twice" },
	{ DENY("\"names\":[\"read\"],\"name\":\"write\""), ERR_INVALID, "both" },
	{ DENY("\"names\":[\"read\"],\"arg\":[]"), ERR_INVALID, "syscalls[0]: unknown key \"arg\"" },
	{ DENY("\"names\":[\"read\"],\"args\":[1]"), ERR_CORRUPT, "args[0]: is not an object" },
	{ DENY("\"names\":[\"read\"],\"args\":[{\"value\":1,\"op\":\"SCMP_CMP_EQ\"}]"), ERR_INVALID, "\"index\"" },
	{ DENY("\"names\":[\"read\"],\"args\":[{\"index\":6,\"op\":\"SCMP_CMP_EQ\"}]"), ERR_INVALID, "\"index\"" },
	{ DENY("\"names\":[\"read\"],\"args\":[{\"index\":0}]"), ERR_INVALID, "args[0]: no \"op\"" },
	{ DENY("\"names\":[\"read\"],\"args\":[{\"index\":0,\"op\":\"==\"}]"), ERR_INVALID,
	  "args[0].op: unknown operator \"==\"" },
	{ DENY("\"names\":[\"read\"],\"args\":[{\"index\":0,\"value\":1.5,\"op\":\"SCMP_CMP_EQ\"}]"), ERR_CORRUPT,
	  "value" },
	{ DENY("\"names\":[\"read\"],\"args\":[{\"index\":0,\"val\":1,\"op\":\"SCMP_CMP_EQ\"}]"), ERR_INVALID,
	  "unknown key \"val\"" },
	{ DENY("\"names\":[\"read\"],\"includes\":{\"caps\":[\"CAP_FLY\"]}"), ERR_INVALID,
	  "syscalls[0].includes: unknown capability \"CAP_FLY\"" },
	{ DENY("\"names\":[\"read\"],\"includes\":{\"cap\":[]}"), ERR_INVALID, "unknown key \"cap\"" },
	{ DENY("\"names\":[\"read\"],\"excludes\":[]"), ERR_CORRUPT, "excludes" },
	{ DENY("\"names\":[\"read\"],\"includes\":{\"minKernel\":\"four\"}"), ERR_INVALID, "minKernel" },
	{ DENY("\"names\":[\"read\"],\"includes\":{\"minKernel\":\"4.8.1\"}"), ERR_INVALID, "minKernel" },
	/* trap 1: libseccomp would let ioctl(TIOCSTI) through */
	{ "{\"defaultAction\":\"SCMP_ACT_KILL\",\"syscalls\":["
	  "{\"names\":[\"ioctl\"],\"action\":\"SCMP_ACT_ERRNO\",\"args\":[{\"index\":1,\"value\":21522,"
	  "\"op\":\"SCMP_CMP_EQ\"}]},{\"names\":[\"ioctl\"],\"action\":\"SCMP_ACT_ALLOW\"}]}", ERR_INVALID,
	  "syscalls[0].names[0]: its args would be lost" },
	{ "{\"defaultAction\":\"SCMP_ACT_ERRNO\",\"syscalls\":["
	  "{\"names\":[\"ioctl\"],\"action\":\"SCMP_ACT_ERRNO\",\"args\":[{\"index\":1,\"value\":21522,"
	  "\"op\":\"SCMP_CMP_EQ\"}]},{\"names\":[\"ioctl\"],\"action\":\"SCMP_ACT_ALLOW\"}]}", ERR_INVALID,
	  "its args would be lost" },
	{ "{\"defaultAction\":\"SCMP_ACT_KILL\",\"syscalls\":["
	  "{\"names\":[\"kill\"],\"action\":\"SCMP_ACT_ERRNO\",\"args\":[{\"index\":1,\"value\":2,\"op\":\"SCMP_CMP_EQ\"}]},"
	  "{\"names\":[\"kill\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":1,\"value\":2,"
	  "\"op\":\"SCMP_CMP_EQ\"}]}]}", ERR_INVALID, "syscalls[1].names[0]" },
};

Test(seccomp_json, bad_profiles_are_refused_with_the_place)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++) {
		struct seccomp_profile p = { 0 };
		struct err e = { 0 };

		cr_expect_eq(seccomp_from_json(bad[i].text, strlen(bad[i].text), 0, &p, &e), -1, "accepted: %s",
			     bad[i].text);
		cr_expect_eq(e.code, bad[i].code, "%s: %s: %s", bad[i].text, err_name(e.code), e.msg);
		cr_expect(strstr(e.msg, bad[i].says), "%s: %s", bad[i].text, e.msg);
		cr_expect_null(p.b.insns);
	}
}

Test(seccomp_json, ceilings_hold)
{
	struct seccomp_profile p = { 0 };
	struct err e = { 0 };
	size_t n = 2 << 20;
	autofree char *big = malloc(n);

	cr_assert_not_null(big);
	memset(big, ' ', n);
	cr_expect_eq(seccomp_from_json(big, n, 0, &p, &e), -1);
	cr_expect_eq(e.code, ERR_CORRUPT);
	memset(big, '[', n);
	cr_expect_eq(seccomp_from_json(big, 1000, 0, &p, &e), -1);
	cr_expect_eq(e.code, ERR_CORRUPT);
}
