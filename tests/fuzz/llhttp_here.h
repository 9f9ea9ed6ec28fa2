/* llhttp, built strict into the one file that includes this. Its generated part and its callbacks disagree about the sign of
 * char, which two files would hide and one does not: the callbacks get wrappers. HAVE_LLHTTP tells whether it is there. */
#ifndef TOLLGATE_TESTS_LLHTTP_HERE_H
#define TOLLGATE_TESTS_LLHTTP_HERE_H

#if __has_include(<llhttp.h>) && __has_include("/usr/share/llhttp/llhttp.c")
#define HAVE_LLHTTP 1
#define LLHTTP_STRICT_MODE 1
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wunused-variable"
#include "/usr/share/llhttp/api.c"
#include "/usr/share/llhttp/http.c"

#define LLHTTP_WRAPPER(name)                                                                                           \
    int name##_bytes(llhttp__internal_t *s, const unsigned char *p, const unsigned char *endp);                        \
    int name##_bytes(llhttp__internal_t *s, const unsigned char *p, const unsigned char *endp) {                       \
        return name(s, (const char *)p, (const char *)endp);                                                           \
    }
LLHTTP_WRAPPER(llhttp__after_headers_complete)
LLHTTP_WRAPPER(llhttp__after_message_complete)
LLHTTP_WRAPPER(llhttp__before_headers_complete)
LLHTTP_WRAPPER(llhttp__on_body)
LLHTTP_WRAPPER(llhttp__on_chunk_complete)
LLHTTP_WRAPPER(llhttp__on_chunk_extension_name)
LLHTTP_WRAPPER(llhttp__on_chunk_extension_name_complete)
LLHTTP_WRAPPER(llhttp__on_chunk_extension_value)
LLHTTP_WRAPPER(llhttp__on_chunk_extension_value_complete)
LLHTTP_WRAPPER(llhttp__on_chunk_header)
LLHTTP_WRAPPER(llhttp__on_header_field)
LLHTTP_WRAPPER(llhttp__on_header_field_complete)
LLHTTP_WRAPPER(llhttp__on_header_value)
LLHTTP_WRAPPER(llhttp__on_header_value_complete)
LLHTTP_WRAPPER(llhttp__on_headers_complete)
LLHTTP_WRAPPER(llhttp__on_message_begin)
LLHTTP_WRAPPER(llhttp__on_message_complete)
LLHTTP_WRAPPER(llhttp__on_method)
LLHTTP_WRAPPER(llhttp__on_method_complete)
LLHTTP_WRAPPER(llhttp__on_reset)
LLHTTP_WRAPPER(llhttp__on_status)
LLHTTP_WRAPPER(llhttp__on_status_complete)
LLHTTP_WRAPPER(llhttp__on_url)
LLHTTP_WRAPPER(llhttp__on_url_complete)
LLHTTP_WRAPPER(llhttp__on_version)
LLHTTP_WRAPPER(llhttp__on_version_complete)
#define llhttp__after_headers_complete llhttp__after_headers_complete_bytes
#define llhttp__after_message_complete llhttp__after_message_complete_bytes
#define llhttp__before_headers_complete llhttp__before_headers_complete_bytes
#define llhttp__on_body llhttp__on_body_bytes
#define llhttp__on_chunk_complete llhttp__on_chunk_complete_bytes
#define llhttp__on_chunk_extension_name llhttp__on_chunk_extension_name_bytes
#define llhttp__on_chunk_extension_name_complete llhttp__on_chunk_extension_name_complete_bytes
#define llhttp__on_chunk_extension_value llhttp__on_chunk_extension_value_bytes
#define llhttp__on_chunk_extension_value_complete llhttp__on_chunk_extension_value_complete_bytes
#define llhttp__on_chunk_header llhttp__on_chunk_header_bytes
#define llhttp__on_header_field llhttp__on_header_field_bytes
#define llhttp__on_header_field_complete llhttp__on_header_field_complete_bytes
#define llhttp__on_header_value llhttp__on_header_value_bytes
#define llhttp__on_header_value_complete llhttp__on_header_value_complete_bytes
#define llhttp__on_headers_complete llhttp__on_headers_complete_bytes
#define llhttp__on_message_begin llhttp__on_message_begin_bytes
#define llhttp__on_message_complete llhttp__on_message_complete_bytes
#define llhttp__on_method llhttp__on_method_bytes
#define llhttp__on_method_complete llhttp__on_method_complete_bytes
#define llhttp__on_reset llhttp__on_reset_bytes
#define llhttp__on_status llhttp__on_status_bytes
#define llhttp__on_status_complete llhttp__on_status_complete_bytes
#define llhttp__on_url llhttp__on_url_bytes
#define llhttp__on_url_complete llhttp__on_url_complete_bytes
#define llhttp__on_version llhttp__on_version_bytes
#define llhttp__on_version_complete llhttp__on_version_complete_bytes
#include "/usr/share/llhttp/llhttp.c"
#pragma GCC diagnostic pop
#endif

#endif
