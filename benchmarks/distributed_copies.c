/* Two processes add up an array each, as netcl's shared transport does it: a window for each, two meetings a chunk.
 *
 * cc -O3 -march=native distributed_copies.c -o copies && ./copies BYTES ROUNDS    prints the seconds of each round
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WINDOW (1 << 20)
#define RANKS 2

typedef struct {
    _Alignas(128) atomic_long count;
    char pad[120];
    float windows[2][WINDOW / sizeof(float)];
} Seat;

static Seat *seats;
static long meetings;

static void meet(int rank) {
    atomic_store(&seats[rank].count, ++meetings);
    for (long spins = 0; atomic_load(&seats[1 - rank].count) < meetings; spins++)
        if (spins > 1000) sched_yield();
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void all_reduce(int rank, float *x, long n) {
    long step = WINDOW / sizeof(float);
    for (long start = 0; start < n; start += step) {
        long stop = start + step < n ? start + step : n;
        long middle = start + (stop - start) / 2;
        long mine = rank ? middle : start, end = rank ? stop : middle;
        float *shown = seats[rank].windows[(meetings + 1) & 1];
        memcpy(shown, x + start, (mine - start) * sizeof(float));
        memcpy(shown + (end - start), x + end, (stop - end) * sizeof(float));
        meet(rank);
        const float *restrict other = seats[1 - rank].windows[meetings & 1] + (mine - start);
        const float *restrict own = x + mine;
        float *restrict sum = seats[rank].windows[(meetings + 1) & 1] + (mine - start);
        for (long i = 0; i < end - mine; i++) sum[i] = own[i] + other[i];
        meet(rank);
        for (int r = 0; r < RANKS; r++) {
            long first = r ? middle : start, last = r ? stop : middle;
            memcpy(x + first, seats[r].windows[meetings & 1] + (first - start), (last - first) * sizeof(float));
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    long n = atol(argv[1]) / sizeof(float);
    seats = mmap(NULL, RANKS * sizeof(Seat), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int rank = fork() ? 0 : 1;
    float *x = malloc(n * sizeof(float));
    for (long i = 0; i < n; i++) x[i] = 1.0f;
    for (int round = 0; round < atoi(argv[2]); round++) {
        meet(rank);
        double begun = now();
        all_reduce(rank, x, n);
        if (rank == 0) printf("%.6f\n", now() - begun);
    }
    if (rank == 0) wait(NULL);
    return 0;
}
