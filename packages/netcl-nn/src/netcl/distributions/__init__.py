"""Probability distributions with PyTorch's names: log probabilities, samples with gradients, divergences."""

from __future__ import annotations

from netcl.siblings import Checked as _Checked

with _Checked("nn"):
    from netcl.distributions import constraints, transforms
    from netcl.distributions.continuous import (
        Cauchy,
        Exponential,
        Gumbel,
        HalfCauchy,
        HalfNormal,
        Laplace,
        Normal,
        Uniform,
    )
    from netcl.distributions.counts import Binomial, Multinomial, NegativeBinomial
    from netcl.distributions.discrete import Bernoulli, Categorical, Geometric, OneHotCategorical, Poisson
    from netcl.distributions.distribution import Distribution
    from netcl.distributions.gamma import Beta, Chi2, Dirichlet, Gamma, StudentT
    from netcl.distributions.independent import Independent
    from netcl.distributions.kl import kl_divergence, register_kl
    from netcl.distributions.mixture import MixtureSameFamily
    from netcl.distributions.multivariate_normal import MultivariateNormal
    from netcl.distributions.relaxed import OneHotCategoricalStraightThrough, RelaxedBernoulli, RelaxedOneHotCategorical
    from netcl.distributions.transformed import LogNormal, Pareto, TransformedDistribution, Weibull
    from netcl.distributions.transforms import (
        AbsTransform,
        AffineTransform,
        ComposeTransform,
        ExpTransform,
        IndependentTransform,
        PowerTransform,
        SigmoidTransform,
        SoftmaxTransform,
        SoftplusTransform,
        StickBreakingTransform,
        TanhTransform,
        Transform,
        identity_transform,
    )

__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "Gamma",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "Laplace",
    "LogNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "Weibull",
    "constraints",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transforms",
]


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)
