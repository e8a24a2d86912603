"""AttributionLab's panels on photographs: with a user's images and network, or with drawn pictures."""
