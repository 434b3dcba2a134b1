/* SPDX-License-Identifier: Apache-2.0 */
/*
 * imageprog - berth-image, the program for cold work on images.
 *
 * A program of its own, so that its libraries are not on the hot path.  It is
 * taken from the directory of this executable, then from ../libexec/berth;
 * never from PATH.
 */
#ifndef BERTH_CLI_RUN_IMAGEPROG_H
#define BERTH_CLI_RUN_IMAGEPROG_H

#include "base/err.h"
#include "cli/command.h"

/* Becomes berth-image with argv; argv[0] is replaced.  Returns only on failure. */
int imageprog_exec(char **argv, struct err *e);
/*
 * Runs `berth-image VERB argv[1..]`: for a command of berth that is one of
 * berth-image's.  Returns the exit status when that fails.
 */
int imageprog_command(const struct command *self, const char *verb, int argc, char **argv);

/*
 * Pulls ref for a sandbox that wants it, with progress on stderr when that is a
 * terminal and not quiet.  The error is berth-image's own.
 */
int imageprog_ensure(const char *ref, int quiet, struct err *e);

#endif
