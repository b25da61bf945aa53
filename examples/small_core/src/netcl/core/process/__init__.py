"""The contract's levels, modes of gradients, and frames of the user."""
