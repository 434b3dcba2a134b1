/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a profile of OCI, Docker or Podman: its words, the JSON to rules, the rules to BPF by libseccomp. */
#include <errno.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "seccomp/seccomp.h"
#include "seccomp/sysno.h"

/* ---- the words of a profile ---- */

/*
 * The vocabulary of seccomp profiles: actions, operators,
 * architectures, flags, errno and capability names.
 *
 * Each takes the JSON path for its message; an unknown word is ERR_INVALID, one
 * that berth cannot apply ERR_UNSUPPORTED.
 */

#define MAX_ERRNO 4095	/* the kernel's limit; larger values are cut down to it */

static const struct {
	const char *name;
	uint32_t action;
	int data;
} actions[] = {
	{ "SCMP_ACT_ALLOW", SECCOMP_RET_ALLOW, 0 },
	{ "SCMP_ACT_ERRNO", SECCOMP_RET_ERRNO, 1 },
	{ "SCMP_ACT_KILL", SECCOMP_RET_KILL_THREAD, 0 },
	{ "SCMP_ACT_KILL_THREAD", SECCOMP_RET_KILL_THREAD, 0 },
	{ "SCMP_ACT_KILL_PROCESS", SECCOMP_RET_KILL_PROCESS, 0 },
	{ "SCMP_ACT_TRAP", SECCOMP_RET_TRAP, 0 },
	{ "SCMP_ACT_TRACE", SECCOMP_RET_TRACE, 1 },
	{ "SCMP_ACT_LOG", SECCOMP_RET_LOG, 0 },
};

/* ret_data is 1 for the two actions that carry a number (errno, tracer message). */
static int profile_word_action(const char *s, uint32_t *ret_action, int *ret_data, const char *path, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(actions); i++)
		if (strcmp(actions[i].name, s) == 0) {
			*ret_action = actions[i].action;
			*ret_data = actions[i].data;
			return 0;
		}
	if (strcmp(s, "SCMP_ACT_NOTIFY") == 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "%s: SCMP_ACT_NOTIFY needs a supervisor process, which berth has none of", path);
	return err_set(e, ERR_INVALID, "%s: unknown action \"%.64s\"", path, s);
}

static const struct {
	const char *name;
	enum scmp_compare op;
} operators[] = {
	{ "SCMP_CMP_NE", SCMP_CMP_NE }, { "SCMP_CMP_LT", SCMP_CMP_LT },
	{ "SCMP_CMP_LE", SCMP_CMP_LE }, { "SCMP_CMP_EQ", SCMP_CMP_EQ },
	{ "SCMP_CMP_GE", SCMP_CMP_GE }, { "SCMP_CMP_GT", SCMP_CMP_GT },
	{ "SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ },
};

static int profile_word_operator(const char *s, enum scmp_compare *ret_op, const char *path, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(operators); i++)
		if (strcmp(operators[i].name, s) == 0) {
			*ret_op = operators[i].op;
			return 0;
		}
	return err_set(e, ERR_INVALID, "%s: unknown operator \"%.64s\"", path, s);
}

/* OCI runtime specification, config-linux, "seccomp". */
static const char *const architectures[] = {
	"SCMP_ARCH_X86", "SCMP_ARCH_X86_64", "SCMP_ARCH_X32", "SCMP_ARCH_ARM", "SCMP_ARCH_AARCH64",
	"SCMP_ARCH_MIPS", "SCMP_ARCH_MIPS64", "SCMP_ARCH_MIPS64N32", "SCMP_ARCH_MIPSEL",
	"SCMP_ARCH_MIPSEL64", "SCMP_ARCH_MIPSEL64N32", "SCMP_ARCH_PPC", "SCMP_ARCH_PPC64",
	"SCMP_ARCH_PPC64LE", "SCMP_ARCH_S390", "SCMP_ARCH_S390X", "SCMP_ARCH_PARISC",
	"SCMP_ARCH_PARISC64", "SCMP_ARCH_RISCV64", "SCMP_ARCH_LOONGARCH64", "SCMP_ARCH_M68K",
	"SCMP_ARCH_SH", "SCMP_ARCH_SHEB",
};

static int profile_word_architecture(const char *s, const char *path, struct err *e)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(architectures); i++)
		if (strcmp(architectures[i], s) == 0)
			return 0;
	return err_set(e, ERR_INVALID, "%s: unknown architecture \"%.64s\"", path, s);
}

static int profile_word_flag(const char *s, const char *path, struct err *e)
{
	/*
	 * TSYNC: berth loads filters in a process with one thread.  SPEC_ALLOW turns
	 * a CPU mitigation off; it permits, so leaving it on is no breach.
	 */
	if (strcmp(s, "SECCOMP_FILTER_FLAG_TSYNC") == 0 || strcmp(s, "SECCOMP_FILTER_FLAG_SPEC_ALLOW") == 0)
		return 0;
	if (strcmp(s, "SECCOMP_FILTER_FLAG_LOG") == 0 ||
	    strcmp(s, "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV") == 0)
		return err_set(e, ERR_UNSUPPORTED, "%s: berth does not apply %s", path, s);
	return err_set(e, ERR_INVALID, "%s: unknown flag \"%.64s\"", path, s);
}

/* "ENOSYS" */
static int profile_word_errno(const char *s, uint64_t *ret_errno, const char *path, struct err *e)
{
	const char *name;
	int i;

	for (i = 1; i <= MAX_ERRNO; i++) {
		name = strerrorname_np(i);
		if (name && strcmp(name, s) == 0) {
			*ret_errno = (uint64_t)i;
			return 0;
		}
	}
	return err_set(e, ERR_INVALID, "%s: unknown errno name \"%.64s\"", path, s);
}

static const char *const capabilities[] = {
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
	"CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE",
	"CAP_NET_BROADCAST", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_IPC_OWNER",
	"CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_SYS_PACCT",
	"CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE", "CAP_SYS_TIME",
	"CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL",
	"CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG", "CAP_WAKE_ALARM",
	"CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
};
_Static_assert(ARRAY_LEN(capabilities) == CAP_LAST_CAP + 1, "every capability has a name");

/* "CAP_SYS_ADMIN" to 21 */
static int profile_word_cap(const char *s, unsigned *ret_bit, const char *path, struct err *e)
{
	unsigned i;

	for (i = 0; i < ARRAY_LEN(capabilities); i++)
		if (strcmp(capabilities[i], s) == 0) {
			*ret_bit = i;
			return 0;
		}
	return err_set(e, ERR_INVALID, "%s: unknown capability \"%.64s\"", path, s);
}

/* Docker's name of the native architecture, as in includes.arches: "amd64". */
static const char *profile_word_native_arch(void)
{
#if defined(__x86_64__)
	return "amd64";
#elif defined(__aarch64__)
	return "arm64";
#endif
}

/* ---- from JSON to rules ---- */

/*
 * An OCI, Docker or Podman seccomp profile, read into rules.
 *
 * Pure but for uname(2), which minKernel asks for.  includes and excludes are
 * already applied, names resolved to native numbers, unknown names left out.
 */

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

static void profile_doc_release(struct profile_doc *d);

#define TOP "seccomp profile"
#define ARGS_MAX 32		/* args of one entry; more than six only when alternatives repeat an index */
#define PATH_SIZE 128
#define ERRNO_MAX 4095
#define TRACE_MAX 65535

struct reader {
	uint64_t caps;
	struct profile_doc doc;
};

/* One element of syscalls, before its names are looked at. */
struct entry {
	unsigned index;
	char path[PATH_SIZE];	/* "seccomp profile: syscalls[3]" */
	uint32_t action;
	struct scmp_arg_cmp args[ARGS_MAX];
	unsigned nargs;
	int alternatives;	/* an index repeats, so any of the args suffices, as in runc */
	int applies;
};

/* A misspelt "args" would turn a condition into a permission, so keys of a rule are checked. */
static int known_keys(json_t *obj, const char *const *keys, const char *path, struct err *e)
{
	const char *key;
	json_t *v;
	size_t i;

	json_object_foreach(obj, key, v) {
		(void)v;
		for (i = 0; keys[i] && strcmp(keys[i], key) != 0; i++)
			;
		if (!keys[i])
			return err_set(e, ERR_INVALID, "%s: unknown key \"%.64s\"", path, key);
	}
	return 0;
}

/* Element i of an array of strings. */
static int profile_string_at(const json_t *arr, size_t i, const char **ret_s, const char *path, struct err *e)
{
	const json_t *v = json_array_get(arr, i);

	if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v)) {
		err_set(e, ERR_CORRUPT, "%s: element %zu is not a string", path, i);
		return -1;	/* spelt out for the static analyser */
	}
	*ret_s = json_string_value(v);
	return 0;
}

