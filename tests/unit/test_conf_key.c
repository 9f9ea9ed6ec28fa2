/* The text of a key: made, recognised, mistyped. */
#include "conf/conf.h"

#include <criterion/criterion.h>

Test(conf_key, a_made_key_is_good_and_names_its_id) {
    char key[CONF_KEY_TEXT_MAX], other[CONF_KEY_TEXT_MAX], id[9];
    conf_key_make(key);
    conf_key_make(other);
    cr_expect_eq(strlen(key), 6 + 8 + 1 + 43 + 1 + 6);
    cr_expect_eq(conf_key_form(span_of(key)), KEY_FORM_GOOD, "%s", key);
    cr_expect_str_neq(key, other);
    conf_key_id(span_of(key), id);
    cr_expect_eq(strlen(id), 8);
    cr_expect(!strncmp(key + 6, id, 8));
}

Test(conf_key, one_wrong_character_anywhere_is_a_typing_error) {
    char key[CONF_KEY_TEXT_MAX];
    conf_key_make(key);
    for (size_t i = 6; key[i]; i++) {
        char was = key[i];
        key[i] = was == 'a' ? 'b' : 'a';
        cr_expect_eq(conf_key_form(span_of(key)), KEY_FORM_MISTYPED, "at %zu", i);
        key[i] = was;
    }
    key[strlen(key) - 1] = 0;
    cr_expect_eq(conf_key_form(span_of(key)), KEY_FORM_MISTYPED);
}

Test(conf_key, other_vendors_keys_are_foreign) {
    static const char *const rows[] = {"", "sk-", "sk-proj-abc", "sk-ant-api03-x", "Bearer x", "sk-tf-abc"};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        cr_expect_eq(conf_key_form(span_of(rows[i])), KEY_FORM_FOREIGN, "%s", rows[i]);
    cr_expect_eq(conf_key_form(SPAN("sk-tg-")), KEY_FORM_MISTYPED);
}

Test(conf_key, a_known_key_keeps_its_check) { /* the form is fixed outside this program */
    static const char body[] = "sk-tg-00000000-0000000000000000000000000000000000000000000";
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    char key[CONF_KEY_TEXT_MAX], check[7] = "000000";
    uint32_t crc = crc32_of(span_of(body));
    for (int i = 5; i >= 0; i--, crc /= 62)
        check[i] = digits[crc % 62];
    memcpy(key, body, sizeof body - 1);
    key[sizeof body - 1] = '-';
    memcpy(key + sizeof body, check, sizeof check);
    cr_expect_eq(conf_key_form(span_of(key)), KEY_FORM_GOOD, "%s", key);
}
