/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/system.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/engine/image.h"
#include "manager/engine/load.h"
#include "manager/host/nets.h"
#include "manager/host/buildcache.h"
#include "manager/host/journal.h"
#include "manager/host/layerpool.h"
#include "manager/host/registry.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/digest.h"
#include "rootfs/store/image.h"

/* ---- version and info ---- */

json_t *engine_version(void)
{
	struct utsname u = { 0 };

	uname(&u);
	return json_pack(
		"{s:{s:s},s:[{s:s,s:s,s:{s:s,s:s,s:s,s:s,s:s}}],s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s}",
		"Platform", "Name", "berth " BERTH_VERSION, "Components", "Name", "Engine",
		"Version", ENGINE_SAID_VERSION, "Details", "ApiVersion", ENGINE_API,
		"MinAPIVersion", ENGINE_API_MIN, "Os", "linux", "Arch", "amd64", "KernelVersion",
		u.release, "Version", ENGINE_SAID_VERSION, "ApiVersion", ENGINE_API,
		"MinAPIVersion", ENGINE_API_MIN, "Os", "linux", "Arch", "amd64", "KernelVersion",
		u.release, "GitCommit", "berth", "GoVersion", "none");
}

struct counts {
	struct registry *r;
	int running, stopped;
};

static int count_engine_container(void *ctx, const char *id, int kept, json_t *record)
{
	struct counts *c = ctx;

	if (!kept)
		engine_load_label(c->r, id, record);
	if (!engine_is_internal(record, !kept))
		*(kept ? &c->stopped : &c->running) += 1;
	return 0;
}

static int is_v2(void)
{
	struct statfs s;

	return !statfs("/sys/fs/cgroup", &s) && s.f_type == 0x63677270;
}

static json_t *describe_engine_host(const struct config *c, const struct counts *n)
{
	struct utsname u = { 0 };
	struct sysinfo m = { 0 };

	uname(&u);
	sysinfo(&m);
	return json_pack(
		"{s:s,s:i,s:i,s:i,s:i,s:i,s:s,s:[],s:{s:[s],s:[s,s,s],s:n,s:[s]},s:b,s:b,s:b,s:b,s:"
		"s,s:s,s:s,s:s,s:s,s:i,s:I,"
		"s:s,s:s,s:s,s:{s:{s:s}},s:s,s:{s:s},s:[s,s],s:b,s:n}",
		"ID", "berth", "Containers", n->running + n->stopped, "ContainersRunning",
		n->running, "ContainersPaused", 0, "ContainersStopped", n->stopped, "Images", 0,
		"Driver", "overlay2", "DriverStatus", "Plugins", "Volume", "local", "Network",
		"bridge", "none", "null", "Authorization", "Log", "json-file", "MemoryLimit", 1,
		"SwapLimit", 1, "CpuCfsQuota", 1, "PidsLimit", 1, "CgroupDriver", "cgroupfs",
		"CgroupVersion", is_v2() ? "2" : "1", "KernelVersion", u.release, "OperatingSystem",
		"berth " BERTH_VERSION " on Linux", "OSType", "linux", "NCPU",
		(int)sysconf(_SC_NPROCESSORS_ONLN), "MemTotal", (json_int_t)m.totalram * m.mem_unit,
		"Architecture", u.machine, "DockerRootDir", c->state_dir, "Name", u.nodename,
		"Runtimes", "runc", "path", "berth", "DefaultRuntime", "runc", "Swarm",
		"LocalNodeState", "inactive", "SecurityOptions", "name=seccomp,profile=builtin",
		"name=no-new-privileges", "LiveRestoreEnabled", 1, "Warnings");
}

