/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image/pullview.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/image/imagecmd.h"

#define BAR 30
#define DRAW_MS 100

/* ---- bars ---- */

static void clear_bars(struct pullview *v)
{
	if (v->drawn)
		fprintf(stderr, "\033[%dA\r\033[J", v->drawn);
	v->drawn = 0;
}

static void draw_layer(const struct pullview_layer *l)
{
	char done[24], all[24], bar[BAR + 1];
	size_t filled = l->total ? (size_t)(l->bytes * BAR / l->total) : BAR;

	if (filled > BAR)
		filled = BAR;
	memset(bar, '-', BAR);
	memset(bar, '#', filled);
	bar[BAR] = '\0';
	imagecmd_bytes(l->bytes, done);
	imagecmd_bytes(l->total, all);
	fprintf(stderr, "%s [%s] %s of %s\n", l->id, bar, done, all);
}

static int rows_for_bars(void)
{
	struct winsize w;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row > 3 ? w.ws_row - 2 : 10;
}

static void draw(struct pullview *v)
{
	char done[24], all[24], rate[24];
	uint64_t bytes = 0, total = 0, came = 0, ms = clock_ms() - v->began_ms;
	size_t i, whole = 0;
	int room = rows_for_bars();

	clear_bars(v);
	for (i = 0; i < v->count; i++) {
		const struct pullview_layer *l = &v->layers[i];
		int is_here = l->state == PULL_DONE || l->state == PULL_EXISTS;

		whole += (size_t)is_here;
		total += l->total;
		bytes += is_here ? l->total : l->bytes;
		came += l->state == PULL_EXISTS ? 0 : l->bytes;
	}
	imagecmd_bytes(bytes, done);
	imagecmd_bytes(total, all);
	imagecmd_bytes(ms ? came * 1000 / ms : 0, rate);
	fprintf(stderr, "layers %zu/%zu, %s of %s, %s/s\n", whole, v->count, done, all, rate);
	v->drawn = 1;
	for (i = 0; i < v->count && v->drawn < room; i++) {
		if (v->layers[i].state != PULL_RUNNING)
			continue;
		draw_layer(&v->layers[i]);
		v->drawn++;
	}
	fflush(stderr);
}

static int has_layer_rows(struct pullview *v, size_t count)
{
	void *more;

	if (count <= v->count)
		return 1;
	more = reallocarray(v->layers, count, sizeof(*v->layers));
	if (!more)
		return 0;
	v->layers = more;
	memset(v->layers + v->count, 0, (count - v->count) * sizeof(*v->layers));
	v->count = count;
	return 1;
}

static void show_bars(struct pullview *v, const struct pull_event *ev)
{
	struct pullview_layer *l;
	uint64_t now = clock_ms();
	int changed;

	if (!v->began_ms)
		v->began_ms = now;
	if (ev->kind == PULL_RESOLVED)
		has_layer_rows(v, ev->layers);
	if (ev->kind != PULL_LAYER || !has_layer_rows(v, ev->layer + 1))
		return;
	l = &v->layers[ev->layer];
	snprintf(l->id, sizeof(l->id), "%.12s", strchr(ev->digest, ':') ? strchr(ev->digest, ':') + 1 : ev->digest);
	changed = l->state != ev->state;
	l->state = ev->state;
	l->bytes = ev->bytes;
	l->total = ev->total_bytes;
	if (!changed && now - v->drawn_ms < DRAW_MS)
		return;
	v->drawn_ms = now;
	draw(v);
}

/* ---- JSON ---- */

static void show_pull_json(const struct pull_event *ev)
{
	static const char *const states[] = { "waiting", "exists", "running", "done" };
	char text[512];
	json_t *j = NULL;

	log_clean(text, sizeof(text), ev->text ? ev->text : "", 0);
	switch (ev->kind) {
	case PULL_RESOLVED:
		j = json_pack("{s:s, s:s, s:I, s:I}", "event", "resolved", "digest", ev->digest, "layers",
			      (json_int_t)ev->layers, "total_bytes", (json_int_t)ev->total_bytes);
		break;
	case PULL_LAYER:
		j = json_pack("{s:s, s:I, s:s, s:s, s:I, s:I}", "event", "layer", "layer", (json_int_t)ev->layer, "digest",
			      ev->digest, "state", states[ev->state], "bytes", (json_int_t)ev->bytes, "total_bytes",
			      (json_int_t)ev->total_bytes);
		break;
	case PULL_RETRY:
		j = json_pack("{s:s, s:s, s:I}", "event", "retry", "why", text, "delay_ms", (json_int_t)ev->delay_ms);
		break;
	case PULL_NOTE:
		j = json_pack("{s:s, s:s}", "event", "note", "text", text);
		break;
	}
	if (j)
		imagecmd_print_json(j);
	json_decref(j);
	fflush(stdout);
}

void pullview_event(void *ctx, const struct pull_event *ev)
{
	struct pullview *v = ctx;

	if (v->mode == PULLVIEW_JSON) {
		show_pull_json(ev);
		return;
	}
	if (v->mode == PULLVIEW_BARS)
		show_bars(v, ev);
	if (v->mode == PULLVIEW_QUIET || (ev->kind != PULL_RETRY && ev->kind != PULL_NOTE))
		return;
	clear_bars(v);
	if (ev->kind == PULL_NOTE)
		log_note(v->prog, "note: %s", ev->text);
	else if (ev->delay_ms)
		log_note(v->prog, "%s; again in %.1f s", ev->text, (double)ev->delay_ms / 1000);
	else
		log_note(v->prog, "%s", ev->text);
}

void pullview_end(struct pullview *v)
{
	clear_bars(v);
	free(v->layers);
	v->layers = NULL;
	v->count = 0;
}
