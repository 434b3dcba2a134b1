/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/seccomp.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/kernel/fdpass.h"
#include "runtime/oci/json.h"
#include "runtime/oci/log.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif
#define ARGS_MAX 32

const char *const oci_seccomp_actions[] = {
	"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", "SCMP_ACT_KILL", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL_THREAD",
	"SCMP_ACT_LOG", "SCMP_ACT_NOTIFY", "SCMP_ACT_TRACE", "SCMP_ACT_TRAP", NULL
};
const char *const oci_seccomp_operators[] = {
	"SCMP_CMP_EQ", "SCMP_CMP_GE", "SCMP_CMP_GT", "SCMP_CMP_LE", "SCMP_CMP_LT", "SCMP_CMP_MASKED_EQ", "SCMP_CMP_NE", NULL
};
const char *const oci_seccomp_archs[] = {
	"SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM", "SCMP_ARCH_MIPS", "SCMP_ARCH_MIPS64", "SCMP_ARCH_MIPS64N32",
	"SCMP_ARCH_MIPSEL", "SCMP_ARCH_MIPSEL64", "SCMP_ARCH_MIPSEL64N32", "SCMP_ARCH_PARISC", "SCMP_ARCH_PARISC64",
	"SCMP_ARCH_PPC", "SCMP_ARCH_PPC64", "SCMP_ARCH_PPC64LE", "SCMP_ARCH_RISCV64", "SCMP_ARCH_S390",
	"SCMP_ARCH_S390X", "SCMP_ARCH_X32", "SCMP_ARCH_X86", "SCMP_ARCH_X86_64", NULL
};
const char *const oci_seccomp_flags[] = {
	"SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_SPEC_ALLOW", "SECCOMP_FILTER_FLAG_TSYNC",
	"SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV", NULL
};

static int parse_scmp_action(const char *word, const json_t *number, uint32_t *ret, struct err *e)
{
	const uint16_t data = number ? (uint16_t)oci_u64_value(number) : EPERM;
	static const struct { const char *word; uint32_t action; } words[] = {
		{ "SCMP_ACT_KILL", SCMP_ACT_KILL }, { "SCMP_ACT_KILL_THREAD", SCMP_ACT_KILL_THREAD },
		{ "SCMP_ACT_KILL_PROCESS", SCMP_ACT_KILL_PROCESS }, { "SCMP_ACT_TRAP", SCMP_ACT_TRAP },
		{ "SCMP_ACT_ALLOW", SCMP_ACT_ALLOW }, { "SCMP_ACT_LOG", SCMP_ACT_LOG },
		{ "SCMP_ACT_NOTIFY", SCMP_ACT_NOTIFY },
	};
	size_t i;

	if (!strcmp(word, "SCMP_ACT_ERRNO") || !strcmp(word, "SCMP_ACT_TRACE")) {
		*ret = word[9] == 'E' ? SCMP_ACT_ERRNO(data) : SCMP_ACT_TRACE(data);
		return 0;
	}
	for (i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(word, words[i].word) != 0)
			continue;
		if (number)
			return err_set(e, ERR_INVALID, "linux.seccomp: %s takes no errno", word);
		*ret = words[i].action;
		return 0;
	}
	return err_set(e, ERR_INVALID, "linux.seccomp: '%.64s' is not an action", word);
}

