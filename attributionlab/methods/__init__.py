"""Attribution methods by name, and an adapter for your own.

Where they are, family by family:

- `gradients`, `relevance` (DeepLift, DeepSHAP, LRP), `excitation`, and `paths` (integrated gradients,
  GradientSHAP)
- superpixels and pixels removed: `ablation` (occlusion, too), `surrogate` (LIME), `shapley`,
  which share `coalitions`
- masks: `random_masks` (RISE), `extremal`
- a layer's maps: `cam`, `cam_passes`; information bottlenecks: `bottleneck` (IBA), `input_bottleneck`
  (InputIBA)
- transformers: `attention` (rollout, Chefer's LRP), `attention_aware` (AttnLRP), with
  `attention_matrices`, `tokens`, `transformer_relevance`
- made of any method: `ensembles`, `derivation`, `suffixes` (of names)

`registry` has methods and the settings of papers by name; `adapter`, `calling` and `run` call methods
in a test. What methods share: `declaration` (what
one claims, takes and refuses), `answers` (what a direct call makes of other outputs,
targets and inputs), `baselines`, `layers`, `batching` (memory), `outputs` (the one explained), `graph`
(what a forward pass did), `guards` and `notices` (what is wrong with a result), `defaults` (what a
direct call may leave out). `explaining` calls several on a user's own network.
"""

from attributionlab.base import public_face

__getattr__, __dir__, __all__ = public_face(__name__, __file__)
