/* SPDX-License-Identifier: Apache-2.0 */
/* What is mounted: HostConfig.Binds, .Mounts and .Tmpfs, and volumes that nobody named. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "manager/engine/create.h"
#include "manager/engine/name.h"
#include "manager/host/volume.h"

/* ---- binds, named volumes, tmpfs ---- */

/* Binds, named volumes and tmpfs: HostConfig.Binds, .Mounts and .Tmpfs. */

struct one {
	const char *source, *target;
	int read_only;
	int must_exist; /* --mount says so; -v makes a directory */
	int as_owner;	/* files made in it are its owner's */
};

static int has_bind_word(const char *list, const char *word)
{
	size_t n = strlen(word), part;

	for (; list && *list; list += part + (list[part] == ',')) {
		part = strcspn(list, ",");
		if (part == n && !strncmp(list, word, n))
			return 1;
	}
	return 0;
}

/*
 * The words of a bind that Docker has.  Those on labels of SELinux, propagation and caches change
 * nothing here; any other may be a misspelt "ro", and is refused as Docker does.
 */
static int check_bind_words(const char *words, struct err *e)
{
	static const char *const known[] = {
		"ro",	  "readonly", "rw",	  "z",	    "Z",      "nocopy", "private",
		"slave",  "shared",   "rprivate", "rslave", "rshared", "cached", "delegated",
		"consistent", "default",
	};
	size_t part, i;

	for (; *words; words += part + (words[part] == ',')) {
		part = strcspn(words, ",");
		for (i = 0; i < ARRAY_LEN(known); i++)
			if (strlen(known[i]) == part && !strncmp(known[i], words, part))
				break;
		if (i == ARRAY_LEN(known))
			return err_set(e, ERR_INVALID, "invalid mode: %.80s", words);
	}
	return 0;
}

/* A bind is private: what is mounted below it later, on either side, stays there. */
static int check_propagation(struct engine_create *c, const char *word, struct err *e)
{
	return strstr(word, "shared") || strstr(word, "slave") ?
		       engine_warn(c, e, "mounts are private here, and not %.20s", word) : 0;
}

/* A value that --volume splits at its colons cannot contain one. */
static int check_mount_path(const char *path, struct err *e)
{
	return strchr(path, ':') || strchr(path, '\n')
		       ? err_set(e, ERR_INVALID,
				 "invalid volume specification: '%.200s' has a colon in it", path)
		       : 0;
}

static int add_bind(struct engine_create *c, const struct one *m, struct err *e)
{
	char path[PATH_MAX];
	int kind;

	if (engine_rules_drop(c->rules, m->source))
		return engine_warn(c, e,
				   "the bind of %s was left out: the container has no Docker",
				   m->source);
	if (engine_rules_bind(c->rules, m->source, path, &kind, e) < 0 || check_mount_path(path, e) < 0)
		return -1;
	if (kind == ENGINE_MISSING && m->must_exist)
		return err_set(e, ERR_INVALID,
			       "invalid mount config for type \"bind\": bind source path does "
			       "not exist: %.200s",
			       path);
	if (kind == ENGINE_MISSING && json_array_append_new(c->directories, json_string(path)) < 0)
		return err_set(e, ERR_INVALID, "the path of a bind is not UTF-8");
	return engine_word(c, e, "--volume=%s:%s%s", path, m->target,
			   m->read_only	 ? ":nolinks"
			   : m->as_owner ? ":rw,nolinks,owner=auto"
					 : ":rw,nolinks");
}

/* Whether a mount of the client's is there. */
static int has_target(const struct engine_create *c, const char *target)
{
	size_t n = strlen(target);

	while (n > 1 && target[n - 1] == '/')
		n--;
	return json_object_getn(c->targets, target, n) != NULL;
}

/* A volume without a name does not cover it. */
static int note_target(struct engine_create *c, const char *target, struct err *e)
{
	size_t n = strlen(target);

	while (n > 1 && target[n - 1] == '/')
		n--;
	if (n == 1 && target[0] == '/')
		return err_set(e, ERR_INVALID, "invalid specification: destination can't be '/'");
	if (has_target(c, target))
		return err_set(e, ERR_INVALID, "Duplicate mount point: %.200s", target);
	return json_object_setn_new(c->targets, target, n, json_true()) < 0 ?
		       err_set(e, ERR_INVALID, "the path of a mount is not UTF-8") :
		       0;
}

