/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp/mcp.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"

#define DEFAULT_NAME "default"

struct mcp_box *box_find(struct mcp *m, const char *name)
{
	size_t i;

	for (i = 0; i < MCP_BOXES_MAX; i++)
		if (m->boxes[i].state != BOX_FREE &&
		    (!strcmp(m->boxes[i].name, name) || !strcmp(m->boxes[i].id, name)))
			return &m->boxes[i];
	return NULL;
}

/*
 * --image's own options are for --image; another image takes them, too: they are the policy.
 * --zygote, which is among them, brings its image.
 */
static json_t *of_image(const struct mcp *m, const char *image)
{
	const int has_zygote = json_object_get(m->config.options, "zygote") != NULL;

	return json_pack("{s:s,s:s*,s:O}", "op", "create", "image", has_zygote ? NULL : image,
			 "options", m->config.options);
}

static unsigned count_own_boxes(const struct mcp *m)
{
	unsigned n = 0;
	size_t i;

	for (i = 0; i < MCP_BOXES_MAX; i++)
		n += m->boxes[i].state != BOX_FREE && !m->boxes[i].given;
	return n;
}

void box_begin(struct mcp *m)
{
	struct mcp_box *b = &m->boxes[0];

	if (!m->config.sandbox)
		return;
	*b = (struct mcp_box){ .state = BOX_READY, .given = 1, .name = DEFAULT_NAME };
	snprintf(b->id, sizeof(b->id), "%s", m->config.sandbox);
}

/* rq, which it consumes, makes it. */
static struct mcp_box *add_mcp_box(struct mcp *m, const char *name, const char *image, json_t *rq,
				   struct err *e)
{
	autojson json_t *own = rq;
	struct mcp_box *b = NULL;
	size_t i;

	if (count_own_boxes(m) >= m->config.max_sandboxes) {
		err_set(e, ERR_LIMIT,
			"this connection has %llu sandboxes, which is all it may have; "
			"hint: remove one with sandbox_remove",
			(unsigned long long)m->config.max_sandboxes);
		return NULL;
	}
	for (i = 0; i < MCP_BOXES_MAX && !b; i++)
		if (m->boxes[i].state == BOX_FREE)
			b = &m->boxes[i];
	if (!b) {
		err_set(e, ERR_LIMIT, "%u sandboxes are in use", MCP_BOXES_MAX);
		return NULL;
	}
	*b = (struct mcp_box){ 0 };
	snprintf(b->name, sizeof(b->name), "%s", name);
	snprintf(b->image, sizeof(b->image), "%s", image);
	b->request = backend_send(m, json_incref(own), e);
	if (!b->request)
		return NULL;
	b->state = BOX_MAKING;
	return b;
}

struct mcp_box *box_take(struct mcp *m, const char *name, struct err *e)
{
	struct mcp_box *b;

	if (!*name)
		name = DEFAULT_NAME;
	b = box_find(m, name);
	if (b)
		return b;
	if (strcmp(name, DEFAULT_NAME)) {
		err_set(e, ERR_NOT_FOUND,
			"this connection has no sandbox '%.64s'; hint: "
			"sandbox_list names them, sandbox_create makes one",
			name);
		return NULL;
	}
	return add_mcp_box(m, name, m->config.image, of_image(m, m->config.image), e);
}

static int is_box_image_allowed(const struct mcp *m, const char *image)
{
	json_t *one;
	size_t i;

	if (m->config.image && !strcmp(image, m->config.image))
		return 1;
	json_array_foreach(m->config.images, i, one)
		if (!strcmp(json_string_value(one), image))
			return 1;
	return 0;
}

