/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "manager/engine/create.h"
#include "manager/engine/filters.h"
#include "manager/engine/image.h"
#include "manager/engine/login.h"
#include "manager/engine/name.h"
#include "manager/engine/objects.h"
#include "manager/engine/events.h"
#include "manager/engine/stats.h"
#include "manager/engine/view.h"

static json_t *parse(const char *text)
{
	json_t *j = json_loads(text, 0, NULL);

	cr_assert_not_null(j, "%s", text);
	return j;
}

/* The words of a create, with a line's end between them. */
static int words_of(const char *body, unsigned allow, char *out, size_t n, struct err *e)
{
	const struct engine_rules rules = { .allow = allow, .state_dir = "/var/lib/berth", .run_dir = "/run/berth", .ids_dir = "/var/lib/berth-ids" };
	autojson json_t *j = parse(body);
	struct engine_create c;
	size_t i, at = 0;
	int r;

	cr_assert_eq(engine_create_init(&c, &rules, e), 0);
	r = engine_create_read(&c, j, e);
	out[0] = '\0';
	for (i = 0; i < json_array_size(c.words); i++)
		at += (size_t)snprintf(out + at, n - at, "%s\n", json_string_value(json_array_get(c.words, i)));
	engine_create_release(&c);
	return r;
}

#define HAS(body, allow, word) do { \
	char out_[8192]; \
	struct err e_ = { 0 }; \
	cr_assert_eq(words_of(body, allow, out_, sizeof(out_), &e_), 0, "%s: %s", body, e_.msg); \
	cr_assert(strstr(out_, word "\n"), "%s has no %s:\n%s", body, word, out_); \
} while (0)

#define REFUSES(body, allow, is, word) do { \
	char out_[8192]; \
	struct err e_ = { 0 }; \
	cr_assert_eq(words_of(body, allow, out_, sizeof(out_), &e_), -1, "%s was taken:\n%s", body, out_); \
	cr_assert_eq(e_.code, is, "%s: %s", body, e_.msg); \
	cr_assert(strstr(e_.msg, word), "%s: %s", body, e_.msg); \
} while (0)

#define HOST(text) "{\"Image\":\"i\",\"HostConfig\":{" text "}}"

Test(engine, an_id_of_64_digits_begins_with_the_sandboxs_own)
{
	char id[ENGINE_ID], again[ENGINE_ID], other[ENGINE_ID], ref[100];

	engine_id("0123456789ab", id);
	engine_id("0123456789ab", again);
	engine_id("0123456789ac", other);
	cr_assert_eq(strlen(id), 64);
	cr_assert_eq(strncmp(id, "0123456789ab", 12), 0);
	cr_assert_str_eq(id, again);
	cr_assert_neq(strcmp(id + 12, other + 12), 0);
	cr_assert_eq(strspn(id, "0123456789abcdef"), 64);
	cr_assert_eq(engine_ref(id, ref, sizeof(ref)), 0);
	cr_assert_str_eq(ref, "0123456789ab");
	id[30] = '\0';
	cr_assert_eq(engine_ref(id, ref, sizeof(ref)), 0);
	cr_assert_str_eq(ref, "0123456789ab");
	id[29] = id[29] == 'a' ? 'b' : 'a';
	engine_ref(id, ref, sizeof(ref));
	cr_assert_str_eq(ref, id, "another container's id is not cut");
	engine_ref("/web", ref, sizeof(ref));
	cr_assert_str_eq(ref, "web");
	cr_assert_eq(engine_ref("", ref, sizeof(ref)), -1);
	cr_assert_eq(engine_ref("/", ref, sizeof(ref)), -1);
}

Test(engine, an_entrypoint_takes_the_image_commands_away)
{
	char out[8192];
	struct err e = { 0 };

	cr_assert_eq(words_of("{\"Image\":\"i\",\"Cmd\":[\"a\",\"--b\"]}", 0, out, sizeof(out), &e), 0);
	cr_assert(strstr(out, "--service\n--\ni\na\n--b\n"), "%s", out);
	cr_assert_null(strstr(out, "--entrypoint"));
	cr_assert_eq(words_of("{\"Image\":\"i\",\"Entrypoint\":[\"e\",\"f\"],\"Cmd\":[\"a\"]}", 0, out, sizeof(out), &e), 0);
	cr_assert(strstr(out, "--entrypoint=\n--service\n--\ni\ne\nf\na\n"), "%s", out);
	cr_assert_eq(words_of("{\"Image\":\"i\",\"Entrypoint\":[\"\"],\"Cmd\":[\"a\"]}", 0, out, sizeof(out), &e), 0);
	cr_assert(strstr(out, "--entrypoint=\n--service\n--\ni\na\n"), "%s", out);
}

Test(engine, a_word_of_the_client_is_never_an_option)
{
	HAS("{\"Image\":\"--help\",\"Cmd\":[\"--x\"]}", 0, "--\n--help\n--x");
	HAS("{\"Image\":\"i\",\"Env\":[\"A=\\n--x\"]}", 0, "--env=A=\n--x");
}

