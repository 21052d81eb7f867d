import sys
import time

import ttnn

device = ttnn.open_device(device_id=0)
print("opened", flush=True)
time.sleep(600)
