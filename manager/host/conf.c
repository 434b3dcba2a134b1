/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/conf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/host/tenant.h"
#include "manager/ledger/storeurl.h"

#define F(f) offsetof(struct conf, f), sizeof(((struct conf *)0)->f)
#define P(f) offsetof(struct conf_pool, f), sizeof(((struct conf_pool *)0)->f)
#define MEMORY_MIN (512u << 10)
#define YEAR_MS (UINT64_C(366) * 86400000)

static int check_one_of_two(const char *v, const char *what, const char *a, const char *b, struct err *e)
{
	return strcmp(v, a) && strcmp(v, b) ? err_set(e, ERR_CONFIG, "%s is '%.20s'; hint: \"%s\" or \"%s\"", what, v, a, b) : 0;
}

static int check_sync(const char *v, const char *what, struct err *e)
{
	return check_one_of_two(v, what, "normal", "full", e);
}

static int check_addressing(const char *v, const char *what, struct err *e)
{
	return check_one_of_two(v, what, "path", "virtual", e);
}

static int check_shutdown(const char *v, const char *what, struct err *e)
{
	return check_one_of_two(v, what, "keep", "clean", e);
}

static int check_dir(const char *v, const char *what, struct err *e)
{
	return v[0] && (v[0] != '/' || strstr(v, "/../")) ? err_set(e, ERR_CONFIG, "%s '%.100s' is not an absolute path", what, v) : 0;
}

static int check_mount(const char *v, const char *what, struct err *e)
{
	const char *colon = strchr(v, ':');

	return v[0] != '/' || !colon || colon[1] != '/' || strchr(colon + 1, ':') ?
	       err_set(e, ERR_CONFIG, "%s '%.100s' is not a mount; hint: /HOST:/SANDBOX, which is read-only", what, v) : 0;
}

static int check_pool_env(const char *v, const char *what, struct err *e)
{
	const char *eq = strchr(v, '=');

	return !eq || !config_is_env_name(v, (size_t)(eq - v)) ?
	       err_set(e, ERR_CONFIG, "%s '%.100s' is not NAME=VALUE; hint: a name has letters, digits and _ . -", what, v) : 0;
}

static int check_store(const char *v, const char *what, struct err *e)
{
	struct storeurl url;

	return v[0] ? storeurl_parse(v, what, &url, e) : 0;
}

static int check_storage_place(const char *v, const char *what, struct err *e)
{
	if (!v[0] || (!strncmp(v, "file:/", 6) && v[6] && !strstr(v, "/../")) || !strncmp(v, "s3://", 5))
		return 0;
	return err_set(e, ERR_CONFIG, "%s '%.100s' is not a place for objects; hint: file:/DIR or s3://BUCKET/PREFIX", what, v);
}

static int check_docker_host_name(const char *v, const char *what, struct err *e)
{
	return v[0] && !path_is_name(v) ? err_set(e, ERR_CONFIG, "%s '%.64s' is not a name; hint: a-z 0-9 _ . -", what, v) : 0;
}

static int check_zygote_name(const char *v, const char *what, struct err *e)
{
	return !v[0] || path_is_name(v) ? 0 :
		err_set(e, ERR_CONFIG, "%s '%.64s' is not a name of a zygote; hint: a-z 0-9 _ . -",
			what, v);
}

static int check_pool_pull(const char *v, const char *what, struct err *e)
{
	return v[0] ? config_check_pull(v, what, e) : 0;
}

static int check_bind(const char *v, const char *what, struct err *e)
{
	const size_t n = strlen(v);

	return v[0] == '/' && (n == 1 || v[n - 1] != '/') && !strstr(v, "//") && !strstr(v, "/../") && !strstr(v, "/./") ? 0 :
		err_set(e, ERR_CONFIG, "%s '%.100s' is not an absolute path; hint: such as \"/var/log\"", what, v);
}

static int check_docker_allow(const char *v, const char *what, struct err *e)
{
	static const char *const words[] = {
		"privileged", "host-network", "unconfined", "system-binds", "drop-docker-socket",
		"devices", "public-subnets",
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(words); i++)
		if (!strcmp(v, words[i]))
			return 0;
	return err_set(e, ERR_CONFIG, "%s has '%.40s'; hint: privileged, host-network, unconfined, "
		       "system-binds, drop-docker-socket, devices, public-subnets", what, v);
}

