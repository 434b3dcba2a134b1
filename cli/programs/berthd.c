/* SPDX-License-Identifier: Apache-2.0 */
/*
 * berthd - the manager daemon: listeners, signals, and the end.
 *
 * The main thread waits for signals and nothing else: TERM and INT end it with
 * the requests under way finished, HUP reads configuration and tokens again.
 * Sandboxes are their keepers' and live on whatever becomes of berthd.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/path.h"
#include "base/sdnotify.h"
#include "manager/api/api.h"
#include "manager/api/e2b.h"
#include "manager/api/preview.h"
#include "manager/api/sshdoor.h"
#include "manager/api/route_manager.h"
#include "manager/api/tokens.h"
#include "manager/docker/docker.h"
#include "manager/host/hostids.h"
#include "manager/host/rights.h"
#include "manager/service/dlog.h"

#define SOCKET_NAME "berthd.sock"
#define LOCK_TRIES 200
#define LOCK_PAUSE_NS 10000000
#define STOP_GRACE_MS 5000
#define MMAP_FROM (128 << 10)
#define ARENAS 4
#define FILES_MAX 65536
#define LISTEN_FDS_START 3	/* sd_listen_fds(3) */

struct daemon {
	struct api api;
	struct http_server *http;
	int lock_fd;
	char socket_path[300];	/* ours to remove, or "" */
	/* what every request is held against: SIGHUP does not change it under them */
	char hosts[256], origins[256];
	char notify_path[108];	/* of systemd, or "" */
};

static int print_daemon_usage(FILE *f, int status)
{
	fputs("usage: berthd [--check-config] [--version]\n\n"
	      "Serves sandboxes over HTTP on a unix socket; configured by [daemon] in berth.toml(5).\n\n"
	      "  --check-config  read the configuration and the tokens, say what is wrong, and end\n"
	      "  --version       print the version\n"
	      "  --help          print this\n", f);
	return status;
}

/* ---- listeners --------------------------------------------------------------------- */

static int listen_unix(struct daemon *d, struct err *e)
{
	const char *set = d->api.config.daemon_socket;
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;

	if (set[0])
		snprintf(d->socket_path, sizeof(d->socket_path), "%s", set);
	else
		snprintf(d->socket_path, sizeof(d->socket_path), "%s/" SOCKET_NAME, d->api.config.run_dir);
	if (strlen(d->socket_path) >= sizeof(a.sun_path))
		return err_set(e, ERR_CONFIG, "the socket's path %.200s is too long; hint: daemon.socket", d->socket_path);
	memcpy(a.sun_path, d->socket_path, strlen(d->socket_path) + 1);
	/*
	 * we hold the lock: a socket here is left from a berthd that died; anything but a socket
	 * is not ours
	 */
	if (!lstat(d->socket_path, &st) && S_ISSOCK(st.st_mode))
		unlink(d->socket_path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || chmod(d->socket_path, 0600) < 0 || listen(fd, 128) < 0)
		return err_sys(e, "listen on %.200s", d->socket_path);
	return http_listen(d->http, take_fd(&fd), 0, e);
}

/* "127.0.0.1:7423" or "[::1]:7423".  Plain HTTP leaves the host only through something that encrypts. */
static int parse_address(const char *text, struct sockaddr_storage *ret, socklen_t *ret_n, struct err *e)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;
	const char *colon = strrchr(text, ':');
	char host[64];
	uint64_t port;
	size_t n = colon ? (size_t)(colon - text) : 0;

	if (!colon || n >= sizeof(host))
		return err_set(e, ERR_CONFIG, "daemon.listen '%.64s' is not ADDRESS:PORT; hint: 127.0.0.1:7423", text);
	if (num_u64(colon + 1, "daemon.listen's port", 0, 65535, &port, e) < 0)
		return -1;
	memset(ret, 0, sizeof(*ret));
	if (text[0] == '[' && n > 2 && text[n - 1] == ']') {
		snprintf(host, sizeof(host), "%.*s", (int)n - 2, text + 1);
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		*ret_n = sizeof(*v6);
		if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr))
			return 0;
	} else {
		snprintf(host, sizeof(host), "%.*s", (int)n, text);
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		*ret_n = sizeof(*v4);
		if (inet_pton(AF_INET, host, &v4->sin_addr) == 1 && (ntohl(v4->sin_addr.s_addr) >> 24) == 127)
			return 0;
	}
	return err_set(e, ERR_CONFIG, "daemon.listen '%.64s' is not a loopback address; hint: tokens must not cross a network in the "
		       "clear: put a proxy with TLS, or ssh -L, in front of 127.0.0.1", text);
}

