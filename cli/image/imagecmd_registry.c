/* SPDX-License-Identifier: Apache-2.0 */
/* berth pull, push, login, logout, image copy. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/image/imagecmd.h"
#include "cli/image/pullview.h"
#include "manager/host/config.h"
#include "rootfs/registry/credential.h"
#include "rootfs/registry/push.h"

#define ERROR_FD 3	/* where `ensure` says why not, as a struct err */
#define TRANSPORT "docker://"

struct setup {
	struct config config;
	char docker_config[4096];
	struct remote_options remote;
};

/* The configuration, as rootfs/ wants it: it knows nothing of the manager's. */
static int set_up_transfer(struct setup *s, const struct imagecmd_args *a, struct err *e)
{
	const char *dir = secure_getenv("DOCKER_CONFIG"), *home = secure_getenv("HOME");
	struct config *c = &s->config;

	if (config_load(c, e) < 0)
		return -1;
	if (dir && *dir)
		snprintf(s->docker_config, sizeof(s->docker_config), "%.4000s/config.json", dir);
	else if (home && *home)
		snprintf(s->docker_config, sizeof(s->docker_config), "%.4000s/.docker/config.json", home);
	s->remote = (struct remote_options){
		.state_dir = c->state_dir, .docker_config = s->docker_config[0] ? s->docker_config : NULL,
		.mirrors = c->registry_mirrors, .insecure = c->registry_insecure, .realms = c->registry_realms,
		.ca_file = c->registry_ca_file, .all_insecure = imagecmd_flag(a, IMG_INSECURE),
		.parallel = (unsigned int)c->registry_parallel, .retries = (unsigned int)c->registry_retries,
		.stall_ms = c->registry_stall_ms, .deadline_ms = c->registry_deadline_ms,
		.upload_chunk = c->registry_upload_chunk,
	};
	return 0;
}

static struct pullview make_view(const struct imagecmd_args *a, const char *prog)
{
	return (struct pullview){
		.prog = prog,
		/* quietly it is one object, which comes at the end */
		.mode = imagecmd_flag(a, IMG_QUIET) ? PULLVIEW_QUIET :
			imagecmd_flag(a, IMG_JSON) ? PULLVIEW_JSON :
			isatty(STDERR_FILENO) ? PULLVIEW_BARS : PULLVIEW_QUIET,
	};
}

static int read_password(const struct imagecmd_args *a, struct buf *b, struct err *e);

/* --username and --password-stdin of a pull or push: for this one. */
struct once {
	struct buf password;
	struct remote_login login;
};

#define ONCE_INIT { .password = BUF_INIT(CREDENTIAL_SECRET_MAX) }

static void once_release(struct once *o)
{
	if (o->password.data)
		explicit_bzero(o->password.data, o->password.len);
	buf_release(&o->password);
}

static int registry_once_read(struct once *o, const struct imagecmd_args *a, struct setup *s, struct err *e)
{
	o->login.user = imagecmd_value(a, IMG_USERNAME);
	if (!o->login.user && !imagecmd_flag(a, IMG_PASSWORD_STDIN))
		return 0;
	if (!o->login.user || !imagecmd_flag(a, IMG_PASSWORD_STDIN))
		return err_set(e, ERR_USAGE, "--username and --password-stdin go together; hint: "
			       "berth login keeps both");
	if (read_password(a, &o->password, e) < 0)
		return -1;
	o->login.password = o->password.data;
	s->remote.login = &o->login;
	return 0;
}

/* ---- pull ---- */

/*
 * The operator names the images that a tenant may fetch. They are fetched without a password,
 * and unencrypted only if [registry] insecure says so.
 */
static int check_pull_allowed(const struct imagecmd_tenant *t, const struct imagecmd_args *a,
			      const char *ref, struct err *e)
{
	char name[REF_NAME_MAX + DIGEST_SIZE + 1];
	struct ref r;

	if (imagecmd_flag(a, IMG_INSECURE))
		return err_set(e, ERR_DENIED, "--insecure is not for a tenant");
	if (ref_parse(ref, &r, e) < 0)
		return -1;
	if (r.digest[0] && !r.tag[0])
		snprintf(name, sizeof(name), "%s@%s", r.repo, r.digest);
	else
		ref_name(&r, name);
	if (image_name_is_like(t->tenant.pull, name))
		return 0;
	return err_set(e, ERR_DENIED, "tenant %s may not pull %.200s; hint: [tenant] pull in "
		       "berth.toml", t->tenant.name, name);
}