static int check_otlp_endpoint(const char *v, const char *what, struct err *e)
{
	if (v[0] && strncmp(v, "http://", 7) && strncmp(v, "https://", 8))
		return err_set(e, ERR_CONFIG, "%s '%.100s' is no URL; hint: such as \"http://127.0.0.1:4318\"", what, v);
	return 0;
}

static int check_preview_domain(const char *v, const char *what, struct err *e)
{
	size_t i;

	for (i = 0; v[i]; i++)
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-.", v[i]) || (v[i] == '.' && (!i || v[i - 1] == '.' || !v[i + 1])))
			return err_set(e, ERR_CONFIG, "%s '%.100s' is not a domain in lower case; hint: such as \"preview.example.com\"", what, v);
	return 0;
}

const struct config_key conf_keys[] = {
	{ "store", "url", CONFIG_STRING, "", 0, 255, F(store_url), check_store, NULL,
	  "where the manager keeps its records: sqlite:/PATH, redis://HOST:PORT/DB, redis+unix:/PATH; empty is SQLite in state_dir" },
	{ "store", "user", CONFIG_STRING, "", 0, 63, F(store_user), NULL, NULL, "user of Redis" },
	{ "store", "password_file", CONFIG_STRING, "", 0, 255, F(store_password_file), check_dir, NULL,
	  "file of mode 600 with the password of Redis" },
	{ "store", "prefix", CONFIG_STRING, "{berth}", 1, 63, F(store_prefix), NULL, NULL, "of all keys in Redis" },
	{ "store", "retry", CONFIG_DURATION, "10s", 0, 3600000, F(store_retry_ms), NULL, NULL,
	  "how long a lost connection to Redis is tried again before a request fails" },
	{ "store", "sync", CONFIG_STRING, "normal", 4, 6, F(store_sync), check_sync, NULL,
	  "\"normal\": SQLite's commits survive crashes of berthd and reboots; \"full\": a power cut too, for an fsync each" },
	{ "storage", "url", CONFIG_STRING, "", 0, 255, F(storage_url), check_storage_place, NULL,
	  "where workspaces and archives go: file:/DIR or s3://BUCKET/PREFIX; empty is nowhere" },
	{ "storage", "endpoint", CONFIG_STRING, "", 0, 255, F(storage_endpoint), NULL, NULL,
	  "URL of the S3-compatible server; empty is AWS" },
	{ "storage", "addressing", CONFIG_STRING, "path", 4, 7, F(storage_addressing), check_addressing, NULL,
	  "where the bucket stands in a URL: \"path\", behind the host; \"virtual\", in the host's name, as Alibaba's OSS demands" },
	{ "storage", "region", CONFIG_STRING, "us-east-1", 1, 63, F(storage_region), NULL, NULL, "of the bucket" },
	{ "storage", "credentials_file", CONFIG_STRING, "", 0, 255, F(storage_credentials), check_dir, NULL,
	  "file of mode 600 with two lines: access key, secret key" },
	{ "storage", "retry", CONFIG_DURATION, "30s", 0, 3600000, F(storage_retry_ms), NULL, NULL,
	  "how long a request to the object store is tried again" },
	{ "storage", "checkpoint_bytes", CONFIG_SIZE, "0", 0, 1ULL << 60,
	  F(storage_checkpoint_bytes), NULL, NULL,
	  "what the checkpoints in the storage may take together; 0 is any number of bytes" },
	{ "storage", "accept_unsigned", CONFIG_BOOL, "false", 0, 1, F(storage_accept_unsigned), NULL, NULL,
	  "whether an archive that an older berth stored is taken back without a digest in the store" },
	{ "session", "host", CONFIG_STRING, "", 0, 64, F(host), check_docker_host_name, NULL,
	  "name of this berthd among those that share a store; empty is the host's name" },
	{ "session", "default_mount_dir", CONFIG_STRING, "", 0, 255, F(mount_dir), check_dir, NULL,
	  "directory of the sessions' workspaces; empty is manager/workspaces in state_dir" },
	{ "session", "allow_mount_dir", CONFIG_BOOL, "false", 0, 1, F(allow_mount_dir), NULL, NULL,
	  "whether an administrator's request may name a host directory as the workspace" },
	{ "session", "heartbeat_timeout", CONFIG_DURATION, "300s", 0, YEAR_MS, F(heartbeat_timeout_ms), NULL, NULL,
	  "a session that asked for nothing this long is reaped; 0 is never" },
	{ "session", "scan_interval", CONFIG_DURATION, "1s", 20, 3600000, F(scan_interval_ms), NULL, NULL,
	  "how often sessions, pools and intervals are looked at" },
	{ "session", "released_ttl", CONFIG_DURATION, "3600s", 0, YEAR_MS, F(released_ttl_ms), NULL, NULL,
	  "how long the record of a released sandbox is kept" },
	{ "session", "auto_stop", CONFIG_DURATION, "15m", 0, YEAR_MS, F(auto_stop_ms), NULL, NULL,
	  "a sandbox that was idle this long is stopped; 0 is never" },
	{ "session", "auto_archive", CONFIG_DURATION, "24h", 0, YEAR_MS, F(auto_archive_ms), NULL, NULL,
	  "a sandbox that was stopped this long is archived, if there is a storage; 0 is never" },
	{ "session", "auto_delete", CONFIG_DURATION, "0", 0, YEAR_MS, F(auto_delete_ms), NULL, NULL,
	  "a sandbox that was stopped or archived this long is released; 0 is never" },
	{ "session", "drain_timeout", CONFIG_DURATION, "10s", 0, 3600000, F(drain_timeout_ms), NULL, NULL,
	  "how long a delete waits for operations under way before it ends them" },
	{ "session", "shutdown_timeout", CONFIG_DURATION, "30s", 0, 3600000, F(shutdown_timeout_ms), NULL, NULL,
	  "how long a clean-up of everything may take" },
	{ "session", "on_shutdown", CONFIG_STRING, "keep", 4, 5, F(on_shutdown), check_shutdown, NULL,
	  "\"keep\": sandboxes live on when berthd ends; \"clean\": they are released" },
	{ "docker", "socket", CONFIG_STRING, "", 0, 107, F(docker_socket), check_dir, NULL,
	  "unix socket for clients of Docker, for root and the group berth; empty means none" },
	{ "docker", "allow", CONFIG_LIST, "", 0, 255, F(docker_allow), check_docker_allow, NULL,
	  "what they may ask for: privileged, host-network, unconfined, system-binds, "
	  "drop-docker-socket, devices, public-subnets" },
	{ "docker", "binds", CONFIG_LIST, "", 0, CONF_BINDS_MAX - 1, F(docker_binds), check_bind, NULL,
	  "directories of this host that they may bind, with what is in them, beside those of users" },
	{ "preview", "listen", CONFIG_STRING, "", 0, 63, F(preview_listen), NULL, NULL,
	  "ADDRESS:PORT of the web server in front of servers in sandboxes; empty means none" },
	{ "preview", "domain", CONFIG_STRING, "", 0, 199, F(preview_domain), check_preview_domain, NULL,
	  "what stands behind PORT-ID. in the address of a port" },
	{ "preview", "certificate", CONFIG_STRING, "", 0, 255, F(preview_certificate), check_dir, NULL,
	  "file of the certificates for *.DOMAIN, in PEM; empty is plain HTTP, on a loopback address only" },
	{ "preview", "key", CONFIG_STRING, "", 0, 255, F(preview_key), check_dir, NULL, "file of the certificate's key, in PEM" },
	{ "preview", "url", CONFIG_STRING, "", 0, 255, F(preview_url), NULL, NULL,
	  "\"https://*.DOMAIN\" as clients write it, if a proxy is in front; empty is as it listens" },
	{ "preview", "max_connections", CONFIG_COUNT, "1536", 16, 2048, F(preview_max_connections), NULL, NULL,
	  "connections at once, of which one port of a sandbox gets half" },
	{ "preview", "wait", CONFIG_DURATION, "30s", 0, 300000, F(preview_wait_ms), NULL, NULL,
	  "how long a request that woke its sandbox waits for the server there" },
	{ "otlp", "endpoint", CONFIG_STRING, "", 0, 255, F(otlp_endpoint), check_otlp_endpoint, NULL,
	  "URL of a collector that takes traces and logs by OTLP/HTTP; empty means none" },
	{ "otlp", "headers_file", CONFIG_STRING, "", 0, 255, F(otlp_headers), check_dir, NULL,
	  "file of mode 600 with lines of \"Name: value\" for its requests, such as Authorization" },
	{ "otlp", "service_name", CONFIG_STRING, "berthd", 1, 64, F(otlp_service), NULL, NULL, "service.name of what is sent" },
	{ "ssh", "listen", CONFIG_STRING, "", 0, 63, F(ssh_listen), NULL, NULL,
	  "ADDRESS:PORT at which SSH clients reach sandboxes, with a token as password; empty means none" },
	{ "ssh", "max_connections", CONFIG_COUNT, "64", 8, 512, F(ssh_max_connections), NULL, NULL,
	  "connections at once, of which one name gets an eighth" },
};
const size_t conf_key_count = ARRAY_LEN(conf_keys);

