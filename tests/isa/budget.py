"""What kernels may take (budget.txt), held against what they took."""
TILE = 8192


def read(path, full):
    """{(device, kernels joined by +, case): most instructions a tile}; some are of the long form."""
    found = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            words = line.split("#")[0].split()
            if words:
                device, kernels, case, most = words[:4]
                if full or words[4:] != ["full"]:
                    found[device, kernels, case] = float(most)
    return found


def passed(device, counts, budget):
    """Says what passes its budget; counts[kernel, case] are (elements, instructions)."""
    for (of, kernels, case), most in budget.items():
        if of != device:
            continue
        taken = [counts.get((kernel, case)) for kernel in kernels.split("+")]
        if None in taken:
            yield f"{kernels} in {case}: not run, though it has a budget"
            continue
        each = sum(TILE * instructions / elements for elements, instructions in taken)
        if each > most:
            yield f"{kernels} in {case}: {each:.0f} instructions a tile, {most:.0f} allowed"