/* Every member that Docker's has: clients and templates name them. */
static void set_info_lacked(json_t *j, json_int_t images)
{
	static const char *const yes[] = { "CpuCfsPeriod", "CPUShares", "CPUSet" },
			  *const no[] = { "Debug", "ExperimentalBuild", "KernelMemory", "KernelMemoryTCP", "OomKillDisable" },
			  *const texts[] = { "HttpProxy", "HttpsProxy", "NoProxy", "Isolation", "OSVersion", "ProductLicense" },
			  *const none[] = { "GenericResources" };
	struct timespec now;
	char time[JOURNAL_TIME];
	size_t i;

	for (i = 0; i < ARRAY_LEN(yes); i++)
		json_object_set_new(j, yes[i], json_true());
	for (i = 0; i < ARRAY_LEN(no); i++)
		json_object_set_new(j, no[i], json_false());
	for (i = 0; i < ARRAY_LEN(texts); i++)
		json_object_set_new(j, texts[i], json_string(""));
	for (i = 0; i < ARRAY_LEN(none); i++)
		json_object_set_new(j, none[i], json_null());
	clock_gettime(CLOCK_REALTIME, &now);
	journal_time(&now, time);
	json_object_set_new(j, "SystemTime", json_string(time));
	json_object_set_new(j, "Images", json_integer(images));
	json_object_set_new(j, "Labels", json_array());
	json_object_set_new(j, "NFd", json_integer(0));
	json_object_set_new(j, "NGoroutines", json_integer(0));
	json_object_set_new(j, "NEventsListener", json_integer(0));
	json_object_set_new(j, "IPv4Forwarding", json_boolean(nets_is_switch_on(NETS_FORWARDS)));
	json_object_set_new(j, "BridgeNfIptables", json_boolean(nets_is_switch_on("/proc/sys/net/bridge/bridge-nf-call-iptables")));
	json_object_set_new(j, "BridgeNfIp6tables", json_boolean(nets_is_switch_on("/proc/sys/net/bridge/bridge-nf-call-ip6tables")));
	json_object_set_new(j, "RegistryConfig",
			    json_pack("{s:[s],s:{},s:[]}", "InsecureRegistryCIDRs", "127.0.0.0/8", "IndexConfigs", "Mirrors"));
	json_object_set_new(j, "InitBinary", json_string("berth-init"));
	json_object_set_new(j, "ContainerdCommit", json_pack("{s:s,s:s}", "ID", "", "Expected", ""));
	json_object_set_new(j, "RuncCommit", json_pack("{s:s,s:s}", "ID", "", "Expected", ""));
	json_object_set_new(j, "InitCommit", json_pack("{s:s,s:s}", "ID", "", "Expected", ""));
	json_object_set_new(json_object_get(j, "Runtimes"), "io.containerd.runc.v2", json_pack("{s:s}", "path", "berth"));
}

/* The images of the store, each once whatever its names. */
static json_int_t count_images(const struct config *c)
{
	char path[sizeof(c->state_dir) + 16];
	struct err ignored;
	autoclose int store = -1;
	autojson json_t *list = NULL, *seen = json_object();
	const json_t *one;
	size_t i;

	snprintf(path, sizeof(path), "%s/store", c->state_dir);
	store = store_open(path, &ignored);
	list = store < 0 ? NULL : catalog_list(store, 0, &ignored);
	json_array_foreach (list, i, one) {
		const char *digest = json_string_value(json_object_get(one, "digest"));

		if (digest)
			json_object_set_new(seen, digest, json_true());
	}
	return (json_int_t)json_object_size(seen);
}

json_t *engine_info(struct registry *r, struct err *e)
{
	struct counts n = { .r = r };
	json_t *j;

	if (registry_list(r, 1, count_engine_container, &n, e) < 0)
		return NULL;
	j = describe_engine_host(r->config, &n);
	json_object_set_new(j, "ServerVersion", json_string(ENGINE_SAID_VERSION));
	json_object_set_new(j, "IndexServerAddress", json_string("https://index.docker.io/v1/"));
	json_object_set_new(j, "LoggingDriver", json_string("json-file"));
	set_info_lacked(j, count_images(r->config));
	return j;
}

/* ---- the use of the disk ---- */

static const char *usage_record_text(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s ? s : "";
}

/* ---- layers -------------------------------------------------------------------------------- */

struct layers {
	int store_fd;
	json_t *images; /* digest: its layers, each once */
	json_t *sizes;  /* chain id: bytes on disk */
	json_t *users;  /* chain id: how many images have it */
};

static int measure_layer_usage(struct layers *l, const char *chain, struct err *e)
{
	char path[96];
	uint64_t bytes;
	struct err why;

	if (json_object_get(l->sizes, chain))
		return 0;
	if (!digest_is_sha256(chain))
		return err_set(e, ERR_CORRUPT, "an image has a bad layer; hint: berth image fsck");
	snprintf(path, sizeof(path), "layers/%.64s", digest_hex(chain));
	if (catalog_disk_bytes(l->store_fd, path, &bytes, NULL, &why) < 0) {
		/* removed meanwhile, with its image */
		if (why.code != ERR_NOT_FOUND) {
			*e = why;
			return -1;
		}
		bytes = 0;
	}
	return json_object_set_new(l->sizes, chain, json_integer((json_int_t)bytes)) < 0 ?
		       err_nomem(e) :
		       0;
}

static int add_image(void *ctx, const char *filename, const json_t *record, const struct err *bad,
		     struct err *e)
{
	struct layers *l = ctx;
	const char *digest = usage_record_text(record, "digest");
	json_t *layers = json_object_get(record, "layers"), *one;
	size_t i;

	(void)filename;
	(void)bad;
	/* one that cannot be read is not in the list of images either */
	if (!record || json_object_get(l->images, digest))
		return 0;
	json_array_foreach (layers, i, one) {
		const char *chain = usage_record_text(one, "chain_id");
		const json_int_t n = json_integer_value(json_object_get(l->users, chain));

		if (measure_layer_usage(l, chain, e) < 0)
			return -1;
		json_object_set_new(l->users, chain, json_integer(n + 1));
	}
	return json_object_set(l->images, digest, layers) < 0 ? err_nomem(e) : 0;
}

