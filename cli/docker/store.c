/* SPDX-License-Identifier: Apache-2.0 */
/* What changes the store of images: rmi, tag, save, load, import, push, commit, login. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/docker/verbs.h"
#include "manager/engine/image.h"
#include "manager/engine/load.h"
#include "manager/engine/login.h"
#include "manager/ops/call.h"
#include "rootfs/store/image.h"

#define REF_MAX 400

static int no_image(const char *name, struct err *e)
{
	char room[REF_MAX];

	if (e->code != ERR_NOT_FOUND)
		return -1;
	return err_set(e, ERR_NOT_FOUND, "No such image: %.300s",
		       engine_image_tagged(name, room, sizeof(room)));
}

/* ---- rmi ------------------------------------------------------------------------------------- */

static int open_images(struct err *e)
{
	struct sandbox_ref s;
	int store;

	sandbox_ref_init(&s);
	store = door_store(&s, e);
	sandbox_ref_close(&s);
	return store;
}

static json_t *containers_here(struct err *e)
{
	autojson json_t *none = json_object();
	json_t *all = NULL;
	struct sandbox_ref s;

	sandbox_ref_init(&s);
	if (sandbox_ref_registry(&s, e) == 0)
		all = engine_load_list(&s.registry, none, 1, 0, e);
	sandbox_ref_close(&s);
	return all;
}

static int remove_image(const char *name, int force, struct err *e)
{
	json_t *call = call_of("image rm", name, NULL);
	autojson json_t *record = NULL, *said = NULL, *containers = NULL;
	struct image im = { 0 };
	autoclose int store = open_images(e);
	const json_t *one;
	struct err ignored;
	size_t i;

	call_set(call, "force", json_boolean(force));
	if (!name[strspn(name, " ")]) {
		json_decref(call);
		return err_set(e, ERR_INVALID, "image name cannot be blank");
	}
	record = store < 0 ? NULL : image_record(store, name, e);
	if (!record) {
		json_decref(call);
		return store < 0 ? -1 : no_image(name, e);
	}
	containers = containers_here(e);
	if (!containers || engine_image_removable(store, containers, name, door_text(record, "digest"), force, e) < 0) {
		json_decref(call);
		return -1;
	}
	said = door_ask(call, e);
	if (!said && e->code == ERR_BUSY)
		return err_set(e, ERR_BUSY,
			       "conflict: unable to remove repository reference "
			       "\"%.200s\" (must force) - a container is using its referenced "
			       "image",
			       name);
	if (!said)
		return -1;
	json_array_foreach (json_object_get(said, "removed"), i, one)
		printf("Untagged: %s\n", json_string_value(one));
	if (image_load(store, door_text(record, "digest"), &im, &ignored) < 0)
		printf("Deleted: %s\n", door_text(record, "digest"));
	image_release(&im);
	return 0;
}

static int rmi_main(const struct command *self, int argc, char **argv)
{
	struct door_args a;
	int i, status = 0;

	if (!door_parse(&a, self, argc, argv, 1, -1))
		status = a.status;
	for (i = 0; i < a.count; i++) {
		const int force = door_on(&a, "force");
		struct err e;

		if (remove_image(a.words[i], force, &e) < 0)
			/* with --force one that is not there is told, and is no failure */
			status |= door_error(&e) && !(force && e.code == ERR_NOT_FOUND);
	}
	door_release(&a);
	return status;
}

static const struct opt rmi_options[] = {
	{ "force", 'f', OPT_FLAG, NULL, "Force removal of the image", DOOR_TAKEN },
	{ "no-prune", 0, OPT_FLAG, NULL, "Do not delete untagged parents", DOOR_IGNORED },
};

/* ---- tag, load, import ----------------------------------------------------------------------- */

static int tag(const struct door_args *a, struct err *e)
{
	const struct engine_berth b = door_berth(NULL);
	autoclose int store = open_images(e);

	if (store < 0)
		return -1;
	return engine_image_tag(&b, store, a->words[0], a->words[1], e) < 0 ? no_image(a->words[0], e) : 0;
}

/* Our stdin, or --input, is the program's, whose answer comes by a child that may not read it. */
static int give_input(const char *path, struct err *e)
{
	autoclose int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;

	if (!path)
		return 0;
	if (fd < 0)
		return err_code_sys(e, ERR_NOT_FOUND, "open %s", path);
	return dup2(fd, STDIN_FILENO) < 0 ? err_sys(e, "open %s", path) : 0;
}