static json_t *look_at_remote_image(int store_fd, const struct pull_options *o, struct err *e)
{
	(void)store_fd;
	return pull_look(o, e);
}

static json_t *pull(int store_fd, const struct imagecmd_args *a, const char *ref, const char *name, const char *prog,
		    struct err *e)
{
	autofree struct setup *s = calloc(1, sizeof(*s));
	autofree struct imagecmd_tenant *t = NULL;
	struct pull_options o;
	struct pullview view = make_view(a, prog);
	__attribute__((cleanup(once_release))) struct once once = ONCE_INIT;
	json_t *done;

	if (!s) {
		err_nomem(e);
		return NULL;
	}
	if (imagecmd_flag(a, IMG_DRY_RUN) && imagecmd_value(a, IMG_PLATFORM)) {
		err_set(e, ERR_USAGE, "--platform and --dry-run do not go together: a dry run "
				      "lists all platforms");
		return NULL;
	}
	if (set_up_transfer(s, a, e) < 0 || imagecmd_tenant(a, "pull", &t, e) < 0 ||
	    (t && check_pull_allowed(t, a, ref, e) < 0) || registry_once_read(&once, a, s, e) < 0)
		return NULL;
	s->remote.anonymous = t != NULL;
	o = (struct pull_options){
		.ref = ref, .name = name, .platform = imagecmd_value(a, IMG_PLATFORM),
		.remote = &s->remote,
		.maker = t ? &t->maker : NULL, .event = pullview_event, .ctx = &view,
	};
	done = (imagecmd_flag(a, IMG_DRY_RUN) ? look_at_remote_image : pull_run)(store_fd, &o, e);
	pullview_end(&view);
	return done;
}

/* moved: the key of the bytes that went over the network, and how that is called. */
static void print_transfer_done(const struct imagecmd_args *a, json_t *done, const char *moved, const char *word)
{
	char name[256], digest[DIGEST_SIZE + 8], size[24], bytes[24];

	if (imagecmd_flag(a, IMG_JSON)) {
		json_object_set_new(done, "event", json_string("done"));
		imagecmd_print_json(done);
		return;
	}
	imagecmd_text(done, "name", name, sizeof(name));
	imagecmd_text(done, "digest", digest, sizeof(digest));
	imagecmd_bytes(imagecmd_u64(done, "size"), size);
	imagecmd_bytes(imagecmd_u64(done, moved), bytes);
	if (imagecmd_flag(a, IMG_QUIET))
		puts(digest);
	else
		printf("%s  %s  %s  %s, %s %s\n", name, digest,
		       imagecmd_count(imagecmd_u64(done, "layers"), "layer", (char[40]){ "" }),
		       size, bytes, word);
}

static void print_look(const struct imagecmd_args *a, const json_t *seen)
{
	char name[REF_NAME_MAX + DIGEST_SIZE + 1], digest[DIGEST_SIZE + 8], os[40], arch[40];
	json_t *list = json_object_get(seen, "platforms"), *one;
	size_t i;

	if (imagecmd_flag(a, IMG_JSON)) {
		imagecmd_print_json(seen);
		return;
	}
	imagecmd_text(seen, "name", name, sizeof(name));
	imagecmd_text(seen, "digest", digest, sizeof(digest));
	if (imagecmd_flag(a, IMG_QUIET)) {
		puts(digest);
		return;
	}
	printf("%s  %s ", name, digest);
	json_array_foreach (list, i, one)
		printf("%s %s/%s", i ? "," : "", imagecmd_text(one, "os", os, sizeof(os)),
		       imagecmd_text(one, "architecture", arch, sizeof(arch)));
	putchar('\n');
}

static void tell_transfer(int store_fd, const struct imagecmd_args *a, const char *event, const json_t *done)
{
	const char *name = json_string_value(json_object_get(done, "name"));

	if (name)
		imagecmd_tell(store_fd, a, event, name);
}

