/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Routes of swarm mode, which berth does not have: each answers as a dockerd that is in no swarm.
 *
 * Clients rely on the status: docker-py and compose take 503 for "not in a swarm", and 404 for an
 * engine too old to be asked.
 */
#include "manager/docker/docker.h"

static int no_manager(struct http_request *rq, struct err *e)
{
	return docker_fail(rq, 503, e,
			   "This node is not a swarm manager. Use \"docker swarm init\" or "
			   "\"docker swarm join\" to connect this node to swarm and try again.");
}

static int no_member(struct http_request *rq, struct err *e)
{
	return docker_fail(rq, 503, e, "This node is not part of a swarm");
}

/* Neither init nor join would help, so their answer does not name them. */
static int no_swarm(struct http_request *rq, struct err *e)
{
	return docker_fail(rq, 503, e,
			   "swarm mode is not served here: berth runs the containers of one host");
}

#define KIND(path)                                                                                 \
	{ "GET", path, no_manager, "in no swarm", HTTP_NONE, HTTP_QUIET },                         \
	{ "GET", path "/{rest...}", no_manager, "in no swarm", HTTP_NONE, HTTP_QUIET },            \
	{ "POST", path "/{rest...}", no_manager, "in no swarm", HTTP_JSON, HTTP_OPTIONAL },        \
	{ "DELETE", path "/{rest...}", no_manager, "in no swarm", HTTP_JSON, HTTP_OPTIONAL }

const struct http_route docker_swarm_routes[] = {
	{ "POST", "/swarm/init", no_swarm, "refused", HTTP_JSON, HTTP_OPTIONAL },
	{ "POST", "/swarm/join", no_swarm, "refused", HTTP_JSON, HTTP_OPTIONAL },
	{ "POST", "/swarm/leave", no_member, "in no swarm", HTTP_JSON, HTTP_OPTIONAL },
	KIND("/swarm"),
	KIND("/nodes"),
	KIND("/services"),
	KIND("/tasks"),
	KIND("/secrets"),
	KIND("/configs"),
	{ NULL },
};