static int add_one_mount(struct engine_create *c, const struct one *m, struct err *e)
{
	char name[ENGINE_NAME];

	if (m->target[0] != '/' || check_mount_path(m->target, e) < 0)
		return m->target[0] == '/'
			       ? -1
			       : err_set(e, ERR_INVALID,
					 "invalid mount path: '%.200s' mount path must be absolute",
					 m->target);
	if (note_target(c, m->target, e) < 0)
		return -1;
	if (strchr(m->source, '/'))
		return add_bind(c, m, e);
	if (engine_name_map(m->source, name) < 0)
		return err_set(e, ERR_INVALID,
			       "invalid volume name: \"%.80s\" includes invalid characters for a "
			       "local volume name, only \"[a-zA-Z0-9][a-zA-Z0-9_.-]\" are allowed",
			       m->source);
	if (strcmp(name, m->source) &&
	    json_object_set_new(c->volumes, name, json_string(m->source)) < 0)
		return err_nomem(e);
	return engine_word(c, e, "--volume=%s:%s%s", name, m->target, m->read_only ? ":ro" : "");
}

/* "SOURCE:TARGET[:WORDS]", or a target alone, which would be a volume without a name. */
static int add_bind_text(struct engine_create *c, const char *text, int as_owner, struct err *e)
{
	autofree char *copy = strdup(text);
	struct one m = { .as_owner = as_owner };
	char *target, *words;

	if (!copy)
		return err_nomem(e);
	target = strchr(copy, ':');
	if (!target)
		return engine_create_anonymous(c, copy, 0, e);
	*target++ = '\0';
	words = strchr(target, ':');
	if (words)
		*words++ = '\0';
	if (words && (check_bind_words(words, e) < 0 || check_propagation(c, words, e) < 0))
		return -1;
	m.source = copy;
	m.target = target;
	m.read_only = has_bind_word(words, "ro") || has_bind_word(words, "readonly");
	return add_one_mount(c, &m, e);
}

#define PAGE_BYTES 4096

/* What a tmpfs of berth is anyway. */
static int is_usual(const char *option, size_t n)
{
	static const char *const words[] = { "rw", "nosuid", "nodev", "mode=1777", "mode=01777" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++)
		if (strlen(words[i]) == n && !strncmp(words[i], option, n))
			return 1;
	return 0;
}

/* Whether Docker takes it of a tmpfs. */
static int is_tmpfs_option(const char *option, size_t n)
{
	static const char *const words[] = {
		"defaults", "ro", "rw", "suid", "nosuid", "dev", "nodev", "exec", "noexec", "sync", "async", "dirsync", "remount",
		"mand", "nomand", "atime", "noatime", "diratime", "nodiratime", "bind", "rbind", "unbindable", "runbindable",
		"private", "rprivate", "shared", "rshared", "slave", "rslave", "relatime", "norelatime", "strictatime",
		"nostrictatime",
	};
	static const char *const values[] = { "size=", "mode=", "uid=", "gid=", "nr_inodes=", "nr_blocks=", "mpol=" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++)
		if (strlen(words[i]) == n && !strncmp(words[i], option, n))
			return 1;
	for (i = 0; i < ARRAY_LEN(values); i++)
		if (n >= strlen(values[i]) && !strncmp(values[i], option, strlen(values[i])))
			return 1;
	return 0;
}

/* Options as mount(8) has them; berth's own are nosuid and nodev anyway. */
static int add_tmpfs_mount(struct engine_create *c, const char *target, const char *options,
		     struct err *e)
{
	const char *size = NULL;
	size_t part;

	for (; *options; options += part + (options[part] == ',')) {
		part = strcspn(options, ",");
		if (part && !is_tmpfs_option(options, part))
			return err_set(e, ERR_INVALID, "invalid tmpfs option [\"%.*s\"]", (int)(part < 60 ? part : 60), options);
		if (part > 5 && !strncmp(options, "size=", 5))
			size = options + 5;
		else if (part && !is_usual(options, part) &&
			 engine_warn(c, e, "the option %.*s of a tmpfs was not used", (int)(part < 60 ? part : 60), options) < 0)
			return -1;
	}
	if (target[0] != '/' || check_mount_path(target, e) < 0)
		return err_set(e, ERR_INVALID,
			       "invalid mount path: '%.200s' mount path must be absolute", target);
	if (note_target(c, target, e) < 0)
		return -1;
	if (!size)
		return engine_word(c, e, "--tmpfs=%s", target);
	/* the kernel rounds up to a page */
	part = strspn(size, "0123456789");
	if (part && part < 5 && (!size[part] || size[part] == ',') && atoi(size) > 0 && atoi(size) < PAGE_BYTES)
		return engine_word(c, e, "--tmpfs=%s:size=%d", target, PAGE_BYTES);
	return engine_word(c, e, "--tmpfs=%s:size=%.*s", target, (int)strcspn(size, ","), size);
}

