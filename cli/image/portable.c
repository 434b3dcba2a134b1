/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/portable.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/host/labels.h"
#include "manager/host/registry.h"
#include "manager/ops/params.h"
#include "rootfs/store/digest.h"

/* ---- the file ---- */

#define MANIFEST "checkpoint.json"
#define LAYER "layer.tar.zst"
#define MANIFEST_MAX (1u << 20)
#define BLOCK 512u
#define OPTIONS_MAX 4096
#define CHUNK (256u << 10)
#define RECORD_MAX (1u << 20) /* zeros behind the end */

/* pax(1), "ustar Interchange Format"; a size above 8 GiB is in base 256, as GNU tar has it. */
struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
	char magic[6], version[2], rest[247];
};
_Static_assert(sizeof(struct header) == BLOCK, "a block");

static const char zeros[2 * BLOCK];

/* ---- writing ------------------------------------------------------------------------- */

static unsigned portable_header_sum(const struct header *h)
{
	const unsigned char *p = (const unsigned char *)h;
	const size_t at = offsetof(struct header, sum);
	unsigned sum = 0;
	size_t i;

	for (i = 0; i < BLOCK; i++)
		sum += i >= at && i < at + sizeof(h->sum) ? ' ' : p[i];
	return sum;
}

static void put_size(char out[12], uint64_t size)
{
	int i;

	if (size < UINT64_C(1) << 33) {
		snprintf(out, 12, "%011llo", (unsigned long long)size);
		return;
	}
	memset(out, 0, 12);
	out[0] = (char)0x80;
	for (i = 11; i > 3; i--, size >>= 8)
		out[i] = (char)(size & 0xff);
}

static int put_portable_header(int fd, const char *name, uint64_t size, struct err *e)
{
	struct header h = { .mode = "0000644", .uid = "0000000", .gid = "0000000", .type = '0' };

	snprintf(h.name, sizeof(h.name), "%s", name);
	put_size(h.size, size);
	memcpy(h.mtime, "00000000000", 12);
	memcpy(h.magic, "ustar", 6);
	memcpy(h.version, "00", 2);
	snprintf(h.sum, sizeof(h.sum), "%06o", portable_header_sum(&h));
	h.sum[7] = ' ';
	return io_write_all(fd, &h, sizeof(h)) < 0 ? err_sys(e, "write the checkpoint's file") : 0;
}

static int put_portable_padding(int fd, uint64_t size, struct err *e)
{
	const size_t n = (BLOCK - size % BLOCK) % BLOCK;

	return n && io_write_all(fd, zeros, n) < 0 ? err_sys(e, "write the checkpoint's file") : 0;
}

static int put_layer(int out, int layer, uint64_t size, struct err *e)
{
	autofree char *chunk = malloc(CHUNK);
	uint64_t at = 0;

	if (!chunk)
		return err_nomem(e);
	while (at < size) {
		ssize_t n = pread(layer, chunk, CHUNK, (off_t)at);

		if (n <= 0)
			return n < 0 ? err_sys(e, "read the packed layer") :
				       err_set(e, ERR_INTERNAL, "the packed layer ends early");
		if (io_write_all(out, chunk, (size_t)n) < 0)
			return err_sys(e, "write the checkpoint's file");
		at += (uint64_t)n;
	}
	return 0;
}

int portable_write(int out_fd, const json_t *manifest, int layer_fd, uint64_t layer_size,
		   struct err *e)
{
	autofree char *text = json_dumps(manifest, JSON_INDENT(1));
	size_t n;

