build-clang/base/num.o: base/num.c base/num.h base/err.h base/mem.h

base/num.h:

base/err.h:

base/mem.h:
