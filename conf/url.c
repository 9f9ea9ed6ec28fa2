/* A url, taken apart here and nowhere else. Always true of the parts: host and port can be connected to, the path begins
 * with a slash or is empty, and nothing in them can end a line of a request. */
#include "conf/directives.h"

#define HOST_BYTES_MAX 253

static bool bad_url(struct reader *r, const struct node *at, const char *why) {
    problem_at(r->report, at, "the url %s", why);
    return false;
}

static bool take_port(struct url_parts *out, struct span port) {
    int64_t v;
    if (!span_to_i64(port, &v) || v < 1 || v > 65535)
        return false;
    out->port = (int)v;
    return true;
}

static bool take_authority(struct reader *r, struct url_parts *out, const struct node *at, struct span a) {
    struct span host = a;
    const char *close = a.n && a.at[0] == '[' ? memchr(a.at, ']', a.n) : NULL;
    const char *from = close ? close + 1 : a.at, *colon = memchr(from, ':', a.n - (size_t)(from - a.at));
    if (colon) {
        host.n = (size_t)(colon - a.at);
        if (!take_port(out, (struct span){colon + 1, a.n - host.n - 1}))
            return bad_url(r, at, "has no usable port behind ':'");
    }
    if (close)
        host = (struct span){a.at + 1, (size_t)(close - a.at) - 1};
    if (!host.n || host.n > HOST_BYTES_MAX || (!close && !value_word_chars(host)))
        return bad_url(r, at, "has no usable host");
    out->host = tree_strdup(&r->conf->arena, host);
    return true;
}

bool url_take(struct reader *r, const char *url, const struct node *at, bool query, struct url_parts *out) {
    *out = (struct url_parts){.tls = url[4] == 's'};
    out->port = out->tls ? 443 : 80;
    const char *from = strstr(url, "://") + 3;
    if (strchr(from, '@'))
        hide_secret(r, span_of(from)); /* whoever writes a password there should not see it in a log too */
    if (strpbrk(from, query ? "#@ \\" : "?#@ \\") || strstr(from, "/../"))
        return bad_url(r, at,
                       query ? "holds a user, a fragment, a space or a '..'"
                             : "holds a user, a query, a fragment, a space or a '..'");
    size_t n = strcspn(from, "/?"), path = strlen(from + n);
    while (path && from[n + path - 1] == '/')
        path--;
    out->path = tree_strdup(&r->conf->arena, (struct span){from + n, path});
    return take_authority(r, out, at, (struct span){from, n});
}
