/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sftp - serves the SSH File Transfer Protocol on stdin and stdout.
 *
 * Version 3 (draft-ietf-secsh-filexfer-02) with what OpenSSH adds (its PROTOCOL file): posix-rename,
 * hardlink, fsync, lsetstat, statvfs and limits.  The client is the caller, and every path is
 * resolved in the sandbox, where this program runs.  Owners are numbers, because no names are looked
 * up; only regular files and directories are opened, without waiting.  Memory is bounded by two
 * packets and SFTP_HANDLES handles.
 */
#ifndef BERTH_RUNTIME_FILEOP_SFTP_H
#define BERTH_RUNTIME_FILEOP_SFTP_H

#include "base/err.h"

#define SFTP_PACKET 262144	/* as OpenSSH has it */
#define SFTP_DATA 261120	/* bytes of one read or write */
#define SFTP_HANDLES 256

/* Serves until stdin ends: 0, or -1 with ERR_CORRUPT for what is no packet, or ERR_SYS. */
int sftp_serve(char **a, struct err *e);

#endif
