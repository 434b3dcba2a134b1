/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/net/egress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "runtime/net/confine.h"
#include "runtime/net/proxy.h"
#include "runtime/net/route.h"

/* In the sandbox's namespace for as long as it takes to open one socket. */
static int listen_inside(int *ret, struct err *e)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(NETHELPER_PROXY_PORT) };
	autoclose int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), fd = -1;
	int failed = 0, one = 1;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (home < 0 || setns(NETHELPER_NETNS, CLONE_NEWNET) < 0)
		return err_sys(e, "enter the sandbox's network namespace");
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 128) < 0)
		failed = err_sys(e, "listen on 127.0.0.1:%d in the sandbox", NETHELPER_PROXY_PORT);
	if (setns(home, CLONE_NEWNET) < 0)
		return err_sys(e, "return from the sandbox's network namespace");
	if (failed)
		return -1;
	*ret = take_fd(&fd);
	return 0;
}

static int log_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? fd : -1;	/* /dev/null: none is wanted */
}

static int prepare(struct proxy *p, const json_t *job, uint64_t *ret_uid, struct err *e)
{
	json_t *policy = NULL;
	const char *id = "";
	off_t a, b;

	if (json_get_str(job, "id", &id, "job", e) < 1 || json_get_u64(job, "uid", ret_uid, "job", e) < 1 ||
	    json_get_u64(job, "used_bytes", &p->used_bytes, "job", e) < 0 ||
	    json_get_u64(job, "used_connections", &p->used_connections, "job", e) < 0 ||
	    json_get_bool(job, "lasts", &p->lasts, "job", e) < 1 || json_get_obj(job, "policy", &policy, "job", e) < 1 || *ret_uid < 65536)
		return err_set(e, ERR_INTERNAL, "berth-net: a malformed job");
	snprintf(p->id, sizeof(p->id), "%s", id);
	if (netpolicy_load(&p->policy, policy, e) < 0)
		return -1;
	p->counters = mmap(NULL, sizeof(*p->counters), PROT_READ | PROT_WRITE, MAP_SHARED, NETHELPER_COUNTERS, 0);
	if (p->counters == MAP_FAILED)
		return err_sys(e, "map the counters");
	if (p->policy.group && !(p->group = netgroup_map(NETHELPER_GROUP, e)))
		return -1;
	p->control_fd = NETHELPER_SOCK;
	p->notice_fd = NETHELPER_NOTICE;
	p->counters->exhausted = proxy_exhausted(p) != NULL;
	p->log_fd[0] = log_of(NETHELPER_LOG);
	p->log_fd[1] = log_of(NETHELPER_LOG_OLD);
	if (p->log_fd[0] >= 0 && !p->group) {
		/* where the last one went on writing: not the full one */
		a = lseek(p->log_fd[0], 0, SEEK_END);
		b = lseek(p->log_fd[1], 0, SEEK_END);
		if (a > b && b > 0 && a >= 1 << 19) {
			p->log_fd[0] = NETHELPER_LOG_OLD;
			p->log_fd[1] = NETHELPER_LOG;
		}
	}
	p->route = route_open(e);
	return p->route ? 0 : -1;
}

int egress_probe(const json_t *job, struct err *e)
{
	struct err ok = { 0 };
	uint64_t uid = 0;

	if (json_get_u64(job, "uid", &uid, "job", e) < 1 || confine((uid_t)uid, getppid(), e) < 0)
		return -1;
	(void)!send(NETHELPER_SOCK, &ok, sizeof(ok), MSG_NOSIGNAL);
	return 0;
}

int egress_run(const json_t *job, struct err *e)
{
	struct proxy *p = calloc(1, sizeof(*p));
	pid_t parent = getppid();
	uint64_t uid = 0;
	int r = -1;

	if (!p)
		return err_nomem(e);
	p->epoll_fd = -1;
	p->listen = (struct watch){ .kind = WATCH_LISTEN, .fd = -1 };
	p->listens = &p->listen;
	p->listen_count = 1;
	if (prepare(p, job, &uid, e) == 0 && listen_inside(&p->listen.fd, e) == 0) {
		close(NETHELPER_NETNS);	/* else it would live as long as we */
		close(NETHELPER_JOB);
		r = proxy_run(p, (uid_t)uid, parent, e);
	}
	free(p);
	return r;
}
