/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay_main - a main for a fuzz target, without libFuzzer: feeds it every
 * file of the corpus directories (or files) named, and a few inputs that
 * every parser must survive.  Any crash or sanitizer report is the failure.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long fed;

/* In memory of its exact size, so that a read past the end is seen. */
static void feed(const void *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
	fed++;
}

static void feed_file(const char *path, size_t size)
{
	FILE *f = fopen(path, "rb");
	char *data = malloc(size ? size : 1);

	if (!f || !data || fread(data, 1, size, f) != size) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(1);
	}
	fclose(f);
	/* when it crashes, this is the last line */
	printf("%s\n", path);
	fflush(stdout);
	feed(data, size);
	free(data);
}

static void feed_path(const char *path)
{
	struct stat st;

	if (stat(path, &st)) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(1);
	}
	if (S_ISREG(st.st_mode)) {
		feed_file(path, (size_t)st.st_size);
		return;
	}
	if (!S_ISDIR(st.st_mode))
		return;
	struct dirent **names;
	int n = scandir(path, &names, NULL, alphasort);

	for (int i = 0; i < n; i++) {
		char below[4096];

		if (names[i]->d_name[0] != '.' &&
		    snprintf(below, sizeof(below), "%s/%s", path, names[i]->d_name) < (int)sizeof(below))
			feed_path(below);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
}

int main(int argc, char **argv)
{
	static uint8_t page[4096];

	feed("", 0);
	feed(page, 1);
	feed(page, sizeof(page));
	memset(page, 0xff, sizeof(page));
	feed(page, sizeof(page));
	memset(page, '[', sizeof(page));
	feed(page, sizeof(page));
	memset(page, '9', sizeof(page));
	feed(page, sizeof(page));
	for (int i = 1; i < argc; i++)
		feed_path(argv[i]);
	printf("%lu inputs\n", fed);
	return 0;
}
