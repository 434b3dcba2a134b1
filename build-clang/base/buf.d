build-clang/base/buf.o: base/buf.c base/buf.h base/err.h

base/buf.h:

base/err.h:
