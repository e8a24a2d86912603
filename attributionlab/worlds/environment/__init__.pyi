from .environment import Environment as Environment
