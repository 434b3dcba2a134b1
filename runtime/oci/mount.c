/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/mount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "runtime/kernel/newmount.h"
#include "runtime/oci/json.h"

#ifndef MOUNT_ATTR_NOSYMFOLLOW
#define MOUNT_ATTR_NOSYMFOLLOW 0x00200000
#endif

enum special { PLAIN, BIND, RBIND, COPY_UP, IDMAP, RIDMAP, SOURCE_NOFOLLOW, TARGET_NOFOLLOW, COPY_SYMLINK, REMOUNT, IGNORED };

/* Unknown words are passed to the file system unchanged. */
static const struct {
	const char *word;
	uint64_t set, clear;
	unsigned long propagation;
	enum special special;
} words[] = {
	{ "acl", .special = IGNORED },
	{ "async", .special = IGNORED },
	{ "atime", .set = MOUNT_ATTR_RELATIME, .clear = MOUNT_ATTR__ATIME },
	{ "bind", .special = BIND },
	{ "copy-symlink", .special = COPY_SYMLINK },
	{ "defaults", .special = IGNORED },
	{ "dest-nofollow", .special = TARGET_NOFOLLOW },
	{ "dev", .clear = MOUNT_ATTR_NODEV },
	{ "diratime", .clear = MOUNT_ATTR_NODIRATIME },
	{ "exec", .clear = MOUNT_ATTR_NOEXEC },
	{ "idmap", .special = IDMAP },
	{ "loud", .special = IGNORED },
	{ "noatime", .set = MOUNT_ATTR_NOATIME, .clear = MOUNT_ATTR__ATIME },
	{ "nodev", .set = MOUNT_ATTR_NODEV },
	{ "nodiratime", .set = MOUNT_ATTR_NODIRATIME },
	{ "noexec", .set = MOUNT_ATTR_NOEXEC },
	{ "nolazytime", .special = IGNORED },
	{ "nomand", .special = IGNORED },
	/*
	 * norelatime means the kernel's default, which is relatime again (mount(8)); runc and crun
	 * do the same
	 */
	{ "norelatime", .set = MOUNT_ATTR_RELATIME, .clear = MOUNT_ATTR__ATIME },
	{ "nostrictatime", .set = MOUNT_ATTR_RELATIME, .clear = MOUNT_ATTR__ATIME },
	{ "nosuid", .set = MOUNT_ATTR_NOSUID },
	{ "nosymfollow", .set = MOUNT_ATTR_NOSYMFOLLOW },
	{ "private", .propagation = MS_PRIVATE },
	{ "rbind", .special = RBIND },
	{ "relatime", .set = MOUNT_ATTR_RELATIME, .clear = MOUNT_ATTR__ATIME },
	{ "remount", .special = REMOUNT },
	{ "ridmap", .special = RIDMAP },
	{ "ro", .set = MOUNT_ATTR_RDONLY },
	{ "rprivate", .propagation = MS_PRIVATE | MS_REC },
	{ "rshared", .propagation = MS_SHARED | MS_REC },
	{ "rslave", .propagation = MS_SLAVE | MS_REC },
	{ "runbindable", .propagation = MS_UNBINDABLE | MS_REC },
	{ "rw", .clear = MOUNT_ATTR_RDONLY },
	{ "shared", .propagation = MS_SHARED },
	{ "silent", .special = IGNORED },
	{ "slave", .propagation = MS_SLAVE },
	{ "src-nofollow", .special = SOURCE_NOFOLLOW },
	{ "strictatime", .set = MOUNT_ATTR_STRICTATIME, .clear = MOUNT_ATTR__ATIME },
	{ "suid", .clear = MOUNT_ATTR_NOSUID },
	{ "symfollow", .clear = MOUNT_ATTR_NOSYMFOLLOW },
	{ "tmpcopyup", .special = COPY_UP },
	{ "unbindable", .propagation = MS_UNBINDABLE },
};

