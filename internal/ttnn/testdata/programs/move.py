"""Data movement: transposes, permutations, shapes, slices, padding, concatenation, repetition."""
import numpy as np
import ttnn

from programs.corpus import BLOCK, HEIGHT, L1, ROWS, TILE, WIDTH, group, read

case = group("move")


def of(function, *shape, **named):
    def program(t):
        x = t.normal(*shape, **named)
        return lambda: function(x)

    return program


def of_two(function, a, b=None, **named):
    def program(t):
        x, y = t.normal(*a, **named), t.normal(*(b or a), **named)
        return lambda: function(x, y)

    return program


def of_integers(function, *shape, dtype=ttnn.uint32, layout=ROWS):
    def program(t):
        x = t.integers(0, 2**31 if dtype != ttnn.uint16 else 2**15, *shape, dtype=dtype, layout=layout)
        return lambda: function(x)

    return program


transpose_last = lambda x: ttnn.transpose(x, -2, -1)
case("transpose_wh", short=True)(of(transpose_last, 1, 2, 64, 96))
case("transpose_hc")(of(lambda x: ttnn.transpose(x, 1, 2), 1, 2, 64, 96))
case("transpose_hc_padded")(of(lambda x: ttnn.transpose(x, 1, 2), 1, 3, 40, 64))
case("transpose_cn")(of(lambda x: ttnn.transpose(x, 0, 1), 2, 3, 32, 64))
case("transpose_nh")(of(lambda x: ttnn.transpose(x, 0, 2), 2, 3, 32, 64))
case("transpose_wh_odd")(of(transpose_last, 33, 47))
case("transpose_wh_f32")(of(transpose_last, 64, 96, dtype=ttnn.float32))
case("transpose_wh_bfp8")(of(transpose_last, 64, 96, dtype=ttnn.bfloat8_b))
case("transpose_wh_rows")(of(transpose_last, 64, 64, layout=ROWS))
case("transpose_hc_rows")(of(lambda x: ttnn.transpose(x, 1, 2), 1, 8, 16, 32, layout=ROWS))
case("transpose_wh_bits")(lambda t: (lambda x: lambda: transpose_last(x))(t.tensor(t.exponents(0, 256, 64, 128))))
case("transpose_shards")(lambda t: (lambda x: lambda: transpose_last(x))(t.normal(2, 2, 32, 32, memory=t.shards((2, 2, 32, 32), 2, 2, HEIGHT))))
case("permute_0231")(of(lambda x: ttnn.permute(x, (0, 2, 3, 1)), 1, 3, 32, 64))
case("permute_3210")(of(lambda x: ttnn.permute(x, (3, 2, 1, 0)), 2, 3, 32, 64))
case("permute_0213")(of(lambda x: ttnn.permute(x, (0, 2, 1, 3)), 1, 4, 32, 64))
case("permute_rows")(of(lambda x: ttnn.permute(x, (0, 3, 1, 2)), 1, 8, 16, 32, layout=ROWS))
case("permute_rank5")(of(lambda x: ttnn.permute(x, (4, 1, 3, 0, 2)), 2, 3, 4, 16, 32, layout=ROWS))
case("permute_u32")(of_integers(lambda x: ttnn.permute(x, (0, 2, 1, 3)), 1, 8, 16, 32))
case("reshape", short=True)(of(lambda x: ttnn.reshape(x, (1, 1, 96, 64)), 64, 96))
case("reshape_odd")(of(lambda x: ttnn.reshape(x, (1, 1, 20, 90)), 30, 60))
case("reshape_rows")(of(lambda x: ttnn.reshape(x, (1, 1, 96, 64)), 64, 96, layout=ROWS))
case("reshape_batch")(of(lambda x: ttnn.reshape(x, (2, 2, 32, 64)), 128, 64))
case("reshape_rank")(of(lambda x: ttnn.reshape(x, (4, 16, 96)), 64, 96, layout=ROWS))
case("reshape_u32")(of_integers(lambda x: ttnn.reshape(x, (1, 1, 32, 128)), 64, 64, layout=TILE))
case("view")(of(lambda x: ttnn.view(x, (1, 2, 32, 96)), 64, 96))
case("squeeze")(of(lambda x: ttnn.squeeze(x, 1), 2, 1, 32, 64))
case("unsqueeze")(of(lambda x: ttnn.unsqueeze(x, 1), 2, 32, 64))
for name, dim in (("w", 3), ("h", 2), ("c", 1), ("n", 0)):
    case("concat_" + name, short=name == "w")(of_two(lambda x, y, dim=dim: ttnn.concat([x, y], dim), (1, 2, 32, 64)))
