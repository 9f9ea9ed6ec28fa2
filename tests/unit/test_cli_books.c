/* reprice and close where no gateway runs, and against an admin port that answers by script: what a shell sees. */
#include "gateway/cli/cli.h"
#include "gateway/cli/client.h"
#include "gateway/finance/books.h"
#include "tests/support/chain_kit.h"
#include "tests/support/conf_text.h"
#include "tests/support/temp_folder.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

struct port { /* takes one connection, keeps what was asked, answers with `reply` */
    int fd, number;
    const char *reply;
    char asked[4096];
    pthread_t thread;
};

static void *serve(void *arg) {
    struct port *p = arg;
    int fd = accept(p->fd, NULL, NULL);
    ssize_t n = recv(fd, p->asked, sizeof p->asked - 1, 0);
    p->asked[n > 0 ? n : 0] = 0;
    n = send(fd, p->reply, strlen(p->reply), MSG_NOSIGNAL);
    (void)n;
    close(fd);
    return NULL;
}

static void open_port(struct port *p, const char *reply) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    struct timeval patience = {5, 0};
    p->fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience); /* also of accept */
    p->reply = reply;
    cr_assert(bind(p->fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(p->fd, 1) == 0);
    getsockname(p->fd, (struct sockaddr *)&at, &n);
    p->number = ntohs(at.sin_port);
}