static int parse_scmp_compare(const char *word, enum scmp_compare *ret, struct err *e)
{
	static const enum scmp_compare ops[] = { SCMP_CMP_EQ, SCMP_CMP_GE, SCMP_CMP_GT, SCMP_CMP_LE, SCMP_CMP_LT,
						 SCMP_CMP_MASKED_EQ, SCMP_CMP_NE };
	size_t i;

	for (i = 0; oci_seccomp_operators[i]; i++) {
		if (!strcmp(word, oci_seccomp_operators[i])) {
			*ret = ops[i];
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "linux.seccomp: '%.64s' is not an operator", word);
}

static int add_archs(scmp_filter_ctx ctx, const json_t *list, struct err *e)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v) {
		const char *word = json_string_value(v);
		char name[32];
		uint32_t arch;
		size_t j;
		int r;

		if (strncmp(word, "SCMP_ARCH_", 10) != 0)
			return err_set(e, ERR_INVALID, "linux.seccomp: '%.64s' is not an architecture", word);
		for (j = 0; word[10 + j] && j + 1 < sizeof(name); j++)
			name[j] = (char)(word[10 + j] >= 'A' && word[10 + j] <= 'Z' ? word[10 + j] + 32 : word[10 + j]);
		name[j] = '\0';
		arch = seccomp_arch_resolve_name(name);
		if (!arch) {
			/*
			 * newer than the library: no program of it can run here, but the profile
			 * serves several architectures
			 */
			if (!strcmp(name, "loongarch64") || !strcmp(name, "m68k") || !strcmp(name, "sh") ||
			    !strcmp(name, "sheb"))
				continue;
			return err_set(e, ERR_INVALID, "linux.seccomp: '%.64s' is not an architecture", word);
		}
		r = seccomp_arch_add(ctx, arch);
		if (r < 0 && r != -EEXIST && r != -EDOM)
			return err_errno(e, -r, "linux.seccomp: add architecture %s", word);
	}
	return 0;
}

static int read_oci_syscall_args(const json_t *list, struct scmp_arg_cmp *args, unsigned *ret_n, int *ret_repeats, struct err *e)
{
	unsigned seen = 0;
	const json_t *v;
	size_t i;

	*ret_n = 0;
	*ret_repeats = 0;
	json_array_foreach(list, i, v) {
		uint64_t index = oci_u64(v, "index", 0);
		enum scmp_compare op = SCMP_CMP_EQ;

		if (index > 5 || i >= ARGS_MAX)
			return err_set(e, ERR_INVALID, "linux.seccomp: an argument's index is not 0 to 5");
		if (parse_scmp_compare(oci_str(v, "op"), &op, e) < 0)
			return -1;
		*ret_repeats |= (seen >> index & 1) != 0;
		seen |= 1u << index;
		args[i] = (struct scmp_arg_cmp){ (unsigned)index, op, oci_u64(v, "value", 0), oci_u64(v, "valueTwo", 0) };
		*ret_n = (unsigned)i + 1;
	}
	return 0;
}

#define FAIL_UNKNOWN "run.oci.seccomp_fail_unknown_syscall"

/* crun's annotation: a profile with a call that the library does not know is refused. */
static int fails_unknown_call(const json_t *config)
{
	const char *value = oci_str(oci_get(config, "annotations"), FAIL_UNKNOWN);

	return value && strcmp(value, "0") != 0;
}

static int add_oci_syscall_rule(scmp_filter_ctx ctx, const char *name, uint32_t act, const struct scmp_arg_cmp *args, unsigned n,
		    int repeats, int fail_unknown, struct err *e)
{
	int nr = seccomp_syscall_resolve_name(name), r = 0;
	unsigned i;

	/* a name that this library does not know: no kernel call that it could be about, as runc and crun */
	if (nr == __NR_SCMP_ERROR) {
		if (fail_unknown)
			return err_set(e, ERR_INVALID, "linux.seccomp: unknown system call %.64s, and the annotation " FAIL_UNKNOWN
				       " is set; hint: leave out the name or the annotation", name);
		oci_log(OCI_DEBUG, "linux.seccomp: unknown system call %.64s is left out", name);
		return 0;
	}
	/*
	 * an index occurs twice: libseccomp has no "and" for that, so each is a rule of its own, as
	 * in runc and crun
	 */
	if (repeats)
		for (i = 0; i < n && r >= 0; i++)
			r = seccomp_rule_add_array(ctx, act, nr, 1, &args[i]);
	else
		r = seccomp_rule_add_array(ctx, act, nr, n, args);
	/* -EACCES: the same as the default action, so nothing to add */
	return r < 0 && r != -EACCES && r != -EEXIST ? err_errno(e, -r, "linux.seccomp: add a rule for %.64s", name) : 0;
}

static int add_oci_syscalls(scmp_filter_ctx ctx, const json_t *list, uint32_t dflt, int fail_unknown, int *notify,
			    struct err *e)
{
	const json_t *v, *name;
	size_t i, j;

