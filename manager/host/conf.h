/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conf - the sections of berth.toml that only berthd reads: [store], [storage],
 * [session], [docker], [preview], [otlp], [ssh] and one [pool.NAME] per type of sandbox.
 *
 * Plain data but for the pools' JSON. Strict as config.h: an unknown key or a value out of range is
 * ERR_CONFIG.
 */
#ifndef BERTH_MANAGER_HOST_CONF_H
#define BERTH_MANAGER_HOST_CONF_H

#include "manager/host/config.h"

#define CONF_POOLS_MAX 32

struct conf_pool {
	char name[65];
	char image[256];
	char zygote[65];		/* zygote in place of an image; "": none */
	char pull[16];			/* missing, always, never */
	uint64_t size;			/* sandboxes kept ready */
	uint64_t memory_bytes, cpu_milli;	/* 0: as in [sandbox] */
	uint64_t timeout_ms;		/* time for one tool call; 0: as [sandbox] timeout */
	char options[4096];		/* lines: NAME or NAME=VALUE, options of berth create */
	char env[4096];			/* lines: NAME=VALUE */
	char readonly_mounts[4096];	/* lines: SRC:DST */
};

#define CONF_BINDS_MAX 4096

struct conf {
	char store_url[256];		/* "" : sqlite below state_dir */
	char store_user[64], store_password_file[256], store_prefix[64];
	uint64_t store_retry_ms;
	char store_sync[8];

	char storage_url[256];		/* "": none; "file:/DIR", "s3://BUCKET/PREFIX" */
	char storage_endpoint[256], storage_region[64], storage_credentials[256], storage_addressing[16];
	uint64_t storage_retry_ms;
	uint64_t storage_checkpoint_bytes; /* 0: any */
	int storage_accept_unsigned;

	char host[65];			/* this berthd's name in a shared store */
	char mount_dir[256];		/* "": state_dir/workspaces */
	int allow_mount_dir;
	uint64_t heartbeat_timeout_ms;	/* 0: never */
	uint64_t scan_interval_ms;
	uint64_t released_ttl_ms;
	uint64_t auto_stop_ms, auto_archive_ms, auto_delete_ms;	/* 0: never */
	uint64_t drain_timeout_ms, shutdown_timeout_ms;
	char on_shutdown[8];		/* "keep" or "clean" */

	char docker_socket[108];	/* "": none */
	char docker_allow[256];		/* words of manager/engine/create.h, a line each */
	char docker_binds[CONF_BINDS_MAX];	/* directories, a line each */

	/* [preview] */
	char preview_listen[64];	/* "127.0.0.1:8443"; "": none */
	char preview_domain[200];
	char preview_certificate[256], preview_key[256];	/* "": plain HTTP */
	char preview_url[256];		/* how clients write it, if a proxy is in front; "": as it listens */
	uint64_t preview_max_connections, preview_wait_ms;
	/* [otlp] */
	char otlp_endpoint[256];	/* "http://127.0.0.1:4318"; "": none */
	char otlp_headers[256];		/* file of "Name: value"; "": none */
	char otlp_service[65];

	/* [ssh] */
	char ssh_listen[64];		/* "127.0.0.1:2222"; "": none */
	uint64_t ssh_max_connections;

	struct conf_pool pools[CONF_POOLS_MAX];
	size_t pool_count;
};

extern const struct config_key conf_keys[], conf_pool_keys[];
extern const size_t conf_key_count, conf_pool_key_count;

/* Reads the file that config_load() reads. c: the values found there, for defaults. */
int conf_load(struct conf *ret, const struct config *c, struct err *e);
/* Returns the pool of that name, or NULL. */
const struct conf_pool *conf_pool_find(const struct conf *c, const char *name);

#endif
