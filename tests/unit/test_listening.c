/* Listening sockets: shared by those who are meant to, never by others; kept for the next one who accepts. */
#include "gateway/net/listening.h"

#include <criterion/criterion.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/temp_folder.h"

#define CLIENTS 32

static int connect_to(const struct listening *s) {
    struct sockaddr_in a;
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(getsockname(s->fd, (struct sockaddr *)&a, &n), 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&a, n), 0);
    return fd;
}

static int accepted(const struct listening *s) {
    int n = 0;
    for (int fd; (fd = accept(s->fd, NULL, NULL)) >= 0; n++)
        close(fd);
    return n;
}

Test(listening, a_shared_address_spreads_clients_and_is_nobody_elses) {
    struct listening first, second, other;
    struct str why;
    int clients[CLIENTS];
    str_init(&why, 4096);
    cr_assert(listening_open(&first, "127.0.0.1:0", true, &why), "%s", why.at);
    cr_assert(listening_another(&second, &first, &why), "%s", why.at);
    cr_expect_str_eq(first.address, second.address);
    cr_expect(first.loopback && second.loopback);
    for (int i = 0; i < 2; i++) /* also one who would share */
        cr_expect(!listening_open(&other, first.address, i, &why));
    cr_expect_not_null(strstr(why.at, "the address is in use"));
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = connect_to(&first);
    int at_first = accepted(&first), at_second = accepted(&second);
    cr_expect_eq(at_first + at_second, CLIENTS);
    cr_expect(at_first > 0 && at_second > 0, "%d and %d", at_first, at_second);
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
    listening_close(&second);
    listening_close(&first);
    listening_close(&first); /* does nothing */
    str_fini(&why);
}

Test(listening, a_unix_socket_is_one_queue_and_its_path_goes_with_the_first) {
    struct temp_folder folder = temp_new();
    struct listening first, second, other;
    struct str why;
    char address[300];
    str_init(&why, 4096);
    snprintf(address, sizeof address, "unix:%s", temp_name(&folder, "s"));
    cr_assert(listening_open(&first, address, true, &why), "%s", why.at);
    cr_assert(listening_another(&second, &first, &why), "%s", why.at);
    cr_expect(!listening_open(&other, address, false, &why));
    listening_close(&second);
    cr_expect_eq(access(folder.file, F_OK), 0, "the second one took the path away");
    close(first.fd); /* as a process that was killed leaves it */
    cr_assert(listening_open(&other, address, false, &why), "%s", why.at);
    listening_close(&other);
    cr_expect_neq(access(folder.file, F_OK), 0);
    str_fini(&why);
    temp_free(&folder);
}

Test(listening, what_is_no_address_is_said) {
    static const char *const bad[] = {"nonsense", "unix:", "127.0.0.1:x"};
    struct listening s;
    struct str why;
    str_init(&why, 4096);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_expect(!listening_open(&s, bad[i], i % 2, &why), "%s", bad[i]);
    cr_expect_not_null(strstr(why.at, "cannot listen on nonsense: this is neither host:port nor unix:/path"));
    str_fini(&why);
}
