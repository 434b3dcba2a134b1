/* SPDX-License-Identifier: Apache-2.0 */
/* The plan as text: what is mounted, in which order, with which flags; and what is refused. */
#include <criterion/criterion.h>
#include <linux/mount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/sandbox/mountplan.h"

static struct mountplan plan;
static struct spec spec;

static void enter(void)
{
	memset(&spec, 0, sizeof(spec));
	spec.disk_bytes = 256 << 20;
	spec.disk_inodes = 65536;
	spec.tmp_bytes = 64 << 20;
	spec.shm_bytes = 64 << 20;
}

TestSuite(mountplan, .init = enter);

static void bind(const char *source, const char *target, int writable)
{
	spec.mounts[spec.mount_count++] = (struct spec_mount){
		.kind = SPEC_BIND, .source = source, .target = target, .writable = writable, .exec = 1,
	};
}

static void tmpfs(const char *target, uint64_t size)
{
	spec.mounts[spec.mount_count++] = (struct spec_mount){
		.kind = SPEC_TMPFS, .target = target, .writable = 1, .exec = 1, .size_bytes = size, .mode = 01777,
	};
}

static char *text_of(const char *const *host_dirs)
{
	struct buf b = BUF_INIT(1 << 16);
	struct err e = { 0 };

	cr_assert_eq(mountplan_build(&plan, &spec, host_dirs, &e), 0, "%s", e.msg);
	cr_assert_eq(mountplan_print(&plan, &b, &e), 0, "%s", e.msg);
	return b.data;
}

/* The line for target (of that kind), or -1. */
static int at(const char *kind, const char *target)
{
	int i, found = -1;

	for (i = 0; i < (int)plan.count; i++) {
		if (strcmp(plan.ops[i].target, target) || strcmp(mountplan_kind_name(plan.ops[i].kind), kind))
			continue;
		cr_expect_eq(found, -1, "%s %s is planned twice", kind, target);
		found = i;
	}
	return found;
}

static void refused(const char *target)
{
	struct err e = { 0 };

	spec.mount_count = 0;
	bind("/src", target, 0);
	cr_expect_eq(mountplan_build(&plan, &spec, NULL, &e), -1, "bind on '%s' is accepted", target);
	cr_expect_eq(e.code, ERR_INVALID, "'%s': %s", target, e.msg);
	spec.mount_count = 0;
	tmpfs(target, 4096);
	cr_expect_eq(mountplan_build(&plan, &spec, NULL, &e), -1, "tmpfs on '%s' is accepted", target);
}

Test(mountplan, a_plain_spec_gives_the_documented_plan)
{
	static const char want[] =
		"overlay  /                        rw,nosuid,nodev size=268435456,inodes=65536\n"
		"dev      /dev                     rw,nosuid,noexec\n"
		"devpts   /dev/pts                 rw,nosuid,noexec\n"
		"tmpfs    /dev/shm                 rw,nosuid,nodev,noexec size=67108864,inodes=4096\n"
		"mqueue   /dev/mqueue              rw,nosuid,nodev,noexec\n"
		"proc     /proc                    rw,nosuid,nodev,noexec\n"
		"rdonly   /proc/sys                ro,nosuid,nodev,noexec\n"
		"rdonly   /proc/sysrq-trigger      ro,nosuid,nodev,noexec\n"
		"mask     /proc/acpi               ro,nosuid,nodev,noexec\n";
	static const char end[] =
		"mask     /proc/zoneinfo           ro,nosuid,nodev,noexec\n"
		"boot     /proc/sys/kernel/random/boot_id ro,nosuid,nodev,noexec\n"
		"seal     /dev                     ro\n"
		"sys      /sys                     rw,nosuid,nodev,noexec\n"
		"cgroup2  /sys/fs/cgroup           ro,nosuid,nodev,noexec\n"
		"seal     /sys                     ro\n"
		"tmpfs    /tmp                     rw,nosuid,nodev size=67108864,inodes=16384\n"
		"tmpfs    /run                     rw,nosuid,nodev size=16777216,inodes=4096\n";
	autofree char *text = text_of(NULL);

	cr_expect_eq(strncmp(text, want, strlen(want)), 0, "the plan begins:\n%.900s", text);
	cr_expect_str_eq(text + strlen(text) - strlen(end), end, "the plan is:\n%s", text);
}

