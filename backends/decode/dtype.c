/* What a stored weight means: f16 and bf16 to f32 exactly, f32 to bf16 by rounding to nearest even. Plain integer work,
 * so that it is the same on every machine; faster ways must agree with it bit for bit. */
#include "backends/decode/model.h"

static float from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, fraction = h & 0x3ff;
    if (exponent == 31)
        return from_bits(sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0));
    if (exponent)
        return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float small = (float)fraction * 0x1p-24f;
    return sign ? -small : small;
}

uint16_t f32_to_bf16(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* Adding a power of two that lies as far above the number as f32 is finer than f16 lets the addition itself round. */
uint16_t f32_to_f16(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, most = bits & 0x7fffffff;
    if (most > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (most >= 0x477ff000)
        return (uint16_t)(sign | 0x7bff);
    if (most < 0x38800000) {
        float tiny = from_bits(most) + 0.5f;
        memcpy(&bits, &tiny, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    most += 0xfff + (most >> 13 & 1);
    return (uint16_t)(sign | ((most - 0x38000000) >> 13));
}

float dtype_get(const uint8_t *at, enum dtype d, int64_t i) {
    float f;
    uint16_t h;
    if (d == DTYPE_F32) {
        memcpy(&f, at + i * 4, sizeof f);
        return f;
    }
    memcpy(&h, at + i * 2, sizeof h);
    return d == DTYPE_BF16 ? from_bits((uint32_t)h << 16) : f16_to_f32(h);
}

int64_t tensor_row_bytes(const struct tensor *t) {
    return t->dtype == DTYPE_INT8 ? int8_groups(t->cols) * INT8_GROUP : t->cols * (int64_t)dtype_bytes(t->dtype);
}

float tensor_get(const struct tensor *t, int64_t row, int64_t col) {
    const uint8_t *at = t->at + row * tensor_row_bytes(t);
    if (t->dtype != DTYPE_INT8)
        return dtype_get(at, t->dtype, col);
    return (float)(int8_t)at[col] * t->scales[row * int8_groups(t->cols) + col / INT8_GROUP];
}
