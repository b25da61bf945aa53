"""torch.utils.data under netcl.torch: samplers, batches and splits."""

from __future__ import annotations

import numpy as np
import pytest

import netcl.torch as torch
from netcl.torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    random_split,
)
from netcl.torch.utils.data.distributed import DistributedSampler


def rows(count=10):
    return TensorDataset(torch.arange(count), torch.arange(count) * 2.0)


def test_batches_are_tensors_in_order():
    batches = [(x.tolist(), y.tolist()) for x, y in DataLoader(rows(5), batch_size=2)]
    assert batches == [([0, 1], [0.0, 2.0]), ([2, 3], [4.0, 6.0]), ([4], [8.0])]
    assert len(DataLoader(rows(5), batch_size=2, drop_last=True)) == 2


def test_batches_of_rows_are_gathered_as_stacked_rows_are():
    x, y = torch.randn(9, 2, 3), torch.arange(9)
    samples = TensorDataset(x.requires_grad_(), y)
    for dataset, keys in (
        (samples, [[3, 0, -1], [8]]),
        (Subset(Subset(samples, [5, 1, 7, 2]), [3, 0, 1]), [[2, 0], [1, 1]]),
        (Subset(samples, torch.tensor([4, 6])), [[1, 0]]),
    ):
        gathered = list(DataLoader(dataset, batch_sampler=keys))
        stacked = list(DataLoader(dataset, batch_sampler=keys, collate_fn=lambda batch: default_collate(batch)))
        for ours, theirs in zip(gathered, stacked):
            assert [part.tolist() for part in ours] == [part.tolist() for part in theirs]
            assert [part.dtype for part in ours] == [part.dtype for part in theirs]
    ours[0].sum().backward()
    assert x.grad.sum(dim=(1, 2)).tolist() == [0, 0, 0, 0, 6, 0, 6, 0, 0]
    with pytest.raises(IndexError):
        next(iter(DataLoader(samples, batch_sampler=[[9]])))


def test_a_shuffled_epoch_is_a_permutation_that_the_seed_decides():
    def epoch():
        torch.manual_seed(3)
        return [n for x, _ in DataLoader(rows(), batch_size=3, shuffle=True) for n in x.tolist()]

    first = epoch()
    assert sorted(first) == list(range(10))
    assert first == epoch()
    loader = DataLoader(rows(), batch_size=10, shuffle=True, generator=torch.Generator().manual_seed(1))
    assert next(iter(loader))[0].tolist() != next(iter(loader))[0].tolist()


def test_samples_of_all_kinds_are_collated():
    sample = {"x": np.float32([1, 2]), "n": 3, "f": 0.5, "b": True, "s": "a", "t": (torch.ones(2), 1)}
    batch = default_collate([sample, sample])
    assert (batch["x"].shape, batch["x"].dtype) == ((2, 2), torch.float32)
    assert (batch["n"].dtype, batch["f"].dtype, batch["b"].dtype) == (torch.int64, torch.float64, torch.bool)
    assert batch["s"] == ["a", "a"]
    assert isinstance(batch["t"], list)
    with pytest.raises(TypeError, match="default_collate"):
        default_collate([object()])
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([(1, 2), (1,)])
    assert default_convert({"x": np.ones(2)})["x"].dtype == torch.float64


def test_without_batches_samples_are_converted_one_by_one():
    class Arrays(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, at):
            return np.full(2, at)

    assert [x.tolist() for x in DataLoader(Arrays(), batch_size=None)] == [[0, 0], [1, 1]]


def test_iterable_data_sets_are_read_in_their_order():
    class Count(IterableDataset):
        def __init__(self, stop):
            self.stop = stop

        def __iter__(self):
            return iter(range(self.stop))

    assert [x.tolist() for x in DataLoader(Count(5), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert list(ChainDataset([Count(2), Count(1)])) == [0, 1, 0]
    with pytest.raises(ValueError, match="order of its own"):
        DataLoader(Count(3), shuffle=True)


def test_samplers_draw_as_they_say():
    data = range(6)
    assert list(SequentialSampler(data)) == list(range(6))
    assert sorted(RandomSampler(data)) == list(range(6))
    endless = iter(RandomSampler(data, replacement=True, num_samples=10**10))
    assert all(0 <= next(endless) < 6 for _ in range(100))
    for source, count in ((data, 0), ([], None)):
        with pytest.raises(ValueError, match="num_samples should be a positive integer value, but got num_samples=0"):
            RandomSampler(source, num_samples=count)
    with pytest.raises(ValueError, match="num_samples"):
        DataLoader([], shuffle=True)
    assert sorted(SubsetRandomSampler([5, 3])) == [3, 5]
    assert set(WeightedRandomSampler([0, 1.0, 0], 20)) == {1}
    assert list(BatchSampler(SequentialSampler(data), 4, False)) == [[0, 1, 2, 3], [4, 5]]
    assert list(BatchSampler(SequentialSampler(data), 4, True)) == [[0, 1, 2, 3]]
    loader = DataLoader(rows(6), batch_sampler=BatchSampler(SequentialSampler(data), 4, False))
    assert [x.tolist() for x, _ in loader] == [[0, 1, 2, 3], [4, 5]]
    with pytest.raises(ValueError, match="mutually exclusive"):
        DataLoader(rows(), sampler=SequentialSampler(data), shuffle=True)


def test_data_sets_split_and_join():
    parts = random_split(rows(), [0.7, 0.3], torch.Generator().manual_seed(0))
    assert [len(part) for part in parts] == [7, 3]
    assert sorted(int(part[at][0]) for part in parts for at in range(len(part))) == list(range(10))
    with pytest.raises(ValueError, match="sum to 3"):
        random_split(rows(), [1, 2])
    assert len(ConcatDataset([rows(2), rows(3)])) == 5
    assert int(Subset(rows(), [4])[0][0]) == 4
    assert StackDataset(a=rows(2), b=rows(2))[1]["a"][1].item() == 2.0


def test_the_distributed_sampler_has_pytorchs_orders():
    # The indices that PyTorch 2.13 gives for these seeds and epochs.
    shards = [DistributedSampler(range(7), num_replicas=2, rank=rank, seed=3) for rank in range(2)]
    assert [list(shard) for shard in shards] == [[5, 4, 0, 1], [3, 6, 2, 5]]
    assert [list(shard) for shard in shards] == [[5, 4, 0, 1], [3, 6, 2, 5]]  # the epoch stays until it is set
    for shard in shards:
        shard.set_epoch(2)
        assert shard.epoch == 2
    assert [list(shard) for shard in shards] == [[1, 4, 6, 3], [0, 2, 5, 1]]
    half = iter(shards[0])
    assert [next(half), next(half)] == [1, 4]
    restored = DistributedSampler(range(7), num_replicas=2, rank=0, seed=3)
    restored.load_state_dict(shards[0].state_dict())
    assert list(restored) == [6, 3]
    assert restored.epoch == 2
    assert list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False, drop_last=True)) == [1, 3]
