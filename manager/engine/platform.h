/* SPDX-License-Identifier: Apache-2.0 */
/* platform - what a client names a platform by, as containerd reads it: "linux", "amd64", "linux/arm/v7".  Pure. */
#ifndef BERTH_MANAGER_ENGINE_PLATFORM_H
#define BERTH_MANAGER_ENGINE_PLATFORM_H

#include <stddef.h>

#include "base/err.h"

#define ENGINE_PLATFORM 120 /* bytes with the NUL */

/* "OS/ARCH[/VARIANT]" in small letters; "" for NULL and "".  ERR_INVALID in Docker's words. */
int engine_platform(const char *text, char ret[ENGINE_PLATFORM], struct err *e);
/* And it is linux, which an image must be that is made here. */
int engine_platform_local(const char *text, char ret[ENGINE_PLATFORM], struct err *e);

#endif
