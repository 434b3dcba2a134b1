/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/host/checkpoint_shells.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/path.h"

#define HEAD_MAX 1024
#define SCRIPT_MAX (1u << 20)
#define SUFFIX ".sh"

static void file_name(char out[120], const char *id, const char *name)
{
	snprintf(out, 120, CHECKPOINTS_DIR "/%.15s.%.64s" SUFFIX, id, name);
}

int checkpoint_shell_write(int box_fd, const char *id, const char *name,
			   const struct checkpoint_shell *s, const char *script, size_t n,
			   struct err *e)
{
	autojson json_t *head =
		json_pack("{s:i,s:b,s:b,s:b,s:b,s:i,s:s,s:s}", "version", 1, "bash", s->is_bash,
			  "split", s->split, "traps", s->traps, "traces", s->traces, "status",
			  (int)s->status, "tracing", s->tracing, "lost", s->lost);
	autofree char *line = head ? json_dumps(head, JSON_COMPACT) : NULL;
	autobuf struct buf b = BUF_INIT(SCRIPT_MAX + HEAD_MAX);
	autoclose int dir = -1;
	char file[120];

	if (!line)
		return err_nomem(e);
	if (buf_addf(&b, e, "#%s\n", line) < 0 || (n && buf_add(&b, script, n, e) < 0))
		return -1;
	file_name(file, id, name);
	dir = openat(box_fd, CHECKPOINTS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_sys(e, "open the checkpoints of the sandbox");
	/* cut short by a crash it is lost, and said to be */
	return io_replace_file(dir, strchr(file, '/') + 1, b.data, b.len, 0600, 0, e);
}

static int flag_of(const json_t *head, const char *key)
{
	return json_is_true(json_object_get(head, key));
}

static const char *text_of(const json_t *head, const char *key)
{
	const char *s = json_string_value(json_object_get(head, key));

	return s ? s : "";
}

static int read_head(const char *line, size_t n, struct checkpoint_shell *ret, struct err *e)
{
	autojson json_t *head = json_parse(line, n, HEAD_MAX, "the state of a session", e);
	struct checkpoint_shell s = { 0 };
	const char *tracing;

	if (!head || json_check_version(head, 1, "the state of a session", e) < 0)
		return -1;
	s.is_bash = flag_of(head, "bash");
	s.split = flag_of(head, "split");
	s.traps = flag_of(head, "traps");
	s.traces = flag_of(head, "traces");
	s.status = (unsigned)json_integer_value(json_object_get(head, "status")) & 0xff;
	tracing = text_of(head, "tracing");
	if (strlen(tracing) > 2 || tracing[strspn(tracing, "xv")])
		return err_set(e, ERR_CORRUPT, "the state of a session is damaged");
	snprintf(s.tracing, sizeof(s.tracing), "%s", tracing);
	snprintf(s.lost, sizeof(s.lost), "%s", text_of(head, "lost"));
	*ret = s;
	return 0;
}

int checkpoint_shell_read(int box_fd, const char *id, const char *name,
			  struct checkpoint_shell *ret, struct buf *script, struct err *e)
{
	autobuf struct buf b = BUF_INIT(SCRIPT_MAX + HEAD_MAX);
	const char *end;
	char file[120];

	file_name(file, id, name);
	if (io_read_file(box_fd, file, &b, e) < 0)
		return -1;
	end = b.len ? memchr(b.data, '\n', b.len) : NULL;
	if (!end || b.data[0] != '#')
		return err_set(e, ERR_CORRUPT, "the state of a session is damaged");
	if (read_head(b.data + 1, (size_t)(end - b.data - 1), ret, e) < 0)
		return -1;
	return script ? buf_add(script, end + 1, b.len - (size_t)(end + 1 - b.data), e) : 0;
}

struct walk {
	const char *id;
	int (*each)(void *ctx, const char *name);
	void *ctx;
};

static int visit(void *ctx, const char *file)
{
	const struct walk *w = ctx;
	const size_t id = strlen(w->id), n = strlen(file), suffix = strlen(SUFFIX);
	char name[65];

	if (strncmp(file, w->id, id) != 0 || file[id] != '.' || n <= id + 1 + suffix ||
	    n - id - 1 - suffix >= sizeof(name) || strcmp(file + n - suffix, SUFFIX) != 0)
		return 0;
	snprintf(name, sizeof(name), "%.*s", (int)(n - id - 1 - suffix), file + id + 1);
	return path_is_name(name) ? w->each(w->ctx, name) : 0;
}

int checkpoint_shells_each(int box_fd, const char *id, int (*each)(void *ctx, const char *name),
			   void *ctx, struct err *e)
{
	const struct walk w = { id, each, ctx };
	autoclose int dir =
		openat(box_fd, CHECKPOINTS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int failed = 0, result;

	if (dir < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open the checkpoints of the sandbox");
	result = path_each_entry(dir, visit, (void *)(size_t)&w, &failed);
	return failed ? err_sys(e, "read the checkpoints of the sandbox") : result;
}

int checkpoint_shells_due(int box_fd, char ret_id[CHECKPOINT_ID])
{
	autobuf struct buf b = BUF_INIT(CHECKPOINT_ID - 1);
	struct err ignored;

	if (io_read_file(box_fd, CHECKPOINT_SHELLS, &b, &ignored) < 0 || !b.len)
		return 0;
	snprintf(ret_id, CHECKPOINT_ID, "%.*s", (int)b.len, b.data);
	return 1;
}

int checkpoint_shells_begin(int dir_fd, const char *id, struct err *e)
{
	return io_replace_file(dir_fd, strchr(CHECKPOINT_SHELLS, '/') + 1, id, strlen(id), 0600, 0,
			       e);
}

void checkpoint_shells_done(int box_fd)
{
	unlinkat(box_fd, CHECKPOINT_SHELLS, 0);
}
