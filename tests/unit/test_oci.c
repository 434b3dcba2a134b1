/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/mount.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>

#include "base/mem.h"
#include "runtime/oci/json.h"
#include "runtime/oci/mount.h"
#include "runtime/oci/seccomp.h"
#include "runtime/oci/state.h"
#include "seccomp/seccomp.h"

static json_t *parse(const char *text)
{
	struct err e = { 0 };
	json_t *j = oci_json_parse(text, strlen(text), "test", &e);

	cr_assert_not_null(j, "%s", e.msg);
	return j;
}

Test(oci_json, numbers_above_the_signed_ones_keep_their_value)
{
	autojson json_t *j = parse("{\"a\": 18446744073709551615, \"b\": 9223372036854775807, \"c\": 9223372036854775808,\n"
				   " \"d\": \"18446744073709551615\", \"e\": -5}");

	cr_assert_eq(oci_u64(j, "a", 0), UINT64_MAX);
	cr_assert_eq(oci_u64(j, "b", 0), (uint64_t)INT64_MAX);
	cr_assert_eq(oci_u64(j, "c", 0), (uint64_t)INT64_MAX + 1);
	cr_assert_str_eq(oci_str(j, "d"), "18446744073709551615");
	cr_assert_eq(oci_i64(j, "e", 0), -5);
	cr_assert_eq(oci_u64(j, "absent", 7), 7u);
}

Test(oci_json, what_is_no_document_is_refused)
{
	static const char *const bad[] = { "", "[", "x", "18446744073709551615", "-18446744073709551615", " 18446744073709551615", "{\"a\": 18446744073709551616}", "{\"a\": 1, \"a\": 2}" };
	struct err e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		/* of its own size, so that a sanitizer sees what is read before and behind it */
		autofree char *text = malloc(strlen(bad[i]) + 1);

		cr_assert_not_null(text);
		memcpy(text, bad[i], strlen(bad[i]));
		cr_assert_null(oci_json_parse(text, strlen(bad[i]), "test", &e), "%s", bad[i]);
	}
}

static const char *schema_error(const char *text)
{
	static struct err e;
	autojson json_t *j = parse(text);

	e.msg[0] = '\0';
	return oci_schema_check(j, OCI_CONFIG, "config.json", &e) == 0 ? "" : e.msg;
}

Test(oci_schema, unknown_members_and_null_are_fine_wrong_types_name_their_path)
{
	cr_assert_str_empty(schema_error("{\"ociVersion\": \"1.0.0\", \"new\": [1], \"process\": null, \"linux\": {\"x\": 1}}"));
	cr_assert_str_eq(schema_error("{}"), "config.json: ociVersion is missing");
	cr_assert_str_eq(schema_error("{\"ociVersion\": \"1.0.0\", \"process\": {\"cwd\": \"/\", \"args\": [\"a\", 2]}}"),
			 "config.json: process.args[1] is not a string");
	cr_assert_str_eq(schema_error("{\"ociVersion\": \"1.0.0\", \"annotations\": {\"k\": 1}}"),
			 "config.json: annotations[\"k\"] is not a string");
	cr_assert_str_eq(schema_error("{\"ociVersion\": \"1.0.0\", \"process\": {\"cwd\": \"/\", \"user\": {\"uid\": -1}}}"),
			 "config.json: process.user.uid is not an id from 0 to 4294967294");
	cr_assert_str_eq(schema_error("{\"ociVersion\": \"1.0.0\", \"linux\": {\"resources\": {\"cpu\": {\"shares\": 1.5}}}}"),
			 "config.json: linux.resources.cpu.shares is not a number that is not negative");
}

static struct oci_mount read_mount(const char *text)
{
	static json_t *j;	/* the strings are borrowed, until the next call */
	struct oci_mount m;
	struct err e = { 0 };

	json_decref(j);
	j = parse(text);
	cr_assert_eq(oci_mount_read(&m, j, &e), 0, "%s", e.msg);
	return m;
}

