"""Samples of classes of netcl.distributions and the packages that belong to it."""

from __future__ import annotations

import netcl as nc
from netcl import distributions as dist

nc.manual_seed(0)

# %% netcl.distributions.AbsTransform
dist.AbsTransform()(nc.tensor([0.5, 1.0]))

# %% netcl.distributions.AffineTransform
dist.AffineTransform(1.0, 2.0)(nc.tensor([0.5, 1.0]))

# %% netcl.distributions.Bernoulli
d = dist.Bernoulli(nc.tensor([0.3]))
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.Beta
d = dist.Beta(2.0, 3.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.Binomial
d = dist.Binomial(5, 0.5)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.Categorical
d = dist.Categorical(nc.tensor([0.2, 0.8]))
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.Cauchy
d = dist.Cauchy(0.0, 1.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.Chi2
d = dist.Chi2(3.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.ComposeTransform
dist.ComposeTransform([dist.AffineTransform(0.0, 2.0), dist.ExpTransform()])(nc.tensor([0.5]))

# %% netcl.distributions.Dirichlet
d = dist.Dirichlet(nc.tensor([1.0, 2.0]))
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.Distribution
isinstance(dist.Normal(0.0, 1.0), dist.Distribution)

# %% netcl.distributions.ExpTransform
dist.ExpTransform()(nc.tensor([0.5, 1.0]))

# %% netcl.distributions.Exponential
d = dist.Exponential(2.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.Gamma
d = dist.Gamma(2.0, 1.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.Geometric
d = dist.Geometric(0.5)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.Gumbel
d = dist.Gumbel(0.0, 1.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.HalfCauchy
d = dist.HalfCauchy(1.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.HalfNormal
d = dist.HalfNormal(1.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.Independent
d = dist.Independent(dist.Normal(nc.zeros(3), nc.ones(3)), 1)
d.log_prob(nc.zeros(3))

# %% netcl.distributions.IndependentTransform
t = dist.IndependentTransform(dist.ExpTransform(), 1)
x = nc.ones(3)
t.log_abs_det_jacobian(x, t(x))

# %% netcl.distributions.Laplace
d = dist.Laplace(0.0, 1.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.LogNormal
d = dist.LogNormal(0.0, 1.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.MixtureSameFamily
parts = dist.Normal(nc.tensor([-1.0, 1.0]), nc.ones(2))
dist.MixtureSameFamily(dist.Categorical(nc.ones(2)), parts).log_prob(nc.tensor(0.0))

# %% netcl.distributions.Multinomial
d = dist.Multinomial(4, nc.tensor([0.2, 0.8]))
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.MultivariateNormal
d = dist.MultivariateNormal(nc.zeros(2), nc.eye(2))
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.NegativeBinomial
d = dist.NegativeBinomial(5, 0.5)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.Normal
d = dist.Normal(0.0, 1.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.OneHotCategorical
d = dist.OneHotCategorical(nc.tensor([0.2, 0.8]))
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.OneHotCategoricalStraightThrough
d = dist.OneHotCategoricalStraightThrough(nc.tensor([0.2, 0.8]))
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.Pareto
d = dist.Pareto(1.0, 2.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.Poisson
d = dist.Poisson(3.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.PowerTransform
dist.PowerTransform(2.0)(nc.tensor([0.5, 1.0]))

# %% netcl.distributions.RelaxedBernoulli
d = dist.RelaxedBernoulli(nc.tensor(0.5), nc.tensor([0.3]))
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.RelaxedOneHotCategorical
d = dist.RelaxedOneHotCategorical(nc.tensor(0.5), nc.tensor([0.2, 0.8]))
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.SigmoidTransform
dist.SigmoidTransform()(nc.tensor([0.5, 1.0]))

# %% netcl.distributions.SoftmaxTransform
dist.SoftmaxTransform()(nc.tensor([0.5, 1.0])).sum()

# %% netcl.distributions.SoftplusTransform
dist.SoftplusTransform()(nc.tensor([0.5, 1.0]))

# %% netcl.distributions.StickBreakingTransform
dist.StickBreakingTransform()(nc.tensor([0.5, 1.0])).sum()

# %% netcl.distributions.StudentT
d = dist.StudentT(3.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.TanhTransform
dist.TanhTransform()(nc.tensor([0.5, 1.0]))

# %% netcl.distributions.Transform
t = dist.ExpTransform()
isinstance(t, dist.Transform), t.inv(t(nc.tensor([2.0])))

# %% netcl.distributions.TransformedDistribution
d = dist.TransformedDistribution(dist.Normal(0.0, 1.0), [dist.ExpTransform()])
d.log_prob(nc.tensor(1.0))

# %% netcl.distributions.Uniform
d = dist.Uniform(0.0, 1.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.Weibull
d = dist.Weibull(1.0, 2.0)
x = d.sample((2,))
x.shape, d.log_prob(x).shape

# %% netcl.distributions.constraints.Constraint
dist.constraints.positive.check(nc.tensor([-1.0, 2.0]))

# %% netcl.distributions.constraints.dependent_property
isinstance(dist.constraints.Constraint, type), dist.constraints.dependent_property.__name__
