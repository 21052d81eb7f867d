"""A process that forks while it has a device: what the child may do, and that the parent goes on."""
import os
import sys

import ttnn

device = ttnn.open_device(device_id=0)
child = os.fork()
if child == 0:
    if sys.argv[1] == "use":
        ttnn.Tensor([1.0] * 1024, [1, 1, 32, 32], ttnn.bfloat16, ttnn.TILE_LAYOUT).to(device)
    os._exit(7)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
ones = ttnn.Tensor([1.0] * 1024, [1, 1, 32, 32], ttnn.bfloat16, ttnn.TILE_LAYOUT).to(device)
print("parent", ttnn.from_device(ones).to_list()[0][0][0][0])
ttnn.close_device(device)
