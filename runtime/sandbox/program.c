/* SPDX-License-Identifier: Apache-2.0 */
/* The programs that run in a sandbox, as sealed copies in memory. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/sandbox/launch.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif

extern const char initblob_start[], initblob_end[], fileblob_start[], fileblob_end[];

/*
 * Init runs from a sealed copy in memory: /proc/1/exe leads to nothing of the
 * host that could be written, however it is reopened (CVE-2019-5736, E02).
 */
int sandbox_copy_program(const char *name, const char *start, const char *end, mode_t mode,
			 struct err *e)
{
	autoclose int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

	if (fd < 0 && errno == EINVAL)	/* before Linux 6.3 */
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || io_write_all(fd, start, (size_t)(end - start)) < 0 || fchmod(fd, mode) < 0)
		return err_sys(e, "copy %s to memory", name);
	if (fcntl(fd, F_ADD_SEALS, seals | F_SEAL_EXEC) < 0 && fcntl(fd, F_ADD_SEALS, seals) < 0)
		return err_sys(e, "seal %s", name);
	if ((fcntl(fd, F_GET_SEALS) & seals) != seals)
		return err_set(e, ERR_INTERNAL, "the seals of %s do not read back", name);
	return take_fd(&fd);
}

int sandbox_init_program(int unreadable, struct err *e)
{
	return sandbox_copy_program("berth-init", initblob_start, initblob_end,
				    unreadable ? 0111 : 0755, e);
}

/*
 * Returns the program, unreadable for the sandbox, so that it can neither trace the helper nor open
 * the helper's descriptors (would_dump() in fs/exec.c).
 */
int sandbox_file_program(struct err *e)
{
	return sandbox_copy_program("berth-fileop", fileblob_start, fileblob_end, 0111, e);
}
