/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_process - carries out `process` of a configuration (config.md, "Process"), in the process
 * that becomes it.
 *
 * Used by the container's first process and by `exec`.  Everything is looked up
 * in the container's root, which is this process's root by then; files of the
 * image are read without blocking and with a ceiling (E12).  Procfs is only used
 * through proc_fd, the host's, opened before the root was entered: the container's
 * own may be anything (E05).  It is closed before any path of the image is looked up.
 */
#ifndef BERTH_RUNTIME_OCI_PROCESS_H
#define BERTH_RUNTIME_OCI_PROCESS_H

#include <jansson.h>
#include <sys/types.h>

#include "base/err.h"
#include "runtime/oci/seccomp.h"

struct oci_process {
	const json_t *doc;	/* the `process` object, borrowed */
	int proc_fd;		/* the host's /proc, until oci_process_look() */
	int setgroups_denied, apparmor_fd, selinux_fd;	/* what oci_process_look() found */
	int in_userns;		/* ids may be missing from the map */
	int keep_groups;	/* annotation run.oci.keep_original_groups: the caller's supplementary
				 * groups stay */
	int listen_fds;		/* how many descriptors LISTEN_FDS passed on; their LISTEN_PID is 1 or ours */
	int in_cwd;		/* oci_process_chdir() succeeded */
	char **env;		/* what oci_process_prepare() made */
	char **argv;
	char path[4096];	/* the program */
};

/*
 * Sets the OOM score, rlimits, priority and scheduler of the process pid, from the runtime: its
 * capabilities are those of the host's user namespace.
 */
int oci_process_limits(const json_t *process, pid_t pid, int proc_fd, struct err *e);
/* Gives stdin, stdout and stderr to the user of process, as far as possible. */
void oci_process_own_stdio(const json_t *process);
/*
 * Takes everything needed from proc_fd, which may be closed afterwards. The files of labels are
 * written with the credentials that opened them: oci_process_become() has the same.
 */
int oci_process_look(struct oci_process *p, struct err *e);
/*
 * Prepares the environment with HOME and the argument list; finds the program in PATH.
 * ERR_EXEC_NOT_FOUND, ERR_EXEC.
 */
int oci_process_prepare(struct oci_process *p, struct err *e);
/* Enters cwd as root; if that fails, oci_process_become() tries again as the user. */
int oci_process_chdir(struct oci_process *p, struct err *e);
/*
 * Turns this process into the user's: labels, groups, ids, capabilities, no_new_privs and the
 * filter, in the order that these need. A filter with notifications is reported on sock
 * (oci_tell_listener()).
 */
int oci_process_become(struct oci_process *p, const struct oci_seccomp *filter, int sock, struct err *e);
/* Calls execve(2). Returns only with e. */
int oci_process_exec(const struct oci_process *p, struct err *e);

/* Allows every CPU of the cpuset, even if the caller was pinned to fewer. */
void oci_process_affinity_all(void);
/* Sets the CPU list, such as "0-2,5", as this process's affinity. */
int oci_process_affinity(const char *list, struct err *e);

#endif
