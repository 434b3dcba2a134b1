/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pullview - the progress display of a pull or push: bars on a terminal, JSON lines on stdout,
 * or nothing.
 */
#ifndef BERTH_CLI_IMAGE_PULLVIEW_H
#define BERTH_CLI_IMAGE_PULLVIEW_H

#include "rootfs/registry/pull.h"

enum pullview_mode { PULLVIEW_QUIET, PULLVIEW_BARS, PULLVIEW_JSON };

struct pullview {
	const char *prog;		/* "berth pull", for notes */
	enum pullview_mode mode;
	struct pullview_layer {
		char id[13];
		enum pull_layer_state state;
		uint64_t bytes, total;
	} *layers;
	size_t count;
	int drawn;			/* lines of ours on the terminal */
	uint64_t drawn_ms, began_ms;
};

/* Shows one event; ctx is the struct pullview. */
void pullview_event(void *ctx, const struct pull_event *ev);
/* Takes the bars away and frees. */
void pullview_end(struct pullview *v);

#endif