Test(engine, limits_are_berths)
{
	HAS(HOST("\"Memory\":1048576,\"MemorySwap\":3145728"), 0, "--memory=1048576\n--swap=2097152");
	HAS(HOST("\"Memory\":1048576,\"MemorySwap\":-1"), 0, "--swap=unlimited");
	HAS(HOST("\"NanoCpus\":1500000000"), 0, "--cpus=1.500");
	HAS(HOST("\"CpuQuota\":50000,\"CpuPeriod\":100000"), 0, "--cpus=0.500");
	HAS(HOST("\"CpuShares\":1024"), 0, "--cpu-weight=39");
	HAS(HOST("\"PidsLimit\":-1"), 0, "--pids=unlimited");
	HAS(HOST("\"StorageOpt\":{\"size\":\"100m\"},\"ShmSize\":1073741824"), 0, "--shm-size=1073741824\n--disk=100m");
	HAS(HOST("\"RestartPolicy\":{\"Name\":\"on-failure\",\"MaximumRetryCount\":3}"), 0, "--restart=on-failure:3");
	REFUSES(HOST("\"Memory\":2097152,\"MemorySwap\":1048576"), 0, ERR_INVALID, "memoryswap");
	REFUSES(HOST("\"NanoCpus\":-1"), 0, ERR_INVALID, "out of range");
	REFUSES(HOST("\"CpuPeriod\":900"), 0, ERR_INVALID, "CPU cfs period can not be less than 1ms (i.e. 1000)");
	REFUSES(HOST("\"CpuPeriod\":-3"), 0, ERR_INVALID, "CPU cfs period");
	REFUSES(HOST("\"CpuQuota\":999"), 0, ERR_INVALID, "CPU cfs quota can not be less than 1ms");
	REFUSES(HOST("\"MemoryReservation\":1024"), 0, ERR_INVALID, "Minimum memory reservation allowed is 6MB");
	REFUSES(HOST("\"Memory\":524288000,\"MemoryReservation\":838860800"), 0, ERR_INVALID, "less than memory reservation limit");
}

Test(engine, devices_are_those_of_the_host_with_leave_only)
{
	HAS(HOST("\"Devices\":[{\"PathOnHost\":\"/dev/fuse\",\"PathInContainer\":\"/dev/f\",\"CgroupPermissions\":\"r\"}]"),
	    ENGINE_DEVICES, "--device=/dev/fuse:/dev/f:r");
	HAS(HOST("\"DeviceRequests\":[{\"Count\":-1,\"Capabilities\":[[\"gpu\"]]}]"), ENGINE_DEVICES, "--gpus=all");
	HAS(HOST("\"DeviceRequests\":[{\"DeviceIDs\":[\"0\",\"2\"],\"Capabilities\":[[\"gpu\"]]}]"), ENGINE_DEVICES, "--gpus=device=0,2");
	REFUSES(HOST("\"Devices\":[{\"PathOnHost\":\"/dev/fuse\"}]"), 0, ERR_DENIED, "devices");
	REFUSES(HOST("\"DeviceRequests\":[{\"Count\":1,\"Capabilities\":[[\"gpu\"]]}]"), 0, ERR_DENIED, "devices");
	REFUSES(HOST("\"Devices\":[{\"PathOnHost\":\"/dev/a:b\"}]"), ENGINE_DEVICES, ERR_INVALID, "invalid device");
	REFUSES(HOST("\"Devices\":[{\"PathOnHost\":\"/etc\"}]"), ENGINE_DEVICES, ERR_INVALID, "\"/etc\": not a device node");
	REFUSES(HOST("\"DeviceRequests\":[{\"Count\":1,\"Capabilities\":[[\"tpu\"]]}]"), ENGINE_DEVICES, ERR_UNSUPPORTED, "gpu");
}

Test(engine, an_image_has_its_own_tmp_and_run)
{
	HAS("{\"Image\":\"i\"}", 0, "--no-tmpfs");
}

Test(engine, mounts_are_volumes_of_berth)
{
	HAS(HOST("\"Binds\":[\"/srv/x:/y\"]"), 0, "--volume=/srv/x:/y:rw,nolinks,owner=auto");
	HAS(HOST("\"Binds\":[\"/srv/x:/y:ro,z\"]"), 0, "--volume=/srv/x:/y:nolinks");
	HAS(HOST("\"Binds\":[\"data:/y:ro\"]"), 0, "--volume=data:/y:ro");
	HAS("{\"Image\":\"i\",\"User\":\"bob\",\"HostConfig\":{\"Binds\":[\"/srv/x:/y\"]}}", 0, "--volume=/srv/x:/y:rw,nolinks");
	HAS(HOST("\"Tmpfs\":{\"/run\":\"rw,nosuid,size=64m\"}"), 0, "--tmpfs=/run:size=64m");
	HAS(HOST("\"Mounts\":[{\"Type\":\"volume\",\"Source\":\"v\",\"Target\":\"/t\"}]"), 0, "--volume=v:/t");
	REFUSES(HOST("\"Binds\":[\"/srv/x:y\"]"), 0, ERR_INVALID, "absolute");
	REFUSES(HOST("\"Binds\":[\"./x:/y\"]"), 0, ERR_INVALID, "absolute");
	REFUSES(HOST("\"Mounts\":[{\"Type\":\"bind\",\"Source\":\"/srv/a:b\",\"Target\":\"/t\"}]"), 0, ERR_INVALID, "colon");
	REFUSES(HOST("\"Mounts\":[{\"Type\":\"npipe\",\"Source\":\"a\",\"Target\":\"/t\"}]"), 0, ERR_INVALID, "mount type unknown");
}

