/* A doubly linked list whose links live in the members: no memory of its own, removal in one step. */
#ifndef TOLLGATE_BASE_LIST_H
#define TOLLGATE_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct link {
    struct link *prev, *next; /* both NULL: on no list */
};

struct list {
    struct link head; /* ring through the head */
    size_t n;
};

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct list *l) {
    l->head.prev = l->head.next = &l->head;
    l->n = 0;
}
static inline bool list_empty(const struct list *l) {
    return l->n == 0;
}
static inline bool link_on_list(const struct link *k) {
    return k->next != NULL;
}
static inline void list_append(struct list *l, struct link *k) {
    k->prev = l->head.prev;
    k->next = &l->head;
    l->head.prev->next = k;
    l->head.prev = k;
    l->n++;
}
static inline void list_remove(struct list *l, struct link *k) {
    k->prev->next = k->next;
    k->next->prev = k->prev;
    k->prev = k->next = NULL;
    l->n--;
}
static inline struct link *list_first(const struct list *l) {
    return l->n ? l->head.next : NULL;
}
static inline struct link *list_last(const struct list *l) {
    return l->n ? l->head.prev : NULL;
}
static inline struct link *list_next(const struct list *l, const struct link *k) {
    return k->next == &l->head ? NULL : k->next;
}
static inline struct link *list_shift(struct list *l) {
    struct link *k = list_first(l);
    if (k)
        list_remove(l, k);
    return k;
}

#endif
