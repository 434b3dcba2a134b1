# SPDX-License-Identifier: Apache-2.0
# The soak; included by the Makefile.
#
#   make soak                       30 minutes of random verbs and crashes; nothing may be left, grow or hang
#   make soak SOAK_ARGS="--minutes 5 --seed 7"      see tests/soak/soak.py
#   make claims                     10,000 claims from the pools of two berthds that share one Redis, which is restarted meanwhile
#   make load                       10 minutes of random verbs by 32 clients at Docker's two doors, with kill -9 of berthd (MINUTES=10)

soak: $(PROGRAMS)
	@$(python) tests/soak/soak.py --build $(BUILD) --json $(BUILD)/soak.json $(SOAK_ARGS)

claims: $(PROGRAMS) $(test_tools)
	@BERTH_CLAIMS=$(or $(CLAIMS),10000) tests/run.py --build $(BUILD) -k two_berthds tests/integration/test_manager.py

load: $(PROGRAMS) $(test_tools)
	@BERTH_LOAD_MINUTES=$(or $(MINUTES),10) tests/run.py --build $(BUILD) tests/integration/test_docker_load.py

.PHONY: soak claims load