/* The options of Docker's local driver; what they would mount is the host's to say. */
static int check_driver_options(const json_t *options, struct err *e)
{
	static const char *const known[] = { "device", "o", "size", "type" };
	const char *name;
	json_t *v;
	size_t i;

	json_object_foreach ((json_t *)(size_t)options, name, v) {
		for (i = 0; i < ARRAY_LEN(known) && strcmp(known[i], name); i++)
			;
		if (i == ARRAY_LEN(known))
			return err_set(e, ERR_INVALID, "invalid option: \"%.60s\"", name);
	}
	if (!json_object_get(options, "device") && (json_object_get(options, "type") || json_object_get(options, "o")))
		return err_set(e, ERR_INVALID, "missing required option: \"device\"");
	return !json_object_get(options, "device") || json_object_get(options, "type") ? 0 :
	       err_set(e, ERR_INVALID, "missing required option: \"type\"");
}

/* Options of a mount that this door reads; the others are told. */
static int read_mount_options(struct engine_create *c, const json_t *mount, struct one *m, struct err *e)
{
	static const char *const of_bind[] = { "Propagation", "CreateMountpoint", NULL };
	static const char *const of_volume[] = { "DriverConfig", "Subpath", NULL };
	static const char *const of_tmpfs[] = { "SizeBytes", NULL };
	const char *propagation = "", *driver = "", *sub = "";
	json_t *bind, *volume, *tmpfs, *config, *options;
	int make = 0;

	if (engine_obj(mount, "BindOptions", &bind, e) < 0 || engine_obj(mount, "VolumeOptions", &volume, e) < 0 ||
	    engine_obj(mount, "TmpfsOptions", &tmpfs, e) < 0 || engine_str(bind, "Propagation", &propagation, e) < 0 ||
	    engine_flag(bind, "CreateMountpoint", &make, e) < 0 || engine_str(volume, "Subpath", &sub, e) < 0 ||
	    engine_obj(volume, "DriverConfig", &config, e) < 0 || engine_str(config, "Name", &driver, e) < 0 ||
	    engine_obj(config, "Options", &options, e) < 0)
		return -1;
	if (sub[0])
		return err_set(e, ERR_UNSUPPORTED, "a mount of a part of a volume is not supported: Subpath %.200s", sub);
	if (driver[0] && strcmp(driver, "local"))
		return err_set(e, ERR_INVALID, "error looking up volume plugin %.80s: plugin \"%.80s\" not found", driver, driver);
	if (check_driver_options(options, e) < 0)
		return -1;
	if (json_object_size(options) && engine_warn(c, e, "options of a volume's driver were not used") < 0)
		return -1;
	m->must_exist = !make;
	return check_propagation(c, propagation, e) < 0 || engine_note_unknown(c, bind, of_bind, "BindOptions.", e) < 0 ||
			       engine_note_unknown(c, volume, of_volume, "VolumeOptions.", e) < 0 ||
			       engine_note_unknown(c, tmpfs, of_tmpfs, "TmpfsOptions.", e) < 0 ?
		       -1 : 0;
}

/* Members that are another type's, and one that this type needs, in Docker's words. */
static int check_mount_members(const json_t *mount, const char *type, const char *source, struct err *e)
{
	static const struct { const char *type, *member; } own[] = {
		{ "bind", "BindOptions" }, { "volume", "VolumeOptions" }, { "tmpfs", "TmpfsOptions" },
	};
	const char *wrong = NULL;
	size_t i, known = 0;

	for (i = 0; i < ARRAY_LEN(own); i++) {
		if (!strcmp(own[i].type, type))
			known = 1;
		else if (json_is_object(json_object_get(mount, own[i].member)))
			wrong = own[i].member;
	}
	if (!known)
		return err_set(e, ERR_INVALID, "invalid mount config for type \"%.40s\": mount type unknown", type);
	if (!strcmp(type, "tmpfs") && source[0])
		wrong = "Source";
	if (wrong)
		return err_set(e, ERR_INVALID, "invalid mount config for type \"%s\": field %s must not be specified", type, wrong);
	return strcmp(type, "bind") || source[0] ? 0 :
	       err_set(e, ERR_INVALID, "invalid mount config for type \"bind\": field Source must not be empty");
}

