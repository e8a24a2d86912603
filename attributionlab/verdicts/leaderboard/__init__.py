"""A leaderboard of methods: rankings of many cases made one, and held against the truth."""
