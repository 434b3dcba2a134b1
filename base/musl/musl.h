/* SPDX-License-Identifier: Apache-2.0 */
/*
 * musl - what berth takes from glibc and musl does not have.
 *
 * The compiler puts this header before every file of the program `berth` (-include), so the sources
 * are the same for both libraries: tests and berth-image use glibc. `berth` itself is made with
 * musl, as glibc's start alone costs as much as a third of a sandbox (tests/bench/NOTES.md, section
 * 1).
 *
 * It has three parts: system calls without a wrapper, names of errors and signals (made from
 * glibc's at build time, so both programs speak the same words), and bounds checks of the string
 * functions as _FORTIFY_SOURCE=2 has them, for which musl has no headers.
 */
#ifndef BERTH_BASE_MUSL_MUSL_H
#define BERTH_BASE_MUSL_MUSL_H
#if __INCLUDE_LEVEL__ > 0
#pragma GCC system_header	/* formats are checked where they are written */
#endif

#include <fcntl.h>
#include <linux/mount.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __GLIBC__	/* glibc has all of this itself */
#ifndef __O_TMPFILE
#define __O_TMPFILE 020000000
#endif
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1 << 0)
#endif

/*
 * ---- calls; each as in its manual page ---------------------------------------
 *
 * Under names of ours, as a newer musl declares some of them (1.2.5 has renameat2()).
 * The headers that may do so are above.
 */
static inline int musl_fsopen(const char *type, unsigned flags)
{
	return (int)syscall(SYS_fsopen, type, flags);
}
#define fsopen(...) musl_fsopen(__VA_ARGS__)

static inline int musl_fspick(int dirfd, const char *path, unsigned flags)
{
	return (int)syscall(SYS_fspick, dirfd, path, flags);
}
#define fspick(...) musl_fspick(__VA_ARGS__)

static inline int musl_fsconfig(int fd, unsigned cmd, const char *key, const void *value, int aux)
{
	return (int)syscall(SYS_fsconfig, fd, cmd, key, value, aux);
}
#define fsconfig(...) musl_fsconfig(__VA_ARGS__)

static inline int musl_fsmount(int fd, unsigned flags, unsigned attr)
{
	return (int)syscall(SYS_fsmount, fd, flags, attr);
}
#define fsmount(...) musl_fsmount(__VA_ARGS__)

static inline int musl_open_tree(int dirfd, const char *path, unsigned flags)
{
	return (int)syscall(SYS_open_tree, dirfd, path, flags);
}
#define open_tree(...) musl_open_tree(__VA_ARGS__)

static inline int musl_move_mount(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
	return (int)syscall(SYS_move_mount, from_fd, from, to_fd, to, flags);
}
#define move_mount(...) musl_move_mount(__VA_ARGS__)

static inline int musl_mount_setattr(int dirfd, const char *path, unsigned flags, struct mount_attr *attr, size_t size)
{
	return (int)syscall(SYS_mount_setattr, dirfd, path, flags, attr, size);
}
#define mount_setattr(...) musl_mount_setattr(__VA_ARGS__)

static inline int musl_renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
	return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, flags);
}
#define renameat2(...) musl_renameat2(__VA_ARGS__)

static inline int musl_execveat(int dirfd, const char *path, char *const argv[], char *const envp[], int flags)
{
	return (int)syscall(SYS_execveat, dirfd, path, argv, envp, flags);
}
#define execveat(...) musl_execveat(__VA_ARGS__)

/* ---- names; NULL for a number without one ------------------------------------ */
const char *strerrorname_np(int number);
const char *sigabbrev_np(int number);
const char *musl_strerror(int number);
#define strerror(number) musl_strerror(number)

/* ---- bounds ------------------------------------------------------------------ */
#ifdef __OPTIMIZE__
/* musl's open() calls fcntl() after O_CLOEXEC, for kernels that did not know the flag; its openat() does not */
extern __inline __attribute__((__always_inline__, __gnu_inline__, __artificial__)) int open(const char *path, int flags, ...)
{
	return openat(AT_FDCWD, path, flags, __builtin_va_arg_pack());
}

#define MUSL_CHECKED extern __inline __attribute__((__always_inline__, __gnu_inline__, __artificial__))
#define MUSL_ROOM(p) __builtin_object_size(p, 0)
#define MUSL_ROOM_STR(p) __builtin_object_size(p, 1)
/* the function itself, inside its checked form */
#define MUSL_REAL(type, name, args) extern type musl_real_##name args __asm__(#name)
#define MUSL_NEED(p, n) do { if (MUSL_ROOM(p) != (size_t)-1 && (size_t)(n) > MUSL_ROOM(p)) musl_overflow(); } while (0)

void musl_overflow(void) __attribute__((__noreturn__, __cold__));

MUSL_CHECKED void *memcpy(void *restrict d, const void *restrict s, size_t n)
{
	return __builtin___memcpy_chk(d, s, n, MUSL_ROOM(d));
}

MUSL_CHECKED void *memmove(void *d, const void *s, size_t n)
{
	return __builtin___memmove_chk(d, s, n, MUSL_ROOM(d));
}

MUSL_CHECKED void *memset(void *d, int c, size_t n)
{
	return __builtin___memset_chk(d, c, n, MUSL_ROOM(d));
}

MUSL_CHECKED char *strcpy(char *restrict d, const char *restrict s)
{
	return __builtin___strcpy_chk(d, s, MUSL_ROOM_STR(d));
}

MUSL_CHECKED char *strcat(char *restrict d, const char *restrict s)
{
	return __builtin___strcat_chk(d, s, MUSL_ROOM_STR(d));
}

MUSL_CHECKED char *strncpy(char *restrict d, const char *restrict s, size_t n)
{
	return __builtin___strncpy_chk(d, s, n, MUSL_ROOM_STR(d));
}

MUSL_CHECKED int snprintf(char *restrict d, size_t n, const char *restrict format, ...)
{
	return __builtin___snprintf_chk(d, n, 1, MUSL_ROOM_STR(d), format, __builtin_va_arg_pack());
}

MUSL_CHECKED int vsnprintf(char *restrict d, size_t n, const char *restrict format, va_list ap)
{
	return __builtin___vsnprintf_chk(d, n, 1, MUSL_ROOM_STR(d), format, ap);
}

MUSL_REAL(ssize_t, read, (int, void *, size_t));
MUSL_CHECKED ssize_t read(int fd, void *d, size_t n)
{
	MUSL_NEED(d, n);
	return musl_real_read(fd, d, n);
}

MUSL_REAL(ssize_t, pread, (int, void *, size_t, off_t));
MUSL_CHECKED ssize_t pread(int fd, void *d, size_t n, off_t at)
{
	MUSL_NEED(d, n);
	return musl_real_pread(fd, d, n, at);
}

MUSL_REAL(ssize_t, recv, (int, void *, size_t, int));
MUSL_CHECKED ssize_t recv(int fd, void *d, size_t n, int flags)
{
	MUSL_NEED(d, n);
	return musl_real_recv(fd, d, n, flags);
}

MUSL_REAL(ssize_t, readlink, (const char *, char *, size_t));
MUSL_CHECKED ssize_t readlink(const char *restrict path, char *restrict d, size_t n)
{
	MUSL_NEED(d, n);
	return musl_real_readlink(path, d, n);
}

MUSL_REAL(ssize_t, readlinkat, (int, const char *, char *, size_t));
MUSL_CHECKED ssize_t readlinkat(int dirfd, const char *restrict path, char *restrict d, size_t n)
{
	MUSL_NEED(d, n);
	return musl_real_readlinkat(dirfd, path, d, n);
}

MUSL_REAL(int, poll, (struct pollfd *, nfds_t, int));
MUSL_CHECKED int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	MUSL_NEED(fds, n * sizeof(*fds));
	return musl_real_poll(fds, n, timeout_ms);
}
#endif
#endif

#endif
