/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_cli - what the verbs of berth-oci share.
 *
 * The tables of options feed parsing and help.  Names and forms are those of
 * runc and crun; an option that this runtime accepts for their sake and that
 * changes nothing says so in its help.
 */
#ifndef BERTH_CLI_OCI_CLI_H
#define BERTH_CLI_OCI_CLI_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

struct oci_global {
	const char *root;	/* NULL: the default */
	int root_fd;		/* opened by oci_root(); -1 */
	int debug;
	int makes;		/* the command makes a container, and the state root */
	int systemd;		/* cgroups are to be systemd's, for verbs that make a container */
	int step;		/* of a build (runtime/oci/step.h), for verbs that make a container */
	int systemd_program;	/* OCI_SYSTEMD_PROGRAM, for these; -1 */
	int passed;		/* descriptors from 3 up, without a gap, that the caller gave us: oci_passed_find() */
	int filled;		/* with those behind gaps that --preserve-fds asks for, and the gaps */
};

struct oci_option {
	const char *name;	/* NULL ends a table */
	char letter;		/* 0: none */
	const char *arg;	/* NULL: a switch */
	const char *help;
};

struct oci_verb {
	const char *name, *args, *summary;
	const struct oci_option *options;
	int min, max;		/* operands; max -1: any */
	int operands_end_options;	/* exec: words after the id are not ours */
	/* value is NULL for a switch.  index is the option's place in the table. */
	int (*set)(void *ctx, size_t index, const char *value, struct err *e);
	/* Returns the exit status, or -1 with e. */
	int (*run)(struct oci_global *g, void *ctx, char **operands, int count, struct err *e);
	void *ctx;
	int fail_status;	/* of an error; 0: 1 */
	const char *refused;	/* why this runtime lacks it, with any options; or NULL */
	int makes;		/* a container, and so its cgroup */
	int sealed;		/* runs from a sealed copy of the program (CVE-2019-5736, E02) */
};

extern const struct oci_verb oci_verb_create, oci_verb_run, oci_verb_start, oci_verb_state, oci_verb_kill,
	oci_verb_delete, oci_verb_exec, oci_verb_list, oci_verb_ps, oci_verb_pause, oci_verb_resume, oci_verb_update,
	oci_verb_events, oci_verb_spec, oci_verb_features, oci_verb_checkpoint, oci_verb_restore;

/* The state root, opened.  ERR_NOT_FOUND when it is missing and the command makes no container. */
int oci_root(struct oci_global *g, struct err *e);
/* path made absolute against the working directory, in memory that lives as long as the program. */
const char *oci_absolute(const char *path, struct err *e);
/* Prints j, indented, with a newline.  Takes the reference. */
void oci_print_json(void *j, int indent);

/*
 * In main(), with 0 to 2 open and nothing of ours but ours (-1: nothing): finds what the caller gave us, and where argv has
 * --preserve-fds keeps the numbers that are not open before others of these from everything of ours.  ERR_LIMIT: they are
 * too many.
 */
int oci_passed_find(struct oci_global *g, char **argv, int ours, struct err *e);
/* The argument of --preserve-fds: ERR_INVALID. */
int oci_preserve_number(const char *value, int *ret, struct err *e);
/* exec: how many to pass on, which are at most as many as the caller opened. */
void oci_passed_limit(const struct oci_global *g, int *preserve);
/* create, run: the same, with those of LISTEN_FDS before them, each of which has to be there: ERR_INVALID. */
int oci_passed_listen(const struct oci_global *g, int *preserve, int *ret_listen, struct err *e);

struct oci_made;
/*
 * In the foreground: passes signals on and, with a terminal, bytes, until the
 * process, which its document describes, ends.  Its exit status, 128+n for signal n; -1 with e.
 */
int oci_foreground(struct oci_made *m, const json_t *process, struct err *e);
/*
 * Copies to stderr what is left on the terminal of a container that could not be started, such
 * as a hook's message.
 */
void oci_last_words(const struct oci_made *m);
/* Before a container is started in the foreground: signals wait until oci_foreground(). */
int oci_hold_signals(struct err *e);

#endif
