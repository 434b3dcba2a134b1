build-clang/base/err.o: base/err.c base/err.h

base/err.h:
