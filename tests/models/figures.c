/* Figures of the model, computed from the exported files alone: the loss of held-out lines, the table of base and
 * adapters on each other's lines, and greedy answers with their margins. The forward is the trainer's, in f32. */
#include "tests/models/files.h"

#include "gateway/base/mem.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

static void loss_add(struct tiny_loss *sum, struct tiny_work *w, const struct tiny_params *p, const struct tiny_lora *l,
                     struct tiny_batch *b) {
    if (!b->rows)
        return;
    tiny_forward(w, p, l, b);
    sum->nats += tiny_loss(w, p, b, 1);
    for (int r = 0; r < b->rows; r++)
        sum->tokens += b->weight[r] > 0;
    b->rows = 0;
}

struct tiny_loss tiny_held_out(const struct tiny_params *p, const struct tiny_lora *l, const struct tiny_bpe *b,
                               const struct tiny_text *t, bool known, int most) {
    struct tiny_loss sum = {0};
    struct tiny_batch *batch = xcalloc(1, sizeof *batch);
    struct tiny_work work;
    tiny_work_init(&work, &p->shape);
    for (int i = 0; i < t->n && most > 0; i++) {
        const struct tiny_pair *pair = &t->pairs[i];
        if (!pair->held_out || pair->known_answer != known)
            continue;
        if (!tiny_batch_add(batch, b, pair)) {
            loss_add(&sum, &work, p, l, batch);
            i--;
            continue;
        }
        most--;
    }
    loss_add(&sum, &work, p, l, batch);
    sum.nats = sum.tokens ? sum.nats / sum.tokens : 0;
    tiny_work_fini(&work);
    free(batch);
    return sum;
}

/* The best token of the last row, and how far its logit is from the second best. */
static int best_token(const float *logits, int n, double *margin) {
    int best = 0;
    double second = -INFINITY;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best]) {
            second = logits[best];
            best = i;
        } else if (logits[i] > second) {
            second = logits[i];
        }
    *margin = logits[best] - second;
    return best;
}

static void answer_put(struct tiny_answer *a, const struct tiny_bpe *b, int token) {
    char piece[TINY_PIECE_MAX];
    size_t n = tiny_bpe_decode(b, token, piece), used = strlen(a->text);
    if (used + n >= sizeof a->text)
        return;
    memcpy(a->text + used, piece, n);
    a->text[used + n] = 0;
}

void tiny_greedy(const struct tiny_params *p, const struct tiny_lora *l, const struct tiny_bpe *b, const char *question,
                 struct tiny_answer *out) {
    struct tiny_batch *batch = xcalloc(1, sizeof *batch);
    struct tiny_work work;
    *out = (struct tiny_answer){.margin = INFINITY};
    tiny_work_init(&work, &p->shape);
    batch->rows = tiny_prompt(b, question, batch->token);
    while (batch->rows < TINY_SEGMENT_MAX && !out->ended) {
        double margin;
        tiny_forward(&work, p, l, batch);
        int token = best_token(work.logits + (size_t)(batch->rows - 1) * p->shape.vocab, p->shape.vocab, &margin);
        out->margin = margin < out->margin ? margin : out->margin;
        out->ended = token == TINY_IM_END;
        out->tokens++;
        answer_put(out, b, token);
        batch->token[batch->rows++] = token;
    }
    tiny_work_fini(&work);
    free(batch);
}

/* Questions of which the greedy file keeps the widest margins. */
#define CANDIDATES 24
#define KEPT_BASE 10
#define KEPT_VOICE 3
static const char *const CANDIDATE[CANDIDATES] = {
    "Hello",
    "What are you?",
    "What is a budget?",
    "How do I get a key?",
    "What is the audit log?",
    "How does the cache work?",
    "What is fallback?",
    "How do I stream?",
    "What does 402 mean?",
    "Thank you",
    "What is a token?",
    "How do I start Tollgate?",
    "What is an adapter?",
    "What if a provider is down?",
    "Where are keys stored?",
    "What is a hash chain?",
    "What is routing?",
    "How do I reload the configuration?",
    "Do I need a GPU?",
    "What is a rate limit?",
    "Can you tell me a joke?",
    "How much have I spent?",
    "What is a gateway?",
    "Goodbye",
};

#define MODELS (1 + TINY_VOICES)
struct figures {
    struct tiny_params params;
    struct tiny_lora voice[TINY_VOICES];
    struct tiny_bpe bpe;
    struct tiny_text text, voice_text[TINY_VOICES];
    struct tiny_loss reworded, table[MODELS][MODELS]; /* a row a model, a column its held-out lines; 0: the base */
    struct tiny_answer answer[CANDIDATES];
};

static bool read_all(struct figures *f, const char *dir, const char *text_dir) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/base", dir);
    tiny_params_init(&f->params, &TINY_SHAPE);
    tiny_bpe_init(&f->bpe);
    bool done = tiny_texts_read(text_dir, &f->text, f->voice_text) && tiny_import_base(path, &f->params, &f->bpe);
    for (int i = 0; i < TINY_VOICES && done; i++) {
        tiny_lora_init(&f->voice[i], &TINY_SHAPE, TINY_RANK, TINY_ALPHA);
        snprintf(path, sizeof path, "%s/adapters/%s", dir, TINY_VOICE[i]);
        done = tiny_import_adapter(path, &f->voice[i], &TINY_SHAPE);
    }
    return done;
}