	if (!text)
		return err_nomem(e);
	n = strlen(text);
	if (n > MANIFEST_MAX)
		return err_set(e, ERR_LIMIT, "the options of the sandbox take more than %u bytes",
			       MANIFEST_MAX);
	if (put_portable_header(out_fd, MANIFEST, n, e) < 0)
		return -1;
	if (io_write_all(out_fd, text, n) < 0)
		return err_sys(e, "write the checkpoint's file");
	if (put_portable_padding(out_fd, n, e) < 0 || put_portable_header(out_fd, LAYER, layer_size, e) < 0 ||
	    put_layer(out_fd, layer_fd, layer_size, e) < 0 ||
	    put_portable_padding(out_fd, layer_size, e) < 0)
		return -1;
	return io_write_all(out_fd, zeros, sizeof(zeros)) < 0 ?
		       err_sys(e, "write the checkpoint's file") :
		       0;
}

/* ---- reading ------------------------------------------------------------------------- */

static int read_portable_bytes(int fd, void *p, size_t n, struct err *e)
{
	const int got = io_read_exact(fd, p, n);

	if (got < 0 && errno != EPIPE)
		return err_sys(e, "read the checkpoint's file");
	return got > 0 ? 0 :
			 err_set(e, ERR_CORRUPT,
				 "the checkpoint's file ends early; hint: copy it again, or make it "
				 "with berth checkpoint export");
}

static int get_size(const char in[12], uint64_t *ret)
{
	uint64_t v = 0;
	int i;

	if ((unsigned char)in[0] == 0x80) {
		for (i = 1; i < 12; i++) {
			if (v >> 55)
				return -1;
			v = v << 8 | (unsigned char)in[i];
		}
		*ret = v;
		return 0;
	}
	for (i = 0; i < 11; i++) {
		if (in[i] < '0' || in[i] > '7')
			return -1;
		v = v << 3 | (uint64_t)(in[i] - '0');
	}
	*ret = v;
	return in[11] ? -1 : 0;
}

static int get_header(int fd, const char *name, uint64_t *ret_size, struct err *e)
{
	struct header h;
	char sum[8];

	if (read_portable_bytes(fd, &h, sizeof(h), e) < 0)
		return -1;
	snprintf(sum, sizeof(sum), "%06o", portable_header_sum(&h));
	if (strncmp(h.name, name, sizeof(h.name)) != 0 || h.type != '0' ||
	    memcmp(h.magic, "ustar", 6) != 0 || memcmp(h.sum, sum, 7) != 0 ||
	    get_size(h.size, ret_size) < 0)
		return err_set(
			e, ERR_CORRUPT,
			"this is no file of berth checkpoint export: no %s where it should be",
			name);
	return 0;
}

static int are_all_zeros(const char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n && !p[i]; i++)
		;
	return i == n;
}

static int skip_padding(int fd, uint64_t size, struct err *e)
{
	char padding[BLOCK];
	const size_t n = (BLOCK - size % BLOCK) % BLOCK;

	return n ? read_portable_bytes(fd, padding, n, e) : 0;
}

static int check_manifest(const json_t *m, uint64_t layer_size, struct err *e)
{
	const json_t *layer = json_object_get(m, "layer"), *spec = json_object_get(m, "spec");
	const char *digest = json_string_value(json_object_get(layer, "digest"));

	if (json_integer_value(json_object_get(m, "berth-checkpoint")) > PORTABLE_FORMAT)
		return err_set(e, ERR_UNSUPPORTED,
			       "the checkpoint's file is of a newer berth; hint: a newer berth");
	if (json_integer_value(json_object_get(m, "berth-checkpoint")) != PORTABLE_FORMAT ||
	    !digest || !digest_is_valid(digest) || !json_is_object(spec) ||
	    !json_is_string(json_object_get(m, "image")) ||
	    !json_is_array(json_object_get(spec, "options")) ||
	    json_array_size(json_object_get(spec, "options")) > OPTIONS_MAX)
		return err_set(e, ERR_CORRUPT, MANIFEST " is damaged");
	if (json_integer_value(json_object_get(layer, "size")) < 0 ||
	    (uint64_t)json_integer_value(json_object_get(layer, "size")) != layer_size)
		return err_set(e, ERR_CORRUPT, LAYER " is not of the size that " MANIFEST " says");
	return 0;
}

