/* The kernels, as nvcc made them: a fatbin put into the program as it is. Empty where the house was built without nvcc. */
#ifdef CUDA_FATBIN
#define CONTENT ".incbin \"" CUDA_FATBIN "\"\n"
#else
#define CONTENT ""
#endif
__asm__(".pushsection .rodata\n"
        ".balign 16\n"
        ".global cuda_image\n"
        "cuda_image:\n" CONTENT ".global cuda_image_end\n"
        "cuda_image_end:\n"
        ".byte 0\n"
        ".popsection\n");
typedef int cuda_image_is_assembler; /* a translation unit may not be empty */
