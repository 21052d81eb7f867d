"""Convolutions and pools."""
import ttnn

from programs.corpus import ROWS, group

case = group("conv")
BLOCKS, HEIGHTS, WIDTHS = ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.TensorMemoryLayout.WIDTH_SHARDED


def conv2d(inputs=32, outputs=32, size=8, kernel=3, stride=1, padding=None, groups=1, dilation=1, bias=False, dtype=ttnn.bfloat16, batch=1, shards=None, kernel_config=None, **config):
    padding = kernel // 2 if padding is None else padding

    def program(t):
        x = t.normal(1, 1, batch * size * size, inputs, layout=ROWS)
        w = t.host(t.array(outputs, inputs // groups, kernel, kernel), ttnn.float32 if dtype != ttnn.bfloat16 else dtype, ROWS)
        b = t.host(t.array(1, outputs), ttnn.float32 if dtype != ttnn.bfloat16 else dtype, ROWS) if bias else None
        named = dict(
            input_tensor=x,
            device=t.device,
            in_channels=inputs,
            out_channels=outputs,
            batch_size=batch,
            input_height=size,
            input_width=size,
            kernel_size=(kernel, kernel),
            stride=(stride, stride),
            padding=(padding, padding),
            dilation=(dilation, dilation),
            groups=groups,
            conv_config=ttnn.Conv2dConfig(weights_dtype=dtype, shard_layout=shards, **config),
        )
        if kernel_config is not None:
            named["compute_config"] = t.kernel(**kernel_config)
        y, (prepared, prepared_bias) = ttnn.conv2d(weight_tensor=w, bias_tensor=b, return_weights_and_bias=True, **named)
        first = ttnn.from_device(y)
        again = lambda: ttnn.conv2d(weight_tensor=prepared, bias_tensor=prepared_bias, **named)
        return again if first is not None else None

    return program


case("3x3", short=True)(conv2d())
case("1x1")(conv2d(kernel=1))
case("stride")(conv2d(stride=2))
case("bias")(conv2d(bias=True))
case("relu")(conv2d(bias=True, activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)))
case("depthwise")(conv2d(groups=32))
case("groups")(conv2d(groups=2, inputs=32, outputs=64))
case("few_channels")(conv2d(inputs=3, outputs=32, size=16))
case("bfp8_weights")(conv2d(dtype=ttnn.bfloat8_b))
case("block_shards")(conv2d(inputs=64, outputs=64, shards=BLOCKS))
case("width_shards")(conv2d(inputs=128, outputs=64, size=4, shards=WIDTHS))


@case("1d")
def _(t):
    x, w = t.normal(1, 32, 1, 32, layout=ROWS), t.host(t.array(32, 32, 3), layout=ROWS)
    named = dict(device=t.device, in_channels=32, out_channels=32, batch_size=1, input_length=32, kernel_size=3, stride=1, padding=1, groups=1)
    _, (prepared, _) = ttnn.conv1d(input_tensor=x, weight_tensor=w, return_weights_and_bias=True, **named)
    return lambda: ttnn.conv1d(input_tensor=x, weight_tensor=prepared, **named)


@case("transpose2d")
def _(t):
    x, w = t.normal(1, 1, 64, 32, layout=ROWS), t.host(t.array(32, 32, 3, 3), layout=ROWS)
    named = dict(
        device=t.device,
        in_channels=32,
        out_channels=32,
        batch_size=1,
        input_height=8,
        input_width=8,
        kernel_size=(3, 3),
        stride=(2, 2),
        padding=(1, 1),
        output_padding=(1, 1),
        groups=1,
    )
    _, (prepared, _) = ttnn.conv_transpose2d(input_tensor=x, weight_tensor=w, return_weights_and_bias=True, **named)
    return lambda: ttnn.conv_transpose2d(input_tensor=x, weight_tensor=prepared, **named)


pool = group("pool")


def pooled(name, kernel=2, stride=2, padding=0, size=8, channels=32, **named):
    def program(t):
        x = t.normal(1, 1, size * size, channels, layout=ROWS)
        return lambda: getattr(ttnn, name)(
            x, batch_size=1, input_h=size, input_w=size, channels=channels, kernel_size=[kernel] * 2, stride=[stride] * 2, padding=[padding] * 2, **named
        )

    return program


pool("max", short=True)(pooled("max_pool2d", dilation=[1, 1]))
pool("max_3x3")(pooled("max_pool2d", kernel=3, padding=1, dilation=[1, 1]))
pool("max_ceil")(pooled("max_pool2d", size=7, kernel=2, dilation=[1, 1], ceil_mode=True))
pool("average")(pooled("avg_pool2d"))
pool("average_3x3")(pooled("avg_pool2d", kernel=3, stride=1, padding=1))
pool("global_average")(lambda t: (lambda x: lambda: ttnn.global_avg_pool2d(x))(t.normal(1, 1, 64, 32)))
pool("adaptive_average")(lambda t: (lambda x: lambda: ttnn.adaptive_avg_pool2d(x, batch_size=1, input_h=8, input_w=8, channels=32, output_size=[2, 2]))(t.normal(1, 1, 64, 32, layout=ROWS)))
pool("upsample_bilinear")(lambda t: (lambda x: lambda: ttnn.upsample(x, 2, mode="bilinear"))(t.normal(1, 4, 4, 32, layout=ROWS)))
pool("grid_sample")(lambda t: (lambda x, g: lambda: ttnn.grid_sample(x, g))(t.normal(1, 8, 8, 32, layout=ROWS), t.tensor(t.random.uniform(-1, 1, (1, 4, 4, 2)).astype("float32"), layout=ROWS)))
