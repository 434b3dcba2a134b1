/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream - one end of a pipe (or file) that carries a tar archive.
 *
 * Buffered for headers, straight from descriptor to descriptor for content (splice(2), sendfile(2),
 * else read and write): memory does not grow with the archive. The descriptor is borrowed. It may
 * be blocking or not; a stall is noticed only on one that is not.
 *
 * Shared by the helper in the sandbox and by the command line.
 */
#ifndef BERTH_RUNTIME_FILEOP_STREAM_H
#define BERTH_RUNTIME_FILEOP_STREAM_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define STREAM_BUF 131072

struct stream {
	int fd;
	int stall_ms;		/* longest wait for one byte; -1: for ever */
	int no_splice;		/* splice(2) failed once: use read and write instead */
	uint64_t moved;		/* bytes that went through */
	void (*tick)(void *ctx, uint64_t moved);	/* shows progress; may be NULL */
	void *ctx;
	size_t pos, len;
	char buf[STREAM_BUF];
};

/* Set by a signal handler: the next call fails with ERR_BUSY. */
extern volatile sig_atomic_t stream_interrupted;
/* From this call of the helper on, SIGTERM sets it and ends standard input. */
void stream_catch_end(void);

void stream_init(struct stream *s, int fd, int stall_ms);
int stream_write(struct stream *s, const void *p, size_t n, struct err *e);
int stream_zeros(struct stream *s, uint64_t n, struct err *e);
int stream_flush(struct stream *s, struct err *e);
/* Sends n bytes of in_fd from its offset on. If the file ends early, zeros follow and *ret_short is set. */
int stream_from_file(struct stream *s, int in_fd, uint64_t n, int *ret_short, struct err *e);
/* Reads exactly n bytes; ERR_CORRUPT if the stream ends before. */
int stream_read(struct stream *s, void *p, size_t n, struct err *e);
int stream_skip(struct stream *s, uint64_t n, struct err *e);
/* Reads to the end and drops the bytes: the writer must not see a broken pipe. */
int stream_drain(struct stream *s, struct err *e);
/* Writes n bytes to out_fd at its offset. */
int stream_to_file(struct stream *s, int out_fd, uint64_t n, struct err *e);

/*
 * Copies everything from in_fd to out_fd, each of any kind; *ret_bytes gets the number. At most
 * limit bytes, then ERR_LIMIT. buf has STREAM_BUF bytes.
 */
int stream_pump(int in_fd, int out_fd, uint64_t limit, char *buf, uint64_t *ret_bytes, struct err *e);

#endif
