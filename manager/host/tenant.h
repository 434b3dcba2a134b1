/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tenant - the limits of a tenant of berthd: [tenant] of berth.toml for all, [tenant.NAME] for
 * one.
 *
 * One table of keys, as config.h. A limit that no file sets is derived from [sandbox],
 * [manager], [admission] and the machine, and is always finite. These limits do not apply to the
 * command line or an admin token. Plain data: copy it freely.
 */
#ifndef BERTH_MANAGER_HOST_TENANT_H
#define BERTH_MANAGER_HOST_TENANT_H

#include "manager/host/config.h"
#include "manager/host/registry.h"
#include "rootfs/store/owner.h"

struct spec;

struct tenant {
	char name[65];
	/* limits of one sandbox */
	uint64_t memory_bytes, swap_bytes, cpu_milli, pids, disk_bytes, disk_inodes, tmp_bytes;
	/* of all of them */
	uint64_t sandboxes, archives, memory_total, cpu_total, disk_total, volumes, networks;
	uint64_t zygotes, zygote_forks;
	uint64_t stored_bytes;		/* bytes of its checkpoints in the storage */
	uint64_t workspace_bytes;	/* 0: as much as its file system allows */
	/* limits on its use of berthd at one time */
	uint64_t connections, requests, streams;
	char images[1024];	/* patterns of names, separated by newlines */
	/* limits on its own images */
	uint64_t own_images, own_image_bytes;
	int may_commit, may_import;
	char network_hosts[1024]; /* rules as of --allow-host, for members of its networks */
	char pull[1024];	/* patterns of images that it may fetch */
};

extern const struct config_key tenant_keys[];
extern const size_t tenant_key_count;

/*
 * Reads the tenant's limits from the file that config_load() reads; c has its values. name "": the
 * values of [tenant]. ERR_CONFIG.
 */
int tenant_load(struct tenant *ret, const struct config *c, const char *name, struct err *e);
/* As tenant_load(), from a parsed document. */
int tenant_parse(const json_t *doc, const struct config *c, const char *name, struct tenant *ret, struct err *e);
/* Checks that all of [tenant] is right: ERR_CONFIG. */
int tenant_check_sections(const json_t *doc, const struct config *c, struct err *e);
/* Tells whether [tenant] or a [tenant.NAME] bounds the bytes of workspaces. */
int tenant_any_workspace_bytes(const json_t *doc);
/* Returns the row of the file from which a key of a tenant comes, or NULL: a default. */
const json_t *tenant_source(const json_t *doc, const char *name, const char *key);

/*
 * Checks the sandbox s: ERR_LIMIT, naming the maximum, the requested value and the key, if it
 * exceeds a limit of t.
 */
int tenant_check_spec(const struct tenant *t, const struct spec *s, struct err *e);
/* Checks a change of memory in the same way. */
int tenant_check_memory(const struct tenant *t, uint64_t bytes, struct err *e);
int tenant_check_cpus(const struct tenant *t, uint64_t milli, struct err *e);
int tenant_check_pids(const struct tenant *t, uint64_t pids, struct err *e);
/*
 * Lowers [sandbox] defaults that exceed a limit of t: adds ["memory", "268435456"] and such before
 * the options of a spec.json.
 */
int tenant_cap_defaults(const struct tenant *t, const struct config *c, json_t *options, struct err *e);
/*
 * Tells whether a tenant sees an image of the store, by its record: the tenant's own images, those
 * that [sandbox] image names, and those without an owner that "images" allows.
 */
int tenant_sees_image(const struct tenant *t, const struct config *c, const json_t *record);
/* Makes the view that the functions of the store take; it borrows from both. */
struct image_view tenant_view(const struct tenant *t, const struct config *c);
/* A promise of such a sandbox (registry.h). */
struct promise tenant_promise(const struct tenant *t, uint64_t memory_bytes, uint64_t cpu_milli, uint64_t disk_bytes);

#endif
