"""What fine-tuning on images without a patch changes: accuracy, features, rankings of methods."""
