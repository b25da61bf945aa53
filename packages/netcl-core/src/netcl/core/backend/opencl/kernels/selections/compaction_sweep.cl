// Stream compaction in one pass over the data, for warps (kernels/warps): lists the elements for which HOLDS(i) is true, which the text
// before this defines, in order, and writes how many there are. A warp finds those of WARP * EACH elements by ballots, and lists them
// after those of the warps before it and of the tiles before; the state of a tile is the number of its elements (look_back.cl).

#define WARPS (GROUP / WARP)
#define OF_WARP (WARP * EACH)
#define BEHIND(before, s) s += before;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void list_sweep(SOURCE, SIGNALS, TARGET, __global long* restrict count, const long size) {
    __local ushort places[GROUP * EACH];  // of the elements listed among those of the warp
    __local uint counts[WARPS];
    __local state states[GROUP], total;
    WARP_MEMORY
    const uint item = get_local_id(0), warp = item / WARP, lane = item % WARP;
    BEGIN_SIGNALS(ticket)
    const long begin = (long)ticket * (GROUP * EACH) + warp * OF_WARP + lane;
    uchar held[EACH];
    // Without a branch for each element, so that all loads are under way.
#pragma unroll
    for (uint k = 0; k < EACH; k++) held[k] = HOLDS(min(begin + k * WARP, size - 1)) & (begin + k * WARP < size);
    __local ushort* own_places = places + warp * OF_WARP;
    uint listed = 0;
#pragma unroll
    for (uint k = 0; k < EACH; k++) {
        BALLOT(lanes, held[k])
        if (held[k]) own_places[listed + popcount(lanes & ((1u << lane) - 1))] = k * WARP + lane;
        listed += popcount(lanes);
    }
    if (lane == 0) counts[warp] = listed;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint earlier = 0, of_tile = 0;
    for (uint w = 0; w < WARPS; w++) {
        earlier += w < warp ? counts[w] : 0;
        of_tile += counts[w];
    }
    if (item == 0) {
        PUBLISH_STATE(ticket, of_tile)
        total = of_tile;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const uint tiles = get_num_groups(0);
    LOOK_BACK(1, 0, tiles, ticket, total, states, carry)
    const long before = ticket ? carry : 0, at = before + earlier;
    for (uint i = lane; i < listed; i += WARP) {
        LIST(begin - lane + own_places[i], at + i)
    }
    if (ticket == tiles - 1 && item == 0) *count = before + of_tile;
    END_SIGNALS
}
