# SPDX-License-Identifier: Apache-2.0
"""GitLab's custom executor (clients/gitlab), driven as gitlab-runner drives it: four programs, variables, exit codes."""
import json
import os
import re
import signal
import subprocess

import berthtest as b

COST = 15
PLACE = os.path.join(b.TOP, "clients", "gitlab")
BUILD_FAILED, SYSTEM_FAILED = 11, 12


def variables(**more):
    return b.environment({"BERTH": b.BERTH, "BUILD_FAILURE_EXIT_CODE": str(BUILD_FAILED), "SYSTEM_FAILURE_EXIT_CODE": str(SYSTEM_FAILED),
                          "CUSTOM_ENV_CI_JOB_ID": "4711", "CUSTOM_ENV_CI_PROJECT_ID": "8", "CUSTOM_ENV_CI_JOB_TIMEOUT": "3600",
                          "BERTH_GITLAB_HELPER_OPTIONS": "", "BERTH_GITLAB_DISK": "64m", **more})


def step(name, *args, **env):
    return subprocess.run([os.path.join(PLACE, name), *args], env=variables(**env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=60 * b.SLOW)


def stage(name, script, **env):
    return step("run", b.write(b.tmp("script"), script), name, **env)


def names():
    return {s["name"] for s in json.loads(b.berth("ps", "-a", "--json", ok=True).out)}


def volumes():
    return {v["name"] for v in json.loads(b.berth("volume", "ls", "--json", ok=True).out)}


def drop_cache():
    b.berth("volume", "rm", "gitlab-cache-8", ok=True)


def test_a_job_from_its_configuration_to_its_end():
    r = step("config")
    assert r.returncode == 0 and json.loads(r.stdout)["builds_dir"] == "/builds", r
    r = step("prepare")
    assert r.returncode == 0 and "gitlab-job-4711" in r.stdout, r
    assert names() == {"gitlab-job-4711", "gitlab-helper-4711"}
    r = stage("get_sources", "set -e\nmkdir -p /builds/g/p && cd /builds/g/p\necho 'echo from the sources' > build.sh; echo old > /cache/c\n")
    assert r.returncode == 0, r
    # a job's script as gitlab-runner writes it: variables, a directory, a subshell
    script = "set -eo pipefail\nset +o noclobber\nexport GREETING='a b'\ncd /builds/g/p\n: | (set -e; echo $GREETING; sh build.sh; echo made > out)\n"
    r = stage("build_script", script)
    assert (r.returncode, r.stdout) == (0, "a b\nfrom the sources\n"), r
    r = stage("upload_artifacts_on_success", "cat /builds/g/p/out")
    assert (r.returncode, r.stdout) == (0, "made\n"), r
    r = step("cleanup")
    assert r.returncode == 0 and names() == set() and volumes() == {"gitlab-cache-8"}, r
    r = step("prepare", CUSTOM_ENV_CI_JOB_ID="4712")
    assert r.returncode == 0, r
    r = stage("restore_cache", "cat /cache/c; ls /builds", CUSTOM_ENV_CI_JOB_ID="4712")
    assert r.stdout == "old\n", f"the next job's cache, or builds of the last: {r}"
    assert step("cleanup", CUSTOM_ENV_CI_JOB_ID="4712").returncode == 0
    drop_cache()


def test_failures_are_the_jobs_or_ours():
    assert step("prepare").returncode == 0
    r = stage("build_script", "echo before; exit 3")
    assert (r.returncode, r.stdout) == (BUILD_FAILED, "before\n") and "exit status 3" in r.stderr, r
    assert stage("step_script", "kill -9 $$").returncode == BUILD_FAILED
    b.berth("rm", "-f", "gitlab-job-4711", ok=True)
    assert stage("build_script", "true").returncode == SYSTEM_FAILED
    assert stage("after_script", "true").returncode == SYSTEM_FAILED
    assert step("prepare").returncode == SYSTEM_FAILED, "prepared twice"
    assert step("cleanup").returncode == 0 and step("cleanup").returncode == 0
    assert step("prepare", CUSTOM_ENV_CI_JOB_IMAGE="no/such:image").returncode == SYSTEM_FAILED
    assert step("prepare", CUSTOM_ENV_CI_JOB_IMAGE="/etc").returncode == SYSTEM_FAILED, "a directory of the host as a job's image"
    for wrong in ("", "x", "1;reboot", "../1"):
        assert step("prepare", CUSTOM_ENV_CI_JOB_ID=wrong).returncode == SYSTEM_FAILED, wrong
    assert step("cleanup").returncode == 0 and names() == set()
    drop_cache()


def test_a_job_that_is_cancelled_ends():
    assert step("prepare").returncode == 0
    p = subprocess.Popen([os.path.join(PLACE, "run"), b.write(b.tmp("script"), "echo begun; sleep 1000"), "build_script"], env=variables(),
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    b.read_until(p.stdout, b"begun\n")
    os.killpg(p.pid, signal.SIGTERM)
    p.wait(30 * b.SLOW)
    p.stdout.close()
    assert step("cleanup").returncode == 0 and names() == set() and volumes() == {"gitlab-cache-8"}
    drop_cache()


def test_the_jobs_policy_is_the_administrators():
    """Variables of a job come with CUSTOM_ENV_ in front, so a job changes no option."""
    r = step("prepare", BERTH_GITLAB_OPTIONS="--memory 64m --label a=b", CUSTOM_ENV_BERTH_GITLAB_OPTIONS="--network host")
    assert r.returncode == 0, r
    j = json.loads(b.berth("inspect", "gitlab-job-4711", ok=True).out)
    assert j["labels"]["a"] == "b" and not re.search(r'"network": ?"host"', json.dumps(j)), j
    assert step("cleanup").returncode == 0
    drop_cache()
