/* What a driver takes for the launches of small works: empty ones, and the three products by a vector of an MLP
 * (784-512-512-10, one sample), by the number of work-groups; all by turns, the queue finished after each. `rest` ms of
 * sleep before each let the driver's threads sleep.
 *
 * cc -O3 -march=native small_launches.c -o small -l:libOpenCL.so.1
 * OCL_ICD_VENDORS=folder/ ./small [ROUNDS] [REST]    prints microseconds: lowest tenth, median, highest tenth
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef void *handle; /* no headers are needed: the calls of OpenCL 1.2 */
int32_t clGetPlatformIDs(uint32_t, handle *, uint32_t *);
int32_t clGetPlatformInfo(handle, uint32_t, size_t, void *, size_t *);
int32_t clGetDeviceIDs(handle, uint64_t, uint32_t, handle *, uint32_t *);
handle clCreateContext(const intptr_t *, uint32_t, const handle *, void *, void *, int32_t *);
handle clCreateCommandQueue(handle, handle, uint64_t, int32_t *);
handle clCreateBuffer(handle, uint64_t, size_t, void *, int32_t *);
handle clCreateProgramWithSource(handle, uint32_t, const char **, const size_t *, int32_t *);
int32_t clBuildProgram(handle, uint32_t, const handle *, const char *, void *, void *);
handle clCreateKernel(handle, const char *, int32_t *);
int32_t clSetKernelArg(handle, uint32_t, size_t, const void *);
int32_t clEnqueueNDRangeKernel(handle, handle, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t,
                               const handle *, handle *);
int32_t clFinish(handle);

#define LAYERS 3
#define MOST 2000
static const int SIZES[LAYERS + 1] = {784, 512, 512, 10};
static const int GROUPS[] = {1, 2, 4, 16, 64};
enum { KINDS = sizeof GROUPS / sizeof *GROUPS, WORKS = 3 };
static const char *NAMES[WORKS] = {"3 empty launches", "first layer", "3 layers"};

static const char *SOURCE =
    "typedef float16 __attribute__((aligned(4))) packed;\n"
    "float sum(float16 v) { float p[16], s = 0; vstore16(v, 0, p); for (int i = 0; i < 16; i++) s += p[i]; return s; }\n"
    "__kernel __attribute__((vec_type_hint(float16))) void layer(__global const float* x, __global const float* w,\n"
    "        __global const float* b, __global float* y, const int n, const int k, const int block) {\n"
    "    const int first = get_global_id(0) * block, last = min(n, first + block);\n"
    "    for (int j = first; j < last; j += 4) {\n"
    "        float16 s[4] = {0, 0, 0, 0};\n"
    "        __global const float* row[4];\n"
    "        for (int i = 0; i < 4; i++) row[i] = w + (long)min(j + i, last - 1) * k;\n"
    "        for (int t = 0; t < k; t += 16) {\n"
    "            const float16 v = *(__global const packed*)(x + t);\n"
    "            for (int i = 0; i < 4; i++) s[i] += v * *(__global const packed*)(row[i] + t);\n"
    "        }\n"
    "        for (int i = 0; i < 4 && j + i < last; i++) y[j + i] = fmax(sum(s[i]) + b[j + i], 0.0f);\n"
    "    }\n"
    "}\n"
    "__kernel void nothing(__global float* y) { if (get_global_id(0) > 1000000) y[0] = 1; }\n";

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * t.tv_sec + 1e-3 * t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The layers on the host's thread alone, in C: the memory and arithmetic without a driver. */
static void layers_in_c(float **x, float **w, float **b) {
    for (int i = 0; i < LAYERS; i++)
        for (int j = 0; j < SIZES[i + 1]; j++) {
            float s[16] = {0}, total = b[i][j];
            const float *row = w[i] + (long)j * SIZES[i];
            for (int t = 0; t < SIZES[i]; t += 16)
                for (int v = 0; v < 16; v++) s[v] += x[i][t + v] * row[t + v];
            for (int v = 0; v < 16; v++) total += s[v];
            x[i + 1][j] = total > 0 ? total : 0;
        }
}

