/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/build.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/program.h"
#include "cli/image/buildroom.h"
#include "cli/image/heredoc.h"
#include "cli/live/resident.h"
#include "manager/host/labels.h"
#include "manager/host/procid.h"
#include "manager/host/record.h"
#include "manager/keeper/protocol.h"
#include "rootfs/store/oci.h"
#include "runtime/kernel/userns.h"

#define BUILDAH "/usr/bin/buildah"
#define ARGS_MAX 300
#define LINE_BYTES 8192
#define MARK_BYTES 400
#define LOOK_MS 1000 /* how late a signal may be seen */

int build_add_tag(struct build *b, const char *name, struct err *e)
{
	return json_array_append_new(b->tags, json_string(name)) < 0 ?
		       err_set(e, ERR_INVALID, "the name is not UTF-8") :
		       0;
}

int build_add_word(struct build *b, const char *option, const char *value, struct err *e)
{
	if (json_array_size(b->words) > ARGS_MAX / 2)
		return err_set(e, ERR_LIMIT, "more than %d options of a build", ARGS_MAX / 4);
	return json_array_append_new(b->words, json_string(option)) < 0 ||
			       json_array_append_new(b->words, json_string(value)) < 0 ?
		       err_set(e, ERR_INVALID, "the value is not valid UTF-8") :
		       0;
}

int build_add_limit(struct build *b, const char *name, const char *value, struct err *e)
{
	return json_array_append_new(b->limits, json_pack("[s,s]", name, value)) < 0 ? err_set(e, ERR_INVALID, "the value is not valid UTF-8") : 0;
}

/* ---- its sandbox and its volume ------------------------------------------------------------ */

static json_t *sandbox_spec(const struct build *b, struct err *e)
{
	const uint64_t memory = b->memory_bytes ? b->memory_bytes : b->ref.config.build_memory_bytes;
	autojson json_t *spec = NULL;
	char owner[PROCID_SIZE], text[16], bytes[24];

	snprintf(text, sizeof(text), "%d", (int)getpid());
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)memory);
	if (procid_parse(text, owner, e) < 0)
		return NULL;
	spec = json_pack("{s:i,s:s,s:[[s,s],[s,s],[s,s],[s,s],[s,s],[s,s]]}", "version",
			 REGISTRY_FORMAT, "image", "host", "options", "owner-pid", owner,
			 "owner-grace", "0", "auto-remove", "", "idle-timeout", "0", "memory", bytes,
			 "network", b->network);
	if (!spec || json_array_extend(json_object_get(spec, "options"), b->limits) < 0)
		return err_nomem(e), NULL;
	return json_incref(spec);
}

/* A cgroup for the build in that of its sandbox: all of a build shares the sandbox's limits. */
static int enter_sandbox(struct build *b, struct err *e)
{
	static const struct cgroup_limits none = {
		.memory_bytes = CGROUP_UNLIMITED, .swap_bytes = CGROUP_UNLIMITED,
		.cpu_milli = CGROUP_UNLIMITED, .pids = CGROUP_UNLIMITED,
	};

	if (cgroup_open(&b->cgroup, b->ref.config.cgroup_parent, b->ref.id, e) < 0 ||
	    cgroup_create_leaf(&b->leaf, &b->cgroup, "build", &none, b->id_base, e) < 0)
		return -1;
	return 0;
}

static int learn_sandbox(struct build *b, struct err *e)
{
	autojson json_t *rq = protocol_request(OP_layers), *answer = NULL, *record = NULL;
	char path[100];
	int fd = -1;

	request_set_index(rq, 0);
	b->ref.sock = keeper_connect(&b->ref.registry, b->ref.id, e);
	answer = b->ref.sock < 0 ? NULL : keeper_call(b->ref.sock, rq, NULL, 0, &fd, e);
	fd_close(&fd);
	if (!answer ||
	    record_read(b->ref.registry.sandboxes_fd, b->ref.id, &record, e) < 1)
		return answer ? err_set(e, ERR_BUSY, "the sandbox of the build has ended") : -1;
	b->id_base = (uint32_t)json_integer_value(json_object_get(answer, "id_base"));
	snprintf(path, sizeof(path), "/proc/%lld/ns/net",
		 (long long)json_integer_value(json_object_get(record, "init_pid")));
	b->net_fd = open(path, O_RDONLY | O_CLOEXEC);
	return b->net_fd < 0 ? err_sys(e, "open the network of the build's sandbox") : enter_sandbox(b, e);
}

