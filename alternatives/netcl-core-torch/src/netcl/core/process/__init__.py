"""State of the process: the contract's levels, modes of gradients, settings, and frames of the user."""
