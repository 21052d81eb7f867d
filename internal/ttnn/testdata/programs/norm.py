"""Softmax and normalizations."""
import ttnn

from programs.corpus import BLOCK, HEIGHT, ROWS, TILE, WIDTH, group

softmax = group("softmax")
case = group("norm")


def of(function, *shape, **named):
    def program(t):
        x = t.normal(*(shape or (64, 64)), **named)
        return lambda: function(x)

    return program


softmax("last", short=True)(of(lambda x: ttnn.softmax(x, dim=-1)))
softmax("stable")(of(lambda x: ttnn.softmax(x, dim=-1, numeric_stable=True)))
softmax("height")(of(lambda x: ttnn.softmax(x, dim=-2)))
softmax("channel")(of(lambda x: ttnn.softmax(x, dim=1), 1, 4, 32, 64))
softmax("odd")(of(lambda x: ttnn.softmax(x, dim=-1), 33, 50))
softmax("wide")(of(lambda x: ttnn.softmax(x, dim=-1), 32, 1024))
softmax("f32")(of(lambda x: ttnn.softmax(x, dim=-1), dtype=ttnn.float32))
softmax("bfp8")(of(lambda x: ttnn.softmax(x, dim=-1), dtype=ttnn.bfloat8_b))
softmax("in_place", replay=False)(of(lambda x: ttnn.softmax_in_place(x)))
softmax("fp32_accumulation")(lambda t: (lambda x, k: lambda: ttnn.softmax(x, dim=-1, compute_kernel_config=k))(t.normal(64, 64), t.kernel(fp32=True)))


@softmax("scale_mask")
def _(t):
    x, mask = t.normal(1, 2, 64, 64), t.normal(1, 1, 1, 64)
    return lambda: ttnn.scale_mask_softmax(x, 0.125, mask)


@softmax("attention")
def _(t):
    x, mask = t.normal(1, 2, 64, 64), t.normal(1, 1, 1, 64)
    return lambda: ttnn.transformer.attention_softmax(x, head_size=32, attention_mask=mask)


@softmax("shards", replay=False)
def _(t):
    x = t.normal(1, 4, 64, 64, memory=t.shards((1, 4, 64, 64), 2, 2, HEIGHT))
    config = ttnn.SoftmaxShardedMultiCoreProgramConfig(compute_with_storage_grid_size=(2, 2), subblock_w=2, block_h=2, block_w=2)
    return lambda: ttnn.softmax_in_place(x, program_config=config)


def normalize(name, weights=False, bias=False, residual=False, shape=(64, 64), dtype=ttnn.bfloat16, kernel=None, **named):
    def program(t):
        x = t.normal(*shape, dtype=dtype)
        k = dict(named)
        for flag, key, size in ((weights, "weight", (1, shape[-1])), (bias, "bias", (1, shape[-1])), (residual, "residual_input_tensor", shape)):
            if flag:
                k[key] = t.normal(*size)
        if kernel is not None:
            k["compute_kernel_config"] = t.kernel(**kernel)
        return lambda: getattr(ttnn, name)(x, **k)

    return program


for name in ("layer_norm", "rms_norm"):
    case(name, short=name == "rms_norm")(normalize(name))
    case(name + "_weight_bias")(normalize(name, weights=True, bias=True, epsilon=1e-5))
    case(name + "_residual")(normalize(name, weights=True, residual=True))
    case(name + "_odd")(normalize(name, shape=(33, 48)))
    case(name + "_wide")(normalize(name, shape=(32, 1024)))
case("layer_norm_fp32")(normalize("layer_norm", weights=True, kernel={"fp32": True}))
case("layer_norm_f32")(normalize("layer_norm", dtype=ttnn.float32))
case("rms_norm_bfp8")(normalize("rms_norm", dtype=ttnn.bfloat8_b))


@case("layer_norm_shards")
def _(t):
    m = t.shards((64, 128), 2, 2, BLOCK)
    x, w = t.normal(64, 128, memory=m), t.normal(1, 128)
    config = ttnn.LayerNormShardedMultiCoreProgramConfig(compute_with_storage_grid_size=(2, 2), subblock_w=2, block_h=1, block_w=2, inplace=False)
    return lambda: ttnn.layer_norm(x, weight=w, program_config=config, memory_config=m)


@case("rms_norm_width_shards")
def _(t):
    m = t.shards((32, 256), 1, 4, WIDTH)
    x = t.normal(32, 256, memory=m)
    config = ttnn.LayerNormShardedMultiCoreProgramConfig(compute_with_storage_grid_size=(4, 1), subblock_w=2, block_h=1, block_w=2, inplace=False)
    return lambda: ttnn.rms_norm(x, program_config=config, memory_config=m)


@case("group_norm")
def _(t):
    grid = ttnn.CoreGrid(y=1, x=1)
    m = t.shards((64, 64), 1, 1, HEIGHT)
    x = t.normal(64, 64, layout=ROWS, memory=m)
    mask = ttnn.create_group_norm_input_mask(64, 2, 1, ttnn.bfloat16).to(t.device)
    return lambda: ttnn.group_norm(x, num_groups=2, input_mask=mask, core_grid=grid, memory_config=m, inplace=False)


@case("batch_norm")
def _(t):
    x = t.normal(2, 3, 32, 32)
    mean, weight, bias = (t.normal(1, 3, 1, 1) for _ in range(3))
    var = t.tensor(abs(t.array(1, 3, 1, 1)) + 0.5)
    return lambda: ttnn.batch_norm(x, running_mean=mean, running_var=var, training=False, eps=1e-5, weight=weight, bias=bias)


@case("batch_norm_training")
def _(t):
    x = t.normal(2, 3, 32, 32)
    mean, var = t.normal(1, 3, 1, 1), t.tensor(abs(t.array(1, 3, 1, 1)) + 0.5)
    return lambda: [ttnn.batch_norm(x, running_mean=mean, running_var=var, training=True, eps=1e-5, momentum=0.1), mean, var]


case("normalize_global")(of(ttnn.normalize_global))
for name in ("glu", "geglu"):
    case(name)(of(lambda x, name=name: getattr(ttnn, name)(x, -1), 32, 128))