/* "rro" is "ro" for the mount and all below it. */
static const struct { const char *word; uint64_t set, clear; } below[] = {
	{ "ratime", MOUNT_ATTR_RELATIME, MOUNT_ATTR__ATIME },
	{ "rdev", 0, MOUNT_ATTR_NODEV },
	{ "rdiratime", 0, MOUNT_ATTR_NODIRATIME },
	{ "rexec", 0, MOUNT_ATTR_NOEXEC },
	{ "rnoatime", MOUNT_ATTR_NOATIME, MOUNT_ATTR__ATIME },
	{ "rnodev", MOUNT_ATTR_NODEV, 0 },
	{ "rnodiratime", MOUNT_ATTR_NODIRATIME, 0 },
	{ "rnoexec", MOUNT_ATTR_NOEXEC, 0 },
	{ "rnorelatime", MOUNT_ATTR_RELATIME, MOUNT_ATTR__ATIME },
	{ "rnostrictatime", MOUNT_ATTR_RELATIME, MOUNT_ATTR__ATIME },
	{ "rnosuid", MOUNT_ATTR_NOSUID, 0 },
	{ "rnosymfollow", MOUNT_ATTR_NOSYMFOLLOW, 0 },
	{ "rrelatime", MOUNT_ATTR_RELATIME, MOUNT_ATTR__ATIME },
	{ "rro", MOUNT_ATTR_RDONLY, 0 },
	{ "rrw", 0, MOUNT_ATTR_RDONLY },
	{ "rstrictatime", MOUNT_ATTR_STRICTATIME, MOUNT_ATTR__ATIME },
	{ "rsuid", 0, MOUNT_ATTR_NOSUID },
	{ "rsymfollow", 0, MOUNT_ATTR_NOSYMFOLLOW },
};

const char *oci_mount_option_name(size_t i)
{
	if (i < ARRAY_LEN(words))
		return words[i].word;
	i -= ARRAY_LEN(words);
	return i < ARRAY_LEN(below) ? below[i].word : NULL;
}

/* A later word takes back an earlier one: "ro,rw" is "rw". */
static void apply_mount_attrs(uint64_t *set, uint64_t *clear, uint64_t s, uint64_t c)
{
	const uint64_t touched = (s & ~(uint64_t)MOUNT_ATTR__ATIME) | (c & ~(uint64_t)MOUNT_ATTR__ATIME);

	/* a mode of access times replaces the others; it is a field, not a bit */
	if (c & MOUNT_ATTR__ATIME)
		*set &= ~(uint64_t)MOUNT_ATTR__ATIME;
	*set &= ~touched;
	*clear &= ~touched;
	*set |= s;
	*clear |= c & MOUNT_ATTR__ATIME ? (c | MOUNT_ATTR__ATIME) : c;
}

static void set_special(struct oci_mount *m, enum special s)
{
	switch (s) {
	case RBIND:
		m->recursive = 1;
		__attribute__((fallthrough));
	case BIND:
		m->bind = 1;
		break;
	case COPY_UP:
		m->copy_up = 1;
		break;
	case IDMAP:
	case RIDMAP:
		m->idmap = s == RIDMAP ? 2 : 1;
		break;
	case SOURCE_NOFOLLOW:
		m->source_nofollow = 1;
		break;
	case TARGET_NOFOLLOW:
		m->target_nofollow = 1;
		break;
	case COPY_SYMLINK:
		m->copy_symlink = 1;
		break;
	case REMOUNT:
		m->remount = 1;
		break;
	default:
		break;
	}
}

