/* How long accounts live. */
#include "budget/book.h"

#include <criterion/criterion.h>

#include "gateway/base/clock.h"
#include "tests/support/budget_house.h"

static struct ledger_owner search(const char *zone) {
    struct ledger_owner o = {.name = "team/search", .zone = zone_get(zone)};
    return o;
}

static struct book *day_book(struct books *b, const char *zone) {
    struct ledger_owner o = search(zone);
    return owner_get(b, &o, LEVEL_TEAM)->spend[0];
}

Test(book, an_account_lives_as_long_as_its_period) {
    struct books b;
    books_init(&b);
    struct book *day = day_book(&b, "UTC");
    struct account *a = book_account(day, HOUSE_NOW_US);
    cr_assert(account_holds(a, HOUSE_NOW_US) && a->to_us - a->from_us == US_PER_DAY);
    cr_assert_eq(book_account(day, a->to_us - 1), a);
    account_settle(a, 5);
    struct account *next = book_account(day, a->to_us);
    cr_assert(next->settled_nanousd == 0 && !day->old);
    books_fini(&b);
}

Test(book, an_old_account_lives_while_a_call_is_in_it) {
    struct books b;
    books_init(&b);
    struct book *day = day_book(&b, "UTC");
    struct account *a = book_account(day, HOUSE_NOW_US);
    account_take(a);
    account_take(a);
    struct account *next = book_account(day, a->to_us);
    cr_assert_neq(next, a);
    cr_assert_eq(day->old, a);
    account_drop(a);
    cr_assert_eq(day->old, a);
    account_drop(a);
    cr_assert_null(day->old);
    account_take(next);
    account_drop(next);
    cr_assert_eq(book_account(day, next->from_us), next, "the current one stays without calls");
    books_fini(&b);
}

/* Periods came and went, and their accounts stayed. */
Test(book, memory_does_not_grow_with_time) {
    struct books b;
    books_init(&b);
    struct book *day = day_book(&b, "UTC");
    for (int i = 0; i < 3000; i++) {
        struct account *a = book_account(day, HOUSE_NOW_US + i * US_PER_DAY);
        account_take(a);
        account_drop(a);
        cr_assert_null(day->old);
    }
    cr_assert_eq(b.by_name.n, SPEND_PERIODS);
    books_fini(&b);
}

Test(book, another_zone_has_books_of_its_own) {
    struct books b;
    books_init(&b);
    struct book *utc = day_book(&b, "UTC"), *berlin = day_book(&b, "Europe/Berlin");
    cr_assert_neq(utc, berlin);
    cr_assert_eq(book_account(berlin, HOUSE_NOW_US)->from_us, book_account(utc, HOUSE_NOW_US)->from_us - US_PER_HOUR);
    cr_assert_eq(day_book(&b, "UTC"), utc, "and back");
    books_fini(&b);
}

Test(book, sums_do_not_wrap) {
    struct account a = {0};
    account_settle(&a, INT64_MAX);
    account_settle(&a, INT64_MAX);
    cr_assert_eq(a.settled_nanousd, INT64_MAX);
    a.held_nanousd = INT64_MAX;
    cr_assert_eq(account_room(&a, 0), INT64_MIN);
    cr_assert_eq(account_room(&(struct account){.settled_nanousd = 3, .held_nanousd = 4}, 10), 3);
    cr_assert_eq(account_room(&(struct account){.settled_nanousd = 8, .held_nanousd = 4}, 10), -2);
}
