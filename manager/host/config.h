/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config - reads the settings of /etc/berth/berth.toml and the environment.
 *
 * One table of keys (config_keys) feeds loading, `berth config show` and the
 * check of berth.toml(5): a key exists exactly when it has a row there.
 * struct config is plain data: copy it freely, there is nothing to release.
 * Unknown sections and keys, wrong types and values out of range are errors.
 */
#ifndef BERTH_MANAGER_HOST_CONFIG_H
#define BERTH_MANAGER_HOST_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

#define CONFIG_PATH "/etc/berth/berth.toml"
#define CONFIG_ACCEPTED "berthd.toml"	/* below run_dir: the configuration by which a berthd serves, for
					 * the programs it starts (berthd(8)) */
#define CPU_MILLI_MIN 10	/* the least CPU of a sandbox, in thousandths of one */
#define CONFIG_MAX_BYTES (1024 * 1024)
#define CONFIG_KEY_MAX 104	/* room in struct config for one source per row of config_keys */

enum config_source {
	CONFIG_FROM_DEFAULT,
	CONFIG_FROM_FILE,
	CONFIG_FROM_ENV,
};

struct config {
	/* [sandbox]: defaults for options that the command line does not give */
	char image[256];
	char work_dir[4096];		/* absolute, in the sandbox */
	uint64_t memory_bytes;
	uint64_t swap_bytes;
	uint64_t cpu_milli;		/* thousandths of a CPU */
	uint64_t pids;
	uint64_t disk_bytes;		/* size of the writable layer */
	uint64_t disk_inodes;
	uint64_t tmp_bytes;
	uint64_t max_silent_ms;		/* time without output of one command in exec, sh and code; 0: no
					 * limit */
	uint64_t timeout_ms;		/* time of one command in exec (if set), sh and code; 0: no limit */
	uint64_t grace_ms;		/* between TERM and KILL */
	int network_enabled;
	char seccomp[64];		/* a built-in profile's name or "unconfined" */
	char hostname[65];
	char checkpoint[8];		/* "never", or "command": one before each command */
	uint64_t checkpoint_keep;
	uint64_t checkpoint_bytes;	/* bytes of all checkpoints of one sandbox */
	char user[128];			/* "" means the image's own */
	/* [manager] */
	uint64_t max_sandboxes;		/* that run */
	uint64_t max_stopped;		/* most lasting sandboxes that do not run */
	uint64_t idle_timeout_ms;	/* 0 is never */
	char idle_action[8];		/* "stop" or "remove" */
	uint64_t cleanup_interval_ms;
	uint64_t host_checkpoint_bytes;	/* bytes of all checkpoints of all sandboxes */
	uint64_t log_bytes;		/* bytes of one sandbox's log; 0: no log */
	/* [policy] */
	char deny[4096];		/* rules, separated by newlines; policy.h */
	/* [paths] */
	char state_dir[256];		/* absolute */
	char run_dir[256];		/* absolute */
	char ids_dir[256];		/* absolute; the same for all state directories of the host */
	/* [cgroup] */
	char cgroup_parent[65];		/* one name, directly below each mount of cgroups */
	/* [ids] */
	uint32_t id_base;		/* first host uid and gid handed to sandboxes; a multiple of 65536 */
	uint32_t id_count;		/* ranges of 65536 ids from id_base on */
	/* [daemon]: berthd */
	char daemon_socket[108];	/* unix socket; "" means run_dir/berthd.sock */
	char daemon_listen[64];		/* "127.0.0.1:7423"; "" means none */
	char daemon_token_file[256];	/* "" is none */
	char daemon_allowed_hosts[256], daemon_allowed_origins[256];
	uint64_t daemon_max_connections;
	/* [ui]: the page of berthd */
	int ui_enabled;
	uint64_t ui_session_ms, ui_link_ms;
	/* [registry]; lists have a newline between their strings */
	char registry_pull[16];		/* missing, always or never */
	char registry_mirrors[1024];	/* "REGISTRY=MIRROR" */
	char registry_insecure[1024];	/* "HOST[:PORT]" */
	char registry_realms[1024];	/* "HOST[:PORT]=REALMHOST[:PORT]" */
	char registry_ca_file[256];	/* absolute, or "" */
	uint64_t registry_parallel;
	uint64_t registry_retries;
	uint64_t registry_stall_ms;
	uint64_t registry_deadline_ms;	/* time for a pull or push; 0: no limit */
	uint64_t registry_upload_chunk;	/* bytes; 0: whole blobs */

	/* [admission]; memory and CPUs of all sandboxes together: 0 is not limited */
	uint64_t admit_memory_bytes, admit_cpu_milli, disk_overcommit_milli;
	uint64_t disk_reserve_bytes;	/* of the host's disk, which layers leave free; 0: they are not guarded */
	uint64_t queue_length, queue_timeout_ms;	/* of berthd's manager */
	/* [devices]; lists as above */
	char devices_privileged[1024];	/* absolute paths */
	char cdi_dirs[512];
	char cdi_hooks[8];		/* "refuse" or "skip" */
	/* [build] */
	uint64_t build_disk_bytes, build_cache_bytes, build_memory_bytes, build_timeout_ms;

	/* [volume] */
	uint64_t volume_max, volume_bytes;
	/* [network]: for --network bridge */
	char bridge[16];		/* the interface, and the table of nftables */
	char network_pool[64], network_pool6[64];
	char network_allow[1024];	/* ranges that every sandbox may reach, separated by blanks or commas */
	int network_forwarding;		/* berth may switch the host's forwarding on */
	char network_subnets[64];	/* the range from which a network with a name gets its subnet */
	uint64_t network_max, network_max_members;

	char file[4096];		/* the file that was read, or "" */
	uint8_t source[CONFIG_KEY_MAX];	/* enum config_source, by row of config_keys */
};

enum config_type {
	CONFIG_STRING,
	CONFIG_SIZE,		/* uint64_t bytes; "512m" or an integer */
	CONFIG_DURATION,	/* uint64_t ms; "5m" or an integer of seconds */
	CONFIG_CPUS,		/* uint64_t thousandths; a number */
	CONFIG_COUNT,		/* uint64_t; an integer */
	CONFIG_U32,		/* uint32_t; an integer */
	CONFIG_BOOL,		/* int */
	CONFIG_LIST,		/* strings, held with newlines between them; an array */
};

struct config_key {
	const char *section;
	const char *name;
	enum config_type type;
	const char *preset;	/* the default, as text */
	uint64_t min, max;	/* in the field's unit; for a string or list its length in bytes */
	size_t offset, size;	/* place of the field in struct config */
	int (*check)(const char *value, const char *what, struct err *e);	/* of a string, or of each in a list; or NULL */
	const char *env;	/* the variable that overrides it, or NULL */
	const char *help;	/* one line */
};

/* Sections that berthd alone reads (conf.h), but for [pool.NAME] and [tenant.NAME]. */
extern const char *const config_service_sections[];
extern const size_t config_service_section_count;

extern const struct config_key config_keys[];
extern const size_t config_key_count;

/* Sets all defaults. Reads neither file nor environment. */
void config_defaults(struct config *ret);
/*
 * Sets defaults, then reads the file ($BERTH_CONFIG, else CONFIG_PATH), then $BERTH_STATE_DIR,
 * $BERTH_RUN_DIR, $BERTH_IDS_DIR and $BERTH_CGROUP_PARENT. CONFIG_PATH may be missing: then this is
 * one failed open and allocates nothing. A file that $BERTH_CONFIG names must exist. Errors are
 * ERR_CONFIG.
 */
int config_load(struct config *ret, struct err *e);
/* Returns the file that config_load() would read, and whether it may be missing. */
const char *config_source(int *ret_may_be_absent);
/*
 * Makes config_load() and config_document() of this thread read path, which they call label; both
 * borrowed. NULL, NULL: as before.
 */
void config_read_from(const char *path, const char *label);
/* Copies source, with the checks that a configuration's file gets, to name below dirfd; an absent one is empty. */
int config_copy(const char *source, int may_be_absent, int dirfd, const char *name, struct err *e);
/* Sets defaults, then reads that file alone. A missing file is ERR_CONFIG. */
int config_load_file(const char *path, struct config *ret, struct err *e);
/* Sets defaults, then parses text; what names it in errors. Reads nothing else. */
int config_parse(const char *text, size_t n, const char *what, struct config *ret, struct err *e);

/*
 * Sets the field of row k in the struct at base from a value of the file, or from its preset; for
 * sections that only berthd reads (manager/host/conf.h).
 */
int config_set(void *base, const struct config_key *k, const json_t *v, const char *what, struct err *e);
int config_set_preset(void *base, const struct config_key *k, struct err *e);
/*
 * Tells whether n bytes are the name of an environment variable: letters, digits and _ . -, and no
 * digit first.
 */
int config_is_env_name(const char *s, size_t n);
/* Checks a key's value: missing, always or never. */
int config_check_pull(const char *v, const char *what, struct err *e);
/* Returns the whole file that config_load() would read, as a new reference; a missing one is {}. */
json_t *config_document(struct err *e);

/*
 * Formats the value of row k in the struct at base as TOML source; returns out, which never needs
 * more than CONFIG_TOML_MAX.
 */
const char *config_value_toml(const void *base, const struct config_key *k, char *out, size_t n);
#define CONFIG_TOML_MAX (3 * 4096 + 16)
/* Tells whether the key is set, in a file or the environment. */
int config_is_set(const struct config *c, const char *section, const char *name);
/* Returns "default", "file" or "env" for row i. */
const char *config_source_name(const struct config *c, size_t i);

/* ---- checks of values, for config_keys ---- */

/*
 * Checks for values of a configuration that have a grammar, for config_keys.
 *
 * what names the value; ERR_CONFIG.
 */

/* Accepts refuse or skip. */
int config_check_hooks(const char *v, const char *what, struct err *e);
/* Accepts stop or remove. */
int config_check_idle(const char *v, const char *what, struct err *e);
/* Accepts never or command. */
int config_check_checkpoint(const char *v, const char *what, struct err *e);
/* Accepts the name of an interface. */
int config_check_interface(const char *v, const char *what, struct err *e);
/* Accept one range of addresses; any number of them, separated by blanks or commas. */
int config_check_range(const char *v, const char *what, struct err *e);
int config_check_ranges(const char *v, const char *what, struct err *e);

#endif