static int read_word(struct oci_mount *m, const char *word, struct err *e)
{
	size_t i, n;

	for (i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(word, words[i].word) != 0)
			continue;
		apply_mount_attrs(&m->set, &m->clear, words[i].set, words[i].clear);
		set_special(m, words[i].special);
		for (n = 0; words[i].propagation && n < OCI_PROPAGATIONS; n++) {
			if (!m->propagation[n]) {
				m->propagation[n] = words[i].propagation;
				break;
			}
		}
		return 0;
	}
	for (i = 0; i < ARRAY_LEN(below); i++) {
		if (!strcmp(word, below[i].word)) {
			apply_mount_attrs(&m->below_set, &m->below_clear, below[i].set, below[i].clear);
			return 0;
		}
	}
	if (!strncmp(word, "idmap=", 6) || !strncmp(word, "ridmap=", 7)) {
		m->idmap = word[0] == 'r' ? 2 : 1;
		m->idmap_spec = strchr(word, '=') + 1;
		return 0;
	}
	if (m->words == OCI_MOUNT_WORDS)
		return err_set(e, ERR_LIMIT, "mount %s: more than %d options", m->destination, OCI_MOUNT_WORDS);
	m->word[m->words++] = word;
	return 0;
}

/*
 * The end of the option at s: a comma, but not one in quotes (a label's) or behind a backslash
 * (a layer's).
 */
static const char *option_end(const char *s)
{
	int quoted = 0;

	for (; *s && (quoted || *s != ','); s++) {
		quoted ^= *s == '"';
		if (*s == '\\' && s[1])
			s++;
	}
	return s;
}

int oci_mount_split(json_t *v, struct err *e)
{
	const json_t *list = oci_get(v, "options"), *o;
	json_t *out = json_array();
	size_t i;

	json_array_foreach(list, i, o) {
		const char *s = json_string_value(o), *end;

		for (; out && *s; s = *end ? end + 1 : end) {
			end = option_end(s);
			if (end > s &&
			    json_array_append_new(out, json_stringn(s, (size_t)(end - s))) < 0) {
				json_decref(out);
				out = NULL;
			}
		}
	}
	if (!out || (list && json_object_set_new(v, "options", out) < 0))
		return err_nomem(e);
	if (!list)
		json_decref(out);
	return 0;
}

/*
 * A remount ignores type and source: it changes the existing mount. Options of a new mount are
 * refused.
 */
static int read_remount(struct oci_mount *m, struct err *e)
{
	const int maps = m->idmap || json_array_size(oci_get(m->doc, "uidMappings")) || json_array_size(oci_get(m->doc, "gidMappings"));
	const char *other = m->copy_up ? "tmpcopyup" : maps ? "idmap" : m->copy_symlink ? "copy-symlink" :
			    m->words ? m->word[0] : NULL;

	m->bind = m->recursive = 0;
	if (!other)
		return 0;
	err_set(e, ERR_UNSUPPORTED, "mount %s: remount changes options of the mount, as ro and noexec, not '%.64s'",
		m->destination, other);
	return err_hint(e, "give that to the mount itself, in its own entry");
}

int oci_mount_read(struct oci_mount *m, const json_t *v, struct err *e)
{
	const json_t *list = oci_get(v, "options"), *o;
	size_t i;

	*m = (struct oci_mount){ .doc = v, .destination = oci_str(v, "destination"), .type = oci_str(v, "type"),
				 .source = oci_str(v, "source"), .map_fd = -1, .fd = -1 };
	if (!*m->destination)
		return err_set(e, ERR_INVALID, "mounts: an empty destination");
	json_array_foreach(list, i, o)
		if (*json_string_value(o) && read_word(m, json_string_value(o), e) < 0)
			return -1;
	if (m->remount)
		return read_remount(m, e);
	/* engines say "bind" either way */
	if (m->type && (!strcmp(m->type, "bind") || !strcmp(m->type, "rbind"))) {
		m->recursive |= !m->bind && (m->type[0] == 'r');
		m->bind = 1;
	}
	if (!m->bind && (!m->type || !*m->type))
		return err_set(e, ERR_INVALID, "mount %s has neither a type nor the option bind", m->destination);
	if (m->bind && (!m->source || !*m->source))
		return err_set(e, ERR_INVALID, "bind mount %s has no source", m->destination);
	if (!m->idmap && (json_array_size(oci_get(v, "uidMappings")) || json_array_size(oci_get(v, "gidMappings"))))
		m->idmap = 1;	/* as the option idmap: ridmap is said when it is meant */
	if (m->idmap && !m->bind)
		return err_set(e, ERR_INVALID, "mount %s: only a bind mount can map ids", m->destination);
	return 0;
}

