/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mcprev - the supported revisions of the Model Context Protocol, and the words of the newest:
 * for berth-mcp, which speaks the protocol, and for berthd, which carries it over HTTP.
 */
#ifndef BERTH_BASE_MCPREV_H
#define BERTH_BASE_MCPREV_H

#define MCPREV_MODERN "2026-07-28"	/* without sessions */
/* With sessions, the newest first. */
#define MCPREV_LEGACY "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"

/* Members of _meta (revision 2026-07-28). */
#define MCPREV_META_VERSION "io.modelcontextprotocol/protocolVersion"
#define MCPREV_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define MCPREV_META_SERVER "io.modelcontextprotocol/serverInfo"

#endif
