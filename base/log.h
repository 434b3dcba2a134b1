/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log - the one place that prints to the operator's stderr.
 *
 * Messages carry hostile bytes (file names, output of a sandbox), so control
 * characters and invalid UTF-8 are replaced here and nowhere else (D07).
 */
#ifndef BERTH_BASE_LOG_H
#define BERTH_BASE_LOG_H

#include <stddef.h>

#include "base/err.h"

/* Writes "berth: MESSAGE\n" to stderr, cleaned, in one write. */
void log_error(const char *prog, const struct err *e);
void log_note(const char *prog, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/*
 * Copies s to out (n bytes, NUL-terminated), with '?' for each control or invalid byte, newlines
 * included unless keep_newlines.
 */
size_t log_clean(char *out, size_t n, const char *s, int keep_newlines);

#endif