Test(engine, places_of_the_system_are_not_bound_without_leave)
{
	static const char *const places[] = { "/", "//", "/.", "/srv/..", "/etc", "/etc/x", "/./proc/1", "/srv/../../dev", "/run/x",
		"/root", "/home", "/srv", "/opt", "/mnt", "/var", "/var/lib", "/var/lib/x", "/var/spool/cron", "/var/tmp",
		"/root/.ssh", "/home/ann/.ssh/id", "/home/ann/.gnupg", "/root/.bashrc", "/root/.config/systemd/user", "/root/./.profile",
		"/efi/loader", "/nix/store/x", "/snap/core", "/sysroot/ostree", "/ostree", "/.snapshots/1/snapshot/etc", "/swapfile",
		"/swap.img", "/initrd.img", "/vmlinuz", "/lost+found" };
	static const char *const usual[] = { "/home/ann", "/home/ann/src", "/srv/app", "/opt/tool", "/root/work", "/tmp", "/tmp/x",
		"/var/tmp/x", "/var/www", "/data", "/work/x.ssh", "/root/work/.cache", "/home/ann/.cache", "/swap/x",
		"/nixes" };
	const struct engine_rules none = { .state_dir = "/srv/berth", .run_dir = "/run/berth", .ids_dir = "/var/lib/berth-ids" }, all = {
		.allow = ENGINE_SYSTEM_BINDS, .state_dir = "/srv/berth", .run_dir = "/run/berth", .ids_dir = "/var/lib/berth-ids" };
	struct engine_rules some;
	struct err e = { 0 };
	char path[PATH_MAX];
	size_t i;
	int kind;

	for (i = 0; i < ARRAY_LEN(places); i++) {
		cr_assert_eq(engine_rules_bind(&none, places[i], path, &kind, &e), -1, "%s", places[i]);
		cr_assert_eq(e.code, ERR_DENIED, "%s: %s", places[i], e.msg);
	}
	for (i = 0; i < ARRAY_LEN(usual); i++)
		cr_assert_eq(engine_rules_bind(&none, usual[i], path, &kind, &e), 0, "%s: %s", usual[i], e.msg);
	some = none;
	some.binds = "/var/log\n/home/ann/.ssh";
	cr_assert_eq(engine_rules_bind(&some, "/var/log/app", path, &kind, &e), 0, "%s", e.msg);
	cr_assert_eq(engine_rules_bind(&some, "/home/ann/.ssh", path, &kind, &e), 0, "%s", e.msg);
	cr_assert_eq(engine_rules_bind(&some, "/var/logs", path, &kind, &e), -1);
	cr_assert_eq(engine_rules_bind(&all, "/etc//x/", path, &kind, &e), 0, "%s", e.msg);
	cr_assert_str_eq(path, "/etc/x");
	cr_assert_eq(engine_rules_bind(&none, "/etcetera", path, &kind, &e), 0);
	/* what berth keeps is not for sale, from above or below */
	cr_assert_eq(engine_rules_bind(&all, "/srv/berth/sandboxes", path, &kind, &e), -1);
	cr_assert_eq(engine_rules_bind(&all, "/srv", path, &kind, &e), -1);
	cr_assert_eq(engine_rules_bind(&all, "/srv/berth2", path, &kind, &e), 0);
	cr_assert_eq(engine_rules_bind(&all, "/var/lib/berth-ids/places", path, &kind, &e), -1);
}

Test(engine, rights_beyond_berths_need_the_operators_word)
{
	REFUSES(HOST("\"Privileged\":true"), 0, ERR_DENIED, "allow = [\"privileged\"]");
	HAS(HOST("\"Privileged\":true"), ENGINE_PRIVILEGED, "--cap-add=ALL");
	REFUSES(HOST("\"NetworkMode\":\"host\""), 0, ERR_DENIED, "host-network");
	HAS(HOST("\"NetworkMode\":\"host\""), ENGINE_HOST_NETWORK, "--network=host");
	REFUSES(HOST("\"SecurityOpt\":[\"seccomp=unconfined\"]"), 0, ERR_DENIED, "unconfined");
	REFUSES(HOST("\"PidMode\":\"host\""), ~0u, ERR_DENIED, "PidMode");
	REFUSES(HOST("\"IpcMode\":\"container:x\""), ~0u, ERR_DENIED, "IpcMode");
	HAS(HOST("\"SecurityOpt\":[\"no-new-privileges\",\"label=disable\"]"), 0, "--network=bridge");
}

Test(engine, ports_are_published_on_the_loopback)
{
	HAS(HOST("\"PortBindings\":{\"80/tcp\":[{\"HostIp\":\"\",\"HostPort\":\"8080\"}]}"), 0, "--publish=127.0.0.1:8080:80");
	HAS(HOST("\"PortBindings\":{\"53/udp\":[{\"HostIp\":\"0.0.0.0\",\"HostPort\":\"53\"}]}"), 0, "--publish=0.0.0.0:53:53/udp");
	HAS(HOST("\"PortBindings\":{\"80/tcp\":[{\"HostIp\":\"::1\",\"HostPort\":\"81\"}]}"), 0, "--publish=[::1]:81:80");
	REFUSES(HOST("\"PortBindings\":{\"80/sctp\":[{\"HostPort\":\"1\"}]}"), 0, ERR_UNSUPPORTED, "sctp");
	REFUSES(HOST("\"PortBindings\":{\"0/tcp\":[{\"HostPort\":\"1\"}]}"), 0, ERR_INVALID, "port");
	REFUSES(HOST("\"PortBindings\":{\"80/tcp\":[{\"HostPort\":\"70000\"}]}"), 0, ERR_INVALID, "invalid port specification");
}

