/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch - reports changes in a directory on stdout as they happen (inotify(7)).
 *
 * A record is one of the letters below, a blank, the name relative to the directory, and a NUL.
 * With the flag e the record of look.h follows, or two NULs if the name is gone already. The
 * kernel keeps unread events up to a limit; beyond it the watch ends with ERR_LIMIT, so no
 * change is lost silently.
 */
#ifndef BERTH_RUNTIME_FILEOP_WATCH_H
#define BERTH_RUNTIME_FILEOP_WATCH_H

#include "base/err.h"

#define WATCH_START 's' /* with an empty name: no later change is missed */
#define WATCH_CREATE 'c'
#define WATCH_WRITE 'w'
#define WATCH_REMOVE 'r' /* with ".": the directory itself is gone, and this is the last record */
#define WATCH_RENAME 'm'
#define WATCH_CHMOD 'a'

#define WATCH_DIRS_MAX 8192
#define WATCH_DEPTH_MAX 64

/* Implements "watch FLAGS PATH"; flags r: watch the directories below it too, e: with records of look.h. */
int watch_tell(char **a, struct err *e);

#endif
