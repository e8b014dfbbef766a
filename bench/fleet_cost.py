#!/usr/bin/env python3
"""What a large model with many rollouts costs its trainer an update, from constants measured elsewhere.

usage: bench/fleet_cost.py [NAME=VALUE]...   prints the constants with where they come from, then a table"""
import sys

constants = {  # bench/NOTES.md, tables R and S (AVX-512, 2 threads), and `bench_fleet --peers 1000`
    "params": (1e12, "elements, bf16"),
    "peers": (1000, "rollouts"),
    "sites": (20, "relays that the trainer feeds, each with its share of the rollouts"),
    "hosts": (1, "trainer hosts that the model is spread over, each with its NIC (weft has one today)"),
    "threads": (64, "threads that encode; speed taken as linear from two on"),
    "nic_gbit": (400, "the trainer's NIC"),
    "line": (0.94, "share of the line that data reach"),
    "peer_gbit": (10, "a rollout's link"),
    "encode_gb_s": (16.46 / 2, "dense GB/s a thread, diff + encode tight"),
    "decode_gb_s": (18.46 / 2, "dense GB/s a thread, decode + apply tight"),
    "decode_threads": (8, "threads that decode at a rollout, linear"),
    "peer_us": (54, "trainer's CPU microseconds a peer and update, worst case"),
    "peer_bytes": (105536, "trainer's bytes a peer"),
    "journal_versions": (8, "versions that the journal keeps, at level fast"),
}
cases = [("1.17 % changed", 0.0117, 6.54, 9.65), ("0.3 % changed", 0.003, 6.45, 10.5)]  # 0.3 %: bar R3, fast estimated

values = {name: value for name, (value, _) in constants.items()}
for word in sys.argv[1:]:
    name, _, value = word.partition("=")
    if name not in values or not value:
        sys.exit(__doc__ + "\n\nnames: " + ", ".join(values))
    values[name] = float(value)
c = type("Constants", (), values)

for name, (_, what) in constants.items():
    print(f"{name:17} {values[name]:>16,.6g}  {what}")
dense = 2 * c.params
print(f"\n| {c.params:.3g} parameters, {c.peers:.0f} rollouts | " + " | ".join(case[0] for case in cases) +
      " |\n|---|" + "---|" * len(cases))
rows = {}
for _, share, tight, fast in cases:
    update = c.params * share * tight / 8
    wire = lambda copies, gbit: copies * update / (c.line * gbit * 1e9 / 8)
    encode = dense / (c.encode_gb_s * 1e9 * c.threads * c.hosts)
    decode = dense / (c.decode_gb_s * 1e9 * c.decode_threads)
    for name, text in [
        ("one update, level tight", f"{update / 1e9:.2f} GB ({dense / update:.0f} times less than dense)"),
        ("diff + encode", f"{encode:.1f} s"),
        ("decode + apply at a rollout", f"{decode:.1f} s"),
        ("trainer's NIC, direct", f"{c.peers * update / 1e12:.3g} TB, {wire(c.peers / c.hosts, c.nic_gbit):.0f} s"),
        ("trainer's NIC, through relays",
         f"{c.sites * update / 1e9:.0f} GB, {wire(c.sites / c.hosts, c.nic_gbit):.1f} s"),
        ("a rollout's link", f"{wire(1, c.peer_gbit):.1f} s"),
        ("dense instead, on a rollout's link", f"{dense / (c.line * c.peer_gbit * 1e9 / 8):.0f} s"),
        ("trainer's CPU for all peers", f"{c.peers * c.peer_us / 1e6:.2f} s"),
        ("trainer's memory: shadow", f"{dense / 1e12:.1f} TB"),
        ("journal", f"{c.journal_versions * c.params * share * fast / 8 / 1e9:.0f} GB"),
        ("all peers", f"{c.peers * c.peer_bytes / 1e6:.0f} MB"),
    ]:
        rows.setdefault(name, []).append(text)
for name, texts in rows.items():
    print(f"| {name} | " + " | ".join(texts) + " |")