Test(engine, a_network_has_aliases_and_further_hosts)
{
	HAS(HOST("\"NetworkMode\":\"n1\",\"ExtraHosts\":[\"h:host-gateway\"]"), 0, "--network=n1\n--add-host=h:host-gateway");
	HAS("{\"Image\":\"i\",\"HostConfig\":{\"NetworkMode\":\"n1\"},\"NetworkingConfig\":{\"EndpointsConfig\":{\"n1\":"
	    "{\"Aliases\":[\"db\",\"x\"]}}}}", 0, "--network=n1\n--alias=db\n--alias=x");
	HAS("{\"Image\":\"i\",\"NetworkingConfig\":{\"EndpointsConfig\":{\"n2\":{\"Aliases\":[\"db\"]}}}}", 0,
	    "--network=n2\n--alias=db");
	HAS(HOST("\"NetworkMode\":\"container:web\""), 0, "--network=container:web\n--service");
	REFUSES(HOST("\"NetworkMode\":\"container:web\",\"ExtraHosts\":[\"a:10.1.1.1\"]"), ~0u, ERR_INVALID,
		"conflicting options: custom host-to-IP mapping and the network mode");
	REFUSES(HOST("\"NetworkMode\":\"container:web\",\"PortBindings\":{\"80/tcp\":[{}]}"), ~0u, ERR_INVALID,
		"port publishing and the container type network mode");
	REFUSES(HOST("\"NetworkMode\":\"container:web\",\"PublishAllPorts\":true"), ~0u, ERR_INVALID, "port publishing");
	REFUSES(HOST("\"NetworkMode\":\"container:web\",\"Dns\":[\"1.2.3.4\"]"), ~0u, ERR_INVALID, "dns and the network mode");
	REFUSES("{\"Image\":\"i\",\"ExposedPorts\":{\"80/tcp\":{}},\"HostConfig\":{\"NetworkMode\":\"container:web\"}}", ~0u, ERR_INVALID,
		"port exposing and the container type network mode");
	REFUSES("{\"Image\":\"i\",\"HostConfig\":{\"NetworkMode\":\"bridge\"},\"NetworkingConfig\":{\"EndpointsConfig\":{\"bridge\":"
		"{\"Aliases\":[\"db\"]}}}}", 0, ERR_INVALID, "user defined networks");
	REFUSES("{\"Image\":\"i\",\"HostConfig\":{\"NetworkMode\":\"none\"},\"NetworkingConfig\":{\"EndpointsConfig\":{\"none\":"
		"{\"Aliases\":[\"db\"]}}}}", 0, ERR_INVALID, "user defined networks");
	HAS(HOST("\"NetworkMode\":\"none\",\"ExtraHosts\":[\"h:host-gateway\",\"a:10.1.1.1\"]"), 0,
	    "--network=none\n--add-host=a:10.1.1.1\n--service");
	HAS(HOST("\"NetworkMode\":\"host\",\"ExtraHosts\":[\"a:10.1.1.1\"]"), ENGINE_HOST_NETWORK, "--network=host\n--add-host=a:10.1.1.1\n--service");
	REFUSES(HOST("\"Ulimits\":[{\"Name\":\"nofile\",\"Soft\":200,\"Hard\":100}]"), 0, ERR_INVALID, "less than or equal to hard limit: 200 > 100");
	REFUSES(HOST("\"Binds\":[\"v:/b\",\"w:/b/\"]"), 0, ERR_INVALID, "Duplicate mount point: /b");
	REFUSES(HOST("\"Binds\":[\"v:/b\"],\"Tmpfs\":{\"/b\":\"\"}"), 0, ERR_INVALID, "Duplicate mount point: /b");
	REFUSES(HOST("\"Mounts\":[{\"Type\":\"volume\",\"Target\":\"/b\"},{\"Type\":\"volume\",\"Target\":\"/b/\"}]"), 0, ERR_INVALID,
		"Duplicate mount point: /b");
	REFUSES(HOST("\"Tmpfs\":{\"/b\":\"foobar\"}"), 0, ERR_INVALID, "invalid tmpfs option [\"foobar\"]");
}

/* "Type Action, Type Action" of what an entry gives; *ret_last: the last of it, a new reference. */
static const char *taken(struct engine_events *x, const char *entry, json_t **ret_last)
{
	static char text[400];
	autojson json_t *j = parse(entry), *all = engine_events_take(x, j);
	json_t *one;
	size_t i;

	text[0] = '\0';
	*ret_last = json_incref(json_array_get(all, json_array_size(all) - 1));
	json_array_foreach(all, i, one)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s %s", i ? ", " : "",
			 json_string_value(json_object_get(one, "Type")), json_string_value(json_object_get(one, "Action")));
	return text;
}

static const char *attribute(const json_t *event, const char *key)
{
	return json_string_value(json_object_get(json_object_get(json_object_get(event, "Actor"), "Attributes"), key));
}

#define TAKEN(entry, want) do { \
	json_decref(event); \
	cr_assert_str_eq(taken(&x, entry, &event), want); \
} while (0)

