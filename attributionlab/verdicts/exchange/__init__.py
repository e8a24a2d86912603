"""Exchange with other frameworks: environments as folders of files, and scores of maps made of them."""
