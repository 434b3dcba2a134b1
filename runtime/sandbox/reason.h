/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reason - the words that tell people why a command ended.
 *
 * Read from the verdict as JSON, which a command here and one of another host both have.  The words of
 * a cause stand in VERDICT_CAUSES.
 */
#ifndef BERTH_RUNTIME_SANDBOX_REASON_H
#define BERTH_RUNTIME_SANDBOX_REASON_H

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

/*
 * Appends why the command of verdict ended, in one sentence without a newline: "killed: the memory limit
 * was reached (64 MiB)".  Returns 1, or 0 when there is nothing to add to the exit status: it ended by
 * itself, or verdict is NULL or no verdict.
 */
int reason_text(const json_t *verdict, struct buf *out, struct err *e);

/* Appends "hint: --memory", or for a sandbox that lives "hint: berth update --memory"; nothing when no option allows more. */
int reason_hint(const json_t *verdict, int lives, struct buf *out, struct err *e);

/*
 * Tells it with its hint on stderr, if that is a terminal, so that no program finds more in the stderr of
 * its command than the command wrote.  CAUSE_LOST is told to everybody: the exit status 125 is then
 * ours.  lives: the sandbox does.  Returns whether the cause is CAUSE_LOST.
 */
int reason_tell(const char *prog, const json_t *verdict, int lives);
/* The same for the text of a verdict, of a sandbox that ends with its command. */
void reason_tell_text(const char *prog, const struct buf *verdict);

#endif
