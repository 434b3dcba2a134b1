/* SPDX-License-Identifier: Apache-2.0 */
/* format - --format TEMPLATE of the commands that show records. */
#ifndef BERTH_CLI_LOOK_FORMAT_H
#define BERTH_CLI_LOOK_FORMAT_H

#include "base/json.h"
#include "base/template.h"

#define FORMAT_OPTION(id, letter) { "format", letter, OPT_VALUE, "TEMPLATE", "print what a Go template makes of it, such as '{{.id}}', or json", id }

/* text: a template, whose \t and \n outside actions are a tab and a newline, or the word json.  NULL with the error. */
struct template *format_parse(const char *text, struct err *e);
/* A line on stdout. */
int format_print(const struct template *t, const json_t *record, struct err *e);

#endif
