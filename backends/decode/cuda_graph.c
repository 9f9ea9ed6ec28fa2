/* Recorded steps. A plan that comes for the second time is recorded while it is issued, and replayed from then on; the first time
 * runs it as it is, so that whatever a library prepares on first use is prepared outside of a recording. */
#include "backends/decode/cuda_twin.h"

static bool same(const struct cuda_plan *a, const struct cuda_plan *b) {
    return a->rows == b->rows && a->want_rows == b->want_rows && a->tiles == b->tiles &&
           a->want_tiles == b->want_tiles && a->chunks == b->chunks && a->adapted == b->adapted && a->rank == b->rank &&
           a->sampled == b->sampled;
}

static void forget(struct compute *c, struct cuda_graph *g) {
    if (g->executable)
        cuda_device_check(&c->device, c->device.driver.graph_free(g->executable), "freeing a graph");
    *g = (struct cuda_graph){0};
}

/* The plan's own place, or the one that was least lately used. */
static struct cuda_graph *place_of(struct compute *c, const struct cuda_plan *p) {
    struct cuda_graph *least = &c->graphs[0];
    for (int i = 0; i < CUDA_GRAPHS_MAX; i++) {
        struct cuda_graph *g = &c->graphs[i];
        if (g->used && same(&g->plan, p))
            return g;
        if (g->used < least->used)
            least = g;
    }
    forget(c, least);
    return least;
}

static void record(struct compute *c, struct cuda_graph *g) {
    struct cuda_device *d = &c->device;
    void *graph = NULL;
    cuda_device_check(d, d->driver.capture_begin(d->stream, CUDA_CAPTURE_THREAD_LOCAL), "recording a step");
    if (d->status != CUDA_OK)
        return;
    cuda_walk(c, &g->plan);
    cuda_device_check(d, d->driver.capture_end(d->stream, &graph), "recording a step"); /* whatever went wrong */
    if (d->status == CUDA_OK)
        cuda_device_check(d, d->driver.graph_make(&g->executable, graph, 0), "recording a step");
    if (graph)
        cuda_device_check(d, d->driver.graph_destroy(graph), "recording a step");
}

void cuda_graph_walk(struct compute *c, const struct cuda_plan *p) {
    struct cuda_device *d = &c->device;
    bool decodes = p->rows == p->want_rows && p->rows <= CUDA_GRAPH_ROWS_MAX;
    struct cuda_graph *g = decodes ? place_of(c, p) : NULL;
    bool first = g && !g->used;
    if (g) {
        g->plan = *p;
        g->used = ++c->steps;
    }
    if (!g || first) {
        cuda_walk(c, p);
        return;
    }
    if (!g->executable && d->status == CUDA_OK)
        record(c, g);
    if (d->status == CUDA_OK)
        cuda_device_check(d, d->driver.graph_launch(g->executable, d->stream), "replaying a step");
}

void cuda_graphs_fini(struct compute *c) {
    for (int i = 0; i < CUDA_GRAPHS_MAX; i++)
        forget(c, &c->graphs[i]);
}