static int make_build_sandbox(struct build *b, struct err *e)
{
	autojson json_t *spec = sandbox_spec(b, e);

	if (!spec)
		return -1;
	if (resident_create(&b->ref.registry, &(struct resident_whose){"", "", 0}, spec, b->ref.id,
			    e) < 0)
		return err_wrap(e, "the sandbox of a build");
	return learn_sandbox(b, e);
}

/*
 * What tells it from other builds before its Dockerfile is read: the directory and the names of its
 * image without the tag, which may be another each time.  At most MARK_BYTES of each: one that is like another's costs steps alone.
 */
static json_t *build_marks(const struct build *b)
{
	json_t *marks = json_array();
	const json_t *one;
	char path[PATH_MAX];
	size_t i;

	if (strcmp(b->context, "-") != 0 && realpath(b->context, path))
		json_array_append_new(marks, json_sprintf("context %.*s", MARK_BYTES, path));
	json_array_foreach (b->tags, i, one) {
		const char *name = json_string_value(one), *slash = strrchr(name, '/');
		const char *last = slash ? slash + 1 : name;
		const size_t n = (size_t)(last - name) + strcspn(last, ":@");

		json_array_append_new(marks, json_sprintf("name %.*s", n < MARK_BYTES ? (int)n : MARK_BYTES, name));
	}
	return marks;
}

static int make_build_volume(struct build *b, struct err *e)
{
	autojson json_t *marks = build_marks(b);
	autojson json_t *labels = NULL;
	char owner[PROCID_SIZE], text[16];
	unsigned cleared;
	struct err ignored;
	int got;

	volume_gc(&b->ref.registry, &cleared, &ignored);
	/* a disk of its own has a size of its own */
	got = b->disk_bytes ? 0 : buildcache_take(&b->ref.registry, "", marks, &b->kept, e);
	if (got != 0) {
		b->volume = b->kept.volume;
		snprintf(b->volume_name, sizeof(b->volume_name), "%s", b->kept.name);
		return got < 0 ? -1 : 0;
	}
	b->owner = b->id_base;
	snprintf(text, sizeof(text), "%d", (int)getpid());
	if (procid_parse(text, owner, e) < 0)
		return -1;
	labels = json_pack("{s:s}", LABEL_BUILD, owner);
	snprintf(b->volume_name, sizeof(b->volume_name), VOLUME_OF_BUILD "%.30s", b->ref.id);
	return volume_open(&b->ref.registry,
			   &(struct volume_wish){.name = b->volume_name,
						 .tenant = "",
						 .labels = labels,
						 .size_bytes = b->disk_bytes ? b->disk_bytes : b->ref.config.build_disk_bytes},
			   NULL, NULL, &b->volume, e);
}

static void take_down_build(struct build *b)
{
	struct err ignored;

	cgroup_release(&b->leaf);
	cgroup_release(&b->cgroup);
	if (b->kept.lock_fd >= 0)
		buildcache_give(&b->ref.registry, &b->kept, b->in_order);
	else
		volume_close(&b->volume);
	if (b->volume_name[0] && b->owner)
		volume_remove(&b->ref.registry, b->volume_name, &ignored);
	fd_close(&b->ref.sock);
	if (b->ref.id[0])
		resident_stop(&b->ref.registry, b->ref.id, &(struct stop_request){0}, &ignored);
}

/* ---- buildah -----------------------------------------------------------------------------------
 */

/*
 * Its images are laid ready, then it builds, then the layers that it made go into an image without
 * those of the bases.  Names of images are those of one build; between builds a base has one by its
 * digest, and steps have none.
 */
