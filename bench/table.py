"""Print the README's table: every architecture in data/, certified now."""

from pathlib import Path

import ffrank

DATA = Path(__file__).parent.parent / "data"
SHOWN = """
one-layer deep-bottleneck rank-one-tokens growing-width deep-6-layers heads-that-mix low-rank-values skip-connections
softmax-one-layer softmax-deep-width-3 softmax-deep-width-4 softmax-deep-width-5 softmax-deep-width-6
softmax-deep-width-7 softmax-deep-width-8 softmax-deep-width-9 softmax-deep-width-10 softmax-three-layers
normalized-scores layer-norm-block transformer-prenorm tanh-network polynomial-network-deep
"""


def main() -> None:
    print("| architecture | parameters | certified dimension | status |")
    print("|---|---|---|---|")
    for name in SHOWN.split():
        certificate = ffrank.certify(DATA / f"{name}.toml")
        shown = certificate.value if certificate.value is not None else f"{certificate.lower} to {certificate.upper}"
        print(f"| [{name}](data/{name}.toml) | {certificate.parameters} | {shown} | {certificate.status} |")


if __name__ == "__main__":
    main()
