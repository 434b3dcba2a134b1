/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run/attestation.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "runtime/sandbox/attest.h"

int attestation_print(struct sandbox *sb, struct err *e)
{
	autojson json_t *j = NULL;
	autofree char *text = NULL;

	if (attest_ready(sb, e) < 0)
		return -1;
	j = attest_report(sb->pid, &sb->cgroup, e);
	text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
	if (!text)
		return j ? err_nomem(e) : -1;
	if (io_write_all(STDERR_FILENO, text, strlen(text)) < 0 ||
	    io_write_all(STDERR_FILENO, "\n", 1) < 0)
		return err_sys(e, "write the attestation");
	return 0;
}
