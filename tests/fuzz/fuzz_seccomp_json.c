/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A seccomp profile from an OCI bundle or --seccomp FILE.
 *
 * The first eight bytes are the capability set; the rest is the document.  What
 * is accepted must be a program the kernel would load, which answers every
 * number with a defined action and never lets another architecture pass.
 */
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "seccomp/seccomp.h"
#include "seccomp/sysno.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int defined(uint32_t answer)
{
	switch (answer & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_KILL_PROCESS:
	case SECCOMP_RET_KILL_THREAD:
	case SECCOMP_RET_TRAP:
	case SECCOMP_RET_ERRNO:
	case SECCOMP_RET_TRACE:
	case SECCOMP_RET_LOG:
	case SECCOMP_RET_ALLOW:
		return 1;
	}
	return 0;
}

static void check(const struct seccomp_profile *p)
{
	const uint64_t args[6] = { 0, 0x100005412, 31, ~0ULL, 1, 0 };
	int nr;

	if (p->b.len == 0 || p->b.len > BPF_MAXINSNS)
		abort();
	for (nr = 0; nr < 500; nr++) {
		if (!defined(seccomp_simulate(p, SYSNO_ARCH_NATIVE, nr, args)))
			abort();
		if (seccomp_simulate(p, AUDIT_ARCH_I386, nr, args) != SECCOMP_RET_KILL_PROCESS)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seccomp_profile p = { 0 };
	struct err e = { 0 };
	uint64_t caps;

	if (size < sizeof(caps))
		return 0;
	memcpy(&caps, data, sizeof(caps));
	if (seccomp_from_json((const char *)data + sizeof(caps), size - sizeof(caps), caps, &p, &e) == 0)
		check(&p);
	else if (e.code == ERR_NONE || !e.msg[0] || p.b.insns)
		abort();
	seccomp_profile_release(&p);
	return 0;
}