static int listen_tcp(struct daemon *d, struct err *e)
{
	const char *text = d->api.config.daemon_listen;
	struct sockaddr_storage a;
	socklen_t n;
	autoclose int fd = -1;
	int on = 1;

	if (!text[0])
		return 0;
	if (parse_address(text, &a, &n, e) < 0)
		return -1;
	fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 || bind(fd, (struct sockaddr *)&a, n) < 0 ||
	    listen(fd, 128) < 0)
		return err_sys(e, "listen on %s", text);
	return http_listen(d->http, take_fd(&fd), 1, e);
}

/* Sockets that systemd made for us: how many, or -1. */
static int activated(struct err *e)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	uint64_t n, want;
	int i;

	if (!pid || !fds || num_u64(pid, "LISTEN_PID", 1, INT32_MAX, &want, e) < 0 || want != (uint64_t)getpid())
		return 0;
	if (num_u64(fds, "LISTEN_FDS", 0, 8, &n, e) < 0)
		return -1;
	for (i = 0; i < (int)n; i++)
		if (fcntl(LISTEN_FDS_START + i, F_SETFD, FD_CLOEXEC) < 0)
			return err_sys(e, "take descriptor %d of systemd", LISTEN_FDS_START + i);
	return (int)n;
}

static int check_tokens(const struct api *a, struct err *e)
{
	/* the page has links, which need no token */
	if (!tokens_count(a->tokens) && !a->config.ui_enabled)
		return err_set(e, ERR_CONFIG, "a TCP socket needs daemon.token_file with at least one token");
	return 0;
}

static int listen_activated(struct daemon *d, int count, struct err *e)
{
	struct sockaddr_storage a = { 0 };
	int i, tcp;

	for (i = 0; i < count; i++) {
		socklen_t n = sizeof(a);

		if (getsockname(LISTEN_FDS_START + i, (struct sockaddr *)&a, &n) < 0)
			return err_sys(e, "look at descriptor %d of systemd", LISTEN_FDS_START + i);
		tcp = a.ss_family != AF_UNIX;
		if ((tcp && check_tokens(&d->api, e) < 0) || http_listen(d->http, LISTEN_FDS_START + i, tcp, e) < 0)
			return -1;
	}
	return 0;
}

static int listen_all(struct daemon *d, int activated_count, struct err *e)
{
	if (d->api.config.daemon_listen[0] && check_tokens(&d->api, e) < 0)
		return -1;
	if (activated_count ? listen_activated(d, activated_count, e) < 0 : listen_unix(d, e) < 0)
		return -1;
	return listen_tcp(d, e);
}

/* ---- birth and death ------------------------------------------------------------------ */

/* One berthd a run directory. */
static int take_lock(struct daemon *d, struct err *e)
{
	autoclose int dir = path_open_private_dir(d->api.config.run_dir, e);
	int left;

	if (dir < 0)
		return -1;
	d->lock_fd = openat(dir, SERVICE_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (d->lock_fd < 0)
		return err_sys(e, "open %s/" SERVICE_LOCK, d->api.config.run_dir);
	/* children of a killed berthd hold it until they execute */
	for (left = LOCK_TRIES; flock(d->lock_fd, LOCK_EX | LOCK_NB) < 0; left--) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, "lock %s/" SERVICE_LOCK, d->api.config.run_dir);
		if (!left)
			return err_set(e, ERR_BUSY, "another berthd serves %s", d->api.config.run_dir);
		nanosleep(&(struct timespec){ .tv_nsec = LOCK_PAUSE_NS }, NULL);
	}
	return 0;
}

