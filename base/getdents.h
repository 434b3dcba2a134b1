/* SPDX-License-Identifier: Apache-2.0 */
/*
 * getdents - the names of a directory, without opendir(3)'s buffer of 32 KiB: getdents64(2).
 */
#ifndef BERTH_BASE_GETDENTS_H
#define BERTH_BASE_GETDENTS_H

#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct getdents {
	uint64_t ino;
	int64_t off;		/* offset of the next name, for lseek(2) */
	uint16_t len;
	uint8_t type;		/* DT_* of readdir(3) */
	char name[];
};

/*
 * Reads names from the current position of fd. Returns the number of bytes, 0 at the end, -1
 * with errno.
 */
static inline long getdents_read(int fd, void *list, size_t n)
{
	return syscall(SYS_getdents64, fd, list, n);
}

/*
 * The name at *at of list, a multiple of 8 bytes aligned as struct getdents is; *at moves to the
 * next.
 */
static inline const struct getdents *getdents_next(const char *list, long *at)
{
	const struct getdents *d = (const struct getdents *)(const void *)(list + *at);

	*at += d->len;
	return d;
}

/* "." or ".." */
static inline int getdents_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

#endif
