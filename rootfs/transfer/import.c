/* SPDX-License-Identifier: Apache-2.0 */
#include "rootfs/transfer/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "rootfs/transfer/importer.h"

/*
 * Opens the source.  "PATH:REF" is looked at only when the whole is not a path;
 * the REF may hold a colon itself ("images.tar:debian:12").
 */
static int open_source(const char *source, const char **ret_ref, struct err *e)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	int fd = open(source, flags), first = errno;
	const char *colon = strchr(source, ':');

	*ret_ref = NULL;
	for (; fd < 0 && first == ENOENT && colon; colon = strchr(colon + 1, ':')) {
		autofree char *path = strndup(source, (size_t)(colon - source));

		if (!path)
			return err_nomem(e);
		if (*path && colon[1])
			fd = open(path, flags);
		if (fd >= 0)
			*ret_ref = colon + 1;
	}
	if (fd < 0) {
		errno = first;
		err_code_sys(e, first == ENOENT ? ERR_NOT_FOUND : ERR_SYS, "open %.300s", source);
		if (first == ENOENT)
			err_hint(e, "SOURCE is an OCI layout, a docker-save archive, a root file system "
				 "directory or its tar, or - for stdin");
		return -1;
	}
	return fd;
}

static int import_source(struct importer *im, struct err *e)
{
	const char *source = im->opts->source, *ref = NULL;
	autoclose int fd = -1;
	struct stat st;

	if (im->opts->stream_fd > 0)
		return import_archive(im, im->opts->stream_fd, NULL, e);
	if (!strcmp(source, "-")) {
		if (isatty(0))
			return err_set(e, ERR_USAGE, "stdin is a terminal; hint: berth image import - NAME < FILE");
		return import_archive(im, 0, NULL, e);
	}
	fd = open_source(source, &ref, e);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at %.300s", source);
	if (S_ISDIR(st.st_mode))
		return import_directory(im, fd, ref, e);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID, "%.300s is neither a file nor a directory; hint: for a pipe, "
			       "berth image import - NAME < PIPE", source);
	return import_archive(im, fd, ref, e);
}

/* Before any work: a bad name or platform. */
static int check_options(struct importer *im, struct err *e)
{
	struct ref name;

	if (im->opts->platform ? oci_platform_parse(im->opts->platform, &im->want, e) < 0 : 0)
		return -1;
	if (!im->opts->platform)
		oci_platform_host(&im->want);
	return im->opts->name ? importer_name(im, "", &name, e) : 0;
}

json_t *import_run(int store_fd, const struct import_options *opts, struct err *e)
{
	struct importer im = { .opts = opts };
	int rc;

	if (check_options(&im, e) < 0 || importer_begin(&im, store_fd, e) < 0)
		return NULL;
	im.results = json_array();
	rc = im.results ? import_source(&im, e) : err_nomem(e);
	importer_end(&im);
	if (rc < 0) {
		json_decref(im.results);
		return NULL;
	}
	return im.results;
}
