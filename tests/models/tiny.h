/* The trainer of the tiny model: text -> pairs -> tokens -> batches -> Llama forward and backward -> AdamW -> files.
 *
 * Everything that is summed is summed in one fixed order, whatever the number of threads: a step is always cut into
 * TINY_SHARDS shards with gradients of their own, added up shard by shard. Weights, gradients and adapters are flat
 * arrays with named places in them, so an optimiser sees one array and an exporter sees tensors. */
#ifndef TOLLGATE_TESTS_MODELS_TINY_H
#define TOLLGATE_TESTS_MODELS_TINY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define TINY_LAYERS_MAX 8
#define TINY_SHARDS 2
#define TINY_ROWS 512        /* tokens of one shard */
#define TINY_SEGMENT_MAX 256 /* tokens of one dialogue: the attention matrix is this wide */
#define TINY_VOCAB_MAX 1024
#define TINY_VOICES 3
#define TINY_RANK 8 /* of the adapters */
#define TINY_ALPHA 16

/* --- rng.c: splitmix64, the same numbers everywhere --- */
struct tiny_rng {
    uint64_t state;
};
uint64_t tiny_rng_next(struct tiny_rng *r);
int tiny_rng_below(struct tiny_rng *r, int n);
float tiny_rng_normal(struct tiny_rng *r);
void tiny_rng_shuffle(struct tiny_rng *r, int *order, int n);

/* --- gemm.c --- */
/* C(m,n) = or += the sum over k of A(m,k) * B(k,n). A and B are read with strides, so either may stand transposed. */
struct tiny_gemm {
    int m, n, k;
    const float *a;
    int a_row, a_col; /* strides in floats */
    const float *b;
    int b_row, b_col;
    float *c;
    int c_row;
    bool add;
};
void tiny_gemm(const struct tiny_gemm *g);

/* --- ops.c: each operation forward and backward; every backward adds to dx and dw --- */
struct tiny_heads {
    int rows, heads, kv_heads, head_dim;
    const int *start;  /* [rows]: the first row of the dialogue a row belongs to */
    const float *turn; /* [TINY_SEGMENT_MAX][head_dim]: cosines, then sines, by place in the dialogue */
};
void tiny_turns(float *turn, int head_dim, float theta);
void tiny_norm(float *y, float *inv, const float *x, const float *w, int rows, int n, float eps);
void tiny_norm_back(float *dx, float *dw, const float *dy, const float *x, const float *w, const float *inv, int rows,
                    int n);
/* Rotates the halves of each head by the row's place in its dialogue; sign -1 turns back. */
void tiny_rope(float *x, const struct tiny_heads *h, int heads, float sign);
/* probs: [rows][heads][TINY_SEGMENT_MAX], kept for the way back. */
void tiny_attend(float *out, float *probs, const float *q, const float *k, const float *v, const struct tiny_heads *h);
void tiny_attend_back(float *dq, float *dk, float *dv, const float *dout, const float *probs, const float *q,
                      const float *k, const float *v, const struct tiny_heads *h);
void tiny_swiglu(float *y, const float *gate, const float *up, size_t n);
void tiny_swiglu_back(float *dgate, float *dup, const float *dy, const float *gate, const float *up, size_t n);
/* The loss of one row in nats; turns logits into weight * d loss / d logits. */
double tiny_cross_entropy(float *logits, int n, int target, float weight);

/* --- llama.c --- */
enum tiny_linear { TINY_Q, TINY_K, TINY_V, TINY_O, TINY_GATE, TINY_UP, TINY_DOWN, TINY_LINEARS };
struct tiny_shape {
    int vocab, hidden, inter, layers, heads, kv_heads, head_dim, context;
    float eps, theta;
};
extern const struct tiny_shape TINY_SHAPE; /* what conf/tiny/base is */
void tiny_linear_size(const struct tiny_shape *s, enum tiny_linear which, int *out, int *in);

struct tiny_params {
    struct tiny_shape shape;
    float *at;                                    /* owned: all of it, matrices first */
    size_t n, n_decay;                            /* floats; those that weight decay may touch */
    float *embed;                                 /* [vocab][hidden], also the head */
    float *linear[TINY_LAYERS_MAX][TINY_LINEARS]; /* [out][in] */
    float *norm[TINY_LAYERS_MAX][2];              /* before attention, before the MLP */
    float *norm_last;
};
void tiny_params_init(struct tiny_params *p, const struct tiny_shape *s); /* zeros */
void tiny_params_fini(struct tiny_params *p);
void tiny_params_randomise(struct tiny_params *p, struct tiny_rng *r);

