/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device rules of linux.resources.devices: the last one that matches an
 * access decides, as in cgroup v1 (admin-guide/cgroup-v1/devices.rst).  The
 * default devices may always be used; that linux.devices makes a node does not
 * allow its use, as with runc.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/kernel/cgroup.h"
#include "runtime/kernel/devbpf.h"
#include "runtime/kernel/userns.h"
#include "runtime/oci/json.h"
#include "runtime/oci/log.h"
#include "runtime/oci/resources.h"

struct rule {
	int allow;
	char type;	/* 'a', 'b', 'c' */
	int64_t major, minor;	/* -1: any */
	unsigned access;	/* BPF_DEVCG_ACC_* */
};

#define READ_WRITE_MKNOD (BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE | BPF_DEVCG_ACC_MKNOD)
#define RULES_MAX 400

/*
 * The devices that every container has in /dev; by the first two rules any node may be made, not
 * used (as in runc and crun).
 */
static const struct rule always[] = {
	{ 1, 'c', -1, -1, BPF_DEVCG_ACC_MKNOD }, { 1, 'b', -1, -1, BPF_DEVCG_ACC_MKNOD },
	{ 1, 'c', 1, 3, READ_WRITE_MKNOD }, { 1, 'c', 1, 8, READ_WRITE_MKNOD }, { 1, 'c', 1, 7, READ_WRITE_MKNOD },
	{ 1, 'c', 5, 0, READ_WRITE_MKNOD }, { 1, 'c', 1, 5, READ_WRITE_MKNOD }, { 1, 'c', 1, 9, READ_WRITE_MKNOD },
	{ 1, 'c', 5, 1, READ_WRITE_MKNOD }, { 1, 'c', 136, -1, READ_WRITE_MKNOD }, { 1, 'c', 5, 2, READ_WRITE_MKNOD },
};

struct rules {
	struct rule r[RULES_MAX];
	size_t count;
};

static int add_device_rule(struct rules *l, struct rule r, struct err *e)
{
	if (l->count == RULES_MAX)
		return err_set(e, ERR_LIMIT, "linux.resources.devices: more than %d rules", RULES_MAX);
	l->r[l->count++] = r;
	return 0;
}

static int read_rule(const json_t *v, struct rule *r, struct err *e)
{
	const char *type = oci_str(v, "type"), *access = oci_str(v, "access"), *p;

	*r = (struct rule){ oci_true(v, "allow"), type && *type ? *type : 'a', oci_i64(v, "major", -1),
			    oci_i64(v, "minor", -1), 0 };
	if (type && *type && (type[1] || !strchr("abcu", *type)))
		return err_set(e, ERR_INVALID, "linux.resources.devices: type '%.16s' is not a, b or c", type);
	if (r->type == 'u')
		r->type = 'c';
	/* a denial without access letters denies all access; to allow all access takes the letters */
	if (r->allow && !(access && *access))
		return err_set(e, ERR_INVALID, "linux.resources.devices: a rule that allows has no access: say which of r, w and m");
	for (p = access && *access ? access : "rwm"; *p; p++) {
		if (!strchr("rwm", *p))
			return err_set(e, ERR_INVALID, "linux.resources.devices: access '%.16s' is not of r, w and m", access);
		r->access |= *p == 'r' ? BPF_DEVCG_ACC_READ : *p == 'w' ? BPF_DEVCG_ACC_WRITE : BPF_DEVCG_ACC_MKNOD;
	}
	return 0;
}

/*
 * "a" is everything and rwm, and other members beside it do not count (v1). A rule that allows
 * less applies to both kinds.
 */
static int add_any(struct rules *l, struct rule r, struct err *e)
{
	if (r.type != 'a' || !r.allow || (r.major < 0 && r.minor < 0 && r.access == READ_WRITE_MKNOD))
		return add_device_rule(l, r, e);
	r.type = 'b';
	if (add_device_rule(l, r, e) < 0)
		return -1;
	r.type = 'c';
	return add_device_rule(l, r, e);
}

