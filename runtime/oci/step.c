/* SPDX-License-Identifier: Apache-2.0 */
/* Upholds S50 of SECURITY.md. */
#include "runtime/oci/step.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/caps.h"
#include "runtime/kernel/landlock.h"
#include "runtime/kernel/procmask.h"
#include "runtime/kernel/rlimits.h"
#include "runtime/oci/json.h"
#include "runtime/oci/container.h"
#include "seccomp/seccomp.h"
#include "seccomp/watch.h"

/* ---- the configuration ------------------------------------------------------------------ */

static int set_step_member(json_t *at, const char *key, json_t *value, struct err *e)
{
	return json_object_set_new(at, key, value) < 0 ? err_nomem(e) : 0;
}

/* A member that is an object, made where it is missing; borrowed. */
static json_t *step_json_child(json_t *at, const char *key)
{
	if (!oci_get(at, key) && json_object_set_new(at, key, json_object()) < 0)
		return NULL;
	return json_object_get(at, key);
}

static int set_namespaces(json_t *linux_part, struct err *e)
{
	const json_t *v;
	size_t i;

	json_array_foreach(oci_get(linux_part, "namespaces"), i, v)
		if (!strcmp(oci_str(v, "type"), "network") && !oci_str(v, "path"))
			return err_hint((err_set(e, ERR_UNSUPPORTED, "a RUN has the network of its build and no network of its own"), e),
					"leave --network of RUN out, and give it to the build");
	return set_step_member(linux_part, "namespaces", json_pack("[{s:s}, {s:s}, {s:s}, {s:s}]", "type", "pid", "type", "mount",
						       "type", "ipc", "type", "uts"), e);
}

/* Names without a bit, and those past the payload's eight, go. */
static json_t *allowed_caps(const json_t *list)
{
	json_t *ret = json_array();
	struct err ignored;
	const json_t *v;
	uint64_t mask;
	size_t i;

	json_array_foreach(list, i, v)
		if (caps_parse(json_string_value(v), &mask, &ignored) == 0 && !(mask & ~caps_default()))
			json_array_append(ret, (json_t *)(size_t)v);
	return ret;
}

static int confine_step_caps(json_t *process, struct err *e)
{
	static const char *const kept[] = { "bounding", "permitted", "effective" };
	json_t *caps = step_json_child(process, "capabilities");
	size_t i;

	if (!caps)
		return err_nomem(e);
	for (i = 0; i < ARRAY_LEN(kept); i++)
		if (set_step_member(caps, kept[i], allowed_caps(oci_get(caps, kept[i])), e) < 0)
			return -1;
	json_object_del(caps, "inheritable");
	json_object_del(caps, "ambient");
	return 0;
}

static int limit_number(const char *name)
{
	int i;

	for (i = 0; i < RLIMITS_COUNT; i++)
		if (!strcasecmp(rlimits_name((unsigned)i), name + (strncmp(name, "RLIMIT_", 7) ? 0 : 7)))
			return i;
	return -1;
}

/* Lowers limits to the build's own: a bundle may not ask for more. */
static int lower_limits(json_t *list, struct err *e)
{
	json_t *v;
	size_t i;

	json_array_foreach(list, i, v) {
		const int n = limit_number(oci_str(v, "type"));
		struct rlimit have;

		if (n < 0 || getrlimit(n, &have) < 0)
			continue;
		if (oci_u64(v, "hard", 0) > have.rlim_max && set_step_member(v, "hard", json_integer((json_int_t)have.rlim_max), e) < 0)
			return -1;
		if (oci_u64(v, "soft", 0) > have.rlim_max && set_step_member(v, "soft", json_integer((json_int_t)have.rlim_max), e) < 0)
			return -1;
	}
	return 0;
}

static int set_process(json_t *process, struct err *e)
{
	static const char *const gone[] = { "apparmorProfile", "selinuxLabel", "oomScoreAdj", "scheduler", "ioPriority",
					    "execCPUAffinity" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(gone); i++)
		json_object_del(process, gone[i]);
	if (confine_step_caps(process, e) < 0 || lower_limits(oci_get(process, "rlimits"), e) < 0)
		return -1;
	return set_step_member(process, "noNewPrivileges", json_true(), e);
}