json_t *portable_read(int in_fd, struct err *e)
{
	autojson json_t *m = NULL;
	autofree char *text = NULL;
	uint64_t n, layer_size;

	if (get_header(in_fd, MANIFEST, &n, e) < 0)
		return NULL;
	if (n > MANIFEST_MAX) {
		err_set(e, ERR_LIMIT, MANIFEST " has more than %u bytes", MANIFEST_MAX);
		return NULL;
	}
	text = malloc(n + 1);
	if (!text) {
		err_nomem(e);
		return NULL;
	}
	if (read_portable_bytes(in_fd, text, n, e) < 0 || skip_padding(in_fd, n, e) < 0)
		return NULL;
	m = json_parse(text, n, MANIFEST_MAX, MANIFEST, e);
	if (!m || get_header(in_fd, LAYER, &layer_size, e) < 0 ||
	    check_manifest(m, layer_size, e) < 0)
		return NULL;
	return take_ptr(&m);
}

/* The rest of the file, which tar fills up with zeros to a record. */
static int read_zeros(int in_fd, struct err *e)
{
	char block[4096];
	uint64_t n = 0;
	ssize_t got;

	while ((got = read(in_fd, block, sizeof(block))) != 0) {
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_sys(e, "read the checkpoint's file");
		n += (uint64_t)got;
		if (n > RECORD_MAX || !are_all_zeros(block, (size_t)got))
			return err_set(e, ERR_CORRUPT,
				       "the checkpoint's file has more in it than a layer");
	}
	return 0;
}

int portable_read_end(int in_fd, uint64_t layer_size, struct err *e)
{
	char block[2 * BLOCK];

	if (skip_padding(in_fd, layer_size, e) < 0 || read_portable_bytes(in_fd, block, sizeof(block), e) < 0)
		return -1;
	if (!are_all_zeros(block, sizeof(block)))
		return err_set(e, ERR_CORRUPT, "the checkpoint's file has more in it than a layer");
	return read_zeros(in_fd, e);
}

/* ---- what it may ask for ---- */

/* Upholds S49 of SECURITY.md. */

/* NAME without a value is a variable of the process that starts the sandbox. */
static int is_callers_variable(const char *name, const char *value)
{
	return !strcmp(name, "env") && (!value || !strchr(value, '='));
}

/* Labels of this prefix say which part of berth made a sandbox, and berth prune obeys them. */
static int is_own_label(const char *value)
{
	return value && strncmp(value, "berth.", 6) != 0;
}

static int is_harmless(const char *name, const char *value)
{
	const struct param *p = param_named(name);

	if (!strcmp(name, "network"))
		return value && !strcmp(value, "none");
	if (!strcmp(name, "env"))
		return !is_callers_variable(name, value);
	if (!strcmp(name, "label"))
		return is_own_label(value);
	if (!strcmp(name, "seccomp"))
		return value && (!strcmp(value, "strict") || !strcmp(value, "standard"));
	return p && p->rights & PARAM_BY_IMPORT;
}

static int check_trusted(const struct portablespec_rules *how, const char *name, const char *value,
			 struct err *e)
{
	autojson json_t *text = value ? json_string(value) : NULL;

	if (is_callers_variable(name, value)) {
		err_set(e, ERR_DENIED,
			"the checkpoint's file asks for a variable of its importer, --env %.40s",
			value ? value : "");
		return err_hint(e, "--drop leaves it out");
	}
	if (!how->tenant)
		return 0;
	if (!strcmp(name, "label") && !is_own_label(value))
		return err_set(e, ERR_DENIED, "a label berth.* of a checkpoint's file needs an "
					      "admin token");
	return tenantopts_check(name, text, e);
}

