// Epilogue fusion in kernels that pass one sum at a time: `to` is the offset of the sum's column in the matrix of
// results. Several sums are finished before they are stored, sums past an edge as their neighbours, so that reads do not
// wait for writes. OFFSET is int if offsets within a matrix have 32 bits, else long. fused_epilogue.py writes the lists of
// operands.

typedef struct { operand each[OPERANDS]; } operands;

static inline OFFSET operand_offset(const operand e, const OFFSET row, const OFFSET column, const OFFSET to) {
    return row * (OFFSET)e.row + (e.along == 2 ? to : (OFFSET)e.along * column);
}

// No `restrict` here: inlined, it becomes an intrinsic that oclgrind does not know.
static inline REAL finished(const REAL sum, const OFFSET row, const OFFSET column, const OFFSET to, const operands layouts${operand_pointers}) {
    return epilogue(sum${operand_values});
}

