/* SPDX-License-Identifier: Apache-2.0 */
/*
 * id - Docker's ids and names for berth's sandboxes.
 *
 * Docker's id has 64 hexadecimal digits, of which people use the first 12.  These are the id of the
 * sandbox; the others follow from them, so that nothing has to be kept.  Pure.
 */
#ifndef BERTH_MANAGER_ENGINE_ID_H
#define BERTH_MANAGER_ENGINE_ID_H

#include <stddef.h>

#define ENGINE_ID 65 /* bytes with the NUL */

/* 64 digits that follow from a text of any length. */
void engine_digits(const char *seed, char ret[ENGINE_ID]);
void engine_id(const char *sandbox, char ret[ENGINE_ID]);
/*
 * Turns a client's word for a container into berth's: without a leading slash, and a long id, or
 * the start of one, cut to the sandbox's. -1: no container can have this name.
 */
int engine_ref(const char *ref, char *ret, size_t n);
/* 64 digits that nobody has: of an exec, say.  -1 without randomness. */
int engine_new_id(char ret[ENGINE_ID]);

#endif
