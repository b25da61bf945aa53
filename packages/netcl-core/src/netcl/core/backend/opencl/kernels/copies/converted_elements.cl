// Elements that are converted as floats, between a half type and float32: in place of elements.cl, by types and macros of the host.

${conversion}