static int run_pull(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	autojson json_t *done = pull(store_fd, a, a->operands[0], NULL, "berth pull", e);

	if (!done)
		return -1;
	if (imagecmd_flag(a, IMG_DRY_RUN)) {
		print_look(a, done);
		return 0;
	}
	tell_transfer(store_fd, a, "image-pull", done);
	print_transfer_done(a, done, "downloaded_bytes", "downloaded");
	return 0;
}

/* For `berth run` and `berth create`: nothing on stdout, the error to descriptor 3. */
static int run_ensure(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	autojson json_t *done = pull(store_fd, a, a->operands[0], NULL, "berth pull", e);

	if (done)
		tell_transfer(store_fd, a, "image-pull", done);
	else
		(void)!io_write_all(ERROR_FD, e, sizeof(*e));
	/* the caller prints it */
	_exit(done ? 0 : 1);
}

/* ---- push and copy ---- */

static int push_to_registry(int store_fd, const struct imagecmd_args *a, const char *image, const char *ref, const char *prog,
			    json_t *(*how)(int store_fd, const struct push_options *o, struct err *e), struct err *e)
{
	autofree struct setup *s = calloc(1, sizeof(*s));
	struct pullview view = make_view(a, prog);
	__attribute__((cleanup(once_release))) struct once once = ONCE_INIT;
	autojson json_t *done = NULL;

	if (!s)
		return err_nomem(e);
	if (set_up_transfer(s, a, e) < 0 || registry_once_read(&once, a, s, e) < 0)
		return -1;
	done = how(store_fd, &(struct push_options){ .image = image, .ref = ref, .platform = imagecmd_value(a, IMG_PLATFORM),
						     .all = imagecmd_flag(a, IMG_ALL), .remote = &s->remote,
						     .event = pullview_event, .ctx = &view }, e);
	pullview_end(&view);
	if (!done)
		return -1;
	tell_transfer(store_fd, a, "image-push", done);
	print_transfer_done(a, done, "sent_bytes", "sent");
	return 0;
}

static int run_push(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	const char *ref = a->operand_count > 1 ? a->operands[1] : a->operands[0];

	if (!strncmp(ref, TRANSPORT, strlen(TRANSPORT)))
		ref += strlen(TRANSPORT);
	return push_to_registry(store_fd, a, a->operands[0], ref, "berth push", push_run, e);
}

static int run_image_copy(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	const char *from = a->operands[0], *to = a->operands[1];
	int from_registry = !strncmp(from, TRANSPORT, strlen(TRANSPORT));
	int to_registry = !strncmp(to, TRANSPORT, strlen(TRANSPORT));
	autojson json_t *done = NULL;
	char name[256];

	from += from_registry ? strlen(TRANSPORT) : 0;
	to += to_registry ? strlen(TRANSPORT) : 0;
	if (imagecmd_flag(a, IMG_ALL) && !(from_registry && to_registry))
		return err_set(e, ERR_USAGE, "--all is for copies from registry to registry; hint: the store keeps one "
			       "platform of an image");
	if (from_registry && to_registry)
		return push_to_registry(store_fd, a, from, to, "berth image copy", copy_remote, e);
	if (to_registry)
		return push_to_registry(store_fd, a, from, to, "berth image copy", push_run, e);
	if (from_registry) {
		done = pull(store_fd, a, from, to, "berth image copy", e);
		if (done)
			print_transfer_done(a, done, "downloaded_bytes", "downloaded");
		return done ? 0 : -1;
	}
	done = copy_local(store_fd, from, to, e);
	if (!done)
		return -1;
	if (imagecmd_flag(a, IMG_JSON))
		imagecmd_print_json(done);
	else
		puts(imagecmd_text(done, imagecmd_flag(a, IMG_QUIET) ? "digest" : "name", name, sizeof(name)));
	return 0;
}

/* ---- login ---- */

#define KEY_CTRL(c) ((c) & 0x1f)

