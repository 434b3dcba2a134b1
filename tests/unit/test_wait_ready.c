/* SPDX-License-Identifier: Apache-2.0 */
/* What berth wait reads: the kernel's list of sockets, and the lines of a log. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/buf.h"
#include "cli/live/wait_ready.h"
#include "runtime/kernel/listening.h"

Test(listening, a_line_tells_the_port_of_a_socket_that_listens)
{
	uint16_t port = 1;

	cr_assert_eq(listening_line("  sl  local_address rem_address   st tx_queue rx_queue", &port), 0);
	cr_assert_eq(listening_line("   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000", &port), 1);
	cr_assert_eq(port, 8080);
	cr_assert_eq(listening_line("  12: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A",
				    &port), 1);
	cr_assert_eq(port, 80);
}

Test(listening, after_the_last_that_listens_nothing_is_of_interest)
{
	uint16_t port = 1;

	cr_assert_eq(listening_line("   1: 0100007F:1F90 0100007F:C001 01 00000000:00000000", &port), -1);
	cr_assert_eq(listening_line("   1: 0100007F:1F90", &port), -1);
	cr_assert_eq(listening_line("", &port), -1);
	cr_assert_eq(port, 1);
}

/* The lines as they were given, "+" before one that was cut and "~" after one that has not ended. */
static void note(void *ctx, const struct log_line *l, int ended)
{
	struct err e;

	buf_addf(ctx, &e, "%s%.*s%s|", l->cut ? "+" : "", l->len > 40 ? 4 : (int)l->len, l->text, ended ? "" : "~");
}

static struct log_line line;

Test(log_line, pieces_make_lines)
{
	autobuf struct buf b = BUF_INIT(4096);

	memset(&line, 0, sizeof(line));
	log_line_add(&line, "a\nbc", 4, note, &b);
	log_line_add(&line, "", 0, note, &b);
	log_line_add(&line, "d\n\ne", 4, note, &b);
	cr_assert_str_eq(b.data, "a|bcd||");
	cr_assert_eq(line.len, 1);
}

Test(log_line, of_a_long_line_each_half_is_seen_with_the_next)
{
	static char text[LOG_LINE * 2];
	autobuf struct buf b = BUF_INIT(4096);

	memset(&line, 0, sizeof(line));
	memset(text, 'x', sizeof(text));
	memcpy(text + LOG_LINE / 2, "half", 4);
	memcpy(text + LOG_LINE, "full", 4);
	log_line_add(&line, text, sizeof(text), note, &b);
	log_line_add(&line, "\n", 1, note, &b);
	cr_assert_str_eq(b.data, "xxxx~|+half~|+full~|+xxxx|");
	/* a line of exactly the limit */
	log_line_add(&line, text, LOG_LINE, note, &b);
	cr_assert(line.cut);
}
