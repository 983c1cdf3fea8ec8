"""How a run is trained: steps, batches, devices, checkpoints."""
