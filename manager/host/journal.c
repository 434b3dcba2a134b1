/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/encoding.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"

/* ---- the log ---- */

#define CHUNK 65536
#define LOCK_PAUSE_NS 200000
#define LOCK_TRIES 4000	/* about a second */

void journal_time(const struct timespec *t, char out[JOURNAL_TIME])
{
	struct tm tm;
	size_t n;

	gmtime_r(&t->tv_sec, &tm);
	n = strftime(out, JOURNAL_TIME, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + n, JOURNAL_TIME - n, ".%03ldZ", t->tv_nsec / 1000000);
}

/*
 * RFC 3339 behind its seconds: a fraction of any length, then Z or an offset such as +02:00.  Within a second the
 * recorded times go on with ".", which is less than "Z", so that there always is a fraction.  1, or 0 for another text.
 */
static int whole_time(const char *text, char out[JOURNAL_TIME])
{
	struct timespec t = { 0 };
	const char *p = text + 19;
	unsigned hours, minutes;
	struct tm tm = { 0 };
	long unit = 100000000;
	int end = 0;

	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++, unit /= 10)
			t.tv_nsec += (*p - '0') * unit;
	if (!strptime(text, "%Y-%m-%dT%H:%M:%S", &tm))
		return 0;
	t.tv_sec = timegm(&tm);
	if ((*p == '+' || *p == '-') && sscanf(p + 1, "%2u:%2u%n", &hours, &minutes, &end) == 2 && end == 5 && !p[6] && hours < 24 && minutes < 60)
		t.tv_sec -= (*p == '+' ? 1 : -1) * (time_t)(hours * 3600 + minutes * 60);
	else if (strcmp(p, "Z"))
		return 0;
	journal_time(&t, out);
	return 1;
}

int journal_since(const char *text, char out[JOURNAL_TIME], struct err *e)
{
	static const char shape[] = "0000-00-00T00:00:00.000Z";
	struct timespec now;
	uint64_t ms;
	size_t i;

	for (i = 0; i < sizeof(shape) - 1 && text[i]; i++)
		if (shape[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != shape[i])
			break;
	if (i >= 10 && !text[i]) {
		snprintf(out, JOURNAL_TIME, "%s", text);
		return 0;
	}
	if (i >= 19 && whole_time(text, out))
		return 0;
	if (num_duration_ms(text, "since", 366ULL * 86400000 * 50, &ms, e) < 0)
		return err_set(e, ERR_INVALID, "'%.60s' is not a time; hint: 10m (ago), or 2026-11-21T08:00:00Z", text);
	clock_gettime(CLOCK_REALTIME, &now);
	now.tv_sec -= (time_t)(ms / 1000);
	now.tv_nsec -= (long)(ms % 1000) * 1000000;
	if (now.tv_nsec < 0) {
		now.tv_nsec += 1000000000;
		now.tv_sec--;
	}
	journal_time(&now, out);
	return 0;
}

/* ---- writing ---------------------------------------------------------------------- */

static uint64_t journal_file_base(int fd)
{
	char line[64];
	ssize_t n = pread(fd, line, sizeof(line) - 1, 0);
	uint64_t base;

	line[n > 0 ? n : 0] = '\0';
	return sscanf(line, "{\"base\":%" SCNu64 "}", &base) == 1 ? base : 0;
}

static int write_base(int fd, uint64_t base)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "{\"base\":%" PRIu64 "}\n", base);

	return io_write_all(fd, line, (size_t)n);
}

/*
 * The holder of the lock writes a line. If that process was stopped, it must not stop all
 * others: then the line is not written, and the next lines wait for a shorter time.
 */
static int lock_for_a_while(struct journal *j)
{
	struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };
	unsigned left = j->stuck ? 1 : LOCK_TRIES;

	while (flock(j->fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -1;
		if (!--left) {
			j->stuck = 1;
			errno = EWOULDBLOCK;
			return -1;
		}
		nanosleep(&pause, NULL);
	}
	j->stuck = 0;
	return 0;
}

/*
 * The current file, locked: 0 with its size. After a wait for the lock the files may have
 * changed.
 */
