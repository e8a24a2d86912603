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

# Sums of integers are exact on every device; the softmax and what follows it are not. A map is
# normalized to [-1, 1], a float32 has 2^-24 of it, and sums of up to 24 x 24 x 3 terms lose 2^11 of
# these at most.
ROUNDING = 2.0**-13
# After the first step of the descent an image is blurred a little and its colors are no integers: sums
# round, and a steep sawtooth amplifies that. The float32 map of two steps lies up to 2^-12 from that in
# float64 (`test_accelerator` holds it), that of one step 2^-20. Two devices, each twice as far off:
MORE_ROUNDING = {("single-color-modulo", "extremal-perturbation"): 4 * 2.0**-12}
