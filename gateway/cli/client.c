/* A blocking client of the admin port, for one call. Always true: the token goes nowhere but to that port, and is never
 * printed. */
#include "gateway/cli/client.h"

#include "conf/conf.h"
#include "gateway/net/http.h"
#include "gateway/state/state.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define REPORT_BYTES_MAX (1 << 20)
#define HEAD_MAX (64 * 1024)
#define CELL_MAX 40 /* widest column */
#define COLUMNS_MAX 16

/* ---- whom to ask ---- */

static bool read_token(const struct conf *c, char *out, size_t n) {
    char path[512];
    const char *said = getenv("TOLLGATE_ADMIN_TOKEN");
    if (said && *said)
        return snprintf(out, n, "%s", said) < (int)n;
    if (c->admin_token)
        return snprintf(out, n, "%s", c->admin_token) < (int)n;
    FILE *f = fopen(state_admin_token_path(c, path, sizeof(path)), "r");
    bool good = f && fgets(out, (int)n, f);
    if (f)
        fclose(f);
    if (good)
        out[strcspn(out, "\r\n")] = '\0';
    else
        fprintf(stderr, "tollgate: %s: %s; is the gateway running?\n", path, strerror(errno));
    return good;
}

bool client_init(struct client *client, const char *conf_file, const char *address) {
    struct conf_report report;
    struct str text;
    conf_report_init(&report);
    struct conf *c = conf_load(conf_file, &report);
    bool good = c && read_token(c, client->token, sizeof(client->token));
    if (!c) {
        str_init(&text, REPORT_BYTES_MAX);
        conf_report_print(&report, &text);
        fputs(text.at ? text.at : "", stderr);
        str_fini(&text);
    } else {
        snprintf(client->address, sizeof(client->address), "%s", address ? address : c->admin_address);
    }
    conf_drop(c);
    conf_report_fini(&report);
    return good;
}

/* ---- one call ---- */

