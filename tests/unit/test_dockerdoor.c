/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/docker/verbs.h"

static char *dump(json_t *j)
{
	static char said[4000];
	autofree char *text = j ? json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	snprintf(said, sizeof(said), "%s", text ? text : "refused");
	json_decref(j);
	return said;
}

static char *published(const char *text)
{
	json_t *bindings = json_object();
	autojson json_t *exposed = json_object();
	struct err e = { 0 };

	if (door_publish(bindings, exposed, text, &e) == 0)
		return dump(bindings);
	cr_assert(e.code, "%s", text);
	json_decref(bindings);
	return dump(NULL);
}

Test(dockerdoor, ports_are_published_as_docker_reads_them)
{
	static const char *const rows[][2] = {
		{ "80", "{\"80/tcp\":[{\"HostIp\":\"\",\"HostPort\":\"\"}]}" },
		{ "8080:80", "{\"80/tcp\":[{\"HostIp\":\"\",\"HostPort\":\"8080\"}]}" },
		{ "8080:80/udp", "{\"80/udp\":[{\"HostIp\":\"\",\"HostPort\":\"8080\"}]}" },
		{ "127.0.0.1:8080:80", "{\"80/tcp\":[{\"HostIp\":\"127.0.0.1\",\"HostPort\":\"8080\"}]}" },
		{ "127.0.0.1::80", "{\"80/tcp\":[{\"HostIp\":\"127.0.0.1\",\"HostPort\":\"\"}]}" },
		{ "[::1]:8080:80", "{\"80/tcp\":[{\"HostIp\":\"::1\",\"HostPort\":\"8080\"}]}" },
		{ "1-2:3-4", "{\"3/tcp\":[{\"HostIp\":\"\",\"HostPort\":\"1\"}],"
			     "\"4/tcp\":[{\"HostIp\":\"\",\"HostPort\":\"2\"}]}" },
		{ "", "refused" }, { ":", "refused" }, { "x", "refused" }, { "0", "refused" },
		{ "65536", "refused" }, { "1-3:4-5", "refused" }, { "5-4", "refused" },
		{ "80:", "refused" }, { "1-9999:1-9999", "refused" }, { "x:80", "refused" },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++)
		cr_assert_str_eq(published(rows[i][0]), rows[i][1], "%s", rows[i][0]);
}

Test(dockerdoor, mounts_are_read_by_their_keys)
{
	struct err e;

	cr_assert_str_eq(dump(door_mount("type=bind,source=/a,target=/b,readonly", &e)),
			 "{\"Type\":\"bind\",\"Source\":\"/a\",\"Target\":\"/b\",\"ReadOnly\":true}");
	cr_assert_str_eq(dump(door_mount("src=v,dst=/b,ro=false", &e)),
			 "{\"Type\":\"volume\",\"Source\":\"v\",\"Target\":\"/b\",\"ReadOnly\":false}");
	cr_assert_str_eq(dump(door_mount("type=tmpfs,destination=/t,tmpfs-size=1m", &e)),
			 "{\"Type\":\"tmpfs\",\"Target\":\"/t\",\"TmpfsOptions\":{\"SizeBytes\":1048576}}");
	cr_assert_str_eq(dump(door_mount("type=bind,\"source=/a,b\",target=/c", &e)),
			 "{\"Type\":\"bind\",\"Source\":\"/a,b\",\"Target\":\"/c\"}");
	cr_assert_str_eq(dump(door_mount("type=bind,source=/a", &e)), "refused");
	cr_assert_str_eq(dump(door_mount("size=1,target=/x", &e)), "refused");
	cr_assert_str_eq(dump(door_mount("type=tmpfs,target=/t,tmpfs-size=x", &e)), "refused");
	cr_assert_str_eq(dump(door_mount("", &e)), "refused");
}

Test(dockerdoor, sizes_and_gpus_are_read_as_docker_does)
{
	struct err e;

	cr_assert_eq(door_bytes("512m", "memory", &e), 512 << 20);
	cr_assert_eq(door_bytes("512MB", "memory", &e), 512 << 20);
	cr_assert_eq(door_bytes("1GiB", "memory", &e), 1 << 30);
	cr_assert_eq(door_bytes("7", "memory", &e), 7);
	cr_assert_eq(door_bytes("7b", "memory", &e), 7);
	cr_assert_eq(door_bytes("-1", "memory-swap", &e), -2);
	cr_assert_eq(door_bytes("-2", "memory", &e), -1);
	cr_assert_eq(door_bytes("x", "memory", &e), -1);
	cr_assert_eq(door_bytes("", "memory", &e), -1);
	cr_assert(strstr(dump(door_gpus("all", &e)), "\"Count\":-1"));
	cr_assert(strstr(dump(door_gpus("2", &e)), "\"Count\":2"));
	cr_assert(strstr(dump(door_gpus("\"device=0,1\"", &e)), "\"DeviceIDs\":[\"0\",\"1\"]"));
	cr_assert_str_eq(dump(door_gpus("none", &e)), "refused");
	cr_assert_str_eq(dump(door_gpus("0", &e)), "refused");
}

Test(dockerdoor, verbs_are_found_by_either_of_their_names)
{
	static const char *const rows[][3] = {
		{ "ps", NULL, "ps" }, { "container", "ls", "ps" }, { "container", "run", "run" },
		{ "image", "rm", "rmi" }, { "image", "inspect", "image inspect" },
		{ "volume", "list", "volume ls" }, { "system", "info", "info" },
		{ "nosuch", NULL, NULL }, { "container", "nosuch", NULL }, { "volume", NULL, NULL },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(rows); i++) {
		char *argv[] = { (char *)(size_t)rows[i][0], (char *)(size_t)rows[i][1], NULL };
		int words;
		const struct command *verb = door_find_verb(rows[i][1] ? 2 : 1, argv, &words);

		cr_assert_str_eq(verb ? verb->name : "", rows[i][2] ? rows[i][2] : "", "%s",
				 rows[i][0]);
	}
}
