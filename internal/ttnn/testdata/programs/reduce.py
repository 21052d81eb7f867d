"""Reductions, scans, and what orders values: topk, sort, argmax."""
import ttnn

from programs.corpus import L1, ROWS, group

case = group("reduce")


def of(function, *shape, **named):
    """A program that applies function to one tensor of normal values."""

    def program(t):
        x = t.normal(*(shape or (64, 64)), **named)
        return lambda: function(x)

    return program


for name in ("sum", "mean", "max", "min"):
    for dim in range(4):
        if name == "min" and dim < 2:
            continue
        case("%s_dim%d" % (name, dim), short=(name, dim) == ("sum", 3))(
            of(lambda x, name=name, dim=dim: getattr(ttnn, name)(x, dim=dim, keepdim=True), 2, 3, 64, 96)
        )
for name in ("std", "prod"):
    for dim in (-1, -2):
        case("%s_dim%d" % (name, 4 + dim), replay=name != "prod")(of(lambda x, name=name, dim=dim: getattr(ttnn, name)(x, dim=dim)))
for name in ("sum", "max"):
    case(name + "_f32")(of(lambda x, name=name: getattr(ttnn, name)(x, dim=-1), dtype=ttnn.float32))
    case(name + "_hw")(of(lambda x, name=name: getattr(ttnn, name)(x, dim=(-2, -1), keepdim=True), 1, 2, 64, 96))
case("sum_all")(of(ttnn.sum, 1, 2, 64, 96))
case("sum_bfp8")(of(lambda x: ttnn.sum(x, dim=-1), dtype=ttnn.bfloat8_b))
case("sum_l1")(of(lambda x: ttnn.sum(x, dim=-1), memory=L1))
case("sum_no_keepdim")(of(lambda x: ttnn.sum(x, dim=1), 2, 3, 32, 64))
case("sum_scalar")(of(lambda x: ttnn.sum(x, dim=-1, scalar=0.25)))
case("mean_odd")(of(lambda x: ttnn.mean(x, dim=-1), 33, 47))
case("max_odd")(of(lambda x: ttnn.max(x, dim=-2), 33, 47))
for kind, low, high in (("bits", 0, 256), ("denormal", 0, 4), ("huge", 250, 256)):

    def extremes(function, low=low, high=high):
        def program(t):
            x = t.tensor(t.exponents(low, high, 64, 128))
            return lambda: function(x)

        return program

    case("sum_width_" + kind)(extremes(lambda x: ttnn.sum(x, dim=3, keepdim=True)))
    case("sum_height_" + kind)(extremes(lambda x: ttnn.sum(x, dim=2, keepdim=True)))
    case("max_width_" + kind)(extremes(lambda x: ttnn.max(x, dim=3, keepdim=True)))
for name in ("cumsum", "cumprod"):
    case(name + "_dim3")(of(lambda x, name=name: getattr(ttnn, name)(x, dim=-1)))
    case(name + "_dim1")(of(lambda x, name=name: getattr(ttnn, name)(x, dim=1), 1, 4, 32, 64))
case("cumsum_f32")(of(lambda x: ttnn.cumsum(x, dim=-1, dtype=ttnn.float32)))
case("argmax", short=True)(of(lambda x: ttnn.argmax(x, dim=3, keepdim=True), 32, 64, layout=ROWS))
case("argmax_all")(of(lambda x: ttnn.argmax(x), 32, 64, layout=ROWS))
case("topk_32")(of(lambda x: ttnn.topk(x, 32, dim=-1)))
case("topk_smallest")(of(lambda x: ttnn.topk(x, 32, dim=-1, largest=False), 32, 128))
case("sort")(of(lambda x: ttnn.sort(x, dim=-1)))
case("sort_descending")(of(lambda x: ttnn.sort(x, dim=-1, descending=True), 32, 128))
case("l1_loss")(lambda t: (lambda x, y: lambda: ttnn.l1_loss(x, y))(t.normal(32, 64), t.normal(32, 64)))
case("mse_loss")(lambda t: (lambda x, y: lambda: ttnn.mse_loss(x, y))(t.normal(32, 64), t.normal(32, 64)))