static int set_masks(json_t *linux_part, struct err *e)
{
	json_t *hidden = json_array(), *rdonly = json_array();
	int failed = 0;
	size_t i;

	for (i = 0; procmask_hidden[i]; i++)
		failed |= json_array_append_new(hidden, json_string(procmask_path(procmask_hidden[i])));
	for (i = 0; procmask_rdonly[i]; i++)
		failed |= json_array_append_new(rdonly, json_string(procmask_rdonly[i]));
	failed |= json_object_set_new(linux_part, "maskedPaths", hidden);
	failed |= json_object_set_new(linux_part, "readonlyPaths", rdonly);
	return failed ? err_nomem(e) : 0;
}

static int is_mount_of_type(const json_t *mount, const char *type)
{
	const char *word = oci_str(mount, "type");

	return word && !strcmp(word, type);
}

static int is_at(const struct stat *st, const char *path)
{
	struct stat other;

	return stat(path, &other) == 0 && other.st_dev == st->st_dev && other.st_ino == st->st_ino;
}

#define MOUNTINFO_MAX (4u << 20)

/*
 * Tells where fd is in its file system, whatever mounts show it: the root of its mount there, then
 * its path below the point of that mount.  Blanks and the like in ret are octal escapes (proc(5)).
 */
static int place_in_fs(int fd, char ret[2 * PATH_MAX], struct err *e)
{
	autobuf struct buf text = BUF_INIT(MOUNTINFO_MAX);
	char link[32], path[PATH_MAX];
	const long id = oci_mount_id(fd);
	char *line, *rest, *root, *point, *word;
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0)
		return err_sys(e, "find the path of a source");
	path[n] = '\0';
	if (io_read_file(AT_FDCWD, "/proc/self/mountinfo", &text, e) < 0 || buf_add(&text, "", 1, e) < 0)
		return -1;
	for (line = strtok_r(text.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (strtol(line, &word, 10) != id)
			continue;
		/* ID PARENT MAJOR:MINOR ROOT POINT */
		if (!strtok_r(word, " ", &word) || !strtok_r(NULL, " ", &word) || !(root = strtok_r(NULL, " ", &word)) ||
		    !(point = strtok_r(NULL, " ", &word)))
			break;
		/* below a point with escapes the rest is not known, which hides nothing of the first components */
		snprintf(ret, 2 * PATH_MAX, "%s%s", strcmp(root, "/") ? root : "",
			 !strcmp(point, "/") ? path : strncmp(path, point, strlen(point)) ? "" : path + strlen(point));
		return 0;
	}
	return err_set(e, ERR_SYS, "find the mount of a source: /proc does not tell");
}

/* Whether fd is in buildah's storage, beside the files that buildah makes for one container. */
static int is_in_storage(int fd, struct err *e)
{
	static const char storage[] = "/storage", own[] = "/overlay-containers/", made[] = "/userdata/";
	autoclose int room = open("/run/build", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char at[2 * PATH_MAX], base[2 * PATH_MAX], *p;
	struct stat st, of_room;

	if (room < 0 || fstat(room, &of_room) < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "open the room of the build");
	if (st.st_dev != of_room.st_dev)
		return 0;
	if (place_in_fs(room, base, e) < 0 || place_in_fs(fd, at, e) < 0)
		return -1;
	if (strncmp(at, base, strlen(base)) || strncmp(at + strlen(base), storage, strlen(storage)))
		return 0;
	p = at + strlen(base) + strlen(storage);
	if (strncmp(p, own, strlen(own)))
		return 1;
	p += strlen(own);
	return strncmp(p + strcspn(p, "/"), made, strlen(made)) != 0;
}

/*
 * Checks the source of a mount. buildah 1.28 accepts "../.." in the id of a cache mount
 * (CVE-2024-9675), and so reaches the room of the build: its procfs, which has no masks, and
 * buildah's own files. buildah mounts each source at another path first, so the check is about the
 * mount found there: none of the room's own file systems but its /sys, no directory of
 * buildah's as a whole, and nothing of the layers that stay for later builds.
 */
static int check_source(const json_t *mount, struct err *e)
{
	static const char *const whole[] = { "/", "/run/build", "/run/build/storage", "/run/build/runroot", "/run/build/oci",
					     "/run/build/tmp" };
	const char *source = oci_str(mount, "source");
	autoclose int fd = source && source[0] == '/' ? open(source, O_PATH | O_CLOEXEC) : -1;
	struct stat st, root;
	struct statfs fs;
	int stays;
	size_t i;

	if (!source || source[0] != '/')
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0 || stat("/", &root) < 0)
		return err_sys(e, "mounts: source %.200s", source);
	if (is_at(&st, "/sys"))
		return 0;
	for (i = 0; i < ARRAY_LEN(whole) && !is_at(&st, whole[i]); i++)
		;
	stays = is_in_storage(fd, e);
	if (stays < 0)
		return -1;
	return stays || i < ARRAY_LEN(whole) || st.st_dev == root.st_dev || fs.f_type == PROC_SUPER_MAGIC ?
		       err_set(e, ERR_DENIED, "mounts: %.200s is of the room of the build, which no RUN mounts", source) : 0;
}

