// The layout of a scan, (before, extent, after), and the state that is carried along. scan_states.py writes the part `state`: the members
// of a state and the macros that combine states.

typedef struct {
    long before, extent, after, length, chunks, share, reverse;
} walk;

${state}

typedef struct {
    REAL first;
    SECOND second;
} state;

