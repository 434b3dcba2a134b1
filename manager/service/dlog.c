/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/service/dlog.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"

#define LINE_MAX_BYTES 16384

json_t *dlog_text(const char *s)
{
	char clean[4096];

	log_clean(clean, sizeof(clean), s ? s : "", 0);
	return json_string(clean);
}

void dlog_json(enum dlog_level level, json_t *line)
{
	static const char *const names[] = { "", "", "", "error", "warning", "notice", "info", "debug" };
	char stamp[40], when[64];
	autobuf struct buf b = BUF_INIT(LINE_MAX_BYTES);
	autofree char *text = NULL;
	struct timespec now;
	struct tm tm;
	struct err ignored;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(when, sizeof(when), "%s.%03ldZ", stamp, now.tv_nsec / 1000000);
	json_object_set_new(line, "time", json_string(when));
	json_object_set_new(line, "level", json_string(names[level]));
	text = json_dumps(line, JSON_COMPACT);
	json_decref(line);
	/* systemd sets JOURNAL_STREAM; sd-daemon(3) gives the prefix */
	if (text && buf_addf(&b, &ignored, secure_getenv("JOURNAL_STREAM") ? "<%d>%s\n" : "%.0d%s\n",
			     secure_getenv("JOURNAL_STREAM") ? (int)level : 0, text) == 0)
		(void)!io_write_all(STDERR_FILENO, b.data, b.len);
}

void dlog_note(enum dlog_level level, const char *fmt, ...)
{
	char msg[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	dlog_json(level, json_pack("{s:s,s:o}", "event", "note", "message", dlog_text(msg)));
}

void dlog_error(const char *what, const struct err *e)
{
	dlog_json(DLOG_ERROR, json_pack("{s:s,s:s,s:s,s:o}", "event", "error", "what", what, "code", err_name(e->code), "message",
					dlog_text(e->msg)));
}
