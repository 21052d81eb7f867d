"""Random numbers by seed, and tensors made on the device."""
import ttnn

from programs.corpus import L1, ROWS, TILE, group

case = group("random")


def made(name, *shape, **named):
    def program(t):
        return getattr(ttnn, name)(list(shape or (1, 1, 64, 64)), device=t.device, **named)

    return program


case("rand", short=True)(made("rand", seed=1234))
case("rand_f32")(made("rand", seed=1234, dtype=ttnn.float32))
case("rand_range")(made("rand", seed=99, low=-3.0, high=5.0))
case("rand_i32")(made("rand", seed=99, dtype=ttnn.int32, low=0.0, high=100.0))
case("randn")(made("randn", seed=1234))
case("randn_f32")(made("randn", seed=1234, dtype=ttnn.float32))


@case("rand_seeds")
def _(t):
    return [ttnn.rand([1, 1, 32, 64], device=t.device, seed=s) for s in (1, 2, 1)]


@case("uniform")
def _(t):
    x = t.normal(64, 64)
    return ttnn.uniform(x, -1.0, 2.0, seed=42)


@case("bernoulli")
def _(t):
    x = t.tensor(t.random.random((1, 1, 64, 64), dtype="float32"))
    return ttnn.bernoulli(x, seed=42, dtype=ttnn.float32)


@case("manual_seed")
def _(t):
    ttnn.manual_seed(5, device=t.device)
    return ttnn.rand([1, 1, 32, 32], device=t.device, seed=3)


@case("dropout")
def _(t):
    x = t.normal(64, 64)
    return ttnn.experimental.dropout(x, probability=0.3, scale=1 / 0.7, seed=11)


create = group("create")
for name in ("zeros", "ones"):
    create(name)(made(name, dtype=ttnn.bfloat16, layout=TILE))
    create(name + "_i32")(made(name, dtype=ttnn.int32, layout=TILE))
create("zeros_rows")(made("zeros", dtype=ttnn.bfloat16, layout=ROWS))


@create("full")
def _(t):
    return [ttnn.full([1, 1, 32, 64], 2.5, dtype=d, layout=TILE, device=t.device) for d in (ttnn.bfloat16, ttnn.float32)]


@create("like")
def _(t):
    x = t.normal(32, 64)
    return [ttnn.zeros_like(x), ttnn.ones_like(x), ttnn.full_like(x, -1.5)]


@create("arange")
def _(t):
    return ttnn.arange(0, 100, 3, device=t.device, dtype=ttnn.bfloat16)


@create("empty")
def _(t):
    x = ttnn.empty([1, 1, 32, 64], dtype=ttnn.bfloat16, layout=TILE, device=t.device)
    return [list(x.shape), ttnn.zeros_like(x)]


@create("fill_rows")
def _(t):
    x = t.normal(32, 32, layout=ROWS)
    return [ttnn.fill_rm(1, 1, 32, 32, 31, 29, x, 1.0, -2.0), ttnn.fill_ones_rm(1, 1, 32, 32, 15, 17, x)]


@create("from_buffer")
def _(t):
    return ttnn.from_buffer(list(range(2048)), [1, 1, 32, 64], ttnn.uint32, t.device, layout=ROWS)


@create("moreh_full")
def _(t):
    return ttnn.moreh_full([32, 64], 3.5, t.device, dtype=ttnn.bfloat16, layout=TILE)
