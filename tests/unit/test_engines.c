/* What a model's name means to an engine: the base by its own name only, every other name is an adapter. */
#include "gateway/engines.h"

#include <criterion/criterion.h>

Test(engines, only_the_bases_own_name_means_the_base) {
    static const struct {
        const char *model;
        bool base;
    } rows[] = {{"tiny", true}, {"Tiny", false}, {"tin", false}, {"", false}, {"tiny@1", false}, {"pirate", false}};
    struct conf_backend b = {.decode = {.name = "tiny", .prefixes = PREFIXES_TEAM}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct decode_ask ask = {0};
        engine_ask_for(&b, span_of(rows[i].model), "search", &ask);
        cr_expect_eq(ask.adapter.at == NULL, rows[i].base, "%s", rows[i].model);
        cr_expect(span_is(ask.team, "search") && !ask.shared_prefix);
    }
}

Test(engines, options_are_what_conf_says) {
    struct conf_backend b = {
        .decode = {
            .model = "d", .adapters = "a", .prefixes = PREFIXES_OFF, .max_adapter_rank = 8, .adapter_memory = 5}};
    struct decode_options o = engine_options(&b);
    cr_expect(o.no_prefixes && o.max_adapter_rank == 8 && o.adapter_memory == 5);
    cr_expect_str_eq(o.adapters, "a");
}
