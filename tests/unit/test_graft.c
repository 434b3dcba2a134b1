/* SPDX-License-Identifier: Apache-2.0 */
/* Attacks S48 of SECURITY.md: memory that a fork would share with its zygote. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/sandbox/graft.h"

/* These run in the child: 3 says that a test could not be made. */
static int temporary(int flags)
{
	char path[] = "/tmp/berth-test-graft.XXXXXX";
	autoclose int fd = mkstemp(path);
	int again = fd < 0 || ftruncate(fd, 4096) < 0 ? -1 : open(path, flags | O_CLOEXEC);

	unlink(path);
	if (again < 0)
		_exit(3);
	return again;
}

static void map(int fd, int prot, int flags)
{
	if (mmap(NULL, 4096, prot, flags, fd, 0) == MAP_FAILED)
		_exit(3);
}

static void unmap_shared(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long start, end;
	char line[512], perms[5];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %4s", &start, &end, perms) == 3 && perms[3] == 's')
			munmap((void *)start, end - start);
	if (f)
		fclose(f);
}

/*
 * Whether a process that has made a change may be forked; both ways of asking the kernel must say
 * the same.  Criterion shares memory with us, so the process is a child that gives that up.
 */
static int refuses(void (*change)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct err e = {0}, f = {0};
		int fast, text;

		unmap_shared();
		change();
		fast = graft_check_maps(getpid(), &e);
		text = graft_check_maps_text(getpid(), &f);
		_exit(fast != text || strcmp(e.msg, f.msg) ? 2 : fast != 0);
	}
	cr_assert(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	cr_assert_lt(WEXITSTATUS(status), 2, "status %d", WEXITSTATUS(status));
	return WEXITSTATUS(status);
}

static void nothing(void)
{
}

static void read_only_file(void)
{
	map(temporary(O_RDONLY), PROT_READ, MAP_SHARED);
}

static void file_that_may_become_writable(void)
{
	map(temporary(O_RDWR), PROT_READ, MAP_SHARED);
}

static void written_file(void)
{
	map(temporary(O_RDWR), PROT_READ | PROT_WRITE, MAP_SHARED);
}

static void private_copy(void)
{
	map(temporary(O_RDWR), PROT_READ | PROT_WRITE, MAP_PRIVATE);
}

static void shared_memory(void)
{
	map(-1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
}

static void memory_file(void)
{
	autoclose int fd = memfd_create("x", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 4096) < 0)
		_exit(3);
	map(fd, PROT_READ, MAP_PRIVATE);
}

Test(graft, memory_of_one_process_may_be_forked)
{
	cr_assert_eq(refuses(nothing), 0);
	cr_assert_eq(refuses(private_copy), 0);
	cr_assert_eq(refuses(read_only_file), 0, "nobody can write to it");
}

Test(graft, memory_that_a_fork_would_share_is_refused)
{
	cr_assert_eq(refuses(written_file), 1);
	cr_assert_eq(refuses(file_that_may_become_writable), 1);
	cr_assert_eq(refuses(shared_memory), 1);
	cr_assert_eq(refuses(memory_file), 1);
}
