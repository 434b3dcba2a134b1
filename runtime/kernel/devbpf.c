/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S47 of SECURITY.md. */
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

int devbpf_attach(int cgroup_fd, const struct bpf_insn *insns, size_t n, const char *name,
		  uint32_t flags, struct err *e)
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
	a.attach_flags = flags;
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
	/* the programs above apply in any case; only one attached below replaces it */
	if (devbpf_attach(cg, program, ARRAY_LEN(program), "berth_devices",
			 BPF_F_ALLOW_OVERRIDE, e) < 0)
		return err_wrap(e, "cgroup %s", cgroup_path);
	if (!devbpf_attached(cg, ids, ARRAY_LEN(ids)))
		return err_set(e, ERR_UNSUPPORTED,
			       "the device policy of cgroup %s does not read back", cgroup_path);
	return 0;
}

int devbpf_unconfine(int cgroup_fd, struct err *e)
{
	static const struct bpf_insn any[] = { MOV(BPF_REG_0, 1), EXIT };
	/* bpf(2) takes no O_PATH descriptor */
	autoclose int cg = openat(cgroup_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint32_t ids[4];

	if (cg < 0)
		return err_sys(e, "open the keepers' cgroup");
	if (devbpf_attached(cg, ids, ARRAY_LEN(ids)) ||
	    devbpf_attach(cg, any, ARRAY_LEN(any), "berth_any_devs", BPF_F_ALLOW_OVERRIDE, e) == 0)
		return 0;
	return e->os_errno == EPERM ? 0 : -1; /* the parent's rules yield to none */
}

#define DEVICE_INSNS 8
#define PREFIX_INSNS 5
#define ACCESS BPF_REG_5
#define REST BPF_REG_6
#define SHIFT(dst, v) { .code = BPF_ALU | BPF_RSH | BPF_K, .dst_reg = (dst), .imm = (v) }
#define COPY(dst, src) { .code = BPF_ALU | BPF_MOV | BPF_X, .dst_reg = (dst), .src_reg = (src) }

/* Compares the device's numbers and the requested access. */
static const struct bpf_insn prefix[PREFIX_INSNS] = {
	LOAD32(TYPE, 0), COPY(ACCESS, TYPE), SHIFT(ACCESS, 16), LOAD32(MAJOR, 4), LOAD32(MINOR, 8),
};

/* Allows when all is asked for that d grants; else goes on behind it. */
static void add_device_insns(struct bpf_insn *to, const struct cgroup_device *d)
{
	const int type = d->type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR;
	const struct bpf_insn one[DEVICE_INSNS] = {
		JNE(TYPE, type, 7), JNE(MAJOR, (int)d->major, 6), JNE(MINOR, (int)d->minor, 5),
		COPY(REST, ACCESS), AND(REST, (int)~d->access), JNE(REST, 0, 2),
		MOV(BPF_REG_0, 1), EXIT,
	};

	memcpy(to, one, sizeof(one));
}

static uint32_t attach_flags(int cgroup_fd)
{
	union bpf_attr a = { 0 };

	a.query.target_fd = (uint32_t)cgroup_fd;
	a.query.attach_type = BPF_CGROUP_DEVICE;
	return devbpf_call(BPF_PROG_QUERY, &a) == 0 ? a.query.attach_flags : 0;
}

int devbpf_allow(int cgroup_fd, const char *parent_path, const struct cgroup_device *d,
		 size_t count, struct err *e)
{
	struct bpf_insn insns[PREFIX_INSNS + 1 + CGROUP_DEVICES_MAX * DEVICE_INSNS +
			      ARRAY_LEN(program)];
	autoclose int parent = open(parent_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclose int cg = openat(cgroup_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct bpf_insn type_only = AND(TYPE, 0xffff);
	size_t n = PREFIX_INSNS, i;
	uint32_t ids[4];

	if (parent < 0 || cg < 0)
		return err_sys(e, "open cgroup %s", parent_path);
	if (count > CGROUP_DEVICES_MAX)
		return err_set(e, ERR_LIMIT, "more than %d devices", CGROUP_DEVICES_MAX);
	if (!(attach_flags(parent) & BPF_F_ALLOW_OVERRIDE))
		return err_set(e, ERR_UNSUPPORTED, "the device rules of cgroup %s are an older "
			       "berth's and yield to none; hint: stop all sandboxes once, and "
			       "remove that cgroup", parent_path);
	memcpy(insns, prefix, sizeof(prefix));
	insns[n++] = type_only;
	for (i = 0; i < count; i++, n += DEVICE_INSNS)
		add_device_insns(insns + n, &d[i]);
	memcpy(insns + n, program, sizeof(program));
	if (devbpf_attach(cg, insns, n + ARRAY_LEN(program), "berth_own_devs", BPF_F_ALLOW_OVERRIDE,
			  e) < 0)
		return -1;
	return devbpf_attached(cg, ids, ARRAY_LEN(ids)) == 1 ? 0 :
	       err_set(e, ERR_UNSUPPORTED, "the device rules of the sandbox do not read back");
}