static int run(int (*verb)(int, char **), struct temp_folder *t, const char *words, char out[4096]) {
    char copy[1024], file[256], *argv[24];
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", words);
    snprintf(file, sizeof file, "%s", temp_name(t, "t.yaml"));
    char *rest = copy;
    for (char *word; (word = strsep(&rest, " "));)
        argv[argc++] = strcmp(word, "FILE") == 0 ? file : word;
    fflush(stdout);
    fflush(stderr);
    int saved = dup(1), saved_2 = dup(2), fd = open(temp_name(t, "out"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    int status = verb(argc, argv);
    fflush(stdout);
    fflush(stderr);
    dup2(saved, 1);
    dup2(saved_2, 2);
    close(saved);
    close(saved_2);
    ssize_t n = pread(fd, out, 4095, 0);
    out[n > 0 ? n : 0] = 0;
    close(fd);
    return status;
}

static void write_conf_of(struct temp_folder *t, int port, const char *audit) {
    FILE *f = fopen(temp_name(t, "t.yaml"), "w");
    fprintf(f,
            "admin: {address: \"127.0.0.1:%d\", token: secret}\nstate: {directory: %s/state}\naudit: {directory: "
            "%s}\n" MOCK_BACKEND "teams: {search: {allow: [\"*\"]}}\n",
            port, t->path, audit);
    fclose(f);
}

static void write_conf(struct temp_folder *t, int port) {
    char audit[256];
    snprintf(audit, sizeof audit, "%s/audit", t->path);
    write_conf_of(t, port, audit);
}

Test(cli_books, words_are_told) {
    struct temp_folder t = temp_new();
    char out[4096];
    write_conf(&t, 9);
    static const struct {
        const char *words, *says;
    } rows[] = {{"reprice -c FILE --reason x", "--month, or --from and --to, are needed"},
                {"reprice -c FILE --month 2026-11", "--reason is needed"},
                {"reprice -c FILE --month 2026-11 --from 2026-11-01 --reason x", "are needed"},
                {"reprice -c FILE --monht 2026-11", "did you mean --month?"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        cr_expect_eq(run(cli_reprice, &t, rows[i].words, out), 1);
        cr_expect(strstr(out, rows[i].says), "%s: %s", rows[i].words, out);
    }
    cr_expect_eq(run(cli_close, &t, "close -c FILE --reason x", out), 1);
    cr_expect(strstr(out, "--month is needed"));
    cr_expect_eq(run(cli_close, &t, "close -h", out), 0);
    temp_free(&t);
}

Test(cli_books, a_running_gateway_is_asked) {
    struct temp_folder t = temp_new();
    struct port p;
    char out[4096];
    open_port(&p, "HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{\"good\":1}\n\n");
    write_conf(&t, p.number);
    pthread_create(&p.thread, NULL, serve, &p);
    cr_assert_eq(run(cli_reprice, &t, "reprice -c FILE --month 2026-11 --model gpt --dry-run", out), 0, "%s", out);
    pthread_join(p.thread, NULL);
    cr_expect_str_eq(out, "{\"good\":1}\n\n");
    cr_expect(strstr(p.asked, "POST /admin/reprice HTTP/1.1\r\n") == p.asked &&
              strstr(p.asked, "authorization: Bearer secret\r\n"));
    close(p.fd);
    open_port(&p, "HTTP/1.1 400 Bad Request\r\n\r\n{\"error\":{\"message\":\"2026-11 is not over yet\"}}");
    write_conf(&t, p.number);
    pthread_create(&p.thread, NULL, serve, &p);
    cr_expect_eq(run(cli_close, &t, "close -c FILE --month 2026-11 --reason x", out), 1);
    pthread_join(p.thread, NULL);
    cr_expect(strstr(out, "tollgate: 2026-11 is not over yet"), "%s", out);
    close(p.fd);
    open_port(&p, "HTTP/1.1 200 OK\r\ncontent-le");
    write_conf(&t, p.number);
    pthread_create(&p.thread, NULL, serve, &p);
    cr_expect_eq(run(cli_close, &t, "close -c FILE --month 2026-11 --reason x", out), 1);
    pthread_join(p.thread, NULL);
    cr_expect(strstr(out, "gave no whole answer"), "%s", out);
    close(p.fd);
    temp_free(&t);
}

Test(cli_books, without_a_gateway_the_chain_itself_is_opened) {
    struct temp_folder t = temp_new();
    struct port p;
    char out[4096];
    open_port(&p, "");
    close(p.fd); /* nobody listens there now */
    write_conf(&t, p.number);
    cr_assert_eq(run(cli_close, &t, "close -c FILE --month 2020-01 --reason books", out), 0, "%s", out);
    cr_expect_str_eq(out, "{\"closed\":\"2020-01\",\"rollups\":0}\n", "%s", out);
    cr_expect_eq(run(cli_close, &t, "close -c FILE --month 2020-01 --reason books", out), 1);
    cr_expect(strstr(out, "2020-01 (UTC) is closed already"), "%s", out);
    cr_expect_eq(run(cli_close, &t, "close -c FILE --month 2020-02 --reason books --timezone Mars", out), 1);
    cr_assert_eq(run(cli_reprice, &t, "reprice -c FILE --from 2020-01-01 --to 2020-02-01 --reason books", out), 0, "%s",
                 out);
    cr_expect(strstr(out, "\"adjusts\":0"), "%s", out);
    temp_free(&t);
}

/* Two looks at a ledger that never has what the log has: the log is empty. */
static void *serve_ledger(void *arg) {
    struct port *p = arg;
    for (int i = 0; i < 10; i++) {
        int fd = accept(p->fd, NULL, NULL);
        if (fd < 0)
            break;
        if (recv(fd, p->asked, sizeof p->asked - 1, 0) > 0 && send(fd, p->reply, strlen(p->reply), MSG_NOSIGNAL) < 0)
            break;
        close(fd);
    }
    return NULL;
}

Test(cli_books, a_ledger_that_differs_from_the_log_is_named) {
    struct temp_folder t = temp_new();
    struct port p;
    char out[4096];
    open_port(&p,
              "HTTP/1.1 200 OK\r\n\r\n{\"budgets\":[{\"level\":\"team\",\"scope\":\"search\",\"period\":\"month\","
              "\"settled_nanousd\":5,\"period_from\":\"2026-11-01T00:00:00Z\",\"period_to\":\"2026-12-01T00:00:00Z\"},"
              "{\"level\":\"organization\",\"scope\":\"organization\",\"period\":\"total\",\"settled_nanousd\":0}]}");
    write_conf(&t, p.number);
    temp_folder_make(&t, "audit");
    pthread_create(&p.thread, NULL, serve_ledger, &p);
    cr_expect_eq(run(cli_spend, &t, "spend --check -c FILE", out), 1);
    pthread_join(p.thread, NULL);
    close(p.fd);
    cr_expect_str_eq(
        out, "differs: team search, month from 2026-11-01T00:00:00.000000Z: ledger 0.000000005 USD, log 0 USD\n");
    cr_expect_eq(run(cli_spend, &t, "spend --check -c FILE", out), 1);
    cr_expect(strstr(out, "no gateway is running"), "%s", out);
    temp_free(&t);
}

/* Twenty settles in October, one in November; October is closed, and the first files are removed as retention would. */
static void make_cut_log(struct kit *k) {
    struct books_kept closed = {.closes = true};
    struct finance_act act = {"gateway", "operator", "due"};
    struct spend_sums total;
    char name[256], path[512];
    int64_t october_us;
    kit_init(k);
    cr_assert(clock_parse(SPAN("2026-10-01T08:00:00Z"), &october_us));
    struct audit *a = kit_open(k, october_us);
    for (int day = 0; day <= 40; day += 2) {
        kit_admit(a, day, 1000, october_us + day * US_PER_DAY);
        kit_settle(a, day, 1000, october_us + day * US_PER_DAY, october_us + day * US_PER_DAY + 5);
    }
    struct books_ask ask = {
        .directory = k->directory, .month = "2026-10", .zone = zone_get("UTC"), .now_us = october_us + 41 * US_PER_DAY};
    audit_close(a, ask.now_us);
    cr_assert(books_close(&ask, &closed.records, &total, &k->why), "%s", k->why.at);
    a = kit_open(k, ask.now_us);
    for (int i = 0; i < 5000 && !finance_records_write(&closed.records, a, &act, ask.now_us, NULL, NULL); i++)
        usleep(200);
    audit_close(a, ask.now_us);
    finance_records_free(&closed.records);
    while (kit_segments(k) > 8)
        unlink(kit_path(k, kit_segment(k, 0, name), path));
}

Test(cli_books, a_budget_without_an_end_agrees_with_its_log_after_retention) {
    struct temp_folder t = temp_new();
    struct port p;
    struct kit k;
    char out[4096];
    make_cut_log(&k);
    open_port(&p, "HTTP/1.1 200 OK\r\n\r\n{\"budgets\":[{\"level\":\"team\",\"scope\":\"legal\",\"period\":\"total\","
                  "\"settled_nanousd\":21000},{\"level\":\"key\",\"scope\":\"key00001\",\"period\":\"total\","
                  "\"settled_nanousd\":7000},{\"level\":\"organization\",\"scope\":\"organization\",\"period\":"
                  "\"month\",\"settled_nanousd\":5000,\"period_from\":\"2026-11-01T00:00:00Z\",\"period_to\":"
                  "\"2026-12-01T00:00:00Z\"}]}");
    write_conf_of(&t, p.number, k.directory);
    pthread_create(&p.thread, NULL, serve_ledger, &p);
    cr_expect_eq(run(cli_spend, &t, "spend --check -c FILE", out), 0, "%s", out);
    pthread_cancel(p.thread);
    pthread_join(p.thread, NULL);
    close(p.fd);
    cr_expect_str_eq(out, "log and ledger agree: 3 budgets\n");
    kit_fini(&k);
    temp_free(&t);
}
