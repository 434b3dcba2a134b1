/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A keeper's work while it is idle. It removes the last command's cgroup and makes the next one
 * ahead: six directories take a fifth of the time of a short command, and the kernel changes one
 * cgroup at a time, so a command that joins its own would wait for them. It also frees memory that
 * it does not need while it waits.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/keeper/keeper_state.h"

#define TRIM_AFTER_MS 100
#define STACK_BYTES (256u << 10)
#define SEGMENTS_MAX 8
#define BUSY_MS 5	/* chores wait this long for a command that runs */
#define REST_US 150	/* ... and for the client of one that has ended: it may have to use our processor */

static int is_quiet(const struct keeper *k)
{
	int i;

	for (i = 0; i < KEEPER_CLIENTS; i++)
		if (k->clients[i].fd >= 0)
			return 0;
	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i])
			return 0;
	return 1;
}

/*
 * Unmaps our own code and constants: they stay in the page cache, for all keepers, and come back
 * a few pages at a time as they are used. These segments were never written, so nothing in them
 * is private (madvise(2), MADV_DONTNEED of a private file mapping). Their addresses, and
 * sysconf(), are in them too, so we read these before.
 */
static void drop_program(uintptr_t page)
{
	extern const char __ehdr_start[];
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)__ehdr_start;
	const Elf64_Phdr *p = (const Elf64_Phdr *)(__ehdr_start + header->e_phoff);
	struct { uintptr_t start, end; } part[SEGMENTS_MAX] = { { 0, 0 } };
	int i, n = 0;

	for (i = 0; i < header->e_phnum && n < SEGMENTS_MAX; i++) {
		if (p[i].p_type != PT_LOAD || p[i].p_flags & PF_W)
			continue;
		part[n].start = ((uintptr_t)__ehdr_start + p[i].p_vaddr) & ~(page - 1);
		part[n++].end = ((uintptr_t)__ehdr_start + p[i].p_vaddr + p[i].p_memsz + page - 1) & ~(page - 1);
	}
	while (n--)
		madvise((void *)part[n].start, part[n].end - part[n].start, MADV_DONTNEED);
}

/*
 * Clears the pages of the stack below this function's: the functions called before us used them,
 * and later calls find zeros.
 */
static void drop_stack(uintptr_t page)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0) & ~(page - 1);

	/* this page and the next one below are in use; unmapped parts do not prevent the rest */
	madvise((void *)(here - page - STACK_BYTES), STACK_BYTES, MADV_DONTNEED);
}

void keeper_trim(struct keeper *k)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	drop_stack(page);
	drop_program(page);
	buf_release(&k->log_lines);
	k->trim = 0;
	k->trimmed = 1;
}

/*
 * Tells whether to make a spare cgroup: only once a client executed a command, because most of many
 * sandboxes may never run one beside their main command.
 */
static int wants_spare(const struct keeper *k)
{
	return k->next_seq > k->main.seq + 1 && !k->spare.ops && !k->spare_failed && !k->stopping;
}

static int has_chores(const struct keeper *k)
{
	return k->dropped_count || wants_spare(k);
}

static void make_spare(struct keeper *k)
{
	char name[24];
	struct err ignored;

	snprintf(name, sizeof(name), "c%u", k->next_seq);
	if (cgroup_create_leaf(&k->spare, &k->sandbox.cgroup, name, NULL, k->spec->id_base, &ignored) < 0)
		k->spare_failed = 1;	/* the command will say why */
}

void keeper_leaf_ahead(struct keeper *k)
{
	if (!k->spare.ops && !k->spare_failed)
		make_spare(k);
}

static void remove_dropped(struct keeper *k)
{
	struct cgroup *c = &k->dropped[--k->dropped_count];
	struct err ignored;

	if (cgroup_destroy(c, &ignored) < 0) {
		/* its name remains below the sandbox's cgroup, and is removed with that */
	}
	cgroup_release(c);
}

/* Does one chore at a time: requests come first. */
static void do_quiet_chore(struct keeper *k)
{
	if (k->dropped_count)
		remove_dropped(k);
	else if (wants_spare(k))
		make_spare(k);
}

void keeper_leaf_drop(struct keeper *k, struct cgroup *leaf)
{
	if (k->dropped_count == ARRAY_LEN(k->dropped))
		remove_dropped(k);
	k->dropped[k->dropped_count++] = *leaf;
	leaf->ops = NULL;
}

void keeper_leaves_release(struct keeper *k)
{
	while (k->dropped_count)
		cgroup_release(&k->dropped[--k->dropped_count]);
	cgroup_release(&k->spare);
}

static int is_unlimited(const struct cgroup_limits *l)
{
	return !l || (l->memory_bytes == CGROUP_UNLIMITED && l->swap_bytes == CGROUP_UNLIMITED && l->cpu_milli == CGROUP_UNLIMITED &&
		      l->pids == CGROUP_UNLIMITED && !l->cpuset[0] && !l->cpu_weight && !l->io_weight);
}

int keeper_leaf(struct keeper *k, uint32_t seq, const struct cgroup_limits *l, struct cgroup *ret, struct err *e)
{
	struct cgroup spare = k->spare;
	struct err ignored;
	char name[24];

	snprintf(name, sizeof(name), "c%u", seq);
	if (seq >= KEEPER_CHECKS)
		return cgroup_create_leaf(ret, &k->sandbox.cgroup, name, l, k->spec->id_base, e);
	k->spare.ops = NULL;
	k->spare_failed = 0;
	if (spare.ops && is_unlimited(l)) {
		*ret = spare;
		return 0;
	}
	if (spare.ops) {	/* the spare has the name */
		cgroup_destroy(&spare, &ignored);
		cgroup_release(&spare);
	}
	return cgroup_create_leaf(ret, &k->sandbox.cgroup, name, l, k->spec->id_base, e);
}

static int is_command_running(const struct keeper *k)
{
	int i;

	for (i = 0; i < KEEPER_COMMANDS; i++)
		if (k->commands[i] && !k->commands[i]->ended && k->commands[i]->session < 0)
			return 1;
	return 0;
}

const struct timespec *keeper_quiet(struct keeper *k, int timeout_ms, struct timespec *t)
{
	int64_t wait_us = timeout_ms < 0 ? INT64_MAX : (int64_t)timeout_ms * 1000, most_us = INT64_MAX;

	if (has_chores(k))
		most_us = is_command_running(k) ? BUSY_MS * 1000 : k->rest ? REST_US : 0;
	else if ((!k->trimmed && is_quiet(k)) || (!k->still_looked && keeper_idle_may_stand(k)))
		most_us = TRIM_AFTER_MS * 1000;
	if (wait_us > most_us)
		wait_us = most_us;
	if (wait_us == INT64_MAX)
		return NULL;
	*t = (struct timespec){ .tv_sec = wait_us / 1000000, .tv_nsec = wait_us % 1000000 * 1000 };
	return t;
}

void keeper_woke(struct keeper *k, int events)
{
	if (events) {
		k->trimmed = 0;
		return;
	}
	k->rest = 0;
	if (has_chores(k)) {
		do_quiet_chore(k);
		return;
	}
	if (!k->still_looked && keeper_idle_may_stand(k))
		keeper_idle_stand(k);
	k->trim = !k->trimmed && is_quiet(k);
}
