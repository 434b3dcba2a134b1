/* SPDX-License-Identifier: Apache-2.0 */
/* A profile read from JSON to BPF, by libseccomp. */
#include "seccomp/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "seccomp/profile_json.h"
#include "seccomp/sysno.h"

#define GUARD_LEN 6

static void release_ctx(scmp_filter_ctx *ctx)
{
	if (*ctx)
		seccomp_release(*ctx);
}

static int rule_error(const struct profile_rule *r, enum err_code code, const char *why, struct err *e)
{
	return err_set(e, code, "seccomp profile: syscalls[%u].names[%u]: %s", r->entry, r->name, why);
}

/* The kernel's order of answers, as between two filters: less is stricter. */
static int32_t rank(uint32_t action)
{
	return (int32_t)(action & SECCOMP_RET_ACTION_FULL);
}

/*
 * Where entries without args contradict each other, the stricter stands, as
 * between two filters; Podman's own profile has such pairs (setns).  libseccomp
 * would keep whichever came first.
 *
 * A rule without args also makes libseccomp drop, without a word, those of the
 * same call with args.  A profile that relies on both would not do what it
 * says, so it is refused.
 */
static int settle(const struct profile_doc *d, const struct profile_rule *always[SYSNO_MAX], struct err *e)
{
	const struct profile_rule *r;
	size_t i;

	for (i = 0; i < d->count; i++) {
		r = &d->rules[i];
		if (!r->nargs && (!always[r->nr] || rank(r->action) < rank(always[r->nr]->action)))
			always[r->nr] = r;
	}
	for (i = 0; i < d->count; i++) {
		r = &d->rules[i];
		if (r->nargs && always[r->nr] && always[r->nr]->action != r->action &&
		    always[r->nr]->action != d->default_action)
			return rule_error(r, ERR_INVALID,
					  "its args would be lost, as another entry decides this call without args", e);
	}
	return 0;
}

static int fill_ctx(scmp_filter_ctx ctx, const struct profile_doc *d, struct err *e)
{
	const struct profile_rule *always[SYSNO_MAX] = { NULL };
	size_t i;
	int r;

	if (settle(d, always, e) < 0)
		return -1;
	if ((r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS)) < 0 ||
	    (r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2)) < 0)
		return err_errno(e, -r, "libseccomp: set an attribute");
	for (i = 0; i < d->count; i++) {
		const struct profile_rule *rule = &d->rules[i];

		/* libseccomp refuses what the default does anyway */
		if (rule->action == d->default_action || (!rule->nargs && rule != always[rule->nr]))
			continue;
		r = seccomp_rule_add_exact_array(ctx, rule->action, rule->nr, rule->nargs, rule->args);
		if (r == -EEXIST)
			return rule_error(rule, ERR_INVALID, "the same call and args have another action", e);
		if (r < 0) {
			err_errno(e, -r, "libseccomp: add the rule");
			return err_wrap(e, "seccomp profile: syscalls[%u].names[%u]", rule->entry, rule->name);
		}
	}
	return 0;
}

/*
 * A call newer than every call that the profile names gets ENOSYS. Otherwise libc takes the
 * profile's EPERM for the answer and does not fall back. runc does the same. Other architectures
 * and x32 pass on to the filter, which kills them.
 */
static unsigned make_guard(const struct profile_doc *d, struct sock_filter *out)
{
	const struct sock_filter guard[GUARD_LEN] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYSNO_ARCH_NATIVE, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (uint32_t)d->newest_nr, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	};

	if (d->newest_nr < 0 || (d->default_action & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO)
		return 0;
	memcpy(out, guard, sizeof(guard));
	return GUARD_LEN;
}

static int export_ctx(scmp_filter_ctx ctx, const struct profile_doc *d, struct seccomp_filter *ret,
		      struct err *e)
{
	autoclose int fd = memfd_create("seccomp", MFD_CLOEXEC);
	autofree struct sock_filter *insns = NULL;
	unsigned guard;
	struct stat st;
	size_t n;
	int r;

	if (fd < 0)
		return err_sys(e, "memfd_create");
	r = seccomp_export_bpf(ctx, fd);
	if (r < 0)
		return err_errno(e, -r, "libseccomp: compile the profile");
	if (fstat(fd, &st) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "read the compiled profile");
	n = (size_t)st.st_size / sizeof(*insns);
	if (n == 0 || n + GUARD_LEN > BPF_MAXINSNS)
		return err_set(e, ERR_LIMIT, "seccomp profile: compiles to %zu instructions, the kernel takes %d",
			       n, BPF_MAXINSNS);
	insns = calloc(n + GUARD_LEN, sizeof(*insns));
	if (!insns)
		return err_nomem(e);
	guard = make_guard(d, insns);
	if (io_read_exact(fd, insns + guard, n * sizeof(*insns)) != 1)
		return err_sys(e, "read the compiled profile");
	ret->len = (unsigned short)(n + guard);
	ret->insns = take_ptr(&insns);
	return 0;
}

int seccomp_from_json(const char *text, size_t n, uint64_t caps, struct seccomp_profile *ret,
		      struct err *e)
{
	scmp_filter_ctx ctx __attribute__((cleanup(release_ctx))) = NULL;
	__attribute__((cleanup(profile_doc_release))) struct profile_doc doc = { 0 };
	const struct seccomp_profile *standard = seccomp_builtin("standard");
	struct seccomp_filter b = { 0 };

	if (!standard)
		return err_set(e, ERR_INTERNAL, "no built-in seccomp profile \"standard\"");
	if (profile_json_read(text, n, caps, &doc, e) < 0)
		return -1;
	ctx = seccomp_init(doc.default_action);
	if (!ctx)
		return err_set(e, ERR_UNSUPPORTED, "libseccomp does not take the default action 0x%x",
			       doc.default_action);
	if (fill_ctx(ctx, &doc, e) < 0 || export_ctx(ctx, &doc, &b, e) < 0)
		return -1;
	*ret = (struct seccomp_profile){ "custom", standard->a, b };
	return 0;
}

void seccomp_profile_release(struct seccomp_profile *p)
{
	if (!p)
		return;
	free((void *)p->b.insns);
	*p = (struct seccomp_profile){ 0 };
}
