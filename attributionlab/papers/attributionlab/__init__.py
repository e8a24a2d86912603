"""AttributionLab: Faithfulness of Feature Attribution Under Controllable Environments."""
