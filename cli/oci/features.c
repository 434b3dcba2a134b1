/* SPDX-License-Identifier: Apache-2.0 */
/* berth-oci features: what this runtime implements (runtime-spec, features.md). */
#include <seccomp.h>
#include <stdio.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/program.h"
#include "cli/oci/cli.h"
#include "runtime/kernel/caps.h"
#include "runtime/oci/container.h"
#include "runtime/oci/mount.h"
#include "runtime/oci/seccomp.h"
#include "runtime/oci/systemd.h"

static json_t *words(const char *const *list)
{
	json_t *j = json_array();

	for (; *list; list++)
		json_array_append_new(j, json_string(*list));
	return j;
}

static json_t *names(const char *(*nth)(size_t i))
{
	json_t *j = json_array();
	const char *name;
	size_t i;

	for (i = 0; (name = nth(i)); i++)
		json_array_append_new(j, json_string(name));
	return j;
}

/* Whether --systemd-cgroup can be honoured, as far as this installation goes. */
static int has_systemd(void)
{
	struct err ignored;
	autoclose int fd = program_open(OCI_SYSTEMD_PROGRAM, &ignored);

	return fd >= 0;
}

static json_t *linux_part(void)
{
	static const char *const flags[] = { "SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW",
					     "SECCOMP_FILTER_FLAG_TSYNC", "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV", NULL };
	json_t *namespaces = json_array(), *capabilities = json_array();
	unsigned i;

	for (i = 0; i < OCI_NS_COUNT; i++)
		json_array_append_new(namespaces, json_string(oci_ns_types[i].word));
	for (i = 0; i <= CAPS_LAST; i++)
		json_array_append_new(capabilities, json_string(caps_name(i)));
	return json_pack("{s:o, s:o, s:{s:b, s:b, s:b, s:b, s:b}, s:{s:b, s:o, s:o, s:o, s:o, s:o}, s:{s:b}, s:{s:b}, "
			 "s:{s:o, s:o}, s:{s:{s:b}}, s:{s:b}, s:{s:b}}",
			 "namespaces", namespaces, "capabilities", capabilities,
			 "cgroup", "v1", 1, "v2", 1, "systemd", has_systemd(), "systemdUser", 0, "rdma", 1,
			 "seccomp", "enabled", 1, "actions", words(oci_seccomp_actions), "operators", words(oci_seccomp_operators),
			 "archs", words(oci_seccomp_archs), "knownFlags", words(flags), "supportedFlags", words(flags),
			 "apparmor", "enabled", 1, "selinux", "enabled", 1, "memoryPolicy", "modes",
			 names(oci_mempolicy_mode), "flags", names(oci_mempolicy_flag),
			 "mountExtensions", "idmap", "enabled", 1,
			 "intelRdt", "enabled", 0, "netDevices", "enabled", 1);
}

static int run(struct oci_global *g, void *ctx, char **operands, int count, struct err *e)
{
	static const char *const hooks[] = { "prestart", "createRuntime", "createContainer", "startContainer", "poststart",
					     "poststop", NULL };
	const struct scmp_version *v = seccomp_version();
	char version[32];
	json_t *j;

	(void)g;
	(void)ctx;
	(void)operands;
	(void)count;
	snprintf(version, sizeof(version), "%u.%u.%u", v->major, v->minor, v->micro);
	j = json_pack("{s:s, s:s, s:o, s:o, s:o, s:{s:s, s:s}, s:[s,s]}", "ociVersionMin", "1.0.0", "ociVersionMax", "1.3.0",
		      "hooks", words(hooks), "mountOptions", names(oci_mount_option_name), "linux", linux_part(),
		      "annotations", "io.github.seccomp.libseccomp.version", version,
		      "org.opencontainers.runtime.berth.version", BERTH_VERSION, "potentiallyUnsafeConfigAnnotations",
		      "run.oci.hooks.stdout", "run.oci.hooks.stderr");
	if (!j)
		return err_nomem(e);
	oci_print_json(j, 2);
	return 0;
}

static const struct oci_option none[] = { { NULL } };

const struct oci_verb oci_verb_features = {
	.name = "features", .args = "", .summary = "print what this runtime implements, as JSON", .options = none, .min = 0,
	.max = 0, .run = run,
};
