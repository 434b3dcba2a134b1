build-clang/base/path.o: base/path.c base/path.h base/err.h base/mem.h

base/path.h:

base/err.h:

base/mem.h:
