/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_log - writes the log that an engine reads from --log: lines of text, or of JSON with "level",
 * "msg" and "time" (RFC 3339).
 *
 * Set up once at the start of the program; the container's set-up process, a
 * fork of it, writes to the same descriptor.  Messages carry hostile bytes:
 * control characters are escaped.
 */
#ifndef BERTH_RUNTIME_OCI_LOG_H
#define BERTH_RUNTIME_OCI_LOG_H

#include "base/err.h"

enum oci_level { OCI_ERROR, OCI_WARNING, OCI_INFO, OCI_DEBUG };

/* Opens the log; path NULL: standard error. The level defaults to OCI_WARNING. */
int oci_log_open(const char *path, int json, enum oci_level level, struct err *e);
int oci_log_level(const char *word, enum oci_level *ret, struct err *e);
void oci_log(enum oci_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Returns the descriptor of the log. */
int oci_log_fd(void);
/* Reports the one error that ends a command: to the log, and to standard error if that is another place. */
void oci_log_fatal(const struct err *e);

#endif
