"""Captures operations into DIR/report.json and files beside it, which TT-NN itself imports into DIR/vendors: ttnn_report.py DIR [slow]."""
import pathlib, sys, types
import ttnn

folder, slow = pathlib.Path(sys.argv[1]), len(sys.argv) > 2
torch = sys.modules["torch"] = types.ModuleType("torch")  # of which TT-NN asks whether an argument is its tensor
torch.Tensor = type("Tensor", (), {})
if slow:  # in which each operation has a graph of its own
    ttnn.tracer = types.SimpleNamespace(ENABLE_TRACER=False)
ttnn.CONFIG.enable_fast_runtime_mode = not slow
ttnn.CONFIG.enable_logging = slow
ttnn.CONFIG.enable_detailed_tensor_report = True
newer = hasattr(ttnn.graph, "record_python_operation_error")  # 0.77.0 reads the tensors of a list in the capture, and has no errors
device = ttnn.open_device(device_id=0)
ttnn.graph.enable_detailed_buffer_tracing()
ttnn.graph.enable_python_stack_traces()
ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
x, y = (ttnn.Tensor([v] * 4096, [64, 64], ttnn.bfloat16, ttnn.TILE_LAYOUT).to(device) for v in (1.0, 2.0))
a = ttnn.add(x, y, memory_config=ttnn.L1_MEMORY_CONFIG)
b = ttnn.multiply(a, y)
c = ttnn.matmul(a, b, memory_config=ttnn.L1_MEMORY_CONFIG)
ttnn.deallocate(a)
sharded = ttnn.create_sharded_memory_config((64, 64), ttnn.CoreGrid(x=2, y=2), ttnn.ShardStrategy.BLOCK)
d = ttnn.to_memory_config(c, sharded)
e = ttnn.subtract(d, x)
if newer:
    p, q = ttnn.split(ttnn.concat([b, x], dim=0), 64, dim=0)
    ttnn.multiply_(p, q)
    try:
        ttnn.matmul(x, ttnn.reshape(x, (128, 32)), memory_config=sharded)
    except RuntimeError:
        print("a product of other sizes failed")
host = ttnn.from_device(e)
s = ttnn.softmax(b, dim=-1)
ttnn.graph.end_graph_capture_to_file(str(folder / "report.json"))
ttnn.graph.import_report(folder / "report.json", folder / "vendors")
for to in folder, folder / "vendors":
    ttnn.save_config_to_json_file(to / "config.json")
ttnn.close_device(device)
print("captured")
