/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci_schema - the types of OCI runtime documents (runtime-spec 1.3, config.md,
 * config-linux.md), as one table.
 *
 * Members that the table does not know are ignored, as the spec asks; a member
 * of another type, or a number out of its range, is refused with its path.
 */
#ifndef BERTH_RUNTIME_OCI_SCHEMA_H
#define BERTH_RUNTIME_OCI_SCHEMA_H

#include <jansson.h>

#include "base/err.h"

enum oci_document {
	OCI_CONFIG,	/* config.json */
	OCI_PROCESS,	/* its process, which `exec --process` takes alone */
	OCI_RESOURCES,	/* its linux.resources, which `update --resources` takes alone */
};

/* what names the document in errors.  ERR_INVALID. */
int oci_schema_check(const json_t *doc, enum oci_document kind, const char *what, struct err *e);

#endif
