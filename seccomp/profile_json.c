/* SPDX-License-Identifier: Apache-2.0 */
#include "seccomp/profile_json.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/json.h"
#include "base/mem.h"
#include "seccomp/profile_words.h"
#include "seccomp/sysno.h"

#define TOP "seccomp profile"
#define ARGS_MAX 32		/* of one entry; more than six only when alternatives repeat an index */
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
	int alternatives;	/* an index repeats: any of the args suffices, as in runc */
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
static int string_at(const json_t *arr, size_t i, const char **ret_s, const char *path, struct err *e)
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
static int check_words(const json_t *obj, const char *key, const char *path,
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
		if (string_at(arr, i, &s, where, e) < 0 || check(s, where, e) < 0)
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
	int r, has_data, has_number, has_name;

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
	enum scmp_compare op;
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

static int read_args(const json_t *obj, struct entry *en, struct err *e)
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
	unsigned bit;
	json_t *arr;
	size_t i;
	int r = json_get_arr(obj, "caps", &arr, path, e);

	*ret_held = *ret_all = 0;
	if (r <= 0)
		return r;
	for (i = 0; i < json_array_size(arr); i++) {
		if (string_at(arr, i, &s, path, e) < 0 || profile_word_cap(s, &bit, path, e) < 0)
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
		if (string_at(arr, i, &s, path, e) < 0)
			return -1;
		*ret_any = 1;
		*ret_listed |= strcmp(s, profile_word_native_arch()) == 0;
	}
	return 0;
}

/* Whether the running kernel is at least obj.minKernel ("4.8"): 1, 0, or -1 where none is asked for. */
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

/* Docker's rule: all included capabilities, one of the architectures; none of the excluded. */
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

static int add_rule(struct reader *rd, const struct profile_rule *r, struct err *e)
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

static int add_name(struct reader *rd, const struct entry *en, const char *name, unsigned index, struct err *e)
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
		return add_rule(rd, &r, e);
	}
	for (i = 0; i < en->nargs; i++) {
		r.nargs = 1;
		r.args[0] = en->args[i];
		if (add_rule(rd, &r, e) < 0)
			return -1;
	}
	return 0;
}

/* Two mentions in one list are a mistake; in several entries they carry different conditions. */
static int refuse_repeat(const json_t *names, size_t i, const char *name, const char *path, struct err *e)
{
	size_t j;

	for (j = 0; j < i; j++)
		if (strcmp(json_string_value(json_array_get(names, j)), name) == 0)
			return err_set(e, ERR_INVALID, "%s.names[%zu]: \"%.64s\" is there twice", path, i, name);
	return 0;
}

static int read_names(const json_t *obj, struct reader *rd, const struct entry *en, struct err *e)
{
	const char *one = NULL, *s;
	json_t *names = NULL;
	size_t i;

	if (json_get_str(obj, "name", &one, en->path, e) < 0 || json_get_arr(obj, "names", &names, en->path, e) < 0)
		return -1;
	if (one && *one && names && json_array_size(names))
		return err_set(e, ERR_INVALID, "%s: both \"name\" and \"names\"", en->path);
	if (one && *one)
		return add_name(rd, en, one, 0, e);
	if (!names || json_array_size(names) == 0)
		return err_set(e, ERR_INVALID, "%s: no \"names\"", en->path);
	if (json_array_size(names) > SYSNO_MAX)
		return err_set(e, ERR_LIMIT, "%s: more than %d names", en->path, SYSNO_MAX);
	for (i = 0; i < json_array_size(names); i++)
		if (string_at(names, i, &s, en->path, e) < 0 || refuse_repeat(names, i, s, en->path, e) < 0 ||
		    add_name(rd, en, s, (unsigned)i, e) < 0)
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
	    read_args(obj, &en, e) < 0 || read_filter(obj, rd, &en, e) < 0)
		return -1;
	return read_names(obj, rd, &en, e);
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
		    check_words(v, "subArchitectures", where, profile_word_architecture, e) < 0)
			return -1;
	}
	return 0;
}

/* Unlike the keys of a rule, unknown ones up here are ignored, as OCI asks. */
static int read_document(json_t *doc, struct reader *rd, struct err *e)
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
	    check_words(doc, "architectures", TOP, profile_word_architecture, e) < 0 ||
	    check_words(doc, "flags", TOP, profile_word_flag, e) < 0 || read_arch_map(doc, e) < 0 ||
	    json_get_arr(doc, "syscalls", &calls, TOP, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(calls); i++)
		if (read_entry(json_array_get(calls, i), i, rd, e) < 0)
			return -1;
	return 0;
}

int profile_json_read(const char *text, size_t n, uint64_t caps, struct profile_doc *ret_doc, struct err *e)
{
	struct reader rd = { .caps = caps, .doc.newest_nr = -1 };
	autojson json_t *doc = json_parse(text, n, PROFILE_JSON_BYTES_MAX, TOP, e);

	if (!doc)
		return -1;
	if (read_document(doc, &rd, e) < 0) {
		profile_doc_release(&rd.doc);
		return -1;
	}
	*ret_doc = rd.doc;
	return 0;
}

void profile_doc_release(struct profile_doc *d)
{
	if (!d)
		return;
	free(d->rules);
	*d = (struct profile_doc){ 0 };
}
