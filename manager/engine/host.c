/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/host.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"
#include "manager/engine/image.h"
#include "manager/engine/name.h"
#include "manager/engine/objects.h"
#include "manager/engine/view.h"
#include "manager/host/forget.h"
#include "manager/host/journal.h"
#include "manager/host/names.h"
#include "manager/host/nets.h"
#include "manager/host/record.h"
#include "manager/host/volume.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/image.h"

#define STORE_SUFFIX "/store"

#define REF_MAX 256

/* ---- names ------------------------------------------------------------------------------ */

static int is_hex_reference(const char *s)
{
	return !s[strspn(s, "0123456789abcdef")];
}

int engine_host_find(struct registry *r, const char *ref, char ret_id[65], int *ret_kept,
		     struct err *e)
{
	char cut[REF_MAX], name[ENGINE_NAME];
	int is_id;

	if (engine_ref(ref, cut, sizeof(cut)) < 0)
		return err_set(e, ERR_NOT_FOUND, "no container '%.80s'", ref);
	is_id = is_hex_reference(cut) && (path_has(r->sandboxes_fd, cut) || path_has(r->kept_fd, cut));
	if (!is_id && engine_name_box(cut, name) > 0) {
		if (path_has(r->names_fd, name))
			return registry_find(r, name, ret_id, ret_kept, e);
		if (!is_hex_reference(cut))
			return err_set(e, ERR_NOT_FOUND, "no container '%.80s'", ref);
	}
	return registry_find(r, cut, ret_id, ret_kept, e);
}

/*
 * From the next start on its network knows the container by its new name: berth's own name, which the network learns by
 * itself, is another where Docker's is none of a host.
 */
static int rename_alias(struct registry *r, const char *id, const char *before, const char *name, struct err *e)
{
	char mapped[ENGINE_NAME], old[ENGINE_NAME] = "", now[ENGINE_NAME] = "";
	autojson json_t *spec = NULL, *record = NULL;
	json_t *options, *one;
	size_t i;

	if ((engine_name_box(before, mapped) <= 0 || !engine_name_alias(before, old)) &&
	    (engine_name_box(name, mapped) <= 0 || !engine_name_alias(name, now)))
		return 0;
	if (engine_name_box(name, mapped) > 0)
		engine_name_alias(name, now);
	if (!(spec = registry_load(r, id, "spec.json", e)) || !(record = record_load_kept(r, id, e)))
		return -1;
	if (!json_object_get(record_network(record), "network"))
		return 0;
	options = json_object_get(spec, "options");
	json_array_foreach (options, i, one) {
		const char *option = json_string_value(json_array_get(one, 0)), *value = json_string_value(json_array_get(one, 1));

		if (option && value && !strcmp(option, "alias") && !strcmp(value, old)) {
			json_array_remove(options, i);
			break;
		}
	}
	if (now[0] && path_is_name(now))
		json_array_append_new(options, json_pack("[s,s]", "alias", now));
	return registry_save(r, id, "spec.json", spec, e);
}

int engine_host_rename(struct registry *r, const char *id, const char *name, struct err *e)
{
	char mapped[ENGINE_NAME];
	const int differs = engine_name_box(name, mapped);
	struct err ignored;
	autojson json_t *asked = NULL, *record = NULL;
	const char *before;
	char old[ENGINE_NAME_MAX + 1] = "";

	if (differs < 0)
		return engine_check_name(name, e);
	asked = registry_load(r, id, ENGINE_FILE_NAME, &ignored);
	record = record_load_kept(r, id, &ignored);
	before = json_string_value(json_object_get(asked, ENGINE_FILE_CALLED));
	if (record && !strcmp(engine_called(record, before ? before : ""), name))
		return err_set(e, ERR_INVALID,
			       "Renaming a container with the same name as its current name");
	if (record)
		snprintf(old, sizeof(old), "%s", engine_called(record, before ? before : ""));
	if (registry_check_given(mapped, e) < 0 || registry_rename(r, id, mapped, e) < 0)
		return -1;
	events_add(r, "rename", id, json_pack("{s:s,s:s}", "name", mapped, "called", name));
	if (asked && rename_alias(r, id, old, name, e) < 0)
		return -1;
	/* one that berth made has no such file, and the name that berth shows */
	if (!asked || (!differs && !before))
		return 0;
	json_object_set_new(asked, ENGINE_FILE_CALLED, json_string(name));
	return registry_save(r, id, ENGINE_FILE_NAME, asked, e);
}

