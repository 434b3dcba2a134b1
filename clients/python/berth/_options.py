# SPDX-License-Identifier: Apache-2.0
"""The options of create(), which are those of berth-create(1): the hyphens of their names are underscores here."""
from __future__ import annotations

from typing import Mapping, Sequence, TypedDict, Union

Strings = Union[str, Sequence[str]]
Pairs = Union[Mapping[str, str], Sequence[str]]
Number = Union[int, float, str]

# <options>


class CreateOptions(TypedDict, total=False):
    memory: Union[int, str]
    swap: Union[int, str]
    cpus: Number
    cpu_time: Number
    cpu_weight: int
    cpuset: str
    io_weight: int
    io_rate: Strings
    pids: Union[int, str]
    disk: Union[int, str]
    disk_inodes: int
    tmp_size: Union[int, str]
    shm_size: Union[int, str]
    timeout: Number
    grace: Number
    max_silent_time: Number
    ulimit: Strings
    env: Pairs
    workdir: str
    user: str
    hostname: str
    domainname: str
    mount: Strings
    volume: Strings
    tmpfs: Strings
    no_tmpfs: bool
    cgroup_files: bool
    device: Strings
    gpus: Union[int, str]
    read_only: bool
    network: str
    add_host: Strings
    alias: Strings
    link: Strings
    ip: Strings
    allow_host: Strings
    deny_host: Strings
    allow_net: Strings
    deny_net: Strings
    dns: Strings
    dns_search: Strings
    dns_option: Strings
    publish: Strings
    network_bytes: Union[int, str]
    network_connections: Union[int, str]
    network_rate: Union[int, str]
    cap_add: Strings
    cap_drop: Strings
    seccomp: str
    name: str
    tty: bool
    entrypoint: str
    label: Pairs
    idle_timeout: Number
    ttl: Number
    auto_remove: bool
    owner_pid: int
    owner_grace: Number
    budget: str
    health_cmd: str
    health_exec: str
    health_interval: Number
    health_timeout: Number
    health_retries: int
    health_start_period: Number
    health_start_interval: Number
    no_health: bool
    service: bool
    init_command: str
    terminal_size: str
    stop_signal: str
    stop_timeout: Number
    restart: str
    pull: str
    create_timeout: Number
    no_start: bool
    zygote: str


class UpdateOptions(TypedDict, total=False):
    memory: Union[int, str]
    cpus: Number
    io_weight: int
    io_rate: Strings
    pids: Union[int, str]
    allow_host: Strings
    deny_host: Strings
    allow_net: Strings
    deny_net: Strings
    reset_rules: bool
    network_bytes: Union[int, str]
    network_connections: Union[int, str]
    network_rate: Union[int, str]
    idle_timeout: Number
    ttl: Number
    owner_pid: int
    owner_grace: Number
    health_cmd: str
    health_exec: str
    health_interval: Number
    health_timeout: Number
    health_retries: int
    health_start_period: Number
    health_start_interval: Number
    no_health: bool
    restart: str


class ZygoteOptions(TypedDict, total=False):
    memory: Union[int, str]
    swap: Union[int, str]
    cpus: Number
    cpu_time: Number
    cpu_weight: int
    cpuset: str
    io_weight: int
    io_rate: Strings
    pids: Union[int, str]
    disk: Union[int, str]
    disk_inodes: int
    tmp_size: Union[int, str]
    shm_size: Union[int, str]
    timeout: Number
    grace: Number
    max_silent_time: Number
    ulimit: Strings
    env: Pairs
    workdir: str
    user: str
    hostname: str
    domainname: str
    mount: Strings
    volume: Strings
    tmpfs: Strings
    no_tmpfs: bool
    device: Strings
    gpus: Union[int, str]
    read_only: bool
    cap_add: Strings
    cap_drop: Strings
    seccomp: str
    name: str
    label: Pairs
    pool: int
    forks: int
    preload_timeout: Number


class ForkOptions(TypedDict, total=False):
    memory: Union[int, str]
    cpus: Number
    pids: Union[int, str]
    env: Pairs
    volume: Strings
    network: str
    allow_host: Strings
    deny_host: Strings
    allow_net: Strings
    deny_net: Strings
    label: Pairs
    ttl: Number
    no_start: bool
    volume_copy: bool
# </options>
