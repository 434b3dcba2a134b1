/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp-gen - prints the C source of the built-in profiles.
 *
 * It runs when berth is built, so the running program neither compiles BPF nor needs libseccomp
 * for them. It prints both architectures and the C compiler picks one, so a cross build gives
 * the same file. Rules are stored as offsets into one string: pointers would cost a static-pie
 * program some thousand relocations at every start.
 */
#include <errno.h>
#include <linux/audit.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "seccomp/compile.h"
#include "seccomp/policy.h"
#include "seccomp/seccomp.h"
#include "seccomp/sysno.h"

static const struct {
	const char *macro;
	uint32_t audit;
} arches[] = {
	{ "__x86_64__", AUDIT_ARCH_X86_64 },
	{ "__aarch64__", AUDIT_ARCH_AARCH64 },
};

/* The profiles as this program compiled them, so that code linked here sees what it prints. */
static struct bpf_program native[POLICY_PROFILE_COUNT][2];
static struct seccomp_profile native_profiles[POLICY_PROFILE_COUNT];

const struct seccomp_profile *seccomp_builtin(const char *name)
{
	size_t i;

	for (i = 0; i < POLICY_PROFILE_COUNT; i++)
		if (native_profiles[i].name && strcmp(native_profiles[i].name, name) == 0)
			return &native_profiles[i];
	return NULL;
}

static void print_program(const char *profile, char which, const struct bpf_program *p)
{
	unsigned i;

	printf("static const struct sock_filter %s_%c[%u] = {\n", profile, which, p->len);
	for (i = 0; i < p->len; i++)
		printf("\t{ 0x%02x, %u, %u, 0x%x },\n", p->insn[i].code, p->insn[i].jt,
		       p->insn[i].jf, p->insn[i].k);
	printf("};\n");
}

static int print_filters(uint32_t arch, struct err *e)
{
	size_t i;

	for (i = 0; i < POLICY_PROFILE_COUNT; i++) {
		const struct policy_name *n = &policy_profiles[i];
		struct bpf_program a, b;

		if (compile_policy(COMPILE_A, n->bit, arch, &a, e) < 0 ||
		    compile_policy(COMPILE_B, n->bit, arch, &b, e) < 0)
			return err_wrap(e, "profile %s", n->name);
		print_program(n->name, 'a', &a);
		print_program(n->name, 'b', &b);
		if (arch != SYSNO_ARCH_NATIVE)
			continue;
		native[i][0] = a;
		native[i][1] = b;
		native_profiles[i] = (struct seccomp_profile){
			n->name, { native[i][0].insn, a.len }, { native[i][1].insn, b.len } };
	}
	return 0;
}

/* Adds s to the strings, or finds it there, and prints its offset. */
static int print_offset(struct buf *strings, const char *s, struct err *e)
{
	size_t at;

	for (at = 0; at < strings->len; at += strlen(strings->data + at) + 1)
		if (strcmp(strings->data + at, s) == 0)
			break;
	if (at >= strings->len && buf_add(strings, s, strlen(s) + 1, e) < 0)
		return -1;
	printf("%zu, ", at);
	return 0;
}

static int print_rule_row(struct buf *strings, const char *syscall, const char *condition, unsigned profiles,
			  uint32_t action, const char *reason, struct err *e)
{
	printf("\t{ ");
	if (print_offset(strings, syscall, e) < 0 || print_offset(strings, condition, e) < 0 ||
	    print_offset(strings, policy_action(action), e) < 0 ||
	    print_offset(strings, reason, e) < 0)
		return -1;
	printf("%u },\n", profiles);
	return 0;
}

static int print_rows(struct buf *strings, uint32_t arch, struct err *e)
{
	size_t i, j;

	for (i = 0; i < policy_rule_count; i++) {
		const struct policy_rule *r = &policy_rules[i];
		autobuf struct buf condition = BUF_INIT(1024);

		if (buf_adds(&condition, "", e) < 0 || policy_condition(r, &condition, e) < 0)
			return -1;
		for (j = 0; r->names[j]; j++)
			if (sysno_resolve(arch, r->names[j]) >= 0 &&
			    print_rule_row(strings, r->names[j], condition.data ? condition.data : "", r->profiles,
					   r->action, r->reason, e) < 0)
				return -1;
	}
	if (print_rule_row(strings, "*", "a number no other row names", POLICY_ALL, POLICY_UNKNOWN,
			   "newer than this table: libc falls back on ENOSYS", e) < 0)
		return -1;
	return print_rule_row(strings, "*", "another architecture's call", POLICY_ALL, POLICY_BAD_ARCH,
			      "K10 i386 and x32: a second system call table past the filter", e);
}

