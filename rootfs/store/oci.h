/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci - the documents of OCI and Docker images, read strictly.
 *
 * Pure.  Every byte is hostile: bounded size, depth and counts, no duplicate
 * keys, and nothing that could be taken for two kinds of document at once
 * (CVE-2021-41190).  "urls" of layers are never looked at (I29).
 */
#ifndef BERTH_ROOTFS_STORE_OCI_H
#define BERTH_ROOTFS_STORE_OCI_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"
#include "rootfs/store/digest.h"

/* The compression that a layer's media type declares; AUTO: look at the bytes. */
enum compression { COMPRESSION_AUTO, COMPRESSION_NONE, COMPRESSION_GZIP, COMPRESSION_ZSTD };

#define OCI_MANIFEST_MAX (4u << 20)	/* most bytes of a manifest or index */
#define OCI_CONFIG_MAX (8u << 20)
#define OCI_INDEX_ENTRIES_MAX 4096

#define OCI_TYPE_MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define OCI_TYPE_CONFIG "application/vnd.oci.image.config.v1+json"

enum oci_kind { OCI_OTHER, OCI_INDEX, OCI_MANIFEST, OCI_CONFIG, OCI_LAYER };

struct oci_desc {
	enum oci_kind kind;
	enum compression compression;	/* of a layer */
	char digest[DIGEST_SIZE];
	uint64_t size;
	char media_type[128];
};

struct oci_platform {
	char os[32];
	char arch[32];
	char variant[32];	/* "" when none */
};

struct oci_entry {
	struct oci_desc desc;
	struct oci_platform platform;	/* os is "" if not given */
	char ref[256];		/* org.opencontainers.image.ref.name, or "" */
	char name[256];		/* io.containerd.image.name, or "" */
};

struct oci_index {
	struct oci_entry *entries;
	size_t count;
};

struct oci_manifest {
	struct oci_desc config;
	struct oci_desc *layers;	/* lowest first */
	size_t layer_count;
};

/* The parts of an image's config that we use, checked; owned by this struct. */
struct oci_config {
	struct oci_platform platform;
	char (*diff_ids)[DIGEST_SIZE];
	size_t diff_id_count;
	json_t *env;		/* array of NAME=VALUE */
	json_t *entrypoint;	/* arrays of strings */
	json_t *cmd;
	json_t *labels;		/* object of strings; empty when larger than 64 KiB */
	char *user;
	char *workdir;
	char *created;
	char *stop_signal;
	json_t *health;		/* NULL: the image has no check; see oci_config_parse() */
	size_t env_dropped;	/* entries that were not NAME=VALUE (E14) */
};

/* Parse a document; want is the media type that the descriptor gave, NULL if none. */
int oci_index_parse(const char *text, size_t n, const char *want, struct oci_index *ret, struct err *e);
void oci_index_release(struct oci_index *x);
int oci_manifest_parse(const char *text, size_t n, const char *want, struct oci_manifest *ret,
		       struct err *e);
void oci_manifest_release(struct oci_manifest *m);
/*
 * The image's HEALTHCHECK becomes {"argv": [...]}, with "interval_ms", "timeout_ms",
 * "start_period_ms", "start_interval_ms" and "retries" as far as it sets them (Docker image
 * specification 1.3, Healthcheck; times there are nanoseconds).
 */
int oci_config_parse(const char *text, size_t n, struct oci_config *ret, struct err *e);
void oci_config_release(struct oci_config *c);

/* Parses "OS/ARCH[/VARIANT]". */
int oci_platform_parse(const char *s, struct oci_platform *ret, struct err *e);
/* Gives the platform of this machine. */
void oci_platform_host(struct oci_platform *ret);
/* Returns 1 if an image of platform have runs on want; unset fields of have match. */
int oci_platform_fits(const struct oci_platform *have, const struct oci_platform *want);
/* Formats "OS/ARCH[/VARIANT]". */
void oci_platform_format(const struct oci_platform *p, char ret[100]);

#endif