static int load_docker_images(const struct door_args *a, struct err *e)
{
	json_t *call;
	autojson json_t *said = NULL;
	const json_t *one;
	size_t i;

	if (!door_value(a, "input") && isatty(STDIN_FILENO))
		return err_set(e, ERR_INVALID, "requested load from stdin, but stdin is empty");
	if (give_input(door_value(a, "input"), e) < 0)
		return -1;
	call = engine_load_call(e);
	if (!call)
		return -1;
	said = door_ask_with(call, DOOR_STDIN, e);
	json_array_foreach (json_object_get(said, "images"), i, one) {
		autojson json_t *line = engine_load_line(one);

		puts(json_string_value(line));
	}
	return said ? 0 : -1;
}

static int import(const struct door_args *a, struct err *e)
{
	const char *file = a->words[0];
	autojson json_t *said = NULL;
	json_t *call;
	const json_t *made;

	if (!strstr(file, "://") && give_input(strcmp(file, "-") ? file : NULL, e) < 0)
		return -1;
	call = engine_import_call(&(struct engine_import){ .source = strstr(file, "://") ? file : "-",
							   .repo = a->count > 1 ? a->words[1] : NULL,
							   .message = door_value(a, "message"),
							   .platform = door_value(a, "platform"),
							   .changes = door_list(a, "change") },
				  e);
	if (!call)
		return -1;
	call_flag(call, "quiet");
	said = door_ask_with(call, DOOR_STDIN, e);
	made = json_array_get(json_object_get(said, "images"), 0);
	return said ? printf("%s\n", door_text(made, "digest")) < 0 : -1;
}

/* ---- save ------------------------------------------------------------------------------------ */

static int save_docker_images(const struct door_args *a, struct err *e)
{
	autojson json_t *said = NULL, *names = json_array();
	const char *to = door_value(a, "output");
	autoclose int store = -1;
	struct sandbox_ref s;
	const json_t *one;
	json_t *call;
	size_t k;
	int i;

	if (!to && isatty(STDOUT_FILENO))
		return err_set(e, ERR_INVALID,
			       "cowardly refusing to save to a terminal. Use the "
			       "-o flag or redirect");
	if ((store = open_images(e)) < 0)
		return -1;
	for (i = 0; i < a->count; i++)
		if (engine_save_names(store, a->words[i], names, e) < 0)
			return -1;
	sandbox_ref_init(&s);
	json_array_foreach (names, k, one) {
		autojson json_t *doc = door_image_document(&s, json_string_value(one), e);

		if (!doc) {
			sandbox_ref_close(&s);
			return -1;
		}
	}
	sandbox_ref_close(&s);
	call = call_of("image save", NULL);
	call_flag(call, "quiet");
	call_text(call, "output", to);
	call_operands(call, names);
	said = door_ask_with(call, DOOR_STDOUT, e);
	return said ? 0 : -1;
}

/* ---- push, login ----------------------------------------------------------------------------- */

static int push_docker_images(const struct door_args *a, struct err *e)
{
	const char *name = a->words[0];
	json_t *call;
	autojson json_t *said = NULL, *doc = NULL;
	struct sandbox_ref s;
	char room[REF_MAX];
	const char *tagged;

	sandbox_ref_init(&s);
	doc = door_image_document(&s, name, e);
	sandbox_ref_close(&s);
	if (!doc)
		return e->code == ERR_NOT_FOUND ?
			       err_set(e, ERR_NOT_FOUND,
				       "An image does not exist locally with the tag: "
				       "%.200s",
				       name) :
			       -1;
	if (!door_on(a, "quiet"))
		printf("The push refers to repository [%.*s]\n", engine_image_repo(name), name);
	fflush(stdout);
	call = call_of("push", name, NULL);
	call_flag(call, "quiet");
	said = door_ask(call, e);
	if (!said)
		return -1;
	tagged = engine_image_tagged(name, room, sizeof(room));
	return printf("%s: digest: %s size: %lld\n", tagged + engine_image_repo(tagged) + 1, door_text(said, "digest"),
		      (long long)json_integer_value(json_object_get(said, "size"))) < 0;
}

static int login(const struct door_args *a, struct err *e)
{
	const char *argv[10] = { "berth", "login", "--quiet" }, *user = door_value(a, "username");
	size_t n = 3;

	if (user) {
		argv[n++] = "--username";
		argv[n++] = user;
	}
	if (door_on(a, "password-stdin"))
		argv[n++] = "--password-stdin";
	argv[n++] = "--";
	argv[n++] = engine_login_server(a->count ? a->words[0] : "");
	if (door_pass(argv))
		return err_set(e, ERR_DENIED, "Error: the login did not succeed");
	return printf("Login Succeeded\n") < 0;
}

static int logout(const struct door_args *a, struct err *e)
{
	const char *server = engine_login_server(a->count ? a->words[0] : "");
	autojson json_t *said = door_ask(call_of("logout", server, NULL), e);

	if (!said && e->code != ERR_NOT_FOUND)
		return -1;
	return printf(said ? "Removing login credentials for %s\n" : "Not logged in to %s\n",
		      server) < 0;
}

/* ---- commit, search -------------------------------------------------------------------------- */

/* Of --change, as options of berth commit. */
static json_t *commit_changes(const struct door_args *a, struct err *e)
{
	autojson json_t *list = json_array();
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)door_list(a, "change"), i, one)
		if (engine_image_change(list, json_string_value(one), e) < 0)
			return NULL;
	return json_incref(list);
}

static json_t *commit_docker_container(const struct door_args *a, struct sandbox_ref *s, const char *name,
			 const json_t *words, struct err *e)
{
	const char *author = door_value(a, "author"), *message = door_value(a, "message");
	json_t *call = call_of("commit", s->id, name, NULL);

	call_flag(call, "quiet");
	call_text(call, "author", author);
	call_text(call, "message", message);
	if (json_is_false(json_object_get(a->o, "pause")))
		call_flag(call, "no-pause");
	call_words(call, words);
	return door_ask(call, e);
}

static int keep_docker_image(const char *name, struct err *e)
{
	const struct engine_berth b = door_berth(NULL);
	autoclose int store = open_images(e);

	return store < 0 ? -1 : engine_image_keep(&b, store, name, NULL, e);
}

static int commit_docker_image(const struct door_args *a, struct err *e)
{
	autojson json_t *changes = NULL, *words = NULL, *said = NULL;
	struct engine_loaded l;
	struct sandbox_ref s;
	char name[80];

	if (a->count < 2 && engine_image_new_name(name, sizeof(name), e) < 0)
		return -1;
	changes = commit_changes(a, e);
	if (!changes)
		return -1;
	sandbox_ref_init(&s);
	if (door_find(&s, a->words[0], e) == 0 && door_load(&l, &s, 0, e) == 0) {
		words = engine_commit_words(&l.v, NULL, changes, e);
		engine_loaded_release(&l);
	}
	if (words && (a->count < 2 || keep_docker_image(a->words[1], e) == 0))
		said = commit_docker_container(a, &s, a->count < 2 ? name : a->words[1], words, e);
	sandbox_ref_close(&s);
	return said ? printf("%s\n", door_text(said, "digest")) < 0 : -1;
}

/* No registry is asked: the list is empty, as Door A's is. */
static int refuse_docker_search(const struct door_args *a, struct err *e)
{
	static const struct door_column heads[] = {
		{ "Name", "NAME" },       { "Description", "DESCRIPTION" },
		{ "StarCount", "STARS" }, { "IsOfficial", "OFFICIAL" },
		{ NULL, NULL },
	};
	autojson json_t *none = json_array();

	return door_rows(door_value(a, "format"), none, heads, 4, e);
}

/* ---- the verbs ------------------------------------------------------------------------------- */

static const struct door_row verbs[] = {
	{ "tag", 2, 2, tag },           { "load", 0, 0, load_docker_images },     { "import", 1, 2, import },
	{ "save", 1, -1, save_docker_images }, { "push", 1, 1, push_docker_images },     { "login", 0, 1, login },
	{ "logout", 0, 1, logout },     { "commit", 1, 2, commit_docker_image },
	{ "search", 1, 1, refuse_docker_search },
};

static int docker_store_main(const struct command *self, int argc, char **argv)
{
	return door_dispatch(verbs, self, argc, argv);
}