static int add_mount_object(struct engine_create *c, const json_t *mount, int as_owner, struct err *e)
{
	struct one m = { .source = "", .target = "", .must_exist = 1, .as_owner = as_owner };
	const char *type = "";
	json_int_t bytes = 0;
	json_t *options;

	if (engine_str(mount, "Type", &type, e) < 0 ||
	    engine_str(mount, "Source", &m.source, e) < 0 ||
	    engine_str(mount, "Target", &m.target, e) < 0 ||
	    engine_flag(mount, "ReadOnly", &m.read_only, e) < 0 ||
	    engine_obj(mount, "TmpfsOptions", &options, e) < 0 ||
	    engine_int(options, "SizeBytes", &bytes, e) < 0 || read_mount_options(c, mount, &m, e) < 0)
		return -1;
	if (!m.target[0] || m.target[0] != '/' || !m.target[strspn(m.target, "/.")])
		return err_set(e, ERR_INVALID, !m.target[0] ? "invalid mount config for type \"%.20s\": field Target must not be empty" :
					       m.target[0] != '/' ?
						       "invalid mount config for type \"%.20s\": invalid mount path: '%.200s' mount path must be absolute" :
						       "invalid mount config for type \"%.20s\": invalid specification: destination can't be '/'",
			       type, m.target);
	if (check_mount_members(mount, type, m.source, e) < 0)
		return -1;
	if (!strcmp(type, "tmpfs")) {
		char size[40];

		snprintf(size, sizeof(size), "size=%" JSON_INTEGER_FORMAT, bytes);
		return add_tmpfs_mount(c, m.target, bytes > 0 ? size : "", e);
	}
	if (!strcmp(type, "volume") && !m.source[0] && has_target(c, m.target))
		return err_set(e, ERR_INVALID, "Duplicate mount point: %.200s", m.target);
	if (!strcmp(type, "volume") && !m.source[0])
		return engine_create_anonymous(c, m.target, m.read_only, e);
	if (!strcmp(type, "volume") == (strchr(m.source, '/') != NULL))
		return err_set(e, ERR_INVALID,
			       "invalid mount config for type \"%s\": '%.200s' is not a source of "
			       "that type",
			       type, m.source);
	return add_one_mount(c, &m, e);
}

/* One mount of another container, unless this one has its own there. */
static int share(struct engine_create *c, const json_t *mount, int read_only, int as_owner, struct err *e)
{
	const char *type = json_string_value(json_object_get(mount, "Type")),
		   *source = json_string_value(json_object_get(mount, "Source")),
		   *target = json_string_value(json_object_get(mount, "Destination"));
	struct one m = { .source = source, .target = target, .as_owner = as_owner,
			 .read_only = read_only || !json_is_true(json_object_get(mount, "RW")) };
	json_t *copy;

	/* a tmpfs is its container's alone, as with dockerd */
	if (!type || !source || !source[0] || !target || !strcmp(type, "tmpfs") || json_object_get(c->targets, target))
		return 0;
	if (add_one_mount(c, &m, e) < 0)
		return -1;
	copy = json_deep_copy(mount);
	json_object_set_new(copy, "RW", json_boolean(!m.read_only));
	return json_array_append_new(c->shared, copy) < 0 ? err_nomem(e) : 0;
}

