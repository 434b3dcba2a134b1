build-clang/base/log.o: base/log.c base/log.h base/err.h base/io.h \
  base/buf.h

base/log.h:

base/err.h:

base/io.h:

base/buf.h:
