"""Tiles and rows, and the memory that a tensor lies in."""
import numpy as np
import ttnn

from programs.corpus import BLOCK, DRAM, HEIGHT, L1, ROWS, TILE, WIDTH, cores, group

case = group("layout")
COLUMNS = ttnn.ShardOrientation.COL_MAJOR


def of(function, *shape, **named):
    def program(t):
        x = t.normal(*(shape or (64, 96)), **named)
        return lambda: function(x)

    return program


def of_integers(function, dtype, layout, *shape):
    def program(t):
        x = t.integers(0, 2**31 if dtype == ttnn.uint32 else 2**15, *shape, dtype=dtype, layout=layout)
        return lambda: function(x)

    return program


def tilize(x):
    return ttnn.to_layout(x, TILE)


def untilize(x):
    return ttnn.to_layout(x, ROWS)


case("tilize", short=True)(of(tilize, layout=ROWS))
case("untilize", short=True)(of(untilize))
case("tilize_padded")(of(tilize, 1, 2, 33, 50, layout=ROWS))
case("untilize_padded")(of(untilize, 1, 2, 33, 50))
case("tilize_f32")(of(tilize, 64, 64, layout=ROWS, dtype=ttnn.float32))
case("untilize_f32")(of(untilize, 64, 64, dtype=ttnn.float32))
for name, dtype in (("u32", ttnn.uint32), ("i32", ttnn.int32), ("u16", ttnn.uint16)):
    case("tilize_" + name)(of_integers(tilize, dtype, ROWS, 64, 64))
    case("untilize_" + name)(of_integers(untilize, dtype, TILE, 64, 64))
case("untilize_bfp8")(of(ttnn.untilize, 64, 64, dtype=ttnn.bfloat8_b))
case("tilize_value")(of(lambda x: ttnn.tilize_with_val_padding(x, [1, 1, 64, 64], 2.5), 33, 50, layout=ROWS))
case("tilize_zero")(of(ttnn.tilize_with_zero_padding, 33, 50, layout=ROWS))
case("untilize_unpadding")(of(lambda x: ttnn.untilize_with_unpadding(x, [0, 0, 40, 70])))
case("tilize_to_bfp8")(of(lambda x: ttnn.tilize(x, dtype=ttnn.bfloat8_b), layout=ROWS))
case("fill_implicit_padding")(of(lambda x: ttnn.fill_implicit_tile_padding(x, 3.0), 33, 50))
for kind, low, high in (("bits", 0, 256), ("denormal", 0, 4)):
    for name, function, layout in (("tilize", tilize, ROWS), ("untilize", untilize, TILE)):

        def program(t, function=function, layout=layout, low=low, high=high):
            x = t.tensor(t.exponents(low, high, 64, 128), layout=layout)
            return lambda: function(x)

        case("%s_%s" % (name, kind))(program)

# Interleaved memory.
case("to_l1", short=True)(of(lambda x: ttnn.to_memory_config(x, L1)))
case("to_dram")(of(lambda x: ttnn.to_memory_config(x, DRAM), memory=L1))
case("clone")(of(ttnn.clone))
case("clone_l1")(of(lambda x: ttnn.clone(x, memory_config=L1)))
case("clone_rows")(of(ttnn.clone, layout=ROWS))
case("clone_to_f32")(of(lambda x: ttnn.clone(x, dtype=ttnn.float32)))
case("reallocate", replay=False)(of(ttnn.reallocate, memory=L1))
case("to_device_layouts", replay=False)(
    lambda t: [t.normal(*s, layout=lay, memory=m) for s in ((32, 64), (30, 50), (1, 3, 17, 48)) for lay in (TILE, ROWS) for m in (DRAM, L1)]
)

# Shards: interleaved to sharded and back, resharding.
SHARDS = {"height": (2, 2, HEIGHT), "width": (1, 4, WIDTH), "block": (2, 2, BLOCK)}
for name, where in SHARDS.items():

    def to_shards(t, where=where):
        x, m = t.normal(128, 128), t.shards((128, 128), *where)
        return lambda: ttnn.to_memory_config(x, m)

    def from_shards(t, where=where):
        x = t.normal(128, 128, memory=t.shards((128, 128), *where))
        return lambda: ttnn.to_memory_config(x, DRAM)

    def add(t, where=where):
        x, y = (t.normal(128, 128, memory=t.shards((128, 128), *where)) for _ in range(2))
        return lambda: ttnn.add(x, y)

    def relu(t, where=where):
        x = t.normal(128, 128, memory=t.shards((128, 128), *where))
        return lambda: ttnn.relu(x)

    def rows(t, where=where):
        x, m = t.normal(128, 128, layout=ROWS), t.shards((128, 128), *where)
        return lambda: ttnn.to_memory_config(ttnn.to_memory_config(x, m), DRAM)

    case("to_%s_shards" % name, short=name == "height")(to_shards)
    case("from_%s_shards" % name)(from_shards)
    case("add_%s_shards" % name)(add)
    case("relu_%s_shards" % name)(relu)
    case("rows_%s_shards" % name)(rows)


def reshard(a, b, function):
    def program(t):
        x, m = t.normal(128, 128, memory=t.shards((128, 128), *a)), t.shards((128, 128), *b)
        return lambda: function(x, m)

    return program


case("reshard_height_block")(reshard((2, 2, HEIGHT), (2, 2, BLOCK), ttnn.to_memory_config))
case("reshard_width_height")(reshard((1, 4, WIDTH), (4, 1, HEIGHT), ttnn.reshard))
case("reshard_block_width")(reshard((2, 2, BLOCK), (1, 4, WIDTH), ttnn.to_memory_config))
case("reshard_column_major")(reshard((2, 2, BLOCK), (2, 2, BLOCK, COLUMNS), ttnn.to_memory_config))
case("reshard_fewer_cores")(reshard((4, 1, HEIGHT), (2, 1, HEIGHT), ttnn.reshard))


