# SPDX-License-Identifier: Apache-2.0
# The figures; included by the Makefile.
#
#   make bench        berth beside a bare floor and whatever peers are installed: table, build/bench.json, build/bench.svg
#   make bench-image  unpacking images beside umoci, skopeo, podman and tar: table, build/bench-image.json
#   make bench BENCH_ARGS="--rounds 500"     see tests/bench/bench.py --help

BENCH_CFLAGS = -std=gnu17 -D_GNU_SOURCE -idirafter /usr/include -idirafter /usr/include/$(shell uname -m)-linux-gnu -O2 -g $(WARN)

# musl: a static glibc program spends longer in its own start than in most of what is measured (NOTES.md)
$(BUILD)/bench/%: tests/bench/%.c
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(MUSL_CC) $(BENCH_CFLAGS) -static -o $@ $<

bench: $(PROGRAMS) $(BUILD)/bench/floor $(BUILD)/bench/exec_floor $(BUILD)/bench/drive
	@$(python) tests/bench/bench.py --build $(BUILD) $(BENCH_ARGS)

#   make bench-oci    berth-oci beside crun and runc: cold run of /bin/true on one bundle, interleaved
bench-oci: $(BUILD)/berth-oci
	@$(python) tests/bench/bench_oci.py --build $(BUILD) $(BENCH_ARGS)

bench-image: $(PROGRAMS)
	@$(python) tests/bench/bench_image.py --build $(BUILD) $(BENCH_ARGS)

.PHONY: bench bench-oci bench-image