const struct config_key conf_pool_keys[] = {
	{ "pool", "image", CONFIG_STRING, "", 0, 255, P(image), NULL, NULL, "image of the type; empty is [sandbox] image" },
	{ "pool", "zygote", CONFIG_STRING, "", 0, 64, P(zygote), check_zygote_name, NULL,
	  "of this zygote (berth zygote create), in place of an image" },
	{ "pool", "pull", CONFIG_STRING, "", 0, 15, P(pull), check_pool_pull, NULL,
	  "when its image is fetched from a registry: missing, always, never; empty is [registry] pull" },
	{ "pool", "size", CONFIG_COUNT, "0", 0, 1000, P(size), NULL, NULL, "sandboxes kept ready" },
	{ "pool", "memory_limit", CONFIG_SIZE, "0", 0, 1ULL << 60, P(memory_bytes), NULL, NULL, "0 is [sandbox] memory_limit; else from 512k" },
	{ "pool", "cpu_limit", CONFIG_CPUS, "0", 0, 4096000, P(cpu_milli), NULL, NULL, "0 is [sandbox] cpu_limit; else from 0.01" },
	{ "pool", "timeout", CONFIG_DURATION, "0", 0, YEAR_MS, P(timeout_ms), NULL, NULL, "of a tool call; 0 is [sandbox] timeout" },
	{ "pool", "options", CONFIG_LIST, "", 0, 4095, P(options), NULL, NULL,
	  "more options of berth create, as \"pids=64\" or \"read-only\"" },
	{ "pool", "env", CONFIG_LIST, "", 0, 4095, P(env), check_pool_env, NULL, "environment, as \"NAME=VALUE\"" },
	{ "pool", "readonly_mounts", CONFIG_LIST, "", 0, 4095, P(readonly_mounts), check_mount, NULL,
	  "host directories, as \"/HOST:/SANDBOX\"" },
};
const size_t conf_pool_key_count = ARRAY_LEN(conf_pool_keys);

