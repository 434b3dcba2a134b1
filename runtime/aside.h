/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aside - a close(2) that takes long, on another CPU.
 */
#ifndef BERTH_RUNTIME_ASIDE_H
#define BERTH_RUNTIME_ASIDE_H

struct aside {
	_Alignas(16) char stack[4096];
};

/*
 * Closes *fd in a thread of its own, or here when there can be none; *fd is -1 then.  Nobody waits for it, but the exit
 * of the process, by which a must still be there.
 */
void aside_close(struct aside *a, int *fd);

#endif
