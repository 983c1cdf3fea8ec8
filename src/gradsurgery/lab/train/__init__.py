"""Training: chunks of steps, batches, devices, several processes, checkpoints."""
