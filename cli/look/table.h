/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table - rows of cells, printed in columns that are as wide as what is in them.
 *
 * Pure but for table_print().  A cell is cleaned when it is added: names and commands come from
 * strangers.  Where the width is bounded, the columns with the highest "spare" are left out first,
 * and the last column is cut; columns with a spare of 0 always stay.
 */
#ifndef BERTH_CLI_LOOK_TABLE_H
#define BERTH_CLI_LOOK_TABLE_H

#include <stddef.h>

#include "base/err.h"

#define TABLE_COLUMNS 16
#define TABLE_CELL_MAX 128	/* bytes of a cell; more are cut */

struct table_column {
	const char *title;
	unsigned spare;
	int right;		/* numbers */
};

struct table {
	const struct table_column *columns;	/* borrowed */
	size_t column_count;			/* at most TABLE_COLUMNS */
	char **cells;				/* row after row */
	size_t count, cap;
};

/* A row: one text for each column, "" for none.  -1 with ERR_NOMEM. */
int table_add(struct table *t, const char *const *cells, struct err *e);
/* The titles and at most rows rows; width 0: of any width.  Each line ends with end. */
void table_print(const struct table *t, size_t width, size_t rows, const char *end);
void table_free(struct table *t);
/* The columns of the terminal that stdout is; 0: it is none. */
size_t table_terminal_width(void);

#endif
