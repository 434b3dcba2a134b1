build-clang/base/json.o: base/json.c base/json.h base/err.h

base/json.h:

base/err.h:
