/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/store/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "rootfs/store/ref.h"

#define RECORD_MAX (16u << 20)
#define STRINGS_MAX 65536

int store_open(const char *path, struct err *e)
{
	if (path[0] != '/')
		return err_set(e, ERR_INVALID, "image store '%.200s' is not an absolute path", path);
	return path_open_private_dir(path, e);
}

static void strings_free(char **v, size_t n)
{
	size_t i;

	for (i = 0; v && i < n; i++)
		free(v[i]);
	free(v);
}

void image_release(struct image *im)
{
	if (!im)
		return;
	free(im->name);
	strings_free(im->env, im->env_count);
	strings_free(im->entrypoint, im->entrypoint_count);
	strings_free(im->cmd, im->cmd_count);
	free(im->user);
	free(im->workdir);
	free(im->layers);
	json_decref(im->labels);
	free(im->record);
	*im = (struct image){ 0 };
}

static int get_strings(const json_t *doc, const char *key, char ***ret, size_t *ret_n,
		       const char *what, struct err *e)
{
	json_t *arr = NULL;
	size_t i, n;
	int r = json_get_arr(doc, key, &arr, what, e);

	if (r < 0)
		return -1;
	n = r ? json_array_size(arr) : 0;
	if (n > STRINGS_MAX)
		return err_set(e, ERR_CORRUPT, "%s: \"%s\" has too many entries", what, key);
	/* one element more, so that the runtime can hand the array to exec */
	*ret = calloc(n + 1, sizeof(**ret));
	if (!*ret)
		return err_nomem(e);
	for (i = 0; i < n; i++) {
		const char *s = json_string_value(json_array_get(arr, i));

		if (!s)
			return err_set(e, ERR_CORRUPT, "%s: \"%s\" holds something else than strings", what, key);
		(*ret)[i] = strdup(s);
		if (!(*ret)[i])
			return err_nomem(e);
		*ret_n = i + 1;
	}
	return 0;
}

static int get_string(const json_t *doc, const char *key, char **ret, const char *what, struct err *e)
{
	const char *s = "";

	if (json_get_str(doc, key, &s, what, e) < 0)
		return -1;
	*ret = strdup(s);
	return *ret ? 0 : err_nomem(e);
}

static int get_record_layers(const json_t *doc, struct image *im, const char *what, struct err *e)
{
	json_t *arr = NULL;
	size_t i, n;
	int r = json_get_arr(doc, "layers", &arr, what, e);

	if (r < 0)
		return -1;
	n = r ? json_array_size(arr) : 0;
	if (!n || n > IMAGE_LAYERS_MAX)
		return err_set(e, ERR_CORRUPT, "%s: %zu layers", what, n);
	im->layers = calloc(n, sizeof(*im->layers));
	if (!im->layers)
		return err_nomem(e);
	im->layer_count = n;
	for (i = 0; i < n; i++) {
		const char *chain = NULL;

		if (json_get_str(json_array_get(arr, i), "chain_id", &chain, what, e) < 0)
			return -1;
		if (!chain || !digest_is_sha256(chain))
			return err_set(e, ERR_CORRUPT, "%s: layer %zu has no chain id", what, i);
		memcpy(im->layers[i], digest_hex(chain), DIGEST_HEX_SIZE);
	}
	return 0;
}

int image_is_on_host(const json_t *record)
{
	const char *base = json_string_value(json_object_get(record, "base"));

	return base && !strcmp(base, IMAGE_BASE_HOST);
}

static int from_record(const json_t *doc, struct image *im, const char *what, struct err *e)
{
	const char *digest = NULL;

	if (json_get_str(doc, "digest", &digest, what, e) < 0)
		return -1;
	if (digest_copy(im->digest, digest ? digest : "", what, e) < 0 ||
	    get_record_layers(doc, im, what, e) < 0 ||
	    get_strings(doc, "env", &im->env, &im->env_count, what, e) < 0 ||
	    get_strings(doc, "entrypoint", &im->entrypoint, &im->entrypoint_count, what, e) < 0 ||
	    get_strings(doc, "cmd", &im->cmd, &im->cmd_count, what, e) < 0 ||
	    get_string(doc, "user", &im->user, what, e) < 0 ||
	    get_string(doc, "workdir", &im->workdir, what, e) < 0 ||
	    json_get_obj(doc, "labels", &im->labels, what, e) < 0)
		return -1;
	json_incref(im->labels);
	im->on_host = image_is_on_host(doc);
	return 0;
}

int image_check_format(const json_t *record, const char *what, struct err *e)
{
	const char *name = json_string_value(json_object_get(record, "name"));

	if (json_check_version(record, IMAGE_RECORD_FORMAT, what, e) == 0)
		return 0;
	return e && e->code == ERR_UNSUPPORTED && name ?
	       err_hint(e, "use that berth again; or berth image rm --force %.100s, and pull or import it", name) : -1;
}

/* Returns a new reference to a record, or NULL. Its text goes to *ret_text, whose old content is freed. */
static json_t *read_record_file(int dir_fd, const char *path, struct buf *ret_text, struct err *e)
{
	autobuf struct buf b = BUF_INIT(RECORD_MAX);
	json_t *doc = NULL;

	if (io_read_file(dir_fd, path, &b, e) == 0)
		doc = json_parse(b.data ? b.data : "", b.len, RECORD_MAX, path, e);
	if (doc && image_check_format(doc, path, e) < 0) {
		json_decref(doc);
		return NULL;
	}
	if (doc && ret_text) {
		buf_release(ret_text);
		*ret_text = b;
		b = BUF_INIT(0);
	}
	return doc;
}

/* Reads the record images/FILENAME. */
static json_t *read_record(int store_fd, const char *filename, struct buf *ret_text, struct err *e)
{
	char path[REF_NAME_MAX + 32];

	snprintf(path, sizeof(path), "images/%s", filename);
	return read_record_file(store_fd, path, ret_text, e);
}

static int is_record_filename(const char *filename)
{
	size_t n = strlen(filename);

	return filename[0] != '.' && n > 5 && n < REF_NAME_MAX + 8 && !strcmp(filename + n - 5, ".json");
}

/* Tells whether the image has the digest: its manifest's, or that of the index it was pulled by. */
static int has_digest(const json_t *doc, const char *hex)
{
	static const char *const keys[] = { "digest", "index" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(keys); i++) {
		const char *d = json_string_value(json_object_get(doc, keys[i]));

		if (d && digest_is_valid(d) && !strncmp(digest_hex(d), hex, strlen(hex)))
			return 1;
	}
	return 0;
}

/*
 * Chooses among several records of one image: a tenant prefers its own, the operator one without an
 * owner.
 */
static int is_better(const struct image_view *v, const json_t *have, const json_t *had)
{
	return v ? image_view_owns(v, have) && !image_view_owns(v, had) :
		   !image_owner(have) && image_owner(had);
}

/*
 * Finds the one digest that starts with hex among the images that v sees; *ret_doc stays NULL if
 * there is none.
 */
static int find_digest(int store_fd, const struct image_view *v, const char *hex, const char *repo,
		       json_t **ret_doc, struct buf *ret_text, struct err *e)
{
	autojson json_t *found = NULL;
	int fd = openat(store_fd, "images", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const char *have, *had;
	struct err newer = { 0 }, bad;
	struct dirent *d;
	int rc = 0;

	if (!dir)
		return fd < 0 && errno == ENOENT ? 0 : err_sys(e, "read the image store");
	while (!rc && (d = readdir(dir))) {
		autojson json_t *doc = NULL;
		autobuf struct buf text = BUF_INIT(0);
		size_t n = strlen(repo);

		if (!is_record_filename(d->d_name) || (n && (strncmp(d->d_name, repo, n) || d->d_name[n] != ':')))
			continue;
		memset(&bad, 0, sizeof(bad));
		doc = read_record(store_fd, d->d_name, &text, &bad);
		if (!doc && bad.code == ERR_UNSUPPORTED)
			newer = bad;
		have = json_string_value(json_object_get(doc, "digest"));
		if (!have || !digest_is_valid(have) || !has_digest(doc, hex) ||
		    !image_view_sees(v, doc))
			continue;
		had = json_string_value(json_object_get(found, "digest"));
		if (had && strcmp(had, have)) {
			rc = err_set(e, ERR_INVALID, "'%s' fits several images; hint: give more digits", hex);
		} else if (!had || is_better(v, doc, found)) {
			json_decref(found);
			found = take_ptr(&doc);
			if (ret_text) {
				buf_release(ret_text);
				*ret_text = text;
				text = BUF_INIT(0);
			}
		}
	}
	closedir(dir);
	/* the record that cannot be understood may be the one we look for */
	if (!rc && !found && newer.code && !v) {
		rc = -1;
		if (e)
			*e = newer;
	}
	if (!rc)
		*ret_doc = take_ptr(&found);
	return rc;
}

/* Reads the record of exactly that name, if v sees it; *ret_doc stays NULL if there is none. */
static int find_file(int store_fd, const struct image_view *v, const struct ref *r,
		     json_t **ret_doc, struct buf *ret_text, struct err *e)
{
	char filename[REF_NAME_MAX + 8];
	struct err why = { 0 };
	json_t *doc;

	ref_filename(r, filename);
	doc = read_record(store_fd, filename, ret_text, &why);
	if (!doc && why.code != ERR_NOT_FOUND && !v) {
		if (e)
			*e = why;
		return -1;
	}
	if (doc && !image_view_sees(v, doc)) {
		json_decref(doc);
		doc = NULL;
	}
	*ret_doc = doc;
	return 0;
}

/* Finds a tenant's image: a word is first one of the tenant's own names. */
static int find_owned_image(int store_fd, const struct image_view *v, struct ref *r, json_t **ret_doc,
			    struct buf *ret_text, struct err *e)
{
	struct ref own = *r;
	struct err ignored;

	own.digest[0] = '\0';
	if (v && !r->tenant[0] && ref_set_tenant(&own, v->tenant, &ignored) == 0 &&
	    find_file(store_fd, v, &own, ret_doc, ret_text, e) == 0 && *ret_doc)
		return 0;
	return find_file(store_fd, v, r, ret_doc, ret_text, e);
}

static int find_ref(int store_fd, const struct image_view *v, const char *asked, json_t **ret_doc,
		    struct buf *ret_text, struct err *e)
{
	struct ref r;
	char *p;

	if (!strncmp(asked, "sha256:", 7) || !strncmp(asked, "sha512:", 7)) {
		if (!digest_is_hex(digest_hex(asked), DIGEST_PREFIX_MIN, asked[3] == '2' ? 64 : 128))
			return err_set(e, ERR_INVALID, "image digest '%.150s' is malformed; hint: "
				       "sha256: and 12 to 64 hex digits", asked);
		return find_digest(store_fd, v, digest_hex(asked), "", ret_doc, ret_text, e);
	}
	if (ref_parse_owned(asked, &r, e) < 0)
		return -1;
	if (r.digest[0] && !r.tag[0]) {
		for (p = r.repo; *p; p++)
			if (*p == '/')
				*p = '%';
		return find_digest(store_fd, v, digest_hex(r.digest), r.repo, ret_doc, ret_text, e);
	}
	if (find_owned_image(store_fd, v, &r, ret_doc, ret_text, e) < 0)
		return -1;
	if (r.digest[0] && !has_digest(*ret_doc, digest_hex(r.digest))) {
		json_decref(*ret_doc);
		*ret_doc = NULL;
	}
	if (!*ret_doc && digest_is_hex(asked, DIGEST_PREFIX_MIN, 64))
		return find_digest(store_fd, v, asked, "", ret_doc, ret_text, e);
	return 0;
}

int image_not_found(const char *ref, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "image '%.200s' is not in the store; hint: "
		       "berth pull %.100s, or berth image import SOURCE %.100s", ref, ref, ref);
}

