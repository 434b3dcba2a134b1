/* SPDX-License-Identifier: Apache-2.0 */
/*
 * initproto - the messages between the supervisor and a sandbox's init.
 *
 * One SOCK_SEQPACKET socket pair, one message per packet, fixed headers. Init trusts the
 * supervisor's messages. Init's messages are hostile input to the supervisor, which reads them
 * without ancillary data into a buffer of exactly sizeof(struct init_reply) and checks every
 * field.
 *
 * The two sides are always the same build (init is embedded in berth), so the structs need no
 * versions, only INIT_MAGIC against confusion.
 */
#ifndef BERTH_RUNTIME_SANDBOX_INITPROTO_H
#define BERTH_RUNTIME_SANDBOX_INITPROTO_H

#include <stdint.h>

#include "base/err.h"
#include "runtime/kernel/rlimits.h"

#define INIT_MAGIC 0x62657274u
#define INIT_SOCKET_FD 3	/* the only descriptor init is born with, besides 0-2 on /dev/null */
#define INIT_INLINE_MAX 32768	/* larger blobs come as a memfd */
#define INIT_BLOB_MAX (8u << 20)
#define INIT_FDS_MAX 16
#define INIT_SCRIPT_FD 8	/* one digit: dash redirects no longer number */
#define INIT_STATUS_FD 9
#define INIT_FILTERS 3
#define INIT_FILTER_MAX 4096	/* BPF_MAXINSNS */

enum init_request_type {
	INIT_EXEC = 1,	/* run a command; descriptors: 0, 1, 2 [, 8, 9] [, program] [, blob] [, cgroup] [, v1 tasks files ...] */
	INIT_SIGNAL,	/* signal the leader of command seq */
	/* the child signo, which init did not start (graft.h), is command seq; flags: INIT_LAST */
	INIT_ADOPT,
	INIT_PING,	/* answered by INIT_STATUS: init runs, confined as expected, and no other process
			 * does yet */
};

enum init_exec_flags {
	INIT_TTY = 1,		/* fd 0 is a pty slave: make it the controlling terminal */
	INIT_LAST = 2,		/* init ends when this command does */
	INIT_BLOB_FD = 4,	/* the blob is in a memfd, the last descriptor */
	INIT_MAKE_CWD = 8,	/* make the working directory when it is missing */
	INIT_SHELL = 32,	/* the next two descriptors become 8 and 9: a shell's script and its status pipe */
	INIT_EXEC_FD = 64,	/* the next descriptor is the program, argv[0] only its name */
	INIT_CGROUP = 16,	/* the next descriptor is the v2 cgroup the command is born in */
	/*
	 * no one waits for INIT_STARTED: it may come a millisecond late, with the end of a short
	 * command
	 */
	INIT_LATE_START = 128,
	INIT_QUIET = 256,	/* no INIT_STARTED: it would only wake the supervisor */
};

/* The state that init must find in its own /proc/self before it starts anything (T10). */
struct init_expect {
	uint64_t cap_bounding;
	uint32_t seccomp_filters;	/* at least init's own; 0: not checked, the caller asked for
					 * unconfined */
	uint32_t no_new_privs;
};

/*
 * Followed by the blob: the seccomp filters of the payload, in the order they are
 * loaded, as struct sock_filter arrays; then user NUL cwd NUL argv[0] NUL ... env[0] NUL ...
 */
struct init_request {
	uint32_t magic;
	uint32_t type;
	uint32_t seq;
	uint32_t flags;
	uint32_t signo;
	uint32_t argc;
	uint32_t envc;
	uint32_t umask;
	uint32_t blob_len;
	uint32_t filter_len[INIT_FILTERS];	/* in instructions; 0: no filter */
	uint64_t filter_secret;	/* the secret with which the payload's filters pass init's own */
	uint32_t tasks;		/* number of v1 `tasks` files, the last of the descriptors */
	struct rlimits rlimits;
	struct init_expect expect;
};

enum init_reply_type {
	INIT_SETUP_FAILED = 1,	/* sent before init runs, or if it is not confined as expected: err names
				 * the step */
	INIT_STARTED,		/* command seq runs as pid (in the sandbox's pid namespace) */
	INIT_EXEC_FAILED,	/* err: ERR_EXEC or ERR_EXEC_NOT_FOUND, or a step that failed */
	INIT_EXITED,
	INIT_STATUS,		/* the answer to INIT_PING */
};

struct init_reply {
	uint32_t magic;
	uint32_t type;
	uint32_t seq;
	int32_t pid;
	uint32_t exited;	/* 1: value is an exit code, 0: a signal */
	uint32_t value;
	uint32_t core;
	uint32_t left_behind;	/* processes that still ran when the command ended */
	struct err err;
};

#endif
