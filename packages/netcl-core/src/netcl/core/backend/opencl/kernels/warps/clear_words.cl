// Sets words that work-groups publish to zero: a launch, so that a plan of a call has it.
$kernel clear_words(write uint* words, uint count) {
    for (uint i = get_global_id(0); i < count; i += get_global_size(0)) words[i] = 0;
}