static int connect_unix(const char *path) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(to.sun_path))
        return -1;
    memcpy(to.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int connect_host(const char *address) {
    char host[256];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    const char *colon = strrchr(address, ':');
    bool bracket = address[0] == '[';
    if (!colon)
        return -1;
    snprintf(host, sizeof(host), "%.*s", (int)(colon - address) - 2 * bracket, address + bracket);
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return -1;
    int fd = -1;
    for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

static bool send_all(int fd, struct span bytes) {
    while (bytes.n) {
        ssize_t n = send(fd, bytes.at, bytes.n, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0)
            bytes = (struct span){bytes.at + n, bytes.n - (size_t)n};
    }
    return true;
}

static void write_call(const struct client *c, const char *method, const char *path, const char *body,
                       struct str *out) {
    bool local = strncmp(c->address, "unix:", 5) == 0;
    str_printf(out, "%s %s HTTP/1.1\r\nhost: %s\r\nauthorization: Bearer %s\r\nconnection: close\r\n", method, path,
               local ? "localhost" : c->address, c->token);
    if (body)
        str_printf(out, "content-type: application/json\r\ncontent-length: %zu\r\n\r\n%s", strlen(body), body);
    else
        str_puts(out, "\r\n");
}

/* The answer's bytes through the gateway's own codec. */
static int read_answer(int fd, struct str *reply) {
    struct str in;
    struct http1 *codec = xcalloc(1, sizeof(*codec));
    char chunk[16 * 1024];
    int status = 0;
    bool over = false;
    str_init(&in, CLIENT_REPLY_MAX);
    http1_init(codec, true, HEAD_MAX);
    while (!over) {
        ssize_t n = recv(fd, chunk, sizeof(chunk), 0);
        if (n < 0 && errno == EINTR)
            continue;
        str_put(&in, span_from(chunk, n > 0 ? (size_t)n : 0));
        enum http1_result got = HTTP1_BODY;
        while (got == HTTP1_BODY || got == HTTP1_HEAD) {
            size_t used = 0;
            struct span body = SPAN_NONE;
            got = http1_read(codec, str_span(&in), n <= 0, &used, &body);
            if (got == HTTP1_HEAD)
                status = codec->head.status;
            if (got == HTTP1_BODY)
                str_put(reply, body);
            str_cut(&in, used);
            if (got == HTTP1_BODY && !used)
                break;
        }
        over = n <= 0 || got == HTTP1_END || got == HTTP1_BAD || in.over || reply->over;
    }
    str_fini(&in);
    free(codec);
    return status;
}

int client_ask(const struct client *c, const char *method, const char *path, const char *body, struct str *reply) {
    bool local = strncmp(c->address, "unix:", 5) == 0;
    int fd = local ? connect_unix(c->address + 5) : connect_host(c->address);
    struct timeval patience = {.tv_sec = CLIENT_WAIT_S};
    struct str call;
    int status = 0;
    if (fd < 0) {
        fprintf(stderr, "tollgate: nobody answers on %s; is the gateway running?\n", c->address);
        return 0;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    str_init(&call, CLIENT_REPLY_MAX);
    write_call(c, method, path, body, &call);
    if (!call.over && send_all(fd, str_span(&call)))
        status = read_answer(fd, reply);
    str_fini(&call);
    close(fd);
    if (!status)
        fprintf(stderr, "tollgate: the gateway on %s did not answer\n", c->address);
    return status;
}

bool client_do(const struct client *c, const char *method, const char *path, const char *body, struct str *reply) {
    struct json doc;
    struct arena a;
    int status = client_ask(c, method, path, body, reply);
    if (status >= 200 && status <= 299)
        return true;
    if (!status)
        return false;
    arena_init(&a, HEAD_MAX);
    struct span said = SPAN_NONE;
    if (json_check(str_span(reply), JSON_DEPTH_MAX, &doc, NULL))
        said = json_text(json_get(json_get(doc, "error"), "message"), &a);
    fprintf(stderr, "tollgate: %d: %.*s\n", status, (int)said.n, said.n ? said.at : "");
    arena_fini(&a);
    return false;
}

/* ---- tables ---- */

static struct span cell(struct json row, const char *member, struct arena *a) {
    struct json v = json_get(row, member);
    if (v.kind == JSON_NONE || v.kind == JSON_NULL)
        return SPAN("-");
    return v.kind == JSON_STRING ? json_text(v, a) : v.raw;
}

static void print_row(struct json row, const struct client_column *columns, size_t n, const int *widths,
                      struct arena *a) {
    for (size_t i = 0; i < n; i++) {
        struct span text = cell(row, columns[i].member, a);
        printf("%-*.*s%s", i + 1 < n ? widths[i] : 0, (int)text.n, text.at, i + 1 < n ? "  " : "\n");
    }
}

void client_table(struct json rows, const struct client_column *columns, size_t n) {
    struct json_walk walk;
    struct span name;
    struct json row;
    struct arena a;
    int widths[COLUMNS_MAX];
    arena_init(&a, CLIENT_REPLY_MAX);
    for (size_t i = 0; i < n; i++)
        widths[i] = (int)strlen(columns[i].title);
    json_walk_init(&walk, rows);
    while (json_walk_next(&walk, &name, &row))
        for (size_t i = 0; i < n; i++) {
            int width = (int)cell(row, columns[i].member, &a).n;
            widths[i] = width > widths[i] ? (width < CELL_MAX ? width : CELL_MAX) : widths[i];
        }
    for (size_t i = 0; i < n; i++)
        printf("%-*s%s", i + 1 < n ? widths[i] : 0, columns[i].title, i + 1 < n ? "  " : "\n");
    json_walk_init(&walk, rows);
    while (json_walk_next(&walk, &name, &row))
        print_row(row, columns, n, widths, &a);
    arena_fini(&a);
}
