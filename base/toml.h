/* SPDX-License-Identifier: Apache-2.0 */
/*
 * toml - a strict reader of TOML 1.0, for configuration files.
 *
 * Pure: text in, a jansson document out. Narrower than the standard where a configuration gains
 * nothing: dates and times, inf and nan, and U+0000 are refused with their own errors. CRLF in a
 * multi-line string is read as LF. Bounded in size, depth and number of keys; each error names
 * file, line and column (in characters, from 1).
 */
#ifndef BERTH_BASE_TOML_H
#define BERTH_BASE_TOML_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"

#define TOML_BYTES_MAX (1024 * 1024)
#define TOML_DEPTH_MAX 32	/* tables and arrays within each other, header and dotted keys included */
#define TOML_KEYS_MAX 16384	/* keys and tables in one document */

/*
 * Returns a new reference to an object, or NULL with ERR_INVALID; what names
 * the document.  Tables become objects, integers are 64 bits signed.
 */
json_t *toml_parse(const char *text, size_t n, const char *what, struct err *e);

#endif