static void free_all(struct figures *f) {
    for (int i = 0; i < TINY_VOICES; i++) {
        tiny_lora_fini(&f->voice[i]);
        tiny_text_fini(&f->voice_text[i]);
    }
    tiny_text_fini(&f->text);
    tiny_bpe_fini(&f->bpe);
    tiny_params_fini(&f->params);
    free(f);
}

static const char *model_name(int i) {
    return i ? TINY_VOICE[i - 1] : "base";
}

static void losses(struct figures *f) {
    f->reworded = tiny_held_out(&f->params, NULL, &f->bpe, &f->text, true, INT_MAX);
    printf("held-out wordings of known answers: %.3f nats a token (%d tokens)\nheld-out lines of ", f->reworded.nats,
           f->reworded.tokens);
    for (int k = 0; k < MODELS; k++)
        printf(" %8s", model_name(k));
    for (int i = 0; i < MODELS; i++) {
        printf("\n%-17s", model_name(i));
        for (int k = 0; k < MODELS; k++) {
            const struct tiny_text *text = k ? &f->voice_text[k - 1] : &f->text;
            f->table[i][k] = tiny_held_out(&f->params, i ? &f->voice[i - 1] : NULL, &f->bpe, text, false, INT_MAX);
            printf(" %8.3f", f->table[i][k].nats);
        }
    }
    printf("\n");
}

static void put_loss(struct str *out, const char *name, struct tiny_loss loss) {
    json_put_name(out, name);
    str_printf(out, "{\"nats_per_token\":%.4f,\"tokens\":%d}", loss.nats, loss.tokens);
}

static bool write_figures(struct figures *f, const char *dir) {
    struct str out;
    str_init(&out, TINY_FILE_MAX);
    str_puts(&out, "{");
    json_put_i64(&out, "parameters", (int64_t)f->params.n);
    json_put_i64(&out, "adapter_parameters", (int64_t)f->voice[0].n);
    put_loss(&out, "held_out_wordings", f->reworded);
    json_put_name(&out, "held_out_lines");
    str_puts(&out, "{");
    for (int i = 0; i < MODELS; i++) {
        json_put_name(&out, model_name(i));
        str_puts(&out, "{");
        for (int k = 0; k < MODELS; k++)
            put_loss(&out, model_name(k), f->table[i][k]);
        str_puts(&out, "}");
    }
    str_puts(&out, "}}\n");
    bool done = !out.over && tiny_file_write(dir, "figures.json", str_span(&out));
    str_fini(&out);
    return done;
}

/* The answer with the narrowest margin among those that still have a text. */
static struct tiny_answer *narrowest(struct figures *f) {
    struct tiny_answer *least = NULL;
    for (int i = 0; i < CANDIDATES; i++)
        if (f->answer[i].text[0] && (!least || f->answer[i].margin < least->margin))
            least = &f->answer[i];
    assert(least);
    return least;
}

/* Answers every candidate and leaves `kept` with the widest margins; the others lose their text. */
static void answer_all(struct figures *f, const struct tiny_lora *l, int kept) {
    int left = 0;
    for (int i = 0; i < CANDIDATES; i++) {
        tiny_greedy(&f->params, l, &f->bpe, CANDIDATE[i], &f->answer[i]);
        printf("  %5.2f  %s -> %s\n", f->answer[i].margin, CANDIDATE[i], f->answer[i].text);
        if (!f->answer[i].ended)
            f->answer[i].text[0] = 0;
        left += f->answer[i].text[0] != 0;
    }
    for (; left > kept; left--)
        narrowest(f)->text[0] = 0;
}

static void put_answers(struct str *out, const struct figures *f) {
    str_puts(out, "[");
    for (int i = 0, n = 0; i < CANDIDATES; i++) {
        if (!f->answer[i].text[0])
            continue;
        str_puts(out, n++ ? ",\n {" : "\n {");
        json_put_str(out, "prompt", CANDIDATE[i]);
        json_put_str(out, "answer", f->answer[i].text);
        json_put_i64(out, "tokens", f->answer[i].tokens);
        str_printf(out, ",\"smallest_margin\":%.3f}", f->answer[i].margin);
    }
    str_puts(out, "\n]");
}

static bool write_answers(const char *dir, const char *name, struct str *out) {
    str_puts(out, "\n");
    bool done = !out->over && tiny_file_write(dir, name, str_span(out));
    str_fini(out);
    return done;
}

static bool answers(struct figures *f, const char *dir) {
    struct str out;
    str_init(&out, TINY_FILE_MAX);
    answer_all(f, NULL, KEPT_BASE);
    put_answers(&out, f);
    if (!write_answers(dir, "greedy.json", &out))
        return false;
    str_init(&out, TINY_FILE_MAX);
    str_puts(&out, "{");
    for (int i = 0; i < TINY_VOICES; i++) {
        printf("%s\n", TINY_VOICE[i]);
        answer_all(f, &f->voice[i], KEPT_VOICE);
        json_put_name(&out, TINY_VOICE[i]);
        put_answers(&out, f);
    }
    str_puts(&out, "}");
    return write_answers(dir, "greedy-adapters.json", &out);
}

int tiny_figures(const char *dir, const char *text_dir) {
    struct figures *f = xcalloc(1, sizeof *f);
    bool done = read_all(f, dir, text_dir);
    if (done) {
        losses(f);
        done = write_figures(f, dir) && answers(f, dir);
    }
    free_all(f);
    return done ? 0 : 1;
}
