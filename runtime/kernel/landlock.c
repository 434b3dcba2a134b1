/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/kernel/landlock.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"

/* linux/landlock.h of Linux 6.12; Debian 12's headers are older. */
struct ruleset_attr {
	uint64_t handled_access_fs;
	uint64_t handled_access_net;
	uint64_t scoped;
};

struct path_beneath_attr {
	uint64_t allowed_access;
	int32_t parent_fd;
} __attribute__((packed));

enum {
	CREATE_RULESET_VERSION = 1,
	RULE_PATH_BENEATH = 1,
	FS_EXECUTE = 1 << 0,
	FS_WRITE_FILE = 1 << 1,
	FS_READ_FILE = 1 << 2,
	FS_READ_DIR = 1 << 3,
	FS_MAKE_CHAR = 1 << 6,
	FS_MAKE_BLOCK = 1 << 11,
	FS_REFER = 1 << 13,
	FS_ALL_OF_1 = (1 << 13) - 1,
	FS_TRUNCATE = 1 << 14,
	SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 0,
	SCOPE_SIGNAL = 1 << 1,
};

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

int landlock_confine(struct err *e)
{
	int abi = landlock_abi();
	struct ruleset_attr attr = {
		/* REFER is denied in every domain unless handled and allowed: that would break rename(2) */
		.handled_access_fs = FS_MAKE_CHAR | FS_MAKE_BLOCK | FS_REFER,
		.scoped = abi >= 6 ? SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL : 0,
	};
	size_t size = abi >= 6 ? sizeof(attr) : abi >= 4 ? 16 : 8;
	autoclose int ruleset = -1, root = -1;
	struct path_beneath_attr beneath = { .allowed_access = FS_REFER };

	if (abi < 2)
		return 0;
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ruleset < 0 || root < 0)
		return err_sys(e, "make a Landlock ruleset");
	beneath.parent_fd = root;
	if (syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &beneath, 0) < 0)
		return err_sys(e, "add a Landlock rule");
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return err_sys(e, "enter the Landlock domain");
	return 0;
}

struct landlock_words landlock_home(int root_fd)
{
	const struct path_beneath_attr b = {
		.allowed_access = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_REFER |
				  (landlock_abi() >= 3 ? FS_TRUNCATE : 0),
		.parent_fd = root_fd,
	};
	struct landlock_words w = { .ruleset = { b.allowed_access } };

	_Static_assert(sizeof(w.beneath) == sizeof(b), "linux/landlock.h");
	memcpy(w.beneath, &b, sizeof(b));
	return w;
}

int landlock_seal(struct err *e)
{
	int abi = landlock_abi();
	struct ruleset_attr attr = {
		.handled_access_fs = FS_ALL_OF_1 | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0),
		.scoped = abi >= 6 ? SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL : 0,
	};
	autoclose int ruleset = -1;

	if (abi < 1)
		return 0;
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr, abi >= 6 ? sizeof(attr) : abi >= 4 ? 16 : 8, 0);
	if (ruleset < 0 || syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return err_sys(e, "enter a Landlock domain without files");
	return 0;
}

static int landlock_allow_below(int ruleset, int dir_fd, uint64_t access)
{
	struct path_beneath_attr beneath = { .allowed_access = access, .parent_fd = dir_fd };

	return (int)syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &beneath, 0);
}

int landlock_copy(int from_fd, int to_fd, struct err *e)
{
	int abi = landlock_abi();
	const uint64_t all = FS_ALL_OF_1 | (abi >= 2 ? FS_REFER : 0) | (abi >= 3 ? FS_TRUNCATE : 0);
	struct ruleset_attr attr = {
		.handled_access_fs = all,
		.scoped = abi >= 6 ? SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL : 0,
	};
	autoclose int ruleset = -1;

	if (abi < 2)	/* the first version forbids hard links between directories */
		return 0;
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attr,
			       abi >= 6 ? sizeof(attr) : abi >= 4 ? 16 : 8, 0);
	if (ruleset < 0 || landlock_allow_below(ruleset, from_fd, FS_READ_FILE | FS_READ_DIR) < 0 ||
	    landlock_allow_below(ruleset, to_fd, all & ~(uint64_t)(FS_EXECUTE | FS_MAKE_CHAR | FS_MAKE_BLOCK)) < 0)
		return err_sys(e, "make a Landlock ruleset");
	if (syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		return err_sys(e, "enter the Landlock domain");
	return 0;
}
