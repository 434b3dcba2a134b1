/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "manager/api/body.h"
#include "manager/api/daytona_create.h"

Test(daytona_create, a_dockerfile_of_one_from_names_its_image)
{
	static const struct {
		const char *text, *image;
		int r;
	} files[] = {
		{"FROM debian:12\n", "debian:12", 1},
		{"# c\n\n  from registry.test:5000/a/b@sha256:0 AS x\n", "registry.test:5000/a/b@sha256:0", 1},
		{"FROM a\nRUN true", "a", 0},
		{"FROM a\nFROM b", "a", 0},
		{"RUN true\n", "", -1},
		{"FROM\n", "", -1},
		{"FROM --platform=x a\n", "", -1},
		{"", "", -1},
	};
	char image[512];
	struct err e;
	size_t i;

	for (i = 0; i < sizeof(files) / sizeof(*files); i++) {
		cr_assert_eq(daytona_from(files[i].text, image, &e), files[i].r, "%s", files[i].text);
		if (files[i].r >= 0)
			cr_assert_str_eq(image, files[i].image);
	}
}

Test(daytona_create, minutes_mean_what_daytona_means)
{
	struct err e;
	json_int_t s;

	cr_assert(daytona_interval_seconds(DAYTONA_STOP, 15, &s, &e) == 0 && s == 900);
	cr_assert(daytona_interval_seconds(DAYTONA_STOP, 0, &s, &e) == 0 && s == 0);
	cr_assert(daytona_interval_seconds(DAYTONA_ARCHIVE, 0, &s, &e) == 0 && s == DAYTONA_ARCHIVE_MAX * 60);
	cr_assert(daytona_interval_seconds(DAYTONA_DELETE, -1, &s, &e) == 0 && s == 0);
	cr_assert(daytona_interval_seconds(DAYTONA_DELETE, 0, &s, &e) == 0 && s == 1, "0 is at once, and the manager's 0 is never");
	cr_assert(daytona_interval_seconds(DAYTONA_STOP, -1, &s, &e) < 0 && daytona_interval_seconds(DAYTONA_ARCHIVE, 1 << 30, &s, &e) < 0);
}

/* ---- formstream ---- */

struct seen {
	char text[4096];
	size_t n;
};

static void add(struct seen *s, const char *p, size_t n)
{
	memcpy(s->text + s->n, p, n);
	s->n += n;
}

static int begin(void *ctx, const struct form_part *p, struct err *e)
{
	(void)e;
	add(ctx, "[", 1);
	add(ctx, p->name, strlen(p->name));
	add(ctx, ":", 1);
	return 0;
}

static int data(void *ctx, const char *p, size_t n, struct err *e)
{
	(void)e;
	add(ctx, p, n);
	return 0;
}

static int end(void *ctx, struct err *e)
{
	(void)e;
	add(ctx, "]", 1);
	return 0;
}

Test(formstream, a_form_is_the_same_in_pieces_of_any_size)
{
	static const char form[] = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--\r\n-x\r\n--x\r\n"
				   "Content-Disposition: form-data; name=\"b\"; filename=\"f\"\r\nX: y\r\n\r\n\r\n--x--\r\nafter";
	size_t piece, at;

	for (piece = 1; piece <= sizeof(form); piece++) {
		struct seen s = {.n = 0};
		struct formstream f = {.begin = begin, .data = data, .end = end, .ctx = &s};
		struct err e;

		formstream_init(&f, "--x");
		for (at = 0; at < sizeof(form) - 1; at += piece)
			cr_assert_eq(formstream_feed(&f, form + at, sizeof(form) - 1 - at < piece ? sizeof(form) - 1 - at : piece, &e), 0, "%s", e.msg);
		cr_assert_eq(formstream_end(&f, &e), 0);
		s.text[s.n] = '\0';
		/* "--" and "-x" begin like the separator */
		cr_assert_str_eq(s.text, "[a:one\r\n--\r\n-x][b:]", "pieces of %zu: %s", piece, s.text);
		formstream_release(&f);
	}
}
