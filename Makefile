# Tollgate. `make run` and `make test` are all a newcomer needs; the rest is listed by `make help`.
BUILD ?= build
SAN ?=
CC := gcc
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings -Wvla -Werror
CFLAGS := -std=c11 -D_GNU_SOURCE -O2 -g -fno-strict-aliasing -fno-common -ffp-contract=off -I. $(WARN)
LDLIBS := -levent_core -levent_pthreads -lssl -lcrypto -lyaml -lcjson -lz -lm -lpthread
TEST_LDLIBS := -lcriterion
comma := ,
ifneq ($(SAN),)
BUILD := build/$(subst $(comma),-,$(SAN))
CFLAGS += -fsanitize=$(SAN) -fno-omit-frame-pointer -DTOLLGATE_TEST
LDFLAGS += -fsanitize=$(SAN)
endif

# Rooms in dependency order: the floor knows nobody, the hall knows all.
ROOMS := gateway/base conf routing cache budget audit backends backends/decode gateway gateway/cli
SRC := $(foreach room,$(ROOMS),$(wildcard $(room)/*.c))
OBJ := $(SRC:%.c=$(BUILD)/%.o)
LIB_OBJ := $(filter-out $(BUILD)/gateway/main.o,$(OBJ))
LIB := $(BUILD)/libtollgate.a
UNIT_SRC := $(wildcard tests/unit/test_*.c)
SUPPORT_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/support/*.c))

.PHONY: all unit clean
all: $(BUILD)/tollgate

$(BUILD)/tollgate: $(BUILD)/gateway/main.o $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(LIB): $(LIB_OBJ)
	rm -f $@ && ar rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(FILE_CFLAGS) -MMD -MP -c -o $@ $<

ifeq ($(shell uname -m),x86_64)
$(BUILD)/backends/decode/%_avx2.o: FILE_CFLAGS := -mavx2 -mfma -mf16c -O3
endif

include tests/models/tiny.mk

# make unit            every unit test in one program;  make unit T=test_json  only that file
UNIT := $(BUILD)/tests/unit/$(or $(T),all)
unit: $(UNIT)
	$(UNIT) -j2 --timeout 60
$(UNIT): $(if $(T),$(BUILD)/tests/unit/$(T).o,$(UNIT_SRC:%.c=$(BUILD)/%.o)) $(SUPPORT_OBJ) $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS) $(TEST_LDLIBS)

clean:
	rm -rf build

-include $(OBJ:.o=.d)
