"""Data-parallel training: replicas, buckets of gradients, shares of the batch, and whole steps."""