static int lock_current(struct journal *j, uint64_t *ret_size, struct err *e)
{
	struct stat st, now;
	int tries;

	for (tries = 0; tries < 100; tries++) {
		if (j->fd < 0)
			j->fd = openat(j->dir_fd, j->name, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (j->fd < 0)
			return err_sys(e, "open the journal %s", j->name);
		if (lock_for_a_while(j) < 0 || fstat(j->fd, &st) < 0)
			return errno == EWOULDBLOCK ? err_set(e, ERR_BUSY, "the journal %s is held by a process that does not go on", j->name) :
						      err_sys(e, "lock the journal %s", j->name);
		if (!fstatat(j->dir_fd, j->name, &now, AT_SYMLINK_NOFOLLOW) && now.st_ino == st.st_ino && now.st_dev == st.st_dev) {
			*ret_size = (uint64_t)st.st_size;
			return 0;
		}
		fd_close(&j->fd);
	}
	return err_set(e, ERR_BUSY, "the journal %s changes all the time", j->name);
}

/* The full file becomes the older one; a new one follows it.  Both locks are held until the new one says where it begins. */
static int turn_journal(struct journal *j, uint64_t size, struct err *e)
{
	uint64_t base = journal_file_base(j->fd) + size;
	char older[72], fresh[72];
	autoclose int fd = -1;

	snprintf(older, sizeof(older), "%s.1", j->name);
	snprintf(fresh, sizeof(fresh), "%s.new", j->name);
	unlinkat(j->dir_fd, fresh, 0);
	fd = openat(j->dir_fd, fresh, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX) < 0 || write_base(fd, base) < 0 ||
	    renameat(j->dir_fd, j->name, j->dir_fd, older) < 0 || renameat(j->dir_fd, fresh, j->dir_fd, j->name) < 0)
		return err_sys(e, "begin the next file of the journal %s", j->name);
	fd_close(&j->fd);
	j->fd = take_fd(&fd);
	return 0;
}

int journal_add_lines(struct journal *j, const char *lines, size_t n, struct err *e)
{
	char last = '\n';
	uint64_t size = 0;
	int r = -1;

	if (lock_current(j, &size, e) < 0)
		return -1;
	if (!size || size > j->max_bytes) {
		if (size ? turn_journal(j, size, e) < 0 : write_base(j->fd, 0) < 0)
			goto out;
	} else if (pread(j->fd, &last, 1, (off_t)size - 1) == 1 && last != '\n' && io_write_all(j->fd, "\n", 1) < 0) {
		/* a line that a crash cut short must not be joined to ours */
		goto out;
	}
	r = io_write_all(j->fd, lines, n) < 0 ? err_sys(e, "write to the journal %s", j->name) : 0;
out:
	flock(j->fd, LOCK_UN);
	return r;
}

#define EACH(byte) ((byte) * UINT64_C(0x0101010101010101))

/* Whether eight bytes stand for themselves in a string: none is below 0x20, above 0x7f, a quote or a backslash. */
static int are_plain(const unsigned char *s)
{
	uint64_t v, quote, backslash;

	memcpy(&v, s, sizeof(v));
	quote = v ^ EACH('"');
	backslash = v ^ EACH('\\');
	/* a byte borrows from the one above only where it is marked itself, or that one is above 0x7f */
	return !((v | (v - EACH(0x20)) | (quote - EACH(1)) | (backslash - EACH(1))) & EACH(0x80));
}

/* Tells how many bytes from s on stand for themselves in a string, or are no character (0). */
static size_t plain_run(const unsigned char *s, size_t n)
{
	size_t i = 0, len;

	while (i < n) {
		if (n - i >= 8 && are_plain(s + i)) {
			i += 8;
			continue;
		}
		if (s[i] < 0x20 || s[i] == '"' || s[i] == '\\')
			break;
		if (s[i] < 0x80) {
			i++;
			continue;
		}
		len = utf8_len(s + i, n - i);
		if (!len)
			break;
		i += len;
	}
	return i;
}

