"""Networks that are trained on the rules of worlds, and certificates that say which learned them."""
