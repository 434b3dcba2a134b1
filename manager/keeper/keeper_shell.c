/* SPDX-License-Identifier: Apache-2.0 */
/* The shell of a session: its terminal or its pipes, its environment, its start and its end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "manager/keeper/keeper_session.h"
#include "manager/keeper/shellscript.h"

static int session_index(struct keeper *k, const struct keeper_session *s)
{
	return (int)(s - k->sessions);
}

void session_shell_close(struct keeper_session *s)
{
	if (s->split)
		fd_close(&s->tty_fd);
	if (s->err_fd >= 0)
		fd_close(&s->err_fd);
	fd_close(&s->out_fd);
	fd_close(&s->script_fd);
	fd_close(&s->status_fd);
	fd_close(&s->text_fd);
	s->tty_fd = -1;
}

/* Sets no echo, and newlines as they were written: the output is exactly the command's bytes. */
static int quiet_terminal(int slave, struct err *e)
{
	struct winsize w = { .ws_row = 24, .ws_col = 80 };
	struct termios t;

	if (tcgetattr(slave, &t) < 0)
		return err_sys(e, "read the terminal's settings");
	t.c_oflag &= (tcflag_t)~OPOST;
	t.c_lflag &= (tcflag_t) ~(ECHO | ECHOCTL);
	if (tcsetattr(slave, TCSANOW, &t) < 0 || ioctl(slave, TIOCSWINSZ, &w) < 0)
		return err_sys(e, "set up the terminal");
	return 0;
}

static int open_terminal(struct keeper *k, struct keeper_session *s, int std[3], struct err *e)
{
	if (sandbox_tty(&k->sandbox, &s->tty_fd, &std[0], e) < 0)
		return -1;
	std[1] = fcntl(std[0], F_DUPFD_CLOEXEC, 3);
	std[2] = fcntl(std[0], F_DUPFD_CLOEXEC, 3);
	s->out_fd = s->tty_fd;
	if (fcntl(s->tty_fd, F_SETFL, O_NONBLOCK) < 0)
		return err_sys(e, "set up the terminal");
	return quiet_terminal(std[0], e);
}

static int open_pipe(int *ret_ours, int *ret_theirs, int we_read, struct err *e)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	*ret_ours = p[!we_read];
	*ret_theirs = p[we_read];
	return fcntl(*ret_ours, F_SETFL, O_NONBLOCK) < 0 ? err_sys(e, "set up a pipe") : 0;
}

static int open_shell_pipes(const struct keeper *k, struct keeper_session *s, int std[3], struct err *e)
{
	if (open_pipe(&s->tty_fd, &std[0], 0, e) < 0 || open_pipe(&s->out_fd, &std[1], 1, e) < 0)
		return -1;
	return open_pipe(&s->err_fd, &std[2], 1, e) < 0 ? -1 : keeper_own_pipes(k, std, e);
}

static const char *const shell_env[] = {
	"PS1=", "PS2=", "PROMPT_COMMAND=", "HISTFILE=/dev/null", "TERM=dumb", "PAGER=cat", "GIT_PAGER=cat",
};

static int is_replaced_variable(const char *entry)
{
	static const char *const dropped[] = { "ENV=", "BASH_ENV=" };
	size_t i;

	for (i = 0; i < ARRAY_LEN(dropped); i++)
		if (!strncmp(entry, dropped[i], strlen(dropped[i])))
			return 1;	/* files a shell would read before our first line */
	for (i = 0; i < ARRAY_LEN(shell_env); i++)
		if (!strncmp(entry, shell_env[i], strcspn(shell_env[i], "=") + 1))
			return 1;
	return 0;
}

int session_shell_env(const struct keeper *k, const char ***ret, size_t *ret_count, struct err *e)
{
	const struct spec *spec = k->spec;
	const char **env = calloc(spec->env_count + ARRAY_LEN(shell_env) + 1, sizeof(*env));
	size_t i, n = 0;

	if (!env)
		return err_nomem(e);
	for (i = 0; i < spec->env_count; i++)
		if (!is_replaced_variable(spec->env[i]))
			env[n++] = spec->env[i];
	for (i = 0; i < ARRAY_LEN(shell_env); i++)
		env[n++] = shell_env[i];
	*ret = env;
	*ret_count = n;
	return 0;
}

static int exec_shell(struct keeper *k, struct keeper_session *s, struct keeper_command *c, const int std[3], int script,
		      int status, struct err *e)
{
	const struct spec *spec = k->spec;
	autofree const char **env = NULL;
	struct job job = {
		.user = spec->user, .workdir = spec->workdir, .rlimits = spec->rlimits, .leaf = &c->leaf,
		.flags = INIT_MAKE_CWD | INIT_SHELL | (s->split ? 0 : INIT_TTY), .script_fd = script, .status_fd = status,
	};

	if (session_shell_env(k, &env, &job.env_count, e) < 0)
		return -1;
	job.env = env;
	job.argv = shellscript_argv(!s->fallback, &job.argc);
	return sandbox_exec(&k->sandbox, c->seq, &job, std, e);
}

int session_shell_write(struct keeper_session *s, const char *text, struct err *e)
{
	if (io_write_all(s->script_fd, text, strlen(text)) < 0) {
		/* it could not be started (no bash here): init's answer, which is on its way, reports that */
		if (errno == EPIPE && !s->shell_ns_pid)
			return 0;
		return err_sys(e, "write to the shell of session %s", s->name);
	}
	return 0;
}

/* The name in its messages, in both streams. */
static void name_shell(struct keeper_session *s)
{
	char file[sizeof(MOUNTPLAN_CONTROL) + sizeof(s->name) + 1];
	int i;

	snprintf(file, sizeof(file), MOUNTPLAN_CONTROL "/%s", s->name);
	for (i = 0; i < 2; i++)
		shellname_init(&s->names[i], file, s->fallback ? "" : "bash: ");
}

int session_shell_start(struct keeper *k, struct keeper_session *s, struct err *e)
{
	struct keeper_command *c = keeper_command_new(k, 0, NULL, e);
	autoclose int script = -1, status = -1;
	int std[3] = { -1, -1, -1 }, i, r = -1;

	if (!c)
		return -1;
	c->session = session_index(k, s);
	cgroup_hold(&c->leaf);	/* each of its commands asks for its use */
	s->shell_seq = c->seq;
	s->shell_ns_pid = 0;
	s->tty_fd = s->out_fd = s->err_fd = s->script_fd = s->status_fd = s->text_fd = -1;
	s->status_len = 0;
	name_shell(s);
	if ((s->split ? open_shell_pipes(k, s, std, e) : open_terminal(k, s, std, e)) < 0 ||
	    open_pipe(&s->script_fd, &script, 0, e) < 0 || open_pipe(&s->status_fd, &status, 1, e) < 0)
		goto out;
	/* the shell opens it again by /proc/self/fd, as any user */
	if (fchmod(script, 0444) < 0) {
		err_sys(e, "set up the shell's script");
		goto out;
	}
	r = exec_shell(k, s, c, std, script, status, e);
	if (r == 0)
		r = session_shell_write(s, shellscript_first(!s->fallback), e);
	if (r == 0 && !s->split)
		r = session_shell_write(s, "set -m\n", e);
out:
	for (i = 0; i < 3; i++)
		fd_close(&std[i]);
	if (r < 0) {
		session_shell_close(s);
		s->shell_seq = 0;
		keeper_command_remove(k, c);
	}
	return r;
}