static int harden_daemon(struct err *e)
{
	struct sigaction ign = { .sa_handler = SIG_IGN };
	int fd;

	if (getauxval(AT_SECURE))
		return err_set(e, ERR_DENIED, "refusing to run with privileges the caller does not have");
	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd < 3);
	if (fd >= 0)
		close(fd);
	/*
	 * Memory of a request is given back at its end. Without a threshold of ours glibc raises
	 * its own after the first large block, and keeps the next ones in the arenas of threads
	 * that are gone.
	 */
	mallopt(M_MMAP_THRESHOLD, MMAP_FROM);
	mallopt(M_ARENA_MAX, ARENAS);
	umask(077);
	sigaction(SIGPIPE, &ign, NULL);
	sigaction(SIGXFSZ, &ign, NULL);
	return 0;
}

/* Before any thread: they inherit it, and only the main thread sees signals. */
static int block_daemon_signals(sigset_t *set, struct err *e)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigaddset(set, SIGHUP);
	return sigprocmask(SIG_SETMASK, set, NULL) < 0 ? err_sys(e, "block signals") : 0;
}

/* sd_notify(3), for Type=notify. */
static void notify(const struct daemon *d, const char *state)
{
	if (d->notify_path[0])
		sdnotify_send(d->notify_path, state);
}

static void reload(struct daemon *d)
{
	struct err e;

	notify(d, "RELOADING=1");
	if (daemon_reload(&d->api, &e) < 0)
		dlog_error("reload", &e);
	else
		dlog_note(DLOG_NOTICE, "configuration and %zu tokens were read again; sockets stay as they are",
			  tokens_count(d->api.tokens));
	notify(d, "READY=1");
}

/* result: of manager_end(). */
static void tell_daemon_end(int result, const struct err *why, int served)
{
	if (result < 0)
		dlog_error("clean-up", why);
	if (served)
		dlog_note(DLOG_NOTICE, result > 0 ? "berthd ended; the manager's sandboxes were released" :
			  result < 0 ? "berthd ended; some of the manager's sandboxes could not be released" :
			  "berthd ended; sandboxes live on");
}

/* The words for ids that others may have too; "" if there are none. */
static const char *overlap_of(const struct config *c, char *words, size_t n)
{
	struct err ignored;

	return hostids_overlap(c, words, n, &ignored) > 0 ? words : "";
}

static int serve_daemon(struct daemon *d, struct err *e)
{
	struct err left = { 0 };
	struct http_options o = {
		.tables = daemon_routes, .context = &d->api, .on_audit = daemon_on_audit,
		.max_connections = (unsigned)d->api.config.daemon_max_connections,
		.allowed_hosts = d->hosts, .allowed_origins = d->origins,
		.shape_unknown = e2b_error,
		.check_token = api_check_token, .holds = api_holds, .has_ui = api_has_ui, .check_key = api_check_key, .share_of = api_share_of,
	};
	const char *notify_path = getenv("NOTIFY_SOCKET");
	int count = activated(e), sig = 0, r;
	char overlap[240];
	sigset_t set;

	snprintf(d->hosts, sizeof(d->hosts), "%s", d->api.config.daemon_allowed_hosts);
	snprintf(d->origins, sizeof(d->origins), "%s", d->api.config.daemon_allowed_origins);
	if (notify_path)
		snprintf(d->notify_path, sizeof(d->notify_path), "%s", notify_path);
	/* not for the programs we start */
	unsetenv("NOTIFY_SOCKET");
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	unsetenv("BERTH_HOST");	/* their berthd would be us */
	if (count < 0 || take_lock(d, e) < 0 || api_accept_config(&d->api, e) < 0)
		return -1;
	io_allow_files(FILES_MAX);	/* a request holds a dozen */
	/* before the first thread, and before a byte of a client (S56) */
	if (rights_lay_down(RIGHTS_DAEMON, e) < 0 || block_daemon_signals(&set, e) < 0 || daemon_start(&d->api, e) < 0)
		return -1;
	o.otlp = d->api.otlp;
	d->http = d->api.http = http_new(&o, e);
	if (!d->http)
		return -1;
	/* before any request: takes over what an earlier berthd left */
	r = manager_start(&d->api, e) < 0 || docker_start(&d->api, e) < 0 || preview_start(&d->api, &d->api.previews, e) < 0 ||
	    sshdoor_start(&d->api, &d->api.ssh, e) < 0 ||
	    listen_all(d, count, e) < 0 ? -1 : 0;
	if (r == 0) {
		if (*overlap_of(&d->api.config, overlap, sizeof(overlap)))
			dlog_note(DLOG_WARNING, "%s; hint: " HOSTIDS_REMEDY, overlap);
		atomic_store(&d->api.ready, 1);
		notify(d, "READY=1");
		dlog_note(DLOG_NOTICE, "berthd " BERTH_VERSION " serves %s%s%s",
			  count ? "sockets of systemd" : d->socket_path, d->api.config.daemon_listen[0] ? " and " : "",
			  d->api.config.daemon_listen);
	}
	while (r == 0 && sig != SIGTERM && sig != SIGINT) {
		if (sigwait(&set, &sig))
			continue;
		if (sig == SIGHUP)
			reload(d);
	}
	atomic_store(&d->api.ready, 0);
	notify(d, "STOPPING=1");
	/* no new client can connect; waiting ones are answered */
	if (d->socket_path[0])
		unlink(d->socket_path);
	/* an upload for one of those may take hours */
	preview_stop(d->api.previews);
	sshdoor_stop(d->api.ssh);
	docker_ending(&d->api);
	manager_ending(&d->api, STOP_GRACE_MS);
	docker_stop(&d->api, STOP_GRACE_MS);
	http_stop(d->http, STOP_GRACE_MS);
	tell_daemon_end(manager_end(&d->api, &left), &left, r == 0);
	return r;
}

