"""Images that an untrained network classifies rightly, and what explanations show of them."""
