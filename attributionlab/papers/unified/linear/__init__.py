"""Wang and Wang (2022) where everything is known: linear models, small sets, hand-set weights."""
