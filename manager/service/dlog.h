/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlog - writes berthd's log: one JSON object a line on stderr, with the priority in front ("<5>")
 * if stderr is the journal. Values are escaped, so no text can forge a line.
 */
#ifndef BERTH_MANAGER_SERVICE_DLOG_H
#define BERTH_MANAGER_SERVICE_DLOG_H

#include "base/err.h"
#include "base/json.h"

enum dlog_level { DLOG_ERROR = 3, DLOG_WARNING = 4, DLOG_NOTICE = 5, DLOG_INFO = 6, DLOG_DEBUG = 7 };

/* Adds "time" and "level", prints, consumes line.  Any thread. */
void dlog_json(enum dlog_level level, json_t *line);
void dlog_note(enum dlog_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void dlog_error(const char *what, const struct err *e);
/* Turns a string of any bytes into a JSON string; bytes that are not text are replaced. Never NULL. */
json_t *dlog_text(const char *s);

#endif
