/* SPDX-License-Identifier: Apache-2.0 */
/* imageflow - images that come: from a registry, or as the body of a request. */
#ifndef BERTH_MANAGER_DOCKER_IMAGEFLOW_H
#define BERTH_MANAGER_DOCKER_IMAGEFLOW_H

#include "base/buf.h"
#include "manager/api/http.h"

/* A program that reads the body on its stdin; its answer is JSON, a new reference. */
int imageflow_begin(struct http_request *rq, json_t *call, struct err *e);
http_feed imageflow_feed;
json_t *imageflow_end(struct http_request *rq, struct err *e);
/* Adds j, which it consumes, as a line of Docker's progress. */
int imageflow_line(struct buf *out, json_t *j, struct err *e);

/* POST /images/create: fromImage, or fromSrc=- with the body. */
http_begin imageflow_create_begin;
http_handler imageflow_create;

/* POST /images/{name}/push: to where its name says, or with tag= that one of its tags. */
http_handler imageflow_push;

/* GET /distribution/{name}/json: what a registry has under that name. */
http_handler imageflow_look;

/* Of images, shared by routes (route_image.c). */
int docker_store(struct http_request *rq, struct err *e);
/* -1: an error that says "not found" in Docker's words, or as it is. */
int docker_no_image(struct http_request *rq, const char *name, struct err *e);

#endif
