/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/store/notes.h"

#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

#define BYTES_MAX (256ull << 20)

struct head {
	char kind;
	uint16_t len;
	uint32_t nsec;
	int64_t sec;
};

void notes_init(struct notes *n, int fd)
{
	n->fd = fd;
	n->len = 0;
	n->written = 0;
}

int notes_flush(struct notes *n, struct err *e)
{
	if (n->len && io_write_all(n->fd, n->buf, n->len) < 0)
		return err_sys(e, "write down directories");
	n->len = 0;
	return 0;
}

int notes_add(struct notes *n, enum note_kind kind, const char *path, int64_t sec, uint32_t nsec,
	      struct err *e)
{
	size_t len = strlen(path);
	struct head h;

	memset(&h, 0, sizeof(h));
	h.kind = (char)kind;
	h.len = (uint16_t)len;
	h.nsec = nsec;
	h.sec = sec;
	if (n->written + sizeof(h) + len > BYTES_MAX)
		return err_set(e, ERR_LIMIT, "the layer has too many directories");
	if (n->len + sizeof(h) + len > sizeof(n->buf) && notes_flush(n, e) < 0)
		return -1;
	memcpy(n->buf + n->len, &h, sizeof(h));
	memcpy(n->buf + n->len + sizeof(h), path, len);
	n->len += sizeof(h) + len;
	n->written += sizeof(h) + len;
	return 0;
}

int notes_replay(int fd, int (*fn)(void *ctx, const struct note *note, struct err *e), void *ctx,
		 struct err *e)
{
	autofree struct note *note = malloc(sizeof(*note));
	autofree unsigned char *buf = malloc(65536);
	size_t have = 0, at = 0;
	off_t off = 0;
	ssize_t r;

	if (!note || !buf)
		return err_nomem(e);
	for (;;) {
		struct head h;

		if (have - at < sizeof(h) + TREE_PATH_MAX) {
			memmove(buf, buf + at, have - at);
			have -= at;
			at = 0;
			r = pread(fd, buf + have, 65536 - have, off);
			if (r < 0)
				return err_sys(e, "read the list of directories");
			have += (size_t)r;
			off += r;
			if (!have)
				return 0;
		}
		if (have - at < sizeof(h))
			break;
		memcpy(&h, buf + at, sizeof(h));
		if (h.len > TREE_PATH_MAX || have - at - sizeof(h) < h.len || h.nsec > 999999999)
			break;
		note->kind = h.kind;
		note->sec = h.sec;
		note->nsec = h.nsec;
		memcpy(note->path, buf + at + sizeof(h), h.len);
		note->path[h.len] = '\0';
		at += sizeof(h) + h.len;
		if (fn(ctx, note, e) < 0)
			return -1;
	}
	return err_set(e, ERR_CORRUPT, "the list of directories is malformed");
}