case("concat_rows")(of_two(lambda x, y: ttnn.concat([x, y], 3), (1, 2, 32, 64), layout=ROWS))
case("concat_odd")(of_two(lambda x, y: ttnn.concat([x, y], 3), (32, 40), (32, 24)))
case("concat_odd_height")(of_two(lambda x, y: ttnn.concat([x, y], 2), (20, 64), (15, 64)))
case("concat_bfp8")(of_two(lambda x, y: ttnn.concat([x, y], 3), (32, 64), dtype=ttnn.bfloat8_b))
case("concat_three")(of_two(lambda x, y: ttnn.concat([x, y, x], 3), (32, 64), (32, 32)))
case("concat_l1")(of_two(lambda x, y: ttnn.concat([x, y], 2, memory_config=L1), (32, 64)))


@case("concat_shards")
def _(t):
    x, y = (t.normal(64, 64, layout=ROWS, memory=t.shards((64, 64), 2, 1, HEIGHT)) for _ in range(2))
    m = t.shards((64, 128), 2, 1, HEIGHT)
    return lambda: ttnn.concat([x, y], 3, memory_config=m)


case("stack")(of_two(lambda x, y: ttnn.stack([x, y], 0), (32, 64)))
case("slice", short=True)(of(lambda x: ttnn.slice(x, [0, 0, 32, 32], [1, 1, 64, 96]), 96, 128))
case("slice_odd")(of(lambda x: ttnn.slice(x, [0, 0, 3, 5], [1, 1, 40, 70]), 96, 128))
case("slice_rows_step")(of(lambda x: ttnn.slice(x, [0, 0, 1, 2], [1, 1, 60, 90], [1, 1, 2, 1]), 64, 96, layout=ROWS))
case("slice_rows_step_width")(of(lambda x: ttnn.slice(x, [0, 0, 0, 0], [1, 1, 64, 96], [1, 1, 1, 3]), 64, 96, layout=ROWS))
case("slice_batch")(of(lambda x: ttnn.slice(x, [1, 0, 0, 0], [3, 2, 32, 32]), 4, 2, 32, 64))
case("slice_f32")(of(lambda x: ttnn.slice(x, [0, 0, 32, 0], [1, 1, 64, 64]), 96, 64, dtype=ttnn.float32))
case("slice_subscript")(of(lambda x: x[:, :, 32:64, :32], 96, 64))
case("pad")(of(lambda x: ttnn.pad(x, [(0, 0), (0, 1), (0, 32), (0, 32)], 0.5), 32, 64))
case("pad_odd")(of(lambda x: ttnn.pad(x, [(0, 0), (0, 0), (0, 7), (0, 14)], 2.0), 25, 50))
case("pad_rows")(of(lambda x: ttnn.pad(x, [(0, 0), (0, 0), (2, 3), (0, 16)], -1.0), 32, 64, layout=ROWS))
case("pad_u32")(of_integers(lambda x: ttnn.pad(x, [(0, 0), (0, 0), (0, 8), (0, 8)], 7), 8, 24))
case("repeat")(of(lambda x: ttnn.repeat(x, ttnn.Shape([1, 2, 1, 3])), 32, 64))
case("repeat_rows")(of(lambda x: ttnn.repeat(x, ttnn.Shape([2, 1, 2, 1])), 8, 64, layout=ROWS))
case("repeat_interleave")(of(lambda x: ttnn.repeat_interleave(x, 2, dim=1), 1, 2, 32, 64))
case("repeat_interleave_h")(of(lambda x: ttnn.repeat_interleave(x, 2, dim=2), 32, 64))
case("expand")(of(lambda x: ttnn.expand(x, [1, 4, 32, 64]), 32, 64))
case("split")(of(lambda x: ttnn.split(x, 64, dim=3), 32, 128))
case("split_h")(of(lambda x: ttnn.split(x, 32, dim=2), 96, 64))
case("chunk")(of(lambda x: ttnn.chunk(x, 4, dim=3), 32, 128))
case("roll")(of(lambda x: ttnn.roll(x, 5, 2), 32, 64))
case("fold")(of(lambda x: ttnn.fold(x, 2, 2), 1, 8, 8, 16, layout=ROWS))
case("upsample")(of(lambda x: ttnn.upsample(x, 2), 1, 4, 4, 32, layout=ROWS))
case("upsample_3_2")(of(lambda x: ttnn.upsample(x, (3, 2)), 1, 4, 4, 32, layout=ROWS))
case("assign")(of(lambda x: ttnn.assign(x, memory_config=L1), 32, 64))
case("copy")(of_two(lambda x, y: (ttnn.copy(x, y), y)[1], (32, 64)))
case("move", replay=False)(of(ttnn.move, 32, 64, memory=L1))
case("bcast_h")(of_two(lambda x, y: ttnn.bcast(x, y, ttnn.BcastOpMath.ADD, ttnn.BcastOpDim.H), (64, 96), (1, 96)))