static const char script[] =
	"G=\"--root $PWD/storage --runroot $PWD/runroot --storage-driver overlay\"\n"
	"P=\"--signature-policy $PWD/policy.json\"\n"
	"if [ -n \"$CUT\" ]; then buildah $G rm --all >/dev/null 2>&1; fi\n"
	"while read -r file kept name; do\n"
	" [ \"$file\" != - ] || continue\n"
	" id=$(buildah $G pull -q $P --policy=always \"oci-archive:$PWD/$file\") || exit\n"
	" buildah $G tag \"$id\" \"$kept\" || exit\n"
	" rm -f \"$file\"\n"
	" CUT=names\n"
	"done < bases\n"
	/* those that archives give, and those of a build that was cut */
	"if [ -n \"$CUT\" ]; then\n"
	" buildah $G images --format '{{.Name}}:{{.Tag}}' 2>/dev/null | while read -r name; do\n"
	"  case $name in " BUILD_KEPT ":* | " BUILD_MADE " | *'<none>'*) ;; *) buildah $G rmi \"$name\" >/dev/null 2>&1 ;; esac\n"
	" done\n"
	"fi\n"
	"names=\n"
	"while read -r file kept name; do\n"
	" buildah $G tag \"$kept\" \"$name\" || exit\n"
	" names=\"$names $name\"\n"
	"done < bases\n"
	": > laid\n"
	"buildah $G bud $P --isolation oci --force-rm --pull=never --network host --format docker --identity-label=false"
	" -f Dockerfile -t " BUILD_MADE " \"$@\"\n"
	"status=$?\n"
	"[ -z \"$names\" ] || buildah $G rmi $names >/dev/null 2>&1\n"
	"[ $status = 0 ] || exit $status\n"
	"id=$(buildah $G inspect --type image -f '{{.FromImageID}}' " BUILD_MADE ") || exit\n"
	"mkdir -p out/blobs/sha256 " BUILD_IMAGE "\n"
	"while read -r layer; do : > out/blobs/sha256/$layer; done < layers\n"
	"buildah $G push -q $P --compression-level 1 --digestfile digest \"$id\" \"oci:$PWD/out:made\" || exit\n"
	"digest=$(cat digest)\n"
	"mv out/blobs/sha256 " BUILD_IMAGE "/blobs\n"
	"mv " BUILD_IMAGE "/blobs/${digest#sha256:} " BUILD_IMAGE "/layers.json\n"
	/* not that of the layout: it has lost what OCI has no word for, such as a health check */
	"for file in storage/overlay-images/$id/=*; do\n"
	" if [ \"$(sha256sum < \"$file\")\" = \"$id  -\" ]; then exec cp \"$file\" " BUILD_IMAGE "/config.json; fi\n"
	"done\n"
	"echo \"error: the configuration of the image is missing\"\n"
	"exit 1\n";

struct line {
	char text[LINE_BYTES];
	size_t n;
};

static int is_loud(const char *text)
{
	return !strncasecmp(text, "error", 5) || strstr(text, "level=error");
}

static void tell_build_line(struct build *b, struct line *l)
{
	char clean[LINE_BYTES];
	autojson json_t *j = NULL;
	autofree char *text = NULL;

	l->text[l->n] = '\0';
	l->n = 0;
	log_clean(clean, sizeof(clean), l->text, 0);
	if (clean[0] && (is_loud(clean) || !is_loud(b->last)))
		snprintf(b->last, sizeof(b->last), "%.390s", clean);
	b->full |= strcasestr(clean, "no space left on device") != NULL;
	if (b->quiet)
		return;
	if (!b->json) {
		fprintf(stderr, "%s\n", clean);
		return;
	}
	j = json_pack("{s:s,s:s}", "event", "line", "text", clean);
	text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	printf("%s\n", text ? text : "{\"event\":\"line\",\"text\":\"\"}");
	fflush(stdout);
}

static volatile sig_atomic_t interrupted;

static void note_build_signal(int signo)
{
	interrupted = signo;
}

static void take_build_output(struct build *b, struct line *l, const char *piece, ssize_t n)
{
	ssize_t i;

	for (i = 0; i < n && !interrupted; i++) {
		if (piece[i] != '\n')
			l->text[l->n++] = piece[i];
		if (piece[i] == '\n' || l->n == sizeof(l->text) - 1)
			tell_build_line(b, l);
	}
}

int build_wait(const struct build *b, struct pollfd *wait, struct err *e)
{
	for (;;) {
		const uint64_t now = clock_ms();
		int r;

		if (interrupted)
			return err_set(e, ERR_BUSY, "the build was ended by a signal");
		if (now >= b->end_ms)
			return err_set(e, ERR_TIMEOUT, "the build took longer than [build] time_limit");
		/* a signal may come just before poll() */
		r = poll(wait, 1, b->end_ms - now > LOOK_MS ? LOOK_MS : (int)(b->end_ms - now));
		if (r > 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return err_sys(e, "wait for a build");
	}
}

int build_await(const struct build *b, pid_t pid, int failed, int *ret_status, struct err *e)
{
	autoclose int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	int r;

	if (!failed && fd < 0)
		failed = err_sys(e, "watch a process of a build");
	if (!failed)
		failed = build_wait(b, &wait, e);
	if (failed)
		kill(pid, SIGKILL);
	while ((r = waitpid(pid, ret_status, 0)) < 0 && errno == EINTR)
		;
	return failed ? -1 : r < 0 ? err_sys(e, "wait for a process of a build") : 0;
}

/* To the end of what buildah writes; long lines come in pieces. */
static int relay_build_output(struct build *b, int fd, struct err *e)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	struct line l = {.n = 0};
	char piece[4096];
	ssize_t got = 1;
	int r = 0;

	while (got > 0 && (r = build_wait(b, &wait, e)) == 0)
		if ((got = read(fd, piece, sizeof(piece))) > 0)
			take_build_output(b, &l, piece, got);
	if (l.n)
		tell_build_line(b, &l);
	return r;
}

