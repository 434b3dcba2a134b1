/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storedfolder - workspaces in the storage (storage_path), and how many bytes of a tenant they are.
 *
 * A tenant's folder is tenants/TENANT/..., and stored-folder/t/TENANT/SHA256 of its path in the ledger has its bytes: its pieces,
 * not compressed, each once, and its manifest. They are counted with the tenant's checkpoints (storedsum.h), before they are sent.
 * While a folder is stored again it counts for the larger of both. Upholds S41 of SECURITY.md.
 */
#ifndef BERTH_MANAGER_SERVICE_STOREDFOLDER_H
#define BERTH_MANAGER_SERVICE_STOREDFOLDER_H

#include "manager/service/service.h"

/* storage_put_folder(); ERR_LIMIT, and the folder is as it was, when it is more than its tenant may have. */
int storedfolder_put(struct service *s, const char *path, int dir_fd, struct err *e);

#endif