Test(engine, events_carry_what_earlier_ones_said)
{
	autojson json_t *filters = parse("{\"label\":[\"a=b\"]}"), *event = NULL;
	struct engine_events x;
	struct err e = { 0 };

	cr_assert_eq(engine_events_init(&x, filters, &e), 0);
	TAKEN("{\"event\":\"create\",\"id\":\"0123456789ab\",\"name\":\"n\",\"image\":\"i\",\"labels\":{\"a\":\"b\"},"
	      "\"time\":\"2026-11-23T15:31:59.812Z\"}", "container create");
	cr_assert_eq(json_integer_value(json_object_get(event, "timeNano")), 1795447919812000000);
	TAKEN("{\"event\":\"exit\",\"id\":\"0123456789ab\",\"command\":\"c1\",\"exit_status\":3,\"time\":\"x\"}", "");
	TAKEN("{\"event\":\"stop\",\"id\":\"0123456789ab\",\"time\":\"2026-11-23T15:32:00.000Z\"}", "container die");
	cr_assert_str_eq(attribute(event, "exitCode"), "3");
	TAKEN("{\"event\":\"start\",\"id\":\"aaaaaaaaaaaa\",\"name\":\"other\",\"time\":\"2026-11-23T15:32:00.000Z\"}", "");
	engine_events_release(&x);
}

Test(engine, events_tell_networks_volumes_images_and_what_clients_did)
{
	autojson json_t *all = json_object(), *event = NULL;
	struct engine_events x;
	struct err e = { 0 };

	cr_assert_eq(engine_events_init(&x, all, &e), 0);
	TAKEN("{\"event\":\"create\",\"id\":\"0123456789ab\",\"name\":\"n\",\"image\":\"i:1\",\"time\":\"t\"}", "container create");
	TAKEN("{\"event\":\"start\",\"id\":\"0123456789ab\",\"networks\":[\"one\",\"t@two\"],\"volumes\":[\"v\"],\"time\":\"t\"}",
	      "network connect, volume mount, container start");
	TAKEN("{\"event\":\"network-join\",\"id\":\"0123456789ab\",\"network\":\"two\",\"time\":\"t\"}", "network connect");
	TAKEN("{\"event\":\"disconnect\",\"id\":\"0123456789ab\",\"network\":\"one\",\"time\":\"t\"}", "network disconnect");
	TAKEN("{\"event\":\"kill\",\"id\":\"0123456789ab\",\"signal\":\"9\",\"time\":\"t\"}", "container kill");
	cr_assert_str_eq(attribute(event, "signal"), "9");
	TAKEN("{\"event\":\"exec-start\",\"id\":\"0123456789ab\",\"exec\":\"e1\",\"text\":\"sh -c x\",\"time\":\"t\"}",
	      "container exec_start: sh -c x");
	TAKEN("{\"event\":\"rename\",\"id\":\"0123456789ab\",\"name\":\"m\",\"time\":\"t\"}", "container rename");
	cr_assert_str_eq(attribute(event, "oldName"), "/n");
	TAKEN("{\"event\":\"stop\",\"id\":\"0123456789ab\",\"time\":\"t\"}", "container die, network disconnect, volume unmount");
	TAKEN("{\"event\":\"image-tag\",\"id\":\"\",\"name\":\"a/b:1\",\"image\":\"sha256:ab\",\"labels\":{\"k\":\"v\"},\"time\":\"t\"}",
	      "image tag");
	cr_assert_str_eq(attribute(event, "name"), "a/b:1");
	cr_assert_str_eq(attribute(event, "k"), "v");
	TAKEN("{\"event\":\"image-pull\",\"id\":\"\",\"name\":\"h:5000/b:1\",\"image\":\"sha256:ab\",\"time\":\"t\"}", "image pull");
	cr_assert_str_eq(attribute(event, "name"), "h:5000/b");
	engine_events_release(&x);
	cr_assert_eq(engine_events_times("20", "10", &e), -1);
	cr_assert(strstr(e.msg, "cannot be after `until` time (10)"), "%s", e.msg);
}

Test(engine, networks_have_ids_that_stay_and_differ)
{
	char a[ENGINE_ID], b[ENGINE_ID], again[ENGINE_ID];

	engine_network_id("a", a);
	engine_network_id("a", again);
	engine_network_id("a-long-name-of-more-than-thirty-two-bytes", b);
	cr_assert_str_eq(a, again);
	cr_assert_neq(strcmp(a, b), 0);
	cr_assert_eq(strspn(a, "0123456789abcdef"), 64);
	cr_assert_eq(strspn(b, "0123456789abcdef"), 64);
	engine_network_id("a-long-name-of-more-than-thirty-two-letters", again);
	cr_assert_neq(strcmp(b, again), 0);
}

Test(engine, a_name_of_dockers_is_one_of_berths)
{
	static const char *const same[] = { "a", "box", "web-1.x_y", "cafe.", "not-hex" },
			  *const bad[] = { "", "-a", ".a", "a b", "a/b", "\xc3\xa9" };
	char name[ENGINE_NAME], other[ENGINE_NAME], large[ENGINE_NAME_MAX + 2];
	size_t i;

	for (i = 0; i < ARRAY_LEN(same); i++) {
		cr_assert_eq(engine_name_box(same[i], name), 0);
		cr_assert_str_eq(name, same[i]);
	}
	for (i = 0; i < ARRAY_LEN(bad); i++)
		cr_assert_eq(engine_name_map(bad[i], name), -1, "%s", bad[i]);
	cr_assert_eq(engine_name_map("Box", name), 1);
	cr_assert_eq(strncmp(name, "box-", 4), 0);
	cr_assert_eq(strlen(name), 20);
	cr_assert_eq(engine_name_map("bOx", other), 1);
	cr_assert_neq(strcmp(name, other), 0);
	cr_assert_str_eq(engine_name_shown("Box", name), "Box");
	cr_assert_str_eq(engine_name_shown("Box", other), other);
	memset(large, 'x', sizeof(large));
	large[ENGINE_NAME_MAX + 1] = '\0';
	cr_assert_eq(engine_name_map(large, name), -1);
	large[ENGINE_NAME_MAX] = '\0';
	cr_assert_eq(engine_name_map(large, name), 1);
	cr_assert_eq(strlen(name), 64);
	/* only of a container is the start of an id another name */
	cr_assert_eq(engine_name_map("deadbeef", name), 0);
	cr_assert_eq(engine_name_box("deadbeef", name), 1);
}