Test(oci_mount, a_later_option_takes_back_an_earlier_one)
{
	struct oci_mount m = read_mount("{\"destination\": \"/x\", \"type\": \"tmpfs\", \"options\": "
					"[\"ro\", \"nosuid\", \"rw\", \"noatime\", \"relatime\", \"size=1m\", \"slave\", \"shared\"]}");

	cr_assert_eq(m.set, (uint64_t)MOUNT_ATTR_NOSUID);
	cr_assert(m.clear & MOUNT_ATTR_RDONLY);
	cr_assert_eq(m.clear & MOUNT_ATTR__ATIME, (uint64_t)MOUNT_ATTR__ATIME);
	cr_assert_eq(m.words, 1u);
	cr_assert_str_eq(m.word[0], "size=1m");
	cr_assert_eq(m.propagation[0], (unsigned long)MS_SLAVE);
	cr_assert_eq(m.propagation[1], (unsigned long)MS_SHARED);
}

Test(oci_mount, bind_is_an_option_or_a_type_and_recursive_attributes_are_apart)
{
	struct oci_mount m = read_mount("{\"destination\": \"/x\", \"type\": \"bind\", \"source\": \"/s\", \"options\": [\"rro\"]}");

	cr_assert(m.bind && !m.recursive && !m.set && m.below_set == MOUNT_ATTR_RDONLY);
	m = read_mount("{\"destination\": \"/x\", \"source\": \"/s\", \"options\": [\"rbind\", \"idmap=uids=0-1-2\"]}");
	cr_assert(m.bind && m.recursive && m.idmap == 1);
	cr_assert_str_eq(m.idmap_spec, "uids=0-1-2");
}

Test(oci_mount, contradictions_are_refused)
{
	static const char *const bad[] = {
		"{\"destination\": \"\", \"type\": \"tmpfs\"}", "{\"destination\": \"/x\"}",
		"{\"destination\": \"/x\", \"type\": \"bind\"}", "{\"destination\": \"/x\", \"type\": \"tmpfs\", \"options\": [\"idmap\"]}",
	};
	struct oci_mount m;
	struct err e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		autojson json_t *j = parse(bad[i]);

		cr_assert_eq(oci_mount_read(&m, j, &e), -1, "%s", bad[i]);
	}
}

Test(oci_state, ids_are_names)
{
	static const char *const bad[] = { "", ".", "..", ".a", "a/b", "a b", "a\n", "\xc3\xa4" };

	cr_assert_null(oci_id_fault("a_B+c-1.2"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_not_null(oci_id_fault(bad[i]), "%s", bad[i]);
}

Test(oci_seccomp, a_call_newer_than_the_profile_does_not_exist)
{
	static const uint64_t args[6];
	struct oci_seccomp f = { 0 };
	struct seccomp_profile p = { 0 };
	struct err e = { 0 };
	autojson json_t *j = parse("{\"linux\": {\"seccomp\": {\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrnoRet\": 13,\n"
				   "\"syscalls\": [{\"names\": [\"read\", \"getrandom\", \"no_such_call\"], "
				   "\"action\": \"SCMP_ACT_ALLOW\"}]}}}");

	cr_assert_eq(oci_seccomp_compile(&f, j, &e), 0, "%s", e.msg);
	p.b = (struct seccomp_filter){ f.insns, f.count };
#ifdef __x86_64__
	cr_assert_eq(seccomp_simulate(&p, AUDIT_ARCH_X86_64, SYS_read, args), SECCOMP_RET_ALLOW);
	cr_assert_eq(seccomp_simulate(&p, AUDIT_ARCH_X86_64, SYS_write, args), SECCOMP_RET_ERRNO | EACCES);
	cr_assert_eq(seccomp_simulate(&p, AUDIT_ARCH_X86_64, SYS_clone3, args), SECCOMP_RET_ERRNO | ENOSYS);
	cr_assert_neq(seccomp_simulate(&p, AUDIT_ARCH_X86_64, 0x40000000 + 500, args), SECCOMP_RET_ERRNO | ENOSYS);
	cr_assert_neq(seccomp_simulate(&p, AUDIT_ARCH_I386, 500, args), SECCOMP_RET_ALLOW);
#endif
	oci_seccomp_release(&f);
}