size_t journal_escape(unsigned char c, char *out)
{
	static const char named[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt", digits[] = "0123456789ABCDEF";
	const char *name = strchr(named, c);

	out[0] = '\\';
	if (name) {
		out[1] = letters[name - named];
		return 2;
	}
	memcpy(out + 1, "u00", 3);
	out[4] = digits[c >> 4];
	out[5] = digits[c & 15];
	return JOURNAL_ESCAPE;
}

int journal_add_text(struct buf *b, const char *p, size_t n, struct err *e)
{
	const unsigned char *s = (const unsigned char *)p;
	size_t i, run;

	if (buf_reserve(b, n + n / 16 + 2, e) < 0 || buf_add(b, "\"", 1, e) < 0)
		return -1;
	for (i = 0; i < n; i++) {
		char escape[JOURNAL_ESCAPE];

		run = plain_run(s + i, n - i);
		if (run && buf_add(b, p + i, run, e) < 0)
			return -1;
		i += run;
		if (i == n)
			break;
		if (!s[i] || s[i] >= 0x80)
			return 1;
		if (buf_add(b, escape, journal_escape(s[i], escape), e) < 0)
			return -1;
	}
	return buf_add(b, "\"", 1, e);
}

int journal_end_line(struct buf *line, struct err *e)
{
	char stamp[JOURNAL_TIME];
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	journal_time(&now, stamp);
	return buf_addf(line, e, ",\"time\":\"%s\"}\n", stamp);
}

int journal_add(struct journal *j, json_t *entry, struct err *e)
{
	autobuf struct buf b = BUF_INIT(JOURNAL_LINE_MAX);
	autofree char *own = NULL;
	const char *text;
	char room[1024];
	size_t n;
	int r = -1;

	text = json_text(entry, room, sizeof(room), &own, &n);
	if (!text)
		err_nomem(e);
	/* without its last brace */
	else if (buf_add(&b, text, n - 1, e) == 0 && journal_end_line(&b, e) == 0)
		r = journal_add_lines(j, b.data, b.len, e);
	json_decref(entry);
	return r;
}

void journal_close(struct journal *j)
{
	fd_close(&j->fd);
}

/* ---- reading ------------------------------------------------------------------------ */

/* Opens the file name, if it holds cursor or anything after it: 1, else 0. */
static int open_journal_file(struct journal_reader *r, const char *name, uint64_t cursor, int whatever)
{
	autoclose int fd = openat(r->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	uint64_t base;

	if (fd < 0 || fstat(fd, &st) < 0 || !st.st_size)
		return 0;
	base = journal_file_base(fd);
	if (!whatever && cursor >= base + (uint64_t)st.st_size)
		return 0;
	if (cursor && cursor < base)
		r->lost += base - cursor;
	fd_close(&r->fd);
	r->fd = take_fd(&fd);
	r->base = base;
	r->at = cursor > base ? cursor : base;
	r->b.len = r->done = 0;
	return 1;
}

int journal_open(struct journal_reader *r, int dir_fd, const char *name, uint64_t cursor, struct err *e)
{
	char older[72];

	*r = (struct journal_reader){ .dir_fd = dir_fd, .name = name, .fd = -1, .end = UINT64_MAX,
					.b = BUF_INIT(2 * JOURNAL_LINE_MAX) };
	snprintf(older, sizeof(older), "%s.1", name);
	if (!open_journal_file(r, older, cursor, 0) && !open_journal_file(r, name, cursor, 1))
		r->at = cursor;
	if (r->fd >= 0 && r->at > r->base) {
		struct stat st;

		if (fstat(r->fd, &st) == 0 && r->at > r->base + (uint64_t)st.st_size)
			return err_set(e, ERR_INVALID, "cursor %" PRIu64 " is beyond the end at %" PRIu64, cursor,
				       r->base + (uint64_t)st.st_size);
	}
	return 0;
}

uint64_t journal_end(int dir_fd, const char *name)
{
	autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	return fd < 0 || fstat(fd, &st) < 0 ? 0 : journal_file_base(fd) + (uint64_t)st.st_size;
}

/* More bytes of the file that is open: 1, or 0 at its end. */
static int fill_journal_reader(struct journal_reader *r, struct err *e)
{
	ssize_t n;

	if (r->done) {
		memmove(r->b.data, r->b.data + r->done, r->b.len - r->done);
		r->b.len -= r->done;
		r->done = 0;
	}
	if (buf_reserve(&r->b, CHUNK, e) < 0)
		return -1;
	n = pread(r->fd, r->b.data + r->b.len, CHUNK, (off_t)(r->at - r->base + r->b.len));
	if (n < 0)
		return err_sys(e, "read the journal %s", r->name);
	r->b.len += (size_t)n;
	return n > 0;
}

/* Takes a line from the buffer: 1 with it, 0 if none is whole. */
static int take_journal_line(struct journal_reader *r, const char **ret, size_t *ret_len)
{
	const char *start = r->b.data + r->done, *nl = r->b.len > r->done ? memchr(start, '\n', r->b.len - r->done) : NULL;

	if (!nl)
		return 0;
	*ret = start;
	*ret_len = (size_t)(nl - start);
	r->done += *ret_len + 1;
	r->at += *ret_len + 1;
	return 1;
}

/*
 * Tells whether there is a newer file than the open one. The old file gets no more lines once it is
 * not NAME.
 */
static int is_turned(const struct journal_reader *r)
{
	struct stat mine, now;

	return !fstat(r->fd, &mine) && !fstatat(r->dir_fd, r->name, &now, AT_SYMLINK_NOFOLLOW) &&
	       (mine.st_ino != now.st_ino || mine.st_dev != now.st_dev);
}

int journal_next(struct journal_reader *r, json_t **ret, struct err *e)
{
	struct err ignored;
	const char *line;
	char older[72];
	size_t n;
	int got, turned;

	snprintf(older, sizeof(older), "%s.1", r->name);
	for (;;) {
		if (r->fd < 0 && !open_journal_file(r, r->name, r->at, 1))
			return 0;
		while (r->at < r->end && take_journal_line(r, &line, &n)) {
			json_t *entry = json_parse(line, n, JOURNAL_LINE_MAX, "journal", &ignored);

			if (!json_is_object(entry) || json_object_get(entry, "base")) {
				json_decref(entry);	/* the beginning of a file, or a line cut short by a crash */
				continue;
			}
			json_object_set_new(entry, "cursor", json_integer((json_int_t)r->at));
			*ret = entry;
			return 1;
		}
		if (r->at >= r->end)
			return 0;
		turned = is_turned(r);
		got = fill_journal_reader(r, e);
		if (got < 0)
			return -1;
		if (got)
			continue;
		if (!turned)
			return 0;
		r->at += r->b.len - r->done;
		/* the next file is already the older one if two turns have passed */
		if (!open_journal_file(r, older, r->at, 0) && !open_journal_file(r, r->name, r->at, 1))
			return 0;
	}
}

void journal_reader_close(struct journal_reader *r)
{
	fd_close(&r->fd);
	buf_release(&r->b);
}

int journal_watch(int dir_fd, struct err *e)
{
	autoclose int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	char path[40];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", dir_fd);
	if (fd < 0 || inotify_add_watch(fd, path, IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_ONLYDIR) < 0)
		return err_sys(e, "watch the journal");
	return take_fd(&fd);
}

void journal_drain(int watch_fd)
{
	char buf[4096];

	while (read(watch_fd, buf, sizeof(buf)) > 0)
		;
}

/* ---- the events of this host ---- */

void events_add_to(struct journal *j, const char *event, const char *id, json_t *members)
{
	json_t *entry = json_pack("{s:s,s:s}", "event", event, "id", id);
	struct err ignored;

	if (members)
		json_object_update(entry, members);
	json_decref(members);
	if (entry)
		journal_add(j, entry, &ignored);
}

void events_add(struct registry *r, const char *event, const char *id, json_t *members)
{
	struct journal j = JOURNAL_INIT(r->state_fd, EVENTS_FILE, EVENTS_BYTES);

	events_add_to(&j, event, id, members);
	journal_close(&j);
}

int events_is_own(const char *event)
{
	static const char *const all[] = { "checkpoint", "checkpoint-rm", "undo", "fork",
					   "zygote-create", "zygote-end" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(all); i++)
		if (!strcmp(event, all[i]))
			return 1;
	return !strncmp(event, "network-", 8);
}