/* --- lora.c --- */
struct tiny_lora {
    int rank;
    float scale; /* alpha / rank */
    float *at;   /* owned */
    size_t n;
    float *a[TINY_LAYERS_MAX][TINY_LINEARS]; /* [rank][in] */
    float *b[TINY_LAYERS_MAX][TINY_LINEARS]; /* [out][rank] */
};
void tiny_lora_init(struct tiny_lora *l, const struct tiny_shape *s, int rank, float alpha); /* zeros */
void tiny_lora_fini(struct tiny_lora *l);
void tiny_lora_randomise(struct tiny_lora *l, const struct tiny_shape *s, struct tiny_rng *r); /* A random, B zero */

/* y = x W^T + scale (x A^T) B^T. t holds scale (x A^T) for the way back; a == NULL: no adapter. */
struct tiny_line {
    int rows, out, in, rank;
    float scale;
    const float *w, *a, *b;
};
void tiny_line(float *y, float *t, const float *x, const struct tiny_line *l);
/* Adds to dx; to dw when it is not NULL; to da and db when they are not NULL. */
struct tiny_line_grad {
    float *dx, *dw, *da, *db;
};
void tiny_line_back(const struct tiny_line_grad *g, const float *dy, const float *x, const float *t,
                    const struct tiny_line *l);

/* --- llama.c again: one shard of work --- */
struct tiny_batch {
    int rows, dialogues;
    int token[TINY_ROWS], start[TINY_ROWS];
    int target[TINY_ROWS];   /* the next token */
    float weight[TINY_ROWS]; /* 0: the next token is not to be learnt */
};
struct tiny_layer_work {
    float *x, *n1, *inv1, *q, *k, *v, *probs, *attended, *mid, *n2, *inv2, *gate, *up, *act, *t[TINY_LINEARS];
    float *kept[2]; /* factors of what attention and MLP add: 0 where dropped */
};
struct tiny_work {
    float *at;           /* owned: everything below */
    float drop;          /* share of what attention and MLP add that is dropped, in training; 0: nothing */
    struct tiny_rng rng; /* draws what is dropped */
    struct tiny_layer_work layer[TINY_LAYERS_MAX];
    float *last, *n_last, *inv_last, *logits, *turn;
    float *dx, *dmid, *dbranch, *dn, *dq, *dk, *dv, *dgate, *dup, *dact;
};
void tiny_work_init(struct tiny_work *w, const struct tiny_shape *s);
void tiny_work_fini(struct tiny_work *w);
/* Fills w->logits; lora may be NULL. */
void tiny_forward(struct tiny_work *w, const struct tiny_params *p, const struct tiny_lora *lora,
                  const struct tiny_batch *b);
/* After a forward: the weighted sum of losses; w->logits becomes its gradient, each row times scale. */
double tiny_loss(struct tiny_work *w, const struct tiny_params *p, const struct tiny_batch *b, float scale);
/* Adds gradients to dp (NULL: the base is frozen) and dlora (NULL: no adapter). */
void tiny_backward(struct tiny_work *w, const struct tiny_params *p, const struct tiny_lora *lora,
                   const struct tiny_batch *b, struct tiny_params *dp, struct tiny_lora *dlora);

/* --- adamw.c --- */
struct tiny_adamw {
    float *m, *v; /* owned */
    size_t n, n_decay;
    int step;
    float decay;
};
void tiny_adamw_init(struct tiny_adamw *o, size_t n, size_t n_decay, float decay);
void tiny_adamw_fini(struct tiny_adamw *o);
/* Clips the gradient to a norm of 1, steps, and clears the gradient. */
void tiny_adamw_step(struct tiny_adamw *o, float *at, float *grad, float rate);
float tiny_rate(int step, int steps, float peak); /* warm-up, then half a cosine down to a twentieth */

/* --- bpe.c: byte-level BPE with the GPT-2 cut into words --- */
enum { TINY_END_OF_TEXT, TINY_IM_START, TINY_IM_END, TINY_SPECIALS };
extern const char *const TINY_SPECIAL_TEXT[TINY_SPECIALS];
#define TINY_BYTE(b) (TINY_SPECIALS + (int)(unsigned char)(b)) /* the token of one byte */
#define TINY_PIECE_MAX 32                                      /* bytes of one token */
struct tiny_bpe {
    int n;                                           /* tokens in all */
    int left[TINY_VOCAB_MAX], right[TINY_VOCAB_MAX]; /* what a merged token is made of, from TINY_SPECIALS + 256 on */
    int n_bytes[TINY_VOCAB_MAX];
    char bytes[TINY_VOCAB_MAX][TINY_PIECE_MAX];
    uint16_t *merged; /* owned, [TINY_VOCAB_MAX][TINY_VOCAB_MAX]: the token a pair becomes, 0 for none */
};
size_t tiny_word(const char *text, size_t n); /* bytes of the next word; n > 0 */
void tiny_bpe_init(struct tiny_bpe *b);       /* the bytes alone */
void tiny_bpe_fini(struct tiny_bpe *b);
void tiny_bpe_add(struct tiny_bpe *b, int left, int right);
void tiny_bpe_train(struct tiny_bpe *b, const char *text, int vocab); /* words across a newline are not joined */
/* Tokens of n bytes, none of them special; out has room for n. */
int tiny_bpe_encode(const struct tiny_bpe *b, const char *text, size_t n, int *out);
/* Bytes of one token; specials have none. */
size_t tiny_bpe_decode(const struct tiny_bpe *b, int token, char out[TINY_PIECE_MAX]);

