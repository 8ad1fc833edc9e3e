"""What does each attention of a Hugging Face network know? A(alpha, beta) and A(delta, beta), layer by layer.

    python examples/every_site.py RUN [--runs DIR] [--sentences N]

The run's network is looked at where you did not look when you trained it: nothing is trained again.
"""

import argparse

import numpy as np

from ktiwprobe import agree, build_registry, probe
from ktiwprobe.probes.extraction import Extractor
from ktiwprobe.runs.listing import find_run
from ktiwprobe.runs.run import runs_folder
from ktiwprobe.views.tables import Table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="as `ktiwprobe ls runs` names it")
    parser.add_argument("--runs", help="folder of the runs")
    parser.add_argument("--sentences", type=int, default=100, help="of the validation split, the first ones")
    arguments = parser.parse_args()

    extractor = Extractor(find_run(runs_folder(arguments.runs), arguments.run), build_registry())
    model, part = extractor.model(extractor.step("best")), extractor.part
    some = part.subset(np.arange(min(arguments.sentences, len(part))))
    batches = [some.batch(rows).to(model.device) for rows in some.by_length()]
    delta, rows = probe(model, batches, "delta"), []
    for layer in (layer for layer in model.layers if layer.group in model.groups):
        model.look_at(layer.name)
        alpha, beta = (probe(model, batches, name) for name in ("alpha", "beta"))
        mean, salient = agree(alpha, beta), agree(delta, beta)
        heads = {site: agree(alpha.one_site(site), beta).value for site in alpha.sites}
        best = max(heads, key=heads.get)
        rows.append({
            "site": layer.name, "A(alpha, beta)": mean.value, "low": mean.ci[0], "high": mean.ci[1],
            "best head": best.rpartition(".")[2], "its A": heads[best], "A(delta, beta)": salient.value,
            "A(alpha, delta)": agree(alpha, delta).value, "chance": mean.baseline,
        })  # fmt: skip
    print(Table(rows))
    print(f"{extractor.run.name}, step {extractor.step('best')}, {len(some)} sentences, {mean.rows} rows")


if __name__ == "__main__":
    main()
