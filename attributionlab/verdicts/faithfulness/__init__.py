"""The faithfulness test: environment -> method -> score -> verdict. `test` is its spine."""