struct words {
	char *v[ARGS_MAX + 40];
	size_t n;
};

static void add_build_word(struct words *w, const char *text)
{
	char *copy = strdup(text);

	if (copy && w->n < ARRAY_LEN(w->v) - 1)
		w->v[w->n++] = copy;
	else
		free(copy);
}

static void add_build_text(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add_build_text(struct words *w, const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (text)
		add_build_word(w, text);
	free(text);
}

static void words_release(struct words *w)
{
	while (w->n)
		free(w->v[--w->n]);
}

/* berth-oci beside this program. */
static int runtime_path(char *ret, size_t size, struct err *e)
{
	autoclose int fd = program_open("berth-oci", e);
	char link[64];
	ssize_t n;

	if (fd < 0)
		return -1;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, ret, size - 1);
	if (n < 0)
		return err_sys(e, "find berth-oci");
	ret[n] = '\0';
	return 0;
}

static void make_buildah_words(const struct build *b, struct words *w)
{
	char target[256];
	const json_t *one;
	size_t i;

	add_build_word(w, "sh"), add_build_word(w, "-c"), add_build_word(w, script), add_build_word(w, "sh");
	add_build_word(w, "--runtime=" BUILDROOM_PROGRAMS "/berth-oci");
	add_build_word(w, "--runtime-flag=build-step");
	add_build_word(w, "--runtime-flag=root=" BUILDROOM_PLACE "/oci");
	add_build_word(w, "--runtime-flag=log=" BUILDROOM_PLACE "/oci.log");
	if (b->target) {
		snprintf(target, sizeof(target), "%s", b->target);
		for (i = 0; target[i]; i++)
			target[i] = (char)tolower((unsigned char)target[i]);
		add_build_text(w, "--target=%s", target);
	}
	if (!strcmp(b->context, "-"))
		add_build_word(w, "--ignorefile=" BUILDROOM_PLACE "/" BUILD_IGNORE);
	if (b->omits_history)
		add_build_word(w, "--omit-history");
	add_build_word(w, b->omits_history ? "--layers=false" : "--layers=true");
	if (b->no_cache)
		add_build_word(w, "--no-cache");
	if (b->has_heredocs)
		add_build_word(w, "--build-context=" HEREDOC_CONTEXT "=" BUILDROOM_PLACE "/" BUILD_HEREDOCS);
	json_array_foreach ((json_t *)(size_t)b->words, i, one)
		add_build_word(w, json_string_value(one));
	add_build_word(w, "--"), add_build_word(w, BUILDROOM_PLACE "/context");
}

static void make_buildah_env(const struct build *b, struct words *w)
{
	add_build_word(w, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	add_build_word(w, "LANG=C.UTF-8");
	add_build_word(w, "HOME=" BUILDROOM_PLACE);
	add_build_word(w, "TMPDIR=" BUILDROOM_PLACE "/tmp");
	add_build_word(w, "XDG_RUNTIME_DIR=" BUILDROOM_PLACE "/tmp");
	add_build_word(w, "CONTAINERS_REGISTRIES_CONF=" BUILDROOM_PLACE "/registries.conf");
	add_build_word(w, "CONTAINERS_STORAGE_CONF=" BUILDROOM_PLACE "/storage.conf");
	add_build_word(w, "CONTAINERS_CONF=/dev/null");
	add_build_text(w, "CUT=%s", b->kept.was_cut ? "1" : "");
}

static int judge_build_end(struct build *b, int status, struct err *e)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	err_set(e, ERR_INVALID, "the build failed: %.300s", b->last[0] ? b->last : "buildah said nothing");
	if (b->full)
		err_hint(e, "give it more with --disk, or raise [build] disk");
	return -1;
}

