/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_json - an OCI, Docker or Podman seccomp profile, read into rules.
 *
 * Pure but for uname(2), which minKernel asks for.  includes and excludes are
 * already applied, names resolved to native numbers, unknown names left out.
 */
#ifndef BERTH_SECCOMP_PROFILE_JSON_H
#define BERTH_SECCOMP_PROFILE_JSON_H

#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PROFILE_JSON_BYTES_MAX (1024 * 1024)
#define PROFILE_JSON_RULES_MAX 16384

struct profile_rule {
	int nr;
	uint32_t action;	/* SCMP_ACT_*, which are the kernel's SECCOMP_RET_* */
	unsigned entry, name;	/* syscalls[entry].names[name], for messages */
	unsigned nargs;
	struct scmp_arg_cmp args[6];
};

struct profile_doc {
	uint32_t default_action;
	int newest_nr;	/* the highest number any entry names, applied or not; -1 when none */
	struct profile_rule *rules;
	size_t count, cap;
};

/* caps: what the process will hold, bit N for capability N.  The caller releases ret_doc, on success only. */
int profile_json_read(const char *text, size_t n, uint64_t caps, struct profile_doc *ret_doc, struct err *e);
void profile_doc_release(struct profile_doc *d);

#endif