/* The name of a further one: what the call says, or in chosen one of ours. */
static const char *choose_box_name(struct mcp *m, const char *name, char chosen[65], struct err *e)
{
	unsigned i = 1;

	if (!*name) {
		do
			snprintf(chosen, 65, "sandbox%u", ++i);
		while (box_find(m, chosen));
		return chosen;
	}
	if (!path_is_name(name) || strlen(name) > 64) {
		err_set(e, ERR_INVALID, "'%.64s' is not a name of a sandbox; hint: a-z 0-9 _ . -",
			name);
		return NULL;
	}
	if (box_find(m, name)) {
		err_set(e, ERR_EXISTS,
			"there is a sandbox '%.64s'; hint: choose another name, or "
			"leave name out",
			name);
		return NULL;
	}
	return name;
}

struct mcp_box *box_create(struct mcp *m, const char *name, const char *image, struct err *e)
{
	char chosen[65];

	if (!image)
		image = m->config.image;
	if (!image || !is_box_image_allowed(m, image) || strlen(image) >= sizeof(m->boxes[0].image)) {
		err_set(e, ERR_DENIED,
			"image '%.80s' is not offered here; hint: leave image out, "
			"or start berth mcp with --allow-image",
			image ? image : "");
		return NULL;
	}
	name = choose_box_name(m, name, chosen, e);
	return name ? add_mcp_box(m, name, image, of_image(m, image), e) : NULL;
}

struct mcp_box *box_fork(struct mcp *m, const char *of, const json_t *arguments, struct err *e)
{
	const char *name = json_string_value(json_object_get(arguments, "name"));
	const struct mcp_box *from = box_find(m, *of ? of : DEFAULT_NAME);
	char chosen[65];
	json_t *rq;

	if (!from || from->state != BOX_READY || from->request) {
		of = *of ? of : DEFAULT_NAME;
		if (from)
			err_set(e, ERR_BUSY, "sandbox '%.64s' is being made or removed", of);
		else
			err_set(e, ERR_NOT_FOUND,
				"this connection has no sandbox '%.64s'; hint: "
				"sandbox_list names them, sandbox_create makes one",
				of);
		return NULL;
	}
	name = choose_box_name(m, name ? name : "", chosen, e);
	if (!name)
		return NULL;
	rq = json_pack("{s:s,s:s,s:O*}", "op", "fork", "sandbox", from->id, "checkpoint",
		       json_object_get(arguments, "checkpoint"));
	return add_mcp_box(m, name, from->image, rq, e);
}

void box_forget(struct mcp_box *b)
{
	*b = (struct mcp_box){ 0 };
}

void box_answer(struct mcp *m, struct mcp_box *b, json_t *answer)
{
	const json_t *fork = json_array_get(json_object_get(answer, "forks"), 0);
	const char *id = fork ? json_string_value(json_object_get(fork, "id")) :
				json_string_value(json_object_get(answer, "sandbox"));
	struct err e = { 0 };

	b->request = 0;
	if (b->state == BOX_READY) {
		/* its removal at the end */
		box_forget(b);
		return;
	}
	if (id && !json_object_get(answer, "error") && strlen(id) < sizeof(b->id)) {
		snprintf(b->id, sizeof(b->id), "%s", id);
		b->state = BOX_READY;
		rpc_log(m, 1, "made sandbox %s of image %s", b->id, b->image);
		toolcall_box_ready(m, b, NULL);
		return;
	}
	json_take_error(json_object_get(answer, "error"), ERR_INTERNAL, "berth stdio", &e);
	toolcall_box_ready(m, b, &e);
	box_forget(b);
}

int box_end_all(struct mcp *m)
{
	struct err ignored;
	int left = 0;
	size_t i;

	for (i = 0; i < MCP_BOXES_MAX; i++) {
		struct mcp_box *b = &m->boxes[i];

		if (b->state == BOX_FREE || b->given)
			continue;
		if (b->state == BOX_READY && !b->request) {
			b->request =
				backend_send(m,
					     json_pack("{s:s,s:s,s:{s:b}}", "op", "rm", "sandbox",
						       b->id, "options", "force", 1),
					     &ignored);
			if (!b->request)
				box_forget(b);
		}
		left += b->state != BOX_FREE;
	}
	return left;
}