static int check_portable_option(const struct portablespec_rules *how, const char *name, const char *value,
				 struct err *e)
{
	if (how->trust || is_callers_variable(name, value) || is_harmless(name, value))
		return check_trusted(how, name, value, e);
	return err_set(e, ERR_DENIED,
		       "the checkpoint's file asks for --%.40s, by which a sandbox may reach this "
		       "host or its networks; hint: --trust takes all that it asks for, --drop "
		       "leaves such options out",
		       name);
}

static int note_dropped(json_t *dropped, const char *name, struct err *e)
{
	const json_t *one;
	size_t i;

	json_array_foreach (dropped, i, one)
		if (!strcmp(json_string_value(one), name))
			return 0;
	return json_array_append_new(dropped, json_string(name)) < 0 ? err_nomem(e) : 0;
}

static int take_option(const json_t *pair, json_t *to, const struct portablespec_rules *how,
		       json_t *dropped, struct err *e)
{
	const json_t *v = json_array_get(pair, 1);
	const char *name = json_string_value(json_array_get(pair, 0));
	const char *value = json_string_value(v);

	if (!name || (v && !value && !json_is_null(v)))
		return err_set(e, ERR_CORRUPT, "an option in checkpoint.json is damaged");
	/* nobody asked for the new sandbox with the key of the first */
	if (!strcmp(name, "mark") && label_is_request(value))
		return 0;
	if (check_portable_option(how, name, value, e) < 0)
		return how->drop && e->code == ERR_DENIED ? note_dropped(dropped, name, e) : -1;
	return json_array_append(to, (json_t *)(size_t)pair) < 0 ? err_nomem(e) : 0;
}

/* A profile's text: 1 if it is taken, 0 if it is left out. */
static int takes_profile(const struct portablespec_rules *how, json_t *dropped, struct err *e)
{
	if (check_portable_option(how, "seccomp", "a profile", e) == 0)
		return 1;
	return how->drop && e->code == ERR_DENIED ? note_dropped(dropped, "seccomp", e) : -1;
}

json_t *portablespec_take(const json_t *manifest, const struct portablespec_rules *how,
			  json_t *dropped, struct err *e)
{
	const json_t *spec = json_object_get(manifest, "spec");
	json_t *seccomp = json_object_get(spec, "seccomp"), *pair, *ret;
	const json_t *command = json_object_get(spec, "command");
	autojson json_t *options = json_array();
	size_t i;

	json_array_foreach (json_object_get(spec, "options"), i, pair)
		if (take_option(pair, options, how, dropped, e) < 0)
			return NULL;
	if (seccomp) {
		const int taken = takes_profile(how, dropped, e);

		if (taken < 0)
			return NULL;
		if (!taken)
			seccomp = NULL;
	}
	ret = json_pack("{s:i,s:O,s:O,s:O*,s:O*}", "version", REGISTRY_FORMAT, "image",
			json_object_get(manifest, "image"), "options", options, "seccomp", seccomp,
			"command", command);
	if (!ret)
		err_nomem(e);
	return ret;
}

/* A tenant's network has the tenant's name behind its own. */
static json_t *plain_network(const json_t *pair)
{
	const char *value = json_string_value(json_array_get(pair, 1));

	return json_pack("[s,s%]", "network", value, strcspn(value, "@"));
}

json_t *portablespec_for_tenant(const json_t *spec, struct err *e)
{
	json_t *ret = json_copy((json_t *)(size_t)spec), *kept = json_array(), *pair;
	struct err ignored;
	size_t i;

	json_array_foreach (json_object_get(spec, "options"), i, pair) {
		const char *name = json_string_value(json_array_get(pair, 0));
		autojson json_t *own = name && !strcmp(name, "network") ? plain_network(pair) :
									   json_incref(pair);

		if (name && tenantopts_check(name, json_array_get(own, 1), &ignored) == 0)
			json_array_append(kept, own);
	}
	json_object_del(ret, "seccomp");
	if (json_object_set_new(ret, "options", kept) == 0)
		return ret;
	json_decref(ret);
	err_nomem(e);
	return NULL;
}
