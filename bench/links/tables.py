"""Prints the table of one bar from the JSON lines of its run: tables.py BAR FILE. Medians over the rounds."""
import json
import os
import statistics
import sys

median = statistics.median


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")


def groups(lines):
    """Rounds by label, in order of appearance."""
    found = {}
    for line in lines:
        found.setdefault(line["label"], []).append(line)
    return found


def of_peer(rounds, key, peer=0):
    return median(r["peers"][peer][key] for r in rounds)


def size(count):
    return f"{count / 2**20:.2f} MiB" if count >= 2**20 else f"{count / 2**10:.0f} KiB"


def t2(lines):
    rows = []
    for mbit, (line,) in groups(lines).items():
        weft, raw = (line["bytes"] * 8 / line[key] / 1e3 for key in ("weft_ms", "raw_ms"))
        rows.append([f"{mbit} Mbit/s", f"{weft:.1f} Mbit/s", f"{raw:.1f}", f"**{weft / float(mbit):.3f}**",
                     f"{raw / float(mbit):.3f}", f"{weft / raw:.3f}"])
    table(["wire", "weft", "raw TCP", "weft of the line (T2: 0.94)", "raw TCP of the line", "weft of raw TCP"], rows)


def t3(lines):
    rows = []
    for label, rounds in groups(lines).items():
        code = median(r["diff_ms"] + r["encode_ms"] for r in rounds)
        publish = median(r["publish_ms"] for r in rounds)
        wire, held = of_peer(rounds, "raw_ms"), of_peer(rounds, "held_ms")
        apply = median(r["peers"][0]["apply_ms"] + r["peers"][0]["commit_ms"] for r in rounds)
        bulk = of_peer(rounds, "bulk_bytes_s")
        fill = of_peer(rounds, "bucket_bytes") / bulk * 1e3
        dense = rounds[0]["dense_bytes"] / bulk * 1e3
        rows.append([label, rounds[0]["peers"][0]["level"], size(of_peer(rounds, "bytes")), f"{publish:.0f}", f"{code:.0f}",
                     f"{wire:.0f}", f"{apply:.0f}", f"{fill:.1f}", f"{held:.0f}",
                     f"**{held / (max(code, wire, apply) + fill):.2f}**", f"{dense:.0f}", f"**{dense / held:.0f}x**"])
    table(["Mbit/s, level", "served as", "bytes", "publish ms", "diff + encode ms", "wire ms (raw TCP)", "apply ms",
           "a bucket's fill ms", "held ms", "T3 (bar 1.3)", "dense ms", "T4 (bars 30x, 100x)"], rows)


def t5(lines):
    found = groups(lines)
    alone = {}
    for r in found["alone"]:
        alone.setdefault(r["peers"][0]["name"], []).append(r)
    rows = []
    for at, peer in enumerate(found["together"][0]["peers"]):
        name = peer["name"]
        single, shared = of_peer(alone[name], "held_ms"), of_peer(found["together"], "held_ms", at)
        rows.append([name, f"{peer['bulk_bytes_s'] * 8 / 1e6:.0f}", size(of_peer(alone[name], "bytes")),
                     f"{of_peer(alone[name], 'raw_ms'):.1f}", f"{single:.1f}", f"{shared:.1f}",
                     f"**{shared / single:.2f}**", size(of_peer(found["together"], "bucket_bytes", at))])
    table(["peer", "raw TCP Mbit/s", "bytes", "wire ms (raw TCP)", "alone ms", "together ms", "T5 (bar 1.1)", "bucket"], rows)