static int presets(void *base, const struct config_key *keys, size_t n, struct err *e)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (config_set_preset(base, &keys[i], e) < 0)
			return -1;
	return 0;
}

static int apply_conf_table(void *base, const struct config_key *keys, size_t n, const char *section, const char *shown, const json_t *table,
		 struct err *e)
{
	const char *name;
	json_t *v;
	char what[160];
	size_t i;

	if (!json_is_object(table))
		return err_set(e, ERR_CONFIG, "%.80s is not a table; hint: [%.80s]", shown, shown);
	json_object_foreach((json_t *)(size_t)table, name, v) {
		for (i = 0; i < n && (strcmp(keys[i].section, section) || strcmp(keys[i].name, name)); i++)
			;
		if (i == n)
			return err_set(e, ERR_CONFIG, "unknown key %.64s in [%.80s]; hint: berth.toml(5) lists them", name, shown);
		snprintf(what, sizeof(what), "%.80s.%.64s", shown, name);
		if (config_set(base, &keys[i], v, what, e) < 0)
			return -1;
	}
	return 0;
}

/* Checks a type with a zygote for options that berth zygote create has decided. */
static int check_of_zygote(const struct conf_pool *p, struct err *e)
{
	const char *const set = p->image[0] ? "image" : p->pull[0] ? "pull" :
		p->memory_bytes ? "memory_limit" : p->cpu_milli ? "cpu_limit" : p->env[0] ? "env" :
		NULL;

	if (!p->zygote[0] || !set)
		return 0;
	return err_set(e, ERR_CONFIG, "pool.%s has %s beside zygote, which has decided that; hint: "
		       "give it to berth zygote create", p->name, set);
}

/* Checks the limits: 0 means the value of [sandbox]; any other must be as large as a sandbox's own limit. */
static int check_pool_limits(const struct conf_pool *p, struct err *e)
{
	if (p->memory_bytes && p->memory_bytes < MEMORY_MIN)
		return err_set(e, ERR_CONFIG, "pool.%s.memory_limit is %" PRIu64 " bytes, and no sandbox starts with less than 512k; "
			       "hint: 0 is [sandbox] memory_limit", p->name, p->memory_bytes);
	if (p->cpu_milli && p->cpu_milli < CPU_MILLI_MIN)
		return err_set(e, ERR_CONFIG, "pool.%s.cpu_limit is less than 0.01; hint: 0 is [sandbox] cpu_limit", p->name);
	return 0;
}