static json_t *find_record(int store_fd, const char *ref, struct buf *ret_text, struct err *e)
{
	json_t *doc = NULL;

	if (find_ref(store_fd, NULL, ref, &doc, ret_text, e) < 0)
		return NULL;
	if (!doc)
		image_not_found(ref, e);
	return doc;
}

json_t *image_record(int store_fd, const char *ref, struct err *e)
{
	return find_record(store_fd, ref, NULL, e);
}

json_t *image_record_seen(int store_fd, const struct image_view *v, const char *ref, struct err *e)
{
	json_t *doc = NULL;

	if (find_ref(store_fd, v, ref, &doc, NULL, e) < 0)
		return NULL;
	if (!doc)
		image_not_found(ref, e);
	return doc;
}

static int load_from_record(const char *name, const json_t *doc, struct buf *text, struct image *ret, struct err *e)
{
	struct image im = { 0 };

	im.name = strdup(name);
	if (!im.name)
		return err_nomem(e);
	if (from_record(doc, &im, "image record", e) < 0) {
		image_release(&im);
		return err_wrap(e, "image '%.200s'", name);
	}
	im.record = text->data;
	im.record_len = text->len;
	*text = BUF_INIT(0);
	*ret = im;
	return 0;
}

int image_load(int store_fd, const char *ref, struct image *ret, struct err *e)
{
	autobuf struct buf text = BUF_INIT(0);
	autojson json_t *doc = find_record(store_fd, ref, &text, e);

	return doc ? load_from_record(ref, doc, &text, ret, e) : -1;
}

int image_load_pin(int dir_fd, struct image *ret, struct err *e)
{
	autobuf struct buf text = BUF_INIT(0);
	autojson json_t *doc = read_record_file(dir_fd, IMAGE_PIN, &text, e);
	const char *name = json_string_value(json_object_get(doc, "name"));

	return doc ? load_from_record(name ? name : "", doc, &text, ret, e) : -1;
}

int image_pin(const struct image *im, int dir_fd, struct err *e)
{
	return io_replace_file(dir_fd, IMAGE_PIN, im->record, im->record_len, 0600, 0, e);
}

int image_layer_open(int store_fd, const struct image *im, size_t i, struct err *e)
{
	char path[7 + DIGEST_HEX_SIZE];
	int fd;

	snprintf(path, sizeof(path), "layers/%s", im->layers[i]);
	fd = openat(store_fd, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_CORRUPT : ERR_SYS,
				    "open layer %zu of image '%.200s'; hint: import it again", i, im->name);
	return fd;
}

int image_hold(int store_fd, const struct image *im, struct err *e)
{
	char path[6 + DIGEST_SIZE];
	autoclose int fd = -1;
	struct stat st;

	snprintf(path, sizeof(path), "holds/%s", digest_hex(im->digest));
	fd = openat(store_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno != ENOENT)
		return err_sys(e, "open the hold of image '%.200s'", im->name);
	/* gc locks it exclusively while it decides; then the file may be unlinked */
	if (fd < 0 || flock(fd, LOCK_SH) < 0 || fstat(fd, &st) < 0 || !st.st_nlink)
		return err_set(e, ERR_NOT_FOUND, "image '%.200s' was removed just now", im->name);
	return take_fd(&fd);
}
