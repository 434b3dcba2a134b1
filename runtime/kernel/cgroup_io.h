/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup_io - weight and rate of a sandbox's block I/O (cgroup-v2.rst, "IO";
 * cgroup-v1/blkio-controller.rst).
 *
 * The kernel accepts a weight for disks whose scheduler ignores it, and on v1 a rate for writes
 * that it charges to no cgroup. Both are refused here, because neither would be enforced.
 */
#ifndef BERTH_RUNTIME_KERNEL_CGROUP_IO_H
#define BERTH_RUNTIME_KERNEL_CGROUP_IO_H

#include "base/json.h"
#include "runtime/kernel/cgroup.h"

/* Writes the limits to the files of cgroup directory fd, and reads each back. ERR_UNSUPPORTED names
 * what the kernel lacks. */
int cgroup_io_limit_v2(int fd, const struct cgroup_limits *l, struct err *e);
int cgroup_io_limit_v1(int fd, const struct cgroup_limits *l, struct err *e);

/*
 * Finds the disk of path: a block device, or the device of a file system. For a partition it is the
 * whole disk, because the kernel limits no part of it. writes: rates of writing are needed too,
 * which only some file systems charge to a cgroup. ERR_NOT_FOUND, or ERR_UNSUPPORTED if path is on
 * no disk.
 */
int cgroup_io_disk(const char *path, int writes, unsigned *ret_major, unsigned *ret_minor,
		   struct err *e);
/* Checks that this disk's scheduler shares it by weight: BFQ, or on v2 the cost model
 * (io.cost.qos). ERR_UNSUPPORTED if not. */
int cgroup_io_weighs(unsigned maj, unsigned min, struct err *e);

/*
 * Checks that every byte that a cgroup reads and writes is counted: on v2 with the io controller.
 * ERR_UNSUPPORTED if not.
 */
int cgroup_io_counts(struct err *e);

/*
 * Converts a weight from 1 to 10000 to BFQ's, 1 to 1000: 100 is the default of both, as in
 * systemd.
 */
uint64_t cgroup_io_bfq_weight(uint64_t weight);
/* Puts rate into the list of l, replacing a rate of the same disk. ERR_LIMIT if the list is full. */
int cgroup_io_put(struct cgroup_limits *l, const struct cgroup_io_rate *rate, struct err *e);
/* Converts a rate to the form of io.max, "8:0 rbps=1 wbps=max riops=max wiops=max", and back, ERR_INVALID. */
#define CGROUP_IO_TEXT 160
void cgroup_io_print(const struct cgroup_io_rate *rate, char ret[CGROUP_IO_TEXT]);
/* Returns the rates of l as an array of such texts; NULL without memory. */
json_t *cgroup_io_json(const struct cgroup_limits *l);
int cgroup_io_read(const char *text, struct cgroup_io_rate *ret, struct err *e);
/* Tells whether the lines of io.max have this rate for its disk. */
int cgroup_io_max_is(const char *text, const struct cgroup_io_rate *rate);

#endif
