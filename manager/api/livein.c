/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "manager/api/api.h"

struct livein {
	struct livein *next;
	char box[65], command[24];
	int fd;		/* -1: it was closed */
};

static struct livein **find(struct api *a, const char *box, const char *command)
{
	struct livein **l = &a->livein;

	while (*l && (strcmp((*l)->box, box) || strcmp((*l)->command, command)))
		l = &(*l)->next;
	return l;
}

int livein_add(struct api *a, const char *box, const char *command, int fd, struct err *e)
{
	struct livein *l = calloc(1, sizeof(*l));

	if (!l) {
		close(fd);
		return err_nomem(e);
	}
	snprintf(l->box, sizeof(l->box), "%s", box);
	snprintf(l->command, sizeof(l->command), "%s", command);
	l->fd = fd;
	pthread_mutex_lock(&a->livein_lock);
	l->next = a->livein;
	a->livein = l;
	pthread_mutex_unlock(&a->livein_lock);
	return 0;
}

void livein_remove(struct api *a, const char *box, const char *command)
{
	struct livein **at, *l;

	pthread_mutex_lock(&a->livein_lock);
	at = find(a, box, command);
	l = *at;
	if (l)
		*at = l->next;
	pthread_mutex_unlock(&a->livein_lock);
	if (l)
		fd_close(&l->fd);
	free(l);
}

int livein_open(struct api *a, const char *box, const char *command)
{
	struct livein *l;
	int fd;

	pthread_mutex_lock(&a->livein_lock);
	l = *find(a, box, command);
	fd = l && l->fd >= 0 ? fcntl(l->fd, F_DUPFD_CLOEXEC, 3) : -1;
	pthread_mutex_unlock(&a->livein_lock);
	return fd;
}

void livein_close_input(struct api *a, const char *box, const char *command)
{
	struct livein *l;

	pthread_mutex_lock(&a->livein_lock);
	l = *find(a, box, command);
	if (l)
		fd_close(&l->fd);
	pthread_mutex_unlock(&a->livein_lock);
}

int livein_write(struct http_request *rq, int fd, const char *data, size_t n, uint64_t *sent,
		 struct err *e)
{
	while (n) {
		ssize_t w = write(fd, data, n);

		if (w > 0) {
			data += w;
			n -= (size_t)w;
			*sent += (uint64_t)w;
		} else if (errno == EPIPE) {
			return err_set(e, ERR_NOT_FOUND, "the command reads no more");
		} else if (errno != EAGAIN && errno != EINTR) {
			return err_sys(e, "write to the command's stdin");
		} else if (http_wait(rq, fd, POLLOUT, -1, e) < 0) {
			return -1;
		}
	}
	return 0;
}