/*
 * Sets the mounts: no cgroups; the build's own /sys, which has three files, instead of a sysfs; as
 * many terminals as a sandbox has (K11).
 */
static int set_mounts(json_t *config, struct err *e)
{
	json_t *list = oci_get(config, "mounts"), *v;
	size_t i;

	for (i = 0; i < json_array_size(list); i++) {
		v = json_array_get(list, i);
		if (is_mount_of_type(v, "cgroup") || is_mount_of_type(v, "cgroup2")) {
			json_array_remove(list, i--);
			continue;
		}
		if (check_source(v, e) < 0)
			return -1;
		if (is_mount_of_type(v, "sysfs") &&
		    (set_step_member(v, "type", json_string("bind"), e) < 0 || set_step_member(v, "source", json_string("/sys"), e) < 0 ||
		     set_step_member(v, "options", json_pack("[s, s, s, s, s]", "rbind", "ro", "nosuid", "noexec", "nodev"), e) < 0))
			return -1;
		if (is_mount_of_type(v, "devpts") && (!json_is_array(oci_get(v, "options")) ||
					     json_array_append_new(oci_get(v, "options"), json_string("max=64")) < 0))
			return err_set(e, ERR_INVALID, "mounts: a devpts without options");
	}
	return 0;
}

int oci_step_rewrite(json_t *config, struct err *e)
{
	static const char *const gone[] = { "hooks", "annotations", "vm", "solaris", "windows", "zos" };
	static const char *const gone_linux[] = { "cgroupsPath", "resources", "sysctl", "devices", "seccomp", "intelRdt",
						  "uidMappings", "gidMappings", "mountLabel", "timeOffsets", "netDevices",
						  "personality", "memoryPolicy", "rootfsPropagation" };
	json_t *linux_part = step_json_child(config, "linux"), *process = oci_get(config, "process");
	size_t i;

	if (!linux_part)
		return err_nomem(e);
	if (!process)
		return err_set(e, ERR_INVALID, "config.json: a step of a build needs a process");
	for (i = 0; i < ARRAY_LEN(gone); i++)
		json_object_del(config, gone[i]);
	for (i = 0; i < ARRAY_LEN(gone_linux); i++)
		json_object_del(linux_part, gone_linux[i]);
	if (set_namespaces(linux_part, e) < 0 || set_process(process, e) < 0 || set_masks(linux_part, e) < 0)
		return -1;
	return set_mounts(config, e);
}

/* ---- the process ----------------------------------------------------------------------- */

static int load_step_filter(const struct sock_filter *insns, unsigned short len, struct err *e)
{
	struct sock_fprog prog = { .len = len, .filter = (struct sock_filter *)(size_t)insns };

	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? err_filter(e, "a filter of a build's step", len) : 0;
}

int oci_step_seal(struct err *e)
{
	static struct sock_filter last[SECCOMP_WATCH_MAX];
	const struct seccomp_profile *p = seccomp_builtin("standard");
	int n;

	if (landlock_confine(e) < 0 || load_step_filter(p->a.insns, p->a.len, e) < 0)
		return -1;
	n = seccomp_watch(&p->b, 0, SECCOMP_RET_ERRNO | ENOMEM, last, e);
	return n < 0 ? -1 : load_step_filter(last, (unsigned short)n, e);
}