pid_t build_start(struct build *b, const struct buildroom_task *t, struct err *e)
{
	autofree char *place = realpath(b->ref.config.state_dir, NULL);
	struct volume again = VOLUME_INIT; /* a mount can be attached once */
	char runtime[PATH_MAX];
	autoclose int userns = idmapns_shift(b->id_base, BUILDROOM_IDS, e); /* each room limits its own */
	pid_t pid;

	if (userns < 0)
		return -1;
	if (!place)
		return err_sys(e, "find the state directory");
	if (runtime_path(runtime, sizeof(runtime), e) < 0 ||
	    volume_open(&b->ref.registry, &(struct volume_wish){.name = b->volume_name, .tenant = ""},
			NULL, NULL, &again, e) < 0)
		return -1;
	pid = buildroom_start(&(struct buildroom){.root_fd = again.root_fd,
						   .is_mount = again.is_mount,
						   .is_mapped = !b->owner,
						   .userns_fd = userns,
						   .net_fd = b->net_fd,
						   .context_fd = b->context_fd,
						   .hidden = place,
						   .programs = dirname(runtime),
						   .cgroup = &b->cgroup,
						   .leaf = &b->leaf},
			       t, e);
	volume_close(&again);
	return pid;
}

/* For the next build: what the script says of its bases is about the volume of its owner alone. */
static void note_kept_bases(struct build *b)
{
	const json_t *one;
	size_t i;

	if (b->kept.lock_fd < 0)
		return;
	if (!path_has(b->volume.root_fd, "laid")) {
		json_array_clear(b->kept.bases);
		return;
	}
	json_array_foreach (b->base_digests, i, one)
		if (!build_is_digest_in(b->kept.bases, json_string_value(one)))
			json_array_append(b->kept.bases, (json_t *)(size_t)one);
}

static int run_buildah(struct build *b, struct err *e)
{
	struct words words = {.n = 0}, env = {.n = 0};
	autoclose int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int p[2], status = 0, r = -1;
	pid_t pid;

	if (null < 0 || pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	make_buildah_env(b, &env);
	make_buildah_words(b, &words);

	const struct buildroom_task task = {.in_fd = null, .out_fd = p[1], .program = "/bin/sh", .argv = words.v, .env = env.v};

	pid = build_start(b, &task, e);
	fd_close(&p[1]);
	r = pid > 0 ? build_await(b, pid, relay_build_output(b, p[0], e), &status, e) : -1;
	b->in_order = r == 0;
	note_kept_bases(b);
	r = r == 0 ? judge_build_end(b, status, e) : -1;
	close(p[0]);
	words_release(&words);
	words_release(&env);
	return r;
}

/* ---- the image ---------------------------------------------------------------------------------
 */

/* A document beside the layers; buildah may have been taken over: a pipe would make us wait. */
static json_t *read_built_document(int dir, const char *name, struct err *e)
{
	autobuf struct buf text = BUF_INIT(OCI_MANIFEST_MAX);
	autoclose int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, ERR_CORRUPT, "buildah made no image"), NULL;
	if (io_read_all(fd, &text, name, e) < 0)
		return NULL;
	return json_parse(text.data ? text.data : "", text.len, OCI_MANIFEST_MAX, name, e);
}

/* manifest.json as docker save writes it, of the layers that buildah lists. */
static int write_image_list(int dir, struct err *e)
{
	autojson json_t *made = read_built_document(dir, "layers.json", e), *layers = json_array(), *list = NULL;
	autofree char *said = NULL;
	const json_t *one;
	size_t i;

	if (!made)
		return -1;
	json_array_foreach (json_object_get(made, "layers"), i, one) {
		const char *digest = json_string_value(json_object_get(one, "digest"));

		if (digest && !strncmp(digest, "sha256:", 7))
			json_array_append_new(layers, json_sprintf("blobs/%s", digest + 7));
	}
	list = json_pack("[{s:s,s:O}]", "Config", "config.json", "Layers", layers);
	said = list ? json_dumps(list, JSON_COMPACT) : NULL;
	return said ? io_replace_file(dir, "manifest.json", said, strlen(said), 0600, 0, e) : err_nomem(e);
}

