/* Headers of safetensors files. Whatever is accepted must be readable: each tensor's bytes are summed. */
#include "backends/decode/safetensors.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t all = 0; /* every byte of every tensor is read */
    struct safetensors s = {.file = {.name = "fuzz"}};
    struct str why;
    str_init(&why, 4096);
    if (st_read(&s, span_from(data, size), &why))
        for (size_t i = 0; i < s.n; i++)
            for (uint64_t k = s.tensors[i].begin; k < s.tensors[i].end; k++)
                all |= s.data[k];
    else if (why.n == 0)
        abort(); /* a refusal without a sentence */
    *(volatile uint8_t *)&all = all;
    free(s.tensors);
    str_fini(&why);
    return 0;
}
