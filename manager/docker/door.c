/* SPDX-License-Identifier: Apache-2.0 */
/* The socket of the Engine API, and how its requests and errors are read and told. */
#include <errno.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/api/api.h"
#include "manager/docker/docker.h"
#include "manager/engine/host.h"
#include "manager/host/conf.h"
#include "manager/service/dlog.h"

#define GROUP "berth"
#define SOCKET_MODE 0660

static const struct http_route *const routes[] = {
	docker_system_routes, docker_container_routes, docker_life_routes,    docker_stream_routes,
	docker_exec_routes,   docker_archive_routes,   docker_image_routes,   docker_look_routes,
	docker_event_routes,  docker_volume_routes,    docker_network_routes,
	docker_build_routes,   docker_buildkit_routes, docker_swarm_routes, NULL,
};

static const char *const headers[] = {
	"Api-Version",
	DOCKER_API,
	"Docker-Experimental",
	"false",
	"Ostype",
	"linux",
	"Builder-Version",
	"1",
	"Server",
	"berth/" BERTH_VERSION " (linux)",
	NULL,
};

json_t *docker_error_json(const struct err *e)
{
	autojson json_t *own = http_error_json(e);
	const json_t *error = json_object_get(own, "error");
	const char *remedy = json_string_value(json_object_get(error, "remedy"));
	const char *message = json_string_value(json_object_get(error, "message"));

	return json_pack("{s:o}", "message",
			 remedy ? json_sprintf("%s (remedy: %s)", message, remedy)
				: json_string(message));
}

