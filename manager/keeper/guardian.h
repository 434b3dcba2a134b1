/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guardian - the parent of a keeper whose sandbox has a restart policy.
 *
 * It is the process between the caller and the keeper; without a policy it ends at once. When
 * the caller was told that the sandbox runs, it becomes the small program of "berth guard", with
 * no descriptors, in a session of its own, and waits for the keeper's end.
 */
#ifndef BERTH_MANAGER_KEEPER_GUARDIAN_H
#define BERTH_MANAGER_KEEPER_GUARDIAN_H

#include <stdint.h>

/*
 * Waits until the keeper, our child, reports at go_fd, and becomes the guardian of sandbox id;
 * ends if the keeper ends before. backoff_ms: the wait before this start, or 0.
 */
void guardian_become(const char *id, uint64_t backoff_ms, int go_fd) __attribute__((noreturn));
/*
 * Executes berth anew as "berth guard" and the words that follow, up to NULL; returns when it
 * cannot.
 */
void guardian_exec(const char *word, ...) __attribute__((sentinel));

#endif