@case("rows_from_shards")
def _(t):
    x = t.normal(128, 128, layout=ROWS, memory=t.shards((128, 128), 2, 2, HEIGHT))
    return lambda: ttnn.to_memory_config(x, DRAM)


@case("reshard_from_dram")
def _(t):
    x, m = t.normal(128, 128, memory=t.dram_shards((32, 128), 4)), t.shards((128, 128), 2, 2, HEIGHT)
    return lambda: ttnn.to_memory_config(x, m)


@case("reshard_to_dram")
def _(t):
    x, m = t.normal(128, 128, memory=t.shards((128, 128), 2, 2, HEIGHT)), t.dram_shards((32, 128), 4)
    return lambda: ttnn.to_memory_config(x, m)


@case("shards_odd_grid")
def _(t):
    x = t.normal(160, 64)
    m = ttnn.MemoryConfig(
        ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, ttnn.ShardSpec(cores(5, 1), [32, 64], ttnn.ShardOrientation.ROW_MAJOR)
    )
    return lambda: ttnn.to_memory_config(x, m)


@case("shards_uneven")
def _(t):
    x = t.normal(96, 64)
    m = ttnn.MemoryConfig(
        ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, ttnn.ShardSpec(cores(2, 1), [64, 64], ttnn.ShardOrientation.ROW_MAJOR)
    )
    return lambda: ttnn.to_memory_config(x, m)


@case("tilize_shards")
def _(t):
    x = t.normal(128, 64, layout=ROWS, memory=t.shards((128, 64), 2, 2, HEIGHT))
    return lambda: ttnn.to_layout(x, TILE)


@case("untilize_shards")
def _(t):
    x = t.normal(128, 64, memory=t.shards((128, 64), 2, 2, HEIGHT))
    return lambda: ttnn.to_layout(x, ROWS)


@case("add_mixed_shards")
def _(t):
    x, y = t.normal(128, 128, memory=t.shards((128, 128), 2, 2, HEIGHT)), t.normal(128, 128)
    return lambda: ttnn.add(x, y)


@case("partial_shards")
def _(t):
    x = t.normal(128, 64)
    m = ttnn.create_sharded_memory_config([64, 64], ttnn.CoreGrid(y=1, x=2), HEIGHT)
    return lambda: [ttnn.interleaved_to_sharded_partial(x, (2, 1), [32, 64], 2, i, ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.ShardOrientation.ROW_MAJOR) for i in range(2)]


# Formats.
cast = group("cast")
BF16, FP32, INT32, UINT32, UINT16, BFP8, BFP4 = ttnn.bfloat16, ttnn.float32, ttnn.int32, ttnn.uint32, ttnn.uint16, ttnn.bfloat8_b, ttnn.bfloat4_b
NAMES = {"bf16": BF16, "f32": FP32, "i32": INT32, "u32": UINT32, "u16": UINT16, "bfp8": BFP8, "bfp4": BFP4}


def typecast(source, target):
    def program(t):
        if source in (BF16, FP32, BFP8, BFP4):
            low = 0 if target in (UINT32, UINT16) else -1
            x = t.tensor(np.maximum(t.array(64, 64), low) * 100 if target in (INT32, UINT32, UINT16) else t.array(64, 64) * 100, source)
        else:
            x = t.integers(-1000 if source == INT32 and target not in (UINT32, UINT16) else 0, 1000, 64, 64, dtype=source)
        return lambda: ttnn.typecast(x, target)

    return program


FURTHER = {("f32", "i32"), ("i32", "f32"), ("f32", "u32"), ("u32", "f32"), ("f32", "bfp8"), ("u16", "u32"), ("u32", "u16"), ("bfp8", "bfp4"), ("i32", "u32")}
for source in NAMES:
    for target in NAMES:
        if source != target and "bf16" in (source, target) or (source, target) in FURTHER:
            cast("%s_%s" % (source, target), short=(source, target) == ("bf16", "bfp8"))(typecast(NAMES[source], NAMES[target]))


@cast("bf16_bfp8_bits")
def _(t):
    x = t.tensor(t.exponents(0, 256, 64, 128))
    return lambda: ttnn.typecast(x, BFP8)


@cast("bf16_bfp8_denormal")
def _(t):
    x = t.tensor(t.exponents(0, 4, 64, 128))
    return lambda: ttnn.typecast(x, BFP8)


@cast("bf16_bfp4_bits")
def _(t):
    x = t.tensor(t.exponents(0, 256, 64, 128))
    return lambda: ttnn.typecast(x, BFP4)


@cast("f32_i32_large")
def _(t):
    x = t.tensor(t.array(64, 64) * 1e9, FP32)
    return lambda: ttnn.typecast(x, INT32)


@cast("bitcast_f32_i32")
def _(t):
    x = t.normal(64, 64, dtype=FP32)
    return lambda: ttnn.bitcast(x, INT32)


@cast("bitcast_bf16_u16")
def _(t):
    x = t.every_bfloat16()
    return lambda: ttnn.bitcast(x, UINT16)


@cast("quantize")
def _(t):
    x = t.normal(64, 64, dtype=FP32)
    return lambda: ttnn.quantize(x, 0.05, 3)


@cast("dequantize")
def _(t):
    x = t.integers(-128, 128, 64, 64)
    return lambda: ttnn.dequantize(x, 0.05, 3)


@cast("requantize")
def _(t):
    x = t.integers(-128, 128, 64, 64)
    return lambda: ttnn.requantize(x, 0.05, 3, 0.1, -2)