static int print_rules(uint32_t arch, struct err *e)
{
	autobuf struct buf strings = BUF_INIT(65535);	/* offsets are 16 bits */
	size_t i;

	printf("static const struct row rows[] = {\n");
	if (print_rows(&strings, arch, e) < 0)
		return -1;
	printf("};\nstatic const char strings[] =\n");
	for (i = 0; i < strings.len; i += strlen(strings.data + i) + 1)
		printf("\t\"%s\\0\"\n", strings.data + i);
	printf(";\n");
	return 0;
}

static void print_source_head(void)
{
	printf("/* Made by seccomp/gen.c from seccomp/policy.c; not to be edited. */\n"
	       "#include <string.h>\n\n"
	       "#include \"seccomp/seccomp.h\"\n\n"
	       "struct row {\n"
	       "\tunsigned short syscall, condition, action, reason;\t/* offsets into strings[] */\n"
	       "\tunsigned char profiles;\n"
	       "};\n\n");
}

static void print_api(void)
{
	size_t i;

	printf("static const struct {\n\tunsigned char bit;\n\tstruct seccomp_profile profile;\n"
	       "} profiles[] = {\n");
	for (i = 0; i < POLICY_PROFILE_COUNT; i++) {
		const char *n = policy_profiles[i].name;

		printf("\t{ %u, { \"%s\", { %s_a, sizeof(%s_a) / sizeof(*%s_a) }, "
		       "{ %s_b, sizeof(%s_b) / sizeof(*%s_b) } } },\n",
		       policy_profiles[i].bit, n, n, n, n, n, n, n);
	}
	printf("};\n\n"
	       "const struct seccomp_profile *seccomp_builtin(const char *name)\n{\n"
	       "\tsize_t i;\n\n"
	       "\tfor (i = 0; i < sizeof(profiles) / sizeof(*profiles); i++)\n"
	       "\t\tif (strcmp(profiles[i].profile.name, name) == 0)\n"
	       "\t\t\treturn &profiles[i].profile;\n"
	       "\treturn NULL;\n}\n\n"
	       "size_t seccomp_rules(const char *profile, struct seccomp_rule_info *out, size_t max)\n{\n"
	       "\tunsigned char bit = 0;\n\tsize_t i, n = 0;\n\n"
	       "\tfor (i = 0; i < sizeof(profiles) / sizeof(*profiles); i++)\n"
	       "\t\tif (strcmp(profiles[i].profile.name, profile) == 0)\n"
	       "\t\t\tbit = profiles[i].bit;\n"
	       "\tfor (i = 0; i < sizeof(rows) / sizeof(*rows); i++) {\n"
	       "\t\tif (!(rows[i].profiles & bit))\n\t\t\tcontinue;\n"
	       "\t\tif (n < max)\n"
	       "\t\t\tout[n] = (struct seccomp_rule_info){\n"
	       "\t\t\t\tstrings + rows[i].syscall, strings + rows[i].condition,\n"
	       "\t\t\t\tstrings + rows[i].action, strings + rows[i].reason };\n"
	       "\t\tn++;\n\t}\n"
	       "\treturn n;\n}\n");
}

int main(void)
{
	struct err e = { 0 };
	size_t i;

	print_source_head();
	for (i = 0; i < ARRAY_LEN(arches); i++) {
		printf("#%s defined(%s)\n", i ? "elif" : "if", arches[i].macro);
		if (print_filters(arches[i].audit, &e) < 0 || print_rules(arches[i].audit, &e) < 0) {
			log_error("seccomp-gen", &e);
			return 1;
		}
	}
	printf("#else\n#error \"no seccomp profile for this architecture\"\n#endif\n\n");
	print_api();
	if (fflush(stdout) || ferror(stdout)) {
		err_sys(&e, "write the profiles");
		log_error("seccomp-gen", &e);
		return 1;
	}
	return 0;
}
