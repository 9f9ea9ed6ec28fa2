/* Lists that several processes print, made one. Each array is a process's own JSON, `at == NULL` of one that did not answer. */
#ifndef TOLLGATE_GATEWAY_ROWS_H
#define TOLLGATE_GATEWAY_ROWS_H

#include "gateway/base/json.h"

/* All rows behind one another. */
void rows_join(const struct span *arrays, size_t n, struct str *out);
/* Lanes: one row a target and key, tries and what is in flight added up; "open" where any process holds it open. */
void rows_targets(const struct span *arrays, size_t n, struct str *out);
/* Budgets, which all processes share: of each the row that has heard the most. */
void rows_budgets(const struct span *arrays, size_t n, struct str *out);

#endif