@case("nonzero")
def _(t):
    count, indices = read(list(ttnn.nonzero(t.integers(0, 2, 1, 64, dtype=ttnn.uint32, layout=ROWS))))
    count = int(count.flat[0])
    return [count, indices[..., :count]]  # nothing is written behind them


case("indexed_fill")(
    lambda t: (lambda i, x, y: lambda: ttnn.indexed_fill(i, x, y))(
        t.integers(0, 4, 1, 2, dtype=ttnn.uint32, layout=ROWS), t.normal(4, 1, 32, 32, layout=ROWS), t.normal(2, 1, 32, 32, layout=ROWS)
    )
)
case("index_fill")(lambda t: (lambda i, x: lambda: ttnn.index_fill(x, 2, i, 5.0))(t.tensor(np.array([3, 7, 9], np.uint32), ttnn.uint32, ROWS), t.normal(16, 32, layout=ROWS)))
case("plus_one", replay=False)(lambda t: ttnn.plus_one(t.integers(0, 100, 1, 32, layout=ROWS)))

# Values chosen by indices.
index = group("index")


def embedding(**named):
    def program(t):
        weights, which = t.normal(100, 64, layout=ROWS), t.integers(0, 100, 2, 32, dtype=ttnn.uint32, layout=ROWS)
        which = ttnn.reshape(which, (2, 32))
        return lambda: ttnn.embedding(which, weights, **named)

    return program


index("embedding", short=True)(embedding())
index("embedding_tiles")(embedding(layout=TILE))
index("embedding_l1")(embedding(memory_config=L1))


def gather(dim, dtype=ttnn.bfloat16, which=ttnn.uint16):
    def program(t):
        x, i = t.normal(64, 64, dtype=dtype), t.integers(0, 32, 32, 32, dtype=which)
        return lambda: ttnn.gather(x, dim, i)

    return program


index("gather_w")(gather(-1))
index("gather_h")(gather(-2))
index("gather_u32")(gather(-1, which=ttnn.uint32))


def scatter(function, dtype=ttnn.bfloat16):
    def program(t):
        x, y = t.normal(32, 64, layout=ROWS, dtype=dtype), t.normal(32, 16, layout=ROWS, dtype=dtype)
        i = t.tensor(t.random.permuted([range(64)] * 32, axis=1)[:, :16].astype("uint32").reshape(1, 1, 32, 16), ttnn.uint32, ROWS)
        return lambda: function(x, -1, i, y)

    return program


index("scatter")(scatter(ttnn.scatter))
index("scatter_f32")(scatter(ttnn.scatter, ttnn.float32))
index("scatter_add")(scatter(ttnn.scatter_add))
index("tosa_gather")(lambda t: (lambda x, i: lambda: ttnn.tosa_gather(x, i))(t.normal(2, 32, 32), t.tensor(t.random.integers(0, 32, (2, 32)).astype("uint32"), ttnn.uint32)))


@index("embedding_backward")
def _(t):
    which, gradient = t.integers(0, 64, 1, 32, dtype=ttnn.uint32, layout=ROWS), t.normal(32, 64)
    weights = t.normal(64, 64, layout=ROWS)
    return lambda: ttnn.embedding_bw(which, weights, gradient, dtype=ttnn.bfloat16)


@index("sampling", replay=False)
def _(t):
    x = t.normal(32, 64)
    i = t.tensor(np.tile(np.arange(64, dtype=np.int32), (1, 1, 32, 1)), ttnn.int32, ROWS)
    k, p, temperature = t.tensor(np.full(32, 8, np.uint32), ttnn.uint32, ROWS), t.tensor(np.full(32, 0.9, np.float32), layout=ROWS), t.tensor(np.ones(32, np.float32), layout=ROWS)
    return ttnn.sampling(x, i, k=k, p=p, temp=temperature, seed=7)


@index("moe")
def _(t):
    x, expert, top = t.normal(32, 64), t.normal(1, 64), t.normal(1, 32)
    return lambda: ttnn.moe(x, expert, top, 32)