static int collect_device_rules(struct rules *l, const json_t *rules, struct err *e)
{
	const json_t *v;
	struct rule r;
	size_t i;

	l->count = 0;
	json_array_foreach(rules, i, v)
		if (read_rule(v, &r, e) < 0 || add_any(l, r, e) < 0)
			return -1;
	for (i = 0; i < ARRAY_LEN(always); i++)
		if (add_device_rule(l, always[i], e) < 0)
			return -1;
	return 0;
}

/* ---- v1 ------------------------------------------------------------------------ */

static int write_v1(int fd, const struct rule *r, struct err *e)
{
	char text[96], major[24] = "*", minor[24] = "*";

	if (r->major >= 0)
		snprintf(major, sizeof(major), "%lld", (long long)r->major);
	if (r->minor >= 0)
		snprintf(minor, sizeof(minor), "%lld", (long long)r->minor);
	snprintf(text, sizeof(text), "%c %s:%s %s%s%s", r->type, major, minor,
		 r->access & BPF_DEVCG_ACC_READ ? "r" : "", r->access & BPF_DEVCG_ACC_WRITE ? "w" : "",
		 r->access & BPF_DEVCG_ACC_MKNOD ? "m" : "");
	if (cgroup_write(fd, r->allow ? "devices.allow" : "devices.deny", r->type == 'a' ? "a" : text) < 0)
		return err_sys(e, "write '%s' to devices.%s", text, r->allow ? "allow" : "deny");
	return 0;
}

/* ---- v2 ------------------------------------------------------------------------ */

#define INSN(...) do { if (n == max) return 0; insns[n++] = (struct bpf_insn){ __VA_ARGS__ }; } while (0)

enum { TYPE = BPF_REG_2, ACCESS = BPF_REG_3, MAJOR = BPF_REG_4, MINOR = BPF_REG_5 };

/* Compiles the rules, the last one first: the first match decides. 0 if they do not fit. */
static size_t compile_device_rules(const struct rules *l, struct bpf_insn *insns, size_t max)
{
	size_t n = 0, i;

	INSN(.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = TYPE, .src_reg = BPF_REG_1, .off = 0);
	INSN(.code = BPF_ALU | BPF_MOV | BPF_X, .dst_reg = ACCESS, .src_reg = TYPE);
	INSN(.code = BPF_ALU | BPF_AND | BPF_K, .dst_reg = TYPE, .imm = 0xffff);
	INSN(.code = BPF_ALU | BPF_RSH | BPF_K, .dst_reg = ACCESS, .imm = 16);
	INSN(.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = MAJOR, .src_reg = BPF_REG_1, .off = 4);
	INSN(.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = MINOR, .src_reg = BPF_REG_1, .off = 8);
	for (i = l->count; i > 0; i--) {
		const struct rule *r = &l->r[i - 1];
		size_t jumps[4], count = 0, j;

		if (r->type != 'a') {
			jumps[count++] = n;
			INSN(.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = TYPE,
			     .imm = r->type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR);
		}
		/* allowed only as a whole; denied where it asks for any part */
		if (r->access != READ_WRITE_MKNOD) {
			INSN(.code = BPF_ALU | BPF_MOV | BPF_X, .dst_reg = BPF_REG_1, .src_reg = ACCESS);
			INSN(.code = BPF_ALU | BPF_AND | BPF_K, .dst_reg = BPF_REG_1,
			     .imm = r->allow ? (int)(~r->access & READ_WRITE_MKNOD) : (int)r->access);
			jumps[count++] = n;
			INSN(.code = BPF_JMP | (r->allow ? BPF_JNE : BPF_JEQ) | BPF_K, .dst_reg = BPF_REG_1, .imm = 0);
		}
		if (r->type != 'a' && r->major >= 0) {
			jumps[count++] = n;
			INSN(.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = MAJOR, .imm = (int)r->major);
		}
		if (r->type != 'a' && r->minor >= 0) {
			jumps[count++] = n;
			INSN(.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = MINOR, .imm = (int)r->minor);
		}
		INSN(.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = r->allow);
		INSN(.code = BPF_JMP | BPF_EXIT);
		/*
		 * a rule that matches everything: the kernel refuses unreachable instructions after
		 * it
		 */
		if (!count)
			return n;
		for (j = 0; j < count; j++)
			insns[jumps[j]].off = (short)(n - jumps[j] - 1);
	}
	INSN(.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0);
	INSN(.code = BPF_JMP | BPF_EXIT);
	return n;
}

