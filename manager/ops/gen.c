/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops-gen - prints declarations of a sandbox's options (manager/ops/params.def) for other
 * languages, and the codes of errors (base/err.h):
 *
 *   ops-gen python         the classes of clients/python/berth/_options.py
 *   ops-gen typescript     the interfaces of clients/javascript/src/index.d.ts
 *   ops-gen errors         the table of doc/errors.md
 *
 * `make options` writes them into those files, between two marks; lint says when they differ.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "manager/ops/params.h"

static const struct {
	const char *name;
	unsigned of;
	const char *about;
} groups[] = {
	{ "CreateOptions", PARAM_OF_CREATE, "The options of berth-create(1): the hyphens of their names are capitals here." },
	{ "UpdateOptions", PARAM_OF_UPDATE, "Those of berth-update(1)." },
	{ "ZygoteOptions", PARAM_OF_ZYGOTE, "Those of berth-zygote(1), for the zygote and for each fork." },
	{ "ForkOptions", PARAM_OF_FORK, "Those of berth-fork(1)." },
};

enum kind { KIND_BOOL, KIND_INT, KIND_SIZE, KIND_NUMBER, KIND_TEXT, KIND_LIST, KIND_PAIRS, KINDS };

static enum kind param_kind(const struct param *p)
{
	switch (p->type) {
	case PARAM_FLAG:
		return KIND_BOOL;
	case PARAM_COUNT:
		return p->unlimited ? KIND_SIZE : KIND_INT;
	case PARAM_SIZE:
		return KIND_SIZE;
	case PARAM_MILLI:
	case PARAM_TIME:
		return KIND_NUMBER;
	case PARAM_LIST:
		return KIND_LIST;
	case PARAM_PAIRS:
		return KIND_PAIRS;
	default:
		return p->number_too ? KIND_SIZE : KIND_TEXT;
	}
}

static void print_python(void)
{
	static const char *const types[KINDS] = { "bool", "int", "Union[int, str]", "Number", "str", "Strings", "Pairs" };
	const struct param *p;
	const char *c;
	size_t i;

	for (i = 0; i < ARRAY_LEN(groups); i++) {
		printf("\n\nclass %s(TypedDict, total=False):\n", groups[i].name);
		for (p = param_next(PARAM_NONE, groups[i].of); p; p = param_next(p->opt.id, groups[i].of)) {
			if (!param_is_told(p, groups[i].of))
				continue;
			printf("    ");
			for (c = p->opt.name; *c; c++)
				putchar(*c == '-' ? '_' : *c);
			printf(": %s\n", types[param_kind(p)]);
		}
	}
}

static void print_typescript(void)
{
	static const char *const types[KINDS] = { "boolean", "number", "number | string", "number | string", "string",
						  "string | readonly string[]", "Pairs" };
	const struct param *p;
	const char *c;
	size_t i;

	for (i = 0; i < ARRAY_LEN(groups); i++) {
		printf("%s/** %s */\nexport interface %s extends Abortable {\n", i ? "\n" : "", groups[i].about, groups[i].name);
		for (p = param_next(PARAM_NONE, groups[i].of); p; p = param_next(p->opt.id, groups[i].of)) {
			if (!param_is_told(p, groups[i].of))
				continue;
			printf("  ");
			for (c = p->opt.name; *c; c++)
				putchar(*c == '-' ? toupper((unsigned char)*++c) : *c);
			printf("?: %s;\n", types[param_kind(p)]);
		}
		printf("}\n");
	}
}

static void print_errors(void)
{
	static const struct {
		const char *name, *about;
		int exit_status, http;
	} codes[] = {
#define X(sym, name, exit_status, http, about) { name, about, exit_status, http },
		ERR_CODES(X)
#undef X
	};
	size_t i;

	printf("| code | exit status | HTTP status | meaning |\n|---|---|---|---|\n");
	for (i = ERR_NONE + 1; i < ARRAY_LEN(codes); i++)
		printf("| `%s` | %d | %d | %s |\n", codes[i].name, codes[i].exit_status, codes[i].http, codes[i].about);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "python"))
		return print_python(), 0;
	if (argc == 2 && !strcmp(argv[1], "typescript"))
		return print_typescript(), 0;
	if (argc == 2 && !strcmp(argv[1], "errors"))
		return print_errors(), 0;
	fprintf(stderr, "usage: ops-gen python|typescript|errors\n");
	return 2;
}
