/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/engine/links.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "manager/engine/create.h"
#include "manager/engine/host.h"
#include "manager/engine/name.h"
#include "manager/engine/view.h"
#include "manager/host/record.h"

static const char *link_text(const json_t *link, const char *key)
{
	const char *s = json_string_value(json_object_get(link, key));

	return s ? s : "";
}

/* Whether the container of this id is still there, and whether it is only kept. */
static int has_link_end(struct registry *r, const char *id, int *ret_kept)
{
	*ret_kept = 0;
	if (!path_is_name(id))
		return 0;
	if (path_has(r->sandboxes_fd, id))
		return 1;
	*ret_kept = path_has(r->kept_fd, id);
	return *ret_kept;
}

/* What a view of a container on either end needs. */
struct link_end {
	json_t *record, *asked, *image;
	struct engine_view v;
};

static int open_link_end(struct link_end *l, struct registry *r, const char *id)
{
	struct err ignored;

	l->record = record_load_kept(r, id, &ignored);
	if (!l->record)
		l->record = record_load_run(r, id, &ignored);
	l->asked = registry_load(r, id, ENGINE_FILE_NAME, &ignored);
	l->image = registry_load(r, id, "image.json", &ignored);
	l->v = (struct engine_view){ .id = id, .record = l->record, .live = l->record, .asked = l->asked, .image = l->image };
	return l->record ? 0 : -1;
}

static void close_link_end(struct link_end *l)
{
	json_decref(l->record);
	json_decref(l->asked);
	json_decref(l->image);
}

/* ---- making them ------------------------------------------------------------------------------ */

/* "NAME[:ALIAS]"; inspect's "/NAME:/OWN/ALIAS" is read as well. */
static int split_link(const char *text, char name[ENGINE_NAME_MAX + 1], const char **ret_alias)
{
	const char *colon = strchr(text, ':'), *alias = colon ? colon + 1 : text;
	const size_t n = colon ? (size_t)(colon - text) : strlen(text);
	char word[ENGINE_NAME];

	if (strrchr(alias, '/'))
		alias = strrchr(alias, '/') + 1;
	if (!n || n > ENGINE_NAME_MAX || engine_name_map(alias, word) < 0)
		return -1;
	snprintf(name, ENGINE_NAME_MAX + 1, "%.*s", (int)n, text);
	*ret_alias = alias;
	return 0;
}

/* The environment of a container, its image's included. */
static json_t *link_environment(struct registry *r, const char *id)
{
	struct link_end l;
	json_t *env = NULL, *config;

	if (open_link_end(&l, r, id) == 0) {
		config = engine_config(&l.v);
		env = json_incref(json_object_get(config, "Env"));
		json_decref(config);
	}
	close_link_end(&l);
	return env ? env : json_array();
}

static json_t *read_link(struct registry *r, const char *text, struct err *e)
{
	char name[ENGINE_NAME_MAX + 1], id[65];
	const char *alias;
	struct err why;
	int kept;

	if (!text || split_link(text, name, &alias) < 0) {
		err_set(e, ERR_INVALID, "invalid link %.200s: it is not NAME or NAME:ALIAS with names of containers", text ? text : "");
		return NULL;
	}
	if (engine_host_find(r, name + (name[0] == '/'), id, &kept, &why) < 0) {
		err_set(e, ERR_INVALID, "could not get container for %.200s: No such container: %.200s", name, name);
		return NULL;
	}
	return json_pack("{s:s,s:s,s:o}", "id", id, "alias", alias, "env", link_environment(r, id));
}

json_t *engine_links_read(struct registry *r, const json_t *body, struct err *e)
{
	const json_t *host = json_object_get(body, "HostConfig"), *links = json_object_get(host, "Links"), *one;
	const char *mode = json_string_value(json_object_get(host, "NetworkMode"));
	json_t *all = json_array(), *link;
	size_t i;

	if (json_array_size(links) && mode && !strcmp(mode, "host")) {
		err_set(e, ERR_INVALID, "conflicting options: host type networking can't be used with links. This would "
			"result in undefined behavior");
		json_decref(all);
		return NULL;
	}
	json_array_foreach ((json_t *)(size_t)links, i, one) {
		link = i < ENGINE_LINKED_MAX ? read_link(r, json_string_value(one), e) : NULL;
		if (!link && i >= ENGINE_LINKED_MAX)
			err_set(e, ERR_LIMIT, "more than %d links of one container", ENGINE_LINKED_MAX);
		if (!link || json_array_append_new(all, link) < 0) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

/* Without those whose container has gone, and without the same one: the list cannot grow for ever. */
static json_t *living_links(struct registry *r, const json_t *linked, const char *without, const char *alias)
{
	json_t *left = json_array(), *one;
	size_t i;
	int kept;

	json_array_foreach ((json_t *)(size_t)linked, i, one)
		if (has_link_end(r, link_text(one, "id"), &kept) &&
		    (strcmp(link_text(one, "id"), without) || strcmp(link_text(one, "alias"), alias)))
			json_array_append(left, one);
	return left;
}

static int tell_link_target(struct registry *r, const char *id, const json_t *link, int adds, struct err *e)
{
	const char *target = link_text(link, "id"), *alias = link_text(link, "alias");
	struct err ignored;
	autojson json_t *asked = registry_load(r, target, ENGINE_FILE_NAME, &ignored);
	json_t *linked;

	/* a sandbox that berth made has one name only */
	if (!asked)
		return 0;
	linked = living_links(r, json_object_get(asked, ENGINE_FILE_LINKED), id, alias);
	if (adds && json_array_size(linked) >= ENGINE_LINKED_MAX) {
		json_decref(linked);
		return err_set(e, ERR_LIMIT, "more than %d containers link to one", ENGINE_LINKED_MAX);
	}
	if (adds)
		json_array_append_new(linked, json_pack("{s:s,s:s}", "id", id, "alias", alias));
	json_object_set_new(asked, ENGINE_FILE_LINKED, linked);
	return registry_save(r, target, ENGINE_FILE_NAME, asked, e);
}

int engine_links_tell(struct registry *r, const char *id, const json_t *links, struct err *e)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)links, i, one)
		if (tell_link_target(r, id, one, 1, e) < 0)
			return -1;
	return 0;
}