/* SECURITY-NOTES 2.3; K14, K15. */
Test(mountplan, every_listed_proc_entry_is_masked_or_read_only_after_proc)
{
	static const char *const masked[] = {
		"acpi", "asound", "config.gz", "interrupts", "iomem", "ioports", "kallsyms", "kcore", "key-users", "keys", "kmsg",
		"kpagecgroup", "kpagecount", "kpageflags", "latency_stats", "modules", "pagetypeinfo", "pressure", "sched_debug", "schedstat",
		"scsi", "slabinfo", "softirqs", "timer_list", "timer_stats", "vmallocinfo", "zoneinfo", "buddyinfo",
		"bootconfig", "bus", "cmdline", "crypto", "diskstats", "fs", "irq", "locks", "mdstat", "partitions", "vmstat",
		"sys/fs/aio-nr", "sys/fs/dentry-state", "sys/fs/file-nr", "sys/fs/inode-nr", "sys/fs/inode-state",
		"sys/fs/quota", "sys/kernel/pty/nr",
	};
	static const char *const readonly[] = { "sys", "sysrq-trigger" };
	autofree char *text = text_of(NULL);
	char p[64];
	size_t i;

	for (i = 0; i < ARRAY_LEN(masked); i++) {
		snprintf(p, sizeof(p), "/proc/%s", masked[i]);
		cr_expect_gt(at("mask", p), at("proc", "/proc"), "%s", p);
	}
	for (i = 0; i < ARRAY_LEN(readonly); i++) {
		snprintf(p, sizeof(p), "/proc/%s", readonly[i]);
		cr_assert_gt(at("rdonly", p), at("proc", "/proc"), "%s", p);
		cr_expect(plan.ops[at("rdonly", p)].attr & MOUNT_ATTR_RDONLY);
	}
}

/* /dev holds our own device nodes; everything else is nodev, and nothing at all honours set-uid. */
Test(mountplan, every_mount_is_nosuid_and_all_but_dev_nodev)
{
	static const char *const dirs[] = { "/usr", "/opt", NULL };
	autofree char *text = NULL;
	size_t i;

	bind("/a", "/a", 1);
	bind("/b", "/b", 0);
	tmpfs("/c", 4096);
	spec.read_only = spec.resident = 1;
	text = text_of(dirs);
	for (i = 0; i < plan.count; i++) {
		const struct mount_op *op = &plan.ops[i];

		if (op->kind == MOUNT_SEAL)
			continue;
		cr_expect(op->attr & MOUNT_ATTR_NOSUID, "%s", op->target);
		cr_expect(op->attr & MOUNT_ATTR_NODEV || op->kind == MOUNT_DEV || op->kind == MOUNT_DEVPTS, "%s", op->target);
		cr_expect_eq(op->fd, -1);
	}
}

Test(mountplan, tmp_is_on_the_layer_without_a_size_and_in_memory_below_a_read_only_root)
{
	struct err e;

	spec.tmp_bytes = 0;
	cr_expect_eq(mountplan_build(&plan, &spec, NULL, &e), 0);
	cr_expect_eq(at("tmpfs", "/tmp"), -1);
	cr_expect_neq(at("tmpfs", "/run"), -1);
	spec.read_only = 1;
	cr_expect_eq(mountplan_build(&plan, &spec, NULL, &e), 0);
	cr_expect_neq(at("tmpfs", "/tmp"), -1);
}