Test(engine, a_health_check_is_berths)
{
	HAS("{\"Image\":\"i\",\"Healthcheck\":{\"Test\":[\"CMD-SHELL\",\"x y\"],\"Interval\":1500000000,\"Retries\":2}}", 0,
	    "--health-cmd=x y\n--health-interval=1500ms\n--health-retries=2");
	HAS("{\"Image\":\"i\",\"Healthcheck\":{\"Test\":[\"CMD\",\"x\",\"y\"]}}", 0, "--health-exec=[\"x\",\"y\"]");
	HAS("{\"Image\":\"i\",\"Healthcheck\":{\"Test\":[\"NONE\"]}}", 0, "--no-health");
	HAS("{\"Image\":\"i\",\"Healthcheck\":{\"Test\":[\"WHAT\"],\"Interval\":1500000000}}", 0, "--no-health");
}

static void check_duration(int64_t seconds, const char *want)
{
	char got[40];

	engine_duration(seconds, got, sizeof(got));
	cr_assert_str_eq(got, want);
}

Test(engine, durations_are_told_as_dockers_client_does)
{
	check_duration(0, "Less than a second");
	check_duration(1, "1 second");
	check_duration(59, "59 seconds");
	check_duration(60, "About a minute");
	check_duration(125, "2 minutes");
	check_duration(3600, "About an hour");
	check_duration(5400, "2 hours");
	check_duration(47 * 3600, "47 hours");
	check_duration(3 * 86400, "3 days");
	check_duration(21 * 86400, "3 weeks");
	check_duration(90 * 86400, "3 months");
	check_duration(INT64_C(3) * 365 * 86400, "3 years");
}

static const char *state_name(const char *record, int runs, int *ret_code)
{
	autojson json_t *j = parse(record);
	const struct engine_view v = { .id = "0123456789ab", .record = j, .runs = runs };

	*ret_code = engine_exit_code(&v);
	return engine_state_name(engine_state(&v));
}

Test(engine, a_record_says_the_state_and_the_exit_code)
{
	int code;

	cr_assert_str_eq(state_name("{\"status\":\"created\"}", 0, &code), "created");
	cr_assert_eq(code, 0);
	cr_assert_str_eq(state_name("{\"status\":\"running\",\"verdict\":{\"exit_status\":3}}", 1, &code), "running");
	cr_assert_eq(code, 0);
	cr_assert_str_eq(state_name("{\"status\":\"exited\",\"verdict\":{\"exit_status\":3}}", 0, &code), "exited");
	cr_assert_eq(code, 3);
	/* its keeper was killed: nobody wrote a verdict */
	cr_assert_str_eq(state_name("{\"status\":\"running\",\"service\":true}", 0, &code), "exited");
	cr_assert_eq(code, 137);
	state_name("{\"status\":\"exited\",\"start_error\":\"command 'x' not found in the sandbox\"}", 0, &code);
	cr_assert_eq(code, 127);
}

static int matches(const char *filters, const char *record, int runs)
{
	struct err e = { 0 };
	autojson json_t *f = engine_filters(filters, &e), *j = parse(record);
	const struct engine_view v = { .id = "0123456789ab", .record = j, .runs = runs };

	cr_assert_not_null(f, "%s", e.msg);
	return engine_accept(ENGINE_CONTAINERS, f, &e) < 0 ? -1 : engine_filters_match(f, &v, &e);
}

Test(engine, filters_are_dockers)
{
	static const char box[] = "{\"name\":\"web-1\",\"image\":\"i:1\",\"status\":\"created\",\"labels\":{\"a\":\"b\",\"c\":\"\"}}";
	struct err e = { 0 };

	cr_assert_eq(matches("", box, 0), 1);
	cr_assert_eq(matches("{\"label\":[\"a=b\",\"c\"]}", box, 0), 1);
	cr_assert_eq(matches("{\"label\":[\"a=b\",\"d\"]}", box, 0), 0);
	cr_assert_eq(matches("{\"label\":{\"a\":true,\"d\":false}}", box, 0), 1);
	cr_assert_eq(matches("{\"name\":[\"x\",\"^/web\"]}", box, 0), 1);
	cr_assert_eq(matches("{\"name\":[\"eb-2\"]}", box, 0), 0);
	cr_assert_eq(matches("{\"name\":[\"(\"]}", box, 0), 0);
	cr_assert_eq(matches("{\"status\":[\"created\"],\"id\":[\"0123\"]}", box, 0), 1);
	cr_assert_eq(matches("{\"status\":[\"running\"]}", box, 1), 1);
	cr_assert_eq(matches("{\"ancestor\":[\"i:1\"]}", box, 0), 1);
	cr_assert_eq(matches("{\"nosuch\":[\"x\"]}", box, 0), -1);
	cr_assert_null(engine_filters("{\"label\":7}", &e));
	cr_assert_null(engine_filters("[]", &e));
	cr_assert_null(engine_filters("{\"label\":[7]}", &e));
}