	json_array_foreach(list, i, v) {
		struct scmp_arg_cmp args[ARGS_MAX];
		unsigned n;
		uint32_t act;
		int repeats;

		if (parse_scmp_action(oci_str(v, "action"), oci_get(v, "errnoRet"), &act, e) < 0 ||
		    read_oci_syscall_args(oci_get(v, "args"), args, &n, &repeats, e) < 0)
			return -1;
		if (!json_array_size(oci_get(v, "names")))
			return err_set(e, ERR_INVALID, "linux.seccomp: syscalls[%zu] has no names", i);
		if (act == dflt)
			continue;
		json_array_foreach(oci_get(v, "names"), j, name) {
			const char *s = json_string_value(name);

			/* the container's process writes to us between loading the filter and the listener's start */
			if (act == SCMP_ACT_NOTIFY && !strcmp(s, "write"))
				return err_set(e, ERR_INVALID, "linux.seccomp: SCMP_ACT_NOTIFY cannot be used for the write syscall");
			*notify |= act == SCMP_ACT_NOTIFY;
			if (add_oci_syscall_rule(ctx, s, act, args, n, repeats, fail_unknown, e) < 0)
				return -1;
		}
	}
	return 0;
}

static int read_oci_filter_flags(const json_t *list, unsigned *ret, struct err *e)
{
	static const unsigned long bits[] = { SECCOMP_FILTER_FLAG_LOG, SECCOMP_FILTER_FLAG_SPEC_ALLOW, 0,
					      SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV };
	const json_t *v;
	size_t i, j;

	/* absent: SPEC_ALLOW, as runc, crun and Docker's profile; an empty list is none (config-linux.md) */
	if (!list)
		*ret = SECCOMP_FILTER_FLAG_SPEC_ALLOW;
	json_array_foreach(list, i, v) {
		for (j = 0; oci_seccomp_flags[j]; j++)
			if (!strcmp(json_string_value(v), oci_seccomp_flags[j]))
				break;
		if (!oci_seccomp_flags[j])
			return err_set(e, ERR_INVALID, "seccomp flag '%.64s' not known", json_string_value(v));
		*ret |= (unsigned)bits[j];	/* TSYNC says nothing to a process of one thread */
	}
	return 0;
}

#define X32_BIT 0x40000000u

/*
 * Adds instructions as runc does: if the default is an errno, a call newer than all that the
 * profile names gets ENOSYS, so that a libc falls back to the older call that the profile's author
 * knew. They come before the filter, and let other architectures pass.
 */
