"""The texts of ``netcl --help`` and ``netcl COMMAND --help``."""

from __future__ import annotations

ABOUT = """\
Train neural networks on any OpenCL device, and check and measure devices.

first steps:
  netcl doctor                      check drivers and devices; which drivers could be installed?
  netcl init cnn                    a configuration and a script that run at once; also mlp, table, gpt, finetune
  netcl devices                     the selectors for NETCL_DEVICE and --device, and the fastest device
  netcl train config.toml           train by a configuration file; writes model.netcl and report.html
  netcl train config.toml --resume auto --set optimizer.lr=0.01
"""

ENDS = """\
exit codes: 0 success, 1 failure, 2 invalid command or configuration, 130 interrupted, 143 terminated.
All variables NETCL_...: see the reference in the documentation. Help on a command: netcl COMMAND --help
"""

CONFIG = """\
a configuration lists the objects to build and their arguments, by the names of the Python classes:

  [model]
  layers = [["Conv2d", 1, 16, 3, {padding = 1}], "ReLU", ["MaxPool2d", 2], "Flatten", ["Linear", 256, 10]]
  # or: name = "resnet18" and num_classes = 10; or: file = "model.py" and name = "make"; or: load = "model.netcl"

  [data]
  name = "example_digits"      # Table, ImageFolder, NpyDataset, CSVDataset, MNIST, CIFAR10 .., or file = "data.py"
  batch_size = 64
  validation = 0.2             # the fraction of samples for validation if the data set has no such part
  # augment = [["random_crop", {padding = 1}], "horizontal_flip"]   # images of the training part

  [optimizer]
  name = "AdamW"
  lr = 0.002

  [scheduler]                  # optional
  name = "CosineAnnealingLR"
  T_max = 10

  [trainer]
  epochs = 10
  output = "runs/digits"       # relative to the file; also: device seed loss metrics grad_clip ema ...

  [callbacks.EarlyStopping]    # one table per callback
  patience = 3
"""

# Shown after the arguments of a command.
EXAMPLES = {
    "doctor": """\
examples:
  netcl doctor                 a minute: drivers, versions, what could be installed, every kernel family on every device
  netcl doctor --html a.html   the same as a page, for a bug report or a phone
  netcl doctor --full          also every op, and every device with emulated limits; takes many minutes

The numbers are the largest relative errors against NumPy by type; "exact" means to the last bit. The exit code is 1 if
a device is wrong: choose another by NETCL_DEVICE until its driver is fixed.
""",
    "devices": """\
examples:
  netcl devices                          * marks the default device
  NETCL_DEVICE=pocl netcl train a.toml   a selector, or a part of the platform's or device's name, chooses another
  netcl devices --json                   one JSON object per device, for programs
""",
    "train": CONFIG
    + """
examples:
  netcl train digits.toml                                  ends with model.netcl, report.html, history.csv, last.netcl
  netcl train digits.toml --resume auto                    continues after Ctrl-C, a kill or a power failure, with the
                                                           numbers of an uninterrupted run
  netcl train digits.toml --set optimizer.lr=0.01          a second run: saves to runs/digits-2, says so
  netcl train digits.toml --overwrite                      saves over the earlier run

The first Ctrl-C (or SIGTERM, SIGHUP) finishes the step, saves, and exits with 130 (143, 129); the second exits at once.
""",
    "evaluate": """\
examples:
  netcl evaluate digits.toml                     the best model of the run; the configuration is that of `netcl train`
  netcl evaluate digits.toml --model runs/digits/epoch_003.netcl --json
""",
    "predict": """\
examples:
  netcl predict runs/digits/model.netcl x.npy                    a line per sample: its class and its probability
  netcl predict runs/digits/model.netcl x.npy --output y.npy     the outputs as an array
  netcl predict runs/table/model.netcl new.csv --output p.csv    a table: class, or value, and all probabilities
  netcl predict runs/cnn/model.netcl images --output p.json      a folder of images, by the names of its files

Rows, images and arrays are encoded and scaled as in training, by the facts that `netcl train` keeps in the model file.
A table with the target, or folders named as the classes, are also compared: accuracy and confusion matrix.
""",
    "tune": """\
examples:
  netcl tune matmul 1024 1024 1024               (M, K) by (K, N)
  netcl tune conv2d 64 3 32 32 32 3 3 1 1        batch, channels, height, width, filters, their height and width,
                                                 stride, padding

The measurements are stored on disk for this device and driver; later runs use them unless NETCL_AUTOTUNE=off.
""",
    "profile": """\
examples:
  netcl profile digits.toml                    the configuration is that of `netcl train`; no file of the run is touched
  netcl profile digits.toml --steps 50 --folder profiles
  netcl profile digits.toml --roofline roofline.png    a picture, by matplotlib: pip install "netcl-trainer[plot]"

Read kernels.txt first: time by kernel. Open trace.json at https://ui.perfetto.dev to see host and device on one time
line; roofline.html shows which kernels are bound by memory and which by arithmetic.
""",
    "bench": """\
examples:
  netcl bench                                  every device; NumPy comes first, the others are compared with it
  netcl bench --devices pocl,cpu --runs 30
""",
    "export": """\
examples:
  netcl export runs/digits/model.netcl --to onnx --shape 1,1,8,8       for onnxruntime and others
  netcl export runs/digits/model.netcl --to safetensors                the weights by name
  netcl export runs/digits/model.netcl --to torch --output weights.pt  for torch.load and load_state_dict
""",
    "convert": """\
examples:
  netcl convert model.netcl model.onnx --shape 1,3,32,32
  netcl convert weights.pt weights.safetensors

.netcl and .onnx hold a model, the others weights only, which cannot become a model; PyTorch's files are read without
executing anything in them.
""",
    "init": """\
examples:
  netcl init cnn               a convolutional network on scans of digits
  netcl init mlp               a network of full layers on a table in a CSV file
  netcl init table             a network on a table of numbers, categories and dates with gaps
  netcl init gpt story         a GPT on the characters of a text, in the folder story
  netcl init finetune          a new head on trained features
""",
    "completion": """\
examples:
  netcl completion bash > ~/.local/share/bash-completion/completions/netcl
  netcl completion zsh > ~/.zfunc/_netcl
""",
}
