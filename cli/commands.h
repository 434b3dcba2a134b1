/* SPDX-License-Identifier: Apache-2.0 */
/* commands - one declaration per row of the table in commands.c. */
#ifndef BERTH_CLI_COMMANDS_H
#define BERTH_CLI_COMMANDS_H

#include <stdint.h>

#include "cli/command.h"

extern const struct command cmd_run;
extern const struct command cmd_create;
extern const struct command cmd_run_detached;	/* what cmd_run becomes with --detach; in no list */
extern const struct command cmd_run_zygote;	/* and with --zygote */
extern const struct command cmd_zygote_create;
extern const struct command cmd_zygote_ls;
extern const struct command cmd_zygote_inspect;
extern const struct command cmd_zygote_rm;
extern const struct command cmd_start;
extern const struct command cmd_stop;
extern const struct command cmd_restart;
extern const struct command cmd_pause;
extern const struct command cmd_resume;
extern const struct command cmd_kill;
extern const struct command cmd_exec;
extern const struct command cmd_sh;
extern const struct command cmd_commands;
extern const struct command cmd_output;
extern const struct command cmd_attach;
extern const struct command cmd_send;
extern const struct command cmd_signal;
extern const struct command cmd_wait;
extern const struct command cmd_shell;
extern const struct command cmd_stdio;
extern const struct command cmd_mcp;
extern const struct command cmd_stats;
extern const struct command cmd_top;
extern const struct command cmd_grant;
extern const struct command cmd_rename;
extern const struct command cmd_update;
extern const struct command cmd_cp;
extern const struct command cmd_file_read;
extern const struct command cmd_file_write;
extern const struct command cmd_file_ls;
extern const struct command cmd_file_stat;
extern const struct command cmd_file_mkdir;
extern const struct command cmd_file_rm;
extern const struct command cmd_file_mv;
extern const struct command cmd_code;
extern const struct command cmd_diff;
extern const struct command cmd_logs;
extern const struct command cmd_events;
extern const struct command cmd_port;
extern const struct command cmd_forward;
extern const struct command cmd_ssh;
extern const struct command cmd_ssh_config;
extern const struct command cmd_ssh_proxy;
extern const struct command cmd_forward_ls;
extern const struct command cmd_forward_rm;
extern const struct command cmd_network_ls;
extern const struct command cmd_network_create;
extern const struct command cmd_network_rm;
extern const struct command cmd_network_prune;
extern const struct command cmd_network_update;
extern const struct command cmd_network_connect;
extern const struct command cmd_network_disconnect;
extern const struct command cmd_network_inspect;
extern const struct command cmd_network_log;
extern const struct command cmd_volume_create;
extern const struct command cmd_volume_ls;
extern const struct command cmd_volume_inspect;
extern const struct command cmd_volume_rm;
extern const struct command cmd_volume_prune;
extern const struct command cmd_checkpoint_rm;
extern const struct command cmd_checkpoint_export;
extern const struct command cmd_checkpoint_import;
extern const struct command cmd_checkpoint_store;
extern const struct command cmd_checkpoint_stored;
extern const struct command cmd_checkpoint_restore;
extern const struct command cmd_checkpoint_discard;
extern const struct command cmd_checkpoint;
extern const struct command cmd_checkpoints;
extern const struct command cmd_undo;
extern const struct command cmd_fork;
extern const struct command cmd_commit;
extern const struct command cmd_ps;
extern const struct command cmd_inspect;
extern const struct command cmd_rm;
extern const struct command cmd_guard;
extern const struct command cmd_op;
extern const struct command cmd_build;
extern const struct command cmd_open_files;
extern const struct command cmd_prune;
extern const struct command cmd_gc;
extern const struct command cmd_ui;
extern const struct command cmd_image;
extern const struct command cmd_pull;
extern const struct command cmd_push;
extern const struct command cmd_login;
extern const struct command cmd_logout;
extern const struct command cmd_save;
extern const struct command cmd_load;
extern const struct command cmd_system_df;
extern const struct command cmd_system_prune;
extern const struct command cmd_system_pool;
extern const struct command cmd_config_show;
extern const struct command cmd_config_check;
extern const struct command cmd_doctor;
extern const struct command cmd_completion;

#endif
