"""mesh.py [--trace] [--mesh=ROWSxCOLUMNS] OP...: runs operations on all chips of the machine, a mesh, and compares with numpy.

OP is add, which needs no traffic between chips, or all_gather, reduce_scatter, all_reduce, broadcast or product (a matrix product whose
parts all_reduce adds) over TT-NN's fabric, along the second axis of the mesh. broadcast has one sender, and is for a mesh of one row. --trace also runs each in a trace. The mesh is
1xCHIPS if --mesh is absent."""
import argparse

import numpy as np
import ttnn

parser = argparse.ArgumentParser()
parser.add_argument("--trace", action="store_true")
parser.add_argument("--mesh")
parser.add_argument("ops", nargs="+")
args = parser.parse_args()

rows, columns = (int(n) for n in args.mesh.split("x")) if args.mesh else (1, ttnn.get_num_devices())
fabric = args.ops != ["add"]
if fabric:
    ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
mesh = ttnn.open_mesh_device(ttnn.MeshShape(rows, columns), trace_region_size=(1 << 20) if args.trace else 0)

# Integers so small that bfloat16 has all sums exactly, in whatever order. Chip (i, j) has own[i, j].
own = np.random.default_rng(1).integers(-16, 17, (rows, columns, 1, 1, 32, 64 * columns)).astype(np.float32)
whole = own.transpose(2, 3, 0, 4, 1, 5).reshape(1, 1, 32 * rows, -1)
tensor = ttnn.Tensor(whole.flatten().tolist(), list(whole.shape), ttnn.bfloat16, ttnn.TILE_LAYOUT)
shards = ttnn.to_device(ttnn.distribute_tensor(tensor, ttnn.ShardTensor2dMesh(mesh, (rows, columns), (2, 3))), mesh)
along = {"topology": ttnn.Topology.Linear, **({"cluster_axis": 1} if rows > 1 else {})}

twice = 2 * np.eye(64 * columns, dtype=np.float32)
weights = ttnn.to_device(ttnn.distribute_tensor(ttnn.Tensor(twice.flatten().tolist(), [1, 1, *twice.shape], ttnn.bfloat16, ttnn.TILE_LAYOUT), ttnn.replicate_tensor_to_mesh_mapper(mesh)), mesh)

# By name, the operation and what it gives chip j of a row whose chips have the array row.
OPS = {
    "add": (lambda: ttnn.add(shards, shards), lambda row, j: 2 * row[j]),
    "all_gather": (lambda: ttnn.all_gather(shards, dim=3, **along), lambda row, j: np.concatenate(list(row), axis=3)),
    "reduce_scatter": (lambda: ttnn.reduce_scatter(shards, dim=3, **along), lambda row, j: np.split(row.sum(axis=0), columns, axis=3)[j]),
    "all_reduce": (lambda: ttnn.all_reduce(shards, **along), lambda row, j: row.sum(axis=0)),
    "product": (lambda: ttnn.all_reduce(ttnn.matmul(shards, weights), **along), lambda row, j: 2 * row.sum(axis=0)),
    "broadcast": (lambda: ttnn.broadcast(shards, ttnn.MeshCoordinate(0, 0), **along), lambda row, j: row[0]),
}


def check(name, y, result):
    got = [np.array(ttnn.from_device(part).to_list(), np.float32) for part in ttnn.get_device_tensors(y)]
    want = [result(own[i], j) for i in range(rows) for j in range(columns)]
    assert len(got) == len(want) and all(np.array_equal(g, w) for g, w in zip(got, want)), name
    print(name, "equal", flush=True)


for op in args.ops:
    run, result = OPS[op]
    check(op, run(), result)
    if args.trace:
        trace = ttnn.begin_trace_capture(mesh, cq_id=0)
        y = run()
        ttnn.end_trace_capture(mesh, trace, cq_id=0)
        for _ in range(3):
            ttnn.execute_trace(mesh, trace, cq_id=0, blocking=True)
        check(op + " traced", y, result)
        ttnn.release_trace(mesh, trace)
ttnn.close_mesh_device(mesh)
if fabric:
    ttnn.set_fabric_config(ttnn.FabricConfig.DISABLED)
