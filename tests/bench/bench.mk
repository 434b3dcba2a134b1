# SPDX-License-Identifier: Apache-2.0
# The figures; included by the Makefile.
#
#   make bench          every figure, berth beside a bare floor and whatever peers are installed, in one report:
#                       build/bench.txt, build/bench.json, build/bench.svg
#   make doc/speed.svg  the chart of README.md, from the table in NOTES.md
#   make bench-image    of it, importing images beside umoci, skopeo, podman and tar
#   make bench-oci      of it, berth-oci beside crun and runc
#   make bench-networks members of a network beside a veth pair and a bridge
#   make bench-zygote   the first output of a warm interpreter, and a hundred of them at once
#   make bench-clients  the first command of the clients beside that of the command line
#   make bench-time     checkpoint, undo with a shell, and fork to the first command: small and large, in a pool and without
#   make bench BENCH_ARGS="--budget 120 run create"     see tests/bench/bench.py --help

BENCH_CFLAGS = -std=gnu17 -D_GNU_SOURCE -idirafter /usr/include -idirafter /usr/include/$(shell uname -m)-linux-gnu -O2 -g $(WARN)

# musl: a static glibc program spends longer in its own start than in most of what is measured (NOTES.md)
$(BUILD)/bench/%: tests/bench/%.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(MUSL_CC) $(BENCH_CFLAGS) -static -o $@ $<

# the same as anybody's compiler makes it, with the C library of the system
$(BUILD)/bench/floor-plain: tests/bench/floor.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu17 -D_GNU_SOURCE -O2 -g $(WARN) -o $@ $<

bench-image: BENCH_WHAT = image
bench-oci: BENCH_WHAT = run-oci

bench bench-image bench-oci: $(PROGRAMS) $(BUILD)/bench/floor $(BUILD)/bench/floor-plain $(BUILD)/bench/exec_floor $(BUILD)/bench/drive
	@$(python) tests/bench/bench.py --build $(BUILD) $(BENCH_ARGS) $(BENCH_WHAT)

# how much later than the command line the clients of clients/ answer
bench-clients: $(PROGRAMS)
	@$(python) tests/bench/clients.py $(BUILD)

# members of a network beside a veth pair and a bridge, names, and what a service costs more than a bare sandbox
bench-networks: $(PROGRAMS)
	@$(python) tests/bench/networks.py

# BENCH_ARGS="--rounds 10 --against OTHER/build pool-large": beside another build, in turn
bench-time: $(PROGRAMS)
	@$(python) tests/bench/timeline.py $(BENCH_ARGS)

# forks of a zygote beside berth run, crun, a fork server without isolation, and the kernel's floor
bench-zygote: $(PROGRAMS) $(BUILD)/bench/floor
	@$(python) tests/bench/zygote.py --build $(BUILD) $(BENCH_ARGS)

doc/speed.svg: tests/bench/chart.py tests/bench/NOTES.md
	$(Q)PYTHONDONTWRITEBYTECODE=1 $(python) $< > $@.tmp && mv $@.tmp $@

.PHONY: bench bench-oci bench-image bench-clients bench-networks bench-time bench-zygote