/* "NAME", "NAME:ro": the mounts of another container, which the caller has looked up. */
static int add_shared(struct engine_create *c, const json_t *host, int as_owner, struct err *e)
{
	json_t *list, *mounts;
	size_t i, k;

	if (engine_arr(host, "VolumesFrom", &list, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(list); i++) {
		const char *text = engine_item(list, i, "VolumesFrom", e), *colon;

		if (!text)
			return -1;
		if (!text[0])
			return err_set(e, ERR_INVALID, "volumes-from specification cannot be an empty string");
		colon = strchr(text, ':');
		if (colon && check_bind_words(colon + 1, e) < 0)
			return -1;
		mounts = json_object_getn(c->others, text, colon ? (size_t)(colon - text) : strlen(text));
		if (!mounts)
			return err_set(e, ERR_INVALID, "No such container: %.*s", (int)(colon ? colon - text : 200), text);
		for (k = 0; k < json_array_size(mounts); k++)
			if (share(c, json_array_get(mounts, k), colon && has_bind_word(colon + 1, "ro"), as_owner, e) < 0)
				return -1;
	}
	return 0;
}

/* owner=auto needs numbers (manager/ops/mountspec.h). */
static int is_numeric(const char *user)
{
	const char *colon = strchr(user, ':');

	return !user[0] || !strcmp(user, "root") || !strcmp(user, "0") ||
	       (colon && !user[strspn(user, "0123456789:")]);
}

int engine_create_mounts(struct engine_create *c, const json_t *body, const json_t *host,
			 struct err *e)
{
	json_t *binds, *mounts, *tmpfs, *v;
	const char *target, *user = "";
	size_t i;

	if (engine_arr(host, "Binds", &binds, e) < 0 ||
	    engine_arr(host, "Mounts", &mounts, e) < 0 ||
	    engine_obj(host, "Tmpfs", &tmpfs, e) < 0 || engine_str(body, "User", &user, e) < 0)
		return -1;
	for (i = 0; i < json_array_size(binds); i++) {
		const char *text = engine_item(binds, i, "Binds", e);

		if (!text || add_bind_text(c, text, is_numeric(user), e) < 0)
			return -1;
	}
	for (i = 0; i < json_array_size(mounts); i++)
		if (add_mount_object(c, json_array_get(mounts, i), is_numeric(user), e) < 0)
			return -1;
	json_object_foreach(tmpfs, target, v)
		if (add_tmpfs_mount(c, target, json_is_string(v) ? json_string_value(v) : "", e) < 0)
			return -1;
	return add_shared(c, host, is_numeric(user), e) < 0 ? -1 : engine_create_volumes(c, body, e);
}

/* ---- volumes that nobody named ---- */

/* Volumes that nobody named (docker run -v /PATH, VOLUME), and the directory of an image. */

/* "/a/b", without the slashes at its end; -1 for what is no path of a mount. */
static int clean_volume_target(const char *target, char ret[PATH_MAX])
{
	size_t n = strlen(target);

	while (n > 1 && target[n - 1] == '/')
		n--;
	if (target[0] != '/' || n < 2 || n >= PATH_MAX || strpbrk(target, ":\n"))
		return -1;
	snprintf(ret, PATH_MAX, "%.*s", (int)n, target);
	return 0;
}

int engine_create_anonymous(struct engine_create *c, const char *target, int read_only,
			    struct err *e)
{
	char path[PATH_MAX], name[ENGINE_ID];

	if (clean_volume_target(target, path) < 0)
		return err_set(e, ERR_INVALID,
			       "invalid volume specification: '%.200s': a mount path is absolute, "
			       "not /, and without a colon",
			       target);
	if (json_object_get(c->targets, path))
		return read_only ?
			       err_set(e, ERR_INVALID, "Duplicate mount point: %.200s", path) :
			       0;
	if (json_object_size(c->anonymous) >= VOLUME_OWN_MAX)
		return err_set(e, ERR_LIMIT, "more than %d volumes without a name in one container",
			       VOLUME_OWN_MAX);
	if (engine_new_id(name) < 0)
		return err_sys(e, "choose a name");
	json_object_set_new(c->targets, path, json_true());
	return json_object_set_new(c->anonymous, path, json_string(name)) < 0 ?
		       err_nomem(e) :
		       engine_word(c, e, "--volume=%s:%s%s", name, path, read_only ? ":ro" : "");
}

/* What an image asks for is left in the container's layer where the host has no room for it. */
static int add_of_image(struct engine_create *c, const json_t *config, uint64_t room,
			struct err *e)
{
	const char *target;
	char path[PATH_MAX];
	json_t *unused;

	json_object_foreach (json_object_get(config, "Volumes"), target, unused) {
		if (clean_volume_target(target, path) < 0 || json_object_get(c->targets, path))
			continue;
		if (json_object_size(c->anonymous) >= room ||
		    json_object_size(c->anonymous) >= VOLUME_OWN_MAX) {
			if (engine_warn(c, e, "the image's volume at %.200s is a part of the "
					      "container's own layer, as no more volumes can be "
					      "made; docker volume prune makes room", path) < 0)
				return -1;
		} else if (engine_create_anonymous(c, path, 0, e) < 0) {
			return -1;
		}
	}
	return 0;
}

int engine_create_volumes(struct engine_create *c, const json_t *body, struct err *e)
{
	const char *target, *image = "", *own = "", *dir;
	autojson json_t *config = NULL;
	json_t *volumes, *unused;
	uint64_t room = 0;

	if (engine_obj(body, "Volumes", &volumes, e) < 0 ||
	    engine_str(body, "Image", &image, e) < 0 ||
	    engine_str(body, "WorkingDir", &own, e) < 0)
		return -1;
	json_object_foreach (volumes, target, unused)
		if (engine_create_anonymous(c, target, 0, e) < 0)
			return -1;
	config = c->rules->config ? c->rules->config(c->rules->ctx, image, &room) : NULL;
	dir = json_string_value(json_object_get(config, "WorkingDir"));
	/* berth has a directory of its own where neither says one, and Docker the root */
	if (config && !own[0] && !(dir && dir[0]) && engine_word(c, e, "--workdir=/") < 0)
		return -1;
	return add_of_image(c, config, room, e);
}
