"""Handwritten digits in TT-NN: the network of reprise demo as one trace of 128 images.

python3 -m pip install ttnn numpy
python3 digits.py FOLDER

FOLDER is examples/digits, with the images and the trained weights.
"""
import hashlib
import json
import struct
import sys

import numpy as np
import ttnn

BATCH = 128
FOLDER = sys.argv[1]


def weights(path):
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    for name, t in head.items():
        if name != "__metadata__":
            bits = np.frombuffer(data[slice(*t["data_offsets"])], np.uint16).astype(np.uint32) << 16
            yield name, bits.view(np.float32).reshape(t["shape"])


def host(a):
    return ttnn.Tensor(a.flatten().tolist(), [1, 1, *a.shape], ttnn.bfloat16, ttnn.TILE_LAYOUT)


W = dict(weights(FOLDER + "/convnet/weights.safetensors"))
# The first convolution as four products, one for each place in a window of the pool: 64 pixels to 4 by 4 windows of 16 channels.
conv1 = np.zeros((4, 10, 10, 4, 4, 16), np.float32)
for place, y, x in np.ndindex(4, 4, 4):
    top, left = 2 * y + place // 2, 2 * x + place % 2
    conv1[place, top : top + 3, left : left + 3, y, x] = W["conv1.weight"][:, 0].transpose(1, 2, 0)
conv1 = conv1[:, 1:9, 1:9].reshape(4, 64, 256)  # without the border of zeros
data = np.loadtxt(FOLDER + "/data/digits.csv.gz", np.float32, delimiter=",")
labels, pixels = data[:, 64], np.concatenate([data[:, :64] / 16, np.zeros((-len(data) % BATCH, 64))])

device = ttnn.open_device(device_id=0, trace_region_size=1 << 20)
places = [host(m).to(device) for m in conv1]
bias1 = host(np.tile(W["conv1.bias"], 16)[None]).to(device)
conv2, bias2 = host(W["conv2.weight"].transpose(2, 3, 1, 0).reshape(256, 32)).to(device), host(W["conv2.bias"][None]).to(device)
linear, bias3 = host(W["linear.weight"]).to(device), host(W["linear.bias"][None]).to(device)
images = host(pixels[:BATCH]).to(device)


def network():
    a, b, c, d = (ttnn.matmul(images, place) for place in places)
    x = ttnn.relu(ttnn.add(ttnn.maximum(ttnn.maximum(a, b), ttnn.maximum(c, d)), bias1))
    return ttnn.linear(ttnn.relu(ttnn.linear(x, conv2, bias=bias2)), linear, bias=bias3)


network()  # compiles the kernels
trace = ttnn.begin_trace_capture(device, cq_id=0)
scores = network()
ttnn.end_trace_capture(device, trace, cq_id=0)
answers, digest = [], hashlib.sha256()
for batch in pixels.reshape(-1, BATCH, 64):
    ttnn.copy_host_to_device_tensor(host(batch), images, 0)
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    out = np.array(ttnn.from_device(scores).to_list(), np.float32)
    digest.update(out.tobytes())
    answers += list(out.reshape(BATCH, 10).argmax(1))
right = int((answers[: len(labels)] == labels).sum())
print(f"{right} of {len(labels)} digits right, scores {digest.hexdigest()[:16]}")
ttnn.release_trace(device, trace)
ttnn.close_device(device)