/* ---- the rules ------------------------------------------------------------------------ */

/* The missing part of a path, with the last existing directory, in which it would be made. */
static const char *look_above(const char *path, char *room)
{
	autofree char *above = strdup(path);
	const char *rest;
	char *slash, *real = NULL;
	size_t n;

	while (above && !real && (slash = strrchr(above, '/')) && slash != above) {
		*slash = '\0';
		real = realpath(above, room);
		if (!real && errno != ENOENT)
			return path;
	}
	if (!real)
		return path;
	n = strlen(real);
	rest = path + strlen(above) + (n == 1);
	return (size_t)snprintf(room + n, PATH_MAX - n, "%s", rest) < PATH_MAX - n ? room : path;
}

static const char *look_at_bind_source(const char *path, char *room, int *ret_kind)
{
	struct stat st;
	const char *real = realpath(path, room);

	*ret_kind = ENGINE_FILE;
	if (!real && errno == ENOENT) {
		*ret_kind = ENGINE_MISSING;
		return look_above(path, room);
	}
	if (!real)
		return path;
	if (!stat(real, &st) && S_ISSOCK(st.st_mode))
		*ret_kind = ENGINE_SOCKET;
	return real;
}

/* It was free a moment ago; another process may take it first. */
static int free_port(int udp)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	autoclose int fd = socket(AF_INET, (udp ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
	socklen_t n = sizeof(a);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &n) < 0)
		return -1;
	return ntohs(a.sin_port);
}

struct naming {
	const char *id;
	char *ret;
};

static int is_it(void *ctx, const char *name)
{
	const struct naming *n = ctx;
	char id[ENGINE_ID];

	if (strchr(name, '@'))	/* a tenant's */
		return 0;
	engine_network_id(name, id);
	if (strncmp(id, n->id, strlen(n->id)))
		return 0;
	snprintf(n->ret, ENGINE_NAME, "%s", name);
	return 1;
}

static int docker_network_by_id(const void *ctx, const char *id, char *ret)
{
	struct naming n = { id, ret };
	struct err ignored;

	ret[0] = '\0';
	return nets_each(ctx, is_it, &n, &ignored) >= 0 && ret[0];
}

/* Of what is in the store: an image that is not there is told elsewhere. */
static json_t *image_config_in_store(const void *ctx, const char *image, uint64_t *ret_room)
{
	const struct config *c = ctx;
	char path[sizeof(c->state_dir) + sizeof(STORE_SUFFIX)];
	autojson json_t *record = NULL;
	autoclose int store = -1;
	json_t *config;
	struct err ignored;

	if (!strcmp(image, "host"))
		return NULL;
	snprintf(path, sizeof(path), "%s" STORE_SUFFIX, c->state_dir);
	store = store_open(path, &ignored);
	record = store < 0 ? NULL : catalog_inspect(store, image, &ignored);
	if (!record)
		return NULL;
	config = json_object_get(json_object_get(record, "image_config"), "config");
	*ret_room = json_object_size(json_object_get(config, "Volumes")) ? volume_room(c) : 0;
	return json_is_object(config) ? json_incref(config) : json_object();
}

unsigned engine_host_allow(const char *lines)
{
	unsigned bits = 0;
	const char *p;
	char word[40];

	for (p = lines; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(p, "\n"), p);
		bits |= engine_allow_bit(word);
	}
	return bits;
}

