/* Is a device there, and what is said when it is not: by libraries that are played. */
#include "backends/decode/cuda_device.h"
#include "tests/support/fake_device.h"

static void expect(enum cuda_found want, const char *sentence) {
    struct str why;
    str_init(&why, 1000);
    enum cuda_found got = cuda_device_look(&why);
    cr_expect_eq(got, want, "%d, %s", got, why.n ? why.at : "");
    cr_expect_str_eq(why.n ? why.at : "", sentence);
    str_fini(&why);
}

Test(cuda_driver, a_machine_without_a_driver_has_no_device_unless_its_nodes_are_there) {
    fake_device();
    cuda_source.driver = "/nonexistent/libcuda.so.1";
    expect(CUDA_ABSENT, "device: there is no NVIDIA driver here: /nonexistent/libcuda.so.1 cannot be opened");
    cuda_source.nodes = "/dev/nul[l]";
    expect(CUDA_UNUSABLE, "device: /dev/null is here, but /nonexistent/libcuda.so.1 cannot be opened: "
                          "/nonexistent/libcuda.so.1: cannot open shared object file: No such file or directory");
}

Test(cuda_driver, what_the_driver_says_tells_absent_from_unusable) {
    static const struct {
        int init, devices, major;
        enum cuda_found found;
        const char *why;
    } rows[] = {
        {0, 1, 9, CUDA_FOUND, ""},
        {0, 2, 8, CUDA_FOUND, ""},
        {0, 0, 9, CUDA_ABSENT, "device: the NVIDIA driver knows no device"},
        {100, 1, 9, CUDA_ABSENT, "device: the NVIDIA driver knows no device"},
        {34, 1, 9, CUDA_ABSENT, "device: the NVIDIA driver knows no device"},
        {999, 1, 9, CUDA_UNUSABLE, "device: the NVIDIA driver does not start: CUDA_ERROR_UNKNOWN (999)"},
        {803, 1, 9, CUDA_UNUSABLE, "device: the NVIDIA driver does not start: error 803"},
        {0, 1, 7, CUDA_UNUSABLE,
         "device: the NVIDIA device has compute capability 7.0, and 8.0 is needed; say device: cpu"},
    };
    struct fake_cuda *f = fake_device();
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        f->init_status = rows[i].init;
        f->devices = rows[i].devices;
        f->major = rows[i].major;
        expect(rows[i].found, rows[i].why);
    }
}

Test(cuda_driver, a_build_without_kernels_says_so_where_a_device_is) {
    fake_device();
    cuda_source.image_end = cuda_source.image;
    expect(CUDA_UNUSABLE,
           "device: an NVIDIA device is here, but this build has no CUDA kernels: nvcc was not found when it was "
           "made; build again where nvcc is, or say device: cpu");
}

Test(cuda_driver, a_library_that_lacks_a_function_is_too_old) {
    fake_device();
    cuda_source.driver = "libc.so.6";
    expect(CUDA_UNUSABLE, "device: libc.so.6 has no cuInit: the driver is too old");
}