Test(mountplan, without_tmpfs_the_image_has_tmp_and_run)
{
	static const char *const dirs[] = { NULL };
	autofree char *text = NULL;
	size_t i;

	spec.no_tmpfs = spec.resident = 1;
	text = text_of(dirs);
	for (i = 0; i < plan.count; i++) {
		cr_expect_str_neq(plan.ops[i].target, "/tmp");
		cr_expect_str_neq(plan.ops[i].target, "/run");
	}
	cr_expect(plan.count && strstr(text, MOUNTPLAN_CONTROL));
}

Test(mountplan, cgroups_of_version_1_are_shown_read_only_on_a_tmpfs_that_is_sealed)
{
	static const char *const dirs[] = { NULL };
	autofree char *text = NULL;
	const char *at;

	spec.cgroup_v1 = 1u << V1_MEMORY | 1u << V1_PIDS;
	text = text_of(dirs);
	cr_expect(strstr(text, "cgroup2  /sys/fs/cgroup/unified   ro,nosuid,nodev,noexec\n"));
	cr_expect(strstr(text, "cgroup   /sys/fs/cgroup/memory    ro,nosuid,nodev,noexec\n"));
	cr_expect(strstr(text, "cgroup   /sys/fs/cgroup/pids      ro,nosuid,nodev,noexec\n"));
	cr_expect_null(strstr(text, "/sys/fs/cgroup/cpu"));
	at = strstr(text, "tmpfs    /sys/fs/cgroup ");
	cr_assert(at && strstr(at, "seal     /sys/fs/cgroup "));
}

Test(mountplan, parents_come_before_children)
{
	static const char *const dirs[] = { "/usr", "/lib64", NULL };
	autofree char *text = NULL;
	size_t i, j;

	tmpfs("/x/y/z", 4096);
	tmpfs("/x", 4096);
	tmpfs("/x/y", 4096);
	bind("/s", "/tmp/deep/er", 0);
	bind("/s", "/tmp/deep", 0);
	bind("/s", "/usr/local", 0);
	tmpfs("/dev/shm", 4096);
	spec.resident = 1;
	text = text_of(dirs);
	for (i = 0; i < plan.count; i++) {
		for (j = i + 1; j < plan.count; j++) {
			size_t n = strlen(plan.ops[j].target);

			if (plan.ops[i].kind == MOUNT_SEAL || plan.ops[j].kind == MOUNT_SEAL)
				continue;
			cr_expect_not(!strncmp(plan.ops[i].target, plan.ops[j].target, n) && plan.ops[i].target[n] == '/',
				      "%s comes before %s:\n%s", plan.ops[i].target, plan.ops[j].target, text);
		}
	}
}

Test(mountplan, a_later_mount_on_a_target_replaces_the_earlier)
{
	autofree char *text = NULL;

	bind("/one", "/data", 0);
	bind("/two", "/data", 1);
	tmpfs("/data", 4096);
	bind("/three", "/data", 0);
	bind("/other", "/other", 0);
	text = text_of(NULL);
	cr_expect_eq(at("tmpfs", "/data"), -1);
	cr_assert_neq(at("bind", "/data"), -1);
	cr_expect_str_eq(plan.ops[at("bind", "/data")].source, "/three");
	cr_expect_neq(at("bind", "/other"), -1);
}

Test(mountplan, a_user_mount_replaces_tmp_run_shm_and_a_host_directory)
{
	static const char *const dirs[] = { "/usr", "/opt", NULL };
	autofree char *text = NULL;
	size_t plain;

	free(text_of(dirs));
	plain = plan.count;
	tmpfs("/tmp", 8192);
	tmpfs("/dev/shm", 8192);
	bind("/s", "/run", 0);
	bind("/s", "/opt", 0);
	text = text_of(dirs);
	cr_expect_eq(plan.count, plain, "nothing is mounted twice:\n%s", text);
	cr_expect_eq(plan.ops[at("tmpfs", "/tmp")].size_bytes, 8192);
	cr_expect_eq(plan.ops[at("tmpfs", "/dev/shm")].size_bytes, 8192);
	cr_expect_eq(at("tmpfs", "/run"), -1);
	cr_expect_eq(at("hostdir", "/opt"), -1);
	cr_expect_neq(at("hostdir", "/usr"), -1);
}

