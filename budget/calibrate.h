/* How targets count, against our own estimate. Private to budget/. */
#ifndef TOLLGATE_BUDGET_CALIBRATE_H
#define TOLLGATE_BUDGET_CALIBRATE_H

#include "budget/budget.h"

struct calibration {
    struct map by_name; /* target or alias -> what was seen, owned */
};
void calibration_init(struct calibration *c);
void calibration_fini(struct calibration *c);
void calibration_learn(struct calibration *c, const char *name, const struct call_size *size, const struct usage *used);
int64_t calibration_ppm(const struct calibration *c, const char *name);
int64_t calibration_out_tok(const struct calibration *c, const char *name);

#endif
