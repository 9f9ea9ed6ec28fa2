/* Turns the operator's options and a model's shape into limits, and tells them as text. Options that are not set (0 or less)
 * have a default; options that ask for more than the model has are cut to it, a cache that cannot exist is refused. */
#include "backends/decode/decode_plan.h"

#include "backends/decode/template.h"

#include <unistd.h>

#define SEQUENCES_DEFAULT 64
#define SEQUENCES_MAX 4096
#define BATCH_TOK_DEFAULT 2048
#define BATCH_TOK_MAX (1 << 16)
#define THREADS_MAX 64
#define ADAPTER_BYTES_DEFAULT (INT64_C(2) << 30)
#define ADAPTER_RANK_DEFAULT 64
#define KEEP_VERSIONS_DEFAULT 5
#define WATCH_US_DEFAULT (INT64_C(30) * 1000000)
#define KV_BYTES_LIMIT (INT64_C(1) << 42)
#define DEVICE_PERCENT 95 /* of what is left on a device: its libraries take some more as they go */

static int64_t clamp(int64_t v, int64_t otherwise, int64_t max) {
    return v <= 0 ? (otherwise < max ? otherwise : max) : v < max ? v : max;
}

static struct compute_limits limits_of(const struct decode_options *o, const struct model_config *c) {
    int64_t sequences = clamp(o->max_sequences, SEQUENCES_DEFAULT, SEQUENCES_MAX);
    int64_t batch = clamp(o->batch_tokens, BATCH_TOK_DEFAULT, BATCH_TOK_MAX);
    return (struct compute_limits){
        .max_context = clamp(o->max_context, c->max_positions, c->max_positions),
        .batch_tok = batch > sequences ? batch : sequences, /* each sequence can always take its step */
        .want_rows = sequences,
        .threads = (int)clamp(o->threads, sysconf(_SC_NPROCESSORS_ONLN), THREADS_MAX),
        .slots = o->adapters ? sequences : 0, /* each sequence may have its own */
        .rank_max = clamp(o->max_adapter_rank, ADAPTER_RANK_DEFAULT, ADAPTER_RANK_MAX)};
}

static struct adapters_options adapters_of(const struct decode_options *o) {
    return (struct adapters_options){.directory = o->adapters,
                                     .history = o->adapter_history,
                                     .memory = clamp(o->adapter_memory, ADAPTER_BYTES_DEFAULT, INT64_MAX / 2),
                                     .rank_max = clamp(o->max_adapter_rank, ADAPTER_RANK_DEFAULT, ADAPTER_RANK_MAX),
                                     .watch_us = clamp(o->adapter_watch_us, WATCH_US_DEFAULT, INT64_MAX / 2),
                                     .keep_versions = clamp(o->keep_versions, KEEP_VERSIONS_DEFAULT, INT64_MAX / 2),
                                     .pins = o->pins,
                                     .n_pins = o->n_pins};
}

/* What a device has left for the cache when weights, buffers and adapters have theirs. Adapters get a quarter of what is left
 * at most: more of them wait in the machine's memory, milliseconds away. */
static bool device_room(const struct compute_ops *ops, const struct model *m, struct decode_plan_numbers *p,
                        int64_t *kv, struct str *why) {
    if (!ops->room(&p->device_bytes, why))
        return false;
    p->fixed_bytes = ops->fixed_bytes(m, &p->limits);
    int64_t left = p->device_bytes - p->fixed_bytes;
    if (left <= 0)
        return complain(why, "device", "weights and buffers need %lld MiB, and %lld MiB are free",
                        (long long)(p->fixed_bytes >> 20), (long long)(p->device_bytes >> 20));
    if (p->limits.slots)
        p->limits.adapter_bytes = p->adapters.memory < left / 4 ? p->adapters.memory : left / 4;
    *kv = (left - p->limits.adapter_bytes) / 100 * DEVICE_PERCENT;
    return true;
}