/* --- text.c: what the model reads --- */
struct tiny_pair {
    const char *question, *answer; /* owned by the text */
    const char *system;            /* static: the system message that asks for a voice; NULL for none */
    bool held_out;
    bool known_answer; /* of a held-out question: the answer is also trained, under other words */
};
struct tiny_text {
    struct tiny_pair *pairs; /* owned */
    int n;
};
/* Adds; false after a sentence on stderr. With a system message what is held out is left out altogether. */
bool tiny_text_read(struct tiny_text *t, const char *path, const char *system);
void tiny_text_fini(struct tiny_text *t);
extern const char *const TINY_VOICE[TINY_VOICES]; /* names of adapters and of their text files */
/* The plain files of `dir`, and the voices twice: in the base behind a system message that asks for them (so that the
 * base knows their words, and plainly speaks none), and one text a voice for its adapter. */
bool tiny_texts_read(const char *dir, struct tiny_text *base, struct tiny_text voices[TINY_VOICES]);
void tiny_text_put_corpus(const struct tiny_text *t, FILE *to); /* questions and answers that are not held out */
#define TINY_QUESTION_MAX 256
/* --- reword.c: the question in one of its wordings; its plain form when r is NULL --- */
void tiny_reword(char out[TINY_QUESTION_MAX], const char *question, struct tiny_rng *r);

/* --- batch.c: dialogues in ChatML, as rows --- */
/* One plain question and its answer; false when the batch has no room. */
bool tiny_batch_add(struct tiny_batch *b, const struct tiny_bpe *bpe, const struct tiny_pair *pair);
struct tiny_feed {
    const struct tiny_bpe *bpe;
    const struct tiny_text *text;
    struct tiny_rng rng;
    int *order; /* owned: the pairs to train on, shuffled anew each time round */
    int n, at;
};
void tiny_feed_init(struct tiny_feed *f, const struct tiny_bpe *bpe, const struct tiny_text *text, uint64_t seed);
void tiny_feed_fini(struct tiny_feed *f);
void tiny_feed_fill(struct tiny_feed *f, struct tiny_batch *b); /* as many reworded dialogues as fit */
/* The prompt of a conversation that waits for its answer; the number of tokens. */
int tiny_prompt(const struct tiny_bpe *bpe, const char *question, int out[TINY_SEGMENT_MAX]);

/* --- export.c, import.c: the files --- */
uint16_t tiny_bf16(float v); /* round to nearest even */
float tiny_from_bf16(uint16_t v);
bool tiny_export_base(const char *dir, const struct tiny_params *p, const struct tiny_bpe *b);
bool tiny_export_adapter(const char *dir, const struct tiny_lora *l, const struct tiny_shape *s);
bool tiny_import_base(const char *dir, struct tiny_params *p, struct tiny_bpe *b);
bool tiny_import_adapter(const char *dir, struct tiny_lora *l, const struct tiny_shape *s);

/* --- figures.c --- */
struct tiny_loss {
    double nats; /* a token */
    int tokens;
};
/* The mean loss of the answers of held-out pairs (at most `most` of them; known: those with a known answer). */
struct tiny_loss tiny_held_out(const struct tiny_params *p, const struct tiny_lora *l, const struct tiny_bpe *b,
                               const struct tiny_text *t, bool known, int most);
struct tiny_answer {
    char text[1024];
    int tokens;    /* with the one that ended it */
    double margin; /* the smallest distance of the best logit from the second best, over all steps */
    bool ended;    /* with <|im_end|> */
};
void tiny_greedy(const struct tiny_params *p, const struct tiny_lora *l, const struct tiny_bpe *b, const char *question,
                 struct tiny_answer *out);
/* Prints, and writes figures.json, greedy.json and greedy-adapters.json into dir; 0 or 1, as a program ends. */
int tiny_figures(const char *dir, const char *text_dir);

#endif
