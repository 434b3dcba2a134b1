/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name - Docker's ids and names of things, and those of berth for the same.
 *
 * Docker's id has 64 hexadecimal digits, of which people use the first 12.  These are the id of the
 * sandbox; the others follow from them, so that nothing has to be kept.  Pure.
 */
#ifndef BERTH_MANAGER_ENGINE_NAME_H
#define BERTH_MANAGER_ENGINE_NAME_H

#include <stddef.h>

#define ENGINE_ID 65 /* bytes with the NUL */

/* 64 digits that follow from a text of any length. */
void engine_digits(const char *seed, char ret[ENGINE_ID]);
void engine_id(const char *sandbox, char ret[ENGINE_ID]);
/* Docker's id of a network, which has none here. */
void engine_network_id(const char *name, char ret[ENGINE_ID]);
/*
 * Turns a client's word for a container into berth's: without a leading slash, and a long id, or
 * the start of one, cut to the sandbox's. -1: no container can have this name.
 */
int engine_ref(const char *ref, char *ret, size_t n);
/* 64 digits that nobody has: of an exec, say.  -1 without randomness. */
int engine_new_id(char ret[ENGINE_ID]);

/*
 * name - Docker's names of containers, volumes and networks as berth's names.
 *
 * Docker takes capitals and any length; berth takes 64 of a-z 0-9 _ . -, as its names are also
 * names of files and hosts.  A name that berth does not take is known to berth by another, which
 * follows from it: its first letters in lower case, a dash, and 16 digits of its hash.  So a
 * look-up reads no table and costs the same for any number of containers.  Pure.
 */

#define ENGINE_NAME_MAX 255
#define ENGINE_NAME 65 /* bytes of a name of berth's, with the NUL */
/* A label of volumes and networks: the name by which Docker's clients know this one. */
#define ENGINE_NAME_LABEL "berth.docker.name"
/* A label of networks: the driver's options that a client gave, as JSON. */
#define ENGINE_OPTIONS_LABEL "berth.docker.options"

/*
 * The name in berth of what Docker calls name: 0 when it is the same, 1 when it is another, -1
 * when Docker does not take it either.
 */
int engine_name_map(const char *name, char ret[ENGINE_NAME]);
/* The same for a network, whose name may have blanks in it, and other letters than a container's. */
int engine_name_network(const char *name, char ret[ENGINE_NAME]);
/* The same for a container, which has another name, too, where it could be the start of an id. */
int engine_name_box(const char *name, char ret[ENGINE_NAME]);
/* docker where berth knows it as name, else name. */
const char *engine_name_shown(const char *docker, const char *name);
/* What a resolver looks for: name in lower case, or 0 where no host can have the name. */
int engine_name_alias(const char *name, char ret[ENGINE_NAME]);

#endif
