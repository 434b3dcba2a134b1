/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/api/runlang.h"

#include <string.h>

#include "base/mem.h"

#define LANGUAGES(X) \
	X(bash, "main.sh", WORDS(), WORDS("bash", "main.sh")) \
	X(c, "main.c", WORDS("gcc", "-O2", "main.c", "-o", "main", "-lm"), WORDS("./main")) \
	X(cpp, "main.cpp", WORDS("g++", "-std=c++17", "-O2", "main.cpp", "-o", "main"), \
	  WORDS("./main")) \
	X(csharp, "main.cs", WORDS("mcs", "main.cs"), WORDS("mono", "main.exe")) \
	X(D_ut, "main.d", WORDS(), WORDS("rdmd", "-unittest", "main.d")) \
	X(go, "main.go", WORDS("go", "build", "-o", "main", "main.go"), WORDS("./main")) \
	X(go_test, "main_test.go", WORDS(), WORDS("go", "test", "main_test.go")) \
	X(java, "Main.java", WORDS("javac", "Main.java"), WORDS("java", "-cp", ".", "Main")) \
	X(javascript, "main.js", WORDS(), WORDS("node", "main.js")) \
	X(julia, "main.jl", WORDS(), WORDS("julia", "main.jl")) \
	X(kotlin_script, "main.kts", WORDS(), WORDS("kotlin", "main.kts")) \
	X(lua, "main.lua", WORDS(), WORDS("lua", "main.lua")) \
	X(nodejs, "main.js", WORDS(), WORDS("node", "main.js")) \
	X(perl, "main.pl", WORDS(), WORDS("perl", "main.pl")) \
	X(php, "main.php", WORDS(), WORDS("php", "-f", "main.php")) \
	X(pytest, "test_main.py", WORDS(), WORDS("python3", "-m", "pytest", "test_main.py")) \
	X(python, "main.py", WORDS(), WORDS("python3", "main.py")) \
	X(R, "main.R", WORDS(), WORDS("Rscript", "main.R")) \
	X(racket, "main.rkt", WORDS(), WORDS("racket", "main.rkt")) \
	X(ruby, "main.rb", WORDS(), WORDS("ruby", "main.rb")) \
	X(rust, "main.rs", WORDS("rustc", "-O", "main.rs", "-o", "main"), WORDS("./main")) \
	X(scala, "main.scala", WORDS(), WORDS("scala", "main.scala")) \
	X(sql, "main.sql", WORDS(), WORDS("sqlite3", "-bail", "-init", "main.sql", ":memory:", "")) \
	X(swift, "main.swift", WORDS("swiftc", "main.swift", "-o", "main"), WORDS("./main")) \
	X(typescript, "main.ts", WORDS(), WORDS("tsx", "main.ts")) \
	X(verilog, "main.v", WORDS("iverilog", "-o", "main", "main.v"), WORDS("vvp", "main"))

static const struct runlang languages[] = {
#define WORDS(...) { __VA_ARGS__ }
#define X(name, file, compile, run) { #name, file, compile, run },
	LANGUAGES(X)
#undef X
};

const struct runlang *runlang_find(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_LEN(languages); i++)
		if (!strcmp(languages[i].name, name))
			return &languages[i];
	return NULL;
}

const char *runlang_names(void)
{
#define X(name, ...) ", " #name
	static const char names[] = LANGUAGES(X);
#undef X

	return names + 2;
}

json_t *runlang_argv(const char *const *words)
{
	json_t *list = json_array();

	for (; *words; words++)
		json_array_append_new(list, json_string(*words));
	return list;
}