void engine_host_rules(const struct config *c, unsigned allow, const char *binds, struct engine_rules *ret)
{
	*ret = (struct engine_rules){
		.allow = allow,
		.state_dir = c->state_dir,
		.run_dir = c->run_dir,
		.ids_dir = c->ids_dir,
		.binds = binds,
		.look = look_at_bind_source,
		.free_port = free_port,
		.unrouted = !nets_is_routed(c),
		.network = docker_network_by_id,
		.config = image_config_in_store,
		.ctx = c,
	};
}

/* ---- what a create needs ----------------------------------------------------------------- */

int engine_host_image(const struct config *c, const char *image, struct err *e)
{
	char path[sizeof(c->state_dir) + sizeof(STORE_SUFFIX)];
	struct image im = { 0 };
	char room[400];
	autoclose int store = -1;
	int r;

	if (!strcmp(image, "host") || !image[0])
		return 0;
	if (image[0] == '/' || image[0] == '.')
		return err_set(e, ERR_INVALID, "invalid reference format: %.200s", image);
	snprintf(path, sizeof(path), "%s" STORE_SUFFIX, c->state_dir);
	store = store_open(path, e);
	if (store < 0)
		return -1;
	r = image_load(store, image, &im, e);
	image_release(&im);
	if (r < 0 && e->code == ERR_NOT_FOUND)
		return err_set(e, ERR_NOT_FOUND, "No such image: %.200s",
			       engine_image_tagged(image, room, sizeof(room)));
	return r;
}

int engine_host_platform(const struct config *c, const char *image, const char *wanted, struct err *e)
{
	char path[sizeof(c->state_dir) + sizeof(STORE_SUFFIX)], want[ENGINE_PLATFORM];
	autojson json_t *record = NULL;
	autoclose int store = -1;
	const char *is;

	if (engine_platform(wanted, want, e) < 0)
		return -1;
	if (!want[0] || !strcmp(image, "host"))
		return 0;
	snprintf(path, sizeof(path), "%s" STORE_SUFFIX, c->state_dir);
	store = store_open(path, e);
	record = store < 0 ? NULL : image_record(store, image, e);
	if (!record)
		return -1;
	is = json_string_value(json_object_get(record, "platform"));
	return !is || !strcmp(is, want) ? 0 :
	       err_set(e, ERR_NOT_FOUND, "image with reference %.100s was found but does not match the specified platform: wanted %s, "
		       "actual: %.60s", image, want, is);
}

/*
 * Newly made directories belong to root, like everything here.  The path has no links (it was judged
 * so), and none that appears meanwhile is followed: what is made is below what was judged.
 */
static int make_directory(const char *path, struct err *e)
{
	autoclose int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char name[NAME_MAX + 1];
	size_t n;
	int next;

	for (; dir >= 0 && *path; path += n) {
		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (!n)
			break;
		if (n > NAME_MAX)
			return err_set(e, ERR_INVALID, "a name in the path of a bind is too long");
		memcpy(name, path, n);
		name[n] = '\0';
		if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
			return err_sys(e, "make the directory %s of a bind", name);
		next = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		fd_close(&dir);
		dir = next;
	}
	return dir < 0 ? err_sys(e, "make the directory %.200s of a bind", path) : 0;
}

int engine_host_directories(const json_t *list, struct err *e)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, one)
		if (make_directory(json_string_value(one), e) < 0)
			return -1;
	return 0;
}

static int goes_when_it_stops(const json_t *body)
{
	return json_is_true(json_object_get(json_object_get(body, "HostConfig"), "AutoRemove"));
}

json_t *engine_host_asked(const struct engine_create *c, json_t *body, struct err *e)
{
	json_t *asked = json_pack("{s:i,s:O,s:O}", "version", 1, "body", body, "ports", c->ports);

	if (!asked) {
		err_nomem(e);
		return NULL;
	}
	if (json_object_size(c->anonymous))
		json_object_set(asked, ENGINE_FILE_VOLUMES, c->anonymous);
	if (json_array_size(c->shared))
		json_object_set(asked, ENGINE_FILE_SHARED, c->shared);
	if (json_array_size(c->linked))
		json_object_set(asked, ENGINE_FILE_LINKS, c->linked);
	return asked;
}