int docker_fail(struct http_request *rq, int status, struct err *e, const char *fmt, ...)
{
	char text[sizeof(e->msg)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	http_error_status(rq, status);
	return err_set(e,
		       status == 404   ? ERR_NOT_FOUND
		       : status == 409 ? ERR_EXISTS
				       : ERR_INVALID,
		       "%s", text);
}

int docker_query_flag(const struct http_request *rq, const char *name)
{
	const char *v = http_query(rq, name);

	return v && v[0] && strcmp(v, "0") && strcasecmp(v, "false") && strcasecmp(v, "no") &&
	       strcasecmp(v, "none");
}

int docker_query_int(struct http_request *rq, const char *name, long preset, long *ret,
		     struct err *e)
{
	const char *v = http_query(rq, name);
	char *end;

	*ret = preset;
	if (!v || !v[0])
		return 0;
	errno = 0;
	*ret = strtol(v, &end, 10);
	return *end || errno ? docker_fail(rq, 400, e, "invalid value of %s: %.40s", name, v) : 0;
}

/* ---- calls of berth --------------------------------------------------------------------- */

#define ANSWER_MAX (16u << 20)

static json_t *ask_berth_program(void *ctx, json_t *call, int finish, struct err *e)
{
	autobuf struct buf out = BUF_INIT(ANSWER_MAX);

	if (spawn_berth(ctx, call, finish, -1, &out, e) < 0)
		return NULL;
	return out.len ? json_parse(out.data, out.len, ANSWER_MAX, "berth's answer", e) : json_object();
}

struct engine_berth docker_berth(struct http_request *rq, struct config *room)
{
	if (room)
		api_config(api_of(rq), room);
	return (struct engine_berth){ .ask = ask_berth_program, .ctx = rq, .config = room, .allow = docker_of(rq)->allow };
}

/* ---- the version in front of a path --------------------------------------------------- */

static long minor_of(const char *version)
{
	return strtol(strchr(version, '.') + 1, NULL, 10);
}

int docker_api_minor(const struct http_request *rq)
{
	const char *target = http_target(rq);

	return (int)(strncmp(target, "/v1.", 4) ? minor_of(DOCKER_API) : strtol(target + 4, NULL, 10));
}

static char *strip(char *path, int *ret_status, struct err *e)
{
	const size_t len = strlen(path);
	char *minor, *end;
	long n;

	/* dockerd answers at this place, too */
	if (len >= 10 && !strcmp(path + len - 10, "/networks/"))
		path[len - 1] = '\0';

	if (strncmp(path, "/v1.", 4))
		return path;
	minor = path + 4;
	n = strtol(minor, &end, 10);
	if (end == minor || *end != '/' || *minor < '0' || *minor > '9' || n > 999)
		return path;
	*ret_status = 400;
	if (n > minor_of(DOCKER_API))
		err_set(e, ERR_INVALID,
			"client version 1.%ld is too new. Maximum supported API version "
			"is " DOCKER_API,
			n);
	else if (n < minor_of(DOCKER_API_MIN))
		err_set(e, ERR_INVALID,
			"client version 1.%ld is too old. Minimum supported API version "
			"is " DOCKER_API_MIN ", please upgrade your client to a newer version",
			n);
	else {
		*ret_status = 0;
		return end;
	}
	return NULL;
}

static const struct http_foreign foreign = { strip, docker_error_json, headers };

/* ---- birth and death -------------------------------------------------------------------- */

static int listen_for_docker(const char *path, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct group room, *g = NULL;
	char text[4096];
	struct stat st;

	/* we hold berthd's lock: an existing socket belonged to a dead one */
	memcpy(a.sun_path, path, strlen(path) + 1);
	if (!lstat(path, &st) && S_ISSOCK(st.st_mode))
		unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return err_sys(e, "listen on %s ([docker] socket)", path);
	/* root alone may connect until it belongs to the group */
	getgrnam_r(GROUP, &room, text, sizeof(text), &g);
	if ((g && chown(path, 0, g->gr_gid) < 0) || chmod(path, SOCKET_MODE) < 0 ||
	    listen(fd, 128) < 0) {
		err_sys(e, "listen on %s ([docker] socket)", path);
		unlink(path);
		return -1;
	}
	return take_fd(&fd);
}

/*
 * Docker's clients hold two or three connections for one command: one that is kept alive, one that
 * became a stream, and one that asks how it ended.  Those beyond the limit get 503.
 */
#define DOOR_CONNECTIONS 4

static int open_door(struct docker *d, struct api *a, const char *socket_path, struct err *e)
{
	const struct http_options o = {
		.tables = routes,
		.context = a,
		.max_connections = DOOR_CONNECTIONS * (unsigned)a->config.daemon_max_connections,
		.check_token = api_check_token,
		.holds = api_holds,
		.on_audit = daemon_on_audit,
		.otlp = a->otlp,
		.foreign = &foreign,
	};
	int fd;

	d->arrivals = arrivals_new();
	d->execs = execs_new();
	if (!d->arrivals || !d->execs)
		return err_nomem(e);
	d->http = http_new(&o, e);
	if (!d->http)
		return -1;
	fd = listen_for_docker(socket_path, e);
	if (fd < 0)
		return -1;
	snprintf(d->socket_path, sizeof(d->socket_path), "%s", socket_path);
	return http_listen(d->http, fd, 0, e);
}

int docker_start(struct api *a, struct err *e)
{
	autofree struct conf *c = calloc(1, sizeof(*c));

	if (!c)
		return err_nomem(e);
	if (conf_load(c, &a->config, e) < 0)
		return -1;
	if (!c->docker_socket[0])
		return 0;
	a->docker = calloc(1, sizeof(*a->docker));
	if (!a->docker)
		return err_nomem(e);
	a->docker->allow = engine_host_allow(c->docker_allow);
	memcpy(a->docker->binds, c->docker_binds, sizeof(a->docker->binds));
	if (open_door(a->docker, a, c->docker_socket, e) < 0) {
		docker_stop(a, 0);
		return -1;
	}
	dlog_note(DLOG_NOTICE, "the Engine API of Docker is served on %s", a->docker->socket_path);
	return 0;
}

void docker_ending(struct api *a)
{
	if (a->docker && a->docker->socket_path[0])
		unlink(a->docker->socket_path);
}

void docker_stop(struct api *a, unsigned grace_ms)
{
	struct docker *d = a->docker;

	if (!d)
		return;
	docker_ending(a);
	http_stop(d->http, grace_ms);
	arrivals_free(d->arrivals);
	execs_free(d->execs);
	a->docker = NULL;
	free(d);
}
