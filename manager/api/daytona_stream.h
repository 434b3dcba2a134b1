/* SPDX-License-Identifier: Apache-2.0 */
/*
 * daytona_stream - between a client's WebSocket and a command of the keeper's: its output as
 * messages, the client's messages as its input.
 *
 * The command waits when the client does not read ("hold" of the keeper's protocol), and the client
 * when the command does not: at most one answer and one message are held.
 */
#ifndef BERTH_MANAGER_API_DAYTONA_STREAM_H
#define BERTH_MANAGER_API_DAYTONA_STREAM_H

#include "manager/api/daytona.h"
#include "manager/api/websocket.h"

struct daytona_stream {
	struct daytona_place place;	/* whose connection follows */
	char command[24];
	int tty;	/* raw output, and messages are input; else output has marks, and messages say nothing */
	uint64_t from[2];
	int send_sock;	/* a second connection, for input, or -1 */
	int sending, asked;
	json_t *verdict;	/* once it has ended */
	struct buf held;	/* of an answer, what a reply without a WebSocket has not taken */
	size_t held_at;
};

/* The command of that keeper's name: its entry in the keeper's list, a new reference; NULL with ERR_NOT_FOUND. */
json_t *daytona_command(struct daytona_place *p, const char *name, struct err *e);
/* All of that prefix, in the order in which they began: a new array, or NULL. */
json_t *daytona_commands(struct daytona_place *p, const char *prefix, struct err *e);

struct daytona_stream *daytona_stream_new(struct http_request *rq, struct err *e);
void daytona_stream_free(void *ctx);
/* Until the command ends (0, with verdict) or the client goes (-1). */
int daytona_stream_run(struct daytona_stream *s, struct websocket *w, struct err *e);
/* The next bytes of its output, for a reply without a WebSocket, as of struct http_stream: stderr's follow stdout's. */
ssize_t daytona_stream_read(void *ctx, struct http_request *rq, char *buf, size_t max);

#endif