static int save_own_volumes(struct registry *r, const char *id, const struct engine_create *c,
			    const json_t *body, struct err *e)
{
	autojson json_t *own = json_array();
	const char *target;
	json_t *name;

	json_object_foreach (c->anonymous, target, name)
		if (json_array_append(own, name) < 0)
			return err_nomem(e);
	return json_array_size(own) ? volume_own_save(r, id, own, goes_when_it_stops(body), e) : 0;
}

int engine_host_write(struct registry *r, const char *id, const struct engine_create *c,
		      json_t *body, struct err *e)
{
	autojson json_t *asked = engine_host_asked(c, body, e);

	if (!asked || save_own_volumes(r, id, c, body, e) < 0)
		return -1;
	return goes_when_it_stops(body) ? registry_save_passing(r, id, ENGINE_FILE_NAME, asked, e) :
					  registry_save_ahead(r, id, ENGINE_FILE_NAME, asked, e);
}

int engine_host_own(struct registry *r, const char *id, const struct engine_create *c,
		    const json_t *body, struct err *e)
{
	struct err ignored;

	if (save_own_volumes(r, id, c, body, e) == 0)
		return 0;
	forget_alone(r, id, &ignored);
	return -1;
}

int engine_host_save_update(struct registry *r, const char *id, const json_t *body, struct err *e)
{
	struct err ignored;
	autojson json_t *asked = registry_load(r, id, ENGINE_FILE_NAME, &ignored);
	json_t *whole = json_object_get(asked, "body"),
	       *host = json_object_get(whole, "HostConfig"), *v;
	const char *key;

	if (!json_is_object(whole))
		return 0; /* a sandbox made by berth */
	if (!json_is_object(host)) {
		host = json_object();
		json_object_set_new(whole, "HostConfig", host);
	}
	json_object_foreach ((json_t *)(size_t)body, key, v)
		if (!json_is_null(v) && (!json_is_integer(v) || json_integer_value(v) || !strcmp(key, "PidsLimit")))
			json_object_set(host, key, v);
	return registry_save(r, id, ENGINE_FILE_NAME, asked, e);
}

/* 1 with the id of what has the name, also of what is being made, which has no record yet. */
static int find_name_holder(struct registry *r, const char *name, char ret[65])
{
	char mapped[ENGINE_NAME];
	struct err ignored;
	ssize_t n;
	int kept;

	if (engine_host_find(r, name, ret, &kept, &ignored) == 0)
		return 1;
	n = engine_name_box(name, mapped) < 0 ? -1 : readlinkat(r->names_fd, mapped, ret, 64);
	ret[n > 0 ? n : 0] = '\0';
	return n > 0 && path_is_name(ret);
}

int engine_host_name_taken(struct registry *r, const char *name, struct err *e)
{
	char id[65], whole[ENGINE_ID];

	if (!find_name_holder(r, name, id))
		return 0;
	engine_id(id, whole);
	return err_set(e, ERR_EXISTS,
		       "Conflict. The container name \"/%.255s\" is already in use by container "
		       "\"%s\". You have to remove (or rename) that container to be able to reuse "
		       "that name.",
		       name, whole);
}

/* All the CPU time of the host, in ns (proc_stat(5)). */
uint64_t engine_host_cpu(void)
{
	autobuf struct buf text = BUF_INIT(1 << 20);
	unsigned long long v[8] = { 0 }, sum = 0;
	struct err ignored;
	int i;

	if (io_read_file(AT_FDCWD, "/proc/stat", &text, &ignored) < 0 || !text.data ||
	    sscanf(text.data, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2],
		   &v[3], &v[4], &v[5], &v[6], &v[7]) < 4)
		return 0;
	for (i = 0; i < 8; i++)
		sum += v[i];
	return (uint64_t)sum * (1000000000 / (unsigned long long)sysconf(_SC_CLK_TCK));
}