/* 1 when c ends the line, 0 when there is more, -1. */
static int take_key(struct buf *b, char c, int raw, struct err *e)
{
	if (c == '\n')
		return 1;
	if (raw && (c == KEY_CTRL('c') || c == KEY_CTRL('d')))
		return err_set(e, ERR_INVALID, "no password was given");
	if (raw && c == KEY_CTRL('u'))
		b->len = 0;
	else if (raw && (c == 0x7f || c == KEY_CTRL('h')))
		b->len -= b->len > 0;
	else if (buf_add(b, &c, 1, e) < 0)
		return -1;
	if (b->data)
		b->data[b->len] = '\0';
	return 0;
}

/*
 * One line, without echo when it is a secret.  Then the keys that would kill us
 * come as bytes, so that the terminal is never left mute.
 */
static int ask_for_credential(const char *prompt, int secret, struct buf *b, struct err *e)
{
	struct termios was, quiet;
	int done = 0;
	char c;
	ssize_t r;

	if (tcgetattr(STDIN_FILENO, &was) < 0)
		return err_sys(e, "read the terminal's settings");
	quiet = was;
	quiet.c_lflag &= ~(tcflag_t)(ECHO | ICANON | ISIG);
	/* before the prompt: typed characters must be neither shown nor flushed */
	if (secret && tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet) < 0)
		return err_sys(e, "turn the terminal's echo off");
	fputs(prompt, stderr);
	while (!done) {
		r = read(STDIN_FILENO, &c, 1);
		if (r < 0 && errno == EINTR)
			continue;
		done = r == 1 ? take_key(b, c, secret, e) : err_set(e, ERR_INVALID, "no answer to '%s'", prompt);
	}
	if (secret) {
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &was);
		fputc('\n', stderr);
	}
	return done < 0 ? -1 : 0;
}

static int read_password(const struct imagecmd_args *a, struct buf *b, struct err *e)
{
	if (isatty(STDIN_FILENO) && !imagecmd_flag(a, IMG_PASSWORD_STDIN))
		return ask_for_credential("Password: ", 1, b, e);
	if (io_read_all(STDIN_FILENO, b, "the password on stdin", e) < 0)
		return -1;
	while (b->len && (b->data[b->len - 1] == '\n' || b->data[b->len - 1] == '\r'))
		b->data[--b->len] = '\0';
	if (!b->len)
		return err_set(e, ERR_INVALID, "no password on stdin; hint: berth login --username USER --password-stdin "
			       "REGISTRY < FILE");
	return strlen(b->data) == b->len ? 0 : err_set(e, ERR_INVALID, "the password holds a NUL byte");
}

/* keep: else it is only tried. */
static int log_in_at_registry(struct setup *s, const struct remote_target *t, const char *user,
			      const char *password, int keep, struct err *e)
{
	struct remote r = REMOTE_INIT;
	const struct remote_target *targets[] = { t };
	struct remote_login login = { user, password };
	int rc = remote_open(&r, &s->remote, targets, 1, &login, e);

	if (!rc)
		rc = remote_ping(&r, t, e);
	remote_close(&r);
	if (rc < 0)
		return err_wrap(e, "log in to %s", t->registry);
	if (!keep)
		return 0;
	return authfile_store(s->config.state_dir, t->registry, user, password, NULL, e);
}

static void print_login(const struct imagecmd_args *a, const char *key, const struct remote_target *t, int yes)
{
	autojson json_t *j = json_pack("{s:s, s:b}", "registry", t->registry, key, yes);

	if (imagecmd_flag(a, IMG_JSON))
		imagecmd_print_json(j);
	else if (!imagecmd_flag(a, IMG_QUIET))
		printf("%s: %s\n", t->registry, !strcmp(key, "logged_in") ? "logged in" : yes ? "login removed" : "no login was stored");
}

