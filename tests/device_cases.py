"""How methods are called where their results on two devices are compared; data only."""

# An optimization amplifies rounding from step to step: its first ones are compared, which all the same
# pass everything that may lie on the wrong device. One step of Adam is as long as the learning rate
# whatever the gradient's size; the second step of the descent of extremal perturbations is the first
# with momentum.
FEW_STEPS = {
    "extremal-perturbation": {"iterations": 2},
    "iba": {"steps": 1},
    "input-iba": {"steps": 1, "feature_steps": 1, "epochs": 1},
    "kernel-shap": {"n_samples": 50},
    "lime": {"n_samples": 50},
    "rise": {"n_samples": 50},
    "rise-uniform": {"n_samples": 50},
}
OF_ATTENTION = ("attention-rollout", "chefer-lrp")  # the environments' networks have none
