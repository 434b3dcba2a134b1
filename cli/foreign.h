/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign - words of docker, podman, runc and others that berth lacks, each with the berth command
 * that does the same.
 *
 * Pure. Used only for words that berth does not know itself, so that a row here never hides a
 * command or an option.
 */
#ifndef BERTH_CLI_FOREIGN_H
#define BERTH_CLI_FOREIGN_H

/* The hint for an unknown command, "rmi"; NULL without one. */
const char *foreign_command(const char *word);
/* The hint for an unknown option of a berth command, "-d" or "--rm"; NULL without one. */
const char *foreign_option(const char *command, const char *option);

#endif