static void print(const char *name, int groups, double *times, int rounds) {
    qsort(times, rounds, sizeof *times, by_size);
    printf("%-20s %3d groups %8.1f %8.1f %8.1f\n", name, groups, times[rounds / 10], times[rounds / 2],
           times[rounds * 9 / 10]);
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 300, rest = argc > 2 ? atoi(argv[2]) : 0;
    if (rounds < 10 || rounds > MOST) return 2;
    handle platform, device;
    char name[200];
    int32_t code = clGetPlatformIDs(1, &platform, NULL);
    if (code || clGetDeviceIDs(platform, 2 /* CPUs */, 1, &device, NULL)) return 1;
    clGetPlatformInfo(platform, 0x0902, sizeof name, name, NULL);
    puts(name);
    handle context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    handle queue = clCreateCommandQueue(context, device, 0, &code);
    handle program = clCreateProgramWithSource(context, 1, &SOURCE, NULL, &code);
    if (clBuildProgram(program, 1, &device, "", NULL, NULL)) return 1;

    float *values[LAYERS + 1], *weights[LAYERS], *biases[LAYERS];
    handle x[LAYERS + 1], w[LAYERS], b[LAYERS], empty = clCreateKernel(program, "nothing", &code);
    for (int i = 0; i <= LAYERS; i++) {
        values[i] = calloc(SIZES[i], sizeof(float));
        for (int j = 0; i == 0 && j < SIZES[i]; j++) values[i][j] = (j % 7) * 0.1f;
        x[i] = clCreateBuffer(context, 1 | 32 /* copied */, SIZES[i] * sizeof(float), values[i], &code);
    }
    for (int i = 0; i < LAYERS; i++) {
        long count = (long)SIZES[i] * SIZES[i + 1];
        weights[i] = malloc(count * sizeof(float));
        biases[i] = calloc(SIZES[i + 1], sizeof(float));
        for (long j = 0; j < count; j++) weights[i][j] = (j % 5 - 2) * 0.01f;
        w[i] = clCreateBuffer(context, 1 | 32, count * sizeof(float), weights[i], &code);
        b[i] = clCreateBuffer(context, 1 | 32, SIZES[i + 1] * sizeof(float), biases[i], &code);
    }
    clSetKernelArg(empty, 0, sizeof(handle), &x[LAYERS]);
    handle layers[KINDS][LAYERS];
    size_t sizes[KINDS][LAYERS];
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < LAYERS; i++) {
            int n = SIZES[i + 1], k = SIZES[i], block = (n + GROUPS[kind] - 1) / GROUPS[kind];
            if (block < 4) block = 4;
            sizes[kind][i] = (n + block - 1) / block;
            handle kernel = layers[kind][i] = clCreateKernel(program, "layer", &code);
            handle buffers[] = {x[i], w[i], b[i], x[i + 1]};
            int numbers[] = {n, k, block};
            for (int at = 0; at < 4; at++) clSetKernelArg(kernel, at, sizeof(handle), &buffers[at]);
            for (int at = 0; at < 3; at++) clSetKernelArg(kernel, 4 + at, sizeof(int), &numbers[at]);
        }

    static double times[KINDS][WORKS][MOST], alone[MOST];
    for (int round = -10; round < rounds; round++) {
        for (int kind = 0; kind < KINDS; kind++)
            for (int work = 0; work < WORKS; work++)
                for (int again = rest ? 1 : 0; again < 2; again++) { /* without a rest, after a work of the same kind */
                    if (rest) usleep(1000 * rest);
                    double begun = now();
                    size_t one = 1, groups = GROUPS[kind];
                    for (int i = 0; i < (work == 1 ? 1 : LAYERS); i++)
                        clEnqueueNDRangeKernel(queue, work ? layers[kind][i] : empty, 1, NULL,
                                               work ? &sizes[kind][i] : &groups, &one, 0, NULL, NULL);
                    clFinish(queue);
                    if (round >= 0) times[kind][work][round] = now() - begun;
                }
        double begun = now();
        layers_in_c(values, weights, biases);
        if (round >= 0) alone[round] = now() - begun;
    }
    for (int work = 0; work < WORKS; work++)
        for (int kind = 0; kind < KINDS; kind++) print(NAMES[work], GROUPS[kind], times[kind][work], rounds);
    print("3 layers in C", 1, alone, rounds);
    return 0;
}
