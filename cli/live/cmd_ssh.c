/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berth ssh, ssh-config, ssh-proxy: a sandbox for SSH clients, without a server in it.  Upholds S62
 * of SECURITY.md.
 *
 * The client's ProxyCommand is berth ssh-proxy: who may run that has the rights of berth exec, so
 * the client proves nothing more.  berth-ssh speaks SSH; this process, which has rights, moves the
 * bytes of the connection unread and answers berth-ssh's questions (manager/keeper/sshdesk.h).
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/live/sandbox_open.h"
#include "cli/live/stdioway.h"
#include "manager/keeper/sshdesk.h"

#define ARGS_MORE 40	/* words of ours before the client's own */

enum { OPT_START = 1, OPT_USER, OPT_LOCAL, OPT_REMOTE, OPT_DYNAMIC, OPT_NO_COMMAND, OPT_TTY };

static const struct opt proxy_options[] = {
	{ "start", 0, OPT_FLAG, NULL, "start the sandbox first if it does not run", OPT_START },
};

static const struct opt config_options[] = {
	{ "start", 0, OPT_FLAG, NULL, "a connection starts the sandbox if it does not run", OPT_START },
	{ "user", 'u', OPT_VALUE, "USER[:GROUP]", "who runs the commands (default: the sandbox's user)", OPT_USER },
};

static const struct opt ssh_options[] = {
	{ "start", 0, OPT_FLAG, NULL, "start the sandbox first if it does not run", OPT_START },
	{ "user", 'u', OPT_VALUE, "USER[:GROUP]", "who runs the command (default: the sandbox's user)", OPT_USER },
	{ "tty", 't', OPT_FLAG, NULL, "give the command a terminal; a shell has one", OPT_TTY },
	{ "local", 'L', OPT_LIST, "[HOST:]PORT:localhost:PORT", "lead a port of this host to one of the sandbox", OPT_LOCAL },
	{ "remote", 'R', OPT_LIST, "PORT:HOST:PORT", "lead a port of the sandbox's loopback to one that this host reaches", OPT_REMOTE },
	{ "dynamic", 'D', OPT_LIST, "[HOST:]PORT", "serve SOCKS on this host, for the ports of the sandbox", OPT_DYNAMIC },
	{ "no-command", 'N', OPT_FLAG, NULL, "run nothing: only lead ports", OPT_NO_COMMAND },
};

struct ssh_given {
	int start;
	const char *user;
	char *words[2 * ARGS_MORE];	/* for the client: borrowed, NULL at the end */
	size_t count;
	char **command;			/* behind the sandbox, for commands that take one */
	int command_count;
};

static int add_client_word(struct ssh_given *g, const char *word, struct err *e)
{
	if (g->count + 2 > ARRAY_LEN(g->words))
		return err_set(e, ERR_USAGE, "too many options");
	g->words[g->count++] = (char *)(size_t)word;
	return 0;
}

static int set_ssh_option(void *ctx, int id, const char *value, struct err *e)
{
	static const char *const letters[] = { [OPT_LOCAL] = "-L", [OPT_REMOTE] = "-R", [OPT_DYNAMIC] = "-D", [OPT_NO_COMMAND] = "-N",
					       [OPT_TTY] = "-t" };
	struct ssh_given *g = ctx;

	switch (id) {
	case OPT_START:
		g->start = 1;
		return 0;
	case OPT_USER:
		g->user = value;
		/* it is a word of the client's configuration, too */
		return value[0] && value[0] != '-' && !value[strcspn(value, " \t\n\"'\\%")] ? 0 :
			err_set(e, ERR_USAGE, "'%.80s' is not a user", value);
	default:
		return add_client_word(g, letters[id], e) < 0 || (value && add_client_word(g, value, e) < 0) ? -1 : 0;
	}
}

/* Reads the command line, and runs what the command does with its sandbox. takes_command: words of one may follow. */
static int run_ssh_command(const struct command *self, int argc, char **argv, int takes_command, const char *hint,
			   int (*run)(const struct ssh_given *g, const char *ref, struct err *e))
{
	struct ssh_given g = { 0 };
	struct err e = { 0 };
	int rest, help = 0, r;

	r = command_options(self, argc, argv, set_ssh_option, &g, &rest, &help, &e);
	if (r == 0 && help)
		return 0;
	g.command = argv + rest + 1;
	g.command_count = argc - rest - 1;
	if (r == 0 && (g.command_count < 0 || (g.command_count && !takes_command)))
		r = err_set(&e, ERR_USAGE, "a sandbox is wanted; hint: %s", hint);
	if (r == 0)
		r = run(&g, argv[rest], &e);
	return r < 0 ? command_fail(self, &e, 0) : 0;
}

