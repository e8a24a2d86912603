"""Does an evaluation metric rank attributions as the truth does, also on unseen data?"""