Test(mountplan, what_berth_mounts_itself_cannot_be_covered)
{
	static const char *const bad[] = {
		"/", "/proc", "/proc/self", "/proc/sys/kernel", "/proc/1", "/sys", "/sys/fs", "/sys/fs/cgroup", "/dev", "/dev/null", "/dev/pts",
		"/dev/mqueue", "/dev/shm/x", "/dev/console",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++)
		refused(bad[i]);
}

Test(mountplan, another_spelling_does_not_slip_past_the_reserved_targets)
{
	static const char *const bad[] = {
		"//", "/.", "/./", "//proc", "/./proc", "/proc/", "/proc/.", "/proc//sys", "/.//proc", "/dev/./null", "/sys/", "//dev//",
		"/dev/shm/", "/dev//shm", "/x/..", "/..", "/../proc", "/x/../proc", "/x/../../dev", "/a/b/../../sys", "/x/.", "/x/", "//x",
		"/x//y", "/x/./y", "..", ".", "", "x", "x/y", "./x", "proc", "../x",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(bad); i++)
		refused(bad[i]);
}

Test(mountplan, names_that_only_look_reserved_are_fine)
{
	static const char *const good[] = {
		"/process", "/devel", "/system", "/proc2", "/.proc", "/..x", "/x..", "/...", "/x/..y", "/a.b", "/x/proc", "/srv/dev",
		"/dev/shm", "/tmp", "/tmp/x", "/run", "/run/x", "/workspace", "/usr", "/etc", "/run/.berth", "/ ", "/a b", "/\xc3\xa9",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(good); i++) {
		struct err e = { 0 };

		spec.mount_count = 0;
		bind("/src", good[i], 0);
		cr_expect_eq(mountplan_build(&plan, &spec, NULL, &e), 0, "'%s': %s", good[i], e.msg);
	}
}

Test(mountplan, a_target_of_any_length_is_handled)
{
	static char longer[5000];

	memset(longer, 'a', sizeof(longer) - 1);
	longer[0] = '/';
	refused(longer);
	longer[3999] = '\0';
	spec.mount_count = 0;
	bind("/src", longer, 0);
	free(text_of(NULL));
}

Test(mountplan, binds_are_read_only_and_idmapped_unless_asked_otherwise)
{
	autofree char *text = NULL;

	bind("/ro", "/ro", 0);
	bind("/rw", "/rw", 1);
	spec.mounts[1].exec = 0;
	spec.mounts[1].nosymfollow = 1;
	text = text_of(NULL);
	cr_expect(strstr(text, "bind     /ro                      ro,nosuid,nodev from /ro (idmapped)\n"), "%s", text);
	cr_expect(strstr(text, "bind     /rw                      rw,nosuid,nodev,noexec,nosymfollow from /rw (idmapped)\n"), "%s", text);
}

Test(mountplan, a_tmpfs_is_bounded_in_inodes_too)
{
	free(text_of(NULL));
	tmpfs("/small", 4096);
	tmpfs("/large", 1 << 30);
	tmpfs("/own", 1 << 30);
	spec.mounts[2].inodes = 77;
	free(text_of(NULL));
	cr_expect_eq(plan.ops[at("tmpfs", "/small")].inodes, 1024);
	cr_expect_eq(plan.ops[at("tmpfs", "/large")].inodes, (1 << 30) / 4096);
	cr_expect_eq(plan.ops[at("tmpfs", "/own")].inodes, 77);
}

