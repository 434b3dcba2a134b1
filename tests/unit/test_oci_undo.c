/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "runtime/oci/resources.h"

static char place[64];
static int dir = -1;

static void setup(void)
{
	snprintf(place, sizeof(place), "/tmp/berth-undo-XXXXXX");
	cr_assert(mkdtemp(place));
	dir = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert(dir >= 0);
}

static void tear_down(void)
{
	fd_close(&dir);
	rmdir(place);
}

TestSuite(oci_undo, .init = setup, .fini = tear_down);

/* What has to be written to file, which holds content, after text was written to it. */
static const char *restored(const char *file, const char *content, const char *text)
{
	static char out[256];
	struct oci_undo u = { 0 };
	struct err e = { 0 };

	cr_assert_eq(io_replace_file(dir, file, content, strlen(content), 0600, 0, &e), 0, "%s", e.msg);
	cr_assert_eq(oci_undo_note(&u, dir, file, text, &e), 0, "%s", e.msg);
	snprintf(out, sizeof(out), "%s", u.list[0].text ? u.list[0].text : "(nothing)");
	cr_assert_eq(oci_undo_restore(&u, &e), 0, "%s", e.msg);
	oci_undo_release(&u);
	cr_assert_eq(unlinkat(dir, file, 0), 0);
	return out;
}

Test(oci_undo, a_file_of_one_value_gets_it_back)
{
	cr_assert_str_eq(restored("cpu.shares", "1024\n", "512"), "1024");
	cr_assert_str_eq(restored("cpu.max", "max 100000\n", "50000 100000"), "max 100000");
	cr_assert_str_eq(restored("cpuset.cpus", "\n", "0-1"), "\n");
	cr_assert_str_eq(restored("cpuset.cpus", "", "0-1"), "\n");
	cr_assert_str_eq(restored("memory.oom_control", "oom_kill_disable 1\nunder_oom 0\n", "0"), "1");
}

Test(oci_undo, a_file_of_lines_gets_the_line_of_its_device_back)
{
	cr_assert_str_eq(restored("io.max", "7:1 rbps=1 wbps=max riops=max wiops=max\n7:0 rbps=2 wbps=max riops=max wiops=max\n",
				  "7:0 rbps=5"), "7:0 rbps=2 wbps=max riops=max wiops=max");
	cr_assert_str_eq(restored("io.max", "", "7:0 rbps=5"), "7:0 rbps=max wbps=max riops=max wiops=max");
	cr_assert_str_eq(restored("blkio.throttle.read_bps_device", "7:11 5\n", "7:1 9"), "7:1 0");
	cr_assert_str_eq(restored("io.bfq.weight", "default 100\n", "7:0 5"), "7:0 default");
	cr_assert_str_eq(restored("net_prio.ifpriomap", "lo 0\neth0 3\n", "eth0 5"), "eth0 3");
}

Test(oci_undo, what_was_not_there_or_not_written_is_left_alone)
{
	struct oci_undo u = { 0 };
	struct err e = { 0 };

	cr_assert_eq(oci_undo_note(&u, dir, "cpu.idle", "1", &e), 0);
	oci_undo_drop(&u);
	oci_undo_drop(&u);
	cr_assert_eq(u.count, 0u);
	cr_assert_eq(oci_undo_note(&u, dir, "cpu.idle", "1", &e), 0);
	cr_assert_eq(oci_undo_restore(&u, &e), 0, "%s", e.msg);
	oci_undo_release(&u);
}
