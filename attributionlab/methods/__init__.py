"""Attribution methods by name, and the adapter for everybody else's.

Where they are, family by family; what a family shares stands behind the colon:

- gradients and relevance: `gradients`, `relevance` (DeepLift, DeepSHAP, LRP), `excitation`: `winners`
- paths: `paths` (integrated gradients), `sampled_paths`, `expected_gradients` (GradientSHAP):
  `baselines`, `sampling_noise`
- superpixels and pixels removed: `perturbation` (occlusion), `ablation`, `surrogate` (LIME),
  `shapley_regression` (KernelSHAP), `shapley_sampling`: `coalitions`
- masks: `random_masks` (RISE), `extremal`: `masking`
- a layer's maps: `cam`, `cam_variants`: `layers`, `layout` (where channels lie)
- information bottlenecks: `bottleneck` (IBA), `input_bottleneck` (InputIBA): `information`,
  `adversarial`
- transformers: `attention` (rollout, Chefer's LRP): `attention_matrices`, `attention_parts`,
  `transformer_relevance`, `tokens`
- made of any method: `ensembles`, `derivation` (suffixes of names): `wrapping`

`entry` is what each asks before it begins, `guards` and `findings` what is said of its result;
`registry` has them by name; `adapter`, `calling` and `run` call methods in a test, `controls` are
maps whose verdict is known before it, `presets` has the papers' settings, `captum_guards` are the
guards of Captum's own classes. Small ones: `batching` (memory), `declaration` (what a method
claims), `maps` (what may come back), `outputs` (the one explained), `restoration` (of the model).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
