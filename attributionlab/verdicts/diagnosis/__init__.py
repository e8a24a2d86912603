"""The likely cause of a failure: evidence from a method's maps, and rules that read it."""