static int answer_newer_calls(struct oci_seccomp *f, const json_t *calls, uint32_t dflt, struct err *e)
{
	struct sock_filter head[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
	};
	const json_t *v, *name;
	struct sock_filter *all;
	int newest = -1, nr;
	size_t i, j;

	if ((dflt & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO)
		return 0;
	json_array_foreach(calls, i, v) {
		json_array_foreach(oci_get(v, "names"), j, name) {
			nr = seccomp_syscall_resolve_name(json_string_value(name));
			if (nr > newest)
				newest = nr;
		}
	}
	if (newest < 0)
		return 0;
	head[4].k = (uint32_t)newest;
	if (f->count + ARRAY_LEN(head) > BPF_MAXINSNS)
		return err_set(e, ERR_UNSUPPORTED, "linux.seccomp: the filter is longer than the kernel's %d instructions", BPF_MAXINSNS);
	all = malloc((f->count + ARRAY_LEN(head)) * sizeof(*all));
	if (!all)
		return err_nomem(e);
	memcpy(all, head, sizeof(head));
	memcpy(all + ARRAY_LEN(head), f->insns, f->count * sizeof(*all));
	free(f->insns);
	f->insns = all;
	f->count = (unsigned short)(f->count + ARRAY_LEN(head));
	return 0;
}

static int export_oci_filter(scmp_filter_ctx ctx, struct oci_seccomp *ret, struct err *e)
{
	autoclose int fd = memfd_create("seccomp", MFD_CLOEXEC);
	off_t size;
	int r;

	if (fd < 0)
		return err_sys(e, "linux.seccomp: compile");
	r = seccomp_export_bpf(ctx, fd);
	if (r < 0)
		return err_errno(e, -r, "linux.seccomp: compile");
	size = lseek(fd, 0, SEEK_CUR);
	if (size <= 0 || (size_t)size / sizeof(*ret->insns) > BPF_MAXINSNS)
		return err_set(e, ERR_UNSUPPORTED, "linux.seccomp: the filter is longer than the kernel's %d instructions", BPF_MAXINSNS);
	ret->insns = malloc((size_t)size);
	if (!ret->insns)
		return err_nomem(e);
	if (pread(fd, ret->insns, (size_t)size, 0) != size)
		return err_sys(e, "linux.seccomp: read back the filter");
	ret->count = (unsigned short)((size_t)size / sizeof(*ret->insns));
	return 0;
}

int oci_seccomp_compile(struct oci_seccomp *ret, const json_t *config, struct err *e)
{
	const json_t *s = oci_get2(config, "linux", "seccomp");
	scmp_filter_ctx ctx;
	uint32_t dflt;
	int r = -1;

	if (!s)
		return 0;
	if (parse_scmp_action(oci_str(s, "defaultAction"), oci_get(s, "defaultErrnoRet"), &dflt, e) < 0)
		return -1;
	if (dflt == SCMP_ACT_NOTIFY)
		return err_set(e, ERR_INVALID, "linux.seccomp: SCMP_ACT_NOTIFY cannot be used as default action");
	ctx = seccomp_init(dflt);
	if (!ctx)
		return err_nomem(e);
	/* the other architecture's calls get the same answers as ours; a tree instead of a list for long profiles */
	seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0);
	if (json_array_size(oci_get(s, "syscalls")) > 0)
		seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (read_oci_filter_flags(oci_get(s, "flags"), &ret->flags, e) == 0 && add_archs(ctx, oci_get(s, "architectures"), e) == 0 &&
	    add_oci_syscalls(ctx, oci_get(s, "syscalls"), dflt, fails_unknown_call(config), &ret->notify, e) == 0)
		r = export_oci_filter(ctx, ret, e) < 0 ? -1 : answer_newer_calls(ret, oci_get(s, "syscalls"), dflt, e);
	seccomp_release(ctx);
	if (r == 0 && ret->notify && !oci_str(s, "listenerPath"))
		return err_set(e, ERR_INVALID, "linux.seccomp: SCMP_ACT_NOTIFY needs a listenerPath");
	/* an agent that was named hears of every container, as with crun */
	ret->notify |= oci_str(s, "listenerPath") && *oci_str(s, "listenerPath");
	return r;
}

void oci_seccomp_release(struct oci_seccomp *s)
{
	free(s->insns);
	s->insns = NULL;
}

int oci_seccomp_load(const struct oci_seccomp *s, int *ret_listener, struct err *e)
{
	struct sock_fprog prog = { s->count, s->insns };
	unsigned flags = s->flags | (s->notify ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0);
	long r;

	*ret_listener = -1;
	if (!s->insns)
		return 0;
	/* a flag for listeners alone */
	if (!s->notify)
		flags &= ~(unsigned)SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
	r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &prog);
	if (r < 0)
		return err_filter(e, "the seccomp filter", s->count);
	if (s->notify)
		*ret_listener = (int)r;
	return 0;
}

int oci_seccomp_tell(const char *path, int listener_fd, const json_t *message, struct err *e)
{
	autoclose int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	autofree char *text = json_dumps(message, JSON_COMPACT);
	struct sockaddr_un a = { .sun_family = AF_UNIX };

	if (!text)
		return err_nomem(e);
	if (strlen(path) >= sizeof(a.sun_path))
		return err_set(e, ERR_INVALID, "linux.seccomp.listenerPath is too long for a socket");
	memcpy(a.sun_path, path, strlen(path));
	if (sock < 0 || connect(sock, (struct sockaddr *)&a, sizeof(a)) < 0)
		return err_sys(e, "connect to linux.seccomp.listenerPath %s", path);
	if (fdpass_send(sock, text, strlen(text), &listener_fd, 1) < 0)
		return err_sys(e, "send the seccomp listener to %s", path);
	return 0;
}
