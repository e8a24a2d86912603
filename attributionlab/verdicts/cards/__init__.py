"""Cards of evaluation metrics: what each asks, costs and cannot see, and how it was examined."""
