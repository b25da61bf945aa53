"""Samples of classes of netcl-data and the packages that belong to it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from netcl import data
from netcl.data import augment, datasets, filters, transforms

np.random.seed(0)
image = np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)
folder = Path(tempfile.mkdtemp())

# %% netcl.data.ArrayDataset
arrays = np.arange(6.0), np.arange(6)
data.ArrayDataset(*arrays)[2]

# %% netcl.data.BatchSampler
list(data.BatchSampler(data.SequentialSampler(range(5)), 2, drop_last=False))

# %% netcl.data.Budget
data.Budget()

# %% netcl.data.CIFAR10Arrays
record = bytes([6]) + bytes(3072)
for name in [f"data_batch_{number}.bin" for number in range(1, 6)]:
    (folder / name).write_bytes(record)
data.CIFAR10Arrays(folder)[0][1]

# %% netcl.data.CIFAR100Arrays
(folder / "train.bin").write_bytes(bytes([1, 42]) + bytes(3072))
data.CIFAR100Arrays(folder)[0][1]

# %% netcl.data.CSVDataset
(folder / "table.csv").write_text("a,b,y\n1,2,0\n3,4,1\n")
data.CSVDataset(folder / "table.csv", target="y")[1]

# %% netcl.data.ConcatDataset
a = data.ArrayDataset(np.arange(3))
len(data.ConcatDataset([a, a]))

# %% netcl.data.DataLoader
arrays = np.arange(6.0), np.arange(6)
[batch.tolist() for batch, _ in data.DataLoader(arrays, batch_size=4)]

# %% netcl.data.Dataset
class Squares(data.Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return index**2

Squares()[2]

# %% netcl.data.DistributedSampler
len(data.DistributedSampler(range(10), num_replicas=2, rank=0))

# %% netcl.data.ImageFolderArrays
(folder / "cat").mkdir()
data.save_image(np.zeros((3, 8, 8), np.float32), folder / "cat/0.png")
data.ImageFolderArrays(folder)[0][0].shape

# %% netcl.data.IterableDataset
class Stream(data.IterableDataset):
    def __iter__(self):
        yield from (np.float32(x) for x in range(3))

[batch.tolist() for batch in data.DataLoader(Stream(), batch_size=2)]

# %% netcl.data.MNISTArrays
(folder / "raw").mkdir()
head = lambda *sizes: bytes([0, 0, 8, len(sizes)]) + np.array(sizes, ">u4").tobytes()
(folder / "raw/train-images-idx3-ubyte").write_bytes(head(2, 4, 4) + bytes(32))
(folder / "raw/train-labels-idx1-ubyte").write_bytes(head(2) + bytes([3, 7]))
data.MNISTArrays(folder).arrays[1]

# %% netcl.data.NpyDataset
np.save(folder / "x.npy", np.arange(4.0))
data.NpyDataset(folder / "x.npy")[2]

# %% netcl.data.RandomSampler
sorted(data.RandomSampler(range(4)))

# %% netcl.data.SampleRandom
from netcl.data import SampleRandom
SampleRandom.__name__

# %% netcl.data.Sampler
class Backwards(data.Sampler):
    def __len__(self):
        return 3

    def order(self, epoch):
        return np.array([2, 1, 0])


list(Backwards())

# %% netcl.data.SequentialSampler
list(data.SequentialSampler(range(3)))

# %% netcl.data.Subset
data.Subset(data.ArrayDataset(np.arange(6)), [4, 5])[0]

# %% netcl.data.SubsetRandomSampler
sorted(data.SubsetRandomSampler([1, 3]))

# %% netcl.data.Table
data.Table({"age": [3, None, 8, 9], "city": ["Rome", "Oslo", "Rome", "Oslo"], "y": [0, 1, 1, 0]}, target="y")

# %% netcl.data.TableEncoding
table = data.Table({"age": [3, None, 8, 9], "city": ["Rome", "Oslo", "Rome", "Oslo"], "y": [0, 1, 1, 0]}, target="y")
encoding = table.fit(missing="median")
print(encoding)
print(encoding.features)
encoding.dataset(table)[1]

# %% netcl.data.WeightedRandomSampler
len(list(data.WeightedRandomSampler([0.1, 0.9], 5)))

# %% netcl.data.WorkerInfo
data.get_worker_info() is None  # a WorkerInfo in a worker process

# %% netcl.data.augment.PairFilter
augment.PairFilter.__doc__.splitlines()[0]

# %% netcl.data.datasets.CIFAR10
try:
    datasets.CIFAR10(folder)
except RuntimeError as error:
    print(str(error).replace(str(folder), "data"))

# %% netcl.data.datasets.CIFAR100
try:
    datasets.CIFAR100(folder)
except RuntimeError as error:
    print(str(error).replace(str(folder), "data"))

# %% netcl.data.datasets.DatasetFolder
(folder / "zero").mkdir()
np.save(folder / "zero/a.npy", np.zeros(3))
datasets.DatasetFolder(folder, np.load, extensions=(".npy",))[0]

# %% netcl.data.datasets.FakeData
images = datasets.FakeData(4, (3, 8, 8), transform=transforms.ToTensor())
images[0][0].shape

# %% netcl.data.datasets.FashionMNIST
raw = folder / "FashionMNIST/raw"
raw.mkdir(parents=True)
head = lambda *sizes: bytes([0, 0, 8, len(sizes)]) + np.array(sizes, ">u4").tobytes()
(raw / "train-images-idx3-ubyte").write_bytes(head(2, 28, 28) + bytes(2 * 28 * 28))
(raw / "train-labels-idx1-ubyte").write_bytes(head(2) + bytes([3, 7]))
len(datasets.FashionMNIST(folder))

# %% netcl.data.datasets.ImageFolder
(folder / "cat").mkdir()
data.save_image(np.zeros((3, 8, 8), np.float32), folder / "cat/0.png")
datasets.ImageFolder(folder).classes

# %% netcl.data.datasets.KMNIST
raw = folder / "KMNIST/raw"
raw.mkdir(parents=True)
head = lambda *sizes: bytes([0, 0, 8, len(sizes)]) + np.array(sizes, ">u4").tobytes()
(raw / "train-images-idx3-ubyte").write_bytes(head(2, 28, 28) + bytes(2 * 28 * 28))
(raw / "train-labels-idx1-ubyte").write_bytes(head(2) + bytes([3, 7]))
len(datasets.KMNIST(folder))

# %% netcl.data.datasets.MNIST
raw = folder / "MNIST/raw"
raw.mkdir(parents=True)
head = lambda *sizes: bytes([0, 0, 8, len(sizes)]) + np.array(sizes, ">u4").tobytes()
(raw / "train-images-idx3-ubyte").write_bytes(head(2, 28, 28) + bytes(2 * 28 * 28))
(raw / "train-labels-idx1-ubyte").write_bytes(head(2) + bytes([3, 7]))
len(datasets.MNIST(folder))

# %% netcl.data.datasets.VisionDataset
isinstance(datasets.FakeData(4, (3, 8, 8)), datasets.VisionDataset)

# %% netcl.data.filters.Filter
filters.Filter.__doc__.splitlines()[0]

# %% netcl.data.shared_batch.SharedBatchRingBuffer
from netcl.data.shared_batch import SharedBatchRingBuffer
SharedBatchRingBuffer.__doc__.splitlines()[0]

# %% netcl.data.transforms.CenterCrop
changed = transforms.CenterCrop(4)(image)
changed.shape

# %% netcl.data.transforms.ColorJitter
changed = transforms.ColorJitter(0.4)(image)
changed.shape

# %% netcl.data.transforms.Compose
transforms.Compose([transforms.Resize(4), transforms.ToTensor()])(image).shape

# %% netcl.data.transforms.ConvertImageDtype
planes = image.transpose(2, 0, 1).view(transforms.Image)
transforms.ConvertImageDtype(np.float32)(planes).dtype

# %% netcl.data.transforms.Draws
transforms.Draws.__doc__.splitlines()[0]

# %% netcl.data.transforms.FiveCrop
changed = transforms.FiveCrop(4)(image)
len(changed)

# %% netcl.data.transforms.GaussianBlur
changed = transforms.GaussianBlur(3)(image)
changed.shape

# %% netcl.data.transforms.Grayscale
changed = transforms.Grayscale()(image)
changed.shape

# %% netcl.data.transforms.Image
image.transpose(2, 0, 1).view(transforms.Image).shape

# %% netcl.data.transforms.InterpolationMode
transforms.InterpolationMode.BILINEAR.value

# %% netcl.data.transforms.Lambda
transforms.Lambda(lambda x: 255 - x)(image).shape

# %% netcl.data.transforms.LinearTransformation
transforms.LinearTransformation(np.eye(12, dtype=np.float32), np.zeros(12, np.float32))(np.ones((3, 2, 2), np.float32)).shape

# %% netcl.data.transforms.Normalize
transforms.Normalize((0.5,), (0.5,))(np.ones((1, 2, 2), np.float32))

# %% netcl.data.transforms.PILToTensor
changed = transforms.PILToTensor()(transforms.ToPILImage()(image))
changed.shape

# %% netcl.data.transforms.Pad
changed = transforms.Pad(2)(image)
changed.shape

# %% netcl.data.transforms.RandAugment
changed = transforms.RandAugment()(image)
changed.shape

# %% netcl.data.transforms.RandomAdjustSharpness
changed = transforms.RandomAdjustSharpness(2.0)(image)
changed.shape

# %% netcl.data.transforms.RandomAffine
changed = transforms.RandomAffine(10)(image)
changed.shape

# %% netcl.data.transforms.RandomApply
transforms.RandomApply([transforms.Grayscale()], p=0.5)(image).shape[:2]

# %% netcl.data.transforms.RandomAutocontrast
changed = transforms.RandomAutocontrast()(image)
changed.shape

# %% netcl.data.transforms.RandomChoice
transforms.RandomChoice([transforms.RandomInvert(), transforms.RandomVerticalFlip()])(image).shape

# %% netcl.data.transforms.RandomCrop
changed = transforms.RandomCrop(4)(image)
changed.shape

# %% netcl.data.transforms.RandomEqualize
changed = transforms.RandomEqualize()(image)
changed.shape

# %% netcl.data.transforms.RandomErasing
transforms.RandomErasing(p=1.0)(np.ones((3, 8, 8), np.float32)).min()

# %% netcl.data.transforms.RandomGrayscale
changed = transforms.RandomGrayscale()(image)
changed.shape

# %% netcl.data.transforms.RandomHorizontalFlip
changed = transforms.RandomHorizontalFlip()(image)
changed.shape

# %% netcl.data.transforms.RandomInvert
changed = transforms.RandomInvert()(image)
changed.shape

# %% netcl.data.transforms.RandomOrder
transforms.RandomOrder([transforms.RandomInvert(), transforms.RandomVerticalFlip()])(image).shape

# %% netcl.data.transforms.RandomPerspective
changed = transforms.RandomPerspective()(image)
changed.shape

# %% netcl.data.transforms.RandomPosterize
changed = transforms.RandomPosterize(4)(image)
changed.shape

# %% netcl.data.transforms.RandomResizedCrop
changed = transforms.RandomResizedCrop(4)(image)
changed.shape

# %% netcl.data.transforms.RandomRotation
changed = transforms.RandomRotation(30)(image)
changed.shape

# %% netcl.data.transforms.RandomSolarize
changed = transforms.RandomSolarize(128)(image)
changed.shape

# %% netcl.data.transforms.RandomTransforms
isinstance(transforms.RandomApply([transforms.Grayscale()]), transforms.RandomTransforms)

# %% netcl.data.transforms.RandomVerticalFlip
changed = transforms.RandomVerticalFlip()(image)
changed.shape

# %% netcl.data.transforms.Resize
changed = transforms.Resize(4)(image)
changed.shape

# %% netcl.data.transforms.TenCrop
changed = transforms.TenCrop(4)(image)
len(changed)

# %% netcl.data.transforms.ToPILImage
changed = transforms.ToPILImage()(image)
changed.size

# %% netcl.data.transforms.ToTensor
changed = transforms.ToTensor()(image)
changed.shape

# %% netcl.data.transforms.Transform
isinstance(transforms.Resize(4), transforms.Transform)

# %% netcl.data.transforms.TrivialAugmentWide
changed = transforms.TrivialAugmentWide()(image)
changed.shape
