/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/oci/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"

/* process-wide by nature: a program has one log */
static struct {
	int fd, json;
	enum oci_level level;
} out = { STDERR_FILENO, 0, OCI_WARNING };

static const char *const words[] = { [OCI_ERROR] = "error", [OCI_WARNING] = "warning", [OCI_INFO] = "info",
				     [OCI_DEBUG] = "debug" };

int oci_log_open(const char *path, int json, enum oci_level level, struct err *e)
{
	int fd;

	out.json = json;
	out.level = level;
	/* as in crun; its journald: and syslog: are not files */
	if (path && !strncmp(path, "file:", 5))
		path += 5;
	else if (path && (!strncmp(path, "journald:", 9) || !strncmp(path, "syslog:", 7)))
		return err_set(e, ERR_UNSUPPORTED, "--log %.32s: only files are written to", path);
	if (!path || !*path || !strcmp(path, "/dev/stderr"))
		return 0;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644);
	if (fd < 0)
		return err_sys(e, "open log file %s", path);
	/* out of the way of the descriptors that --preserve-fds counts */
	out.fd = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	if (out.fd < 0)
		out.fd = fd;
	else
		close(fd);
	return 0;
}

int oci_log_level(const char *word, enum oci_level *ret, struct err *e)
{
	static const struct { const char *word; enum oci_level level; } more[] = {
		{ "warn", OCI_WARNING }, { "fatal", OCI_ERROR }, { "panic", OCI_ERROR }, { "trace", OCI_DEBUG },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++) {
		if (!strcmp(word, words[i])) {
			*ret = (enum oci_level)i;
			return 0;
		}
	}
	for (i = 0; i < ARRAY_LEN(more); i++) {
		if (!strcmp(word, more[i].word)) {
			*ret = more[i].level;
			return 0;
		}
	}
	return err_set(e, ERR_USAGE, "log level '%.32s' is not error, warning, info or debug", word);
}

static void log_time_now(char text[40])
{
	struct timespec t;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &t);
	gmtime_r(&t.tv_sec, &tm);
	strftime(text, 40, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

/* s as the inside of a JSON string, or of a quoted logfmt value, which wants the same. */
static size_t quote_log_json(char *to, size_t n, const char *s)
{
	size_t len = 0;

	for (; *s && len + 8 < n; s++) {
		const unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			len += (size_t)snprintf(to + len, n - len, "\\%c", c);
		else if (c == '\n')
			len += (size_t)snprintf(to + len, n - len, "\\n");
		else if (c < ' ' || c == 0x7f)
			len += (size_t)snprintf(to + len, n - len, "\\u%04x", c);
		else
			to[len++] = (char)c;
	}
	to[len] = '\0';
	return len;
}

static void write_oci_log_line(enum oci_level level, const char *msg)
{
	char when[40], body[3000], line[3200];
	int n;

	if (level > out.level)
		return;
	log_time_now(when);
	if (out.json || out.fd != STDERR_FILENO)
		quote_log_json(body, sizeof(body), msg);
	else
		log_clean(body, sizeof(body), msg, 0);
	if (out.json)
		n = snprintf(line, sizeof(line), "{\"level\":\"%s\",\"msg\":\"%s\",\"time\":\"%s\"}\n", words[level], body, when);
	else if (out.fd == STDERR_FILENO)
		n = snprintf(line, sizeof(line), "berth-oci: %s%s\n", level == OCI_WARNING ? "warning: " : "", body);
	else
		n = snprintf(line, sizeof(line), "time=\"%s\" level=%s msg=\"%s\"\n", when, words[level], body);
	io_write_all(out.fd, line, (size_t)n);
}

int oci_log_fd(void)
{
	return out.fd;
}

void oci_log(enum oci_level level, const char *fmt, ...)
{
	char msg[1500];
	va_list ap;

	if (level > out.level)
		return;
	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	write_oci_log_line(level, msg);
}

void oci_log_fatal(const struct err *e)
{
	write_oci_log_line(OCI_ERROR, e->msg);
	if (out.fd != STDERR_FILENO)
		log_error("berth-oci", e);
}
