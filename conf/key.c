/* The text of a gateway key: sk-tg-<8 id>-<43 base62>-<6 check>. The secret part holds 256 random bits; the check is
 * CRC-32 over all that stands before its dash, so a mistyped key is told from a foreign one without any look-up. */
#include "conf/conf.h"

#define KEY_PREFIX "sk-tg-"
#define ID_CHARS 8
#define SECRET_CHARS 43 /* 62^43 > 2^256 */
#define CHECK_CHARS 6   /* 62^6 > 2^32 */
#define KEY_CHARS (sizeof KEY_PREFIX - 1 + ID_CHARS + 1 + SECRET_CHARS + 1 + CHECK_CHARS)

static const char base62[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/* One random character, each as likely as any other: bytes past the last whole multiple of 62 are thrown again. */
static char random_char(void) {
    uint8_t byte;
    do
        random_bytes(&byte, 1);
    while (byte >= 4 * 62);
    return base62[byte % 62];
}

static void put_check(struct span text, char out[CHECK_CHARS]) {
    uint32_t crc = crc32_of(text);
    for (int i = CHECK_CHARS - 1; i >= 0; i--, crc /= 62)
        out[i] = base62[crc % 62];
}

void conf_key_make(char out[CONF_KEY_TEXT_MAX]) {
    char *at = out;
    memcpy(at, KEY_PREFIX, sizeof KEY_PREFIX - 1);
    at += sizeof KEY_PREFIX - 1;
    for (int i = 0; i < ID_CHARS; i++)
        *at++ = random_char();
    *at++ = '-';
    for (int i = 0; i < SECRET_CHARS; i++)
        *at++ = random_char();
    put_check((struct span){out, (size_t)(at - out)}, at + 1);
    *at = '-';
    at[1 + CHECK_CHARS] = 0;
}

static bool all_base62(struct span text) {
    for (size_t i = 0; i < text.n; i++)
        if (!text.at[i] || !strchr(base62, text.at[i]))
            return false;
    return true;
}

enum conf_key_form conf_key_form(struct span key) {
    if (!span_starts(key, KEY_PREFIX))
        return KEY_FORM_FOREIGN;
    if (key.n != KEY_CHARS)
        return KEY_FORM_MISTYPED;
    struct span id = {key.at + sizeof KEY_PREFIX - 1, ID_CHARS};
    struct span secret = {id.at + ID_CHARS + 1, SECRET_CHARS};
    struct span check = {secret.at + SECRET_CHARS + 1, CHECK_CHARS};
    char right[CHECK_CHARS];
    put_check((struct span){key.at, (size_t)(check.at - 1 - key.at)}, right);
    bool good = id.at[ID_CHARS] == '-' && secret.at[SECRET_CHARS] == '-' && all_base62(id) && all_base62(secret) &&
                bytes_equal_secret(check.at, right, CHECK_CHARS);
    return good ? KEY_FORM_GOOD : KEY_FORM_MISTYPED;
}

void conf_key_id(struct span key, char out[9]) {
    memcpy(out, key.at + sizeof KEY_PREFIX - 1, ID_CHARS);
    out[ID_CHARS] = 0;
}
