# SPDX-License-Identifier: Apache-2.0
# Debian 12 with its own kernel and pure cgroup v2, in a virtual machine; included by the Makefile.
#
#   make check-vm     boots once and runs the tests of VM_TESTS in there (arguments of tests/run.py)
#   make check-deb    builds the Debian packages, and installs, upgrades and purges them in there
#   make vm           what it boots, under /var/cache/berth-vm or $BERTH_VM_CACHE; vm-deps: the packages for that
#   tests/vm/run-in-vm COMMAND...     one command in there, by hand

VM_TESTS ?= $(wildcard tests/integration/test_run*.py tests/integration/test_lifecycle.py tests/integration/test_commands.py \
	tests/integration/test_quota.py tests/integration/test_volumes.py tests/attack/test_limits.py tests/attack/test_probe.py tests/attack/test_kernel.py tests/attack/test_keeper.py \
	tests/integration/test_oci_systemd.py tests/attack/test_network_bridge.py tests/attack/test_network_sni.py \
	tests/attack/test_tenant_workspaces.py tests/integration/test_devices.py tests/attack/test_devices.py tests/integration/test_application.py tests/integration/test_budget.py \
	tests/integration/test_layer_pool.py tests/integration/test_zygote.py tests/attack/test_zygote.py)
VM_TIME_LIMIT ?= 1500
# emulated: every deadline of the tests is that many times longer
VM_SLOW ?= 8

vm-deps:
	@tests/lib/need $(BUILD) $$(cat tests/vm/packages.host)

vm: vm-deps
	@tests/vm/build-cache

check-vm: vm $(PROGRAMS) $(test_tools)
	@BERTH_TEST_SLOW=$(VM_SLOW) tests/vm/run-in-vm -t $(VM_TIME_LIMIT) $(python) tests/run.py -j 2 --build $(BUILD) $(TEST_ARGS) $(VM_TESTS)

check-deb: deb vm $(PROGRAMS)
	@BERTH_TEST_SLOW=$(VM_SLOW) tests/vm/run-in-vm -t $(VM_TIME_LIMIT) $(python) tests/run.py --build $(BUILD) $(TEST_ARGS) tests/vm/test_packages.py

.PHONY: vm-deps vm check-vm check-deb