static int attach_v2(int cg, const struct bpf_insn *insns, size_t n, struct err *e)
{
	uint32_t old[16] = { 0 };
	size_t i, had = devbpf_attached(cg, old, ARRAY_LEN(old));
	union bpf_attr a;

	if (devbpf_attach(cg, insns, n, "berth_oci", BPF_F_ALLOW_MULTI, e) < 0)
		return -1;
	/* all attached programs must agree, so the former ones are removed after the new one is attached */
	for (i = 0; i < had; i++) {
		autoclose int fd = -1;

		memset(&a, 0, sizeof(a));
		a.prog_id = old[i];
		fd = devbpf_call(BPF_PROG_GET_FD_BY_ID, &a);
		if (fd < 0)
			return err_sys(e, "find the former device rules");
		memset(&a, 0, sizeof(a));
		a.target_fd = (uint32_t)cg;
		a.attach_bpf_fd = (uint32_t)fd;
		a.attach_type = BPF_CGROUP_DEVICE;
		if (devbpf_call(BPF_PROG_DETACH, &a) < 0)
			return err_sys(e, "take the former device rules away");
	}
	return 0;
}

static int no_controller(const char *remedy, struct err *e)
{
	return err_set(e, ERR_UNSUPPORTED,
		       "the container has no cgroup with device control, so linux.resources.devices cannot "
		       "be enforced; hint: %s", remedy);
}

static int apply_v1(const struct oci_cgroup *c, const struct rules *l, struct err *e)
{
	const int fd = oci_cgroup_fd(c, "devices");
	size_t i;

	if (fd < 0)
		return no_controller("mount the controller devices at /sys/fs/cgroup/devices", e);
	for (i = 0; i < l->count; i++)
		if (write_v1(fd, &l->r[i], e) < 0)
			return -1;
	return 0;
}

static int apply_v2(const struct oci_cgroup *c, const struct rules *l, struct err *e)
{
	static struct bpf_insn insns[4000];
	const int fd = oci_cgroup_clone_fd(c);
	const size_t n = compile_device_rules(l, insns, ARRAY_LEN(insns));

	if (fd < 0)
		return no_controller("mount cgroup2 at /sys/fs/cgroup", e);
	if (!n)
		return err_set(e, ERR_INVALID,
			       "linux.resources.devices: the rules do not fit in a BPF program");
	return attach_v2(fd, insns, n, e);
}

/*
 * Tells whether the error means that the kernel controls devices for the host's root alone. The
 * container of an ordinary user can make no device, and opens those of the host with that user's
 * rights, rules or not.
 */
static int is_beyond_a_user(const struct err *e)
{
	return !userns_is_host_root() && (e->code == ERR_UNSUPPORTED || e->os_errno == EPERM ||
	    e->os_errno == EACCES);
}

int oci_devices_allow(const struct oci_cgroup *c, const json_t *rules, struct err *e)
{
	struct rules l;

	if (!json_array_size(rules))
		return 0;
	if (collect_device_rules(&l, rules, e) < 0)
		return -1;
	if ((c->v2 ? apply_v2(c, &l, e) : apply_v1(c, &l, e)) == 0)
		return 0;
	if (!is_beyond_a_user(e))
		return -1;
	oci_log(OCI_WARNING, "device rules are left out, as only the host's root can set them: %s", e->msg);
	return 0;
}
