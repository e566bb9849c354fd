#!/usr/bin/env python3
"""Exports the demo models (8x8 grey images, 10 classes; one of text) to models/ as ONNX and TorchScript, with seeded initial weights.

    python3 scripts/export_models.py [FOLDER]

Needs PyTorch 1.13 or newer. ONNX files are in training form (BatchNorm and Dropout kept, weights not folded) with a dynamic
batch axis; TorchScript files are scripted in train mode and carry weir.json = {"input": [1, 8, 8]}. Weights depend on the seed
alone.
"""
import os
import struct
import sys
import zipfile

import torch
from torch import nn

INPUT = [1, 8, 8]
CLASSES = 10


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(64, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, CLASSES))

    def forward(self, x):
        return self.layers(torch.flatten(x, 1))


def conv_bn_relu(channels_in, channels_out, stride=1):
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False), nn.BatchNorm2d(channels_out), nn.ReLU())


class Cnn(nn.Module):
    def __init__(self, a, b, c, d):
        super().__init__()
        self.features = nn.Sequential(
            conv_bn_relu(1, a), conv_bn_relu(a, b), nn.MaxPool2d(2), conv_bn_relu(b, c), conv_bn_relu(c, d), nn.AdaptiveAvgPool2d(1))
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(d, CLASSES)

    def forward(self, x):
        return self.head(self.dropout(torch.flatten(self.features(x), 1)))


class Residual(nn.Module):
    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.body = nn.Sequential(
            conv_bn_relu(channels_in, channels_out, stride), nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(channels_out))
        self.skip = nn.Identity() if stride == 1 and channels_in == channels_out else nn.Sequential(
            nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out))
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.body(x) + self.skip(x))


class ResNetTiny(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = conv_bn_relu(1, 32)
        self.stages = nn.Sequential(Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 64, 1))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x):
        return self.head(torch.flatten(self.pool(self.stages(self.stem(x))), 1))


class EncoderBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.norm1 = nn.LayerNorm(dim)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.project = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.expand = nn.Linear(dim, 4 * dim)
        self.gelu = nn.GELU()
        self.dropout = nn.Dropout(0.1)
        self.shrink = nn.Linear(4 * dim, dim)

    def split(self, x):
        return x.reshape(-1, 16, self.heads, 64 // self.heads).transpose(1, 2)

    def forward(self, x):
        y = self.norm1(x)
        weights = torch.softmax(torch.matmul(self.split(self.query(y)), self.split(self.key(y)).transpose(2, 3)) * self.scale, dim=-1)
        y = torch.matmul(weights, self.split(self.value(y))).transpose(1, 2).reshape(-1, 16, 64)
        x = x + self.project(y)
        return x + self.shrink(self.dropout(self.gelu(self.expand(self.norm2(x)))))


class Attention(nn.Module):
    """Sixteen 2x2 patches as tokens of 64."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(1, 64, 2, 2)
        self.position = nn.Parameter(torch.randn(1, 16, 64) * 0.02)
        self.blocks = nn.Sequential(EncoderBlock(64, 4), EncoderBlock(64, 4))
        self.norm = nn.LayerNorm(64)
        self.head = nn.Linear(64, CLASSES)

    def forward(self, x):
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.position
        return self.head(self.norm(self.blocks(tokens)).mean(dim=1))


class Rows(nn.Module):
    """The eight rows of an image as a sequence: a bidirectional LSTM, then a GRU whose last state is classified."""

    def __init__(self, hidden=48):
        super().__init__()
        self.lstm = nn.LSTM(8, hidden, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(2 * hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, CLASSES)

    def forward(self, x):
        y, _ = self.lstm(x.squeeze(1))
        y, _ = self.gru(y)
        return self.head(y[:, -1])


class UNet(nn.Module):
    """Two levels down and up with skips: once by transposed convolution, once by bilinear upsampling. Classified by the mean."""

    def __init__(self, width=16):
        super().__init__()
        self.down1 = conv_bn_relu(1, width)
        self.down2 = conv_bn_relu(width, 2 * width)
        self.bottom = conv_bn_relu(2 * width, 4 * width)
        self.pool = nn.MaxPool2d(2)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.join2 = conv_bn_relu(4 * width, 2 * width)
        self.up1 = nn.Upsample(scale_factor=2.0, mode="bilinear", align_corners=False)
        self.join1 = conv_bn_relu(3 * width, width)
        self.segment = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        c = self.bottom(self.pool(b))
        b = self.join2(torch.cat([self.up2(c), b], 1))
        a = self.join1(torch.cat([self.up1(b), a], 1))
        return self.segment(a).mean(dim=[2, 3])


class TextTransformer(nn.Module):
    """Next character: 4 blocks over 64 characters of 128, causal, input and output embedding tied."""

    def __init__(self, length=64, vocabulary=128, dim=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        nn.init.normal_(self.embed.weight, std=0.05)
        self.position = nn.Parameter(torch.randn(1, length, dim) * 0.02)
        self.blocks = nn.ModuleList([CausalBlock(length, dim, 4) for _ in range(4)])
        self.norm = nn.LayerNorm(dim)

    def forward(self, tokens):
        x = self.embed(tokens) + self.position
        for block in self.blocks:
            x = block(x)
        return torch.matmul(self.norm(x), self.embed.weight.t())


class CausalBlock(nn.Module):
    def __init__(self, length, dim, heads):
        super().__init__()
        self.length, self.dim, self.heads, self.scale = length, dim, heads, (dim // heads) ** -0.5
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.project = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.expand = nn.Linear(dim, 4 * dim)
        self.gelu = nn.GELU()
        self.shrink = nn.Linear(4 * dim, dim)
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1))

    def heads_of(self, x):
        return x.reshape(-1, self.length, self.heads, self.dim // self.heads).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        scores = torch.matmul(self.heads_of(q), self.heads_of(k).transpose(2, 3)) * self.scale + self.mask
        y = torch.matmul(torch.softmax(scores, dim=-1), self.heads_of(v)).transpose(1, 2).reshape(-1, self.length, self.dim)
        x = x + self.project(y)
        return x + self.shrink(self.gelu(self.expand(self.norm2(x))))


class ResNet18(nn.Module):
    """ResNet-18 (He et al., CVPR'16) for 28x28 grey digits. Its weights are left out (constants that take no room): init: kaiming."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        widths = [64, 128, 256, 512]
        blocks = []
        for i, width in enumerate(widths):
            blocks += [Residual(widths[max(0, i - 1)], width, 1 if i == 0 else 2), Residual(width, width, 1)]
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(512, CLASSES)

    def forward(self, x):
        return self.head(torch.flatten(self.pool(self.blocks(self.stem(x))), 1))


def without_weights(model):
    for p in model.parameters():
        p.data = torch.full((1,), 0.01).expand(p.shape)
    return model


def export_onnx(model, path):
    example = torch.zeros([2] + INPUT)
    if isinstance(model, TextTransformer):
        example = torch.zeros([2, 64], dtype=torch.long)
    torch.onnx.export(
        model, example, path, opset_version=17, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
        input_names=["input"], output_names=["logits"], dynamic_axes={"input": {0: "batch"}, "logits": {0: "batch"}})


def export_torchscript(model, path):
    shape = '{"input": [64]}' if isinstance(model, TextTransformer) else '{"input": [1, 8, 8]}'
    if isinstance(model, ResNet18):
        shape, model = '{"input": [1, 28, 28]}', without_weights(model)
    torch.jit.save(torch.jit.script(model), path + ".full", _extra_files={"weir.json": shape})
    # Without the source positions (paths of the machine that exported) and with fixed dates.
    with zipfile.ZipFile(path + ".full") as source, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as target:
        for name in source.namelist():
            if name.endswith(".debug_pkl"):
                continue
            # Records start at multiples of 64 bytes, as PyTorch writes them.
            info = zipfile.ZipInfo("model/" + name.split("/", 1)[1])
            start = target.fp.tell() + 30 + len(info.filename) + 4
            padding = -start % 64
            info.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
            target.writestr(info, source.read(name))
    os.remove(path + ".full")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models")
    os.makedirs(folder, exist_ok=True)
    models = [
        ("mlp.onnx", lambda: Mlp(256)),
        ("cnn.onnx", lambda: Cnn(16, 32, 64, 64)),
        ("resnet_tiny.onnx", ResNetTiny),
        ("attention.onnx", Attention),
        ("wide_mlp.onnx", lambda: Mlp(1000)),
        ("cnn_ts.pt", lambda: Cnn(16, 32, 64, 64)),
        ("resnet_tiny_ts.pt", ResNetTiny),
        ("attention_ts.pt", Attention),
        ("wide_cnn_ts.pt", lambda: Cnn(32, 128, 256, 256)),
    ]
    models += [("resnet18_ts.pt", ResNet18, 1200)]
    # One seed for both forms: their weights are equal, which the tests rely on.
    for seed, (name, build) in enumerate([("lstm", Rows), ("unet", UNet), ("transformer", TextTransformer)]):
        models += [(name + ".onnx", build, 1100 + seed), (name + "_ts.pt", build, 1100 + seed)]
    for index, (name, build, *seed) in enumerate(models):
        torch.manual_seed(seed[0] if seed else 1000 + index)
        model = build().train()
        path = os.path.join(folder, name)
        (export_onnx if name.endswith(".onnx") else export_torchscript)(model, path)
        parameters = sum(p.numel() for p in model.parameters())
        print(f"{name}: {parameters:,} parameters, {os.path.getsize(path):,} bytes")


if __name__ == "__main__":
    main()