/* Checks each string of obj[key] with the function given. */
static int check_profile_words(const json_t *obj, const char *key, const char *path,
			       int (*check)(const char *, const char *, struct err *), struct err *e)
{
	char where[PATH_SIZE + 32];
	const char *s;
	json_t *arr;
	size_t i;
	int r = json_get_arr(obj, key, &arr, path, e);

	if (r <= 0)
		return r;
	for (i = 0; i < json_array_size(arr); i++) {
		snprintf(where, sizeof(where), "%s: %s[%zu]", path, key, i);
		if (profile_string_at(arr, i, &s, where, e) < 0 || check(s, where, e) < 0)
			return -1;
	}
	return 0;
}

/* Reads an action with its number, from the two spellings of either. */
static int read_action(const json_t *obj, const char *key, const char *ret_key, const char *name_key,
		       uint32_t *ret_action, const char *path, struct err *e)
{
	char where[PATH_SIZE + 32];
	const char *s, *name;
	uint64_t number = EPERM, by_name = 0;
	int r, has_data = 0, has_number, has_name;

	r = json_get_str(obj, key, &s, path, e);
	if (r < 0)
		return -1;
	if (r == 0)
		return err_set(e, ERR_INVALID, "%s: no \"%s\"", path, key);
	snprintf(where, sizeof(where), "%s.%s", path, key);
	if (profile_word_action(s, ret_action, &has_data, where, e) < 0)
		return -1;
	has_number = json_get_u64(obj, ret_key, &number, path, e);
	has_name = has_number < 0 ? -1 : json_get_str(obj, name_key, &name, path, e);
	if (has_name < 0)
		return -1;
	if (has_name && *name) {
		if (profile_word_errno(name, &by_name, path, e) < 0)
			return -1;
		if (has_number && number != by_name)
			return err_set(e, ERR_INVALID, "%s: \"%s\" and \"%s\" disagree", path, ret_key, name_key);
		number = by_name;
	}
	if (!has_data) {
		if (has_number || by_name)
			return err_set(e, ERR_INVALID, "%s: %s takes no \"%s\"", path, s, ret_key);
		return 0;
	}
	if (number > (*ret_action == SECCOMP_RET_ERRNO ? ERRNO_MAX : TRACE_MAX))
		return err_set(e, ERR_INVALID, "%s: \"%s\" is out of range", path, ret_key);
	*ret_action |= (uint32_t)number;
	return 0;
}

static int read_arg(json_t *obj, struct entry *en, const char *path, struct err *e)
{
	static const char *const keys[] = { "index", "value", "valueTwo", "op", NULL };
	struct scmp_arg_cmp *arg = &en->args[en->nargs];
	uint64_t index = 0, value = 0, two = 0;
	enum scmp_compare op = SCMP_CMP_EQ;
	const char *s = NULL;
	char where[PATH_SIZE + 64];
	int has_index;
	unsigned i;

	if (!json_is_object(obj))
		return err_set(e, ERR_CORRUPT, "%s: is not an object", path);
	if (known_keys(obj, keys, path, e) < 0 || (has_index = json_get_u64(obj, "index", &index, path, e)) < 0 ||
	    json_get_u64(obj, "value", &value, path, e) < 0 ||
	    json_get_u64(obj, "valueTwo", &two, path, e) < 0 || json_get_str(obj, "op", &s, path, e) < 0)
		return -1;
	if (!has_index || index > 5)
		return err_set(e, ERR_INVALID, "%s: \"index\" is not 0 to 5", path);
	if (!s)
		return err_set(e, ERR_INVALID, "%s: no \"op\"", path);
	snprintf(where, sizeof(where), "%s.op", path);
	if (profile_word_operator(s, &op, where, e) < 0)
		return -1;
	*arg = (struct scmp_arg_cmp){ (unsigned)index, op, value, two };
	for (i = 0; i < en->nargs; i++)
		en->alternatives |= en->args[i].arg == arg->arg;
	en->nargs++;
	return 0;
}