/* Into the store, under a name that no other build has. */
static int load_built_image(struct build *b, char *ret_name, size_t size, struct err *e)
{
	char own[64];
	const char *argv[2 * (BUILD_BASES_MAX + BUILDCACHE_MADE) + 10] = {"berth", "image", "import", "--json", "--quiet", "--no-event"};
	autoclose int in = openat(b->volume.root_fd, BUILD_IMAGE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autoclose int out = memfd_create("loaded", MFD_CLOEXEC);
	autobuf struct buf text = BUF_INIT(1 << 20);
	autojson json_t *said = NULL;
	const json_t *first, *base;
	const char *name, *digest;
	size_t i, n = 6;

	snprintf(own, sizeof(own), "localhost/build-%.30s:1", b->ref.id);
	if (in < 0 || out < 0)
		return in < 0 ? err_set(e, ERR_CORRUPT, "buildah made no image") : err_sys(e, "make a file in memory");
	if (write_image_list(in, e) < 0)
		return -1;
	json_array_foreach (b->layers_of, i, base) {
		if (n + 5 > ARRAY_LEN(argv))
			break;
		argv[n++] = "--base";
		argv[n++] = json_string_value(base);
	}
	argv[n++] = "--";
	argv[n++] = "/proc/self/fd/0";
	argv[n++] = own;
	if (build_berth(argv, in, out, e) < 0 || lseek(out, 0, SEEK_SET) < 0 ||
	    io_read_all(out, &text, "berth's answer", e) < 0)
		return -1;
	said = json_parse(text.data ? text.data : "", text.len, 1 << 20, "berth's answer", e);
	first = json_array_get(json_object_get(said, "images"), 0);
	name = json_string_value(json_object_get(first, "name"));
	digest = json_string_value(json_object_get(first, "digest"));
	if (!name || !digest)
		return said ? err_set(e, ERR_CORRUPT, "buildah made no image") : -1;
	snprintf(ret_name, size, "%s", name);
	snprintf(b->digest, sizeof(b->digest), "%s", digest);
	if (b->kept.made && !build_is_digest_in(b->kept.made, digest))
		json_array_append_new(b->kept.made, json_string(digest));
	return 0;
}

static int name_image(struct build *b, const char *made, struct err *e)
{
	const char *tag[] = {"berth", "image", "tag", "--json", "--", made, NULL, NULL};
	const char *rm[] = {"berth", "image", "rm", "--json", "--no-event", "--", made, NULL};
	const char *colon = strchr(b->digest, ':');
	char own[40];
	json_t *one;
	size_t i;

	snprintf(own, sizeof(own), "build:%.12s", colon ? colon + 1 : b->digest);
	if (!json_array_size(b->tags) && build_add_tag(b, own, e) < 0)
		return -1;
	json_array_foreach (b->tags, i, one) {
		tag[6] = json_string_value(one);
		if (build_berth(tag, -1, -1, e) < 0)
			return -1;
	}
	return build_berth(rm, -1, -1, e);
}

static int run_build(struct build *b, struct err *e)
{
	char made[400];

	if (access(BUILDAH, X_OK) < 0)
		return err_set(e, ERR_UNSUPPORTED,
			       "%s is not there, which builds images: install the "
			       "package buildah",
			       BUILDAH);
	if (sandbox_ref_registry(&b->ref, e) < 0)
		return -1;
	b->end_ms = clock_ms() + b->ref.config.build_timeout_ms;
	if (make_build_sandbox(b, e) < 0 ||
	    make_build_volume(b, e) < 0 || build_take_context(b, e) < 0 || build_take_bases(b, e) < 0 || build_take_secrets(b, e) < 0 ||
	    build_write_settings(b, e) < 0)
		return -1;
	if (run_buildah(b, e) < 0)
		return -1;
	return load_built_image(b, made, sizeof(made), e) < 0 ? -1 : name_image(b, made, e);
}

int build_run(struct build *b, struct err *e)
{
	const struct sigaction a = {.sa_handler = note_build_signal}; /* no SA_RESTART: calls are to end */
	int r;

	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGINT, &a, NULL);
	sigaction(SIGTERM, &a, NULL);
	sigaction(SIGHUP, &a, NULL);
	r = run_build(b, e);
	take_down_build(b);
	return r;
}

void build_release(struct build *b)
{
	json_decref(b->tags);
	json_decref(b->words);
	json_decref(b->base_names);
	json_decref(b->layers_of);
	json_decref(b->base_digests);
	json_decref(b->limits);
	json_decref(b->secrets);
	fd_close(&b->net_fd);
	fd_close(&b->context_fd);
	buf_release(&b->dockerfile);
	sandbox_ref_close(&b->ref);
}