static int set_attr(int fd, int recursive, uint64_t set, uint64_t clear, unsigned long propagation, const char *what,
		    struct err *e)
{
	struct mount_attr a = { .attr_set = set, .attr_clr = clear, .propagation = propagation };

	if (!set && !clear && !propagation)
		return 0;
	if (mount_setattr(fd, "", AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0), &a, sizeof(a)) < 0)
		return err_sys(e, "set the options of mount %s", what);
	return 0;
}

static int parse_mount_options(struct oci_mount *m, unsigned long dflt, struct err *e)
{
	if (set_attr(m->fd, 0, m->set, m->clear, 0, m->destination, e) < 0 ||
	    set_attr(m->fd, 1, m->below_set, m->below_clear, 0, m->destination, e) < 0)
		return -1;
	/*
	 * it may not be a peer of a host mount while it is attached; the requested propagation
	 * is set after that
	 */
	return set_attr(m->fd, 1, 0, 0, dflt & ~(unsigned long)MS_REC, m->destination, e);
}

int oci_mount_spread(const struct oci_mount *m, struct err *e)
{
	size_t i;

	for (i = 0; i < OCI_PROPAGATIONS && m->propagation[i]; i++)
		if (set_attr(m->fd, (m->propagation[i] & MS_REC) != 0, 0, 0, m->propagation[i] & ~(unsigned long)MS_REC,
			     m->destination, e) < 0)
			return -1;
	return 0;
}

/*
 * Checks that fd is the root of a mount: the kernel tells when we set attributes that it has
 * already.
 */
static int check_mounted(int fd, const char *what, struct err *e)
{
	struct mount_attr same = { 0 };
	struct statvfs st;

	if (fstatvfs(fd, &st) < 0)
		return err_sys(e, "look at %s", what);
	*(st.f_flag & ST_NOSUID ? &same.attr_set : &same.attr_clr) = MOUNT_ATTR_NOSUID;
	if (mount_setattr(fd, "", AT_EMPTY_PATH, &same, sizeof(same)) == 0)
		return 0;
	err_sys(e, "remount %s", what);
	return e->os_errno == EINVAL ? err_hint(e, "nothing is mounted there") : -1;
}

int oci_mount_again(struct oci_mount *m, int target_fd, struct err *e)
{
	m->fd = fcntl(target_fd, F_DUPFD_CLOEXEC, 3);
	if (m->fd < 0)
		return err_sys(e, "keep mount %s", m->destination);
	m->late = ((m->set | m->clear) & MOUNT_ATTR_RDONLY) != 0;
	if (check_mounted(m->fd, m->destination, e) < 0 ||
	    set_attr(m->fd, 0, m->set & ~(uint64_t)MOUNT_ATTR_RDONLY, m->clear, 0, m->destination, e) < 0)
		return -1;
	return set_attr(m->fd, 1, m->below_set, m->below_clear, 0, m->destination, e);
}

int oci_mount_late(const struct oci_mount *m, struct err *e)
{
	return set_attr(m->fd, 0, m->set & MOUNT_ATTR_RDONLY, m->clear & MOUNT_ATTR_RDONLY, 0, m->destination, e);
}

int oci_mount_bind(struct oci_mount *m, int source_fd, unsigned long dflt, int userns_fd,
		   struct err *e)
{
	const int opened = source_fd >= 0;