static int fail_daemon(const struct err *e)
{
	log_error("berthd", e);
	return err_exit_status(e->code);
}

static int check_config(struct daemon *d, struct err *e)
{
	char overlap[240];
	struct sockaddr_storage a;
	socklen_t n;

	if (d->api.config.daemon_listen[0] && (parse_address(d->api.config.daemon_listen, &a, &n, e) < 0 || check_tokens(&d->api, e) < 0))
		return -1;
	if (preview_check_config(&d->api.config, e) < 0 || otlp_check_config(&d->api.config, e) < 0 ||
	    sshdoor_check_config(&d->api.config, e) < 0 ||
	    service_check_config(&d->api.config, d->api.berth_path, e) < 0 || service_check_places(&d->api.config, e) < 0)
		return -1;
	if (*overlap_of(&d->api.config, overlap, sizeof(overlap)))
		log_note("berthd", "warning: %s; hint: " HOSTIDS_REMEDY, overlap);
	printf("%s: good, %zu tokens\n", d->api.config.file[0] ? d->api.config.file : "no configuration file",
	       tokens_count(d->api.tokens));
	return fflush(stdout) ? err_sys(e, "write to stdout") : 0;
}

int main(int argc, char **argv)
{
	static struct daemon d;	/* zero, and large */
	struct err e = { 0 };
	int check = 0, r;

	if (argc > 2)
		return print_daemon_usage(stderr, 2);
	if (argc == 2 && !strcmp(argv[1], "--version")) {
		puts("berthd " BERTH_VERSION);
		return 0;
	}
	if (argc == 2 && !strcmp(argv[1], "--help"))
		return print_daemon_usage(stdout, 0);
	check = argc == 2 && !strcmp(argv[1], "--check-config");
	if (argc == 2 && !check)
		return print_daemon_usage(stderr, 2);
	d.lock_fd = -1;
	if (harden_daemon(&e) < 0)
		return fail_daemon(&e);
	if (geteuid()) {
		err_set(&e, ERR_DENIED, "berthd needs root; hint: systemctl start berthd, or sudo berthd");
		return fail_daemon(&e);
	}
	if (api_init(&d.api, &e) < 0)
		return fail_daemon(&e);
	r = check ? check_config(&d, &e) : serve_daemon(&d, &e);
	daemon_end(&d.api);
	fd_close(&d.lock_fd);
	return r < 0 ? fail_daemon(&e) : 0;
}
