"""Parts of transformers: heads, attention, rotary embeddings, caches."""
import numpy as np
import ttnn

from programs.corpus import HEIGHT, ROWS, group

case = group("transformer")


def of(function, *shape, **named):
    def program(t):
        x = t.normal(*shape, **named)
        return lambda: function(x)

    return program


case("concatenate_heads")(of(ttnn.transformer.concatenate_heads, 1, 4, 32, 32))
case("split_heads")(of(lambda x: ttnn.transformer.split_query_key_value_and_split_heads(x, num_heads=2), 1, 32, 192))
case("split_heads_no_transpose")(of(lambda x: ttnn.transformer.split_query_key_value_and_split_heads(x, num_heads=2, transpose_key=False), 1, 32, 192))
case("qkv_heads")(of(lambda x: ttnn.experimental.nlp_create_qkv_heads(x, num_heads=2, num_kv_heads=2, transpose_k_heads=False), 32, 192))
case("qkv_heads_transposed")(of(lambda x: ttnn.experimental.nlp_create_qkv_heads(x, num_heads=2, num_kv_heads=2, transpose_k_heads=True), 32, 192))
case("grouped_heads")(of(lambda x: ttnn.experimental.nlp_create_qkv_heads(x, num_heads=4, num_kv_heads=1, transpose_k_heads=False), 32, 192))
case("nlp_concat_heads")(of(ttnn.experimental.nlp_concat_heads, 1, 2, 32, 64))


def attention(shape=(1, 1, 64, 64), **named):
    def program(t):
        q, k, v = (t.normal(*shape) for _ in range(3))
        return lambda: ttnn.transformer.scaled_dot_product_attention(q, k, v, **named)

    return program


case("attention_causal")(attention(is_causal=True))
case("attention")(attention(is_causal=False))
case("attention_heads")(attention((1, 2, 64, 32), is_causal=True, scale=0.3))


@case("attention_masked")
def _(t):
    q, k, v = (t.normal(1, 1, 64, 64) for _ in range(3))
    mask = t.normal(1, 1, 64, 64)
    return lambda: ttnn.transformer.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=False)


@case("attention_decode")
def _(t):
    q, k, v = t.normal(1, 1, 32, 64), t.normal(1, 1, 128, 64), t.normal(1, 1, 128, 64)
    config = ttnn.SDPAProgramConfig(compute_with_storage_grid_size=(4, 2), q_chunk_size=32, k_chunk_size=32)
    return lambda: ttnn.transformer.scaled_dot_product_attention_decode(q, k, v, cur_pos=[70], program_config=config)


@case("rotary_embedding")
def _(t):
    x = t.normal(1, 2, 32, 64)
    angles = np.outer(np.arange(32), 1 / 100 ** (np.arange(64) % 32 / 32)).reshape(1, 1, 32, 64)
    cos, sin = t.tensor(np.cos(angles).astype(np.float32)), t.tensor(np.sin(angles).astype(np.float32))
    return lambda: ttnn.experimental.rotary_embedding(x, cos, sin)


@case("fill_cache")
def _(t):
    cache, x = t.normal(2, 1, 128, 64), t.normal(1, 1, 64, 64)
    return lambda: [ttnn.fill_cache(cache, x, 1), cache][1]


@case("update_cache")
def _(t):
    cache, x = t.normal(32, 1, 64, 64), t.normal(1, 1, 32, 64)
    return lambda: [ttnn.update_cache(cache, x, 40), cache][1]


@case("paged_update_cache")
def _(t):
    cache = t.normal(2, 1, 64, 64)
    x = t.normal(1, 2, 32, 64, memory=t.shards((1, 2, 32, 64), 1, 2, HEIGHT))
    return lambda: [ttnn.experimental.paged_update_cache(cache, x, update_idxs=[5, 33]), cache][1]


@case("feed_forward")
def _(t):
    x, gate, up, down = t.normal(32, 64), t.normal(64, 128), t.normal(64, 128), t.normal(128, 64)
    return lambda: ttnn.matmul(ttnn.multiply(ttnn.silu(ttnn.matmul(x, gate)), ttnn.matmul(x, up)), down)