/* NULL when they are taken. */
static const char *refused(enum engine_filtered what, const char *filters)
{
	static struct err e;
	autojson json_t *f = engine_filters(filters, &e);

	cr_assert_not_null(f, "%s: %s", filters, e.msg);
	return engine_accept(what, f, &e) < 0 ? e.msg : "";
}

Test(engine, a_filter_takes_the_values_that_dockerd_takes)
{
	static const struct {
		enum engine_filtered what;
		const char *filters, *text;
	} rows[] = {
		{ ENGINE_CONTAINERS, "{\"status\":[\"removing\",\"dead\",\"paused\"]}", "" },
		{ ENGINE_CONTAINERS, "{\"status\":[\"exited\",\"foo\"]}", "invalid filter 'status=foo'" },
		{ ENGINE_CONTAINERS, "{\"health\":[\"none\",\"starting\"]}", "" },
		{ ENGINE_CONTAINERS, "{\"health\":[\"ill\"]}", "Unrecognised filter value for health: ill" },
		{ ENGINE_CONTAINERS, "{\"exited\":[\"-1\",\"137\"]}", "" },
		{ ENGINE_CONTAINERS, "{\"exited\":[\"1x\"]}", "strconv.Atoi: parsing \"1x\": invalid syntax" },
		{ ENGINE_CONTAINERS, "{\"is-task\":[\"true\"]}", "" },
		{ ENGINE_CONTAINERS, "{\"is-task\":[\"yes\"]}", "invalid filter 'is-task=[yes]'" },
		{ ENGINE_CONTAINERS, "{\"type\":[\"container\"]}", "invalid filter 'type'" },
		{ ENGINE_CONTAINERS, "{\"label!\":[\"a\"]}", "invalid filter 'label!'" },
		{ ENGINE_IMAGES, "{\"dangling\":[\"0\",\"false\"]}", "" },
		{ ENGINE_IMAGES, "{\"dangling\":[\"true\",\"false\"]}", "invalid filter 'dangling=[true false]'" },
		{ ENGINE_IMAGES, "{\"until\":[\"soon\"]}", "'soon' is not a time" },
		{ ENGINE_NETWORKS, "{\"driver\":[\"x\"],\"scope\":[\"y\"]}", "" },
		{ ENGINE_NETWORKS, "{\"type\":[\"builtin\",\"custom\"]}", "" },
		{ ENGINE_NETWORKS, "{\"type\":[\"x\"]}", "invalid filter: 'type'='x'" },
		{ ENGINE_NETWORKS, "{\"dangling\":[\"x\"]}", "invalid value for filter 'dangling', must be" },
		{ ENGINE_VOLUMES, "{\"dangling\":[\"x\"]}", "invalid filter 'dangling=[x]'" },
		{ ENGINE_VOLUMES, "{\"until\":[\"1h\"]}", "invalid filter 'until'" },
		{ ENGINE_PRUNE_CONTAINERS, "{\"until\":[\"1h\"],\"label!\":[\"a\"]}", "" },
		{ ENGINE_PRUNE_CONTAINERS, "{\"until\":[\"1h\",\"2h\"]}", "more than one until filter specified" },
		{ ENGINE_PRUNE_CONTAINERS, "{\"dangling\":[\"true\"]}", "invalid filter 'dangling'" },
		{ ENGINE_PRUNE_IMAGES, "{\"dangling\":[\"true\"],\"until\":[\"1h\"]}", "" },
		{ ENGINE_PRUNE_VOLUMES, "{\"all\":[\"1\"]}", "" },
		{ ENGINE_PRUNE_VOLUMES, "{\"all\":[\"x\"]}", "invalid filter 'all=[x]'" },
		{ ENGINE_PRUNE_VOLUMES, "{\"until\":[\"1h\"]}", "invalid filter 'until'" },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		const char *text = refused(rows[i].what, rows[i].filters);

		cr_assert_eq(strncmp(text, rows[i].text, strlen(rows[i].text)), 0, "%s: %s", rows[i].filters, text);
		cr_assert_eq(!text[0], !rows[i].text[0], "%s: %s", rows[i].filters, text);
	}
}

Test(engine, one_that_runs_without_a_start_of_its_own_is_as_old_as_its_creation)
{
	static const char box[] = "{\"name\":\"z\",\"status\":\"running\",\"created\":\"2026-01-01T00:00:00Z\",\"labels\":{}}";
	autojson json_t *j = parse(box);
	const struct engine_view v = { .id = "0123456789ab", .record = j, .runs = 1 };
	char status[80];

	engine_status(&v, engine_time("2026-01-01T03:00:00Z"), status, sizeof(status));
	cr_assert_str_eq(status, "Up 3 hours");
	cr_assert_not(engine_is_internal(j, 1));
	json_object_set_new(json_object_get(j, "labels"), "berth.zygote", json_string("0123456789ab"));
	cr_assert(engine_is_internal(j, 1));
	json_object_set_new(j, "started", json_string("2026-01-01T00:00:00Z"));
	cr_assert_not(engine_is_internal(j, 1), "a container in the place of a fork");
}