static int read_profile_args(const json_t *obj, struct entry *en, struct err *e)
{
	char where[PATH_SIZE + 32];
	json_t *arr;
	size_t i;
	int r = json_get_arr(obj, "args", &arr, en->path, e);

	if (r <= 0)
		return r;
	if (json_array_size(arr) > ARGS_MAX)
		return err_set(e, ERR_INVALID, "%s: more than %d args", en->path, ARGS_MAX);
	for (i = 0; i < json_array_size(arr); i++) {
		snprintf(where, sizeof(where), "%s.args[%zu]", en->path, i);
		if (read_arg(json_array_get(arr, i), en, where, e) < 0)
			return -1;
	}
	return 0;
}

/* Counts how many of the list's capabilities are held; -1 on error. */
static int caps_held(json_t *obj, uint64_t caps, size_t *ret_held, size_t *ret_all, const char *path,
		     struct err *e)
{
	const char *s;
	unsigned bit = 0;
	json_t *arr;
	size_t i;
	int r = json_get_arr(obj, "caps", &arr, path, e);

	*ret_held = *ret_all = 0;
	if (r <= 0)
		return r;
	for (i = 0; i < json_array_size(arr); i++) {
		if (profile_string_at(arr, i, &s, path, e) < 0 || profile_word_cap(s, &bit, path, e) < 0)
			return -1;
		*ret_held += caps >> bit & 1;
	}
	*ret_all = i;
	return 0;
}

static int arch_listed(json_t *obj, int *ret_listed, int *ret_any, const char *path, struct err *e)
{
	const char *s;
	json_t *arr;
	size_t i;
	int r = json_get_arr(obj, "arches", &arr, path, e);

	*ret_listed = *ret_any = 0;
	if (r <= 0)
		return r;
	for (i = 0; i < json_array_size(arr); i++) {
		if (profile_string_at(arr, i, &s, path, e) < 0)
			return -1;
		*ret_any = 1;
		*ret_listed |= strcmp(s, profile_word_native_arch()) == 0;
	}
	return 0;
}

/*
 * Tells whether the running kernel is at least obj.minKernel ("4.8"): 1 or 0, or -1 if obj has no
 * minKernel.
 */
static int kernel_reaches(json_t *obj, int *ret_reaches, const char *path, struct err *e)
{
	unsigned want_major, want_minor, major, minor;
	struct utsname u;
	const char *s;
	char rest;
	int r = json_get_str(obj, "minKernel", &s, path, e);

	*ret_reaches = -1;
	if (r < 0 || r == 0 || !*s)
		return r < 0 ? -1 : 0;
	if (strspn(s, "0123456789.") != strlen(s) || strlen(s) > 12 ||
	    sscanf(s, "%u.%u%c", &want_major, &want_minor, &rest) != 2)
		return err_set(e, ERR_INVALID, "%s.minKernel: \"%.64s\" is not like 4.8", path, s);
	if (uname(&u) < 0)
		return err_sys(e, "uname");
	if (sscanf(u.release, "%u.%u", &major, &minor) != 2)
		return err_set(e, ERR_UNSUPPORTED, "%s.minKernel: kernel release %.64s not understood", path,
			       u.release);
	*ret_reaches = major > want_major || (major == want_major && minor >= want_minor);
	return 0;
}

/*
 * Applies Docker's rule: an entry counts with all included capabilities and one of the
 * architectures, and none of those excluded.
 */
static int read_filter(const json_t *obj, const struct reader *rd, struct entry *en, struct err *e)
{
	static const char *const keys[] = { "caps", "arches", "minKernel", NULL };
	static const char *const names[] = { "includes", "excludes" };
	int r, listed, any, reaches, i;
	char where[PATH_SIZE + 32];
	size_t held, all;
	json_t *f;

	for (i = 0; i < 2; i++) {
		r = json_get_obj(obj, names[i], &f, en->path, e);
		if (r < 0)
			return -1;
		if (r == 0)
			continue;
		snprintf(where, sizeof(where), "%s.%s", en->path, names[i]);
		if (known_keys(f, keys, where, e) < 0 || caps_held(f, rd->caps, &held, &all, where, e) < 0 ||
		    arch_listed(f, &listed, &any, where, e) < 0 ||
		    kernel_reaches(f, &reaches, where, e) < 0)
			return -1;
		if (i == 0)
			en->applies &= held == all && (!any || listed) && reaches != 0;
		else
			en->applies &= !held && !listed && reaches != 1;
	}
	return 0;
}

