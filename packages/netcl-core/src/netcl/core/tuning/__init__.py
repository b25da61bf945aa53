"""Which kernel runs a contraction or a convolution: the policy, what was measured, and what comes with the package."""
