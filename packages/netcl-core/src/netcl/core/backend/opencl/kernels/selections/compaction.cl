// Stream compaction: lists the elements for which HOLDS(i) is true, which the text before this defines, in order. `count_true` counts
// those of each chunk of `length` elements, and `list_true` lists them after the ones of all chunks before. With warps (kernels/warps) a
// chunk is a tile, and `list_true` looks back at the counts that others publish (look_back.cl) and writes how many there are in all.

$if ALONE

$kernel count_true(read uchar mask if compaction_true, read STORAGE x if compaction_runs, write long counts, long size,
        long length) {
    const long first = get_global_id(0) * length, last = min(size, first + length);
    long count = 0;
    for (long i = first; i < last; i++) count += HOLDS(i);
    counts[get_global_id(0)] = count;
}

$kernel list_true(read uchar mask if compaction_true, read STORAGE x if compaction_runs, read long counts,
        write long out if compaction_true, write STORAGE values if compaction_runs, write long starts if STARTS,
        long size, long length) {
    const long first = get_global_id(0) * length, last = min(size, first + length);
    long at = 0;
    for (size_t chunk = 0; chunk < get_global_id(0); chunk++) at += counts[chunk];
    for (long i = first; i < last; i++)
        if (HOLDS(i)) {
            LIST(i, at)
            at++;
        }
}

$else

#define ALL (GROUP * EACH)
#define HELD(i) (HOLDS(min(i, tail - 1)) & ((i) < tail))  // without a branch, so that all loads of a tile are under way
#define BEHIND(before, s) s += before;
$if look_back
#define TILES const long begin = head;
$else
#define TILES for (long begin = head; begin < tail; begin += ALL)
#define BEGIN_SIGNALS(number) const uint number = get_group_id(0);
#define END_SIGNALS
#define COUNT_OF(i, s) s = counts[i];

$kernel [GROUP, 1, 1] count_true(read uchar mask if compaction_true, read STORAGE x if compaction_runs,
        write long counts, long size, long length) {
    __local uint sum;
    const uint item = get_local_id(0);
    const long head = get_group_id(0) * length, tail = min(size, head + length);
    if (item == 0) sum = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint own = 0;
    for (long begin = head + item; begin < tail; begin += ALL)
        for (uint k = 0; k < EACH; k++) own += HELD(begin + k * GROUP);
    atomic_add(&sum, own);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) counts[get_group_id(0)] = sum;
}
$end

$kernel [GROUP, 1, 1] list_true(read uchar mask if compaction_true, read STORAGE x if compaction_runs,
        read long counts if not look_back, write uint* signals if look_back, uint signal_words if look_back,
        write long out if compaction_true, write STORAGE values if compaction_runs, write long starts if STARTS,
        write long count if look_back, long size, long length) {
    __local uchar flags[ALL] __attribute__((aligned(16)));
    __local ushort places[ALL];  // in the tile, of the elements listed
    __local uint sums[2 * GROUP];
    __local state states[GROUP], total;
    const uint item = get_local_id(0);
    BEGIN_SIGNALS(number)
    const long head = number * length, tail = min(size, head + length);
    state carry = 0;
#ifdef COUNT_OF
    if (number) {
        COMBINE_SHARES(COUNT_OF, 0, number, states)
        carry = states[0];
    }
#endif
    TILES {
        uchar held[EACH];
        for (uint k = 0; k < EACH; k++) held[k] = HELD(begin + item + k * GROUP);
        for (uint k = 0; k < EACH; k++) flags[item + k * GROUP] = held[k];
        barrier(CLK_LOCAL_MEM_FENCE);
        const uchar16 own = ((__local const uchar16*)flags)[item];
        const uint listed = own.s0 + own.s1 + own.s2 + own.s3 + own.s4 + own.s5 + own.s6 + own.s7
            + own.s8 + own.s9 + own.sa + own.sb + own.sc + own.sd + own.se + own.sf;
        SUM_UP(sums, GROUP, item, listed, all, now)
        const uint of_tile = sums[now + GROUP - 1];
#ifdef LOOK_BACK
        if (item == 0) {
            PUBLISH_STATE(number, of_tile)
            total = of_tile;
        }
#endif
        uint to = all - listed;
#define PLACE(k, flag) if (flag) places[to++] = item * EACH + (k);
        PLACE(0, own.s0) PLACE(1, own.s1) PLACE(2, own.s2) PLACE(3, own.s3) PLACE(4, own.s4) PLACE(5, own.s5)
        PLACE(6, own.s6) PLACE(7, own.s7) PLACE(8, own.s8) PLACE(9, own.s9) PLACE(10, own.sa) PLACE(11, own.sb)
        PLACE(12, own.sc) PLACE(13, own.sd) PLACE(14, own.se) PLACE(15, own.sf)
        barrier(CLK_LOCAL_MEM_FENCE);
#ifdef LOOK_BACK
        LOOK_BACK(1, 0, get_num_groups(0), number, total, states, carry)
#endif
        for (uint i = item; i < of_tile; i += GROUP) {
            LIST(begin + places[i], (long)carry + i)
        }
        carry += of_tile;
        barrier(CLK_LOCAL_MEM_FENCE);
    }
#ifdef LOOK_BACK
    if (number == get_num_groups(0) - 1 && item == 0) *count = carry;
#endif
    END_SIGNALS
}

$end
