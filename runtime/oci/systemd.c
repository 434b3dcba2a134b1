/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/systemd.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/kernel/userns.h"

#define MOUNT "/sys/fs/cgroup"
#define BOOTED "/run/systemd/system"	/* sd_booted(3) */
#define ANSWER_MS 60000
#define SLICE ".slice"

static int bad_path(const char *path, const char *why, struct err *e)
{
	return err_hint((err_set(e, ERR_INVALID, "linux.cgroupsPath: '%.200s' %s", path, why), e),
			"with --systemd-cgroup it is \"SLICE:PREFIX:NAME\", as in \"system.slice:berth:web\"");
}

/* The reason why not here; NULL: it can be used. */
static const char *impossible(void)
{
	struct statfs st;

	if (access(BOOTED, F_OK) < 0)
		return "systemd does not run on this host";
	if (statfs(MOUNT, &st) < 0 || (unsigned long)st.f_type != CGROUP2_SUPER_MAGIC)
		return "this host has more hierarchies than cgroup v2";
	/* the system's systemd serves root alone, and a user's own is not spoken to */
	if (!userns_is_host_root())
		return "it is for the host's root";
	return NULL;
}

/* systemd.slice(5): "a-b.slice" is in "a.slice", which is in the root "-.slice". */
static int expand_slice_path(struct oci_scope *s, const char *path, struct err *e)
{
	const size_t n = strlen(s->slice), end = n - strlen(SLICE);
	size_t i, len = 0;

	if (n <= strlen(SLICE) || strcmp(s->slice + end, SLICE) != 0 || strchr(s->slice, '/'))
		return bad_path(path, "names no slice", e);
	s->path[0] = '\0';
	if (!strcmp(s->slice, "-" SLICE))
		return 0;
	for (i = 0; i <= end; i++) {
		if (i < end && s->slice[i] != '-')
			continue;
		if (i == 0 || s->slice[i - 1] == '-')
			return bad_path(path, "names no slice", e);
		len += (size_t)snprintf(s->path + len, sizeof(s->path) - len, "/%.*s" SLICE, (int)i, s->slice);
		if (len >= sizeof(s->path))
			return bad_path(path, "is too long", e);
	}
	return 0;
}

int oci_scope_plan(struct oci_scope *s, const char *path, const char *id, struct err *e)
{
	const char *prefix = strchr(path ? path : "", ':'), *name = prefix ? strchr(prefix + 1, ':') : NULL;
	const char *why = impossible();
	size_t len;
	int n;

	s->helper = (struct helper){ .sock = -1 };
	if (why)
		return err_hint((err_set(e, ERR_UNSUPPORTED, "cgroups through systemd: %s", why), e),
				"set the engine to cgroupfs (podman --cgroup-manager cgroupfs, SystemdCgroup = false, "
				"native.cgroupdriver=cgroupfs)");
	if (!path || !*path) {
		snprintf(s->slice, sizeof(s->slice), "system.slice");
		n = snprintf(s->unit, sizeof(s->unit), "berth-%s.scope", id);
	} else {
		if (!name || strchr(name + 1, ':') || !name[1])
			return bad_path(path, "is not of that form", e);
		if (prefix - path > NAME_MAX)
			return bad_path(path, "is too long", e);
		snprintf(s->slice, sizeof(s->slice), "%.*s", (int)(prefix - path), path);
		if (!s->slice[0])
			snprintf(s->slice, sizeof(s->slice), "system.slice");
		n = snprintf(s->unit, sizeof(s->unit), "%.*s%s%s.scope", (int)(name - prefix - 1), prefix + 1,
			     name - prefix > 1 ? "-" : "", name + 1);
	}
	if ((size_t)n >= sizeof(s->unit) || strchr(s->unit, '/'))
		return bad_path(path ? path : id, "makes no name of a unit", e);
	if (expand_slice_path(s, path, e) < 0)
		return -1;
	len = strlen(s->path);
	n = snprintf(s->path + len, sizeof(s->path) - len, "/%s", s->unit);
	return (size_t)n >= sizeof(s->path) - len ? bad_path(path ? path : id, "is too long", e) : 0;
}

int oci_scope_start(struct oci_scope *s, int program, struct err *e)
{
	char *argv[] = { (char *)OCI_SYSTEMD_PROGRAM, (char *)"scope", s->unit, s->slice, NULL };
	autojson json_t *told = NULL;
	const char *path;

	if (helper_start(&s->helper, program, argv, NULL, 0, e) < 0 || helper_answer(&s->helper, ANSWER_MS, &told, e) < 0)
		return err_wrap(e, "systemd");
	path = json_string_value(json_object_get(told, "cgroup"));
	return path && !strcmp(path, s->path) ? 0 :
	       err_set(e, ERR_UNSUPPORTED, "systemd has the cgroup of %s at %s, not at %s", s->unit, path ? path : "nowhere", s->path);
}

void oci_scope_end(struct oci_scope *s)
{
	char leaf[PATH_MAX + 64];

	if (s->helper.pid <= 0)
		return;
	/* it has nothing more to do, or its work is not wanted */
	helper_end(&s->helper, SIGKILL);
	snprintf(leaf, sizeof(leaf), MOUNT "%s/" OCI_SCOPE_LEAF, s->path);
	rmdir(leaf);	/* or systemd does, with all of the scope */
}
