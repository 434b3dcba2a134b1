/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_words - the vocabulary of seccomp profiles: actions, operators,
 * architectures, flags, errno and capability names.
 *
 * Each takes the JSON path for its message; an unknown word is ERR_INVALID, one
 * that berth cannot apply ERR_UNSUPPORTED.
 */
#ifndef BERTH_SECCOMP_PROFILE_WORDS_H
#define BERTH_SECCOMP_PROFILE_WORDS_H

#include <seccomp.h>
#include <stdint.h>

#include "base/err.h"

/* ret_data is 1 for the two actions that carry a number (errno, tracer message). */
int profile_word_action(const char *s, uint32_t *ret_action, int *ret_data, const char *path, struct err *e);
int profile_word_operator(const char *s, enum scmp_compare *ret_op, const char *path, struct err *e);
int profile_word_architecture(const char *s, const char *path, struct err *e);
int profile_word_flag(const char *s, const char *path, struct err *e);
/* "ENOSYS" */
int profile_word_errno(const char *s, uint64_t *ret_errno, const char *path, struct err *e);
/* "CAP_SYS_ADMIN" to 21 */
int profile_word_cap(const char *s, unsigned *ret_bit, const char *path, struct err *e);
/* Docker's name of the native architecture, as in includes.arches: "amd64". */
const char *profile_word_native_arch(void);

#endif
