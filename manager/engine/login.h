/* SPDX-License-Identifier: Apache-2.0 */
/*
 * login - the user name and password of a request: the header X-Registry-Auth.
 *
 * Pure. Its content is never written to an error or a log.
 */
#ifndef BERTH_MANAGER_ENGINE_LOGIN_H
#define BERTH_MANAGER_ENGINE_LOGIN_H

#include "base/err.h"

#define ENGINE_LOGIN_MAX 16384 /* bytes of the header */

struct engine_login {
	char user[256];
	char password[8192]; /* "" with an empty user: there is none */
};

/*
 * text: JSON in base64 of either alphabet, with padding or without; NULL, "" and {} are no login.
 * ERR_INVALID; ERR_UNSUPPORTED for an identity token.
 */
int engine_login_read(const char *text, struct engine_login *ret, struct err *e);
void engine_login_forget(struct engine_login *l);
/*
 * The registry that Docker's clients mean by server: "docker.io" for its own, which is "",
 * "index.docker.io" and "https://index.docker.io/v1/"; else server without "https://".
 */
const char *engine_login_server(const char *server);

#endif
