# SPDX-License-Identifier: Apache-2.0
"""
berth for agent frameworks: a module for each, which imports its framework and nothing else.

Each takes `client`, a berth.Berth or berth.AsyncBerth to share, or makes one of its own by the environment
(BERTH_HOST, BERTH_TOKEN), and the options of create() for its sandboxes.
"""