	m->fd = open_tree(opened ? source_fd : AT_FDCWD, opened ? "" : m->source, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC |
			  (opened ? AT_EMPTY_PATH : m->source_nofollow ? AT_SYMLINK_NOFOLLOW : 0) | (m->recursive ? AT_RECURSIVE : 0));
	if (m->fd < 0)
		return err_sys(e, "bind mount %s on %s", m->source, m->destination);
	if (userns_fd >= 0 && newmount_idmap(m->fd, m->idmap == 2, userns_fd, m->source, e) < 0)
		return -1;
	return parse_mount_options(m, dflt, e);
}

#define STRING_MAX 255	/* bytes of a value of fsconfig(2) */

/*
 * The layers of an overlay, one by one (Linux 6.8), as together they are longer than the kernel
 * takes. Behind "::" is a layer of data alone. -1 with errno.
 */
static int add_layers(int fs, const char *list)
{
	char one[STRING_MAX + 1];
	const char *s = list, *key = "lowerdir+";

	while (*s) {
		size_t n = 0;

		while (s[n] && s[n] != ':')
			n += s[n] == '\\' && s[n + 1] ? 2 : 1;
		if (!n || n > STRING_MAX) {
			errno = n ? ENAMETOOLONG : EINVAL;
			return -1;
		}
		memcpy(one, s, n);
		one[n] = '\0';
		if (fsconfig(fs, FSCONFIG_SET_STRING, key, one, 0) < 0)
			return -1;
		s += n;
		key = s[0] == ':' && s[1] == ':' ? "datadir+" : "lowerdir+";
		s += strspn(s, ":");
	}
	return 0;
}

static int set_oci_fs_string(int fs, const struct oci_mount *m, const char *key, const char *value)
{
	if (strlen(value) > STRING_MAX && !strcmp(m->type, "overlay") && !strcmp(key, "lowerdir"))
		return add_layers(fs, value);
	return fsconfig(fs, FSCONFIG_SET_STRING, key, value, 0);
}

/* Each word to the file system's context: "key=value", or a flag. */
static int configure_oci_fs(int fs, const struct oci_mount *m, const char *word, struct err *e)
{
	const char *eq = strchr(word, '=');
	char key[128], line[256];
	ssize_t n;

	if ((size_t)snprintf(key, sizeof(key), "%.*s", eq ? (int)(eq - word) : (int)strlen(word), word) >= sizeof(key)) {
		errno = EINVAL;
	} else if ((eq ? set_oci_fs_string(fs, m, key, eq + 1) : fsconfig(fs, FSCONFIG_SET_FLAG, key, NULL, 0)) == 0) {
		return 0;
	}
	err_sys(e, "mount %s (%s): option %s", m->destination, m->type, word);
	n = read(fs, line, sizeof(line) - 1);
	if (n > 2) {
		line[n] = '\0';
		line[strcspn(line, "\n")] = '\0';
		return err_hint(e, "the kernel says: %s", line + 2);
	}
	return -1;
}

/*
 * Tells whether word belongs to the file system, not to the mount: before the attribute API every
 * type took these MS_* flags.
 */
static int of_superblock(const char *word)
{
	static const char *const names[] = { "sync", "dirsync", "lazytime", "mand" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(names); i++)
		if (!strcmp(word, names[i]))
			return 1;
	return 0;
}

int oci_mount_new(struct oci_mount *m, struct err *e)
{
	autoclose int fs = fsopen(m->type, FSOPEN_CLOEXEC);
	const int queue = !strcmp(m->type, "mqueue"), sys = !strcmp(m->type, "sysfs");
	size_t i;

	if (fs < 0)
		return err_sys(e, "mount %s: file system type %s", m->destination, m->type);
	if (fsconfig(fs, FSCONFIG_SET_STRING, "source", m->source && *m->source ? m->source : m->type, 0) < 0)
		return err_sys(e, "mount %s (%s): source", m->destination, m->type);
	for (i = 0; i < m->words; i++) {
		/* mqueue and sysfs have no options; their label and the like are ours to leave out */
		if ((queue || sys) && !of_superblock(m->word[i]))
			return err_set(e, ERR_INVALID, "mount %s (%s): unknown option %s", m->destination, m->type, m->word[i]);
		if (configure_oci_fs(fs, m, m->word[i], e) < 0)
			return -1;
	}
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
		char line[256];
		ssize_t n;

		err_sys(e, "mount %s (%s)", m->destination, m->type);
		n = read(fs, line, sizeof(line) - 1);
		if (n > 2) {
			line[n] = '\0';
			line[strcspn(line, "\n")] = '\0';
			err_hint(e, "the kernel says: %s", line + 2);
		}
		return -1;
	}
	/* read-only comes after tmpcopyup; the rest now */
	m->fd = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)(m->set & ~(uint64_t)MOUNT_ATTR_RDONLY));
	if (m->fd < 0)
		return err_sys(e, "mount %s (%s)", m->destination, m->type);
	return 0;
}

/* ---- tmpcopyup ---- */

/* tmpcopyup: a directory's content, copied into the tmpfs that hides it. */

static int copy_bytes(int from, int to, off_t size)
{
	while (size > 0) {
		ssize_t n = sendfile(to, from, NULL, size > 1 << 20 ? 1 << 20 : (size_t)size);

		if (n < 0 && errno != EINTR)
			return -1;
		if (n == 0)
			break;
		size -= n > 0 ? n : 0;
	}
	return 0;
}

static int copy_up_dir(int from, int to, int depth, struct err *e);

static int copy_up_entry(int from, int to, const char *name, int depth, struct err *e)
{
	autoclose int in = -1, out = -1;
	char link[4097];
	struct stat st;
	ssize_t n;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "tmpcopyup: stat %s", name);
	if (S_ISDIR(st.st_mode)) {
		if (mkdirat(to, name, 0700) < 0)
			return err_sys(e, "tmpcopyup: make directory %s", name);
		in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (in < 0 || out < 0)
			return err_sys(e, "tmpcopyup: open directory %s", name);
		if (copy_up_dir(in, out, depth + 1, e) < 0)
			return -1;
	} else if (S_ISLNK(st.st_mode)) {
		n = readlinkat(from, name, link, sizeof(link) - 1);
		if (n < 0)
			return err_sys(e, "tmpcopyup: read link %s", name);
		link[n] = '\0';
		if (symlinkat(link, to, name) < 0)
			return err_sys(e, "tmpcopyup: make link %s", name);
	} else if (S_ISREG(st.st_mode)) {
		in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (in < 0 || out < 0 || copy_bytes(in, out, st.st_size) < 0)
			return err_sys(e, "tmpcopyup: copy %s", name);
	} else if (mknodat(to, name, st.st_mode, st.st_rdev) < 0) {
		return err_sys(e, "tmpcopyup: make %s", name);
	}
	if (fchownat(to, name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0 && errno != EINVAL && errno != EPERM)
		return err_sys(e, "tmpcopyup: own %s", name);
	if (!S_ISLNK(st.st_mode) && fchmodat(to, name, st.st_mode & 07777, 0) < 0)
		return err_sys(e, "tmpcopyup: mode of %s", name);
	return 0;
}

static int copy_up_dir(int from, int to, int depth, struct err *e)
{
	struct dirent *de;
	int fd, r = 0;
	DIR *d;

	if (depth > 128)
		return err_set(e, ERR_LIMIT, "tmpcopyup: directories nested deeper than 128");
	fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		if (fd >= 0)
			close(fd);
		return err_sys(e, "tmpcopyup: read a directory");
	}
	while (r == 0 && (de = readdir(d)))
		if (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)
			r = copy_up_entry(from, to, de->d_name, depth, e);
	closedir(d);
	return r;
}

int oci_copy_tree(int from_fd, int to_fd, struct err *e)
{
	struct stat st;

	if (fstat(from_fd, &st) < 0)
		return err_sys(e, "tmpcopyup: stat the directory");
	if (copy_up_dir(from_fd, to_fd, 0, e) < 0)
		return -1;
	return 0;
}