Test(mountplan, host_directories_are_read_only_and_right_after_the_root)
{
	static const char *const dirs[] = { "/usr", "/bin", NULL };
	autofree char *text = text_of(dirs);

	cr_expect_eq(at("hostdir", "/usr"), 1);
	cr_expect_eq(at("hostdir", "/bin"), 2);
	cr_expect(plan.ops[1].attr & MOUNT_ATTR_RDONLY);
	cr_expect_str_eq(plan.ops[1].source, "/usr");
}

Test(mountplan, read_only_seals_the_root_last_of_all)
{
	autofree char *text = NULL;

	bind("/s", "/data", 1);
	spec.read_only = 1;
	text = text_of(NULL);
	cr_expect_eq(at("seal", "/"), (int)plan.count - 1, "%s", text);
	spec.resident = 1;
	free(text_of(NULL));
	cr_expect_eq(at("seal", "/"), (int)plan.count - 1);
	spec.read_only = 0;
	free(text_of(NULL));
	cr_expect_eq(at("seal", "/"), -1);
}

/* What init reads of the keeper there, a user's mount must not hide or replace. */
Test(mountplan, the_control_directory_of_a_resident_sandbox_is_not_hidden)
{
	struct err e = { 0 };

	spec.resident = 1;
	refused(MOUNTPLAN_CONTROL);
	refused(MOUNTPLAN_CONTROL "/x");
	spec.mount_count = 0;
	tmpfs("/run", 8192);
	free(text_of(NULL));
	cr_expect_gt(at("control", MOUNTPLAN_CONTROL), at("tmpfs", "/run"));
	spec.mount_count = 0;
	bind("/s", "/run", 1);
	cr_expect_eq(mountplan_build(&plan, &spec, NULL, &e), -1, "it would be made on the operator's own directory");
	spec.resident = 0;
	free(text_of(NULL));
	cr_expect_eq(at("control", MOUNTPLAN_CONTROL), -1);
}

Test(mountplan, the_most_mounts_a_spec_can_hold_fit)
{
	static const char *const dirs[] = { "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", NULL };
	static char targets[SPEC_MOUNTS_MAX][32];
	size_t i;

	for (i = 0; i < SPEC_MOUNTS_MAX; i++) {
		snprintf(targets[i], sizeof(targets[i]), "/m%zu", i);
		bind("/s", targets[i], 0);
	}
	spec.read_only = spec.resident = 1;
	free(text_of(dirs));
	cr_expect_eq(plan.ops[plan.count - 1].kind, MOUNT_SEAL);
	cr_expect_leq(plan.count, MOUNTPLAN_MAX);
}

Test(mountplan, a_plan_can_be_built_again_in_the_same_storage)
{
	autofree char *first = NULL, *second = NULL;

	bind("/s", "/data", 0);
	first = text_of(NULL);
	second = text_of(NULL);
	cr_expect_str_eq(first, second);
}

Test(mountplan, sources_are_opened_on_the_host_and_proc_in_the_sandbox)
{
	static const enum mount_kind host[] = { MOUNT_ROOT, MOUNT_HOSTDIR, MOUNT_DEV, MOUNT_SYS, MOUNT_TMPFS, MOUNT_CONTROL, MOUNT_BIND, MOUNT_V1 };
	static const enum mount_kind inside[] = { MOUNT_PROC, MOUNT_DEVPTS, MOUNT_MQUEUE, MOUNT_CGROUP, MOUNT_RDONLY, MOUNT_MASK, MOUNT_BOOT, MOUNT_SEAL };
	size_t i;

	cr_expect_eq(ARRAY_LEN(host) + ARRAY_LEN(inside), MOUNT_KIND_COUNT);
	for (i = 0; i < ARRAY_LEN(host); i++)
		cr_expect(mountplan_is_host_side(host[i]), "%s", mountplan_kind_name(host[i]));
	for (i = 0; i < ARRAY_LEN(inside); i++)
		cr_expect_not(mountplan_is_host_side(inside[i]), "%s", mountplan_kind_name(inside[i]));
}
