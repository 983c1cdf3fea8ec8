"""Two datasets of images, one residual network with two heads."""