static const struct opt load_options[] = {
	{ "input", 'i', OPT_VALUE, "string", "Read from tar archive file, instead of STDIN",
	  DOOR_TAKEN, COMPLETE_FILE },
	{ "platform", 0, OPT_VALUE, "string", "A platform of the image", DOOR_IGNORED },
	{ "quiet", 'q', OPT_FLAG, NULL, "Suppress the load output", DOOR_IGNORED },
};
static const struct opt import_options[] = {
	{ "change", 'c', OPT_LIST, "list", "Apply Dockerfile instruction to the created image",
	  DOOR_TAKEN },
	{ "message", 'm', OPT_VALUE, "string", "Set commit message for imported image",
	  DOOR_TAKEN },
	{ "platform", 0, OPT_VALUE, "string", "Set platform if server is multi-platform capable", DOOR_TAKEN },
};
static const struct opt save_options[] = {
	{ "output", 'o', OPT_VALUE, "string", "Write to a file, instead of STDOUT", DOOR_TAKEN,
	  COMPLETE_FILE },
	{ "platform", 0, OPT_VALUE, "string", "A platform of the image", DOOR_IGNORED },
};
static const struct opt push_options[] = {
	{ "all-tags", 'a', OPT_FLAG, NULL, "Push all tags of an image to the repository",
	  DOOR_REFUSED, COMPLETE_NONE, "name each tag" },
	{ "disable-content-trust", 0, OPT_FLAG, NULL, "Skip image signing", DOOR_IGNORED },
	{ "platform", 0, OPT_VALUE, "string", "A platform of the image", DOOR_IGNORED },
	{ "quiet", 'q', OPT_FLAG, NULL, "Suppress verbose output", DOOR_TAKEN },
};
static const struct opt login_options[] = {
	{ "password", 'p', OPT_VALUE, "string", "Password", DOOR_REFUSED, COMPLETE_NONE,
	  "every process sees arguments; --password-stdin" },
	{ "password-stdin", 0, OPT_FLAG, NULL, "Take the Password from stdin", DOOR_TAKEN },
	{ "username", 'u', OPT_VALUE, "string", "Username", DOOR_TAKEN },
};
static const struct opt commit_options[] = {
	{ "author", 'a', OPT_VALUE, "string", "Author", DOOR_TAKEN },
	{ "change", 'c', OPT_LIST, "list",
	  "Apply Dockerfile instruction to the created image: "
	  "CMD, ENTRYPOINT, ENV, LABEL, USER, WORKDIR",
	  DOOR_TAKEN },
	{ "message", 'm', OPT_VALUE, "string", "Commit message", DOOR_TAKEN },
	{ "pause", 'p', OPT_FLAG, NULL, "Pause container during commit (default true)",
	  DOOR_TAKEN },
};
static const struct opt search_options[] = {
	{ "filter", 'f', OPT_LIST, "filter", "Filter output", DOOR_IGNORED },
	{ "format", 0, OPT_VALUE, "string", "Pretty-print search using a Go template", DOOR_TAKEN },
	{ "limit", 0, OPT_VALUE, "int", "Max number of search results", DOOR_IGNORED },
	{ "no-trunc", 0, OPT_FLAG, NULL, "Don't truncate output", DOOR_IGNORED },
};

#define VERB(sym, verb, words, text, table, count, main)                                           \
	const struct command door_##sym = {                                                        \
		.name = verb,                                                                      \
		.args = words,                                                                     \
		.summary = text,                                                                   \
		.opts = table,                                                                     \
		.opt_count = count,                                                                \
		.complete = COMPLETE_IMAGE,                                                        \
		.run = main,                                                                       \
	}

VERB(rmi, "rmi", "[OPTIONS] IMAGE [IMAGE...]", "Remove one or more images", rmi_options, 2,
	rmi_main);
VERB(tag, "tag", "SOURCE_IMAGE[:TAG] TARGET_IMAGE[:TAG]",
	"Create a tag TARGET_IMAGE that refers to SOURCE_IMAGE", NULL, 0, docker_store_main);
VERB(load_verb, "load", "[OPTIONS]", "Load an image from a tar archive or STDIN", load_options, 3,
	docker_store_main);
VERB(import, "import", "[OPTIONS] file|- [REPOSITORY[:TAG]]",
	"Import the contents from a tarball to create a filesystem image", import_options, 3,
	docker_store_main);
VERB(save, "save", "[OPTIONS] IMAGE [IMAGE...]", "Save one or more images to a tar archive",
	save_options, ARRAY_LEN(save_options), docker_store_main);
VERB(push, "push", "[OPTIONS] NAME[:TAG]", "Upload an image to a registry", push_options,
	ARRAY_LEN(push_options), docker_store_main);
VERB(login, "login", "[OPTIONS] [SERVER]", "Authenticate to a registry", login_options,
	ARRAY_LEN(login_options), docker_store_main);
VERB(logout, "logout", "[SERVER]", "Log out from a registry", NULL, 0, docker_store_main);
VERB(commit, "commit", "[OPTIONS] CONTAINER REPOSITORY[:TAG]",
	"Create a new image from a container's changes", commit_options, ARRAY_LEN(commit_options),
	docker_store_main);
VERB(search, "search", "[OPTIONS] TERM", "Search for images: none are listed", search_options,
	ARRAY_LEN(search_options), docker_store_main);
