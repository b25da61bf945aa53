// Epilogue fusion: a kernel passes its sums through epilogue(sum, operands...) before it stores them. The operands are
// OPERANDS pointers e1, e2, .. and their layouts, at least one. fused_epilogue.py writes the part `epilogue`, the declaration of the
// function, which follows the kernels in the text, or the addition of one operand.

${epilogue}

typedef struct {
    long offset, row;
    long batch[2];
    long along;  // of a row: 0 the same value, 1 one for each column, 2 as the result
} operand;

