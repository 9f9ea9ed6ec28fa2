/* Names that are safe, folders that stay inside, and manifests that are right or nothing. */
#include "backends/decode/adapter.h"
#include "backends/decode/adapter_file.h"
#include "tests/support/random_adapter.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

static void expect(const struct random_adapter *a, const char *root, const char *why_not) {
    struct adapter_files f;
    struct str why;
    str_init(&why, 2000);
    bool ok = adapter_files_read(a->files.directory, root, &f, &why);
    cr_expect(ok == !why_not && (ok || strstr(why.at, why_not)), "%s instead of %s", why.n ? why.at : "it is read",
              why_not);
    if (ok)
        adapter_files_free(&f);
    str_fini(&why);
}

static void hex_of(const struct random_adapter *a, const char *name, char out[SHA256_HEX_MAX]) {
    struct str s;
    uint8_t digest[SHA256_BYTES];
    str_init(&s, 1 << 24);
    random_file_load(&a->files, name, &s);
    sha256(str_span(&s), digest);
    hex_put(digest, sizeof digest, out);
    str_fini(&s);
}

static void manifest(const struct random_adapter *a, const char *format, const char *config, const char *weights) {
    char text[600];
    int n = snprintf(text, sizeof text, format, config, weights);
    random_file_save(&a->files, "manifest.json", span_from(text, (size_t)n));
}

Test(adapter_file, a_manifest_is_right_or_the_adapter_is_refused) {
    static const char both[] =
        "{\"files\":{\"adapter_config.json\":\"%s\",\"adapter_model.safetensors\":{\"sha256\":\"%s\"}}}";
    struct random_model m;
    struct random_adapter a;
    char config[SHA256_HEX_MAX], weights[SHA256_HEX_MAX];
    random_model_write(&m, &shape_small);
    random_adapter_write(&a, &m, &adapter_plain, NULL);
    hex_of(&a, "adapter_config.json", config);
    hex_of(&a, "adapter_model.safetensors", weights);
    manifest(&a, both, config, weights);
    expect(&a, NULL, NULL);
    manifest(&a, both, weights, config);
    expect(&a, NULL, "adapter_config.json: is not the file that manifest.json speaks of");
    manifest(&a, both, config, config);
    expect(&a, NULL, "adapter_model.safetensors: is not the file");
    manifest(&a, "{\"files\":{\"adapter_config.json\":\"%s\"}}%.0s", config, weights);
    expect(&a, NULL, "manifest.json: does not name adapter_model.safetensors");
    manifest(&a, "{\"files\":{\"adapter_config.json\":\"%s\",\"adapter_model.safetensors\":\"%s\",\"x.bin\":\"00\"}}",
             config, weights);
    expect(&a, NULL, "names x.bin");
    manifest(&a, "{\"teams\":[],\"files\":{\"adapter_config.json\":\"%s\",\"adapter_model.safetensors\":\"%s\"}}",
             config, weights);
    expect(&a, NULL, "teams is not supported yet");
    random_file_save(&a.files, "manifest.json", SPAN("{"));
    expect(&a, NULL, "manifest.json: is not JSON");
    random_file_save(&a.files, "manifest.json", SPAN(""));
    expect(&a, NULL, "manifest.json");
    random_adapter_remove(&a);
    random_model_remove(&m);
}

Test(adapter_file, a_link_out_of_the_folder_is_not_followed) {
    struct random_model m;
    struct random_adapter a;
    char path[400], out[400];
    random_model_write(&m, &shape_small);
    random_adapter_write(&a, &m, &adapter_plain, NULL);
    expect(&a, a.files.directory, NULL);
    snprintf(path, sizeof path, "%s/adapter_config.json", a.files.directory);
    snprintf(out, sizeof out, "%s/outside.json", m.directory);
    cr_assert(rename(path, out) == 0 && symlink(out, path) == 0);
    expect(&a, a.files.directory, "adapter_config.json: lies outside");
    expect(&a, NULL, NULL); /* whoever names the folder himself may link */
    unlink(out);
    expect(&a, NULL, "adapter_config.json: is not in");
    random_adapter_remove(&a);
    random_model_remove(&m);
}

Test(adapter_file, a_name_is_safe_as_a_files_name) {
    static const char *const good[] = {"a", "Support-2.1_x", "0"};
    static const char *const bad[] = {"",        ".",   "..",   "../x", "/etc", "a/b",
                                      ".hidden", "a b", "a%2e", "-x",   "a@1",  "\xc3\xa4"};
    char longest[66];
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        cr_expect(adapter_name_ok(span_of(good[i])));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_expect_not(adapter_name_ok(span_of(bad[i])), "%s", bad[i]);
    memset(longest, 'a', sizeof longest);
    cr_expect(adapter_name_ok(span_from(longest, 64)));
    cr_expect_not(adapter_name_ok(span_from(longest, 65)));
    cr_expect_not(adapter_name_ok(span_from("a\0b", 3)));
}