static int apply_pools(struct conf *ret, const json_t *pools, struct err *e)
{
	const char *name;
	json_t *table;
	char shown[80];

	if (!json_is_object(pools))
		return err_set(e, ERR_CONFIG, "pool is not a table; hint: [pool.NAME]");
	json_object_foreach((json_t *)(size_t)pools, name, table) {
		struct conf_pool *p = &ret->pools[ret->pool_count];

		if (!path_is_name(name))
			return err_set(e, ERR_CONFIG, "[pool.%.64s] is not a name of a-z 0-9 _ . -", name);
		if (ret->pool_count == CONF_POOLS_MAX)
			return err_set(e, ERR_CONFIG, "more than %d pools", CONF_POOLS_MAX);
		snprintf(p->name, sizeof(p->name), "%s", name);
		snprintf(shown, sizeof(shown), "pool.%s", name);
		if (presets(p, conf_pool_keys, conf_pool_key_count, e) < 0 ||
		    apply_conf_table(p, conf_pool_keys, conf_pool_key_count, "pool", shown, table, e) < 0 || check_pool_limits(p, e) < 0 ||
		    check_of_zygote(p, e) < 0)
			return -1;
		ret->pool_count++;
	}
	return 0;
}

static void fill_in_conf(struct conf *ret, const struct config *c)
{
	size_t i;

	if (!ret->pool_count) {
		struct conf_pool *p = &ret->pools[ret->pool_count++];
		struct err ignored;

		snprintf(p->name, sizeof(p->name), "base");
		presets(p, conf_pool_keys, conf_pool_key_count, &ignored);
	}
	for (i = 0; i < ret->pool_count; i++) {
		struct conf_pool *p = &ret->pools[i];

		if (!p->image[0])
			memcpy(p->image, c->image, sizeof(p->image));
		if (!p->pull[0])
			memcpy(p->pull, c->registry_pull, sizeof(p->pull));
		if (!p->memory_bytes)
			p->memory_bytes = c->memory_bytes;
		if (!p->cpu_milli)
			p->cpu_milli = c->cpu_milli;
		if (!p->timeout_ms)
			p->timeout_ms = c->timeout_ms;
	}
	if (!ret->store_url[0])
		snprintf(ret->store_url, sizeof(ret->store_url), "sqlite:%.220s/manager/records.db", c->state_dir);
	if (!ret->mount_dir[0])
		snprintf(ret->mount_dir, sizeof(ret->mount_dir), "%.220s/manager/workspaces", c->state_dir);
	if (!ret->host[0] && (gethostname(ret->host, sizeof(ret->host) - 1) < 0 || !ret->host[0]))
		snprintf(ret->host, sizeof(ret->host), "localhost");
}

/* As conf_load(), from a parsed document. */
static int conf_parse(const json_t *doc, struct conf *ret, const struct config *c, struct err *e)
{
	const json_t *table;
	size_t i;

	memset(ret, 0, sizeof(*ret));
	if (presets(ret, conf_keys, conf_key_count, e) < 0)
		return -1;
	for (i = 0; i < config_service_section_count; i++) {
		table = json_object_get(doc, config_service_sections[i]);
		if (table && apply_conf_table(ret, conf_keys, conf_key_count, config_service_sections[i], config_service_sections[i], table, e) < 0)
			return -1;
	}
	table = json_object_get(doc, "pool");
	if (table && apply_pools(ret, table, e) < 0)
		return -1;
	fill_in_conf(ret, c);
	return tenant_check_sections(doc, c, e);
}

int conf_load(struct conf *ret, const struct config *c, struct err *e)
{
	autojson json_t *doc = config_document(e);

	if (!doc)
		return -1;
	if (conf_parse(doc, ret, c, e) < 0) {
		e->code = ERR_CONFIG;
		return c->file[0] ? err_wrap(e, "%.200s", c->file) : -1;
	}
	return 0;
}

const struct conf_pool *conf_pool_find(const struct conf *c, const char *name)
{
	size_t i;

	for (i = 0; i < c->pool_count; i++)
		if (!strcmp(c->pools[i].name, name))
			return &c->pools[i];
	return NULL;
}
