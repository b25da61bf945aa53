"""State of the process and of its threads: settings, caches on disk, modes of gradients, and how texts name things."""
