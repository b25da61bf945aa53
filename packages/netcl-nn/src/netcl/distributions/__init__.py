"""Probability distributions with PyTorch's names: log probabilities, samples with gradients, divergences."""

from __future__ import annotations

from netcl.distributions.continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    LogNormal,
    Normal,
    Uniform,
)
from netcl.distributions.discrete import Bernoulli, Categorical, Geometric, OneHotCategorical, Poisson
from netcl.distributions.distribution import Distribution
from netcl.distributions.independent import Independent
from netcl.distributions.kl import kl_divergence, register_kl

__all__ = [
    "Bernoulli",
    "Categorical",
    "Cauchy",
    "Distribution",
    "Exponential",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "Laplace",
    "LogNormal",
    "Normal",
    "OneHotCategorical",
    "Poisson",
    "Uniform",
    "kl_divergence",
    "register_kl",
]
