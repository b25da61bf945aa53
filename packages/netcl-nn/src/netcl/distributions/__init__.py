"""Probability distributions with PyTorch's names: log probabilities, samples with gradients, divergences."""

from __future__ import annotations

from netcl.siblings import Checked as _Checked

with _Checked("nn"):
    from netcl.distributions import constraints as constraints
    from netcl.distributions import transforms as transforms
    from netcl.distributions.continuous import Cauchy as Cauchy
    from netcl.distributions.continuous import Exponential as Exponential
    from netcl.distributions.continuous import Gumbel as Gumbel
    from netcl.distributions.continuous import HalfCauchy as HalfCauchy
    from netcl.distributions.continuous import HalfNormal as HalfNormal
    from netcl.distributions.continuous import Laplace as Laplace
    from netcl.distributions.continuous import Normal as Normal
    from netcl.distributions.continuous import Uniform as Uniform
    from netcl.distributions.counts import Binomial as Binomial
    from netcl.distributions.counts import Multinomial as Multinomial
    from netcl.distributions.counts import NegativeBinomial as NegativeBinomial
    from netcl.distributions.discrete import Bernoulli as Bernoulli
    from netcl.distributions.discrete import Categorical as Categorical
    from netcl.distributions.discrete import Geometric as Geometric
    from netcl.distributions.discrete import OneHotCategorical as OneHotCategorical
    from netcl.distributions.discrete import Poisson as Poisson
    from netcl.distributions.distribution import Distribution as Distribution
    from netcl.distributions.gamma import Beta as Beta
    from netcl.distributions.gamma import Chi2 as Chi2
    from netcl.distributions.gamma import Dirichlet as Dirichlet
    from netcl.distributions.gamma import Gamma as Gamma
    from netcl.distributions.gamma import StudentT as StudentT
    from netcl.distributions.independent import Independent as Independent
    from netcl.distributions.kl import kl_divergence as kl_divergence
    from netcl.distributions.kl import register_kl as register_kl
    from netcl.distributions.mixture import MixtureSameFamily as MixtureSameFamily
    from netcl.distributions.multivariate_normal import MultivariateNormal as MultivariateNormal
    from netcl.distributions.relaxed import OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough
    from netcl.distributions.relaxed import RelaxedBernoulli as RelaxedBernoulli
    from netcl.distributions.relaxed import RelaxedOneHotCategorical as RelaxedOneHotCategorical
    from netcl.distributions.transformed import LogNormal as LogNormal
    from netcl.distributions.transformed import Pareto as Pareto
    from netcl.distributions.transformed import TransformedDistribution as TransformedDistribution
    from netcl.distributions.transformed import Weibull as Weibull
    from netcl.distributions.transforms import AbsTransform as AbsTransform
    from netcl.distributions.transforms import AffineTransform as AffineTransform
    from netcl.distributions.transforms import ComposeTransform as ComposeTransform
    from netcl.distributions.transforms import ExpTransform as ExpTransform
    from netcl.distributions.transforms import IndependentTransform as IndependentTransform
    from netcl.distributions.transforms import PowerTransform as PowerTransform
    from netcl.distributions.transforms import SigmoidTransform as SigmoidTransform
    from netcl.distributions.transforms import SoftmaxTransform as SoftmaxTransform
    from netcl.distributions.transforms import SoftplusTransform as SoftplusTransform
    from netcl.distributions.transforms import StickBreakingTransform as StickBreakingTransform
    from netcl.distributions.transforms import TanhTransform as TanhTransform
    from netcl.distributions.transforms import Transform as Transform
    from netcl.distributions.transforms import identity_transform as identity_transform

__all__ = [
    "constraints",
    "transforms",
    *(
        name
        for name, value in globals().items()
        if getattr(value, "__module__", "").startswith("netcl.") and name[0] != "_"
    ),
]


def __dir__() -> list[str]:
    """Returns the public names, for completion."""
    return sorted(__all__)