/* ---- looking at them -------------------------------------------------------------------------- */

/* The present name of a container, without the slash, in a new string; NULL when it has gone. */
static json_t *link_end_name(struct registry *r, const char *id)
{
	struct link_end l;
	json_t *name = NULL;
	int kept;

	if (!has_link_end(r, id, &kept))
		return NULL;
	if (open_link_end(&l, r, id) == 0)
		name = json_string(engine_name(&l.v));
	close_link_end(&l);
	return name;
}

json_t *engine_links_shown(struct registry *r, const json_t *asked, const char *name)
{
	const json_t *links = json_object_get(asked, ENGINE_FILE_LINKS), *one;
	json_t *all = json_is_array(links) ? json_array() : NULL;
	size_t i;

	json_array_foreach ((json_t *)(size_t)links, i, one) {
		autojson json_t *target = link_end_name(r, link_text(one, "id"));

		if (target)
			json_array_append_new(all, json_sprintf("/%s:/%s/%s", json_string_value(target), name,
								link_text(one, "alias")));
	}
	return all;
}

static const json_t *link_called(const json_t *links, const char *key, const char *value, const char *alias)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)links, i, one)
		if (!strcmp(link_text(one, "alias"), alias) && (!key || !strcmp(link_text(one, key), value)))
			return one;
	return NULL;
}

json_t *engine_links_names(struct registry *r, const char *id, const json_t *asked)
{
	const json_t *linked = json_object_get(asked, ENGINE_FILE_LINKED), *one;
	json_t *all = json_array_size(linked) ? json_array() : NULL;
	struct err ignored;
	size_t i;

	json_array_foreach ((json_t *)(size_t)linked, i, one) {
		const char *by = link_text(one, "id"), *alias = link_text(one, "alias");
		autojson json_t *name = link_end_name(r, by), *other = name ? registry_load(r, by, ENGINE_FILE_NAME, &ignored) : NULL;

		/* the link may have been forgotten by a client that was killed half-way */
		if (link_called(json_object_get(other, ENGINE_FILE_LINKS), "id", id, alias))
			json_array_append_new(all, json_sprintf("/%s/%s", json_string_value(name), alias));
	}
	return all;
}

int engine_links_find(struct registry *r, const char *id, const char *alias, char ret_id[65], int *ret_kept, struct err *e)
{
	struct err ignored;
	autojson json_t *asked = registry_load(r, id, ENGINE_FILE_NAME, &ignored);
	const json_t *link = link_called(json_object_get(asked, ENGINE_FILE_LINKS), NULL, NULL, alias);

	if (!link || !has_link_end(r, link_text(link, "id"), ret_kept))
		return err_set(e, ERR_NOT_FOUND, "No such container: %.64s/%.200s", id, alias);
	snprintf(ret_id, 65, "%s", link_text(link, "id"));
	return 0;
}

int engine_links_remove(struct registry *r, const char *id, const char *alias, struct err *e)
{
	struct err ignored;
	autojson json_t *asked = registry_load(r, id, ENGINE_FILE_NAME, &ignored), *link = NULL;
	json_t *links = json_object_get(asked, ENGINE_FILE_LINKS), *left;

	link = json_deep_copy(link_called(links, NULL, NULL, alias));
	if (!link)
		return err_set(e, ERR_NOT_FOUND, "No such container: %.64s/%.200s", id, alias);
	left = living_links(r, links, link_text(link, "id"), alias);
	json_object_set_new(asked, ENGINE_FILE_LINKS, left);
	return registry_save(r, id, ENGINE_FILE_NAME, asked, e) < 0 ? -1 : tell_link_target(r, id, link, 0, &ignored);
}