static int add_profile_rule(struct reader *rd, const struct profile_rule *r, struct err *e)
{
	struct profile_doc *d = &rd->doc;
	struct profile_rule *p;
	size_t cap;

	if (d->count == PROFILE_JSON_RULES_MAX)
		return err_set(e, ERR_LIMIT, TOP ": more than %d rules", PROFILE_JSON_RULES_MAX);
	if (d->count == d->cap) {
		cap = d->cap ? d->cap * 2 : 512;
		p = reallocarray(d->rules, cap, sizeof(*p));
		if (!p)
			return err_nomem(e);
		d->rules = p;
		d->cap = cap;
	}
	d->rules[d->count++] = *r;
	return 0;
}

static int add_rule_name(struct reader *rd, const struct entry *en, const char *name, unsigned index, struct err *e)
{
	struct profile_rule r = { .action = en->action, .entry = en->index, .name = index };
	unsigned i;

	if (!*name || strlen(name) > 64 || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")])
		return err_set(e, ERR_INVALID, "%s.names[%u]: \"%.64s\" is not a system call's name", en->path,
			       index, name);
	r.nr = sysno_resolve(SYSNO_ARCH_NATIVE, name);
	if (r.nr < 0)
		return 0;
	if (r.nr > rd->doc.newest_nr)
		rd->doc.newest_nr = r.nr;
	if (!en->applies)
		return 0;
	if (!en->alternatives) {
		r.nargs = en->nargs;
		memcpy(r.args, en->args, r.nargs * sizeof(r.args[0]));
		return add_profile_rule(rd, &r, e);
	}
	for (i = 0; i < en->nargs; i++) {
		r.nargs = 1;
		r.args[0] = en->args[i];
		if (add_profile_rule(rd, &r, e) < 0)
			return -1;
	}
	return 0;
}

/* A call named twice in one list is a mistake; in several entries it may have different conditions. */
static int refuse_repeat(const json_t *names, size_t i, const char *name, const char *path, struct err *e)
{
	size_t j;

	for (j = 0; j < i; j++)
		if (strcmp(json_string_value(json_array_get(names, j)), name) == 0)
			return err_set(e, ERR_INVALID, "%s.names[%zu]: \"%.64s\" is there twice", path, i, name);
	return 0;
}

static int read_profile_names(const json_t *obj, struct reader *rd, const struct entry *en, struct err *e)
{
	const char *one = NULL, *s;
	json_t *names = NULL;
	size_t i;

	if (json_get_str(obj, "name", &one, en->path, e) < 0 || json_get_arr(obj, "names", &names, en->path, e) < 0)
		return -1;
	if (one && *one && names && json_array_size(names))
		return err_set(e, ERR_INVALID, "%s: both \"name\" and \"names\"", en->path);
	if (one && *one)
		return add_rule_name(rd, en, one, 0, e);
	if (!names || json_array_size(names) == 0)
		return err_set(e, ERR_INVALID, "%s: no \"names\"", en->path);
	if (json_array_size(names) > SYSNO_MAX)
		return err_set(e, ERR_LIMIT, "%s: more than %d names", en->path, SYSNO_MAX);
	for (i = 0; i < json_array_size(names); i++)
		if (profile_string_at(names, i, &s, en->path, e) < 0 || refuse_repeat(names, i, s, en->path, e) < 0 ||
		    add_rule_name(rd, en, s, (unsigned)i, e) < 0)
			return -1;
	return 0;
}

static int read_entry(json_t *obj, size_t index, struct reader *rd, struct err *e)
{
	static const char *const keys[] = { "name", "names", "action", "errnoRet", "errno", "args", "comment",
					    "includes", "excludes", NULL };
	struct entry en = { .index = (unsigned)index, .applies = 1 };

	snprintf(en.path, sizeof(en.path), TOP ": syscalls[%zu]", index);
	if (!json_is_object(obj))
		return err_set(e, ERR_CORRUPT, "%s: is not an object", en.path);
	if (known_keys(obj, keys, en.path, e) < 0 ||
	    read_action(obj, "action", "errnoRet", "errno", &en.action, en.path, e) < 0 ||
	    read_profile_args(obj, &en, e) < 0 || read_filter(obj, rd, &en, e) < 0)
		return -1;
	return read_profile_names(obj, rd, &en, e);
}

static int read_arch_map(const json_t *doc, struct err *e)
{
	static const char *const keys[] = { "architecture", "subArchitectures", NULL };
	json_t *map, *v, *plain = NULL;
	char where[PATH_SIZE];
	const char *s;
	size_t i;
	int r = json_get_arr(doc, "archMap", &map, TOP, e);

	if (r <= 0)
		return r;
	if (json_get_arr(doc, "architectures", &plain, TOP, e) < 0)
		return -1;
	if (json_array_size(map) && plain && json_array_size(plain))
		return err_set(e, ERR_INVALID, TOP ": both \"architectures\" and \"archMap\"");
	for (i = 0; i < json_array_size(map); i++) {
		snprintf(where, sizeof(where), TOP ": archMap[%zu]", i);
		v = json_array_get(map, i);
		if (!json_is_object(v))
			return err_set(e, ERR_CORRUPT, "%s: is not an object", where);
		r = json_get_str(v, "architecture", &s, where, e);
		if (r == 0)
			return err_set(e, ERR_INVALID, "%s: no \"architecture\"", where);
		if (r < 0 || known_keys(v, keys, where, e) < 0 || profile_word_architecture(s, where, e) < 0 ||
		    check_profile_words(v, "subArchitectures", where, profile_word_architecture, e) < 0)
			return -1;
	}
	return 0;
}

/* Unlike the keys of a rule, unknown ones up here are ignored, as OCI asks. */
static int read_profile_document(json_t *doc, struct reader *rd, struct err *e)
{
	json_t *calls = NULL, *metadata;
	const char *listener;
	size_t i;
	int r;

	if (!json_is_object(doc))
		return err_set(e, ERR_CORRUPT, TOP ": is not an object");
	r = json_get_str(doc, "listenerPath", &listener, TOP, e);
	if (r < 0)
		return -1;
	if ((r && *listener) || ((metadata = json_object_get(doc, "listenerMetadata")) && !json_is_null(metadata)))
		return err_set(e, ERR_UNSUPPORTED, TOP ": listenerPath needs SCMP_ACT_NOTIFY, which berth lacks");
	if (read_action(doc, "defaultAction", "defaultErrnoRet", "defaultErrno", &rd->doc.default_action, TOP, e) < 0 ||
	    check_profile_words(doc, "architectures", TOP, profile_word_architecture, e) < 0 ||
	    check_profile_words(doc, "flags", TOP, profile_word_flag, e) < 0 || read_arch_map(doc, e) < 0 ||
	    json_get_arr(doc, "syscalls", &calls, TOP, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(calls); i++)
		if (read_entry(json_array_get(calls, i), i, rd, e) < 0)
			return -1;
	return 0;
}

/* caps: what the process will hold, bit N for capability N.  The caller releases ret_doc, on success only. */
static int profile_json_read(const char *text, size_t n, uint64_t caps, struct profile_doc *ret_doc, struct err *e)
{
	struct reader rd = { .caps = caps, .doc.newest_nr = -1 };
	autojson json_t *doc = json_parse(text, n, PROFILE_JSON_BYTES_MAX, TOP, e);

	if (!doc)
		return -1;
	if (read_profile_document(doc, &rd, e) < 0) {
		profile_doc_release(&rd.doc);
		return -1;
	}
	*ret_doc = rd.doc;
	return 0;
}

static void profile_doc_release(struct profile_doc *d)
{
	if (!d)
		return;
	free(d->rules);
	*d = (struct profile_doc){ 0 };
}

/* ---- from rules to BPF ---- */

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

/* Ranks answers in the kernel's order between two filters: less is stricter. */
static int32_t profile_action_rank(uint32_t action)
{
	return (int32_t)(action & SECCOMP_RET_ACTION_FULL);
}

/*
 * Where entries without args contradict each other, the stricter applies, as between two filters;
 * Podman's own profile has such pairs (setns). libseccomp would keep whichever came first.
 *
 * A rule without args also makes libseccomp silently drop the rules of the same call with args. A
 * profile that relies on both would not do what it says, so it is refused.
 */
static int settle_contradictions(const struct profile_doc *d, const struct profile_rule *always[SYSNO_MAX], struct err *e)
{
	const struct profile_rule *r;
	size_t i;

	for (i = 0; i < d->count; i++) {
		r = &d->rules[i];
		if (!r->nargs && (!always[r->nr] || profile_action_rank(r->action) < profile_action_rank(always[r->nr]->action)))
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

	if (settle_contradictions(d, always, e) < 0)
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
 * A call newer than every call that the profile names gets ENOSYS. With the profile's EPERM libc
 * would not fall back. runc does the same. Other architectures and x32 pass on to the filter, which
 * kills them.
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
