/* SPDX-License-Identifier: Apache-2.0 */
/* What a build reads: its context, its Dockerfile, its base images; all of it into its volume. */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "cli/image/build.h"
#include "cli/image/buildroom.h"
#include "cli/image/heredoc.h"
#include "rootfs/store/catalog.h"
#include "rootfs/store/image.h"

/* ---- which images a Dockerfile names ---- */

/*
 * Which images the text of a Dockerfile may begin from.
 *
 * Pure, and no parser: buildah alone knows what an instruction means.  This only says which names
 * to lay ready; one too many costs time, one too few is an error of buildah's that names it.
 */


#define NAME_MAX_BYTES 400
#define BLANKS " \t"

struct names {
	json_t *list, *stages, *vars;
};

static int is_known(const json_t *list, const char *name)
{
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)list, i, one)
		if (!strcmp(json_string_value(one), name))
			return 1;
	return 0;
}

/* ---- variables ---------------------------------------------------------------------------- */

/* The value of a variable: the caller's, else the default of its ARG; NULL. */
static const char *build_arg_value(const struct names *l, const char *name, size_t n)
{
	char key[NAME_MAX_BYTES];

	snprintf(key, sizeof(key), "%.*s", (int)n, name);
	return json_string_value(json_object_get(l->vars, key));
}

/*
 * word with $NAME, ${NAME}, ${NAME:-WORD} and ${NAME:+WORD} replaced; 0 where that cannot be
 * done: buildah alone knows then.
 */
static int expand_build_args(const struct names *l, const char *word, size_t n, char ret[NAME_MAX_BYTES])
{
	const char *end = word + n;
	size_t used = 0;

	while (word < end) {
		const char *name = word + 1, *value, *other = NULL;
		size_t len, other_len = 0;
		int plus = 0;

		if (*word != '$') {
			value = word++;
			len = 1;
		} else {
			const int braced = name < end && *name == '{';

			name += braced;
			len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
			value = build_arg_value(l, name, len);
			word = name + len;
			if (braced && word + 1 < end && word[0] == ':' && (word[1] == '-' || word[1] == '+')) {
				plus = word[1] == '+';
				other = word + 2;
				other_len = strcspn(other, "}");
				word = other + other_len;
			}
			if (!len || word > end || (braced && (word == end || *word++ != '}')))
				return 0;
			len = value ? strlen(value) : 0;
			if (other && plus == (len > 0))
				value = other, len = other_len;
			else if (other && plus)
				value = "", len = 0;
			if (!value)
				return 0;
		}
		if (used + len >= NAME_MAX_BYTES)
			return 0;
		memcpy(ret + used, value, len);
		used += len;
	}
	ret[used] = '\0';
	return used > 0 && !strchr(ret, '$');
}

/* ARG NAME=DEFAULT, which a value of the caller's goes before. */
static void take_arg(struct names *l, const char *p, size_t n)
{
	char key[NAME_MAX_BYTES], value[NAME_MAX_BYTES];
	const char *equals = memchr(p, '=', n), *from;
	size_t len;

	if (!equals)
		return;
	from = equals + 1;
	len = n - (size_t)(from - p);
	if (len >= 2 && (*from == '"' || *from == '\'') && from[len - 1] == *from)
		from++, len -= 2;
	snprintf(key, sizeof(key), "%.*s", (int)(equals - p), p);
	if (!json_object_get(l->vars, key) && expand_build_args(l, from, len, value))
		json_object_set_new(l->vars, key, json_string(value));
}

/* ---- names -------------------------------------------------------------------------------- */

/* A word of n bytes, unless it is a stage's, by name or number, or nothing at all. */
static int add_base_name(struct names *l, const char *word, size_t n, struct err *e)
{
	char name[NAME_MAX_BYTES];

	if (!n || n >= sizeof(name) || !expand_build_args(l, word, n, name))
		return 0;
	if (!strcmp(name, HEREDOC_CONTEXT))
		return 0;
	if (!strcasecmp(name, "scratch") || !name[strspn(name, "0123456789")] || is_known(l->list, name) ||
	    is_known(l->stages, name))
		return 0;
	if (json_array_size(l->list) == BUILD_BASES_MAX)
		return err_set(e, ERR_LIMIT, "the Dockerfile names more than %d images",
			       BUILD_BASES_MAX);
	return json_array_append_new(l->list, json_string(name)) < 0 ?
		       err_set(e, ERR_INVALID, "the name of an image is not UTF-8") :
		       0;
}

