build-clang/base/io.o: base/io.c base/io.h base/buf.h base/err.h \
  base/mem.h

base/io.h:

base/buf.h:

base/err.h:

base/mem.h:
