/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name - Docker's names of containers, volumes and networks as berth's names.
 *
 * Docker takes capitals and any length; berth takes 64 of a-z 0-9 _ . -, as its names are also
 * names of files and hosts.  A name that berth does not take is known to berth by another, which
 * follows from it: its first letters in lower case, a dash, and 16 digits of its hash.  So a
 * look-up reads no table and costs the same for any number of containers.  Pure.
 */
#ifndef BERTH_MANAGER_ENGINE_NAME_H
#define BERTH_MANAGER_ENGINE_NAME_H

#define ENGINE_NAME_MAX 255
#define ENGINE_NAME 65 /* bytes of a name of berth's, with the NUL */
/* A label of volumes and networks: the name by which Docker's clients know this one. */
#define ENGINE_NAME_LABEL "berth.docker.name"

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