static size_t word_of(const char *p)
{
	return strcspn(p, BLANKS "\r\n");
}

/* FROM [--platform=X] NAME [AS STAGE] */
static int take_base_of_from(struct names *l, const char *p, struct err *e)
{
	char stage[NAME_MAX_BYTES];
	const char *as;
	size_t n;

	p += strspn(p, BLANKS);
	while (!strncmp(p, "--", 2)) {
		p += word_of(p);
		p += strspn(p, BLANKS);
	}
	n = word_of(p);
	if (add_base_name(l, p, n, e) < 0)
		return -1;
	as = p + n + strspn(p + n, BLANKS);
	if (!strncasecmp(as, "AS", 2) && as[2] && strchr(BLANKS, as[2])) {
		as += 2 + strspn(as + 2, BLANKS);
		snprintf(stage, sizeof(stage), "%.*s", (int)word_of(as), as);
		json_array_append_new(l->stages, json_string(stage));
	}
	return 0;
}

/* --from=NAME of COPY, and from=NAME in --mount of RUN, of a line of n bytes. */
static int take_others(struct names *l, const char *line, size_t n, struct err *e)
{
	static const char word[] = "from=";
	const char *p = line;

	while ((p = memmem(p, n - (size_t)(p - line), word, strlen(word)))) {
		const int is_option = p > line && strchr("-,=", p[-1]);

		p += strlen(word);
		if (is_option && add_base_name(l, p, strcspn(p, BLANKS ",\r\n"), e) < 0)
			return -1;
	}
	return 0;
}

static int is_instruction(const char *word, const char *name)
{
	const size_t n = strlen(name);

	return !strncasecmp(word, name, n) && word[n] && strchr(BLANKS, word[n]);
}

static int take_dockerfile_line(struct names *l, const char *line, size_t n, struct err *e)
{
	const char *word = line + strspn(line, BLANKS);

	if (is_instruction(word, "FROM"))
		return take_base_of_from(l, word + 4, e);
	if (is_instruction(word, "ARG")) {
		word += 3 + strspn(word + 3, BLANKS);
		take_arg(l, word, word_of(word));
		return 0;
	}
	return *word == '#' ? 0 : take_others(l, line, n, e);
}

/*
 * The names of images behind FROM, in --from= and in from= of --mount, each once, at most
 * BUILD_BASES_MAX.  Variables have the values that the NAME=VALUE of args give them, else the
 * defaults of ARG; a name with another variable is left out.  A new array of strings, or NULL with e.
 */
static json_t *buildbase_named(const char *text, const json_t *args, struct err *e)
{
	autojson json_t *stages = json_array(), *vars = json_object(), *list = json_array();
	struct names l = {list, stages, vars};
	const char *p = text;
	const json_t *one;
	size_t line, i;
	int r = 0;

	if (!list || !stages || !vars)
		return err_nomem(e), NULL;
	json_array_foreach ((json_t *)(size_t)args, i, one) {
		const char *word = json_string_value(one), *equals = word ? strchr(word, '=') : NULL;
		char key[NAME_MAX_BYTES];

		if (!equals)
			continue;
		snprintf(key, sizeof(key), "%.*s", (int)(equals - word), word);
		json_object_set_new(vars, key, json_string(equals + 1));
	}
	for (; r == 0 && *p; p += line + (p[line] == '\n')) {
		line = strcspn(p, "\n");
		r = take_dockerfile_line(&l, p, line, e);
	}
	return r == 0 ? json_incref(list) : NULL;
}

/* The name with registry and tag, as buildah calls it. */
static void buildbase_whole(const char *name, char *ret, size_t size)
{
	const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
	size_t n = strcspn(name, "/");
	const char *hub = name[n] && (memchr(name, '.', n) || memchr(name, ':', n) ||
				      !strncmp(name, "localhost/", 10)) ?
				  "" :
			  name[n] ? "docker.io/" :
				    "docker.io/library/";

	snprintf(ret, size, "%s%s%s", hub, name, strpbrk(last, ":@") ? "" : ":latest");
}

/* ---- the files of a build ---- */

#define IGNORE_MAX (1u << 20)

#define ERRORS_MAX 65536
#define MAGIC_AT 257 /* of a tar archive, in its first block */
#define BLOCK 512

/* A name of the volume becomes the build's. */
static int hand_to_builder(const struct build *b, const char *name, struct err *e)
{
	return fchownat(b->volume.root_fd, name, b->owner, b->owner, AT_SYMLINK_NOFOLLOW) < 0 ?
		       err_sys(e, "give %s to the build", name) :
		       0;
}

static int put_build_file(const struct build *b, const char *name, const char *text, struct err *e)
{
	return io_replace_file(b->volume.root_fd, name, text, strlen(text), 0600, 0, e) < 0 ?
		       -1 :
		       hand_to_builder(b, name, e);
}

/* ---- berth itself ------------------------------------------------------------------------- */

static int spawn_with_fds(const char *const *argv, int in_fd, int out_fd, int err_fd, pid_t *ret,
			  struct err *e)
{
	posix_spawn_file_actions_t fa;
	int r;

	posix_spawn_file_actions_init(&fa);
	if (in_fd >= 0)
		posix_spawn_file_actions_adddup2(&fa, in_fd, 0);
	else
		posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	if (out_fd >= 0)
		posix_spawn_file_actions_adddup2(&fa, out_fd, 1);
	else
		posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&fa, err_fd, 2);
	r = posix_spawn(ret, "/proc/self/exe", &fa, NULL, (char *const *)(size_t)argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	return r ? err_start(e, r, "berth") : 0;
}

int build_berth(const char *const *argv, int in_fd, int out_fd, struct err *e)
{
	autobuf struct buf said = BUF_INIT(ERRORS_MAX);
	struct err ignored;
	int p[2], status = 0, r;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	r = spawn_with_fds(argv, in_fd, out_fd, p[1], &pid, e);
	close(p[1]);
	if (r == 0) {
		io_read_all(p[0], &said, "berth's errors", &ignored);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (status)
			r = json_take_error_line(said.data, "berth", e);
	}
	close(p[0]);
	return r;
}

/* ---- the context ---------------------------------------------------------------------------- */

/* How the archive is compressed: the option of tar(1) that says so; NULL: it is no archive. */
static const char *archive_option(const char *p, size_t n)
{
	static const struct {
		const char *magic;
		size_t n;
		const char *option;
	} kinds[] = {{"\x1f\x8b", 2, "--gzip"}, {"BZh", 3, "--bzip2"}, {"\xfd" "7zXZ", 5, "--xz"},
		     {"\x28\xb5\x2f\xfd", 4, "--zstd"}};
	size_t i;

	for (i = 0; i < ARRAY_LEN(kinds); i++)
		if (n >= kinds[i].n && !memcmp(p, kinds[i].magic, kinds[i].n))
			return kinds[i].option;
	return n == BLOCK && !memcmp(p + MAGIC_AT, "ustar", 5) ? "--no-auto-compress" : NULL;
}

/* A Dockerfile on stdin, whose first bytes are read. */
static int take_dockerfile_text(struct build *b, const char *first, size_t n, struct err *e)
{
	if (buf_add(&b->dockerfile, first, n, e) < 0)
		return -1;
	return n < BLOCK ? 0 :
			   io_read_all(STDIN_FILENO, &b->dockerfile, "the Dockerfile on stdin", e);
}

/* The archive, whose first bytes are read, to tar; a tar that has ended early says why itself. */
static int feed_archive(const struct build *b, int to, const char *first, size_t n, struct err *e)
{
	struct pollfd readable = {.fd = STDIN_FILENO, .events = POLLIN}, writable = {.fd = to, .events = POLLOUT};
	char piece[65536];
	size_t sent = 0;
	ssize_t got;

	if (fcntl(to, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "set up a pipe");
	memcpy(piece, first, n);
	for (;;) {
		if (build_wait(b, sent < n ? &writable : &readable, e) < 0)
			return -1;
		if (sent < n) {
			got = write(to, piece + sent, n - sent);
			if (got < 0 && errno != EAGAIN && errno != EINTR)
				return errno == EPIPE ? 0 : err_sys(e, "unpack the context");
			sent += got > 0 ? (size_t)got : 0;
			continue;
		}
		got = read(STDIN_FILENO, piece, sizeof(piece));
		if (got == 0)
			return 0;
		if (got < 0 && errno != EINTR && errno != EAGAIN)
			return err_sys(e, "read the context");
		n = got > 0 ? (size_t)got : 0;
		sent = 0;
	}
}

/* What tar wrote, the first line of it. */
static int unpack_failed(int said_fd, int status, struct err *e)
{
	char text[300] = "", *line;
	ssize_t n = pread(said_fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	line = strncmp(text, "tar: ", 5) ? text : text + 5;
	line[strcspn(line, "\n")] = '\0';
	if (strstr(text, "No space left"))
		return err_set(e, ERR_FULL, "the context: no space left on the disk of the build; hint: --disk, or raise [build] disk");
	return err_set(e, ERR_INVALID, "the context is not an archive that tar(1) reads: %.200s (status %d)",
		       line[0] ? line : "it said nothing", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/*
 * In the room of the build, because the archive is hostile.  Its owners are dropped, as docker
 * drops them: COPY gives its files to root.
 */
static int unpack_context(struct build *b, const char *option, const char *first, size_t n, struct err *e)
{
	char *const argv[] = {"tar", "-x", (char *)(size_t)option, "--no-same-owner", "-f", "-", "-C", BUILDROOM_PLACE "/context", NULL};
	char *const env[] = {"PATH=/usr/bin:/bin", "LANG=C.UTF-8", NULL};
	autoclose int said = memfd_create("tar", MFD_CLOEXEC);
	struct buildroom_task task = {.out_fd = said, .program = "/bin/tar", .argv = argv, .env = env};
	int p[2], status = 0, r;
	pid_t pid;

	if (said < 0 || pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	task.in_fd = p[0];
	pid = build_start(b, &task, e);
	close(p[0]);
	r = pid < 0 ? -1 : feed_archive(b, p[1], first, n, e);
	close(p[1]);
	if (pid > 0)
		r = build_await(b, pid, r, &status, e);
	return r == 0 && status ? unpack_failed(said, status, e) : r;
}

static int take_stdin(struct build *b, struct err *e)
{
	struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
	char first[BLOCK];
	const char *option;
	int got = 0;
	ssize_t n;

	for (;;) {
		if (build_wait(b, &wait, e) < 0)
			return -1;
		n = read(STDIN_FILENO, first + got, (size_t)(BLOCK - got));
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return err_sys(e, "read the context");
		got += n > 0 ? (int)n : 0;
		if (n == 0 || got == BLOCK)
			break;
	}
	option = archive_option(first, (size_t)got);
	return option ? unpack_context(b, option, first, (size_t)got, e) : take_dockerfile_text(b, first, (size_t)got, e);
}

/*
 * The caller's own path, which docker allows beside a directory: an absolute one, or one that
 * leads out of the context or is not in it.  Never with an archive, whose sender is not the caller
 * of this program.
 */
static int is_callers_mistake(const struct build *b, int open_errno)
{
	return strcmp(b->context, "-") != 0 && strcmp(b->file, "Dockerfile") != 0 &&
	       (b->file[0] == '/' || !strncmp(b->file, "../", 3) || open_errno == ENOENT);
}

/* A Dockerfile of the context that leads out of it would be shown, line by line, in errors. */
static int read_dockerfile(struct build *b, int dirfd, struct err *e)
{
	autoclose int fd = path_open_beneath(dirfd, b->file + (b->file[0] == '/'),
					     O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	struct stat st;

	if (!strcmp(b->file, "-"))
		return strcmp(b->context, "-") ?
			       io_read_all(STDIN_FILENO, &b->dockerfile, "the Dockerfile on stdin", e) :
			       err_set(e, ERR_USAGE, "standard input is the context or the Dockerfile, not both");
	if (is_callers_mistake(b, fd < 0 ? errno : 0)) {
		fd_close(&fd);
		fd = open(b->file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	}

	if (fd < 0 && errno == ENOENT && !strcmp(b->file, "Dockerfile"))
		fd = path_open_beneath(dirfd, "Containerfile", O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_code_sys(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_INVALID,
				    "Cannot locate specified Dockerfile: %.200s", b->file);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "the Dockerfile %.200s is not a file", b->file);
	return io_read_all(fd, &b->dockerfile, "the Dockerfile", e);
}

/* ---- .dockerignore of an archive ------------------------------------------------------------ */

/* Whether one pattern of a .dockerignore, of n bytes and without its "!", names a file of the top. */
static int pattern_names(const char *pattern, size_t n, const char *name)
{
	char text[300];
	const char *p = text;

	while (n && *pattern == '/')
		pattern++, n--;
	while (n && pattern[n - 1] == '/')
		n--;
	if (!n || n >= sizeof(text))
		return 0;
	memcpy(text, pattern, n);
	text[n] = '\0';
	while (!strncmp(p, "**/", 3))
		p += 3;
	return !strcmp(p, "**") || !fnmatch(p, name, FNM_PATHNAME);
}

/* The last pattern that names it decides. */
static int is_ignored(const char *patterns, const char *name)
{
	int ignored = 0;
	size_t n, len;

	for (; *patterns; patterns += n + (patterns[n] == '\n')) {
		const char *line = patterns;
		int out;

		n = strcspn(line, "\n");
		len = n;
		while (len && strchr(" \t\r", line[len - 1]))
			len--;
		while (len && strchr(" \t", *line))
			line++, len--;
		if (!len || *line == '#')
			continue;
		out = *line == '!';
		if (pattern_names(line + out, len - (size_t)out, name))
			ignored = !out;
	}
	return ignored;
}

/*
 * The sender of an archive has applied its .dockerignore, but for that file and the Dockerfile, which
 * the builder needs: as with dockerd these two, and no others, are left out where a pattern names them.
 */
static int put_ignored(const struct build *b, int dirfd, struct err *e)
{
	const char *const names[] = {".dockerignore", b->file};
	autobuf struct buf patterns = BUF_INIT(IGNORE_MAX), out = BUF_INIT(IGNORE_MAX);
	autoclose int fd = path_open_beneath(dirfd, ".dockerignore", O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	struct stat st;
	size_t i;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    (io_read_all(fd, &patterns, "the .dockerignore", e) < 0 || buf_add(&patterns, "", 1, e) < 0))
		return -1;
	for (i = 0; patterns.data && i < ARRAY_LEN(names); i++)
		if (!strpbrk(names[i], "*?[\\\n") && is_ignored(patterns.data, names[i]) &&
		    buf_addf(&out, e, "/%s\n", names[i]) < 0)
			return -1;
	return buf_add(&out, "", 1, e) < 0 ? -1 : put_build_file(b, BUILD_IGNORE, out.data, e);
}

/* A directory of the volume, which the build may write to. */
static int make_build_dir(const struct build *b, const char *name, struct err *e)
{
	if (mkdirat(b->volume.root_fd, name, 0700) < 0)
		return errno == EEXIST && b->kept.lock_fd >= 0 ? 0 : err_sys(e, "make the directory %s of a build", name);
	return hand_to_builder(b, name, e);
}

/* One file of a here-document, in the directory top_fd of them. */
static int put_heredoc(const struct build *b, int top_fd, const json_t *file, struct err *e)
{
	const json_t *text = json_object_get(file, "text");
	const char *name = json_string_value(json_object_get(file, "name"));
	const mode_t mode = (mode_t)json_integer_value(json_object_get(file, "mode"));
	autoclose int dir = -1, fd = -1;
	char number[16];

	snprintf(number, sizeof(number), "%d", (int)json_integer_value(json_object_get(file, "dir")));
	if (mkdirat(top_fd, number, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "make the directory of a here-document");
	dir = openat(top_fd, number, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	fd = dir < 0 ? -1 : openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, "write the here-document %.200s", name);
	if (io_write_all(fd, json_string_value(text), json_string_length(text)) < 0 || fchown(fd, b->owner, b->owner) < 0 || fchmod(fd, mode) < 0 ||
	    fchown(dir, b->owner, b->owner) < 0 || fchmod(dir, 0755) < 0)
		return err_sys(e, "write the here-document %.200s", name);
	return 0;
}

static int put_heredocs(struct build *b, const json_t *files, struct err *e)
{
	autoclose int top = -1;
	const json_t *one;
	size_t i;

	if (!json_array_size(files))
		return 0;
	if (make_build_dir(b, BUILD_HEREDOCS, e) < 0)
		return -1;
	top = openat(b->volume.root_fd, BUILD_HEREDOCS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (top < 0)
		return err_sys(e, "open the here-documents");
	json_array_foreach ((json_t *)(size_t)files, i, one)
		if (put_heredoc(b, top, one, e) < 0)
			return -1;
	b->has_heredocs = 1;
	return 0;
}

/* What buildah reads instead of what the caller wrote. */
static int take_instructions(struct build *b, struct err *e)
{
	struct buf out = BUF_INIT(4 * BUILD_DOCKERFILE_MAX);
	struct heredoc_reader h;
	int r = heredoc_reader_init(&h, b->words, e);

	if (r == 0)
		r = dockerfile_check(b->dockerfile.data, b->file, b->target, &h, &out, e);
	if (r == 0)
		r = buf_add(&out, "", 1, e);
	if (r == 0)
		r = put_heredocs(b, h.files, e);
	heredoc_reader_release(&h);
	buf_release(&b->dockerfile);
	b->dockerfile = out;
	return r;
}

int build_take_context(struct build *b, struct err *e)
{
	autoclose int dir = -1;

	if (fchown(b->volume.root_fd, b->owner, b->owner) < 0)
		return err_sys(e, "give the build its volume");
	if (make_build_dir(b, "context", e) < 0 || make_build_dir(b, "tmp", e) < 0)
		return -1;
	if (!strcmp(b->context, "-")) {
		if (take_stdin(b, e) < 0)
			return -1;
		dir = openat(b->volume.root_fd, "context", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	} else {
		dir = open(b->context, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (dir < 0)
		return err_code_sys(e, ERR_NOT_FOUND, "open the context %.200s", b->context);
	if (!b->dockerfile.len && read_dockerfile(b, dir, e) < 0)
		return -1;
	if (buf_add(&b->dockerfile, "", 1, e) < 0)
		return -1;
	if (strlen(b->dockerfile.data) + 1 != b->dockerfile.len)
		return err_set(e, ERR_INVALID, "the Dockerfile holds a NUL byte");
	if (take_instructions(b, e) < 0)
		return -1;
	if (strcmp(b->context, "-"))
		b->context_fd = take_fd(&dir);
	else if (put_ignored(b, dir, e) < 0)
		return -1;
	return put_build_file(b, "Dockerfile", b->dockerfile.data, e);
}

/* ---- base images ------------------------------------------------------------------------------
 */

int build_is_digest_in(const json_t *list, const char *digest)
{
	return list && is_known(list, digest);
}

static int save_base(struct build *b, const char *name, const char *file, struct err *e)
{
	const char *argv[] = {"berth", "image", "save", "--quiet", "--json", "--no-event", "--", name, NULL};
	autoclose int fd = openat(b->volume.root_fd, file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(e, "keep the base image %.200s", name);
	if (build_berth(argv, -1, fd, e) < 0)
		return err_wrap(e, "base image %.200s", name);
	return hand_to_builder(b, file, e);
}

/* The layers of an image, which need not come out of the room. */
static int list_layers(struct build *b, const json_t *image, struct buf *layers, struct err *e)
{
	const json_t *layer;
	size_t i;

	if (build_is_digest_in(b->layers_of, json_string_value(json_object_get(image, "digest"))))
		return 0;
	json_array_foreach (json_object_get(image, "layers"), i, layer) {
		const char *diff_id = json_string_value(json_object_get(layer, "diff_id"));

		if (diff_id && !strncmp(diff_id, "sha256:", 7) && buf_addf(layers, e, "%s\n", diff_id + 7) < 0)
			return -1;
	}
	return json_array_append(b->layers_of, json_object_get(image, "digest")) < 0 ? err_nomem(e) : 0;
}

/* A line of the list, and the image itself where the volume does not have it yet. */
static int lay_base(struct build *b, const json_t *image, struct buf *list, struct err *e)
{
	const char *name = json_string_value(json_object_get(image, "name")), *digest = json_string_value(json_object_get(image, "digest"));
	char file[32] = "-", whole[600];

	if (!digest || strncmp(digest, "sha256:", 7))
		return err_set(e, ERR_CORRUPT, "the image %.200s has no digest", name);
	if (!build_is_digest_in(b->kept.bases, digest) && !is_known(b->base_digests, digest)) {
		snprintf(file, sizeof(file), "base-%zu.tar", json_array_size(b->base_names));
		if (save_base(b, name, file, e) < 0)
			return -1;
	}
	if (json_array_append_new(b->base_names, json_string(name)) < 0 || json_array_append_new(b->base_digests, json_string(digest)) < 0)
		return err_nomem(e);
	buildbase_whole(name, whole, sizeof(whole));
	return buf_addf(list, e, "%s " BUILD_KEPT ":%.64s %s\n", file, digest + 7, whole);
}

/* Whether the history of an image has a step, and its time, for each of its layers. */
static int has_whole_history(const json_t *image)
{
	const json_t *history = json_object_get(json_object_get(image, "image_config"), "history"), *step;
	size_t i, layers = 0;

	json_array_foreach ((json_t *)(size_t)history, i, step) {
		if (!json_is_string(json_object_get(step, "created")))
			return 0;
		layers += !json_is_true(json_object_get(step, "empty_layer"));
	}
	return layers == json_array_size(json_object_get(image, "layers"));
}

/*
 * buildah 1.28 refuses its own image of a step or stage as the base of the next one where the history
 * of the first base lacks layers: then it keeps none.
 */
static int take_base(struct build *b, const json_t *image, struct buf *list, struct err *e)
{
	b->omits_history |= !has_whole_history(image);
	return lay_base(b, image, list, e);
}

static void fetch_bases(struct build *b, const json_t *named)
{
	struct err why;
	const json_t *one;
	size_t i;

	json_array_foreach ((json_t *)(size_t)named, i, one)
		if (imageuse_ensure(&b->ref.registry, json_string_value(one), b->pull, 1, &why) <
			    0 &&
		    !b->last[0])
			snprintf(b->last, sizeof(b->last), "%.390s", why.msg);
}

static int is_base_named(const json_t *named, const char *name)
{
	char whole[600], other[600];
	const json_t *one;
	size_t i;

	buildbase_whole(name, whole, sizeof(whole));
	json_array_foreach ((json_t *)(size_t)named, i, one) {
		buildbase_whole(json_string_value(one), other, sizeof(other));
		if (!strcmp(whole, other))
			return 1;
	}
	return 0;
}

int build_take_bases(struct build *b, struct err *e)
{
	autojson json_t *named = buildbase_named(b->dockerfile.data, b->words, e);
	autobuf struct buf list = BUF_INIT(1 << 16), layers = BUF_INIT(1 << 20);
	char path[sizeof(b->ref.config.state_dir) + 16];
	autoclose int store = -1;
	autojson json_t *images = NULL;
	json_t *one;
	size_t i;

	if (!named)
		return -1;
	fetch_bases(b, named);
	snprintf(path, sizeof(path), "%s/store", b->ref.config.state_dir);
	store = store_open(path, e);
	images = store < 0 ? NULL : catalog_list(store, 0, e);
	if (!images)
		return -1;
	json_array_foreach (images, i, one) {
		const char *name = json_string_value(json_object_get(one, "name")), *digest = json_string_value(json_object_get(one, "digest"));
		const int is_base = name && is_base_named(named, name);
		autojson json_t *image = NULL;

		if (!digest || (!is_base && !build_is_digest_in(b->kept.made, digest)))
			continue;
		image = catalog_inspect(store, name, e);
		if (!image || (is_base && take_base(b, image, &list, e) < 0) || list_layers(b, image, &layers, e) < 0)
			return -1;
	}
	if (put_build_file(b, "layers", layers.len ? layers.data : "", e) < 0)
		return -1;
	return put_build_file(b, "bases", list.len ? list.data : "", e);
}

/* ---- settings -----------------------------------------------------------------------------------
 */

int build_write_settings(struct build *b, struct err *e)
{
	static const char *const dirs[] = {"storage", "runroot", "oci"};
	static const char policy[] = "{\"default\":[{\"type\":\"insecureAcceptAnything\"}]}\n";
	static const char registries[] = "unqualified-search-registries = [\"docker.io\"]\n";
	size_t i;

	for (i = 0; i < ARRAY_LEN(dirs); i++)
		if (make_build_dir(b, dirs[i], e) < 0)
			return -1;
	if (put_build_file(b, "policy.json", policy, e) < 0 ||
	    put_build_file(b, "storage.conf", "[storage]\ndriver = \"overlay\"\n", e) < 0)
		return -1;
	return put_build_file(b, "registries.conf", registries, e);
}
