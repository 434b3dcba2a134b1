/* SPDX-License-Identifier: Apache-2.0 */
/* attestation - --attest of berth run. */
#ifndef BERTH_CLI_RUN_ATTESTATION_H
#define BERTH_CLI_RUN_ATTESTATION_H

#include "runtime/sandbox/launch.h"

/* Prints on stderr what the kernel reports of a launched sandbox, before its command starts. */
int attestation_print(struct sandbox *sb, struct err *e);

#endif
