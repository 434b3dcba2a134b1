/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a keeper does when it has nothing to do: the next command's cgroup is made
 * ahead (three directories in fresh cgroups are a fifth of a short command), and
 * what the keeper will not need while it waits is given back.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "manager/keeper_state.h"

#define TRIM_AFTER_MS 100

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
 * Unmaps our own code and constants: they stay in the page cache, for all keepers, and
 * come back a few pages at a time as they are used.  Nothing in these segments is ours
 * alone: they were never written (madvise(2), MADV_DONTNEED of a private file mapping).
 */
static void drop_program(void)
{
	extern const char __ehdr_start[];
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)__ehdr_start;
	const Elf64_Phdr *p = (const Elf64_Phdr *)(__ehdr_start + header->e_phoff);
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	int i;

	for (i = 0; i < header->e_phnum; i++) {
		uintptr_t start = ((uintptr_t)__ehdr_start + p[i].p_vaddr) & ~(page - 1);
		uintptr_t end = ((uintptr_t)__ehdr_start + p[i].p_vaddr + p[i].p_memsz + page - 1) & ~(page - 1);

		if (p[i].p_type == PT_LOAD && !(p[i].p_flags & PF_W))
			madvise((void *)start, end - start, MADV_DONTNEED);
	}
}

/* Only once something was executed, as most of many sandboxes may never be; and while nobody waits. */
static void make_spare(struct keeper *k)
{
	char name[24];
	struct err ignored;
	int i;

	if (k->next_seq == 1 || k->spare.ops || k->stopping)
		return;
	for (i = 0; i < KEEPER_CLIENTS; i++)
		if (k->clients[i].fd >= 0 && k->clients[i].waits)
			return;
	snprintf(name, sizeof(name), "c%u", k->next_seq);
	if (cgroup_create_leaf(&k->spare, &k->sandbox.cgroup, name, NULL, k->spec->id_base, &ignored) < 0)
		k->spare.ops = NULL;	/* the command will say why */
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

	k->spare.ops = NULL;
	if (spare.ops && is_unlimited(l)) {
		*ret = spare;
		return 0;
	}
	if (spare.ops) {	/* it has the name */
		cgroup_destroy(&spare, &ignored);
		cgroup_release(&spare);
	}
	snprintf(name, sizeof(name), "c%u", seq);
	return cgroup_create_leaf(ret, &k->sandbox.cgroup, name, l, k->spec->id_base, e);
}

int keeper_quiet(struct keeper *k, int timeout_ms)
{
	make_spare(k);
	if (k->trimmed || !is_quiet(k))
		return timeout_ms;
	return timeout_ms < 0 || timeout_ms > TRIM_AFTER_MS ? TRIM_AFTER_MS : timeout_ms;
}

void keeper_woke(struct keeper *k, int events)
{
	if (!events && !k->trimmed && is_quiet(k))
		drop_program();
	k->trimmed = !events;
}
