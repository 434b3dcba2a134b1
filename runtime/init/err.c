/* SPDX-License-Identifier: Apache-2.0 */
/* The one piece of base/ that init carries, compiled for its own libc. */
#include "base/err.c"
