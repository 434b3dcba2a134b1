/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mem - ownership by scope: cleanup attributes for heap and descriptors.
 *
 * Whoever opens, closes, in the same scope; a value leaves its scope only by
 * take_fd() or take_ptr().
 */
#ifndef BERTH_BASE_MEM_H
#define BERTH_BASE_MEM_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define STRINGIFY_(x) #x
#define STRINGIFY(x) STRINGIFY_(x)
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline void mem_free_cleanup(void *p)
{
	free(*(void **)p);
}

/* Closes *fd unless it is -1, keeps errno, and sets *fd to -1. */
static inline void fd_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = saved;
}

#define autofree __attribute__((cleanup(mem_free_cleanup)))
#define autoclose __attribute__((cleanup(fd_close)))

static inline int take_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

static inline void *take_ptr_impl(void *pp)
{
	void *v = *(void **)pp;

	*(void **)pp = NULL;
	return v;
}
#define take_ptr(pp) ((__typeof__(*(pp)))take_ptr_impl(pp))

/*
 * Call this once in a process that serves many small requests. musl gives a page of small
 * allocations back to the kernel with the last of them, and gets another page at the next request.
 * It makes one lasting allocation of each size, which keeps the pages, with room for the
 * allocations of one message.
 */
static inline void mem_keep_small(void)
{
#ifndef __GLIBC__
	enum { SMALLEST = 24, LARGEST = 136, STEP = 16, MANY = 24 };
	void *p[MANY];
	size_t size;
	int i;

	for (size = SMALLEST; size <= LARGEST; size += STEP) {
		for (i = 0; i < MANY; i++)
			p[i] = malloc(size);
		for (i = 0; i < MANY - 1; i++)
			free(p[i]);
	}
#endif
}

#endif