static int run_login(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	autofree struct setup *s = calloc(1, sizeof(*s));
	autobuf struct buf user = BUF_INIT(256), password = BUF_INIT(CREDENTIAL_SECRET_MAX);
	const char *name = imagecmd_value(a, IMG_USERNAME);
	struct remote_target t;
	int rc;

	(void)store_fd;
	if (!s)
		return err_nomem(e);
	if (set_up_transfer(s, a, e) < 0 ||
	    remote_registry_target(a->operand_count ? a->operands[0] : "docker.io", &s->remote, &t, e) < 0)
		return -1;
	if (!name && (!isatty(STDIN_FILENO) || imagecmd_flag(a, IMG_PASSWORD_STDIN)))
		return err_set(e, ERR_USAGE, "no user name; hint: berth login --username USER --password-stdin %.100s", t.registry);
	if (!name) {
		if (ask_for_credential("Username: ", 0, &user, e) < 0)
			return -1;
		name = user.data ? user.data : "";
	}
	rc = read_password(a, &password, e);
	if (!rc)
		rc = log_in_at_registry(s, &t, name, password.data ? password.data : "",
			    !imagecmd_flag(a, IMG_DRY_RUN), e);
	if (password.data)
		explicit_bzero(password.data, password.len);
	if (!rc)
		print_login(a, "logged_in", &t, 1);
	return rc;
}

static int run_logout(int store_fd, const struct imagecmd_args *a, struct err *e)
{
	autofree struct setup *s = calloc(1, sizeof(*s));
	struct remote_target t;
	int had = 0;

	(void)store_fd;
	if (!s)
		return err_nomem(e);
	if (set_up_transfer(s, a, e) < 0 ||
	    remote_registry_target(a->operand_count ? a->operands[0] : "docker.io", &s->remote, &t, e) < 0 ||
	    authfile_store(s->config.state_dir, t.registry, NULL, NULL, &had, e) < 0)
		return -1;
	print_login(a, "logged_out", &t, had);
	return 0;
}

const struct imagecmd imagecmd_pull = {
	"pull", "REF", "fetch an image from a registry",
	"REF is NAME[:TAG][@DIGEST]; without a registry in it, one of Docker Hub.\n"
	"Layers are checked and unpacked while they arrive.\n\n"
	"  berth pull debian:12\n"
	"  berth pull registry.example/team/app@sha256:...\n",
	IMG(PLATFORM) | IMG(INSECURE) | IMG(USERNAME) | IMG(PASSWORD_STDIN) | IMG(TENANT) |
		IMG(DRY_RUN) | IMG(QUIET) | IMG(JSON), 1, 1, run_pull,
	.top = 1,
};

const struct imagecmd imagecmd_ensure = {
	"ensure", "REF", "fetch an image for a sandbox that wants it", NULL,
	IMG(PLATFORM) | IMG(INSECURE) | IMG(QUIET), 1, 1, run_ensure, .hidden = 1, .top = 1,
};

const struct imagecmd imagecmd_push = {
	"push", "IMAGE [REF]", "send an image to a registry",
	"IMAGE is one of the store; REF says where to, else its own name does.\n\n"
	"  berth push app registry.example/team/app:1.0\n",
	IMG(INSECURE) | IMG(USERNAME) | IMG(PASSWORD_STDIN) | IMG(QUIET) | IMG(JSON),
	1, 2, run_push, .top = 1,
};

const struct imagecmd imagecmd_copy = {
	"copy", "SOURCE TARGET", "copy an image between registries, the store and registries, or names",
	"docker://REF is in a registry; anything else is a name in the store.\n\n"
	"  berth image copy docker://debian:12 docker://registry.example/debian:12\n"
	"  berth image copy debian:12 base\n",
	IMG(PLATFORM) | IMG(ALL) | IMG(INSECURE) | IMG(QUIET) | IMG(JSON), 2, 2, run_image_copy,
};

const struct imagecmd imagecmd_login = {
	"login", "[REGISTRY]", "try and keep a user name and password for a registry",
	"REGISTRY is HOST[:PORT]; the default is docker.io.  The password is asked for,\n"
	"or read from stdin when that is not a terminal.\n",
	IMG(USERNAME) | IMG(PASSWORD_STDIN) | IMG(INSECURE) | IMG(DRY_RUN) | IMG(QUIET) | IMG(JSON),
	0, 1, run_login, .no_store = 1, .top = 1,
};

const struct imagecmd imagecmd_logout = {
	"logout", "[REGISTRY]", "forget the password for a registry", NULL,
	IMG(QUIET) | IMG(JSON), 0, 1, run_logout, .no_store = 1, .top = 1,
};
