"""Two labels for one image: a digit overlaid on a picture, and a residual network with two heads."""
