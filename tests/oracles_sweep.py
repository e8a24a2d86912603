"""How axes of a sweep combine, in plain Python."""


def combinations(axes, zipped):
    """Every combination of values of axes; those of one list in `zipped` go side by side."""
    found = [{}]
    done = set()
    for name in axes:
        if name in done:
            continue
        partners = next((group for group in zipped if name in group), [name])
        done.update(partners)
        longer = []
        for chosen in found:
            for place in range(len(axes[name])):
                new = dict(chosen)
                for partner in partners:
                    new[partner] = axes[partner][place]
                longer.append(new)
        found = longer
    return found
