"""What problems train: losses, models, data and evaluation. Imported when a run is built."""
