// clear_words/words
#pragma OPENCL FP_CONTRACT OFF
#define LOOPS __attribute__((vec_type_hint(float16)))
// Sets words that work-groups publish to zero: a launch, so that a plan of a call has it.
__kernel void clear_words(
    __global uint *words,
    const uint count) {
    for (uint i = get_global_id(0); i < count; i += get_global_size(0)) words[i] = 0;
}