bool decode_plan_make(const struct decode_options *o, const struct model *m, const struct compute_ops *ops,
                      struct decode_plan_numbers *out, struct str *why) {
    *out = (struct decode_plan_numbers){
        .limits = limits_of(o, &m->config), .adapters = adapters_of(o), .kv_tok_bytes = ops->kv_tok_bytes(m)};
    int64_t blocks = (out->limits.max_context + KV_BLOCK_TOK - 1) / KV_BLOCK_TOK, room = KV_POOL_BYTES_MAX;
    int64_t block_bytes = out->kv_tok_bytes * KV_BLOCK_TOK, most = blocks * out->limits.want_rows;
    if (block_bytes > KV_BYTES_LIMIT / blocks)
        return complain(why, "kv cache", "max_context %lld of this model cannot be held",
                        (long long)out->limits.max_context);
    if (ops->room && !device_room(ops, m, out, &room, why))
        return false;
    if (ops->room && room / block_bytes < blocks)
        return complain(why, "kv cache", "max_context %lld needs %lld MiB, and %lld MiB are left on the device",
                        (long long)out->limits.max_context, (long long)(blocks * block_bytes >> 20),
                        (long long)(room >> 20));
    int64_t fit = room / block_bytes;
    int64_t n_blocks = most < fit ? most : fit > blocks ? fit : blocks;
    if (o->kv_blocks > 0) /* the longest context has to fit even alone */
        n_blocks = o->kv_blocks > blocks ? o->kv_blocks : blocks;
    out->limits.n_blocks = n_blocks;
    out->kv_bytes = n_blocks * block_bytes;
    return true;
}

static void put_mib(struct str *out, const char *what, int64_t bytes) {
    str_printf(out, "  %-12s %lld.%02lld MiB", what, (long long)(bytes >> 20),
               (long long)((bytes & ((1 << 20) - 1)) * 100 >> 20));
}

static void plan_text(const struct decode_options *o, const struct model *m, const struct compute_ops *ops,
                      const struct decode_plan_numbers *p, struct str *out) {
    str_printf(out, "%s: %s, %lld layers, hidden %lld, vocabulary %lld, %lld parameters, %s\n", o->directory,
               model_family_names[m->config.family], (long long)m->config.layers, (long long)m->config.hidden,
               (long long)m->config.vocabulary, (long long)m->parameters, ops->name);
    put_mib(out, "weights", m->weight_bytes);
    str_printf(out, " as %s\n", dtype_names[m->layers[0].q.dtype]);
    put_mib(out, "kv cache", p->kv_bytes);
    str_printf(out, " = %lld blocks of %d tokens of %lld bytes\n", (long long)p->limits.n_blocks, KV_BLOCK_TOK,
               (long long)p->kv_tok_bytes);
    if (o->adapters) {
        put_mib(out, "adapters", p->adapters.memory);
        str_printf(out, " at most, of rank %lld at most, from %s\n", (long long)p->adapters.rank_max, o->adapters);
    }
    if (p->device_bytes) {
        put_mib(out, "device", p->device_bytes);
        str_printf(out, " free: %lld MiB weights and buffers, %lld MiB kv cache, %lld MiB adapters at most\n",
                   (long long)(p->fixed_bytes >> 20), (long long)(p->kv_bytes >> 20),
                   (long long)(p->limits.adapter_bytes >> 20));
    }
    str_printf(out, "  %-12s %lld tokens a sequence, %lld sequences, %lld tokens a step, %d threads\n", "limits",
               (long long)p->limits.max_context, (long long)p->limits.want_rows, (long long)p->limits.batch_tok,
               p->limits.threads);
}

/* A directory with a plan is one that will open: a broken tokenizer is found here, not at the start. */
static bool text_parts_open(const char *directory, const struct model_config *c, struct str *why) {
    struct template template = {0};
    struct tokenizer *k = tokenizer_open(directory, c, why);
    bool ok = k && template_open(&template, directory, k, why);
    template_close(&template);
    tokenizer_close(k);
    return ok;
}

bool decode_plan(const struct decode_options *o, struct str *plan, struct str *why) {
    struct decode_plan_numbers numbers = {0};
    const struct compute_ops *ops = compute_pick(o->device, why);
    struct model *m = ops ? model_open(o->directory, "auto", why) : NULL;
    bool ok = m && decode_plan_make(o, m, ops, &numbers, why) && text_parts_open(o->directory, &m->config, why);
    if (ok)
        plan_text(o, m, ops, &numbers, plan);
    model_close(m);
    return ok;
}