def t6(lines, folder):
    links, rows = {}, []
    for label, rounds in groups(lines).items():
        link, fixed = label.split()
        ms = of_peer(rounds, "held_ms")  # from the call of publish: buckets go out while it runs
        links.setdefault(link, []).append((fixed, of_peer(rounds, "bucket_bytes"), ms, of_peer(rounds, "raw_ms"),
                                           of_peer(rounds, "rtt_ms")))
    for link, runs in links.items():
        best = min((run for run in runs if run[0] != "auto"), key=lambda run: run[2])
        auto = next((run for run in runs if run[0] == "auto"), best)
        rows.append([link, f"{runs[0][4]:.2f}", f"{runs[0][3]:.1f}"] + [f"{run[2]:.1f}" for run in runs if run[0] != "auto"] +
                    [f"{auto[2]:.1f} ({size(auto[1])})", f"**{auto[2] / best[2]:.3f}** of {best[0]}"])
    sizes = [run[0] for run in next(iter(links.values())) if run[0] != "auto"]
    table(["link", "round trip ms", "wire ms (raw TCP)"] + [f"{s} ms" for s in sizes] + ["auto ms", "T6 (bar 1.10)"], rows)
    for link, runs in links.items():
        for name, chosen in ((link, False), (link + "-auto", True)):
            with open(os.path.join(folder, f"t6-{name}.dat"), "w") as file:
                for fixed, bucket, ms, _, _ in sorted(runs, key=lambda run: run[1]):
                    if (fixed == "auto") == chosen:
                        file.write(f"{bucket / 1024} {ms}\n")


def streams(lines):
    rows = []
    for label, rounds in groups(lines).items():
        ms = of_peer(rounds, "held_ms")
        bytes = of_peer(rounds, "bytes")
        rows.append([label, size(bytes), f"{ms:.1f}", f"{bytes * 8 / ms / 1e3:.0f}", f"{of_peer(rounds, 'raw_ms'):.1f}",
                     f"{of_peer(rounds, 'bulk_bytes_s') * 8 / 1e6:.0f}"])
    table(["streams", "bytes", "publish to held ms", "Mbit/s", "raw TCP ms, one connection", "raw TCP Mbit/s, long"],
          rows)


def rails(lines):
    rows = []
    for label, rounds in groups(lines).items():
        updates = [r for r in rounds if r.get("what") == "update"]
        (snapshot,) = [r for r in rounds if r.get("what") != "update"]
        ms, bytes = of_peer(updates, "held_ms"), of_peer(updates, "bytes")
        tiles, raw = (snapshot["bytes"] * 8 / snapshot[key] / 1e3 for key in ("weft_ms", "raw_ms"))
        rows.append([label, size(bytes), f"{ms:.0f}", f"{bytes * 8 / ms / 1e3:.0f}", f"{tiles:.0f}", f"{raw:.0f}"])
    table(["rails, Mbit/s", "bytes", "publish to held ms", "Mbit/s", "snapshot Mbit/s", "raw TCP over the control wire"],
          rows)


def cut(lines):
    rows = []
    for label, rounds in groups(lines).items():
        def of(key):
            return median(r[key] for r in rounds)

        bytes = of("bytes")
        rates = [f"{bytes * 8 / of(key) / 1e3:.0f}" for key in ("whole_ms", "left_ms", "again_ms")]
        rows.append([label, size(bytes), f"{of('whole_ms'):.0f}", rates[0], f"{of('held_ms'):.0f}",
                     f"{of('failed_ms'):.0f}", size(of("resent_bytes")), rates[1], f"{of('back_ms'):.0f}", rates[2]])
    table(["io_deadline", "bytes", "on two: held ms", "Mbit/s", "cut half way: held ms", "given up after ms", "sent again",
           "on what is left: Mbit/s", "mended: carries after ms", "on two again: Mbit/s"], rows)


def f1(lines):
    rows = []
    for label, (publish, loss) in groups(lines).items():
        rows.append([label, f"{publish['alive_ms']:.1f}", f"{publish['silent_ms']:.1f}",
                     f"**{publish['silent_ms'] / publish['alive_ms']:.3f}**",
                     f"{publish['silent_cpu_ms'] / publish['alive_cpu_ms']:.3f}",
                     f"{publish['silent_held_ms'] / publish['alive_held_ms']:.3f}", f"{loss['killed_ms']:.1f}",
                     f"{loss['silent_ms'] - loss['heartbeat_ms']:+.0f}"])
    table(["one of three is", "publish, all alive ms", "with it ms", "F1 (bar 1.1)", "CPU time", "until two hold it",
           "F2: killed, ms (bar 1000)", "F3: beyond the heartbeat, ms (bar +500)"], rows)


