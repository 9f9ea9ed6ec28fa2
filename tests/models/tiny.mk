# The trainer of the tiny model. `make tiny` rebuilds conf/tiny (minutes); `make tiny-figures` recomputes its figures from
# the files as they are. The unit tests link everything but the program itself.
TINY_SRC := $(filter-out tests/models/train.c,$(wildcard tests/models/*.c))
TINY_OBJ := $(TINY_SRC:%.c=$(BUILD)/%.o)
UNIT += $(TINY_OBJ)
TINY_TRAIN := $(BUILD)/tests/models/train

TINY_CFLAGS := -O3 -ffp-contract=fast
ifneq ($(shell grep -s -m1 -o -w avx2 /proc/cpuinfo),)
TINY_CFLAGS += -mavx2 -mfma
endif
$(BUILD)/tests/models/%.o: FILE_CFLAGS := $(TINY_CFLAGS)

.PHONY: tiny tiny-figures
tiny: $(TINY_TRAIN)
	$(TINY_TRAIN) --out conf/tiny --text tests/models/text
tiny-figures: $(TINY_TRAIN)
	$(TINY_TRAIN) --figures --out conf/tiny --text tests/models/text

$(TINY_TRAIN): $(TINY_TRAIN).o $(TINY_OBJ) $(LIB)
	$(CC) $(LDFLAGS) -o $@ $^ -lm -lpthread

-include $(TINY_OBJ:.o=.d) $(TINY_TRAIN).d $(wildcard $(BUILD)/tests/unit/test_tiny_*.d)
