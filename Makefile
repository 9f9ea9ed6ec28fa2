# Tollgate. `make run` and `make test` are all that a newcomer needs; `make help` lists the rest.
#
# SAN=address,undefined (or thread) builds everything with sanitizers into a folder of its own.
comma := ,
SAN ?=
BUILD := build$(if $(SAN),/$(subst $(comma),-,$(SAN)))
CC := gcc
CXX := g++
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla -Werror
CFLAGS := -std=c11 -D_GNU_SOURCE -O2 -g -fno-strict-aliasing -fno-common -ffp-contract=off -I. $(WARN)
LDLIBS := -lhiredis -levent_core -levent_pthreads -lssl -lcrypto -lyaml -lz -lzstd -lm -lpthread -ldl
ifneq ($(SAN),)
CFLAGS += -fsanitize=$(subst fuzzer,fuzzer-no-link,$(SAN)) -fno-omit-frame-pointer -DTOLLGATE_TEST
LDFLAGS += -fsanitize=$(SAN)
endif

# Rooms in dependency order: the floor knows nobody, the hall knows all.
ROOMS := gateway/base conf routing cache budget audit backends backends/decode gateway/net gateway/redis gateway/state gateway/workers gateway/alerts gateway gateway/admin gateway/finance gateway/cli
OBJ := $(patsubst %.c,$(BUILD)/%.o,$(foreach room,$(ROOMS),$(wildcard $(room)/*.c))) $(BUILD)/budget/lua.o
MAIN := $(BUILD)/gateway/main.o
LIB := $(BUILD)/libtollgate.a
object = $(patsubst %.c,$(BUILD)/%.o,$(wildcard $(1)))
SUPPORT := $(call object,tests/support/*.c)
PLAIN_SUPPORT := $(filter-out %/twin_rig.o,$(SUPPORT)) # what does not need Criterion
UNIT := $(if $(T),$(BUILD)/tests/unit/$(T).o,$(call object,tests/unit/test_*.c))
FLOW := $(if $(T),$(BUILD)/tests/flow/$(T).o,$(call object,tests/flow/test_*.c))
RACE := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/race/race_*.c))
FUZZ := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))

.PHONY: all run test false-clock unit flow unit-build flow-build race-build corpora-build lint tidy soak memcheck fuzz bench clean help
all: $(BUILD)/tollgate

help:
	@echo "make run        install what is missing, build, serve conf/tollgate.yaml, print a call that works"
	@echo "make test       every test; the last line is 'N passed, N failed'"
	@echo "make unit flow  those tests alone, as built by SAN=...; T=test_json runs one file"
	@echo "make lint tidy  the house's own checks; clang-tidy and cppcheck"
	@echo "make soak       the adversary: ROUNDS=100 rounds of kills, losses and hang-ups over four gateways and one Redis"
	@echo "make memcheck   unit tests under valgrind;  make fuzz SECONDS=60  each parser;  make bench  figures"
	@echo "make tiny       trains conf/tiny anew"

run:
	@.ci/packages run
	@$(MAKE) --no-print-directory -s -j2 all
	@exec $(BUILD)/tollgate serve --demo

test:
	@.ci/packages test
	@tests/run.sh

$(BUILD)/tollgate: $(MAIN) $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# The same with a false clock (gateway/base/clock.h), for tests that cross the end of a period.
FALSE_CLOCK := $(BUILD)/tests/tollgate-clock
$(FALSE_CLOCK): $(MAIN) $(BUILD)/tests/clock.o $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/tests/clock.o: gateway/base/clock.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -DTOLLGATE_TEST -MMD -MP -c -o $@ $<
false-clock: $(FALSE_CLOCK)

# Thin, so that members are known by their path: two rooms may each have a read.c.
$(LIB): $(filter-out $(MAIN),$(OBJ))
	rm -f $@ && ar rcsT $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(FILE_CFLAGS) -MMD -MP -c -o $@ $<

# The ledger's Redis scripts, each behind what they share, as C strings.
LUA := $(filter-out budget/lua/lib.lua budget/lua/rates.lua,$(sort $(wildcard budget/lua/*.lua)))
$(BUILD)/budget/lua.c: budget/lua/lib.lua budget/lua/rates.lua $(LUA)
	@mkdir -p $(@D)
	{ echo '#include "budget/redis_script.h"'; for script in $(LUA); do \
	  name=$${script##*/}; echo "const char lua_$${name%.lua}[] ="; \
	  cat budget/lua/lib.lua $$(sed -n '1s|^-- with |budget/lua/|p' $$script) $$script | sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/'; echo ';'; done; } > $@.tmp && mv $@.tmp $@
$(BUILD)/budget/lua.o: $(BUILD)/budget/lua.c
	$(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

# The kernels of the CUDA twin: by nvcc where it is (NVCC= for none), once for all builds, and carried inside the program. Newer
# devices than the ones named take the last one's PTX. In the tests g++ compiles the same files for an emulated device.
NVCC ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
CUDA_ARCHS ?= 80 90
KERNELS := $(wildcard backends/decode/*.cu)
KERNEL_HEADERS := $(addprefix backends/decode/cuda_,args.h kernel.h dot.h)
ifneq ($(NVCC),)
build/cuda.fatbin: $(KERNELS) $(KERNEL_HEADERS)
	@mkdir -p $(@D)
	printf '#include "%s"\n' $(KERNELS) > build/cuda.cu
	$(NVCC) -O3 -std=c++17 --fmad=false -Werror all-warnings -Xptxas -v -Xfatbin -compress-all -I. --threads 0 -fatbin \
	  $(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
	  -gencode arch=compute_$(lastword $(CUDA_ARCHS)),code=compute_$(lastword $(CUDA_ARCHS)) \
	  -o $@.tmp build/cuda.cu 2> build/cuda.log || { cat build/cuda.log >&2; exit 1; }
	@! grep -E '[1-9][0-9]* bytes spill' build/cuda.log
	mv $@.tmp $@
$(BUILD)/backends/decode/cuda_image.o: FILE_CFLAGS := -DCUDA_FATBIN='"build/cuda.fatbin"'
$(BUILD)/backends/decode/cuda_image.o: build/cuda.fatbin
endif
FAKE_CUDA := $(BUILD)/tests/cuda/libcuda.so.1
$(BUILD)/tests/cuda/%.o: FILE_CFLAGS := -fPIC
$(BUILD)/tests/cuda/%.cu.o: backends/decode/%.cu $(KERNEL_HEADERS) tests/cuda/emulation.h
	@mkdir -p $(@D)
	$(CXX) -x c++ -std=c++17 $(filter-out -std=% -Wstrict-prototypes -Wmissing-prototypes,$(CFLAGS)) -fPIC \
	  -Wno-unknown-pragmas -include tests/cuda/emulation.h -c -o $@ $<
$(FAKE_CUDA): $(call object,tests/cuda/*.c) $(patsubst backends/decode/%,$(BUILD)/tests/cuda/%.o,$(KERNELS))
	$(CXX) $(LDFLAGS) -shared -Wl,-z,defs -o $@ $^ -ldl -lpthread

ifeq ($(shell uname -m),x86_64)
$(BUILD)/backends/decode/%_avx2.o: FILE_CFLAGS := -mavx2 -mfma -mf16c -O3
endif
# Criterion declares each test as a function without a prototype of its own.
$(BUILD)/tests/unit/%.o $(BUILD)/tests/flow/%.o: FILE_CFLAGS := -Wno-missing-prototypes -Wno-shadow
$(BUILD)/tests/unit/%.o: FILE_CFLAGS += -DFAKE_CUDA='"$(FAKE_CUDA)"'

include tests/models/tiny.mk

# ---- tests ----
unit-build: $(BUILD)/tests/unit/$(or $(T),all)
flow-build: $(BUILD)/tests/flow/$(or $(T),all)
unit: unit-build
	$(BUILD)/tests/unit/$(or $(T),all) -j2 --timeout 120
flow: flow-build
	$(BUILD)/tests/flow/$(or $(T),all) -j2 --timeout 120
$(BUILD)/tests/unit/$(or $(T),all): $(UNIT) $(SUPPORT) $(LIB) | $(FAKE_CUDA)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS) -lcriterion
$(BUILD)/tests/flow/$(or $(T),all): $(FLOW) $(SUPPORT) $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS) -lcriterion

race-build: $(RACE)
$(BUILD)/tests/race/%: $(BUILD)/tests/race/%.o $(PLAIN_SUPPORT) $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

# A fuzz target has a main that runs a corpus, or libFuzzer's when SAN names the fuzzer (tests/fuzz/run.sh).
corpora-build: $(FUZZ)
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(if $(findstring fuzzer,$(SAN)),,$(BUILD)/tests/fuzz/corpus.o) $(PLAIN_SUPPORT) $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
# llhttp, where it is installed, is a second opinion on framing.
$(BUILD)/tests/fuzz/%.o: FILE_CFLAGS := -Wno-missing-prototypes -isystem /usr/share/include/llhttp

lint:
	@for script in tests/lint/*.sh; do $$script || { echo "$$script: does not hold"; bad=1; }; done; [ -z "$$bad" ]

tidy:
	@.ci/packages lint
	cppcheck --quiet -j$(shell nproc) --error-exitcode=1 --std=c11 --enable=warning,performance,portability --inline-suppr \
	  --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches -I. $(ROOMS)
	printf '%s\n' $(foreach room,$(ROOMS),$(wildcard $(room)/*.c)) | \
	  xargs -P$(shell nproc) -I{} clang-tidy --quiet {} -- -std=c11 -D_GNU_SOURCE -I. $(if $(filter x86_64,$(shell uname -m)),-mavx2 -mfma -mf16c)

# The adversary again and again: ROUNDS seeded rounds from SEED on, with four gateways.
ROUNDS ?= 100
SEED ?= 1
soak: all $(FALSE_CLOCK)
	@.ci/packages test
	@ADVERSARY_ROUNDS=$(ROUNDS) ADVERSARY_PROCESSES=4 ADVERSARY_CLIENTS=200 ADVERSARY_SEED=$(SEED) $$(tests/sdk/node.sh) --test --test-force-exit tests/sdk/adversary.test.mjs

memcheck:
	@.ci/packages memcheck
	@tests/memcheck.sh

SECONDS ?= 60
fuzz:
	@.ci/packages fuzz
	@tests/fuzz/run.sh $(SECONDS)

bench:
	@.ci/packages bench
	@$(MAKE) --no-print-directory -s -j2 all $(BUILD)/tests/bench/mock $(BUILD)/tests/bench/load $(BUILD)/tests/bench/log
	@tests/bench/run.sh
$(BUILD)/tests/bench/log: $(BUILD)/tests/bench/log.o $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/tests/bench/%: $(BUILD)/tests/bench/%.o
	$(CC) $(LDFLAGS) -o $@ $<

clean:
	rm -rf build

# What only one rule asks for is kept too, or the next build makes it again.
.SECONDARY:

-include $(patsubst %.o,%.d,$(OBJ) $(SUPPORT) $(UNIT) $(FLOW)) $(addsuffix .d,$(RACE) $(FUZZ))