def f4(lines):
    rows = []
    for label, rounds in groups(lines).items():
        for missed in sorted({r["missed"] for r in rounds}):
            some = [r for r in rounds if r["missed"] == missed]
            got, merged = median(r["received_bytes"] for r in some), median(r["merged_bytes"] for r in some)
            densest = median(r["densest_bytes"] for r in some)
            rows.append([label, some[0]["level"], missed, f"{got:.0f}", f"{merged:.0f}",
                         f"{median(r['single_bytes'] for r in some):.0f}", f"**{got / merged:.3f}**",
                         f"{got / densest:.3f}", f"{median(r['held_ms'] for r in some):.0f}"])
    table(["level", "served as", "versions missed", "bytes received", "merged update", "single updates",
           "F4 (bar 1.05)", "of the merged update at tight", "join to held ms"], rows)


def f5(lines):
    one, many = lines
    rows = [[f"{line['bases']} of {line['peers']}", f"{line['publish_ms']:.2f}", f"{line['cpu_ms']:.2f}",
             f"{line['settle_ms']:.0f}", size(line["resident_bytes"])] for line in lines]
    table(["bases", "publish ms", "CPU ms of it", "until all are up to date ms", "trainer's memory"], rows)
    print(f"\nF5 (bar 1.05): publish {many['publish_ms'] / one['publish_ms']:.3f}, its CPU time "
          f"**{many['cpu_ms'] / one['cpu_ms']:.3f}**")


def peers(lines, folder):
    rows, files = [], {"direct": [], "relayed": []}
    for label, rounds in groups(lines).items():
        way, count = label.split()
        sent = median(r["wire_bytes"] for r in rounds)
        update = median(r["bytes"] for r in rounds)
        ms = median(max(p["held_ms"] for p in r["peers"]) for r in rounds)
        files[way].append(f"{count} {sent / 1e6} {ms / 1e3}\n")
        rows.append([count, way, f"{sent / 1e6:.2f} MB", f"{sent / update:.2f}", f"{ms:.0f}"])
    table(["peers", "", "the trainer's wire", "times the update", "publish until all hold it ms"], rows)
    for way, points in files.items():
        with open(os.path.join(folder, f"peers-{way}.dat"), "w") as file:
            file.writelines(points or ["# none\n0 0 0\n"])


def memory(lines):
    (m,) = lines
    limit = m["model_bytes"] + m["journal_limit_bytes"]
    bound = m["slots_bytes"] + m["staging_bytes"]
    table(["end", "resident beyond the weights", "said at open", "bar", "ratio", "allocations in "
           f"{m['updates']} updates (M3: 0)"],
          [["trainer (M1: 1.02)", size(m["trainer_bytes"]), size(m["trainer_said_bytes"]),
            f"shadow + journal = {size(limit)}", f"**{m['trainer_bytes'] / limit:.3f}**", m["trainer_allocations"]],
           ["rollout (M2)", size(m["rollout_bytes"]), size(m["rollout_said_bytes"]), f"slots + staging = {size(bound)}",
            f"**{m['rollout_bytes'] / bound:.3f}**", m["rollout_allocations"]]])


def main():
    bar, path = sys.argv[1:]
    with open(path) as file:
        lines = [json.loads(line) for line in file]
    drawn = {"t6": t6, "peers": peers}
    if bar in drawn:
        drawn[bar](lines, os.path.dirname(path))
    else:
        {"t2": t2, "t3": t3, "t5": t5, "streams": streams, "rails": rails, "cut": cut, "f1": f1, "f4": f4, "f5": f5, "memory": memory}[bar](lines)


main()