Test(engine, one_whose_end_nobody_wrote_down_has_no_age)
{
	autojson json_t *j = parse("{\"status\":\"running\",\"created\":\"2026-01-01T00:00:00Z\"}");
	const struct engine_view v = { .id = "0123456789ab", .record = j };
	char status[80];

	engine_status(&v, engine_time("2026-01-01T03:00:00Z"), status, sizeof(status));
	cr_assert_str_eq(status, "Exited (137)");
	json_object_set_new(j, "status", json_string("stopped"));
	json_object_set_new(j, "finished", json_string("2026-01-01T01:00:00Z"));
	engine_status(&v, engine_time("2026-01-01T03:00:00Z"), status, sizeof(status));
	cr_assert_str_eq(status, "Exited (0) 2 hours ago");
}

Test(engine, a_frame_says_its_stream_and_its_length)
{
	unsigned char head[8];

	engine_frame(head, 2, 0x01020304);
	cr_assert_eq(memcmp(head, "\2\0\0\0\1\2\3\4", 8), 0);
}

Test(engine, a_mode_is_gos)
{
	cr_assert_eq(engine_go_mode(0100644), 0644);
	cr_assert_eq(engine_go_mode(0040755), 1u << 31 | 0755);
	cr_assert_eq(engine_go_mode(0120777), 1u << 27 | 0777);
	cr_assert_eq(engine_go_mode(0104755), 1u << 23 | 0755);
	cr_assert_eq(engine_go_mode(0041777), 1u << 31 | 1u << 20 | 0777);
	cr_assert_eq(engine_go_mode(0020600), 1u << 26 | 1u << 21 | 0600);
}

Test(engine, names_of_one_image_are_one_item)
{
	static const char text[] = "[{\"name\":\"a:1\",\"digest\":\"sha256:x\",\"size\":7},"
				   "{\"name\":\"h:5000/b/c:2\",\"digest\":\"sha256:x\",\"size\":7},"
				   "{\"name\":\"d:3\",\"digest\":\"sha256:y\",\"size\":8}]";
	autojson json_t *list = parse(text), *none = json_object(), *some = parse("{\"reference\":[\"d\"]}"), *all, *one;
	struct err e = { 0 };

	all = engine_image_list(list, none, &e);
	cr_assert_eq(json_array_size(all), 2);
	cr_assert_eq(json_array_size(json_object_get(json_array_get(all, 0), "RepoTags")), 2);
	cr_assert_str_eq(json_string_value(json_array_get(json_object_get(json_array_get(all, 0), "RepoDigests"), 1)),
			 "h:5000/b/c@sha256:x");
	one = engine_image_list(list, some, &e);
	cr_assert_eq(json_array_size(one), 1);
}

Test(engine, a_repository_and_a_tag_are_a_name)
{
	char ref[40], room[40];

	cr_assert_eq(engine_image_ref("a/b", "1", ref, sizeof(ref)), 0);
	cr_assert_str_eq(ref, "a/b:1");
	cr_assert_eq(engine_image_ref("a/b", "sha256:12", ref, sizeof(ref)), 0);
	cr_assert_str_eq(ref, "a/b@sha256:12");
	cr_assert_eq(engine_image_ref("a/b:1", "", ref, sizeof(ref)), 0);
	cr_assert_str_eq(ref, "a/b:1");
	cr_assert_eq(engine_image_ref("a", "0123456789012345678901234567890123456789", ref, sizeof(ref)), -1);
	cr_assert_str_eq(engine_image_tagged("h:5000/x", room, sizeof(room)), "h:5000/x:latest");
	cr_assert_str_eq(engine_image_tagged("x:1", room, sizeof(room)), "x:1");
}

Test(engine, the_names_of_dockers_own_registry_are_one_and_no_other_is)
{
	static const char *const own[] = { "", "https://", "index.docker.io", "https://index.docker.io/v1/" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(own); i++)
		cr_assert_str_eq(engine_login_server(own[i]), "docker.io");
	cr_assert_str_eq(engine_login_server("https://index.docker.io.evil.example/v1/"), "index.docker.io.evil.example/v1/");
	cr_assert_str_eq(engine_login_server("localhost:5000"), "localhost:5000");
}

Test(engine, a_login_of_a_request_is_read_in_either_alphabet)
{
	struct engine_login l;
	struct err e = { 0 };

	cr_assert_eq(engine_login_read(NULL, &l, &e), 0);
	cr_assert_eq(engine_login_read("e30=", &l, &e), 0);
	cr_expect_str_empty(l.user);
	cr_assert_eq(engine_login_read("eyJ1c2VybmFtZSI6Im1lIiwicGFzc3dvcmQiOiJhPz4_fj4_In0", &l, &e), 0, "%s", e.msg);
	cr_expect_str_eq(l.user, "me");
	cr_expect_str_eq(l.password, "a?>?~>?");
	/* {"auth":"bWU6czpjcmV0"} */
	cr_assert_eq(engine_login_read("eyJhdXRoIjoiYldVNmN6cGpjbVYwIn0=", &l, &e), 0, "%s", e.msg);
	cr_expect_str_eq(l.user, "me");
	cr_expect_str_eq(l.password, "s:cret");
	cr_expect_eq(engine_login_read("e", &l, &e), -1);
	cr_expect_eq(engine_login_read("W10=", &l, &e), -1);
	/* {"identitytoken":"x"} */
	cr_expect_eq(engine_login_read("eyJpZGVudGl0eXRva2VuIjoieCJ9", &l, &e), -1);
	cr_expect_eq(e.code, ERR_UNSUPPORTED);
}
