"""An environment: one hand-weighted network, one generator of images, and their truth."""
