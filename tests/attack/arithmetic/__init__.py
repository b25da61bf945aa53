"""Wrong numbers: a differential fuzzer over the op table, old contents of memory, capture among threads, NaN."""
