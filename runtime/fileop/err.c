/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of base/ that the helper carries, compiled for its own libc. */
#include "base/err.c"