/* ---- ssh-proxy ---- */

static int serve_proxy(struct sshdesk *d, struct stdioway way[2], struct err *e)
{
	struct pollfd p[STDIOWAY_POLLS + SSHDESK_POLLS];
	int r = 0;

	while (!way[1].ended) {
		stdioway_polls(way, p);
		sshdesk_polls(d, p + STDIOWAY_POLLS);
		if (poll(p, ARRAY_LEN(p), -1) < 0 && errno != EINTR)
			return err_sys(e, "wait for data");
		if (stdioway_move(way, p, e) < 0)
			return -1;
		if (!r)
			r = sshdesk_serve(d, p + STDIOWAY_POLLS, e);
		if (r < 0)
			return -1;
		/* berth-ssh has ended: its last bytes are on their way, and what it began ends before a client reads them */
		if (r)
			sshdesk_close(d);
	}
	return 0;
}

static int run_proxy(const struct ssh_given *g, const char *ref, struct err *e)
{
	autofree struct stdioway *way = calloc(2, sizeof(*way));
	struct sandbox_ref s;
	struct sshdesk d;
	int sv[2], r;

	if (!way)
		return err_nomem(e);
	signal(SIGPIPE, SIG_IGN);
	sandbox_ref_init(&s);
	r = sandbox_ref_connect(&s, ref, g->start, e);
	if (r == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv) < 0)
		r = err_sys(e, "make a socket");
	if (r == 0) {
		/* each command has a connection of its own */
		fd_close(&s.sock);
		r = sshdesk_open(&d, &s.registry, s.id, sv[1], NULL, e);
		close(sv[1]);
		if (r == 0) {
			stdioway_init(way, sv[0]);
			r = serve_proxy(&d, way, e);
			sshdesk_close(&d);
		}
		close(sv[0]);
	}
	sandbox_ref_close(&s);
	return r;
}

static int ssh_proxy_main(const struct command *self, int argc, char **argv)
{
	return run_ssh_command(self, argc, argv, 0, "berth ssh-config ID shows how SSH clients run this", run_proxy);
}

/* ---- what a client must know ---- */

struct ssh_host {
	char known_hosts[300];
	struct buf proxy;	/* the ProxyCommand */
};

/* Adds a word for a shell and for OpenSSH's "%". */
static int add_shell_word(struct buf *b, const char *word, struct err *e)
{
	int r = buf_addf(b, e, "'");

	for (; *word && r == 0; word++)
		r = *word == '\'' ? buf_addf(b, e, "'\\''") : *word == '%' ? buf_addf(b, e, "%%%%") : buf_addf(b, e, "%c", *word);
	return r < 0 ? -1 : buf_addf(b, e, "'");
}

static int describe_host(const struct ssh_given *g, const char *ref, struct ssh_host *h, struct err *e)
{
	struct sandbox_ref s;
	char self[512];
	const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int r;

	if (n < 0)
		return err_sys(e, "find the path of berth");
	if (n == sizeof(self) - 1)
		return err_set(e, ERR_INVALID, "the path of berth has over %zu bytes", sizeof(self) - 2);
	self[n] = '\0';
	sandbox_ref_init(&s);
	r = sandbox_ref_find(&s, ref, e);
	if (r == 0)
		r = sshdesk_key(&s.registry, h->known_hosts, sizeof(h->known_hosts), e);
	if (r == 0 && (add_shell_word(&h->proxy, self, e) < 0 || buf_addf(&h->proxy, e, " ssh-proxy %s", g->start ? "--start " : "") < 0 ||
		       add_shell_word(&h->proxy, ref, e) < 0))
		r = -1;
	sandbox_ref_close(&s);
	return r;
}

static const char *host_user(const struct ssh_given *g)
{
	return g->user ? g->user : SSHDESK_USER;
}

/* ---- ssh-config ---- */

static int print_host(const struct ssh_given *g, const char *ref, struct err *e)
{
	struct ssh_host h = { .proxy = BUF_INIT(4096) };
	int r = describe_host(g, ref, &h, e);

	if (r == 0 && (printf("Host %s\n\tUser %s\n\tProxyCommand %.*s\n\tHostKeyAlias " SSHDESK_HOST "\n\tUserKnownHostsFile \"%s\"\n"
			      "\tGlobalKnownHostsFile /dev/null\n\tStrictHostKeyChecking yes\n",
			      ref, host_user(g), (int)h.proxy.len, h.proxy.data, h.known_hosts) < 0 || fflush(stdout) == EOF))
		r = err_sys(e, "write to standard output");
	buf_release(&h.proxy);
	return r;
}

static int ssh_config_main(const struct command *self, int argc, char **argv)
{
	return run_ssh_command(self, argc, argv, 0, "berth ssh-config ID >> ~/.ssh/config", print_host);
}

/* ---- ssh ---- */

static int become_client(const struct ssh_given *g, const char *ref, struct err *e)
{
	struct ssh_host h = { .proxy = BUF_INIT(4096) };
	const size_t count = (size_t)g->command_count;
	autofree char **words = calloc(ARGS_MORE + g->count + count + 1, sizeof(*words));
	char known[340];
	size_t n = 0, i;
	int r = words ? describe_host(g, ref, &h, e) : err_nomem(e);
	autobuf struct buf proxy = BUF_INIT(4096);

	if (r < 0 || buf_addf(&proxy, e, "ProxyCommand=%.*s", (int)h.proxy.len, h.proxy.data) < 0) {
		buf_release(&h.proxy);
		return -1;
	}
	buf_release(&h.proxy);
	snprintf(known, sizeof(known), "UserKnownHostsFile=\"%s\"", h.known_hosts);
	{
		const char *const ours[] = { "ssh", "-o", proxy.data, "-o", "HostKeyAlias=" SSHDESK_HOST, "-o", known, "-o",
					     "GlobalKnownHostsFile=/dev/null", "-o", "StrictHostKeyChecking=yes", "-l", host_user(g) };

		for (i = 0; i < ARRAY_LEN(ours); i++)
			words[n++] = (char *)(size_t)ours[i];
	}
	for (i = 0; i < g->count; i++)
		words[n++] = g->words[i];
	words[n++] = (char *)"--";
	words[n++] = (char *)(size_t)ref;
	for (i = 0; i < count; i++)
		words[n++] = g->command[i];
	execvp("ssh", words);
	return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "there is no ssh; hint: apt-get install openssh-client, or berth exec") :
				 err_sys(e, "run ssh");
}

static int ssh_main(const struct command *self, int argc, char **argv)
{
	return run_ssh_command(self, argc, argv, 1, "berth ssh ID", become_client);
}

const struct command cmd_ssh = {
	.name = "ssh",
	.args = "SANDBOX [COMMAND...]",
	.summary = "run OpenSSH's client on a sandbox, which needs no server in it",
	.detail = "Runs ssh with berth ssh-proxy as its ProxyCommand.  As ssh does, it joins the words of COMMAND\n"
		  "with blanks for a shell in the sandbox.  The exit status is the command's, or 255.",
	.opts = ssh_options,
	.opt_count = ARRAY_LEN(ssh_options),
	.complete = COMPLETE_SANDBOX,
	.run = ssh_main,
};

const struct command cmd_ssh_config = {
	.name = "ssh-config",
	.args = "SANDBOX",
	.summary = "print the Host block with which SSH clients reach a sandbox",
	.detail = "For ~/.ssh/config: then ssh SANDBOX, scp, sftp, rsync, git and editors reach it.",
	.opts = config_options,
	.opt_count = ARRAY_LEN(config_options),
	.complete = COMPLETE_SANDBOX,
	.run = ssh_config_main,
};

const struct command cmd_ssh_proxy = {
	.name = "ssh-proxy",
	.args = "SANDBOX",
	.summary = "serve SSH on standard input and output, as a ProxyCommand",
	.detail = "SSH clients run it (berth ssh-config).  The client's user name is the user in the sandbox, or\n"
		  "berth for the sandbox's own.",
	.opts = proxy_options,
	.opt_count = ARRAY_LEN(proxy_options),
	.complete = COMPLETE_SANDBOX,
	.run = ssh_proxy_main,
};