static void size_image(const struct layers *l, json_t *image)
{
	json_int_t whole = 0, shared = 0;
	const json_t *one;
	size_t i;

	json_array_foreach (json_object_get(l->images, usage_record_text(image, "Id")), i, one) {
		const char *chain = usage_record_text(one, "chain_id");
		const json_int_t bytes = json_integer_value(json_object_get(l->sizes, chain));

		whole += bytes;
		if (json_integer_value(json_object_get(l->users, chain)) > 1)
			shared += bytes;
	}
	json_object_set_new(image, "Size", json_integer(whole));
	json_object_set_new(image, "VirtualSize", json_integer(whole));
	json_object_set_new(image, "SharedSize", json_integer(shared));
}

static json_int_t sum_of_sizes(const json_t *sizes)
{
	json_int_t sum = 0;
	const char *key;
	json_t *one;

	json_object_foreach ((json_t *)(size_t)sizes, key, one)
		sum += json_integer_value(one);
	return sum;
}

/* ---- the document -------------------------------------------------------------------------- */

static void count_users(json_t *image, const json_t *containers)
{
	const json_t *one;
	json_int_t n = 0;
	size_t i;

	json_array_foreach ((json_t *)(size_t)containers, i, one)
		n += !strcmp(usage_record_text(one, "ImageID"), usage_record_text(image, "Id"));
	json_object_set_new(image, "Containers", json_integer(n));
}

static json_t *load_images(struct layers *l, json_t *containers, struct err *e)
{
	autojson json_t *none = json_object(), *list = catalog_list(l->store_fd, 0, e);
	json_t *images = list ? engine_image_list(list, none, e) : NULL, *one;
	size_t i;

	if (!images || catalog_each(l->store_fd, add_image, l, e) < 0) {
		json_decref(images);
		return NULL;
	}
	json_array_foreach (images, i, one) {
		size_image(l, one);
		count_users(one, containers);
	}
	return images;
}

/* What builds keep, as one record of docker's: buildah knows its steps, not we. */
static json_t *load_build_caches(struct registry *r)
{
	const uint64_t bytes = buildcache_bytes(r);

	return bytes ? json_pack("[{s:s,s:s,s:s,s:b,s:b,s:I,s:i}]", "ID", "builds", "Type", "regular", "Description", "base images and steps of builds",
				 "InUse", 0, "Shared", 0, "Size", (json_int_t)bytes, "UsageCount", 1) :
		       json_array();
}

json_t *engine_usage(struct registry *r, int store_fd, json_t *volumes, struct err *e)
{
	autojson json_t *none = json_object(), *digests = json_object(), *sizes = json_object(),
			*users = json_object(), *owned = volumes, *containers = NULL,
			*images = NULL;
	struct layers l = { store_fd, digests, sizes, users };

	containers = engine_load_list(r, none, 1, 0, e);
	if (containers && engine_sizes(r->config, r, containers, e) == 0)
		images = load_images(&l, containers, e);
	return images ? json_pack("{s:I,s:O,s:O,s:O,s:o}", "LayersSize", sum_of_sizes(sizes), "Images",
				  images, "Containers", containers, "Volumes", owned,
				  "BuildCache", load_build_caches(r)) :
			NULL;
}

/* ---- sizes of containers ---- */

#define SHORT_ID 12

static json_int_t image_bytes(const json_t *images, const char *digest)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)images, i, one) {
		const char *its = json_string_value(json_object_get(one, "digest"));

		if (its && digest && !strcmp(its, digest))
			return json_integer_value(json_object_get(one, "size"));
	}
	return 0;
}

int engine_sizes(const struct config *c, struct registry *r, json_t *docs, struct err *e)
{
	char path[sizeof(c->state_dir) + 16];
	autojson json_t *images = NULL;
	autoclose int store = -1;
	json_t *doc;
	size_t i;

	snprintf(path, sizeof(path), "%s/store", c->state_dir);
	store = store_open(path, e);
	images = store < 0 ? NULL : catalog_list(store, 0, e);
	if (!images)
		return -1;
	json_array_foreach (docs, i, doc) {
		/* a summary has the digest as ImageID, inspect as Image */
		const char *digest = json_string_value(json_object_get(
				   doc, json_object_get(doc, "ImageID") ? "ImageID" : "Image")),
			   *whole = json_string_value(json_object_get(doc, "Id"));
		json_int_t own;
		char id[SHORT_ID + 1];

		snprintf(id, sizeof(id), "%s", whole ? whole : "");
		own = (json_int_t)layerpool_layer_bytes(r->kept_fd, id);
		json_object_set_new(doc, "SizeRw", json_integer(own));
		json_object_set_new(doc, "SizeRootFs",
				    json_integer(own + image_bytes(images, digest)));
	}
	return 0;
}
