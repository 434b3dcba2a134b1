/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heredoc - here-documents of a Dockerfile, written as instructions that every buildah reads.
 *
 * Pure.  A RUN with here-documents becomes one in JSON: the shell in effect, and all of the text as
 * its script.  A COPY or ADD of some becomes a COPY of files, which the caller lays into the room of
 * the build (HEREDOC_CONTEXT), with the variables in them replaced; so does a RUN of one that begins
 * with #!.  Names, quotes and tabs are read as BuildKit reads them.  What cannot be told here - a
 * variable that a base image may set - is refused, never guessed.
 */
#ifndef BERTH_CLI_IMAGE_HEREDOC_H
#define BERTH_CLI_IMAGE_HEREDOC_H

#include "base/buf.h"
#include "base/json.h"

#define HEREDOC_CONTEXT "berth-heredoc" /* the name of an additional context of buildah */
#define HEREDOC_NAME 200
#define HEREDOCS_MAX 32 /* of an instruction */
#define HEREDOC_FILES_MAX 500

struct heredoc_reader {
	json_t *given;	/* {"NAME": VALUE}, the caller's build arguments */
	json_t *globals; /* of ARG before the first FROM */
	json_t *stages; /* by lower-case name, as stage is */
	json_t *stage;	/* {"shell": [...], "env": {...}, "args": {...}} */
	json_t *files;	/* [{"dir": N, "name", "text", "mode"}] */
	unsigned dirs;
	char escape;
};

/* One of an instruction; text is borrowed. */
struct heredoc {
	char name[HEREDOC_NAME];
	int is_quoted, strips_tabs;
	struct buf text; /* its lines */
};

/* words: of the build, "--build-arg", "NAME=VALUE" among them; borrowed for the call. */
int heredoc_reader_init(struct heredoc_reader *r, const json_t *words, struct err *e);
void heredoc_reader_release(struct heredoc_reader *r);
/* An instruction without here-documents, for what it changes for later ones. */
int heredoc_note(struct heredoc_reader *r, const char *instruction, const char *args, struct err *e);
/* The here-documents that the arguments of RUN, COPY or ADD begin: their number, -1: more than HEREDOCS_MAX. */
int heredoc_find(const char *args, char escape, struct heredoc ret[HEREDOCS_MAX]);
/*
 * The instruction, with flags as they stand, its arguments and the n here-documents, as lines of a
 * Dockerfile, to the end of out.  ERR_INVALID, ERR_UNSUPPORTED.
 */
int heredoc_write(struct heredoc_reader *r, const char *instruction, const char *flags, const char *args, const struct heredoc *d, int n,
		  struct buf *out, struct err *e);

#endif
