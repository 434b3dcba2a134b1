/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/devbpf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

#define LOAD32(dst, at) { .code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = (dst), .src_reg = BPF_REG_1, .off = (at) }
#define AND(dst, v) { .code = BPF_ALU | BPF_AND | BPF_K, .dst_reg = (dst), .imm = (v) }
#define JEQ(reg, v, skip) { .code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = (reg), .imm = (v), .off = (skip) }
#define JNE(reg, v, skip) { .code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = (reg), .imm = (v), .off = (skip) }
#define MOV(dst, v) { .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = (dst), .imm = (v) }
#define JUMP(skip) { .code = BPF_JMP | BPF_JA, .off = (skip) }
#define EXIT { .code = BPF_JMP | BPF_EXIT }

enum { TYPE = BPF_REG_2, MAJOR = BPF_REG_3, MINOR = BPF_REG_4 };

/* struct bpf_cgroup_dev_ctx: access_type (access << 16 | type), major, minor */
static const struct bpf_insn program[] = {
	/* 0 */ LOAD32(TYPE, 0),
	/* 1 */ AND(TYPE, 0xffff),
	/* 2 */ LOAD32(MAJOR, 4),
	/* 3 */ LOAD32(MINOR, 8),
	/* 4 */ JNE(TYPE, BPF_DEVCG_DEV_CHAR, 11),	/* -> 16 deny */
	/* 5 */ JEQ(MAJOR, 136, 12),			/* -> 18 allow */
	/* 6 */ JNE(MAJOR, 1, 6),			/* -> 13 */
	/* 7 */ JEQ(MINOR, 3, 10),			/* null */
	/* 8 */ JEQ(MINOR, 5, 9),			/* zero */
	/* 9 */ JEQ(MINOR, 7, 8),			/* full */
	/* 10 */ JEQ(MINOR, 8, 7),			/* random */
	/* 11 */ JEQ(MINOR, 9, 6),			/* urandom */
	/* 12 */ JUMP(3),				/* -> 16 deny */
	/* 13 */ JNE(MAJOR, 5, 2),			/* -> 16 deny */
	/* 14 */ JEQ(MINOR, 0, 3),			/* tty */
	/* 15 */ JEQ(MINOR, 2, 2),			/* ptmx */
	/* 16 */ MOV(BPF_REG_0, 0),
	/* 17 */ EXIT,
	/* 18 */ MOV(BPF_REG_0, 1),
	/* 19 */ EXIT,
};

int devbpf_call(int cmd, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

size_t devbpf_attached(int cgroup_fd, uint32_t *ids, size_t max)
{
	union bpf_attr a = { 0 };

	a.query.target_fd = (uint32_t)cgroup_fd;
	a.query.attach_type = BPF_CGROUP_DEVICE;
	a.query.prog_ids = (uint64_t)(uintptr_t)ids;
	a.query.prog_cnt = (uint32_t)max;
	return devbpf_call(BPF_PROG_QUERY, &a) == 0 ? a.query.prog_cnt : 0;
}

int devbpf_attach(int cgroup_fd, const struct bpf_insn *insns, size_t n, const char *name, struct err *e)
{
	autoclose int prog = -1;
	union bpf_attr a = { 0 };

	a.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	a.insns = (uint64_t)(uintptr_t)insns;
	a.insn_cnt = (uint32_t)n;
	a.license = (uint64_t)(uintptr_t)"Apache-2.0";
	snprintf(a.prog_name, sizeof(a.prog_name), "%s", name);
	prog = devbpf_call(BPF_PROG_LOAD, &a);
	if (prog < 0)
		return err_sys(e, "load the device rules (BPF_PROG_TYPE_CGROUP_DEVICE)");
	memset(&a, 0, sizeof(a));
	a.target_fd = (uint32_t)cgroup_fd;
	a.attach_bpf_fd = (uint32_t)prog;
	a.attach_type = BPF_CGROUP_DEVICE;
	a.attach_flags = BPF_F_ALLOW_MULTI;
	return devbpf_call(BPF_PROG_ATTACH, &a) < 0 ? err_sys(e, "attach the device rules to the cgroup") : 0;
}

int devbpf_confine(const char *cgroup_path, struct err *e)
{
	autoclose int cg = open(cgroup_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint32_t ids[4];

	if (cg < 0)
		return err_sys(e, "open cgroup %s", cgroup_path);
	if (devbpf_attached(cg, ids, ARRAY_LEN(ids)))
		return 0;
	if (devbpf_attach(cg, program, ARRAY_LEN(program), "berth_devices", e) < 0)
		return err_wrap(e, "cgroup %s", cgroup_path);
	if (!devbpf_attached(cg, ids, ARRAY_LEN(ids)))
		return err_set(e, ERR_UNSUPPORTED, "the device policy of cgroup %s does not read back", cgroup_path);
	return 0;
}
